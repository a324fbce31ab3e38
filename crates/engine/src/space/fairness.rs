//! Reclaim between the processes of a run: each engine takes from its own process, when it is its turn
//! ([`uswap_core::fairness`]).
//!
//! Must hold: what the others have is read from their records, never waited for, and may be a little old. Whoever does
//! not look any more (stopped, or without a processor) or has found nothing to take is left out, so nobody waits for
//! it.
//! Called by [`crate::reclaim`], and by [`crate::fault`] for each page that comes back.

use uswap_core::counters::Counter;
use uswap_core::fairness::{self, Present, Protection, ReclaimDecision};
use uswap_core::mm::{MmRecord, MmState};
use uswap_core::page_word::PageWord;
use uswap_core::segment::Segment;
use uswap_units::{MmId, PAGE_BYTES};

/// A kswapd looks every 2 ms when memory is short. One that has not for so long does not take part.
const AWAY_NS: u64 = 20_000_000;

/// But so long it may only be late (all of the run may have had no processor), or have ended without that the
/// supervisor knows: nobody gives protected memory for that.
const LATE_NS: u64 = 200_000_000;

/// How a stored page came back.
#[derive(Clone, Copy)]
pub(crate) struct Refault {
    /// Pages that the whole run stored between its eviction and now.
    distance: u64,
    /// Pages of all processes that are in RAM.
    resident: u64,
}

impl Refault {
    /// With twice the RAM it would still have been there.
    pub(crate) fn is_soon(self) -> bool {
        self.distance <= self.resident
    }
}

/// One process among those of its run.
#[derive(Clone, Copy)]
pub(crate) struct Fairness<'a> {
    pub(crate) segment: Segment<'a>,
    pub(crate) mm: MmId,
}

impl<'a> Fairness<'a> {
    fn record(&self) -> MmRecord<'a> {
        self.segment.mms().record(self.mm)
    }

    /// It is awake, and will be reclaimed from if need be.
    pub(crate) fn note_looked(&self, now_ns: u64) {
        let record = self.record();
        if !takes_part(record, now_ns) {
            record.raise_pass_to(self.segment.budget().pass());
        }
        record.set_looked_at_ns(now_ns);
    }

    /// Whose turn it is to be reclaimed from.
    pub(crate) fn turn(&self, now_ns: u64) -> ReclaimDecision {
        let others = self.segment.mms().in_use().filter(|other| {
            other.id() != self.mm && other.state() == MmState::Live && takes_part(*other, now_ns)
        });
        let own = self.record().account();
        let turn = fairness::turn(own, others.map(|other| other.account()), || self.others_present(now_ns));
        if matches!(turn, ReclaimDecision::Own { .. }) {
            self.segment.budget().raise_pass_to(own.pass);
        }
        turn
    }

    /// Protected memory is left alone for now, although no process has other: the pool gives room.
    pub(crate) fn spares(&self, protection: Protection, now_ns: u64) -> bool {
        protection == Protection::Gives
            && self.record().protected_pages() > 0
            && self.segment.budget().is_room_coming(now_ns)
    }

    fn others_present(&self, now_ns: u64) -> Present {
        let is_late = self.segment.mms().in_use().filter(|other| other.id() != self.mm).any(|other| {
            let absent_ns = now_ns.saturating_sub(other.looked_at_ns());
            match other.state() {
                MmState::Live => (AWAY_NS..LATE_NS).contains(&absent_ns) && other.resident_pages() > 0,
                MmState::Reaping => true,
                MmState::Free | MmState::Taken | MmState::Forked => false,
            }
        });
        if is_late { Present::NotAll } else { Present::All }
    }

    /// What was looked at in its turn goes to the account; `pages` were taken.
    pub(crate) fn charge(&self, burden: u64, protection: Protection, looked: u64, pages: u64) {
        self.record().add_pass(fairness::stride(looked, burden));
        if protection == Protection::Gives && self.record().protected_pages() > 0 {
            self.segment.counters().add(Counter::ProtectedReclaimed, pages);
        }
    }

    /// A stored page comes back that had this word.
    pub(crate) fn note_came_back(&self, word: PageWord) -> Refault {
        let distance = self.segment.reuse().distance(word.evicted_at());
        let outside_pool =
            self.segment.budget().used().bytes().saturating_sub(self.segment.pool().resident_bytes());
        let resident = outside_pool / PAGE_BYTES as u64;
        self.record().refault_stats().note_came_back(1, distance, resident);
        Refault { distance, resident }
    }

    /// Nothing was found: the others go on without it until then.
    pub(crate) fn has_nothing_until(&self, until_ns: u64) {
        self.record().set_has_nothing_until_ns(until_ns);
    }
}

fn takes_part(record: MmRecord<'_>, now_ns: u64) -> bool {
    let is_away = now_ns.saturating_sub(record.looked_at_ns()) > AWAY_NS;
    !is_away && record.has_nothing_until_ns() <= now_ns
}
