//! sqlite3 with a page cache of 512 MB on a larger database, in 128M, answers the same.

use uswap_tests::{Scratch, compare_outputs, loads, needs, scaled_mib, turn};

#[test]
fn budget_sqlite_page_cache_four_times_its_budget() {
    let _turn = turn();
    if !needs(&["sqlite3"]) {
        return;
    }
    let scratch = Scratch::new();
    let sqlite = loads::sqlite(&scratch, scaled_mib(512));
    let ram_mib = scaled_mib(128);
    let (_, swapped) = compare_outputs("budget_sqlite", ram_mib, &[], || sqlite.clone());
    // The cache grows page by page, by up to a GB a second, and is found by looking: at 32M, 1.6 ms of that are 5 %.
    swapped.must_hold_budget_mostly(ram_mib);
}
