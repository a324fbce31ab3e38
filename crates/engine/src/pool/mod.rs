//! What becomes of pool memory, entries and slots that nobody names any more, and of pool memory that is used badly.
//!
//! Must hold: a cell, a slot or a reference is given back once, when no word names it any more. Called by
//! [`crate::evict`], [`crate::fault`] and [`crate::mapping`], which give something up ([`release`]), and by
//! [`crate::writeback`] ([`compact`]).

pub mod compact;
pub mod release;
