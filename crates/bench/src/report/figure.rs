//! The main figure of a workload in words.

use crate::results::{Better, Cell, Workload};
use crate::statistics::{figures, median};

use super::number::{self, NOTHING};

/// `MB/s, more is better`.
pub fn unit_and_direction(workload: &Workload) -> String {
    let direction = match workload.better {
        Better::Higher => "more",
        Better::Lower => "less",
    };
    format!("{}, {direction} is better", workload.unit)
}

/// Median of the main figure.
pub fn main_median(workload: &Workload, cell: &Cell) -> String {
    median(&figures(cell, &workload.main_figure)).map_or(NOTHING.to_owned(), number::value)
}
