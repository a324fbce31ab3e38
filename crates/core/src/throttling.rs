//! What a fault does that needs room while memory is short: decides from numbers.
//!
//! A process takes from itself when it is its turn. When it is the turn of others it waits for them, once, and if that
//! brought no room nobody waits for them again for a while: so that a process whose others give little or nothing pays
//! for that once. One that has nothing but what is protected waits twice before it gives that.
//!
//! Must hold: a fault waits for others at most once, or twice if its process has nothing but what is protected;
//! [`Throttle::TakesProtected`] is said only after that.
//!
//! Called by `engine`, when a fault needs room; it waits and evicts as this says.

use crate::fairness::{Protection, ReclaimDecision};
use uswap_units::limits::ROOM_WAIT_NS;

/// A fault in a process that has nothing but what is protected waits so long for the others, so often.
const OTHERS_NS: u64 = 500_000;
const OTHERS_ROUNDS: u32 = 2;

/// What a fault does next.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttle {
    /// It waits so long for others to make room.
    WaitsForOthers {
        /// At most.
        ns: u64,
    },
    /// It takes from its own process.
    Takes {
        /// Whose burden this is.
        burden: u64,
        /// Whether only protected pages are left.
        protection: Protection,
        /// Others were waited for, and brought no room: they are not waited for again for a while.
        others_failed: bool,
    },
    /// It takes from its own process, though all of that is protected.
    TakesProtected,
}

/// What is known of other processes, whose turn it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Others {
    /// They may make room.
    MayHelp,
    /// They brought no room when somebody waited for them a short while ago.
    Fail,
}

/// What comes next, when others were waited for `waited` times by this fault.
pub fn next(turn: ReclaimDecision, waited: u32, others: Others) -> Throttle {
    match turn {
        ReclaimDecision::Own { burden, protection, .. } => {
            Throttle::Takes { burden, protection, others_failed: false }
        }
        ReclaimDecision::Others { .. } if waited == 0 && others == Others::MayHelp => {
            Throttle::WaitsForOthers { ns: ROOM_WAIT_NS }
        }
        ReclaimDecision::Others { burden, protection } => {
            Throttle::Takes { burden, protection, others_failed: waited > 0 }
        }
        ReclaimDecision::OnlyOthers if waited < OTHERS_ROUNDS => Throttle::WaitsForOthers { ns: OTHERS_NS },
        ReclaimDecision::OnlyOthers => Throttle::TakesProtected,
    }
}

#[cfg(test)]
mod tests {
    use super::{OTHERS_NS, OTHERS_ROUNDS, Others, Throttle, next};
    use crate::fairness::{Protection, ReclaimDecision};
    use std::vec::Vec;
    use uswap_units::limits::ROOM_WAIT_NS;

    const OWN: ReclaimDecision = ReclaimDecision::Own { burden: 5, of: 9, protection: Protection::Holds };
    const OTHERS: ReclaimDecision = ReclaimDecision::Others { burden: 5, protection: Protection::Holds };

    fn takes(others_failed: bool) -> Throttle {
        Throttle::Takes { burden: 5, protection: Protection::Holds, others_failed }
    }

    /// How a fault goes on whose turn stays the same, until it takes something.
    fn steps(turn: ReclaimDecision, others: Others) -> Vec<Throttle> {
        let mut steps = Vec::new();
        loop {
            let step = next(turn, steps.len() as u32, others);
            steps.push(step);
            if !matches!(step, Throttle::WaitsForOthers { .. }) {
                return steps;
            }
        }
    }

    #[test]
    fn who_has_the_turn_takes_at_once() {
        assert_eq!(steps(OWN, Others::MayHelp), [takes(false)]);
        assert_eq!(next(OWN, 3, Others::Fail), takes(false));
    }

    #[test]
    fn others_are_waited_for_once_and_not_if_they_fail() {
        let waits = Throttle::WaitsForOthers { ns: ROOM_WAIT_NS };
        assert_eq!(steps(OTHERS, Others::MayHelp), [waits, takes(true)]);
        assert_eq!(steps(OTHERS, Others::Fail), [takes(false)]);
    }

    #[test]
    fn what_is_protected_is_given_after_all_waits() {
        for others in [Others::MayHelp, Others::Fail] {
            let steps = steps(ReclaimDecision::OnlyOthers, others);
            let (last, waits) = steps.split_last().expect("it ends with something");
            assert_eq!(*last, Throttle::TakesProtected);
            assert_eq!(waits.len(), OTHERS_ROUNDS as usize);
            assert!(waits.iter().all(|wait| *wait == Throttle::WaitsForOthers { ns: OTHERS_NS }));
        }
    }
}
