//! Calls that wait: their buffers stay while they do, however often the evictor comes by. And calls of several threads
//! at once.

use crate::evictor::{COUNTS, KEPT, PAGE, PAGES, THREADS, take_faults};
use crate::kernel::{call, make, raw};
use crate::world::{World, stack_point};
use std::sync::atomic::Ordering;
use uswap_interpose::Call;

/// Times that the evictor has wanted a page of the call and left it.
fn refusals() -> u64 {
    COUNTS[2].load(Ordering::Relaxed)
}

/// Makes a call that waits until `release` has run, which is after the evictor was refused some times.
fn wait_in(world: &World, call: &Call, release: impl FnOnce() + Send + 'static) -> isize {
    let before = refusals();
    let releaser = std::thread::spawn(move || {
        while refusals() < before + 5 {
            std::thread::yield_now();
        }
        release();
    });
    let answer = world.boundary().call(call, stack_point(), &mut make);
    releaser.join().expect("it only waits");
    answer
}

fn blocking(file: u64) {
    raw(libc::SYS_fcntl, [file, libc::F_SETFL as u64, 0]);
}

/// What would be lost: a datagram, a packet, bytes of a pipe, the status of a child.
pub fn run(world: &World) {
    for round in 0..20_u64 {
        let buffer = KEPT + (round % 30) * PAGE + PAGE / 2 - 50;
        for ends in [world.files.datagrams, world.files.packets, world.files.pipe] {
            let [from, to] = ends;
            blocking(from);
            let text = [round ^ 0x5555_5555; 12];
            let read = call(libc::SYS_read, [from, buffer, PAGE]);
            let answer = wait_in(world, &read, move || {
                assert_eq!(raw(libc::SYS_write, [to, text.as_ptr() as u64, 96]), 96);
            });
            assert_eq!(answer, 96, "round {round}, file {from}");
            assert_eq!(world.word(buffer), text[0]);
        }
        let gate = world.files.streams;
        blocking(gate[0]);
        let child = raw(libc::SYS_fork, []) as u64;
        if child == 0 {
            // Until somebody writes. The stack of this thread is not kept memory.
            let byte = [0_u8; 1];
            raw(libc::SYS_read, [gate[0], byte.as_ptr() as u64, 1]);
            raw(libc::SYS_exit_group, [round]);
        }
        let wait = call(libc::SYS_wait4, [child, buffer, 0, 0]);
        let answer = wait_in(world, &wait, move || {
            raw(libc::SYS_write, [gate[1], b"x".as_ptr() as u64, 1]);
        });
        assert_eq!(answer as u64, child);
        assert_eq!(world.word(buffer) as u32, (round as u32) << 8);
    }
}

/// Each thread writes its pages to a file of its own and reads them back into others, with what it wrote before in
/// the file; none of its calls may fail, or move fewer bytes.
pub fn run_threads(world: &World) {
    /// Evictions until all threads have seen enough.
    const EVICTIONS: u64 = 500;
    let pages = PAGES / THREADS as u64;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let boundary = world.boundary_of(thread);
            scope.spawn(move || {
                take_faults();
                let file = raw(libc::SYS_memfd_create, [c"threads".as_ptr() as u64, 0]) as u64;
                let base = KEPT + thread as u64 * pages * PAGE;
                for round in 0.. {
                    if round > 1000 && COUNTS[0].load(Ordering::Relaxed) > EVICTIONS {
                        break;
                    }
                    let from = base + round % (pages - 2) * PAGE + 2000;
                    let to = base + (round + 3) % (pages - 2) * PAGE + 3000;
                    let value = round << 8 | thread as u64;
                    // SAFETY:
                    // 1. Each thread has pages of its own; an evicted one is brought by the handler.
                    unsafe {
                        (from as *mut u64).write_volatile(value);
                        ((from + 3992) as *mut u64).write_volatile(!value);
                    }
                    let write = call(libc::SYS_pwrite64, [file, from, 4000, 0]);
                    assert_eq!(boundary.call(&write, stack_point(), &mut make), 4000);
                    let read = call(libc::SYS_pread64, [file, to, 4000, 0]);
                    assert_eq!(boundary.call(&read, stack_point(), &mut make), 4000);
                    // SAFETY:
                    // 1. As above.
                    let seen = unsafe {
                        [(to as *const u64).read_volatile(), ((to + 3992) as *const u64).read_volatile()]
                    };
                    assert_eq!(seen, [value, !value], "thread {thread}, round {round}");
                }
            });
        }
    });
}

#[test]
fn calls_of_several_threads_lose_nothing() {
    let status = crate::start("threads", 1, 0, false).wait().expect("it was started");
    assert!(status.success(), "{status:?}");
}

/// In a process of its own, because the kept memory has a fixed place.
#[test]
fn a_call_that_waits_keeps_its_buffer() {
    let status = crate::start("waits", 1, 0, false).wait().expect("it was started");
    assert!(status.success(), "{status:?}");
}
