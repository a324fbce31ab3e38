//! Reclaim between the processes of a run: each engine takes from its own process, when it is its turn ([`uswap_core::share`]).
//!
//! What the others have is read from their records: never waited for, and a little old. Who does not look any more (stopped, or without a processor) or has found nothing to take is left out, so nobody waits for it.

use crate::engine::Engine;
use crate::platform::Platform;
use crate::reclaim::Reclaimed;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_core::mm::{MmRecord, MmState};
use uswap_core::page_word::PageWord;
use uswap_core::share::{self, Present, Protection, Turn};
use uswap_units::PAGE_BYTES;

/// A kswapd looks every 2 ms when memory is short. One that has not for so long does not take part.
const AWAY_NS: u64 = 20_000_000;

/// But so long it may only be late (all of the run may have had no processor), or have ended without that the supervisor knows: nobody gives protected memory for that.
const LATE_NS: u64 = 200_000_000;

impl<P: Platform> Engine<'_, P> {
    /// Kswapd is awake, and will reclaim if need be.
    pub fn note_looked(&self) {
        let (record, now_ns) = (self.record(), self.platform.now_ns());
        if self.leaving.load(Ordering::Acquire) {
            record.set_has_nothing_until_ns(u64::MAX);
        }
        if !takes_part(record, now_ns) {
            record.pass_up_to(self.segment.budget().passed());
        }
        record.set_looked_at_ns(now_ns);
    }

    /// Whose turn it is to be reclaimed from.
    pub(crate) fn turn(&self) -> Turn {
        let now_ns = self.platform.now_ns();
        let others = self.segment.mms().in_use().filter(|other| {
            other.id() != self.mm && other.state() == MmState::Live && takes_part(*other, now_ns)
        });
        let own = self.record().account();
        let turn = share::turn(own, others.map(|other| other.account()), || self.others_present(now_ns));
        if matches!(turn, Turn::Own { .. }) {
            self.segment.budget().pass_up_to(own.passed);
        }
        turn
    }

    /// Protected memory is left alone for now, although no process has other: the pool gives room.
    pub(crate) fn spares(&self, protection: Protection) -> bool {
        protection == Protection::Gives
            && self.record().protected_pages() > 0
            && self.segment.budget().is_room_coming(self.platform.now_ns())
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

    /// What was reclaimed in its turn goes to the account.
    pub(crate) fn settle(&self, burden: u64, protection: Protection, done: Reclaimed) {
        self.record().add_passed(share::step(u64::from(done.looked), burden));
        if protection == Protection::Gives && self.record().protected_pages() > 0 {
            self.counters.add(Counter::ProtectedReclaimed, done.pages);
        }
    }

    /// Stored pages are in RAM again, the first of which had this word. Those that came along with it went at about the same time.
    pub(crate) fn note_came_back(&self, word: PageWord, pages: u32) {
        let distance = self.segment.reuse().distance(word.left_at());
        let outside_pool =
            self.segment.budget().used().0.saturating_sub(self.segment.pool().resident_bytes());
        let resident = outside_pool / PAGE_BYTES as u64;
        self.record().takings().note_came_back(u64::from(pages), distance, resident);
    }

    /// Nothing was found: the others go on without it for so long.
    pub(crate) fn has_nothing_for(&self, ns: u64) {
        self.record().set_has_nothing_until_ns(self.platform.now_ns() + ns);
    }
}

fn takes_part(record: MmRecord<'_>, now_ns: u64) -> bool {
    let is_away = now_ns.saturating_sub(record.looked_at_ns()) > AWAY_NS;
    !is_away && record.has_nothing_until_ns() <= now_ns
}
