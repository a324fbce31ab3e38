//! Numbers as a person reads them: `1.5 GiB`, `12,345`, `4.3 us`.
//!
//! Called by the report, `doctor` and `demo`. Nothing here is read back by a program; files and JSON carry plain
//! numbers.

pub use uswap_control::human::{bytes, count, duration};

/// A duration given in nanoseconds, in the unit that leaves one to three digits before the point: `850 ns`, `4.3 us`.
pub fn nanoseconds(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{}.{} {unit}", ns / unit_ns, ns % unit_ns * 10 / unit_ns)
}

/// `part` of `whole` in whole per cent, as `98 %`; `-` where there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let percent = (u128::from(part) * 100 + u128::from(whole) / 2) / u128::from(whole);
    format!("{percent} %")
}

/// A name for a signal number: `SIGKILL`, or `signal 40` where it has none.
pub fn signal(number: i32) -> String {
    match signal_hook::low_level::signal_name(number) {
        Some(name) => name.to_owned(),
        None => format!("signal {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_choose_their_unit() {
        let cases = [(850, "850 ns"), (4_321, "4.3 us"), (12_000_000, "12.0 ms"), (1_500_000_000, "1.5 s")];
        for (value, expected) in cases {
            assert_eq!(nanoseconds(value), expected);
        }
    }

    #[test]
    fn percent_of_nothing_is_a_dash() {
        assert_eq!(percent(1, 0), "-");
        assert_eq!(percent(2, 3), "67 %");
    }
}
