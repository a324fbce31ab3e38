//! Only what was sealed opens. The promise is in `crates/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| uswap_fuzz::record_open(bytes));
