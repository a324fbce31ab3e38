//! What the user forbids the swap file although the disk would take it: room of the file system that stays free, and
//! bytes written in a day.
//!
//! Called by the shrinker before and after each write. A file that may not be written counts as full: what happens then
//! is for `--on-full` to say.

use uswap_core::write_limit::WriteLimit;

use crate::human;
use crate::options::Options;

/// What the user forbids the swap files, and what of it is in the way.
pub struct SwapFileLimits {
    min_free_bytes: u64,
    bytes_a_day: u64,
    written: Option<WriteLimit>,
    reached: Option<Limit>,
}

/// The limit that is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    KeptFree,
    WrittenToday,
}

/// Why nothing is written, and what to do about it.
#[derive(Clone)]
pub struct Obstacle {
    pub what: String,
    pub advice: String,
}

impl SwapFileLimits {
    pub fn new(options: &Options) -> SwapFileLimits {
        SwapFileLimits {
            min_free_bytes: options.swap_min_free_bytes,
            bytes_a_day: options.swap_bytes_a_day.unwrap_or(u64::MAX),
            written: options.swap_bytes_a_day.map(WriteLimit::new),
            reached: None,
        }
    }

    /// Whether `bytes` more may be written at `now_ns`, of which the file system may take all from its room.
    pub fn allow(&mut self, bytes: u64, now_ns: u64, free_bytes: impl FnOnce() -> Option<u64>) -> bool {
        self.reached = None;
        if self.written.as_mut().is_some_and(|written| !written.allows(bytes, now_ns)) {
            self.reached = Some(Limit::WrittenToday);
        } else if self.min_free_bytes > 0
            && free_bytes().is_some_and(|free| free.saturating_sub(bytes) < self.min_free_bytes)
        {
            self.reached = Some(Limit::KeptFree);
        }
        self.reached.is_none()
    }

    /// So many bytes were written, or some of them.
    pub fn add(&mut self, bytes: u64, now_ns: u64) {
        if let Some(written) = &mut self.written {
            written.add(bytes, now_ns);
        }
    }

    /// Why the last write was not allowed; None if it was.
    pub fn obstacle(&self, directory: &str) -> Option<Obstacle> {
        Some(match self.reached? {
            Limit::KeptFree => Obstacle {
                what: format!(
                    "the file system of '{directory}' is as full as it may be: {} stay free (--swap-min-free)",
                    human::bytes(self.min_free_bytes)
                ),
                advice: "Make room there, or let less stay free".to_owned(),
            },
            Limit::WrittenToday => Obstacle {
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

    fn limits(min_free_bytes: u64, bytes_a_day: Option<u64>) -> SwapFileLimits {
        SwapFileLimits {
            min_free_bytes,
            bytes_a_day: bytes_a_day.unwrap_or(u64::MAX),
            written: bytes_a_day.map(WriteLimit::new),
            reached: None,
        }
    }

    #[test]
    fn a_file_system_is_asked_only_if_room_shall_stay_free() {
        assert!(limits(0, None).allow(1, 0, || panic!("nobody asked for room")));
        let mut limits = limits(100, None);
        assert!(limits.allow(50, 0, || Some(150)) && limits.obstacle("/swap").is_none());
        assert!(!limits.allow(51, 0, || Some(150)));
        let obstacle = limits.obstacle("/swap").expect("it was refused");
        assert!(obstacle.what.contains("'/swap'") && obstacle.what.contains("100 B"), "{}", obstacle.what);
        assert!(limits.allow(50, 0, || None), "a file system that does not tell does not stop us");
    }

    #[test]
    fn what_was_written_counts_and_the_reason_goes_when_it_does() {
        let mut limits = limits(0, Some(100));
        assert!(limits.allow(60, 0, || None));
        limits.add(60, 0);
        assert!(!limits.allow(60, 1, || None));
        assert!(
            limits.obstacle("/swap").is_some_and(|obstacle| obstacle.what.contains("--swap-write-limit"))
        );
        assert!(limits.allow(60, 26 * 3_600_000_000_000, || None));
        assert!(limits.obstacle("/swap").is_none());
    }
}
