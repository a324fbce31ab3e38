//! The space of the swap file on many CPUs: what its locks and cache lines cost there, reckoned on a machine that has few.

pub mod calibration;
pub mod made_up_time;
pub mod ours;
pub mod virtual_time;
