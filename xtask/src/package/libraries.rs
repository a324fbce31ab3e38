//! Which C library a program needs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// What stands in front of the number, in the names of versions that a program asks the dynamic linker for.
const GLIBC: &[u8] = b"GLIBC_2.";

/// The N of the newest glibc 2.N that one of these needs. Wherever such a name stands in a file, it counts: that can
/// only ask for too much.
///
/// # Errors
/// A file cannot be read.
pub fn newest_glibc(files: &[PathBuf]) -> Result<u32> {
    let mut newest = 0;
    for file in files {
        let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        newest = newest.max(newest_in(&bytes));
    }
    Ok(newest)
}

fn newest_in(bytes: &[u8]) -> u32 {
    let number = |(at, _): (usize, &[u8])| {
        let digits = bytes[at + GLIBC.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.take(4).fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    bytes
        .windows(GLIBC.len())
        .enumerate()
        .filter(|(_, window)| *window == GLIBC)
        .map(number)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found() {
        assert_eq!(newest_in(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0"), 34);
        assert_eq!(newest_in(b"GLIBC_2."), 0);
        assert_eq!(newest_in(b"nothing"), 0);
    }
}
