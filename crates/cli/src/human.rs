//! Numbers as a person reads them: `1.5 GiB`, `12,345`, `4.3 us`.
//!
//! Called by the report, `doctor` and `demo`. Nothing here is read back by a program; files and JSON carry plain
//! numbers.

/// `bytes` with a binary unit and at most one digit behind the point: `0 B`, `900 KiB`, `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit_index = 0;
    let mut unit_bytes = 1024_u128;
    // Goes to the next unit early, where rounding would print "1024.0 KiB".
    while u128::from(bytes) * 20 >= unit_bytes * (1024 * 20 - 1) {
        unit_bytes *= 1024;
        unit_index += 1;
    }
    let tenths = (u128::from(bytes) * 10 + unit_bytes / 2) / unit_bytes;
    let unit = UNITS[unit_index];
    if tenths.is_multiple_of(10) {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// `count` with a comma between groups of three digits.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

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
    fn bytes_are_rounded_and_never_reach_1024_of_a_unit() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1 MiB"),
            (256 << 20, "256 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (value, expected) in cases {
            assert_eq!(bytes(value), expected, "{value}");
        }
    }

    #[test]
    fn counts_have_groups_of_three() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (value, expected) in cases {
            assert_eq!(count(value), expected);
        }
    }

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
