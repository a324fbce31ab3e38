//! The value that stands for this process, and its life.
//!
//! ```text
//! Outside ──start──> Small ──arm──> Waiting ──join_if_grown──> Watching ──activate──> Active ──let_go──> Home
//!                    growth is      calls are seen,            it has a place         memory is     all came home,
//!                    seen           nothing is open            in the run             managed       and stays
//! ```
//!
//! Must hold: a mapping call of the program is made inside `gate` (shared while nothing is managed, exclusive
//! afterwards), and the phase that it goes by is looked at in there. Called by `agent`, which has the value in a
//! static, and by most of this crate, whose functions are methods of it.
//!
//! Memory order: a word with a `set_` function here is stored by it with Release, which pairs with the Acquire of the
//! function of its name: who finds a pointer finds what it points to, and who finds a phase finds what was set up for
//! it. `mm` stands for itself. The other words belong to the files that store them, which say there what an order pairs
//! with. That a phase does not change behind a look at it is a matter of the gate.

use crate::background_files::BackgroundFiles;
use crate::credentials::Credentials;
use crate::fork_in_progress::ForkInProgress;
use crate::latest::Latest;
use crate::lending::LendingPool;
use crate::locks::Locks;
use crate::memory::LinuxWorld;
use crate::try_later::TryLater;
use crate::unclaimed::Unclaimed;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use uswap_core::page_word::EVICTORS_MAX;
use uswap_core::range_set::RangeSet;
use uswap_core::segment::Segment;
use uswap_engine::{AddressSpace, Evictor, Workspace};
use uswap_interpose::buffers::HazardTable;
use uswap_os::gate::Gate;
use uswap_os::thread::StackArea;
use uswap_units::MmId;

/// The engine of this process.
pub type Space = AddressSpace<'static, LinuxWorld>;

/// How this process is part of a run.
#[derive(Clone, Copy)]
pub struct Terms {
    /// It takes a place in the run when so much of its memory is private and may be written.
    pub join_bytes: u64,
    /// What of its memory is managed.
    pub managed: Managed,
    /// What becomes of a process that changes its user, group or dumpability.
    pub after_setuid: AfterSetuid,
    /// Those with which it came.
    pub credentials: Credentials,
    /// How far from its thread pointer a thread has its area of restartable sequences, if its C library gives it one.
    pub rseq_area_offset: Option<isize>,
}

/// The run in which this process has a place.
#[derive(Clone, Copy)]
pub struct Membership {
    /// Its segment, in nobody's name.
    pub segment: Segment<'static>,
    /// Where that is mapped.
    pub segment_start: usize,
    /// How long that mapping is.
    pub segment_bytes: usize,
}

/// What of the memory of a process is managed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Managed {
    /// All that can be.
    All,
    /// What it names ([`Process::manage`]). What it executes goes its own way.
    Regions,
}

/// What becomes of a process that changes its credentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterSetuid {
    /// It leaves the run, in whose memory it could read what it may not read otherwise.
    Leaves,
    /// It stays: the user wants it.
    Stays,
}

/// Where the process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Phase {
    /// Not part of a run.
    Outside,
    /// Only calls by which it would grow are seen: see [`crate::small`].
    Small,
    /// Its calls are seen; it has no place in the run yet.
    Waiting,
    /// It has a place; nothing is registered.
    Watching,
    /// The program's memory is managed.
    Active,
    /// It came home, for good.
    Home,
}

impl Phase {
    /// It has a place in the run, and may use its evictors.
    #[inline]
    pub(crate) fn has_place(self) -> bool {
        !matches!(self, Phase::Outside | Phase::Small | Phase::Waiting)
    }

    /// Nothing has been managed yet, and may be one day.
    #[inline]
    pub fn is_before_active(self) -> bool {
        matches!(self, Phase::Waiting | Phase::Watching)
    }
}

/// Faults that are served at a time: each has a workspace, of which a single fault touches 36 KiB.
pub(crate) const WORKSPACES: usize = 6;
/// Evictors that work at a time.
pub(crate) const EVICTORS: usize = EVICTORS_MAX as usize;

/// Thread stacks that are known at a time. A program with more of them is not managed.
const STACKS_MAX: usize = 1024;

/// Ranges that the program keeps in RAM at a time.
const PINNED_MAX: usize = 256;

/// Bytes of the stack of the thread that evicts.
const EVICTOR_STACK_BYTES: usize = 128 * 1024;

/// This process. One value, made for a static; `start` brings it to life.
pub struct Process {
    phase: AtomicU32,
    own: AtomicPtr<Process>,
    terms: Latest<Terms>,
    membership: Latest<Membership>,
    mm: AtomicU32,
    space: Latest<Space>,
    hazards: Latest<HazardTable<'static>>,
    /// Who changes mappings.
    pub(crate) gate: Gate,
    /// What is not managed: stacks and control blocks of threads, and ranges that are wiped in a child, freed lazily,
    /// or served by the program itself (userfaultfd).
    pub(crate) stacks: RangeSet<STACKS_MAX>,
    /// What the program keeps in RAM by name ([`Process::pin_region`]).
    pub(crate) pinned: RangeSet<PINNED_MAX>,
    /// What the program has locked.
    pub(crate) locks: Locks,
    /// How much of its memory is private and may be written, while it waits; 0: not known yet.
    pub(crate) grown_bytes: AtomicU64,
    /// Tries to take a place that failed for a reason that may pass.
    pub(crate) enter_later: TryLater,
    /// Where the heap ends.
    pub(crate) program_break: AtomicUsize,
    /// Thread pointer of the first thread: its control block is in memory like any other.
    pub(crate) first_thread_pointer: AtomicUsize,
    /// The fork that is under way.
    pub(crate) forking: ForkInProgress,
    /// Children that may not have taken their memory over.
    pub(crate) unclaimed: Unclaimed,
    /// Not 0: pages of managed memory were seen with a guard. Written with the gate exclusive.
    pub(crate) has_guards: AtomicU32,
    /// Not 0: a thread brings all home, and leaves the run.
    pub(crate) is_leaving: AtomicU32,
    pub(crate) workspaces: LendingPool<Workspace, WORKSPACES>,
    pub(crate) evictors: LendingPool<Evictor, EVICTORS>,
    pub(crate) background_stack: StackArea,
    pub(crate) background_files: BackgroundFiles,
    /// Its number. A child that shares the memory (vfork) has another.
    pub(crate) process_id: AtomicU32,
    /// The same while the thread that evicts runs.
    pub(crate) evicting_id: AtomicU32,
    /// Not 0: that thread is to end.
    pub(crate) dismissed: AtomicU32,
}

impl Process {
    /// A process that is not part of a run.
    #[allow(
        clippy::new_without_default,
        reason = "it is made in a static, where a default cannot be asked for"
    )]
    pub const fn new() -> Process {
        Process {
            phase: AtomicU32::new(Phase::Outside as u32),
            own: AtomicPtr::new(core::ptr::null_mut()),
            terms: Latest::new(),
            membership: Latest::new(),
            mm: AtomicU32::new(0),
            space: Latest::new(),
            hazards: Latest::new(),
            gate: Gate::new(),
            stacks: RangeSet::new(),
            pinned: RangeSet::new(),
            locks: Locks::new(),
            grown_bytes: AtomicU64::new(0),
            enter_later: TryLater::new(),
            program_break: AtomicUsize::new(0),
            first_thread_pointer: AtomicUsize::new(0),
            forking: ForkInProgress::new(),
            unclaimed: Unclaimed::new(),
            has_guards: AtomicU32::new(0),
            is_leaving: AtomicU32::new(0),
            workspaces: LendingPool::new([const { UnsafeCell::new(Workspace::new()) }; WORKSPACES]),
            evictors: LendingPool::new([
                UnsafeCell::new(Evictor::new(0)),
                UnsafeCell::new(Evictor::new(1)),
                UnsafeCell::new(Evictor::new(2)),
            ]),
            background_stack: StackArea::new(EVICTOR_STACK_BYTES),
            background_files: BackgroundFiles::new(),
            process_id: AtomicU32::new(0),
            evicting_id: AtomicU32::new(0),
            dismissed: AtomicU32::new(0),
        }
    }

    /// Where it stands.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Outside,
            1 => Phase::Small,
            2 => Phase::Waiting,
            3 => Phase::Watching,
            4 => Phase::Active,
            _ => Phase::Home,
        }
    }
    /// Release: what belongs to the phase was set up before.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }
    /// The engine, once it is there.
    #[inline]
    pub fn space(&self) -> Option<&'static Space> {
        self.space.get()
    }
    /// With the gate exclusive, or in the only thread of a child.
    pub(crate) fn set_space(&'static self, space: Space) -> &'static Space {
        // SAFETY:
        // 1. Who joins has the gate for himself, or is the only thread.
        // 2. A process joins once. What lies in the place is nothing, or the engine of the process that this one's
        //    parent was forked from: the parent has set its own before it managed anything.
        unsafe { self.space.set(space) }
    }
    /// Itself: there is one value, and it is a static.
    pub(crate) fn own(&self) -> &'static Process {
        // SAFETY:
        // 1. `start` or `attach` has set it from a `&'static Process`, and one of them is what brings anybody here.
        unsafe { &*self.own.load(Ordering::Acquire) }
    }
    pub(crate) fn terms(&self) -> Terms {
        *self.terms.get().expect("`start` and `attach` set them before anything else")
    }
    /// Whether it manages all that can be.
    pub(crate) fn manages_all(&self) -> bool {
        self.terms().managed == Managed::All
    }
    pub(crate) fn set_own(&'static self, terms: Terms) {
        self.own.store(core::ptr::from_ref(self).cast_mut(), Ordering::Release);
        // SAFETY:
        // 1. It is called by `start`, before there are threads, or by `attach`, with the gate exclusive, where no
        //    `start` was.
        unsafe { self.terms.set(terms) };
    }
    /// In a child that has no place yet, or none any more.
    pub(crate) fn forget_space(&self) {
        self.space.forget();
    }
    /// Of a process that has a place.
    pub(crate) fn membership(&self) -> Membership {
        *self.membership.get().expect("it was set before the process had a place")
    }
    /// Of any.
    pub(crate) fn membership_if_any(&self) -> Option<Membership> {
        self.membership.get().copied()
    }
    pub(crate) fn set_membership(&'static self, membership: Membership) {
        // SAFETY:
        // 1. Who takes a place has the gate for himself. What was set before is of a try that failed, or of the parent
        //    that this one was forked from: nobody uses it.
        unsafe { self.membership.set(membership) };
    }
    /// Takes it away from a process that nobody has seen have it.
    pub(crate) fn take_membership(&self) -> Option<Membership> {
        let membership = self.membership.get().copied();
        self.membership.forget();
        membership
    }
    /// Its record.
    pub fn mm(&self) -> MmId {
        MmId::new(self.mm.load(Ordering::Acquire) as u16)
    }
    pub(crate) fn set_mm(&self, mm: MmId) {
        self.mm.store(u32::from(mm.number()), Ordering::Release);
    }
    pub(crate) fn hazards(&self) -> &'static HazardTable<'static> {
        self.hazards.get().expect("they are set before a call of the program can come here")
    }
    pub(crate) fn has_hazards(&self) -> bool {
        self.hazards.get().is_some()
    }
    pub(crate) fn set_hazards(&'static self, table: HazardTable<'static>) {
        // SAFETY:
        // 1. It is called by `prepare`, once, which nobody else is in: the program has one thread, or the gate is
        //    exclusive.
        unsafe { self.hazards.set(table) };
    }
}
