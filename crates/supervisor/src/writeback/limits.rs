//! What the user forbids the swap file although the disk would take it: room of the file system that stays free, and
//! bytes written in a day.
//!
//! Called by the shrinker before and after each write. A file that may not be written counts as full: what happens then
//! is for `--on-full` to say.

use uswap_core::write_limit::WriteLimit;

use crate::human;
use crate::options::Options;

/// The limits of a run, and the one that is in the way.
pub struct Limits {
    min_free_bytes: u64,
    bytes_a_day: u64,
    written: Option<WriteLimit>,
    hindrance: Option<Hindrance>,
}

/// Why nothing may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hindrance {
    KeptFree,
    WrittenToday,
}

/// Why nothing is written, and what to do about it.
#[derive(Clone)]
pub struct Reason {
    pub what: String,
    pub advice: String,
}

impl Limits {
    pub fn new(options: &Options) -> Limits {
        Limits {
            min_free_bytes: options.swap_min_free_bytes,
            bytes_a_day: options.swap_bytes_a_day.unwrap_or(u64::MAX),
            written: options.swap_bytes_a_day.map(WriteLimit::new),
            hindrance: None,
        }
    }

    /// Whether `bytes` more may be written at `now_ns`, of which the file system may take all from its room.
    pub fn allow(&mut self, bytes: u64, now_ns: u64, free_bytes: impl FnOnce() -> Option<u64>) -> bool {
        self.hindrance = None;
        if self.written.as_mut().is_some_and(|written| !written.allows(bytes, now_ns)) {
            self.hindrance = Some(Hindrance::WrittenToday);
        } else if self.min_free_bytes > 0
            && free_bytes().is_some_and(|free| free.saturating_sub(bytes) < self.min_free_bytes)
        {
            self.hindrance = Some(Hindrance::KeptFree);
        }
        self.hindrance.is_none()
    }

    /// So many bytes were written, or some of them.
    pub fn add(&mut self, bytes: u64, now_ns: u64) {
        if let Some(written) = &mut self.written {
            written.add(bytes, now_ns);
        }
    }

    /// Why the last write was not allowed; None if it was.
    pub fn reason(&self, directory: &str) -> Option<Reason> {
        Some(match self.hindrance? {
            Hindrance::KeptFree => Reason {
                what: format!(
                    "the file system of '{directory}' is as full as it may be: {} stay free (--swap-min-free)",
                    human::bytes(self.min_free_bytes)
                ),
                advice: "Make room there, or let less stay free".to_owned(),
            },
            Hindrance::WrittenToday => Reason {
                what: format!(
                    "what may be written to the swap file in a day is written: {} (--swap-write-limit)",
                    human::bytes(self.bytes_a_day)
                ),
                advice: "Wait until some of it is a day ago, or run the program again with a higher limit"
                    .to_owned(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(min_free_bytes: u64, bytes_a_day: Option<u64>) -> Limits {
        Limits {
            min_free_bytes,
            bytes_a_day: bytes_a_day.unwrap_or(u64::MAX),
            written: bytes_a_day.map(WriteLimit::new),
            hindrance: None,
        }
    }

    #[test]
    fn a_file_system_is_asked_only_if_room_shall_stay_free() {
        assert!(limits(0, None).allow(1, 0, || panic!("nobody asked for room")));
        let mut limits = limits(100, None);
        assert!(limits.allow(50, 0, || Some(150)) && limits.reason("/swap").is_none());
        assert!(!limits.allow(51, 0, || Some(150)));
        let reason = limits.reason("/swap").expect("it was refused");
        assert!(reason.what.contains("'/swap'") && reason.what.contains("100 B"), "{}", reason.what);
        assert!(limits.allow(50, 0, || None), "a file system that does not tell does not stop us");
    }

    #[test]
    fn what_was_written_counts_and_the_reason_goes_when_it_does() {
        let mut limits = limits(0, Some(100));
        assert!(limits.allow(60, 0, || None));
        limits.add(60, 0);
        assert!(!limits.allow(60, 1, || None));
        assert!(limits.reason("/swap").is_some_and(|reason| reason.what.contains("--swap-write-limit")));
        assert!(limits.allow(60, 26 * 3_600_000_000_000, || None));
        assert!(limits.reason("/swap").is_none());
    }
}
