//! Tests of a program that has a list of modes: one test for each.

use crate::{Run, program};

/// Fails unless `source`, the file with the tests, has what `test_of` says for each mode that the program lists.
pub fn all_have_a_test(name: &str, source: &str, test_of: impl Fn(&str) -> String) {
    let modes = Run::plain(program(name)).arg("list").finish();
    modes.must_succeed();
    for mode in modes.stdout.lines() {
        assert!(source.contains(&test_of(mode)), "{mode} has no test");
    }
}
