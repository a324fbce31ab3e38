//! Numbers as the screen writes them: short, so that they fit in columns.
//!
//! Nothing here is read back by a program.

use uswap_control::human;

/// A size in at most seven characters, in powers of 1024: `0`, `900K`, `1.5G`.
pub fn size(bytes: u64) -> String {
    let text = human::bytes(bytes);
    match text.split_once(' ') {
        Some((number, "B")) => number.to_owned(),
        Some((number, unit)) => format!("{number}{}", &unit[..1]),
        None => text,
    }
}

/// A count per second in at most five characters: `0`, `0.3`, `1234`, `56k`, `1.5M`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate < 0.05 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate if rate < 9_999.5 => format!("{rate:.0}"),
        rate if rate < 999_500.0 => format!("{:.0}k", rate / 1e3),
        rate if rate < 99.95e6 => format!("{:.1}M", rate / 1e6),
        rate => format!("{:.0}M", rate / 1e6),
    }
}

/// Bytes per second: `1.5G/s`.
pub fn flow(bytes_per_second: f64) -> String {
    format!("{}/s", size(bytes_per_second.round() as u64))
}

/// A part of one in percent, without the sign: `34`.
pub fn percent(part: f64) -> String {
    format!("{:.0}", part * 100.0)
}

/// A duration in at most five characters: `850ns`, `4.3us`, `131us`.
pub fn nanoseconds(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    match ns / unit_ns {
        whole @ 10.. => format!("{whole}{unit}"),
        whole => format!("{whole}.{}{unit}", ns % unit_ns * 10 / unit_ns),
    }
}

/// Seconds since 1970 as a date: `2026-11-29 10:30:33 UTC`.
pub fn date(unix_seconds: f64) -> String {
    let seconds = unix_seconds.max(0.0) as u64;
    let (year, month, day) = uswap_units::civil_date(seconds);
    let rest = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 1023, 900 << 10, 3 << 29].map(size), ["0", "1023", "900K", "1.5G"]);
        let rates = [0.0, 0.04, 0.3, 9.94, 12.0, 9_999.0, 56_000.0, 999_000.0, 1.5e6, 2.5e8];
        let expected = ["0", "0", "0.3", "9.9", "12", "9999", "56k", "999k", "1.5M", "250M"];
        assert_eq!(rates.map(rate), expected);
        assert_eq!(flow(1_572_864.2), "1.5M/s");
        let durations = [850, 4_321, 131_071, 12_000_000, 1_500_000_000];
        assert_eq!(durations.map(nanoseconds), ["850ns", "4.3us", "131us", "12ms", "1.5s"]);
        assert_eq!(percent(0.344), "34");
    }

    #[test]
    fn dates_are_as_date_writes_them() {
        let dates = [
            (0.0, "1970-01-01 00:00:00 UTC"),
            (951_782_400.0, "2000-02-29 00:00:00 UTC"),
            (951_868_800.0, "2000-03-01 00:00:00 UTC"),
            (1_735_689_599.9, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400.0, "2100-03-01 00:00:00 UTC"),
        ];
        for (seconds, expected) in dates {
            assert_eq!(date(seconds), expected);
        }
    }
}
