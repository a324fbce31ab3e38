//! Any system call names ranges of the address space. The promise is in `crates/fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| uswap_fuzz::system_calls(bytes));
