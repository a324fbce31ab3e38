//! The few calls of the program that are looked at. Everything else the kernel tells us.
//!
//! * fork handlers, registered with libc;
//! * `madvise` with MADV_WIPEONFORK, MADV_DONTFORK: such memory is not managed, since a child must not get it back;
//!   `munmap` and `mremap` follow it; with MADV_DONTNEED, MADV_FREE: see [`crate::drops`]; `mremap` with
//!   MREMAP_DONTUNMAP: see [`crate::moves`];
//! * `mmap`, `munmap` and `mremap` wait while a mapping is registered: see [`crate::register`]; a large new mapping:
//!   see [`crate::fresh`]; `malloc` and its like: see [`crate::allocations`];
//! * `mlockall`: see [`crate::locks`];
//! * calls about where threads may run: see [`crate::affinity`];
//! * calls that change credentials or dumpability: the process leaves, so that nobody reads through the segment what he
//!   may not read otherwise.
//!
//! These run on threads of the program, and may use libc.

use crate::state::{self, Phase};
use crate::{drops, fork, fresh, locks, moves, register};
use core::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use uswap_core::range_set::RangeSet;
use uswap_os::sys;
use uswap_units::{PAGE_BYTES, PageRange};

// SAFETY:
// 1. The declarations are those of glibc and musl: same arguments, same results.
unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        handle: *mut c_void,
    ) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// `RTLD_NEXT`: the definition behind ours in the search order.
const NEXT: *mut c_void = -1_isize as *mut c_void;

/// Registers the fork handlers.
pub fn register_fork_handlers() {
    // SAFETY: 1. the three functions take and return nothing, and live as long as the process: this library is never
    // unloaded.
    unsafe {
        __register_atfork(
            Some(fork::before_fork),
            Some(fork::after_fork_in_parent),
            Some(fork::after_fork_in_child),
            core::ptr::null_mut(),
        );
    }
}

/// Ranges that the program excluded. A full list excludes no more; such ranges are few (random number generators).
static EXCLUDED: RangeSet<64> = RangeSet::new();

/// Calls `visit` with start and end of each excluded range.
pub fn for_each_excluded(visit: &mut dyn FnMut(usize, usize)) {
    for range in EXCLUDED.iter() {
        visit(range.start.address() as usize, range.end.address() as usize);
    }
}

fn pages(start: *mut c_void, bytes: usize) -> PageRange {
    const ADDRESSES_END: u64 = 1 << 47;
    let start = (start as u64).min(ADDRESSES_END);
    PageRange::of_addresses(start, start.saturating_add(bytes as u64).min(ADDRESSES_END))
}

const MADV_DONTNEED: c_int = 4;
const MADV_FREE: c_int = 8;
const MADV_DONTNEED_LOCKED: c_int = 24;
const MADV_DONTFORK: c_int = 10;
const MADV_DOFORK: c_int = 11;
const MADV_HUGEPAGE: c_int = 14;
const MADV_WIPEONFORK: c_int = 18;
const MADV_KEEPONFORK: c_int = 19;
const MADV_POPULATE_READ: usize = 22;
const SYS_MADVISE: u32 = 28;

/// True since the program asked for huge pages. A process that was forked inherits it with its mappings.
static ASKED_FOR_HUGE_PAGES: AtomicBool = AtomicBool::new(false);

/// Whether memory of the program may be huge because it asked for that.
pub fn program_asks_for_huge_pages() -> bool {
    ASKED_FOR_HUGE_PAGES.load(Ordering::Relaxed)
}

/// `madvise` of the program.
///
/// # Safety
/// As of the system call: the program's own affair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if matches!(advice, MADV_DONTFORK | MADV_WIPEONFORK) && state::phase() != Phase::Outside {
        let _a_full_list_excludes_no_more = EXCLUDED.add(pages(start, bytes));
        let range = pages(start, bytes);
        look(|engine| engine.pin_range(range));
        let mut rest = range;
        while let Some(away) = look(|engine| engine.first_away(rest)).flatten() {
            touch(away);
            rest.start = away.end;
        }
    }
    if advice == MADV_HUGEPAGE {
        ASKED_FOR_HUGE_PAGES.store(true, Ordering::Relaxed);
    }
    let drops = matches!(advice, MADV_DONTNEED | MADV_FREE | MADV_DONTNEED_LOCKED);
    let _until_it_returns = (drops && state::phase() == Phase::Active)
        .then(|| {
            uswap_units::PageRange::of_addresses(start as u64, (start as u64).saturating_add(bytes as u64))
        })
        .and_then(drops::begin);
    // SAFETY: 1. the arguments are the program's, and the call does what the program asked of the kernel.
    let answer = unsafe { sys::syscall3(SYS_MADVISE, start as usize, bytes, advice as usize) };
    if answer.is_ok() && matches!(advice, MADV_DOFORK | MADV_KEEPONFORK) {
        EXCLUDED.subtract(pages(start, bytes));
    }
    or_errno(answer).map_or(-1, |_| 0)
}

/// The answer of a system call as libc gives it. None: errno is set.
fn or_errno(answer: sys::Result<usize>) -> Option<usize> {
    answer
        .map_err(|errno| {
            // SAFETY: 1. libc gives the address of the calling thread's errno.
            unsafe { *__errno_location() = errno.number() };
        })
        .ok()
}

const SYS_MMAP: u32 = 9;
const SYS_MUNMAP: u32 = 11;
const SYS_MREMAP: u32 = 25;
const PROT_WRITE: usize = 2;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MREMAP_FIXED: c_int = 2;
const MREMAP_DONTUNMAP: c_int = 4;
const MAP_FAILED: *mut c_void = -1_isize as *mut c_void;

/// `munmap` of the program: what it excluded there is gone, and something else may be mapped at the same place.
///
/// # Safety
/// As of the system call: the program's own affair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize) -> c_int {
    EXCLUDED.subtract(pages(start, bytes));
    let answer = {
        let _nothing_is_registered_meanwhile = register::keep_out();
        // SAFETY: 1. the arguments are the program's.
        unsafe { sys::syscall3(SYS_MUNMAP, start as usize, bytes, 0) }
    };
    or_errno(answer).map_or(-1, |_| 0)
}

/// `mmap` of the program: see [`crate::register`] and [`crate::fresh`].
///
/// # Safety
/// As of the system call: the program's own affair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    let (protection, flags) = (protection as usize, flags as usize);
    let (descriptor, offset) = (descriptor as isize as usize, offset as usize);
    let answer = {
        let _nothing_is_registered_meanwhile = register::keep_out();
        // SAFETY: 1. the arguments are the program's.
        unsafe { sys::syscall6(SYS_MMAP, start as usize, bytes, protection, flags, descriptor, offset) }
    };
    let Some(mapped) = or_errno(answer) else { return MAP_FAILED };
    if flags & MAP_PRIVATE_ANONYMOUS == MAP_PRIVATE_ANONYMOUS && protection & PROT_WRITE != 0 {
        fresh::announce(bytes);
    }
    mapped as *mut c_void
}

/// The other name of `mmap`: offsets have 64 bits anyway.
///
/// # Safety
/// As of `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: 1. what the caller says is passed on.
    unsafe { mmap(start, bytes, protection, flags, descriptor, offset) }
}

/// `mremap` of the program: what it excluded is excluded at its new place. (In C the last argument is optional; without
/// it the register may hold anything.)
///
/// # Safety
/// As of the system call: the program's own affair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    let from = pages(start, bytes);
    let was_excluded = EXCLUDED.iter().any(|range| range.start.0 < from.end.0 && from.start.0 < range.end.0);
    let _until_it_returns = (flags & MREMAP_DONTUNMAP != 0).then(|| moves::begin(from));
    let _grows_until_it_returns =
        (new_bytes > bytes).then(|| moves::begin_growing(pages(start, new_bytes))).flatten();
    let target = if flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) == 0 { 0 } else { target as usize };
    let answer = {
        let _nothing_is_registered_meanwhile = register::keep_out();
        // SAFETY: 1. the arguments are the program's.
        unsafe { sys::syscall6(SYS_MREMAP, start as usize, bytes, new_bytes, flags as usize, target, 0) }
    };
    let Some(moved) = or_errno(answer) else { return MAP_FAILED };
    if was_excluded {
        if flags & MREMAP_DONTUNMAP == 0 {
            EXCLUDED.subtract(from);
        }
        let _a_full_list_excludes_no_more = EXCLUDED.add(pages(moved as *mut c_void, new_bytes));
    }
    moved as *mut c_void
}

/// `mlockall` of the program: see [`crate::locks`].
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(flags: c_int) -> c_int {
    or_errno(locks::lock_all(flags as u32).map(|()| 0)).map_or(-1, |_| 0)
}

/// Looks into the engine, if there is one.
pub fn look<R>(look: impl FnOnce(&state::AgentEngine) -> R) -> Option<R> {
    state::with_segment(|_| state::ENGINE.get().filter(|_| state::phase() == Phase::Active).map(look))
        .flatten()
}

/// Brings pages home. The kernel does it, so a range that may not be read, or is not mapped, is an error here and not a
/// signal.
fn touch(range: PageRange) {
    let (start, bytes) = (range.start.address() as usize, range.pages() as usize * PAGE_BYTES);
    // SAFETY: 1. the call changes no content: it maps pages of the program as a read of them would.
    let _what_can_be_read_is_there = unsafe { sys::syscall3(SYS_MADVISE, start, bytes, MADV_POPULATE_READ) };
}

/// What a process may read depends on these.
fn credentials() -> [u32; 6] {
    let mut ids = [0; 6];
    let (users, groups) = ids.split_at_mut(3);
    for (number, ids) in [(118, users), (120, groups)] {
        // SAFETY: 1. getresuid and getresgid write three numbers to three addresses, all in `ids`.
        let _cannot_fail = unsafe {
            sys::syscall3(
                number,
                &raw mut ids[0] as usize,
                &raw mut ids[1] as usize,
                &raw mut ids[2] as usize,
            )
        };
    }
    ids
}

fn leave_if_changed(before: [u32; 6]) {
    let managed = matches!(state::phase(), Phase::Watching | Phase::Activating | Phase::Active);
    if managed && !state::options().keep_after_setuid && credentials() != before {
        state::request(state::Request::Leave);
    }
}

/// libc's function of this name.
pub fn next(name: &CStr) -> *mut c_void {
    // SAFETY: 1. `name` ends with a zero byte. 2. The dynamic linker is ready: a program calls us.
    let found = unsafe { dlsym(NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "libc defines what we stand in front of");
    found
}

/// A name that ends with a zero byte as C takes it: macros can make a string of a name, but no C string.
pub const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("one zero byte, at the end"),
    }
}

macro_rules! credential_hooks {
    ($($name:ident($($argument:ident),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the program: afterwards the process leaves the run if its \
                rights changed.")]
            ///
            /// # Safety
            /// As of libc's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: c_uint),*) -> c_int {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                let before = credentials();
                // SAFETY: 1. libc's function of this name takes these arguments and returns an int.
                let real: unsafe extern "C" fn($($argument: c_uint),*) -> c_int = unsafe { core::mem::transmute(next(NAME)) };
                // SAFETY: 1. the arguments are the program's.
                let answer = unsafe { real($($argument),*) };
                leave_if_changed(before);
                answer
            }
        )*
    };
}

credential_hooks! {
    setuid(user);
    setgid(group);
    seteuid(user);
    setegid(group);
    setreuid(real_user, effective_user);
    setregid(real_group, effective_group);
    setresuid(real_user, effective_user, saved_user);
    setresgid(real_group, effective_group, saved_group);
}

const PR_SET_DUMPABLE: c_int = 4;

/// `prctl` of the program: a process that becomes non-dumpable leaves the run.
///
/// # Safety
/// As of libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    // SAFETY: 1. libc's prctl takes an int and four words, passed in registers whether they are used or not.
    let real: unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int =
        unsafe { core::mem::transmute(next(c"prctl")) };
    // SAFETY: 1. the arguments are the program's.
    let answer = unsafe { real(option, a, b, c, d) };
    let managed = matches!(state::phase(), Phase::Watching | Phase::Activating | Phase::Active);
    let leaves = option == PR_SET_DUMPABLE && a == 0 && answer == 0;
    if managed && leaves && !state::options().keep_after_setuid {
        state::request(state::Request::Leave);
    }
    answer
}
