//! Every interleaving of a call and an eviction, with the memory model of the language.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p uswap-interpose --lib loom`.

mod calls;
mod planted;
