//! Numbers as a person reads them.
//!
//! What must hold: a number that is none prints as `-`, never as `NaN`; three digits that matter are kept; units stand
//! behind a space.

/// What stands where there is nothing.
pub const NOTHING: &str = "-";

/// Three digits that matter, and groups of three before the point: `0.00123`, `1.48`, `15.2`, `812`, `12,345`.
pub fn value(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if !(1e-6..1e15).contains(&size) {
        return format!("{value:.2e}");
    }
    // By the rounded number: 9.999 is 10.0, not 10.00.
    let digits_before = format!("{size:.2e}").rsplit('e').next().and_then(|exponent| exponent.parse().ok());
    let exponent: i32 = digits_before.expect("Rust prints an exponent that is a whole number");
    let decimals = (2 - exponent).clamp(0, 9) as usize;
    grouped(&format!("{value:.decimals$}"))
}

/// The same without zeros at the end: `2`, `1.5`.
pub fn trimmed(number: f64) -> String {
    let text = value(number);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A ratio: two digits behind the point, fewer above 10.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => NOTHING.to_owned(),
        _ if ratio < 0.095 => value(ratio),
        _ if ratio < 9.995 => format!("{ratio:.2}"),
        _ => value(ratio),
    }
}

/// Two ratios.
pub fn interval(low: f64, high: f64) -> String {
    format!("{} .. {}", ratio(low), ratio(high))
}

/// `0.123` as `12.3 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NOTHING.to_owned();
    }
    let percent = share * 100.0;
    if percent.abs() < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{} %", grouped(&format!("{percent:.0}")))
    }
}

/// A part of a budget in whole per cent.
pub fn part_of(part: u64, whole: u64) -> String {
    if whole == 0 {
        return NOTHING.to_owned();
    }
    format!(
        "{} %",
        grouped(&((u128::from(part) * 100 + u128::from(whole) / 2) / u128::from(whole)).to_string())
    )
}

/// Bytes with a binary unit: `0 B`, `900 KiB`, `1.5 GiB`.
pub fn bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A time given in nanoseconds: `850 ns`, `4.3 us`, `1.5 s`.
pub fn nanoseconds(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "us", "ms", "s"])
}

/// The largest unit in which the number is at least 1.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let mut value = value;
    let mut unit = 0;
    // Goes on early, where rounding would print "1024 KiB".
    while value.abs() >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let text = if value.abs() < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    let text = text.strip_suffix(".0").unwrap_or(&text);
    format!("{} {}", grouped(text), units[unit])
}

/// A comma between groups of three digits before the point.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_that_matter() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (1.4832, "1.48"),
            (9.999, "10.0"),
            (15.23, "15.2"),
            (99.96, "100"),
            (812.4, "812"),
            (12_345.6, "12,346"),
            (-1_234.0, "-1,234"),
            (1e20, "1.00e20"),
            (1e-9, "1.00e-9"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ];
        for (number, text) in cases {
            assert_eq!(value(number), text);
        }
    }

    #[test]
    fn zeros_at_the_end_are_trimmed_behind_the_point_only() {
        let cases =
            [(2.0, "2"), (1.5, "1.5"), (100.0, "100"), (0.0, "0"), (1e20, "1.00e20"), (f64::NAN, "-")];
        for (number, text) in cases {
            assert_eq!(trimmed(number), text);
        }
    }

    #[test]
    fn ratios_and_shares() {
        assert_eq!(interval(0.9951, 1.5), "1.00 .. 1.50");
        let cases = [(0.012, "0.0120"), (0.0999, "0.10"), (9.99, "9.99"), (9.999, "10.0"), (1234.0, "1,234")];
        for (number, text) in cases {
            assert_eq!(ratio(number), text);
        }
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.123), "12 %");
        assert_eq!(percent(f64::NAN), "-");
        assert_eq!(part_of(2, 3), "67 %");
        assert_eq!(part_of(1, 0), "-");
    }

    #[test]
    fn units_are_chosen_by_size() {
        let cases = [
            (0.0, "0 B"),
            (1023.0, "1,023 B"),
            (1024.0, "1 KiB"),
            (1024.0 * 1023.9, "1 MiB"),
            (1.5e9, "1.4 GiB"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
        let cases =
            [(850.0, "850 ns"), (4_321.0, "4.3 us"), (12e6, "12 ms"), (1.5e9, "1.5 s"), (1e13, "10,000 s")];
        for (number, text) in cases {
            assert_eq!(nanoseconds(number), text);
        }
    }
}
