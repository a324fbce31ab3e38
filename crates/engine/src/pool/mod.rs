//! What becomes of pool memory, entries and slots that nobody names any more, and of pool memory that is used badly.

pub mod compact;
pub mod release;
