//! Modes about descriptors and limits.

use crate::support::{Case, Filled, fail, must};
use uswap_test_programs::message::errno;

/// Closes all descriptors but standard output and error, then uses much memory, closing again in the middle.
pub fn close_all(case: &Case) {
    close_from_three();
    let filled = Filled::new(case.bytes, case.seed, 1);
    close_from_three();
    filled.verify("after closing all descriptors");
    // The numbers that others used to have now belong to us.
    for _ in 0..200 {
        // SAFETY:
        // 1. The path ends in NUL.
        let descriptor = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        if descriptor < 0 {
            fail!("open: errno {}", errno());
        }
    }
    filled.verify("after opening 200 descriptors");
    close_from_three();
    filled.verify("after closing all descriptors again");
}

fn close_from_three() {
    // SAFETY:
    // 1. Nothing in this program uses a descriptor above 2.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    must(answer as i32, "close_range");
}

fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY:
    // 1. `limit` is a live local.
    must(unsafe { libc::setrlimit(resource, &raw const limit) }, "setrlimit");
}

/// No new descriptor may be opened.
pub fn few_allowed(case: &Case) {
    limit(libc::RLIMIT_NOFILE, 3);
    let filled = Filled::new(case.bytes, case.seed, 1);
    filled.verify("with three descriptors allowed");
    let more = Filled::new(case.bytes / 4, case.seed, 2);
    filled.verify("with three descriptors allowed, again");
    more.verify("more, with three descriptors allowed");
}

/// No new process, little more address space, no locked memory, files of a page at most: set while memory is already in
/// use.
pub fn limits_after_start(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    limit(libc::RLIMIT_NPROC, 0);
    limit(libc::RLIMIT_MEMLOCK, 0);
    limit(libc::RLIMIT_FSIZE, 4096);
    limit(libc::RLIMIT_CORE, 0);
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_else(|error| fail!("statm: {error}"));
    let pages: u64 =
        status.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| fail!("statm"));
    limit(libc::RLIMIT_AS, pages * 4096 + (case.bytes as u64 / 2) + (64 << 20));
    filled.verify("after limits were set");
    let more = Filled::new(case.bytes / 4, case.seed, 2);
    filled.verify("after limits were set, again");
    more.verify("more, after limits were set");
}

/// A thread with a descriptor table of its own closes everything in it.
pub fn unshare(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    let other = std::thread::spawn(move || {
        // SAFETY:
        // 1. unshare of the descriptor table concerns this thread only.
        must(unsafe { libc::unshare(libc::CLONE_FILES) }, "unshare");
        // SAFETY:
        // 1. The table is this thread's own; it uses none of its descriptors.
        let answer = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
        must(answer as i32, "close_range");
        filled.verify("thread with a descriptor table of its own");
    });
    filled.verify("main thread");
    other.join().unwrap_or_else(|_| fail!("the thread panicked"));
}
