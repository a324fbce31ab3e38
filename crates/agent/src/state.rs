//! What outlives a function: where the process stands, and the parts that were built. All statics of the agent that
//! change.

use crate::platform::LinuxPlatform;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use uswap_core::counters::Counter;
use uswap_core::segment::Segment;
use uswap_engine::{Engine, Workspace};
use uswap_identity::RunOptions;
use uswap_os::clock;
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_os::gate::Gate;
use uswap_units::MmId;

/// The engine of this process.
pub type AgentEngine = Engine<'static, LinuxPlatform>;

/// Where the process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Phase {
    /// Not part of a run.
    Outside,
    /// kswapd sleeps until there is pressure; nothing is registered.
    Watching,
    /// The engine is being built.
    Activating,
    /// The program's memory is managed.
    Active,
    /// Its memory came home; it goes on without uswap.
    Left,
}

static PHASE: AtomicU32 = AtomicU32::new(Phase::Outside as u32);

/// Where the process stands now.
pub fn phase() -> Phase {
    match PHASE.load(Ordering::Acquire) {
        1 => Phase::Watching,
        2 => Phase::Activating,
        3 => Phase::Active,
        4 => Phase::Left,
        _ => Phase::Outside,
    }
}

/// Release: what belongs to the phase was set up before.
pub fn set_phase(phase: Phase) {
    PHASE.store(phase as u32, Ordering::Release);
}

/// A pointer to something that is made once and never freed while it is set.
pub struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    /// Nothing is known yet.
    pub const fn new() -> Slot<T> {
        Slot(AtomicPtr::new(core::ptr::null_mut()))
    }
    /// Makes it known.
    pub fn set(&self, value: T) -> &'static T {
        let place: &'static mut T = alloc::boxed::Box::leak(alloc::boxed::Box::new(value));
        self.0.store(place, Ordering::Release);
        place
    }
    /// Forgets it; in a forked child, or when the process has left.
    pub fn clear(&self) {
        self.0.store(core::ptr::null_mut(), Ordering::Release);
    }
    /// What was made known.
    pub fn get(&self) -> Option<&'static T> {
        let pointer = self.0.load(Ordering::Acquire);
        // SAFETY:
        // 1. A pointer that is not null comes from `set`: a leaked box, which is never freed or changed.
        // 2. Acquire pairs with the Release of `set`.
        unsafe { pointer.as_ref() }
    }
}

/// The segment of the run.
pub static SEGMENT: Slot<Segment<'static>> = Slot::new();
/// The engine, while the process is active.
pub static ENGINE: Slot<AgentEngine> = Slot::new();
/// Where the segment is mapped: address and bytes.
pub static SEGMENT_START: AtomicUsize = AtomicUsize::new(0);
pub static SEGMENT_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The process's record.
static MM: AtomicU32 = AtomicU32::new(u32::MAX);
/// See [`options`].
pub static OPTIONS: AtomicU64 = AtomicU64::new(0);

/// Options of the run.
pub fn options() -> RunOptions {
    RunOptions::from_bits(OPTIONS.load(Ordering::Relaxed))
}

/// The process's record.
pub fn mm() -> MmId {
    MmId(MM.load(Ordering::Acquire) as u16)
}
/// Sets the process's record.
pub fn set_mm(mm: MmId) {
    MM.store(u32::from(mm.0), Ordering::Release);
}

/// The descriptor that messages go to: standard error. Engine threads have the supervisor's under this number in their
/// own table.
pub const MESSAGES_FD: i32 = 2;

/// What a thread of the program asks of kswapd, and waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Request {
    /// Bring all memory home and evict nothing until `Resume` (a fork that the kernel does not report).
    Home = 1,
    /// Evict again.
    Resume = 2,
    /// Bring all memory home and end management.
    Leave = 3,
    /// Let go of the program's threads if the supervisor is gone.
    LetGo = 4,
    /// Count what is locked.
    LookAtLocks = 5,
}

/// 0: none. 1..: a request. High bit: being done.
static REQUEST: AtomicU32 = AtomicU32::new(0);
static REQUESTERS: uswap_os::gate::Lock = uswap_os::gate::Lock::new();

/// Asks kswapd and waits for it. Called on threads of the program.
pub fn request(request: Request) {
    let _turn = REQUESTERS.lock();
    // Behind the lock: the request before may have been to leave.
    let Some(segment) = SEGMENT.get() else { return };
    REQUEST.store(request as u32, Ordering::Release);
    let word = segment.budget().signal_word(uswap_core::budget::Signal::Pressure);
    segment.budget().raise(uswap_core::budget::Signal::Pressure);
    futex::wake_low(word, u32::MAX, Scope::Shared);
    // A kswapd that has found no place in the run answers nobody.
    while REQUEST.load(Ordering::Acquire) == request as u32
        && !matches!(phase(), Phase::Outside | Phase::Left)
    {
        futex::wait(&REQUEST, request as u32, Timeout::Nanoseconds(100_000_000), Scope::Private);
    }
}

/// The request that kswapd must do now.
pub fn pending_request() -> Option<Request> {
    match REQUEST.load(Ordering::Acquire) {
        1 => Some(Request::Home),
        2 => Some(Request::Resume),
        3 => Some(Request::Leave),
        4 => Some(Request::LetGo),
        5 => Some(Request::LookAtLocks),
        _ => None,
    }
}

/// kswapd has done what was asked.
pub fn request_done() {
    REQUEST.store(0, Ordering::Release);
    futex::wake(&REQUEST, u32::MAX, Scope::Private);
}

/// In a forked child: nobody asks and nobody waits.
pub fn reset_requests() {
    REQUEST.store(0, Ordering::Release);
    REQUESTERS.reset();
    LOOKING.reset();
}

/// Shared: threads of the program that look into the segment. Exclusive: it is about to be unmapped.
static LOOKING: Gate = Gate::new();

/// Looks into the segment from a thread of the program; None if the process has left. Must not wait for an engine
/// thread.
pub fn with_segment<R>(look: impl FnOnce(&'static Segment<'static>) -> R) -> Option<R> {
    let _until_it_has_looked = LOOKING.shared();
    SEGMENT.get().map(look)
}

/// Forgets segment and engine. Afterwards no thread of the program looks into them.
pub fn forget_segment() {
    SEGMENT.clear();
    ENGINE.clear();
    drop(LOOKING.exclusive());
}

/// Workspaces of the engine threads. Too large for their stacks.
struct Workspaces(UnsafeCell<[Workspace; WORKSPACES]>);

// SAFETY: 1. each element is used by the one thread that its number belongs to, as `workspace` demands.
unsafe impl Sync for Workspaces {}

/// kswapd, its bringing home, forkd, handlers.
const WORKSPACES: usize = 3 + crate::handlers::HANDLERS;
static ALL: Workspaces = Workspaces(UnsafeCell::new([const { Workspace::new() }; WORKSPACES]));

/// Keeps the workspaces out of core files: they hold the key of the swap file, ready for use.
pub fn keep_workspaces_out_of_cores() -> uswap_os::sys::Result<()> {
    const { assert!(align_of::<Workspace>() == uswap_os::PAGE_BYTES, "no other static shares a page with them") };
    uswap_os::memory::no_dump(ALL.0.get() as usize, size_of_val(&ALL))
}

/// Number of a workspace.
pub enum WorkspaceOf {
    Kswapd,
    BringingHome,
    Forkd,
    Handler(usize),
}

/// The workspace of the calling thread.
///
/// # Safety
/// It must be that thread's own (`BringingHome` is kswapd's too), and asked for once in the thread's life.
pub unsafe fn workspace(whose: WorkspaceOf) -> &'static mut Workspace {
    let number = match whose {
        WorkspaceOf::Kswapd => 0,
        WorkspaceOf::BringingHome => 1,
        WorkspaceOf::Forkd => 2,
        WorkspaceOf::Handler(handler) => 3 + handler,
    };
    assert!(number < WORKSPACES);
    // SAFETY:
    // 1. The number is inside the array, which lives for ever.
    // 2. The caller says that nobody else has a reference to this element.
    unsafe { &mut *ALL.0.get().cast::<Workspace>().add(number) }
}

/// Adds what the calling engine thread has used of the processor since the last call to the counter of the run.
pub fn count_cpu(counted_ns: &mut u64) {
    let now_ns = clock::thread_cpu_ns();
    if let Some(segment) = SEGMENT.get() {
        segment.counters().add(Counter::EngineCpuNs, now_ns.saturating_sub(*counted_ns));
    }
    *counted_ns = now_ns;
}
