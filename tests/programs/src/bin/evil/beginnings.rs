//! Modes about the moments at which memory begins to be managed, and at which it comes home.

use crate::families::itself;
use crate::support::{Case, Filled, fail, in_child, must, wait_good};
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::os::fd::AsRawFd;
use uswap_test_programs::message::errno;
use uswap_test_programs::{PAGE_BYTES, memory};

const PROGRAMS: u64 = 40;
/// Mappings of each: to look through them takes a while.
const MAPPINGS: usize = 1000;
/// How often a thread looks at its memory between two changes: with more changes most would wait for the look through
/// the mappings to begin, and none would come in the middle of it.
const LOOKS: usize = 100;
/// What a thread changes all the time, and what it lets it grow to.
const SMALL: usize = 16 * PAGE_BYTES;
const GROWN: usize = 2 * SMALL;

/// Programs that grow to a quarter of the memory, while two of their threads change mappings and one forks: each begins
/// to be managed in the middle of that. They are no forked children, which are managed from the start once their parent
/// is.
pub fn changes(case: &Case) {
    run_programs(case, "changes_at_the_beginning", |_| ());
}

/// The same, and then each forbids itself system calls (none, in truth): its memory comes home in the middle of that.
pub fn changes_at_the_end(case: &Case) {
    run_programs(case, "changes_at_the_end", |parts| {
        allow_all_calls();
        for part in parts {
            part.verify("what came home");
        }
    });
}

fn run_programs(case: &Case, mode: &str, work: impl FnOnce(&[Filled])) {
    if case.depth > 0 {
        return change_and_grow(case, work);
    }
    for number in 0..PROGRAMS {
        let case = Case { seed: case.seed + number, ..*case };
        let status = itself(mode, &case, 1).status();
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            fail!("program {number} ended with {status:?}");
        }
    }
}

/// A filter of system calls for this thread that lets each pass.
fn allow_all_calls() {
    const RETURN: u16 = 6;
    const ALLOW: u32 = 0x7FFF_0000;
    let mut filter = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY:
    // 1. The calls take numbers, and a structure that names an array, both of which are this frame's.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    answers.into_iter().for_each(|answer| must(answer, "prctl"));
}

/// `work` is done when there is more than the budget holds.
fn change_and_grow(case: &Case, work: impl FnOnce(&[Filled])) {
    // An arena of its own for each thread would be so much new memory that it would begin right there.
    // SAFETY:
    // 1. There is one thread.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    // The kernel puts them above what comes next: they are looked at last.
    let kept = Filled::new(GROWN, case.seed, 7);
    let changed = [1, 2].map(|writer| Filled::new(GROWN, case.seed, 8 + writer));
    map_itself();
    let changed = changed.map(|filled| {
        unmap(filled.address + SMALL, GROWN - SMALL);
        Filled { pages: SMALL / PAGE_BYTES, ..filled }
    });
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changers = [
            scope.spawn(|| grow_and_shrink(changed[0], &ends)),
            scope.spawn(|| drop_and_populate(changed[1], &ends)),
            scope.spawn(|| fork_and_look(kept, &ends)),
        ];
        let parts = [0, 1, 2, 3].map(|part| Filled::new(case.bytes / 16, case.seed, part));
        for part in parts {
            part.verify("what was there as memory began to be managed");
        }
        work(&parts);
        ends.store(true, SeqCst);
        for changer in changers {
            changer.join().unwrap_or_else(|_| fail!("a thread panicked"));
        }
    });
}

/// Many mappings that the kernel does not join.
fn map_itself() {
    let program = std::fs::File::open("/proc/self/exe").unwrap_or_else(|error| fail!("itself: {error}"));
    for _ in 0..MAPPINGS {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY:
        // 1. A new mapping that nobody looks at replaces nothing.
        let at = unsafe {
            libc::mmap(core::ptr::null_mut(), PAGE_BYTES, protection, flags, program.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            fail!("mmap: errno {}", errno());
        }
    }
}

fn unmap(start: usize, bytes: usize) {
    memory::unmap(start, bytes).unwrap_or_else(|error| fail!("munmap: errno {error}"));
}

fn resize(start: usize, bytes: usize, new_bytes: usize) -> usize {
    // SAFETY:
    // 1. The mapping is the caller's own, and nobody keeps a reference into it.
    let moved = unsafe { libc::mremap(start as *mut _, bytes, new_bytes, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        fail!("mremap: errno {}", errno());
    }
    moved as usize
}

/// A mapping grows where it is or elsewhere, and what it has grown by is written.
fn grow_and_shrink(mut filled: Filled, ends: &AtomicBool) {
    while !ends.load(SeqCst) {
        (0..LOOKS).for_each(|_| filled.verify("a mapping that grows and shrinks"));
        filled.address = resize(filled.address, SMALL, GROWN);
        for page in (filled.address + SMALL..filled.address + GROWN).step_by(PAGE_BYTES) {
            memory::write_word(page, 1);
        }
        filled.address = resize(filled.address, GROWN, SMALL);
    }
}

/// Memory is dropped, and filled by one call.
fn drop_and_populate(filled: Filled, ends: &AtomicBool) {
    while !ends.load(SeqCst) {
        for advice in [libc::MADV_DONTNEED, libc::MADV_POPULATE_WRITE] {
            // SAFETY:
            // 1. The mapping is the caller's own, and nobody keeps a reference into it.
            must(unsafe { libc::madvise(filled.address as *mut _, SMALL, advice) }, "madvise");
        }
        filled.fill();
        (0..LOOKS).for_each(|_| filled.verify("memory that is dropped and filled"));
    }
}

/// Children look at what they were given, and change it.
fn fork_and_look(filled: Filled, ends: &AtomicBool) {
    while !ends.load(SeqCst) {
        let child = in_child(|| {
            filled.verify("what a child was given");
            Filled { seed: filled.seed + 1, ..filled }.fill();
            Filled { seed: filled.seed + 1, ..filled }.verify("what a child has written");
        });
        wait_good(child, "a child");
        filled.verify("what a child has changed for itself");
        // By vfork: until it executes its program it has the memory of this one, and copies of its descriptors.
        let program = std::process::Command::new("/bin/true").status();
        if !program.as_ref().is_ok_and(std::process::ExitStatus::success) {
            fail!("/bin/true ended with {program:?}");
        }
    }
}
