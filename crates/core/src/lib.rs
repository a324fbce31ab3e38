//! Structures and policy of uswap: where each page is, which cells and slots are in use, what to reclaim.
//!
//! No IO, clock, thread or allocation, and no unsafe code. What processes share is a view of one slice of `AtomicU64`,
//! on the heap in tests and in the simulator, in a memfd in a real run.
//!
//! Map: [`segment`] cuts the slice into tables. [`page_word`] and [`page_table`] say where a page is, [`swap_word`] and
//! [`swap_table`] where its content is, [`pool`] holds compressed content in RAM, [`slots`] counts the room of the swap
//! files, [`files`] lists them, [`file_key`] is what they are sealed with; [`clusters`] hands out entries and slots;
//! [`mm`] lists the processes; [`memory_map`] counts where the memory of one of them is, and [`map_table`] is where it
//! says so; [`budget`] and [`counters`] hold numbers, [`balance`], [`fairness`], [`throttling`], [`pool_share`] and
//! [`write_limit`] decide from them; [`drop_behind`] decides whether what a program has just gone past goes first;
//! [`range_set`] notes ranges of one process, and [`wait_queue`] who waits for the lock of a page word.
//!
//! Must hold: there are no pointers in shared memory. Each change that others may see is one atomic operation on one
//! word, and what a killed process can leave behind is a leak of what it had reserved, which `reap` finds. Only
//! [`clusters`] has locks; they name their holder, and what they guard can be made anew. Called by `engine`, which
//! works on all of it, and by `host`, the supervisor and `sim`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod balance;
pub mod budget;
pub mod clusters;
pub mod counters;
pub mod drop_behind;
pub mod fairness;
pub mod file_key;
pub mod files;
pub mod held_files;
pub mod histogram;
pub mod latency;
pub mod map_table;
pub mod memory_map;
pub mod mm;
pub mod page_table;
pub mod page_word;
mod plant;
pub mod pool;
pub mod pool_share;
pub mod protecting;
pub mod range_set;
pub mod readahead_buffers;
pub mod refault_stats;
pub mod reuse;
pub mod segment;
pub mod slots;
pub mod stall;
pub mod swap_table;
pub mod swap_word;
pub mod throttling;
pub mod wait_queue;
pub mod working_set;
pub mod write_limit;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
mod model_tests;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
