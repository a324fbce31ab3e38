//! A process that may open no more files when it is to be armed, or to take its place in the run: it does so later.

use crate::{Filled, Seen, grow, is_seen, must, must_be, wait_good};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::message::end_process;

/// Beside three standard streams: enough for a place in a run with one swap file, too few where there are several.
const SOME: u64 = 12;
/// Longer than the first pause before something is tried again.
const PAUSE: Duration = Duration::from_millis(2500);

/// It cannot be armed when it grows, and is when it grows later.
pub fn no_descriptors(bytes: usize) {
    let limit = leave_descriptors(0);
    let first = Filled::new(bytes / 4, 60);
    set_limit(limit);
    must_be(Seen::Not, "without descriptors");
    let began = Instant::now();
    while std::env::var_os("USWAP_RUN").is_some() && !is_seen() && began.elapsed().as_secs() < 60 {
        std::thread::sleep(Duration::from_millis(50));
        let _one_more_page = Filled::new(PAGE_BYTES, 61);
    }
    grow(bytes / 4 * 3, 62).verify("with descriptors");
    must_be_evicted(bytes);
    first.verify("from before it was armed");
}

/// All its calls are seen when it grows, and it has no place yet.
pub fn no_descriptors_when_seen(bytes: usize) {
    few_when_seen(0, bytes);
}

/// It has some descriptors, and in a run with several swap files not enough.
pub fn few_descriptors_when_seen(bytes: usize) {
    few_when_seen(SOME, bytes);
}

fn few_when_seen(descriptors: u64, bytes: usize) {
    let locked = [0u8; 64];
    // SAFETY:
    // 1. They take the range of a live value.
    unsafe {
        must(libc::mlock(locked.as_ptr().cast(), locked.len()), "mlock");
        must(libc::munlock(locked.as_ptr().cast(), locked.len()), "munlock");
    }
    must_be(Seen::Yes, "after it has locked memory");
    let limit = leave_descriptors(descriptors);
    let first = Filled::new(bytes / 4, 63);
    set_limit(limit);
    std::thread::sleep(PAUSE);
    grow(bytes / 4 * 3, 64).verify("with descriptors");
    must_be_evicted(bytes);
    first.verify("from before it had a place");
}

/// A child of a process that has its place, and of which nothing is managed yet, takes its own when it grows later.
pub fn child_without_descriptors(bytes: usize) {
    let first = grow(bytes / 16, 65);
    let limit = leave_descriptors(0);
    // SAFETY:
    // 1. The process has one thread.
    let child = unsafe { libc::fork() };
    set_limit(limit);
    if child == 0 {
        std::thread::sleep(PAUSE);
        grow(bytes, 66).verify("the child's");
        must_be_evicted(bytes);
        first.verify("the child's, of its parent");
        end_process(0, format_args!("child"));
    }
    wait_good(child);
    first.verify("the parent's");
}

/// In a run the process has not all of it in RAM.
fn must_be_evicted(bytes: usize) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    if std::env::var_os("USWAP_RUN").is_some() && resident * PAGE_BYTES > bytes / 4 * 3 {
        fail!("{resident} pages of {} are in RAM: it is not managed", bytes / PAGE_BYTES);
    }
}

/// It may open so many files more. Answers what the limit was.
fn leave_descriptors(more: u64) -> libc::rlimit {
    // The lowest number that is free.
    let probe = std::fs::File::open("/dev/null").unwrap_or_else(|error| fail!("/dev/null: {error}"));
    let free = probe.as_raw_fd() as u64;
    drop(probe);
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // 1. The limit is live.
    must(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, "getrlimit");
    set_limit(libc::rlimit { rlim_cur: free + more, ..before });
    before
}

fn set_limit(limit: libc::rlimit) {
    // SAFETY:
    // 1. The limit is live.
    must(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, "setrlimit");
}
