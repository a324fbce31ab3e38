//! Where a swap file is made, as it is typed: `DIR[:SIZE[:PRIORITY]][:KIND]`.
//!
//! What must hold: a directory whose own name has colons is taken whole if it exists; what is typed behind it is taken
//! exactly, or refused with an example of what would be right.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use uswap_supervisor::files::place::{SWAP_BYTES_MIN, SwapPlace, parse_kind};

use crate::human;
use crate::size::{meant, parse_size};

/// Largest size of one: beyond, the tables of a run would take more room than its processes may have.
const SWAP_BYTES_MAX: u64 = 256 << 30;
/// As `swapon` has it.
const PRIORITY_MAX: i16 = i16::MAX;
/// Parts behind the directory: size, priority, kind.
const PARTS_MAX: usize = 3;

/// Reads `DIR[:SIZE[:PRIORITY]][:KIND]`, where SIZE may be `auto`.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_swap_place(text: OsString) -> Result<SwapPlace, String> {
    if text.is_empty() {
        return Err("the directory is empty: write it like /var/tmp or /var/tmp:8G".to_owned());
    }
    let (dir, parts) = split(text.as_bytes());
    if dir.is_empty() {
        return Err(format!(
            "'{}' names no directory: write it like /var/tmp:8G",
            Path::new(&text).display()
        ));
    }
    let mut place =
        SwapPlace { dir: PathBuf::from(OsStr::from_bytes(dir)), bytes_max: None, priority: None, kind: None };
    let mut parts: Vec<String> =
        parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    if let Some(kind) = parts.last().and_then(|last| parse_kind(last)) {
        place.kind = Some(kind);
        parts.pop();
    }
    match parts.as_slice() {
        [] => (),
        [size] => place.bytes_max = parse_swap_size(size)?,
        [size, priority] => {
            place.bytes_max = parse_swap_size(size)?;
            place.priority = Some(parse_priority(priority)?);
        }
        [.., last] => {
            return Err(format!(
                "'{last}' is not a kind of disk: it is rotational or solid-state, as in /srv:8G:5:rotational"
            ));
        }
    }
    Ok(place)
}

/// The directory, and up to three parts behind it: as few as leave a directory that exists, or else all that have no
/// slash.
fn split(text: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let is_dir = |dir: &[u8]| Path::new(OsStr::from_bytes(dir)).is_dir();
    let mut dir = text;
    let mut parts: Vec<&[u8]> = Vec::new();
    while !is_dir(dir) && parts.len() < PARTS_MAX {
        let Some(colon) = dir.iter().rposition(|&byte| byte == b':') else { break };
        if dir[colon..].contains(&b'/') {
            break;
        }
        parts.insert(0, &dir[colon + 1..]);
        dir = &dir[..colon];
    }
    (dir, parts)
}

fn parse_swap_size(text: &str) -> Result<Option<u64>, String> {
    if text == "auto" {
        return Ok(None);
    }
    let bytes = parse_size(text)?;
    if bytes < SWAP_BYTES_MIN {
        return Err(format!(
            "a swap file of {text} is {}, too small to hold two clusters: give it 4M or more{}",
            human::bytes(bytes),
            meant(text, &(SWAP_BYTES_MIN..=SWAP_BYTES_MAX))
        ));
    }
    if bytes > SWAP_BYTES_MAX {
        return Err(format!("a swap file of {text} is too large: 256G is the most that one may have"));
    }
    Ok(Some(bytes))
}

fn parse_priority(text: &str) -> Result<i16, String> {
    text.parse().ok().filter(|priority| (0..=PRIORITY_MAX).contains(priority)).ok_or_else(|| {
        format!("'{text}' is not a priority (a number from 0 to {PRIORITY_MAX}, higher ones first, as in /srv:8G:5) \
            and no kind of disk (rotational or solid-state)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_core::files::FileKind;

    fn place(text: &str) -> Result<SwapPlace, String> {
        parse_swap_place(OsString::from(text))
    }

    fn plain(dir: &str, bytes_max: Option<u64>) -> SwapPlace {
        SwapPlace { dir: PathBuf::from(dir), bytes_max, priority: None, kind: None }
    }

    #[test]
    fn swap_place_has_size_priority_and_kind_behind_the_directory() {
        assert_eq!(place("/var/tmp"), Ok(plain("/var/tmp", None)));
        assert_eq!(place("/var/tmp:auto"), Ok(plain("/var/tmp", None)));
        assert_eq!(place("/no/such:8G"), Ok(plain("/no/such", Some(8 << 30))));
        assert_eq!(place("/no:such/dir:1G"), Ok(plain("/no:such/dir", Some(1 << 30))));
        let five = SwapPlace { priority: Some(5), ..plain("/srv", Some(2 << 30)) };
        assert_eq!(place("/srv:2G:5"), Ok(five.clone()));
        let disk = Some(FileKind::Rotational);
        assert_eq!(place("/srv:2G:5:rotational"), Ok(SwapPlace { kind: disk, ..five }));
        assert_eq!(place("/srv:rotational"), Ok(SwapPlace { kind: disk, ..plain("/srv", None) }));
        let solid = SwapPlace { kind: Some(FileKind::SolidState), ..plain("/no", Some(4 << 20)) };
        assert_eq!(place("/no:4M:solid-state"), Ok(solid));
    }

    #[test]
    fn what_is_wrong_with_a_swap_place_is_said_with_an_example() {
        let cases = [
            ("", "/var/tmp"),
            (":1G", "no directory"),
            ("/var/tmp:lots", "256M"),
            ("/var/tmp:1M", "4M or more"),
            ("/var/tmp:300G", "256G is the most"),
            ("/var/tmp:1G:high", "0 to 32767"),
            ("/var/tmp:1G:-3", "0 to 32767"),
            ("/var/tmp:1G:32768", "0 to 32767"),
            ("/var/tmp:5:1G", "4M or more"),
            ("/var/tmp:1G:5:fast", "rotational"),
        ];
        for (text, part) in cases {
            let error = place(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn swap_place_takes_an_existing_directory_with_colons_whole() {
        let dir = std::env::temp_dir().join(format!("uswap-place-test-{}:9G:7", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let name = dir.to_str().unwrap();
        let (whole, with_size) = (place(name), place(&format!("{name}:1G")));
        std::fs::remove_dir(&dir).unwrap();
        assert_eq!(whole, Ok(plain(name, None)));
        assert_eq!(with_size, Ok(plain(name, Some(1 << 30))));
    }
}
