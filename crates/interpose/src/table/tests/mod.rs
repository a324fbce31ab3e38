//! Tests of the table: that it is whole, that its sizes are the kernel's, and that the kernel
//! touches what it says.

mod losses;
mod numbers;
mod ranges;
mod sizes;
mod support;
mod touched;
mod touched_cases;
