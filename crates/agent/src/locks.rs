//! The program locks its memory (`mlockall`): what is the agent's own is not locked with it, and
//! not filled.
//!
//! `mlockall` locks and fills all mappings of a process, also our arena and tables, which are far
//! larger than what is used of them. So:
//!
//! * `mlockall` of libc locks all mappings without filling them, unlocks ours, and then fills those
//!   of the program one by one.
//! * A raw system call fills one mapping after the other, in the order of their addresses. In front
//!   of ours lies a guard page, whose pages are missing: the call waits there until a handler has
//!   marked ours as not to be filled. Behind ours lies another one: there they are unlocked again.
//! * What was locked all the same is unlocked when kswapd looks, twice a second, or where a lock is
//!   in the way.
//! * Mappings that we make later are never locked: see [`memory::keep_unlocked_page`].
//!
//! While a call fills memory nothing is evicted: each page would come home over the budget anyway,
//! and wait for room in vain before.
//!
//! Must hold: what handlers call here waits for no other thread of the engine. `lock_all` is called on
//! threads of the program, the rest on handlers and kswapd.

use crate::hooks;
use crate::scan::for_each_own;
use crate::state::{self, AgentEngine, ENGINE, Phase, SEGMENT};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use uswap_core::counters::Counter;
use uswap_core::segment::Segment;
use uswap_os::maps::{Maps, TEXT_BUFFER_BYTES_MIN};
use uswap_os::memory::{self, Access};
use uswap_os::mlock::{self, CURRENT, FUTURE, ON_FAULT, Presence};
use uswap_os::process::StatmFile;
use uswap_os::sys::{Errno, Result};
use uswap_os::uffd::{Mode, Uffd, Wake};
use uswap_units::PAGE_BYTES;

/// Unlocks all that is the agent's own.
pub fn unlock_own() {
    for_each_own(&mut |start, end| {
        let _only_holes_are_refused = mlock::unlock(start, end - start);
    });
}

/// How often a call is tried that a lock was in the way of: each time another thread has to lock
/// everything anew in between.
pub const TRIES: u32 = 1000;

/// A call on a range of our own that the kernel refuses with EINVAL while it is locked.
pub fn unlocked(start: usize, bytes: usize, call: impl Fn() -> Result<()>) -> Result<()> {
    for _ in 0..TRIES {
        match call() {
            Err(Errno::EINVAL) => {
                let _only_holes_are_refused = mlock::unlock(start, bytes);
            }
            answer => {
                if ENTERED.load(Ordering::Acquire) {
                    let _would_be_filled = mlock::lock(start, bytes, Presence::OnFault);
                }
                return answer;
            }
        }
    }
    call()
}

/// Of two ranges of ours one was locked and the other not: now they are alike.
pub fn make_alike() {
    if ENTERED.load(Ordering::Acquire) {
        let _the_next_try_tells = lock_own_on_fault();
    } else {
        unlock_own();
    }
}

/// All but the guard page behind ours, where the call must wait once more.
fn lock_own_on_fault() -> Result<()> {
    let mut all = Ok(());
    let [_, behind] = guard_pages();
    for_each_own(&mut |start, end| {
        if start != behind
            && let Err(errno) = mlock::lock(start, end - start, Presence::OnFault)
        {
            all = Err(errno);
        }
    });
    all
}

/// `mlockall` of the program.
pub fn lock_all(flags: u32) -> Result<()> {
    if flags & CURRENT == 0 || matches!(state::phase(), Phase::Outside) {
        return mlock::lock_all(flags);
    }
    let filling = Filling::begin();
    // Wrong flags stay wrong.
    let answer = match mlock::lock_all(flags | ON_FAULT) {
        // Ours count against its limit there.
        Err(Errno::ENOMEM) if fits_without_ours() => match flags & FUTURE {
            0 => mlock::unlock_all(),
            _ => mlock::lock_all(flags & !CURRENT),
        },
        answer => answer,
    };
    unlock_own();
    answer?;
    if flags & (FUTURE | ON_FAULT) == FUTURE {
        mlock::lock_all(FUTURE)?;
    }
    let presence = if flags & ON_FAULT == 0 { Presence::Now } else { Presence::OnFault };
    lock_the_programs_own(presence);
    drop(filling);
    if matches!(state::phase(), Phase::Watching | Phase::Activating | Phase::Active) {
        state::request(state::Request::LookAtLocks);
    }
    Ok(())
}

/// As the kernel does it: what cannot be filled is passed over.
fn lock_the_programs_own(presence: Presence) {
    let Ok(maps) = Maps::open() else { return };
    let mut text = [0; 4 * TEXT_BUFFER_BYTES_MIN];
    for vma in maps.iter(&mut text).map_while(Result::ok) {
        crate::scan::for_each_part_outside(vma.start, vma.end, for_each_own, |start, end| {
            let _may_be_of_a_kind_that_cannot_be = mlock::lock(start, end - start, presence);
        });
    }
}

/// Whether the program could lock all that it has if the agent were not there.
fn fits_without_ours() -> bool {
    let mut ours = 0;
    for_each_own(&mut |start, end| ours += ((end - start) / PAGE_BYTES) as u64);
    let total =
        StatmFile::open(None).and_then(|file| file.read()).map_or(u64::MAX, |statm| statm.total_pages);
    let limit = mlock::limit_pages().ok().flatten().unwrap_or(u64::MAX);
    total.saturating_sub(ours) <= limit
}

/// While it lives, nothing is evicted.
struct Filling {
    /// There was an engine when it began.
    was_told: bool,
}

impl Filling {
    fn begin() -> Filling {
        Filling { was_told: hooks::look(AgentEngine::begin_locking).is_some() }
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if self.was_told {
            hooks::look(AgentEngine::end_locking);
        }
    }
}

/// Addresses of the guard pages in front of our mappings and behind them; 0: there is none.
static FRONT: AtomicUsize = AtomicUsize::new(0);
static BEHIND: AtomicUsize = AtomicUsize::new(0);
/// A system call that fills memory has come to the first guard page, and not to the second one yet.
static ENTERED: AtomicBool = AtomicBool::new(false);
/// Page faults of the first guard page since then.
static FRONT_FAULTS: AtomicU32 = AtomicU32::new(0);
/// A guard page is filled, and must be a hole again.
static SPENT: AtomicBool = AtomicBool::new(false);
/// Looks since a call has entered.
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// A call that has not come out again after so many looks, a minute, was something else: somebody
/// read the guard page.
const LOOKS_MAX: u32 = 120;

/// More page faults of the first guard page are not of calls that come one after the other:
/// somebody reads it.
const FRONT_FAULTS_MAX: u32 = 16;

/// Distances from our mappings at which a place for a guard page is looked for.
const GUARD_DISTANCES: [usize; 6] = [64 << 10, 1 << 20, 16 << 20, 256 << 20, 4 << 30, 64 << 30];

/// Makes the guard pages. Without a place for them a raw `mlockall` fills our mappings; they are
/// unlocked later.
pub fn guard(uffd: &Uffd) {
    let (mut first, mut last) = (usize::MAX, 0);
    for_each_own(&mut |start, end| (first, last) = (first.min(start), last.max(end)));
    let front = GUARD_DISTANCES.iter().find_map(|distance| guard_page(first.checked_sub(*distance)?, uffd));
    let behind = GUARD_DISTANCES.iter().find_map(|distance| guard_page(last.checked_add(*distance)?, uffd));
    if let (Some(front), Some(behind)) = (front, behind) {
        BEHIND.store(behind, Ordering::Release);
        FRONT.store(front, Ordering::Release);
    }
}

/// Readable only: who looks for memory that a program may have written passes it over.
fn guard_page(place: usize, uffd: &Uffd) -> Option<usize> {
    let start = memory::map_at_free_place(place / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES, Access::Read).ok()?;
    let _counts_as_locked = mlock::unlock(start, PAGE_BYTES);
    let _larger_core = memory::no_dump(start, PAGE_BYTES);
    // SAFETY: 1. it is new, and nobody refers to it.
    let ready = unsafe { memory::drop_pages(start, PAGE_BYTES) }
        .and_then(|()| memory::no_fork(start, PAGE_BYTES))
        .and_then(|()| uffd.register(start, PAGE_BYTES, Mode::Missing));
    if ready.is_err() {
        // SAFETY: 1. as above.
        let _stays_mapped = unsafe { memory::unmap(start, PAGE_BYTES) };
        return None;
    }
    Some(start)
}

/// A page fault that was reported: true if it is of a guard page, and was dealt with. On handlers.
pub fn guard_fault(address: usize, uffd: &Uffd) -> bool {
    let page = address / PAGE_BYTES * PAGE_BYTES;
    let [front, behind] = guard_pages();
    if page == 0 || page != front && page != behind {
        return false;
    }
    // What is locked on fault is passed over by the call, a guard page too: it stays a hole.
    let is_passed_over = if page == front {
        enter()
    } else {
        leave() && mlock::lock(page, PAGE_BYTES, Presence::OnFault).is_ok()
    };
    if is_passed_over {
        let _somebody_waits = uffd.wake(page, PAGE_BYTES);
    } else {
        leave();
        SPENT.store(true, Ordering::Release);
        let _filled_or_gone = uffd.zeropage(page, PAGE_BYTES, Wake::Now);
    }
    true
}

/// Somebody touches the page in front of our mappings. False: it was no call that fills memory.
fn enter() -> bool {
    if mlock::locked_bytes(None).unwrap_or(0) == 0 {
        return false;
    }
    if !ENTERED.swap(true, Ordering::AcqRel) {
        FRONT_FAULTS.store(0, Ordering::Relaxed);
        if let Some(engine) = ENGINE.get() {
            engine.begin_locking();
        }
    }
    LOOKS.store(0, Ordering::Relaxed);
    if FRONT_FAULTS.fetch_add(1, Ordering::Relaxed) >= FRONT_FAULTS_MAX {
        return false;
    }
    lock_own_on_fault().is_ok()
}

/// A call is behind our mappings. False: none was among them.
fn leave() -> bool {
    let was_entered = ENTERED.swap(false, Ordering::AcqRel);
    if was_entered {
        unlock_own();
        if let Some(engine) = ENGINE.get() {
            engine.end_locking();
        }
        if let Some(segment) = SEGMENT.get() {
            count_locked(segment);
        }
    }
    was_entered
}

/// In a forked child nothing is locked, the guard pages are not there, and who was in a call
/// neither.
pub fn reset_after_fork() {
    FRONT.store(0, Ordering::Release);
    BEHIND.store(0, Ordering::Release);
    ENTERED.store(false, Ordering::Release);
    SPENT.store(false, Ordering::Release);
    LOCKED_MOST.store(0, Ordering::Release);
}

/// The most that was locked so far.
static LOCKED_MOST: AtomicU64 = AtomicU64::new(0);

/// Counts what the program has locked, unlocks ours, and makes the guard pages holes again. On
/// kswapd.
pub fn look(segment: &Segment<'static>) {
    if ENTERED.load(Ordering::Acquire) {
        if LOOKS.fetch_add(1, Ordering::Relaxed) > LOOKS_MAX {
            leave();
        }
        return;
    }
    if SPENT.swap(false, Ordering::AcqRel) {
        guard_again();
    }
    if mlock::locked_bytes(None).unwrap_or(0) > 0 {
        unlock_own();
        count_locked(segment);
    }
}

/// Ours are unlocked: the rest is the program's.
fn count_locked(segment: &Segment<'static>) {
    let of_the_program = mlock::locked_bytes(None).unwrap_or(0);
    let most = LOCKED_MOST.fetch_max(of_the_program, Ordering::Relaxed);
    segment.counters().add(Counter::LockedBytes, of_the_program.saturating_sub(most));
}

/// Not registered meanwhile, so that dropping the page sends no message.
fn guard_again() {
    let Some(uffd) = ENGINE.get().map(|engine| &engine.platform().app) else { return };
    for page in guard_pages().into_iter().filter(|&page| page != 0) {
        if uffd.unregister(page, PAGE_BYTES).is_ok() {
            // SAFETY: 1. it is the agent's own, and nobody uses what lies there.
            let _filled_or_not = unsafe { memory::drop_pages(page, PAGE_BYTES) };
        }
        let _without_it_ours_are_filled = uffd.register(page, PAGE_BYTES, Mode::Missing);
    }
}

/// The addresses of the guard pages; 0 for one that is not there.
pub fn guard_pages() -> [usize; 2] {
    [FRONT.load(Ordering::Acquire), BEHIND.load(Ordering::Acquire)]
}
