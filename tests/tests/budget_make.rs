//! `make -j2` of SQLite and zstd in 150M builds the same objects.

use uswap_tests::build::Build;
use uswap_tests::pair::figures;
use uswap_tests::{full_size, needs, turn};

#[test]
fn budget_make_builds_the_same_objects() {
    let _turn = turn();
    if !needs(&["make", "gcc"]) {
        return;
    }
    let flags: &[&str] = if full_size() { &["-O2", "-O1 -DSQLITE_ENABLE_FTS5"] } else { &["-O1"] };
    let Some(build) = Build::new(flags) else { return };
    // Compilers do not get smaller in the short form, so the budget does not either.
    let ram_mib = 150;
    let plain = build.make("plain").finish();
    plain.must_succeed();
    let swapped = build.make("swapped").uswap(ram_mib, &[]).finish();
    swapped.must_succeed();
    figures("budget_make", ram_mib, &plain, &swapped);
    build.must_be_the_same("plain", "swapped");
    assert!(plain.samples.peak_bytes >> 20 > 150, "the build is too small: {:?}", plain.samples);
    swapped.must_hold_budget(ram_mib);
}
