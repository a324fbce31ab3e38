//! Times as they are typed: `60s`, `5m`, `1h`.

use std::time::Duration;

use uswap_supervisor::control::AGE_MAX;

/// Reads `--older-than` and the like: a number with s, m or h.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let malformed = || format!("'{text}' is not a time: write it like 60s, 5m or 1h");
    let unit_start = text.len() - text.chars().last().map_or(0, char::len_utf8);
    let unit_seconds = match &text[unit_start..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(malformed()),
    };
    let number: u64 = text[..unit_start].parse().map_err(|_| malformed())?;
    let age = Duration::from_secs(number.saturating_mul(unit_seconds));
    if age > AGE_MAX {
        return Err(format!("'{text}' is more than a day: so long is nothing waited for"));
    }
    Ok(age)
}

/// Reads the pause between two looks: seconds, and parts of them.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=86_400.0).contains(seconds));
    let why =
        || format!("'{text}' is no time between two looks: write it like 2 or 0.5, from 0.1 s to a day");
    seconds.map(Duration::from_secs_f64).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(parse_age("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_age("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_age("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_age("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("2s"), Ok(Duration::from_secs(2)));
        for text in ["", "0", "0.01", "-1", "nan", "inf", "1m"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        for text in ["", "60", "s", "-1s", "1.5s", "1d", "25h", "5µ", "99999999999999999999s"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }
}
