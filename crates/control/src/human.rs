//! Sizes and counts as a person reads them, for messages: `1.5 GiB`, `12,345`.
//!
//! Called by all that makes texts, here and in the command. Nothing here is read back by a program; reports carry plain
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

/// Seconds as `ps` writes them: minutes and seconds, with hours and days in front if there are any.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes, seconds) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
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
    fn times_are_as_ps_writes_them() {
        let times = [0.9, 3599.0, 3600.0, 90_061.0].map(duration);
        assert_eq!(times, ["00:00", "59:59", "01:00:00", "1-01:01:01"]);
    }

    #[test]
    fn counts_have_groups_of_three() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (value, expected) in cases {
            assert_eq!(count(value), expected);
        }
    }
}
