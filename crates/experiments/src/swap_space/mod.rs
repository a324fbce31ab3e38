//! The space of the swap file on many CPUs: what its locks and cache lines cost there, reckoned on a machine that has
//! few.

pub mod cache;
pub mod calibration;
pub mod clock;
pub mod fragments;
pub mod linear;
pub mod ours;
pub mod picture;
pub mod program;
pub mod scenes;
pub mod simulated_time;
pub mod slots;
pub mod trees;
pub mod virtual_time;
pub mod words;
