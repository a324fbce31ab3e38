//! Every interleaving of two or three short tasks on the shared words, with the memory model of the language.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p uswap-core --release loom`. Each model is a few operations, so that all
//! of them end within a minute.

mod clusters;
mod files;
mod isolation;
mod lending;
mod map_table;
mod mm;
mod page_word;
mod planted;
mod pool;
mod protecting;
mod readahead;
mod swap_word;
mod waiting;
