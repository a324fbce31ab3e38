//! Shared parts of the programs that the tests run under uswap.
//!
//! What must hold: a program here passes on plain Linux, always. It therefore says nothing about uswap and does
//! not look for it; when it fails under uswap and not without, uswap is wrong. Code that a child runs between
//! fork and exit must not allocate, because another thread of the parent may have held the allocator's lock.
//!
//! Called by `churn`, `touch`, `evil` and `holds`.

pub mod arguments;
pub mod memory;
pub mod message;
pub mod pattern;
pub mod random;

/// Bytes of a page on every machine that uswap runs on today.
pub const PAGE_BYTES: usize = 4096;
