//! The parts of the engine of one process.

use crate::arena::Arena;
use crate::huge_fill::Chances;
use crate::late_unmaps::LateUnmaps;
use crate::platform::Platform;
use crate::streams::Streams;
use crate::throttle::Floor;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use lock_api::Mutex;
use uswap_core::balance::{self, Watermarks};
use uswap_core::counters::Counters;
use uswap_core::drop_behind::DropBehind;
use uswap_core::handovers::Handovers;
use uswap_core::mm::MmRecord;
use uswap_core::page_table::{PageTable, TICK_NS};
use uswap_core::pool::ZspageOwner;
use uswap_core::segment::Segment;
use uswap_units::{BLOCK_PAGES, Bytes, MmId, PageId, TableId};

/// What becomes of huge pages of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    /// They leave as one.
    StayWhole,
    /// They leave chunk by chunk.
    AreSplit,
}

/// A budget is at least so many huge pages. The memory of one is free when all of it is stored: that must be little
/// beside what reclaim keeps free, 1 to 3 % of the budget, or faults wait for it. At 64 (128 MiB) filling memory took a
/// third longer, at 128 nothing was lost, at 256 the same work took a sixth less.
const HUGE_PAGES_MIN: u64 = 128;

/// Twice as many as it has: reclaim must not have to wait for it.
const HUGE_ROOM_PAGES: u32 = 2 * BLOCK_PAGES as u32;

/// What the engine of a process is told at start.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Chunks of the arena.
    pub arena_chunks: u32,
    /// Pages that one fault may bring in.
    pub run_pages: u32,
    /// Pages of a run that are loaded and filled together.
    pub part_pages: u32,
    /// Huge pages of the program.
    pub huge_pages: HugePages,
    /// So many pages must be free before one more huge page is made for a first touch.
    pub huge_room_pages: u32,
}

impl EngineOptions {
    /// As suits the budget.
    pub fn of_budget(ram: Bytes, arena_chunks: u32) -> EngineOptions {
        let (run_pages, part_pages) = (balance::run_pages_max(ram), balance::part_pages_max(ram));
        let is_large = ram >= Bytes::of_pages(HUGE_PAGES_MIN * BLOCK_PAGES);
        let huge_pages = if is_large { HugePages::StayWhole } else { HugePages::AreSplit };
        EngineOptions { arena_chunks, run_pages, part_pages, huge_pages, huge_room_pages: HUGE_ROOM_PAGES }
    }
}

/// State of one process that several of its engine tasks change.
pub(crate) struct Private {
    pub(crate) zspages: ZspageOwner,
    pub(crate) arena: Arena,
    /// Where staging goes on.
    pub(crate) hand: PageId,
    pub(crate) late_unmaps: LateUnmaps,
    pub(crate) drop_behind: DropBehind,
}

/// The engine of one process.
pub struct Engine<'a, P: Platform> {
    pub(crate) segment: Segment<'a>,
    pub(crate) mm: MmId,
    pub(crate) table: PageTable<'a>,
    pub(crate) platform: P,
    pub(crate) private: Mutex<P::RawLock, Private>,
    pub(crate) counters: Counters<'a>,
    /// An event is being processed that had to give the gate back in between: nothing may be evicted.
    pub(crate) event_in_progress: AtomicBool,
    /// Forked children that still read frames of this arena through us: frames may not be dropped or reused.
    pub(crate) handovers: Handovers,
    /// Accesses in order.
    pub(crate) streams: Streams,
    /// Pages of a run that are loaded and filled together.
    pub(crate) part_pages: u32,
    pub(crate) huge_pages: HugePages,
    pub(crate) huge_room_pages: u32,
    /// First touches by huge pages.
    pub(crate) chances: Chances,
    /// Faults that wait for room for a huge page.
    pub(crate) block_requests: AtomicU32,
    /// Pages that came back, and not in order, since reclaim last asked.
    pub(crate) came_otherwise: AtomicU32,
    /// What reclaim does not get below.
    pub(crate) floor: Floor,
    /// Unchanged pages whose copy is in the file that were stored: one in some is promoted.
    pub(crate) back_to_file: AtomicU32,
    /// Turns of kswapd in a row that brought nothing, and the size of the process then: what is new may be reclaimed.
    pub(crate) fruitless: (AtomicU32, AtomicU64),
    /// The process leaves management: nothing may be evicted any more.
    pub(crate) leaving: AtomicBool,
    /// Calls of the program that lock memory and bring it home, under way.
    pub(crate) locking: AtomicU32,
    /// Nothing is staged up to this tick: the kernel may be dropping pages somewhere (see `event::hold_range`).
    pub(crate) held_until_tick: AtomicU64,
}

impl<'a, P: Platform> Engine<'a, P> {
    /// The engine of `mm`, whose page table starts at `root`. `segment` acts as the process in which it runs, which is
    /// another one while a parent serves its forked child.
    pub fn new(
        segment: Segment<'a>,
        mm: MmId,
        root: TableId,
        platform: P,
        options: EngineOptions,
    ) -> Engine<'a, P> {
        Engine {
            segment,
            mm,
            table: segment.page_table(mm, root),
            platform,
            private: Mutex::new(Private {
                zspages: ZspageOwner::new(),
                arena: Arena::new(options.arena_chunks),
                hand: PageId(0),
                late_unmaps: LateUnmaps::new(),
                drop_behind: DropBehind::new(segment.reuse().ram_pages()),
            }),
            counters: segment.counters(),
            event_in_progress: AtomicBool::new(false),
            handovers: Handovers::new(),
            streams: Streams::new(options.run_pages),
            part_pages: options.part_pages,
            huge_pages: options.huge_pages,
            huge_room_pages: options.huge_room_pages,
            chances: Chances::default(),
            block_requests: AtomicU32::new(0),
            came_otherwise: AtomicU32::new(0),
            floor: Floor::default(),
            back_to_file: AtomicU32::new(0),
            fruitless: (AtomicU32::new(0), AtomicU64::new(0)),
            leaving: AtomicBool::new(false),
            locking: AtomicU32::new(0),
            held_until_tick: AtomicU64::new(0),
        }
    }

    /// The shared state.
    pub fn segment(&self) -> Segment<'a> {
        self.segment
    }
    /// The world it lives in.
    pub fn platform(&self) -> &P {
        &self.platform
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
    /// True while an event is being processed that had to give the gate back in between: words of pages that were moved
    /// are on their way to the new place.
    pub fn is_in_the_middle_of_an_event(&self) -> bool {
        self.event_in_progress.load(Ordering::Acquire)
    }
    /// True while pages may be moved out.
    pub(crate) fn may_evict(&self) -> bool {
        let held_until_tick = self.held_until_tick.load(Ordering::Acquire);
        let stopped = self.event_in_progress.load(Ordering::Acquire)
            || self.leaving.load(Ordering::Acquire)
            || self.locking.load(Ordering::Acquire) > 0
            || (held_until_tick > 0 && self.platform.now_ns() / TICK_NS <= held_until_tick);
        !stopped && !self.handovers.any()
    }
    /// From now on nothing is evicted.
    pub fn stop_evicting(&self) {
        self.leaving.store(true, Ordering::Release);
    }
    /// A call of the program begins that brings all its memory home and locks it there: until it ends
    /// nothing is evicted.
    pub fn begin_locking(&self) {
        self.locking.fetch_add(1, Ordering::AcqRel);
    }
    /// It ends.
    pub fn end_locking(&self) {
        self.locking.fetch_sub(1, Ordering::AcqRel);
    }
    /// Pages may be evicted again.
    pub fn resume_evicting(&self) {
        self.leaving.store(false, Ordering::Release);
    }
}
