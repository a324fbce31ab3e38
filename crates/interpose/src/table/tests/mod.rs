//! Tests of the table: that it is whole, that its sizes are the kernel's, and that the kernel
//! touches what it says.

mod applied;
mod losses;
mod numbers;
mod random;
mod ranges;
mod sizes;
mod support;
mod touched;
mod touched_cases;
