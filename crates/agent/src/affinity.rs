//! Where threads may run, as the program sees it.
//!
//! The supervisor may keep all threads of a run on one processor ([`uswap_core::placement`]). That is between uswap and
//! the scheduler: a program that asks gets the answer it would get without, so it makes as many threads as it would;
//! and from the first time that one places its threads itself, nobody else does.

use crate::hooks::{c_name, next};
use crate::state::{self, Phase, Request, with_segment};
use core::ffi::{CStr, c_int, c_ulong, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use uswap_core::placement::{Processors, only};
use uswap_core::segment::Segment;
use uswap_host::supervisor;
use uswap_os::{clock, process, thread};

/// The supervisor looks twenty times a second. So often 1 ms: it may be busy, or gone.
const TRIES: u32 = 500;

/// After so many it is time to ask whether it is gone.
const TRIES_OF_THE_LIVING: u32 = 100;

/// A program is about to place a thread: waits until the supervisor has let go of the run's.
fn leave_to_programs() {
    for tries in 0..TRIES {
        let together = with_segment(|segment| {
            let together = segment.placement().leave_to_programs();
            together.filter(|_| !LET_GO.load(Ordering::Acquire))
        });
        if together.flatten().is_none() {
            return;
        }
        if tries == TRIES_OF_THE_LIVING && matches!(state::phase(), Phase::Watching | Phase::Active) {
            state::request(Request::LetGo);
        }
        clock::sleep_ns(1_000_000);
    }
}

/// The supervisor died, and the threads of this process were let go: once, since later they may be where the program
/// has placed them.
static LET_GO: AtomicBool = AtomicBool::new(false);

/// On kswapd: if the supervisor is gone, the threads of this process run where they like again. True if so.
pub fn let_go_of_the_dead(segment: &Segment<'_>) -> bool {
    if LET_GO.load(Ordering::Acquire) {
        return true;
    }
    let placement = segment.placement();
    let Some(cpu) = placement.together() else { return false };
    if supervisor::lives(segment) {
        return false;
    }
    let (here, everywhere) = (only(cpu), placement.processors());
    let mut moved = true;
    while core::mem::take(&mut moved) {
        let _own = process::for_each_thread(None, |thread_id| {
            let is_here = thread::affinity(thread_id).is_ok_and(|at| at == here);
            moved |= is_here && thread::set_affinity(thread_id, &everywhere).is_ok();
        });
    }
    LET_GO.store(true, Ordering::Release);
    true
}

/// The kernel has said where a thread may run: the program is told where it might without us.
///
/// # Safety
/// `bytes` bytes at `set` may be read and written, and nobody else does so meanwhile.
unsafe fn without_us(bytes: usize, set: *mut c_void) {
    let placed = with_segment(|segment| {
        let placement = segment.placement();
        let together = placement.together().filter(|_| !LET_GO.load(Ordering::Acquire));
        together.map(|cpu| (only(cpu), placement.processors()))
    });
    let Some((here, everywhere)) = placed.flatten() else { return };
    let mut seen: Processors = [0; 16];
    let known = bytes.min(size_of::<Processors>());
    // SAFETY:
    // 1. `known` is at most `bytes`: so many the caller lets us read at `set`. Bytes may lie anywhere.
    // 2. `seen` is ours and has as many; any bytes make numbers.
    unsafe { core::ptr::copy_nonoverlapping(set.cast::<u8>(), seen.as_mut_ptr().cast(), known) };
    if seen != here {
        return;
    }
    // SAFETY: 1. as above, the other way round: the caller lets us write there too.
    unsafe { core::ptr::copy_nonoverlapping(everywhere.as_ptr().cast(), set.cast::<u8>(), known) };
}

/// What the program wants to do with the processors of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Ask,
    Place,
}

macro_rules! affinity_hooks {
    ($($name:ident($thread:ty): $call:ident;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the program.")]
            ///
            /// # Safety
            /// As of libc's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(thread: $thread, bytes: usize, set: *mut c_void) -> c_int {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                if Call::$call == Call::Place {
                    leave_to_programs();
                }
                // SAFETY: 1. libc's function of this name takes these arguments and returns an int.
                let real: unsafe extern "C" fn($thread, usize, *mut c_void) -> c_int = unsafe { core::mem::transmute(next(NAME)) };
                // SAFETY: 1. the arguments are the program's.
                let answer = unsafe { real(thread, bytes, set) };
                if Call::$call == Call::Ask && answer == 0 {
                    // SAFETY: 1. libc has just filled `bytes` bytes at `set`: they are the program's buffer, lent for
                    // this call.
                    unsafe { without_us(bytes, set) };
                }
                answer
            }
        )*
    };
}

affinity_hooks! {
    sched_getaffinity(c_int): Ask;
    pthread_getaffinity_np(c_ulong): Ask;
    sched_setaffinity(c_int): Place;
    pthread_setaffinity_np(c_ulong): Place;
}
