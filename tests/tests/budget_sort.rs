//! `sort -S 1G` of a 1 GB file stays within 256M and writes the same file.

use uswap_tests::{Run, Scratch, compare, content, full_size, scaled_mib_by, turn};

/// The budget is 12 MiB in the short form.
fn sized_mib(full: u64) -> u64 {
    scaled_mib_by(full, 21)
}

#[test]
fn budget_sort_of_a_file_four_times_its_budget() {
    let _turn = turn();
    let scratch = Scratch::new();
    let lines = scratch.file("lines");
    // Its accesses are random, so most of them wait for the disk: in the short form file and lines (48 bytes each) are
    // about twice as large.
    let file_mib = if full_size() { 1024 } else { sized_mib(320) };
    content::write_lines(&lines, file_mib << 20, 1).expect("the disk has room");
    let command = format!(
        "LC_ALL=C sort -S {}M -T {} {} | tee {}/sorted | sha256sum; wc -c < {1}/sorted",
        sized_mib(1024),
        scratch.path().display(),
        lines.display(),
        scratch.path().display()
    );
    compare("budget_sort", sized_mib(256), &[], || Run::plain("/bin/sh").args(["-c", &command]));
}
