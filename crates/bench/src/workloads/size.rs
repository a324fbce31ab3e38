//! Sizes as they are typed: `256M`, `1.5G`, `268435456`.

/// Reads a size in bytes: a number with K, M, G or T (powers of 1024), with or without `iB`. Exact: nothing is rounded
/// but parts of a byte.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let malformed = || format!("'{text}' is not a size: write it like 256M, 1.5G or 268435456");
    let unit_start = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let bits = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(malformed()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.len() > 12 {
        return Err(malformed());
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| malformed())?;
    let bytes = digits.checked_mul(1 << bits).ok_or_else(malformed)? / 10u128.pow(fraction.len() as u32);
    u64::try_from(bytes).map_err(|_| malformed())
}

/// A size as it is typed, exact and as short as can be: `64M`, `1536K`, `1000`.
pub fn size_text(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let fitting = units.iter().find(|(bits, _)| bytes > 0 && bytes.is_multiple_of(1 << bits));
    fitting.map_or_else(|| bytes.to_string(), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

#[cfg(test)]
mod tests {
    use super::{parse_size, size_text};

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for (bytes, text) in
            [(0, "0"), (1000, "1000"), (3 << 19, "1536K"), (64 << 20, "64M"), (2 << 30, "2G")]
        {
            assert_eq!(size_text(bytes), text);
            assert_eq!(parse_size(text), Ok(bytes));
        }
    }

    #[test]
    fn sizes_are_exact() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("256M", 256 << 20),
            ("1.5G", 3 << 29),
            ("2KiB", 2048),
            ("0.1K", 102),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "M",
            "1.M",
            ".5M",
            "1,5G",
            "-1",
            "5 M",
            "5X",
            "1.2.3M",
            "99999999999999999999",
            "20000000T",
            "1e9",
        ] {
            assert!(parse_size(text).unwrap_err().contains("256M"), "{text}");
        }
    }
}
