//! How much may be written in a day: a promise to a disk that wears out.
//!
//! Must hold: in no 24 hours more is written than the limit. Bytes are kept by the hour of the run, and forgotten when
//! all of their hour is more than a day ago: what was written counts for 24 to 25 hours. The caller brings the time.
//! Called by the supervisor, before and after each write.

/// Hours that are remembered: the one that has begun, and a day.
const HOURS: u64 = 25;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Bytes written by hour, and the limit of a day.
#[derive(Clone, Debug)]
pub struct WriteLimit {
    bytes_a_day: u64,
    /// Of the last hours; hour `h` is at `h % HOURS`.
    written: [u64; HOURS as usize],
    /// The last of them.
    hour: u64,
}

impl WriteLimit {
    /// Nothing is written yet.
    pub const fn new(bytes_a_day: u64) -> WriteLimit {
        WriteLimit { bytes_a_day, written: [0; HOURS as usize], hour: 0 }
    }

    /// True when so many bytes more are within the limit.
    pub fn allows(&mut self, bytes: u64, now_ns: u64) -> bool {
        self.go_on_to(now_ns / HOUR_NS);
        let written = self.written.iter().sum::<u64>();
        written.saturating_add(bytes) <= self.bytes_a_day
    }

    /// Notes that `bytes` were written, or perhaps only some of them.
    pub fn add(&mut self, bytes: u64, now_ns: u64) {
        self.go_on_to(now_ns / HOUR_NS);
        self.written[(self.hour % HOURS) as usize] += bytes;
    }

    fn go_on_to(&mut self, hour: u64) {
        let begun = hour.saturating_sub(self.hour).min(HOURS);
        self.hour = self.hour.max(hour);
        for hour in self.hour - begun..self.hour {
            self.written[((hour + 1) % HOURS) as usize] = 0;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const DAY_NS: u64 = 24 * HOUR_NS;

    proptest! {
        #[test]
        fn no_day_has_more_than_its_limit(
            wanted in prop::collection::vec((0..5 * HOUR_NS, 1..40_u64), 1..200),
            start_ns in 0..100 * DAY_NS,
        ) {
            let (mut limit, mut now_ns) = (WriteLimit::new(100), start_ns);
            let mut written: Vec<(u64, u64)> = Vec::new();
            let in_a_day = |written: &[(u64, u64)], last_ns: u64, span_ns: u64| -> u64 {
                written.iter().filter(|(at, _)| last_ns - at < span_ns).map(|(_, bytes)| bytes).sum()
            };
            for (pause_ns, bytes) in wanted {
                now_ns += pause_ns;
                if limit.allows(bytes, now_ns) {
                    limit.add(bytes, now_ns);
                    written.push((now_ns, bytes));
                    assert!(in_a_day(&written, now_ns, DAY_NS) <= 100);
                } else {
                    let counted = in_a_day(&written, now_ns, DAY_NS + HOUR_NS);
                    assert!(counted + bytes > 100, "{counted} and {bytes} are within the limit");
                }
            }
        }
    }

    #[test]
    fn what_is_a_day_and_an_hour_old_is_forgotten_however_long_nobody_asked() {
        for pause in [25, 26, 49, 50, 1000] {
            let mut limit = WriteLimit::new(100);
            assert!(!limit.allows(101, 0));
            limit.add(100, 5);
            assert!(!limit.allows(1, DAY_NS - 1), "a day has not passed");
            assert!(limit.allows(100, pause * HOUR_NS));
        }
    }
}
