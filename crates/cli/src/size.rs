//! Sizes and shares as they are typed: `256M`, `1.5G`, `30%`.
//!
//! What must hold: what is typed is taken exactly (integers, no rounding through floating point), or refused with an
//! example of what would be right. K, M, G and T are powers of 1024, with or without `B` or `iB`.

use std::ops::RangeInclusive;

use uswap_units::PAGE_BYTES;

use uswap_supervisor::options::{Fraction, PoolSize, RAM_BYTES_MIN};

use crate::human;

/// Smallest limit of a day: a write takes 512 KiB.
pub const WRITE_LIMIT_BYTES_MIN: u64 = 1 << 20;

const SHARE_WHOLE: u32 = 1_000_000;
const SHARE_MILLIONTHS_MIN: u32 = 10_000;
const SHARE_MILLIONTHS_MAX: u32 = 900_000;

/// Reads a size in bytes.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let example = "write it like 256M, 1.5G, 300MiB or 268435456";
    let malformed = || format!("'{text}' is not a size: {example}");
    let unit_start = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit_bits = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ if number.is_empty() => return Err(malformed()),
        _ => return Err(format!("'{unit}' in '{text}' is not a unit: use K, M, G or T, for example 256M")),
    };
    let decimal = Decimal::parse(number).ok_or_else(malformed)?;
    decimal
        .times_floor(1 << unit_bits)
        .ok_or_else(|| format!("'{text}' is more than 64 bits can hold: {example}"))
}

/// What was meant by `text`, which is out of `allowed`: the same number with another unit. Empty if none of them is
/// inside.
///
/// M is tried first, then G and K: of a size without a unit most people mean that.
pub fn meant(text: &str, allowed: &RangeInclusive<u64>) -> String {
    let number_end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let other = ["M", "G", "K"].into_iter().map(|unit| format!("{}{unit}", &text[..number_end]));
    let fitting =
        other.into_iter().find(|other| parse_size(other).is_ok_and(|bytes| allowed.contains(&bytes)));
    fitting.map_or_else(String::new, |other| format!(" (did you mean {other}?)"))
}

/// Reads `--ram` of `demo`, which says by itself what it needs.
///
/// # Errors
/// As [`parse_size`], and if it is below [`RAM_BYTES_MIN`].
pub fn parse_ram(text: &str) -> Result<u64, String> {
    ram_within(text, RAM_BYTES_MIN..=u64::MAX)
}

/// Reads `--ram` of `run`.
///
/// # Errors
/// As [`parse_ram`], and if it is more than the machine has.
pub fn parse_ram_of_machine(text: &str) -> Result<u64, String> {
    ram_within(text, RAM_BYTES_MIN..=ram_bytes_max(machine_bytes()))
}

/// RAM that Linux may use.
fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit).saturating_mul(info.totalram)
}

/// The largest budget on a machine of which Linux may use so much: a quarter more. A machine that was sold with 16 GiB,
/// of which firmware, graphics and kernel keep some, takes `--ram 16G`. Beyond that no budget can ever be used up.
fn ram_bytes_max(machine_bytes: u64) -> u64 {
    machine_bytes.saturating_add(machine_bytes / 4)
}

/// Whether this is a budget at all.
///
/// # Errors
/// It is below [`RAM_BYTES_MIN`].
pub fn at_least(bytes: u64) -> Result<(), String> {
    ram_within(&bytes.to_string(), RAM_BYTES_MIN..=u64::MAX).map(|_| ())
}

fn ram_within(text: &str, allowed: RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < *allowed.start() {
        return Err(format!(
            "{text} is {}, less than uswap and the smallest program need together: 8M is the smallest value that \
             makes sense{}",
            human::bytes(bytes),
            meant(text, &allowed)
        ));
    }
    if bytes > *allowed.end() {
        return Err(format!(
            "{text} is more RAM than this machine has, {}: a budget that can never be used up keeps nothing from \
             swapping. Give less than that{}",
            human::bytes(machine_bytes()),
            meant(text, &allowed)
        ));
    }
    Ok(bytes)
}

/// Reads `--swap-min-free`.
///
/// # Errors
/// As [`parse_size`], and if it is less than a page, but not nothing.
pub fn parse_min_free(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (1..PAGE_BYTES as u64).contains(&bytes) {
        let meant = meant(text, &(PAGE_BYTES as u64..=u64::MAX));
        return Err(format!(
            "{text} is {}, less than a page: that keeps nothing free{meant}",
            human::bytes(bytes)
        ));
    }
    Ok(bytes)
}

/// Reads a share of the budget, between 1 % and 90 %: `30%` or `0.3`.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_share(text: &str) -> Result<Fraction, String> {
    let malformed = || format!("'{text}' is not a share: write it like 30% or 0.3");
    let (number, one) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), SHARE_WHOLE / 100),
        None => (text, SHARE_WHOLE),
    };
    let decimal = Decimal::parse(number).ok_or_else(malformed)?;
    let millionths = decimal.times_floor(u64::from(one)).ok_or_else(malformed)?;
    let allowed = u64::from(SHARE_MILLIONTHS_MIN)..=u64::from(SHARE_MILLIONTHS_MAX);
    if allowed.contains(&millionths) {
        let millionths = u32::try_from(millionths).expect("at most 900,000");
        return Ok(Fraction { millionths });
    }
    let meant = if !text.ends_with('%') && (1..=90).contains(&(millionths / u64::from(SHARE_WHOLE))) {
        format!(" (did you mean {number}%?)")
    } else {
        String::new()
    };
    Err(format!(
        "'{text}' is not between 1% and 90%: the pool and the program's own pages share --ram{meant}"
    ))
}

/// The same, or `auto`.
///
/// # Errors
/// As of [`parse_share`].
pub fn parse_pool(text: &str) -> Result<PoolSize, String> {
    match text {
        "auto" => Ok(PoolSize::Auto),
        _ => parse_share(text).map(PoolSize::Fixed),
    }
}

/// Reads `--swap-write-limit`: bytes of a day, written like `10G/day`.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_write_limit(text: &str) -> Result<u64, String> {
    let Some(size) = text.strip_suffix("/day") else {
        return Err(format!("'{text}' does not say for what time: write it like 10G/day"));
    };
    let bytes = parse_size(size)?;
    if bytes < WRITE_LIMIT_BYTES_MIN {
        return Err(format!("{text} is less than one write of the swap file: give it 1M/day or more"));
    }
    Ok(bytes)
}

/// A typed decimal number, kept exact: `1.5` is 15 / 10.
struct Decimal {
    digits: u128,
    divisor: u128,
}

impl Decimal {
    /// At most 20 digits before the point and 9 behind it; at least one in all.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || whole.len() > 20 || fraction.len() > 9 {
            return None;
        }
        if !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { digits, divisor: 10_u128.pow(u32::try_from(fraction.len()).ok()?) })
    }

    fn times_floor(&self, factor: u64) -> Option<u64> {
        u64::try_from(self.digits.checked_mul(u128::from(factor))? / self.divisor).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let cases = [
            ("256M", 256 << 20),
            ("1G", 1 << 30),
            ("1.5G", 3 << 29),
            ("300MiB", 300 << 20),
            ("300mb", 300 << 20),
            ("8388608", 8 << 20),
            ("12B", 12),
            (".5K", 512),
            ("2T", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_refused_with_an_example() {
        for text in ["", "M", "1.2.3M", "-5M", "12X", "1 G", "1e9", "99999999T", "٣M", ".", "0x10"] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains("256M"), "{text}: {error}");
        }
    }

    #[test]
    fn ram_below_8m_names_the_smallest_value() {
        assert!(parse_ram("7.9M").unwrap_err().contains("8M is the smallest"));
        assert_eq!(parse_ram("8M"), Ok(8 << 20));
    }

    #[test]
    fn a_budget_that_makes_no_sense_is_asked_back() {
        let gib = 1 << 30;
        let allowed = || RAM_BYTES_MIN..=ram_bytes_max(16 * gib);
        assert_eq!(ram_within("16G", allowed()), Ok(16 * gib));
        assert_eq!(ram_within("20G", allowed()), Ok(20 * gib));
        for (text, asked) in [
            ("64", "64 B, less than uswap"),
            ("64", "did you mean 64M?"),
            ("4", "did you mean 4G?"),
            ("64K", "did you mean 64M?"),
            ("21G", "did you mean 21M?"),
            ("100T", "more RAM than this machine has"),
            ("100T", "did you mean 100M?"),
        ] {
            let error = ram_within(text, allowed()).expect_err(text);
            assert!(error.contains(asked), "{text}: {error}");
        }
        assert!(!ram_within("0", allowed()).unwrap_err().contains("did you mean"));
        assert!(!ram_within("99999999T", allowed()).unwrap_err().contains("did you mean"));
        let all = machine_bytes();
        assert!(all > RAM_BYTES_MIN);
        assert_eq!(parse_ram_of_machine(&all.to_string()), Ok(all));
        let error = parse_ram_of_machine(&(all * 2).to_string()).unwrap_err();
        assert!(error.contains(&human::bytes(all)), "{error}");
    }

    #[test]
    fn what_stays_free_is_nothing_or_a_page_at_least() {
        assert_eq!(parse_min_free("0"), Ok(0));
        assert_eq!(parse_min_free("4K"), Ok(4096));
        assert!(parse_min_free("64").unwrap_err().contains("did you mean 64M?"));
    }

    #[test]
    fn shares_take_per_cent_and_fractions() {
        for text in ["30%", "0.3", ".3", "30.0%", "30 %"] {
            assert_eq!(parse_share(text).unwrap().of(1000), 300, "{text}");
        }
        assert_eq!(parse_share("12.5%").unwrap().of(1 << 20), 1 << 17);
        assert_eq!(parse_share("90%").unwrap().of(u64::MAX), u64::MAX / 10 * 9 + 4);
    }

    #[test]
    fn shares_out_of_range_say_what_was_meant() {
        assert!(parse_share("30").unwrap_err().contains("did you mean 30%?"));
        for text in ["0", "0.5%", "91%", "0.95", "1000"] {
            assert!(parse_share(text).unwrap_err().contains("between 1% and 90%"), "{text}");
        }
        for text in ["", "%", "x%", "-3%"] {
            assert!(parse_share(text).unwrap_err().contains("not a share"), "{text}");
        }
    }

    #[test]
    fn write_limits_are_sizes_of_a_day() {
        assert_eq!(parse_write_limit("10G/day"), Ok(10 << 30));
        for (text, part) in
            [("10G", "10G/day"), ("x/day", "256M"), ("10G/hour", "10G/day"), ("9K/day", "1M/day")]
        {
            let error = parse_write_limit(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
