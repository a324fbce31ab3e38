//! `sort -S 1G` of a 1 GB file stays within 256M and writes the same file.

use uswap_tests::{Run, Scratch, compare, content, scaled_mib_by, turn};

/// 48 MiB in 12 in the short form: its accesses are random, so most of them wait for the disk.
fn sized_mib(full: u64) -> u64 {
    scaled_mib_by(full, 21)
}

#[test]
fn budget_sort_of_a_file_four_times_its_budget() {
    let _turn = turn();
    let scratch = Scratch::new();
    let lines = scratch.file("lines");
    content::write_lines(&lines, sized_mib(1024) << 20, 1).expect("the disk has room");
    let command = format!(
        "LC_ALL=C sort -S {}M -T {} {} | tee {}/sorted | sha256sum; wc -c < {1}/sorted",
        sized_mib(1024),
        scratch.path().display(),
        lines.display(),
        scratch.path().display()
    );
    compare("budget_sort", sized_mib(256), &[], || Run::plain("/bin/sh").args(["-c", &command]));
}
