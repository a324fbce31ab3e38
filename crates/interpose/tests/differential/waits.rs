//! Calls that wait: their buffers stay while they do, however often the evictor comes by.

use crate::evictor::{COUNTS, KEPT, PAGE};
use crate::kernel::{call, make, raw};
use crate::world::World;
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
    let answer = world.boundary().call(call, world.stack_point(), &mut make);
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

/// In a process of its own, because the kept memory has a fixed place.
#[test]
fn a_call_that_waits_keeps_its_buffer() {
    let status = crate::start("waits", 1, 0, false).wait().expect("it was started");
    assert!(status.success(), "{status:?}");
}
