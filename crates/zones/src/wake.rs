//! One word between those who ask for work and the one that sleeps until there is some: kswapd's and kcompactd's.
//!
//! ```text
//! 31 asleep   15..8 class + 1   7..0 order + 1      0: awake, and nothing is asked
//! ```
//! The sleeper falls asleep by exchanging 0 for `asleep`: whoever asked before makes that fail, whoever asks after
//! finds the bit and must wake it. So no request is lost. What is asked for by several is joined: the largest order,
//! the highest zone. The word fits a futex: the sleeper waits while it is `asleep`.
//!
//! Must hold: after the last request was made, the sleeper takes it before it sleeps.
//!
//! Memory order: who takes a request (Acquire: `take`) sees what was done before it was made (Release: `ask`). Who
//! finds the sleeper asleep (Acquire: `ask`, `is_asleep`) sees what it did before it slept (Release: `sleep`). That no
//! request is lost needs no order: all of it is one word.

use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU64, Ordering};

/// What somebody asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// A run of this order.
    pub order: u32,
    /// From this zone or a lower one.
    pub class: usize,
}

impl Asked {
    /// Both.
    pub fn joined(self, other: Asked) -> Asked {
        Asked { order: self.order.max(other.order), class: self.class.max(other.class) }
    }
    fn of(word: u64) -> Option<Asked> {
        let order = (word as u32 & 0xff).checked_sub(1)?;
        Some(Asked { order, class: (word >> 8 & 0xff) as usize - 1 })
    }
    fn word(self) -> u64 {
        (self.class as u64 + 1) << 8 | (u64::from(self.order) + 1)
    }
}

const ASLEEP: u64 = 1 << 31;

/// What who asked must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Wake {
    /// The sleeper sleeps: wake it.
    Needed,
    /// It will see the request.
    NotNeeded,
}

/// Whether the sleeper may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sleep {
    /// Until somebody wakes it.
    Now,
    /// Somebody asked just now.
    NotYet,
}

/// View of such a word.
#[derive(Clone, Copy)]
pub struct Requests<'a>(pub &'a AtomicU64);

impl Requests<'_> {
    /// Asks.
    pub fn ask(&self, asked: Asked) -> Wake {
        // Pairs with `take`: who takes the request sees what was done before it was made.
        let joined = |word| Some(Asked::of(word).map_or(asked, |before| before.joined(asked)).word());
        let before = match self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, joined) {
            Ok(before) | Err(before) => before,
        };
        if before & ASLEEP != 0 { Wake::Needed } else { Wake::NotNeeded }
    }

    /// The sleeper takes what was asked.
    pub fn take(&self) -> Option<Asked> {
        // Pairs with `ask`.
        Asked::of(self.0.swap(0, Ordering::AcqRel))
    }

    /// The sleeper has nothing to do.
    pub fn sleep(&self) -> Sleep {
        if is_planted(Plant::SleepWithoutLook) {
            let seen = self.0.load(Ordering::Acquire);
            if Asked::of(seen).is_none() {
                self.0.store(ASLEEP, Ordering::Release);
                return Sleep::Now;
            }
            return Sleep::NotYet;
        }
        let slept = self.0.compare_exchange(0, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        match slept {
            Ok(_) | Err(ASLEEP) => Sleep::Now,
            Err(_) => Sleep::NotYet,
        }
    }

    /// Whether the sleeper sleeps and nobody has asked.
    pub fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASLEEP
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn requests_are_joined_and_wake_once() {
        let word = AtomicU64::new(0);
        let requests = Requests(&word);
        assert_eq!(requests.ask(Asked { order: 9, class: 1 }), Wake::NotNeeded);
        assert_eq!(requests.ask(Asked { order: 0, class: 2 }), Wake::NotNeeded);
        assert_eq!(requests.sleep(), Sleep::NotYet);
        assert_eq!(requests.take(), Some(Asked { order: 9, class: 2 }));
        assert_eq!(requests.sleep(), Sleep::Now);
        assert!(requests.is_asleep());
        assert_eq!(requests.ask(Asked { order: 3, class: 0 }), Wake::Needed);
        assert_eq!(requests.ask(Asked { order: 1, class: 0 }), Wake::NotNeeded, "it was woken already");
        assert_eq!(requests.take(), Some(Asked { order: 3, class: 0 }));
        assert_eq!(requests.take(), None);
    }
}
