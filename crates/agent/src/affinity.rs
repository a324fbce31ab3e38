//! Where threads may run, as the program sees it.
//!
//! The supervisor may keep all threads of a run on one processor ([`uswap_core::placement`]). That is between uswap and the scheduler: a program that asks gets the answer it would get without,
//! so it makes as many threads as it would; and from the first time that one places its threads itself, nobody else does.

use crate::hooks::next;
use crate::state::with_segment;
use core::ffi::{c_int, c_ulong, c_void};
use uswap_core::placement::{Processors, only};
use uswap_core::segment::Segment;
use uswap_os::{clock, process, thread};

/// The supervisor looks ten times a second. So often 1 ms: it may be busy, or gone.
const TRIES: u32 = 500;

/// A program is about to place a thread: waits until the supervisor has let go of the run's.
fn leave_to_programs() {
    for _ in 0..TRIES {
        let together = with_segment(|segment| {
            let together = segment.placement().leave_to_programs();
            let_go_of_the_dead(segment);
            together
        });
        if together.flatten().is_none() {
            return;
        }
        clock::sleep_ns(1_000_000);
    }
}

/// If the supervisor is gone, the threads of this process run where they like again.
pub fn let_go_of_the_dead(segment: &Segment<'_>) {
    let (placement, supervisor) = (segment.placement(), segment.budget().supervisor());
    let Some(cpu) = placement.together() else { return };
    // Dead is also who was killed and is not yet buried by its parent.
    let buried = !process::is_alive(supervisor);
    if !buried && !process::stat(supervisor).is_ok_and(|stat| stat.state == b'Z') {
        return;
    }
    let (here, everywhere) = (only(cpu), placement.processors());
    let mut moved = true;
    while core::mem::take(&mut moved) {
        let _own = process::for_each_thread(None, |thread_id| {
            let is_here = thread::affinity(thread_id).is_ok_and(|at| at == here);
            moved |= is_here && thread::set_affinity(thread_id, &everywhere).is_ok();
        });
    }
}

/// The kernel has said where a thread may run: the program is told where it might without us.
fn without_us(bytes: usize, set: *mut c_void) {
    let placed = with_segment(|segment| {
        let placement = segment.placement();
        placement.together().map(|cpu| (only(cpu), placement.processors()))
    });
    let Some((here, everywhere)) = placed.flatten() else { return };
    let words = bytes / size_of::<c_ulong>();
    let mut seen: Processors = [0; 16];
    let known = words.min(seen.len());
    // SAFETY:
    // 1. libc has just filled `bytes` bytes at `set`, so the first `known` words lie in the program's buffer.
    // 2. `seen` is ours, and as long.
    unsafe { core::ptr::copy_nonoverlapping(set.cast::<u64>(), seen.as_mut_ptr(), known) };
    if seen != here {
        return;
    }
    // SAFETY: 1. as above, the other way round.
    unsafe { core::ptr::copy_nonoverlapping(everywhere.as_ptr(), set.cast::<u64>(), known) };
}

type OfThread = unsafe extern "C" fn(c_int, usize, *mut c_void) -> c_int;
type OfPthread = unsafe extern "C" fn(c_ulong, usize, *mut c_void) -> c_int;

/// `sched_getaffinity` of the program.
///
/// # Safety
/// As of libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(thread: c_int, bytes: usize, set: *mut c_void) -> c_int {
    // SAFETY: 1. libc's function of this name has this type.
    let real: OfThread = unsafe { core::mem::transmute(next(c"sched_getaffinity")) };
    // SAFETY: 1. the arguments are the program's.
    let answer = unsafe { real(thread, bytes, set) };
    if answer == 0 {
        without_us(bytes, set);
    }
    answer
}

/// `pthread_getaffinity_np` of the program.
///
/// # Safety
/// As of libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getaffinity_np(thread: c_ulong, bytes: usize, set: *mut c_void) -> c_int {
    // SAFETY: 1. libc's function of this name has this type.
    let real: OfPthread = unsafe { core::mem::transmute(next(c"pthread_getaffinity_np")) };
    // SAFETY: 1. the arguments are the program's.
    let answer = unsafe { real(thread, bytes, set) };
    if answer == 0 {
        without_us(bytes, set);
    }
    answer
}

/// `sched_setaffinity` of the program.
///
/// # Safety
/// As of libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(thread: c_int, bytes: usize, set: *mut c_void) -> c_int {
    leave_to_programs();
    // SAFETY: 1. libc's function of this name has this type.
    let real: OfThread = unsafe { core::mem::transmute(next(c"sched_setaffinity")) };
    // SAFETY: 1. the arguments are the program's.
    unsafe { real(thread, bytes, set) }
}

/// `pthread_setaffinity_np` of the program.
///
/// # Safety
/// As of libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setaffinity_np(thread: c_ulong, bytes: usize, set: *mut c_void) -> c_int {
    leave_to_programs();
    // SAFETY: 1. libc's function of this name has this type.
    let real: OfPthread = unsafe { core::mem::transmute(next(c"pthread_setaffinity_np")) };
    // SAFETY: 1. the arguments are the program's.
    unsafe { real(thread, bytes, set) }
}
