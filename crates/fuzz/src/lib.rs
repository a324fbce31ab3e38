//! What must hold for any bytes that come from outside of a process: from a disk, a socket, a command line, or a
//! program that makes system calls.
//!
//! One function a target. Each takes any bytes and panics if a promise is broken. `cargo fuzz run TARGET` calls them
//! with bytes that reach more and more code (`fuzz/`); `cargo xtask fuzz` calls them with the inputs of `fuzz/corpus`
//! and with random changes of those, on any compiler. Nothing here is part of the product.
#![forbid(unsafe_code)]

mod arguments;
mod codec;
mod control;
mod record;
mod system_calls;

#[cfg(test)]
mod random;

pub use arguments::arguments;
pub use codec::{codec_decompress, codec_round_trip};
pub use control::control_line;
pub use record::record_open;
pub use system_calls::system_calls;
