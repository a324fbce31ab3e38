//! When to evict: in the background, and in a fault that needs memory while it is short.
//!
//! Must hold: nobody waits for ever. A fault goes on over the budget after a limited time, and what others do not give
//! is not waited for again for a while. Called by `host` and `sim`, in the background and for faults that need room.
//! [`crate::space::fairness`] says whose turn it is, [`balance`] how much to take, [`throttling`] who waits.

use crate::evict::{Evicted, Evictor};
use crate::space::AddressSpace;
use crate::space::words::asleep;
use crate::world::World;
use core::ops::DerefMut;
use uswap_core::balance;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::fairness::{Protection, ReclaimDecision};
use uswap_core::throttling::{self, Others, Throttle};
use uswap_sync::Ordering;
use uswap_units::PAGE_BYTES;
use uswap_units::limits::{ROOM_WAIT_NS, THROTTLE_ROUNDS_MAX, WRITE_PATIENCE_NS};

/// Pages of a batch in the background: threads of other processes may wait for its end.
const BACKGROUND_PAGES: u64 = 64;

/// A small batch costs as many calls as a large one, so it is not smaller than that, or than half of what is between
/// the watermarks.
const BACKGROUND_PAGES_MIN: u64 = 32;

/// Pages of a batch that a fault waits for.
const DIRECT_PAGES: u32 = 32;

/// For this long nobody waits for others that brought no room when it was their turn.
pub(super) const OTHERS_FAIL_NS: u64 = 100_000_000;

/// After so many turns in a row that found nothing a process has nothing. Before that its pages may just be in the
/// hands of others: of threads that fault, or evict; and it would be too early to take what is protected.
pub(super) const EMPTY_TURNS: u32 = 3;

/// What a turn of the background evictor came to.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Background {
    /// There is nothing to do until there is pressure.
    Rests,
    /// It goes on.
    GoesOn,
}

/// Turns in a row that brought nothing.
#[derive(Default)]
pub struct KswapdFailures(u32);

impl<W: World> AddressSpace<'_, W> {
    /// The background evictor is awake.
    pub fn note_looked(&self) {
        self.fairness().note_looked(self.world.now_ns());
    }

    /// One turn of the background evictor: its share of what is above the high watermark.
    pub async fn background_turn(&self, evictor: &mut Evictor, failures: &mut KswapdFailures) -> Background {
        self.note_looked();
        let (budget, marks) = (self.segment.budget(), self.watermarks());
        if budget.used() <= marks.high || !self.may_evict() {
            self.disown_zspages(evictor);
            return Background::Rests;
        }
        let seen = budget.signal_count(Signal::Room);
        let now_ns = self.world.now_ns();
        let turn = match self.fairness().turn(now_ns) {
            ReclaimDecision::Own { burden, of, protection }
                if !self.fairness().spares(protection, now_ns) =>
            {
                Some((burden, of, protection))
            }
            // Else the threads take the same pages, one batch after the other.
            ReclaimDecision::Others { burden, protection }
                if self.others_fail(now_ns) && !self.fairness().spares(protection, now_ns) =>
            {
                Some((burden, burden, protection))
            }
            _ => None,
        };
        let Some((burden, of, protection)) = turn else {
            self.world.wait(Signal::Room, seen, ROOM_WAIT_NS).await;
            return Background::GoesOn;
        };
        let share = balance::reclaim_share(budget.used(), marks.high, burden, of);
        let least =
            BACKGROUND_PAGES_MIN.min((marks.low.bytes() - marks.high.bytes()) / PAGE_BYTES as u64 / 2);
        let done = self.evict(evictor, share.clamp(least, BACKGROUND_PAGES) as u32).await;
        self.fairness().charge(burden, protection, done.looked, done.pages);
        if done.pages > 0 || done.looks_on {
            failures.0 = 0;
            return Background::GoesOn;
        }
        failures.0 += 1;
        let wait_ns = balance::backoff_ns(failures.0, ROOM_WAIT_NS);
        if done.looked == 0 && failures.0 >= EMPTY_TURNS {
            self.fairness().has_nothing_until(self.world.now_ns() + wait_ns);
        }
        self.world.wait(Signal::Room, seen, wait_ns).await;
        Background::GoesOn
    }

    /// The others, whose turn it was, brought no room when it was waited for: they give little, or slowly.
    fn others_fail(&self, now_ns: u64) -> bool {
        now_ns < self.others_fail_until_ns.load(Ordering::Relaxed)
    }

    /// Whether a fault that needs a page makes room first.
    pub fn is_short(&self) -> bool {
        let used = self.segment.budget().used();
        self.floor.note_used(used);
        used > self.watermarks().min && used > self.floor.bytes(self.world.now_ns())
    }

    /// Makes room for a fault while memory is short: with an evictor that `borrow` gives, or, while all of the process
    /// are at work, by waiting for these. Not for ever: they may be waiting too.
    pub async fn make_room<E: DerefMut<Target = Evictor>>(&self, borrow: impl Fn() -> Option<E>) {
        for _ in 0..THROTTLE_ROUNDS_MAX {
            if !self.is_short() {
                return;
            }
            if !self.may_evict() {
                break;
            }
            if let Some(mut evictor) = borrow() {
                return self.throttle(&mut evictor).await;
            }
            self.wait_for_batch().await;
        }
        self.note_over();
    }

    /// A fault goes on: over the budget, if that is used up.
    fn note_over(&self) {
        let budget = self.segment.budget();
        if budget.used() > budget.ram() {
            self.counters().add(Counter::ForcedOver, 1);
        }
    }

    /// Waits until somebody has made room, or a moment.
    async fn wait_for_batch(&self) {
        let seen = self.segment.budget().signal_count(Signal::Room);
        if self.is_short() {
            self.asleep(self.world.wait(Signal::Room, seen, ROOM_WAIT_NS)).await;
        }
    }

    /// Waits as a thread that wants a page, and is seen not to run meanwhile.
    pub(crate) async fn asleep(&self, wait: impl Future<Output = ()>) {
        asleep(self.record(), wait).await;
    }

    /// Direct reclaim: makes room for a fault, or waits for it. It never waits for ever: the program goes on over the
    /// budget rather than not at all.
    pub(crate) async fn throttle(&self, evictor: &mut Evictor) {
        let budget = self.segment.budget();
        let began_ns = self.world.now_ns();
        let (mut rounds, mut in_vain, mut waited) = (0, 0, 0);
        while rounds < THROTTLE_ROUNDS_MAX && self.is_short() {
            if budget.is_full() || budget.is_ending() || !self.may_evict() {
                break;
            }
            let seen = budget.signal_count(Signal::Room);
            let now_ns = self.world.now_ns();
            let turn = self.fairness().turn(now_ns);
            let others = if self.others_fail(now_ns) { Others::Fail } else { Others::MayHelp };
            let (burden, protection) = match throttling::next(turn, waited, others) {
                Throttle::WaitsForOthers { ns } => {
                    waited += 1;
                    self.counters().add(Counter::WaitedForOthers, 1);
                    self.asleep(self.world.wait(Signal::Room, seen, ns)).await;
                    continue;
                }
                Throttle::Takes { burden, protection, others_failed } => {
                    if others_failed {
                        self.others_fail_until_ns.store(now_ns + OTHERS_FAIL_NS, Ordering::Relaxed);
                    }
                    (burden, protection)
                }
                Throttle::TakesProtected => {
                    (self.record().account().holding.burden(Protection::Gives), Protection::Gives)
                }
            };
            self.counters().add(Counter::DirectReclaim, 1);
            let done = self.evict(evictor, DIRECT_PAGES).await;
            self.fairness().charge(burden, protection, done.looked, done.pages);
            if done.pages == 0 && !done.looks_on {
                // What it has begun in the pool is room for others, who may be waiting as well.
                self.disown_zspages(evictor);
                self.asleep(self.world.wait(Signal::Room, seen, ROOM_WAIT_NS)).await;
            }
            if !self.goes_on_for_room(done, began_ns) {
                rounds += 1;
                in_vain += u32::from(done.pages == 0);
            }
        }
        self.disown_zspages(evictor);
        let used = budget.used();
        if in_vain > THROTTLE_ROUNDS_MAX / 2 && self.is_short() {
            self.counters().add(Counter::WaitedInVain, u64::from(in_vain == THROTTLE_ROUNDS_MAX));
            let room = budget.signal_count(Signal::Room);
            self.floor.set(used, budget.ram(), room, self.world.now_ns());
        }
        self.note_over();
    }

    /// What does not compress takes as much room in the pool as before: what was stored helps only when it is written,
    /// which is waited for longer. And a search that was broken off has not failed: the next batch goes on from there.
    fn goes_on_for_room(&self, done: Evicted, began_ns: u64) -> bool {
        let now_ns = self.world.now_ns();
        let will_help = done.no_room || done.pages > 0;
        let has_time = now_ns.saturating_sub(began_ns) < WRITE_PATIENCE_NS;
        has_time && (done.looks_on || will_help && self.segment.budget().is_room_coming(now_ns))
    }
}
