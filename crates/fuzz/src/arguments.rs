//! The command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use clap::Parser as _;
use uswap_cli::args::Arguments;

/// Words that are split by zeros, as in `/proc/PID/cmdline`: they are taken, or refused with a message and a code.
pub fn arguments(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
    match Arguments::try_parse_from([OsString::from("uswap")].into_iter().chain(words)) {
        Ok(arguments) => assert!(!format!("{arguments:?}").is_empty()),
        Err(error) => {
            // 0: help or version was asked for.
            assert!(matches!(error.exit_code(), 0 | 2), "{}", error.exit_code());
            assert!(!error.to_string().is_empty());
        }
    }
}
