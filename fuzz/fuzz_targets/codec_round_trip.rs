//! Any page that is compressed comes back. The promise is in `crates/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| uswap_fuzz::codec_round_trip(bytes));
