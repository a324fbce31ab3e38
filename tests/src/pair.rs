//! The same program without uswap and with it: the outputs must be equal. Called by the budget tests.

use crate::places::{report, uswap_binary};
use crate::run::{Outcome, Run};

/// [`compare_outputs`], and the run with uswap must stay within 105 %.
#[track_caller]
pub fn compare(name: &str, ram_mib: u64, options: &[&str], make: impl Fn() -> Run) -> (Outcome, Outcome) {
    let (plain, swapped) = compare_outputs(name, ram_mib, options, make);
    swapped.must_hold_budget(ram_mib);
    (plain, swapped)
}

/// Runs `make()` plainly and then in `ram_mib`. Both must succeed with the same standard output, and the plain one must
/// need at least one and a half budgets (else nothing was shown). Prints a line with the figures.
#[track_caller]
pub fn compare_outputs(
    name: &str,
    ram_mib: u64,
    options: &[&str],
    make: impl Fn() -> Run,
) -> (Outcome, Outcome) {
    let plain = make().finish();
    plain.must_succeed();
    let swapped = make().uswap(ram_mib, options).finish();
    swapped.must_succeed();
    figures(name, ram_mib, &plain, &swapped);
    assert!(plain.stdout == swapped.stdout, "{name}: the outputs differ");
    let plain_mib = plain.samples.peak_bytes >> 20;
    assert!(
        2 * plain_mib >= 3 * ram_mib,
        "{name}: needs only {plain_mib}M, too little for a budget of {ram_mib}M"
    );
    (plain, swapped)
}

/// Prints the figures of a pair on one line.
pub fn figures(name: &str, ram_mib: u64, plain: &Outcome, swapped: &Outcome) {
    let samples = &swapped.samples;
    let how = if uswap_binary().is_some() { "uswap" } else { "PLAIN, no uswap" };
    report(&format!(
        "{name}: {how}: peak {:.1} % of {ram_mib}M (segment {}M), {} of {} samples over 105 %, {} unknown, {} slow \
         walks; without: peak {}M, {:.1} s; with: {:.1} s",
        samples.peak_bytes as f64 * 100.0 / (ram_mib << 20) as f64,
        samples.peak_segment_bytes >> 20,
        samples.over,
        samples.count,
        samples.unknown,
        samples.slow_walks,
        plain.samples.peak_bytes >> 20,
        plain.elapsed.as_secs_f64(),
        swapped.elapsed.as_secs_f64(),
    ));
}
