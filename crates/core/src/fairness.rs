//! From which process of a run reclaim takes: decides from numbers.
//!
//! Each process has a *burden*: the pages that it has in RAM beyond what is protected, less the more of what was taken
//! from it came back soon, and the larger its weight. Pages are taken in proportion to the burdens. Nobody hands them
//! out: each kswapd takes from its own process. It keeps an account of what it has looked at, divided by its burden
//! ([`stride`]), and pauses while it is ahead of another ([`turn`]): so it does not matter how fast or how often each
//! of them works. What a look at a process brings is its own affair: pages that are in use go back to it, so one that
//! uses all it has gives little for the same account. This is stride scheduling (Waldspurger and Weihl 1995), and the
//! words *pass* and *stride* are theirs.
//!
//! Must hold: of the processes with pages that are not protected, the one whose account is behind all others has the
//! turn, so they never all wait for each other. [`Protection::Gives`] is said only where none of them has such pages.
//! Called by `engine`, which brings what is in the records and acts on the answer, by [`crate::throttling`] and
//! [`crate::mm`], and by the supervisor and `cli`, which know weights.

use crate::working_set::WorkingSet;
use uswap_units::CHUNK_PAGES;

/// The weight of whoever has none.
pub const WEIGHT_DEFAULT: u64 = 100;
/// The largest. The smallest is 1.
pub const WEIGHT_MAX: u64 = 10_000;

/// What there is to take from a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Pages in RAM.
    pub resident_pages: u64,
    /// How many of them are left alone while others have something.
    pub protected_pages: u64,
    /// The share goes inversely. 0: [`WEIGHT_DEFAULT`].
    pub weight: u64,
    /// What became of what was taken.
    pub lately: WorkingSet,
}

/// Whether protected pages are left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Yes.
    Holds,
    /// There is nothing else.
    Gives,
}

impl Holding {
    /// What its share is in proportion to.
    pub fn burden(&self, protection: Protection) -> u64 {
        let pages = match protection {
            Protection::Holds => self.resident_pages.saturating_sub(self.protected_pages),
            Protection::Gives => self.resident_pages,
        };
        let weight = if self.weight == 0 { WEIGHT_DEFAULT } else { self.weight };
        let parts = 16 - self.lately.came_back_of_16();
        (pages * parts * WEIGHT_DEFAULT / 16 / weight).max(u64::from(pages > 0))
    }
}

/// A process, as the one sees it that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account {
    /// What it has.
    pub holding: Holding,
    /// Sum of its [`stride`]s.
    pub pass: u64,
}

/// What the account of a process grows by when so many pages were looked at.
pub fn stride(pages: u64, burden: u64) -> u64 {
    (pages << STRIDE_BITS) / burden.max(1)
}

const STRIDE_BITS: u32 = 20;

/// A process may be ahead by so many of its pages: so much is looked at before a kswapd asks again.
const AHEAD_PAGES: u64 = 2 * CHUNK_PAGES;

/// Nobody waits for a process with a burden of less than this part of its own: what such a one has is soon looked at,
/// again and again, and brings next to nothing.
const SMALL_PART: u64 = 16;

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimDecision {
    /// Of the one that asks, whose part of all burdens this is.
    Own {
        /// Its burden.
        burden: u64,
        /// The sum.
        of: u64,
        /// Whether only protected pages are left.
        protection: Protection,
    },
    /// Of others, who are behind.
    Others {
        /// The burden of the one that asks.
        burden: u64,
        /// As above.
        protection: Protection,
    },
    /// Of others, as long as they have anything: all that this one has is protected.
    OnlyOthers,
}

/// Whether the others that are given to [`turn`] are all that may have pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Present {
    /// Yes.
    All,
    /// One is late, or has ended and its memory becomes free.
    NotAll,
}

/// What is known of the others.
#[derive(Clone, Copy)]
struct OtherBurdens {
    burden: u64,
    /// The account of the one that is behind, among those that have something.
    behind: u64,
}

/// Whose turn it is among a process and the others that can be reclaimed from now. `present` is asked if the process
/// would have to give what is protected.
pub fn turn(
    own: Account,
    others: impl Iterator<Item = Account>,
    present: impl Fn() -> Present,
) -> ReclaimDecision {
    const KINDS: [Protection; 2] = [Protection::Holds, Protection::Gives];
    let mut known = [OtherBurdens { burden: 0, behind: u64::MAX }; KINDS.len()];
    let own_burdens = KINDS.map(|protection| own.holding.burden(protection));
    // Once: there may be thousands of records to go through.
    for other in others {
        for ((known, protection), own_burden) in known.iter_mut().zip(KINDS).zip(own_burdens) {
            let burden = other.holding.burden(protection);
            known.burden += burden;
            if burden > own_burden / SMALL_PART {
                known.behind = known.behind.min(other.pass);
            }
        }
    }
    for (others, protection) in known.into_iter().zip(KINDS) {
        let burden = own.holding.burden(protection);
        let must_give = protection == Protection::Gives && own.holding.protected_pages > 0;
        let has_none = burden == 0 && others.burden > 0;
        if has_none || (must_give && present() == Present::NotAll) {
            return ReclaimDecision::OnlyOthers;
        }
        if burden > 0 {
            let is_ahead = own.pass > others.behind.saturating_add(stride(AHEAD_PAGES, burden));
            let of = burden + others.burden;
            return match is_ahead {
                true => ReclaimDecision::Others { burden, protection },
                false => ReclaimDecision::Own { burden, of, protection },
            };
        }
    }
    // Nobody has a page, as far as is known.
    ReclaimDecision::Own { burden: 1, of: 1, protection: Protection::Holds }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn holding(resident_pages: u64) -> Holding {
        Holding { resident_pages, protected_pages: 0, weight: 0, lately: WorkingSet::default() }
    }

    /// Takes pages from processes that stay as they are, all of which try at each step; what was looked at in each, in
    /// 100 parts.
    fn shares(holdings: &[Holding]) -> Vec<u64> {
        let mut accounts: Vec<_> = holdings.iter().map(|&holding| Account { holding, pass: 0 }).collect();
        let mut looked = std::vec![0; holdings.len()];
        for _ in 0..20_000 {
            for index in 0..accounts.len() {
                let others = accounts.iter().enumerate().filter(|&(other, _)| other != index);
                let others = others.map(|(_, &account)| account);
                if let ReclaimDecision::Own { burden, .. } = turn(accounts[index], others, || Present::All) {
                    looked[index] += CHUNK_PAGES;
                    accounts[index].pass += stride(CHUNK_PAGES, burden);
                }
            }
        }
        let sum: u64 = looked.iter().sum();
        looked.iter().map(|pages| (pages * 100 + sum / 2) / sum).collect()
    }

    fn comes_back(resident_pages: u64, of_hundred: u64) -> Holding {
        let mut lately = WorkingSet::default();
        for _ in 0..100 {
            lately.note_reclaimed(100);
            lately.note_came_back(of_hundred);
        }
        Holding { lately, ..holding(resident_pages) }
    }

    #[test]
    fn shares_go_by_size_however_often_each_one_tries() {
        assert_eq!(shares(&[holding(5000), holding(25_000), holding(70_000)]), [5, 25, 70]);
    }

    #[test]
    fn who_fetches_its_pages_back_gives_less() {
        // Of 16 parts, rounded down, 7 come back: 9 of 25.
        assert_eq!(shares(&[comes_back(10_000, 50), holding(10_000)]), [36, 64]);
        assert_eq!(shares(&[comes_back(10_000, 100), holding(10_000)]), [6, 94]);
        // Where all of them do, it is by size again.
        assert_eq!(shares(&[comes_back(10_000, 100), comes_back(30_000, 100)]), [25, 75]);
    }

    #[test]
    fn shares_go_inversely_to_weights() {
        let heavy = Holding { weight: 300, ..holding(10_000) };
        assert_eq!(shares(&[heavy, holding(10_000)]), [25, 75]);
    }

    #[test]
    fn what_is_protected_is_left_alone_while_others_have_something() {
        let protected = Holding { protected_pages: 10_000, ..holding(10_000) };
        assert_eq!(shares(&[protected, holding(100)]), [0, 100]);
        // Beyond it, as any other.
        let half = Holding { protected_pages: 5000, ..holding(10_000) };
        assert_eq!(shares(&[half, holding(5000)]), [50, 50]);
        // Nobody else has anything.
        assert_eq!(shares(&[protected, holding(0), protected]), [50, 0, 50]);
        // Whoever is ahead among those knows that it would give what is protected.
        let ahead = Account { holding: protected, pass: 1 << 40 };
        let behind = Account { holding: protected, pass: 0 };
        let expected = ReclaimDecision::Others { burden: 10_000, protection: Protection::Gives };
        assert_eq!(turn(ahead, [behind].into_iter(), || Present::All), expected);
        let alone = Account { holding: protected, pass: 0 };
        let expected = ReclaimDecision::Own { burden: 10_000, of: 10_000, protection: Protection::Gives };
        assert_eq!(turn(alone, core::iter::empty(), || Present::All), expected);
        // As far as is known: all of the run may have had no processor for a while.
        assert_eq!(turn(alone, core::iter::empty(), || Present::NotAll), ReclaimDecision::OnlyOthers);
        let bare = Account { holding: holding(7), pass: 0 };
        assert!(matches!(turn(bare, core::iter::empty(), || Present::NotAll), ReclaimDecision::Own { .. }));
    }

    #[test]
    fn nobody_waits_for_a_process_that_has_next_to_nothing() {
        let ahead = Account { holding: holding(16_000), pass: 1 << 40 };
        let turn_beside =
            |pages| turn(ahead, [Account { holding: holding(pages), pass: 0 }].into_iter(), || Present::All);
        assert!(matches!(turn_beside(1000), ReclaimDecision::Own { burden: 16_000, of: 17_000, .. }));
        assert!(matches!(turn_beside(1001), ReclaimDecision::Others { burden: 16_000, .. }));
    }

    #[test]
    fn somebody_has_the_turn_always() {
        for holdings in [[0, 0], [0, 7], [1, 1 << 30]] {
            let [one, other] = holdings.map(|pages| Account { holding: holding(pages), pass: pages * 77 });
            let turns = [(one, other), (other, one)]
                .map(|(own, other)| turn(own, [other].into_iter(), || Present::All));
            assert!(turns.iter().any(|turn| matches!(turn, ReclaimDecision::Own { .. })), "{turns:?}");
        }
    }
}
