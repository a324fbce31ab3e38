//! `sort -S 1G` of a 1 GB file stays within 256M and writes the same file.

use uswap_tests::{Scratch, compare, full_size, loads, scaled_mib_by, turn};

/// The budget is 12 MiB in the short form.
fn sized_mib(full: u64) -> u64 {
    scaled_mib_by(full, 21)
}

#[test]
fn budget_sort_of_a_file_four_times_its_budget() {
    let _turn = turn();
    let scratch = Scratch::new();
    // Its accesses are random, so most of them wait for the disk: in the short form file and lines (48 bytes each) are
    // about twice as large.
    let file_mib = if full_size() { 1024 } else { sized_mib(320) };
    let sort = loads::sort(&scratch, file_mib, sized_mib(1024));
    compare("budget_sort", sized_mib(256), &[], || sort.clone());
}
