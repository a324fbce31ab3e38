//! What is measured: each scene is some work, done by each of the allocators that can do it.

use serde::Serialize;

use super::clock::Measured;

pub mod folios;
pub mod held;
pub mod one_page;
pub mod pages;
pub mod single_pages;

/// How large and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// So small that tests do it: it shows that the scenes run, not what is faster.
    Short,
    /// What is published.
    Full,
}

/// One figure of the tables.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was done.
    pub setting: String,
    /// By whom.
    pub who: &'static str,
    /// How fast.
    pub measured: Measured,
    /// Of large runs, the percentage that was not found and had to be split. Only scene `folios` has it.
    pub fallback_percent: Option<f64>,
    /// Of those, the percentage of which there was one somewhere.
    pub avoidable_percent: Option<f64>,
}

/// The name of ours in all tables and pictures.
pub const OURS: &str = "uswap";

/// Rows of a scene under its name.
#[derive(Clone, Debug, Serialize)]
pub struct Scene {
    /// Short.
    pub name: &'static str,
    /// What an operation is.
    pub operation: &'static str,
    /// In the order of measuring.
    pub rows: Vec<Row>,
}
