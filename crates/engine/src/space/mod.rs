//! The parts of one process.
//!
//! Must hold: a process has one [`AddressSpace`], whose segment acts as that process: queues, holds and the clock hand
//! are in there, and not in the segment. Called by `host` and `sim`, which make it, and by [`crate::evict`],
//! [`crate::fault`], [`crate::fork`], [`crate::mapping`], [`crate::memory_map`] and [`crate::reclaim`], whose functions
//! are methods of it.

pub(crate) mod behind;
pub(crate) mod fairness;
pub(crate) mod floor;
pub(crate) mod hand;
pub(crate) mod held;
pub(crate) mod readahead;
pub(crate) mod sampled;
pub(crate) mod words;

use self::behind::Behind;
use self::fairness::Fairness;
use self::floor::Floor;
use self::hand::ClockHand;
use self::held::{Held, Hold};
use self::readahead::Readahead;
use self::sampled::Sampled;
use self::words::WordQueues;
use crate::record::Cipher;
use crate::world::World;

use uswap_core::balance::{self, Watermarks};
use uswap_core::budget::Signal;
use uswap_core::counters::Counters;
use uswap_core::mm::MmRecord;
use uswap_core::page_table::PageTable;
use uswap_core::protecting::Protecting;
use uswap_core::segment::Segment;
use uswap_sync::{AtomicU32, AtomicU64};
use uswap_units::limits::RUN_PAGES_MAX;
use uswap_units::{BLOCK_PAGES, Bytes, CHUNK_PAGES, MmId, PAGE_BYTES, PageId, PageRange, TableId};

/// The memory of one process: its page words, and the world they are about.
pub struct AddressSpace<'a, W> {
    pub(super) segment: Segment<'a>,
    pub(super) mm: MmId,
    pub(super) table: PageTable<'a>,
    pub(super) world: W,
    /// Opens the records of the run.
    pub(super) cipher: Cipher,
    pub(super) queues: WordQueues,
    /// What evictors are protecting.
    pub(super) protecting: Protecting,
    /// Accesses in order.
    pub(super) readahead: Readahead,
    /// What the program has just gone past.
    pub(super) behind: Behind,
    /// First writes in order, of pages that are there and protected.
    pub(super) first_writes: Readahead,
    /// Where the search for pages to evict goes on.
    pub(super) hand: ClockHand,
    /// Until then it is not waited for other processes of the run.
    pub(super) others_fail_until_ns: AtomicU64,
    /// Clean pages whose copy is in the file and that went again: one in some is promoted.
    pub(super) back_to_file: AtomicU32,
    /// Pages that were compressed or tried to be.
    pub(super) stored_anew: AtomicU32,
    /// Pages that go, and those that do not get smaller.
    pub(super) incompressible: Sampled,
    /// Pages that were written when they were here last, came back protected, and are written again.
    pub(super) rewritten: Sampled,
    /// Pages that were protected for their neighbours' sake, and were written then.
    pub(super) covered_written: Sampled,
    /// What reclaim does not get below.
    pub(super) floor: Floor,
    /// What is not evicted for a while.
    pub(super) held: Held,
}

impl<'a, W: World> AddressSpace<'a, W> {
    /// The memory of `mm`, whose page table starts at `root`. `segment` acts as that process.
    pub fn new(segment: Segment<'a>, mm: MmId, root: TableId, world: W) -> AddressSpace<'a, W> {
        AddressSpace {
            segment,
            mm,
            table: segment.page_table(mm, root),
            world,
            cipher: Cipher::of(segment.file_key()),
            queues: WordQueues::new(),
            protecting: Protecting::default(),
            readahead: Readahead::new(balance::run_pages_max(segment.budget().ram())),
            behind: Behind::new(segment.budget().ram().bytes() / PAGE_BYTES as u64),
            first_writes: Readahead::new(RUN_PAGES_MAX as u32),
            hand: ClockHand::default(),
            others_fail_until_ns: AtomicU64::new(0),
            back_to_file: AtomicU32::new(0),
            stored_anew: AtomicU32::new(0),
            incompressible: Sampled::new(),
            rewritten: Sampled::new(),
            covered_written: Sampled::new(),
            floor: Floor::default(),
            held: Held::new(),
        }
    }

    /// The shared state.
    pub fn segment(&self) -> Segment<'a> {
        self.segment
    }
    /// The world it lives in.
    pub fn world(&self) -> &W {
        &self.world
    }
    /// Its page table.
    pub fn page_table(&self) -> PageTable<'a> {
        self.table
    }
    /// Its record.
    pub fn record(&self) -> MmRecord<'a> {
        self.segment.mms().record(self.mm)
    }
    /// Levels of used memory.
    pub fn watermarks(&self) -> Watermarks {
        self.segment.budget().watermarks()
    }
    /// From now on nothing is evicted, until [`resume_evicting`](Self::resume_evicting). What was under way may still
    /// drop pages.
    pub fn hold_evicting(&self) {
        let _by_its_count = self.held.hold_all();
    }
    /// Pages may be evicted again.
    pub fn resume_evicting(&self) {
        self.held.release(Hold::All);
    }

    /// Nobody holds everything.
    pub fn may_evict(&self) -> bool {
        !self.held.is_all()
    }

    /// Nothing of the range is evicted while the answer lives. What was under way may still drop pages: whoever needs
    /// the range looks again with the gate exclusive. The rest of the process makes room as ever.
    pub fn hold_range(&self, range: PageRange) -> HeldRange<'_, 'a, W> {
        HeldRange { space: self, hold: self.held.hold(range), range }
    }
    pub(super) fn counters(&self) -> Counters<'a> {
        self.segment.counters()
    }
    pub(super) fn fairness(&self) -> Fairness<'a> {
        Fairness { segment: self.segment, mm: self.mm }
    }
    /// Notes pages that came to RAM, and that nobody has measured yet.
    pub fn note_resident(&self, pages: u32) {
        let (budget, low) = (self.segment.budget(), self.watermarks().low);
        let before = budget.used();
        budget.add(Bytes::of_pages(u64::from(pages)).bytes());
        if before <= low && budget.used() > low {
            self.world.raise(Signal::Pressure);
        }
    }
    /// Pages that may be brought along while memory is not short; at least the one that is asked for.
    pub(super) fn pages_free(&self) -> u32 {
        let free = self.watermarks().min.above(self.segment.budget().used());
        (free / PAGE_BYTES as u64).clamp(1, u64::from(u32::MAX)) as u32
    }
    /// The words of these pages were unlocked: their waiters look again.
    pub(super) fn unlocked(&self, pages: impl Iterator<Item = PageId>) {
        self.queues.unlocked(&self.world, pages);
    }
}

/// A range of which nothing is evicted: see [`AddressSpace::hold_range`].
#[must_use]
pub struct HeldRange<'s, 'a, W: World> {
    space: &'s AddressSpace<'a, W>,
    hold: Hold,
    range: PageRange,
}

impl<W: World> Drop for HeldRange<'_, '_, W> {
    fn drop(&mut self) {
        self.space.held.release(self.hold);
        // The hand has passed it by. Release, in `set`: whoever clears a bit again sees that nothing is held.
        for leaf in self.space.table.leaves(self.range) {
            for chunk in 0..(BLOCK_PAGES / CHUNK_PAGES) as u32 {
                leaf.evictable().set(chunk);
            }
        }
    }
}
