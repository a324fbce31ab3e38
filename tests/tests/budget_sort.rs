//! `sort -S 1G` of a 1 GB file stays within 256M and writes the same file.

use uswap_tests::{Run, Scratch, compare, content, scaled_mib, turn};

#[test]
fn budget_sort_of_a_file_four_times_its_budget() {
    let _turn = turn();
    let scratch = Scratch::new();
    let lines = scratch.file("lines");
    content::write_lines(&lines, scaled_mib(1024) << 20, 1).expect("the disk has room");
    let command = format!(
        "LC_ALL=C sort -S {}M -T {} {} | tee {}/sorted | sha256sum; wc -c < {1}/sorted",
        scaled_mib(1024),
        scratch.path().display(),
        lines.display(),
        scratch.path().display()
    );
    compare("budget_sort", scaled_mib(256), &[], || Run::plain("/bin/sh").args(["-c", &command]));
}
