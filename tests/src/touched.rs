//! `touch` with four times its budget of bytes that do not compress, for tests of the swap file: most of it goes there.
//! Called by the tests of bad disks and of several swap files; its checksum also by those of rounds.

use crate::places::program;
use crate::run::{Outcome, Run};
use std::sync::OnceLock;
use std::time::Duration;

/// The budget that goes with it.
pub const BUDGET_MIB: u64 = 50;

/// Fills 200 MiB, reads here and there, and prints a checksum of all at the end.
pub fn touch() -> Run {
    let words = ["--bytes", "200M", "--content", "random", "--access", "read", "--count", "60000"];
    Run::plain(program("touch")).args(words).args(["--seconds", "1000"]).timeout(Duration::from_secs(240))
}

/// The checksum that the program has printed, if it has come so far.
pub fn checksum(outcome: &Outcome) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(outcome.stdout.trim()).ok()?;
    line["checksum"].as_str().map(ToString::to_string)
}

/// The checksum that it prints when it sees only right bytes: that of a run without uswap.
pub fn right_checksum() -> &'static str {
    static RIGHT: OnceLock<String> = OnceLock::new();
    RIGHT.get_or_init(|| checksum(touch().finish().must_succeed()).expect("touch prints one"))
}

/// The run has ended well and with the right checksum.
#[track_caller]
pub fn must_be_right(outcome: &Outcome) {
    let printed = checksum(outcome.must_succeed());
    assert_eq!(printed.as_deref(), Some(right_checksum()), "wrong bytes reached the program");
}
