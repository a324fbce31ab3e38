//! Any blob makes one page or none. The promise is in `crates/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| uswap_fuzz::codec_decompress(bytes));
