//! Modes about large allocations of libc, which maps them where no hook sees it.

use crate::support::{Case, fail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use uswap_test_programs::message::errno;
use uswap_test_programs::{PAGE_BYTES, memory};

/// An allocation of libc.
struct Allocation {
    address: usize,
    bytes: usize,
}

impl Allocation {
    fn new(bytes: usize) -> Allocation {
        // SAFETY: 1. the memory is used through the allocation alone, and within its bytes.
        let address = unsafe { libc::malloc(bytes) } as usize;
        if address == 0 {
            fail!("malloc: errno {}", errno());
        }
        Allocation { address, bytes }
    }

    fn first_page(&self) -> usize {
        self.address.next_multiple_of(PAGE_BYTES)
    }

    fn end(&self) -> usize {
        (self.address + self.bytes) / PAGE_BYTES * PAGE_BYTES
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: 1. it was allocated by libc, and is not used any more.
        unsafe { libc::free(self.address as *mut _) };
    }
}

/// Four threads fill a large allocation at once, as the first thing that the program does: nothing is managed yet.
pub fn and_fast(case: &Case) {
    let allocation = Allocation::new(case.bytes);
    let (first, end) = (allocation.first_page(), allocation.end());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for page in (first + thread * PAGE_BYTES..end).step_by(4 * PAGE_BYTES) {
                    memory::write_word(page, page as u64 ^ case.seed);
                }
            });
        }
    });
    for page in (first..end).step_by(PAGE_BYTES) {
        if memory::read_word(page) != page as u64 ^ case.seed {
            fail!("{page:#x} does not hold what was written");
        }
    }
}

/// The same is allocated and freed again and again, beside threads that want the processors: each time its first
/// touches must be seen, though the place is that of the one before.
pub fn again(case: &Case) {
    // An allocation that took longer was not waited for to its end (docs/SEMANTICS.md).
    const WAITED_FOR: Duration = Duration::from_millis(15);
    const ROUNDS: u32 = 1000;
    let is_managed = std::env::var("LD_PRELOAD").is_ok_and(|names| names.contains("uswap"));
    let over = AtomicBool::new(false);
    let (mut missed, mut late) = (0, 0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let allocation = Allocation::new(case.bytes / 2);
            if started.elapsed() > WAITED_FOR {
                late += 1;
            } else if !is_watched(allocation.first_page()) {
                missed += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    if is_managed && missed > 0 {
        fail!("the first touches of {missed} of {ROUNDS} allocations are not seen");
    }
    if late == ROUNDS {
        fail!("all {ROUNDS} allocations took more than {WAITED_FOR:?}: nothing was tested");
    }
}

/// True when a userfaultfd gets the first touches of the mapping that holds `address`.
fn is_watched(address: usize) -> bool {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_else(|error| fail!("smaps: {error}"));
    let mut is_here = false;
    for line in smaps.lines() {
        let range = line.split(' ').next().and_then(|word| word.split_once('-'));
        let bound = |text: &str| usize::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (bound(start), bound(end))) {
            is_here = (start..end).contains(&address);
        } else if is_here && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().any(|flag| flag == "um");
        }
    }
    fail!("{address:#x} is in no mapping")
}
