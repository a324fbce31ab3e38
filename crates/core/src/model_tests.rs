//! Tests of each structure against a simple model: lists of operations, compared after every step; and short races of
//! real threads.
//!
//! The operands of an operation are taken modulo what exists, so that shrinking keeps a list meaningful.

mod clusters;
mod drop_behind;
mod files;
mod fuzz;
mod memory_map;
mod page_table;
mod page_word;
mod page_word_cases;
mod pool;
mod range_set;
mod readahead_buffers;
mod segment;
mod slots;
mod swap_table;
mod threads;

use crate::segment::{Geometry, Segment};
use std::vec::Vec;
use uswap_sync::AtomicU64;

/// Small tables: large enough to be full within one test.
const SMALL: Geometry = Geometry { mms: 8, tables: 24, entries: 1024, zspages: 6, slots: 64, readahead: 0 };

/// Zeroed words for a segment of this geometry.
fn words_for(geometry: Geometry) -> Vec<AtomicU64> {
    (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect()
}

/// Runs `test` on a fresh segment.
fn with_segment<T>(geometry: Geometry, test: impl FnOnce(Segment<'_>) -> T) -> T {
    let words = words_for(geometry);
    test(Segment::create(&words, geometry))
}
