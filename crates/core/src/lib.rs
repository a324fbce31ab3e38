//! Structures and policy of uswap: where each page is, which cells and slots are in use, what to reclaim.
//!
//! No IO, clock, thread or allocation, and no unsafe code. What processes share is a view of one slice of `AtomicU64`,
//! on the heap in tests and in the simulator, in a memfd in a real run.
//!
//! | module | for |
//! |---|---|
//! | [`segment`] | cuts the shared slice into tables, and gives the view of each |
//! | [`page_word`], [`page_table`] | where each page is: the word, and the tree of words of a process |
//! | [`protecting`] | ranges that evictors are write-protecting just now |
//! | [`wait_queue`] | who waits for the lock of a page word |
//! | [`lending`] | which of a few things are lent to threads, and who waits for one |
//! | [`swap_word`], [`swap_table`] | where the content of an entry is, and who shares it |
//! | [`pool`] | compressed content in RAM, in cells |
//! | [`clusters`] | hands out entries and slots, in groups of 512 |
//! | [`slots`], [`files`] | the room of the swap files, and the files |
//! | [`held_files`] | which of them a process has open |
//! | [`file_key`] | what the files are sealed with |
//! | [`readahead_buffers`] | parts of a file that were read ahead of a fault |
//! | [`mm`] | the processes of a run, one record each |
//! | [`memory_map`], [`map_table`] | where the memory of a process is, counted, and where it is told |
//! | [`budget`], [`balance`] | used memory and its limit in shared words; the watermarks, and how much to reclaim |
//! | [`fairness`], [`throttling`] | from which process pages are taken, and what a fault does that needs room |
//! | [`pool_share`] | how large the pool is and how it compresses |
//! | [`reuse`] | after how many others a stored page comes back |
//! | [`drop_behind`] | whether what a program has just gone past goes first |
//! | [`refault_stats`], [`working_set`] | what was taken from a process and came back, and whether that was in use |
//! | [`write_limit`] | how many bytes may be written in a day |
//! | [`counters`] | what is counted |
//! | [`histogram`], [`latency`], [`stall`] | sizes, and how long faults and processes wait |
//! | [`range_set`] | ranges of addresses of one process |
//! | [`plant`] | bugs that the model checkers must find |
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
pub mod lending;
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
