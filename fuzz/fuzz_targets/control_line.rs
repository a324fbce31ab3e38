//! A control line that is understood can be said again. The promise is in `crates/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| uswap_fuzz::control_line(bytes));
