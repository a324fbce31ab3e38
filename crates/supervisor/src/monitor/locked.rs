//! Says once that programs of the run lock memory (mlock, mlockall): it stays in RAM and counts, so
//! the budget may not hold.
//!
//! The agents count what their processes lock; who it is, is asked only then. Called by the
//! monitor.

use crate::human;
use crate::processes::live;
use crate::shared::Shared;
use uswap_core::counters::Counter;
use uswap_os::mlock::locked_bytes;

/// From this part of the budget on it is worth a word: small secrets are locked by many programs.
const TOLD_FROM_PART: u64 = 8;

#[derive(Default)]
pub struct Locked {
    is_told: bool,
}

impl Locked {
    pub fn follow(&mut self, shared: &Shared) {
        let ram = shared.segment.budget().ram().bytes();
        let locked = shared.segment.counters().get(Counter::LockedBytes);
        if self.is_told || locked < ram / TOLD_FROM_PART {
            return;
        }
        self.is_told = true;
        let most = live(shared.segment.mms())
            .filter_map(|record| {
                Some((shared.processes.look(record, |pid| locked_bytes(Some(pid)).ok())??, record))
            })
            .max_by_key(|(bytes, _)| *bytes)
            .filter(|(bytes, _)| *bytes > 0);
        let who = match most {
            Some((_, record)) => format!("process {} ({})", record.pid(), shared.processes.name_of(record)),
            None => "a process that has ended".to_owned(),
        };
        shared.warn(&text(&who, locked, ram));
    }
}

fn text(who: &str, locked: u64, ram: u64) -> String {
    format!(
        "{who} locks memory (mlock, mlockall), {} in all so far: it stays in RAM and counts, so the rest has less of \
         the budget of {}, which is exceeded if that is not \
         enough. Let it lock less (memcached -k, bootstrap.memory_lock and the like are such options), or give --ram \
         that much more",
        human::bytes(locked),
        human::bytes(ram)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_says_who_how_much_and_what_to_try() {
        let text = text("process 7 (memcached)", 120 << 20, 60 << 20);
        for part in ["process 7 (memcached)", "120 MiB", "60 MiB", "--ram"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
