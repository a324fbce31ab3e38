//! Large new mappings, which kswapd registers before the program touches them.
//!
//! kswapd looks at the mappings when it is woken, and from time to time; until then the first touches of a new one do
//! not come to us, and two processors touch 10 MB in 2 ms. So a call of `mmap` or `malloc` for much of the budget, with
//! which memory would be short, returns when kswapd has looked.

use crate::platform;
use crate::state::{self, Phase};
use core::sync::atomic::{AtomicU32, Ordering};
use uswap_core::budget::{Budget, Signal};
use uswap_os::clock;
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};

/// Looks that were asked for.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// How many of them a look that has ended was for.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// From this part of the budget on a mapping is large.
const LARGE_PART: u64 = 64;

/// No longer than this: kswapd may be busy, or may itself wait for the calling thread.
const WAIT_NS: u64 = 20_000_000;

/// While nothing is managed yet: the engine must be built, once in the life of a process.
const WAIT_FOR_ENGINE_NS: u64 = 100_000_000;

/// The program has new private memory: waits until it is registered, if it is large and memory is short. Opens no file:
/// its descriptor would be among the program's own.
pub fn announce(bytes: usize) {
    let wait_ns = match state::phase() {
        Phase::Active => WAIT_NS,
        Phase::Watching | Phase::Activating => WAIT_FOR_ENGINE_NS,
        Phase::Outside | Phase::Left => return,
    };
    let asked = state::with_segment(|segment| {
        is_urgent(segment.budget(), bytes as u64).then(|| {
            let number = ASKED.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
            platform::raise(Signal::Pressure);
            number
        })
    });
    if let Some(number) = asked.flatten() {
        wait_for(number, wait_ns);
    }
}

fn is_urgent(budget: Budget<'_>, bytes: u64) -> bool {
    let touched = budget.used().0.saturating_add(bytes);
    bytes > budget.ram().0 / LARGE_PART && touched > budget.watermarks().low.0
}

fn wait_for(number: u32, wait_ns: u64) {
    let start_ns = clock::now_ns();
    loop {
        let answered = ANSWERED.load(Ordering::Acquire);
        let waited_ns = clock::now_ns().saturating_sub(start_ns);
        if answered.wrapping_sub(number) as i32 >= 0 || waited_ns >= wait_ns {
            return;
        }
        futex::wait(&ANSWERED, answered, Timeout::Nanoseconds(wait_ns - waited_ns), Scope::Private);
    }
}

/// kswapd asks whether a look is wanted; the answer goes to [`looked`].
pub fn wanted() -> Option<u32> {
    let asked = ASKED.load(Ordering::Acquire);
    (asked != ANSWERED.load(Ordering::Relaxed)).then_some(asked)
}

/// kswapd has looked, after it was asked.
pub fn looked(asked: u32) {
    ANSWERED.store(asked, Ordering::Release);
    futex::wake(&ANSWERED, u32::MAX, Scope::Private);
}

/// In a forked child: the other threads are not there, and do not wait.
pub fn reset_after_fork() {
    ANSWERED.store(ASKED.load(Ordering::Relaxed), Ordering::Relaxed);
}
