//! The walk, over a memory that is an array: what it visits, in which order, and what it does with bad pointers.

use super::support::call;
use crate::table::Access::{Read, ReadWrite, Write};
use crate::table::{Access, BufferRange, Memory, Unreadable, Walked, for_each_range, row};
use std::vec;
use std::vec::Vec;

/// A few pages at `BASE`; those whose bit is set are evicted. Everything else is no memory.
struct Pages {
    bytes: Vec<u8>,
    evicted: u64,
}

const BASE: u64 = 0x40_0000;
const PAGE: u64 = 4096;
const FUTEX_WAKE: i64 = 454;
const FUTEX_WAIT: i64 = 455;
const FUTEX_REQUEUE: i64 = 456;

impl Pages {
    fn new() -> Pages {
        Pages { bytes: vec![0; 8 * PAGE as usize], evicted: 0 }
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = (at - BASE) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_words(&mut self, at: u64, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.put(at + index as u64 * 8, &word.to_ne_bytes());
        }
    }
}

impl Memory for Pages {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let at = start.checked_sub(BASE).ok_or(Unreadable::Bad)? as usize;
        let from = self.bytes.get(at..at + into.len()).ok_or(Unreadable::Bad)?;
        for page in at / PAGE as usize..=(at + into.len() - 1) / PAGE as usize {
            if self.evicted & 1 << page != 0 {
                return Err(Unreadable::Evicted);
            }
        }
        into.copy_from_slice(from);
        Ok(())
    }
}

fn walk(memory: &Pages, number: i64, arguments: [u64; 6]) -> (Walked, Vec<(u64, u64, Access)>) {
    let mut seen = Vec::new();
    let call = call(number, arguments);
    let row = row(call.number).expect("each call of these tests has a row");
    let walked = for_each_range(row, &call, memory, &mut |range: BufferRange| {
        seen.push((range.start, range.bytes, range.access));
    });
    (walked, seen)
}

fn all(memory: &Pages, number: i64, arguments: [u64; 6]) -> Vec<(u64, u64, Access)> {
    let (walked, seen) = walk(memory, number, arguments);
    assert_eq!(walked, Walked::Complete);
    seen
}

#[test]
fn a_plain_call_has_its_buffer_and_null_has_none() {
    let memory = Pages::new();
    assert_eq!(all(&memory, libc::SYS_read, [3, BASE, 10, 0, 0, 0]), [(BASE, 10, Write)]);
    assert_eq!(all(&memory, libc::SYS_write, [3, BASE, 10, 0, 0, 0]), [(BASE, 10, Read)]);
    assert_eq!(all(&memory, libc::SYS_wait4, [3, BASE, 0, 0, 0, 0]), [(BASE, 4, Write)]);
    assert_eq!(all(&memory, libc::SYS_read, [3, BASE, 0, 0, 0, 0]), []);
    assert_eq!(all(&memory, libc::SYS_getpid, [BASE; 6]), []);
}

#[test]
fn a_count_of_32_bits_is_taken_as_such() {
    let memory = Pages::new();
    let dirty = 0xdead_beef_0000_0002;
    assert_eq!(all(&memory, libc::SYS_poll, [BASE, dirty, 0, 0, 0, 0]), [(BASE, 16, ReadWrite)]);
    assert_eq!(all(&memory, libc::SYS_bind, [3, BASE, dirty, 0, 0, 0]), [(BASE, 2, Read)]);
}

#[test]
fn no_range_wraps_around() {
    let memory = Pages::new();
    let (_, seen) = walk(&memory, libc::SYS_read, [3, u64::MAX - 5, 100, 0, 0, 0]);
    assert_eq!(seen, []);
    let (_, seen) = walk(&memory, libc::SYS_read, [3, BASE, u64::MAX, 0, 0, 0]);
    assert!(seen.iter().all(|(start, bytes, _)| start.checked_add(*bytes).is_some()), "{seen:?}");
    let (walked, _) = walk(&memory, libc::SYS_readv, [3, u64::MAX - 3, 2, 0, 0, 0]);
    assert_eq!(walked, Walked::Complete, "a bad pointer is left to the kernel");
}

#[test]
fn a_path_is_as_long_as_it_is() {
    let mut memory = Pages::new();
    let start = BASE + PAGE - 3;
    memory.put(start, b"/etc\0");
    let seen = all(&memory, libc::SYS_open, [start, 0, 0, 0, 0, 0]);
    assert_eq!(seen, [(start, 3, Read), (BASE + PAGE, PAGE - 3, Read)]);
    memory.put(start, b"/\0");
    assert_eq!(all(&memory, libc::SYS_open, [start, 0, 0, 0, 0, 0]), [(start, 3, Read)]);
    // One that never ends stops at the longest path.
    memory.put(BASE, &[b'a'; 8 * PAGE as usize]);
    let seen = all(&memory, libc::SYS_open, [BASE + 1, 0, 0, 0, 0, 0]);
    assert_eq!(seen.iter().map(|(_, bytes, _)| bytes).sum::<u64>(), PAGE);
}

#[test]
fn vectors_are_read_and_what_they_name_is_visited() {
    let mut memory = Pages::new();
    memory.put_words(BASE, &[BASE + PAGE, 5, 0, 0, BASE + 3 * PAGE, 7]);
    let seen = all(&memory, libc::SYS_readv, [3, BASE, 3, 0, 0, 0]);
    assert_eq!(seen, [(BASE, 48, Read), (BASE + PAGE, 5, Write), (BASE + 3 * PAGE, 7, Write)]);
    // Many are read a few at a time.
    let seen = all(&memory, libc::SYS_readv, [3, BASE, 20, 0, 0, 0]);
    let arrays: Vec<_> = seen.into_iter().filter(|(_, _, access)| *access == Read).collect();
    assert_eq!(arrays, [(BASE, 128, Read), (BASE + 128, 128, Read), (BASE + 256, 64, Read)]);
}

#[test]
fn a_message_has_a_name_data_and_control() {
    let mut memory = Pages::new();
    let (header, vector, control) = (BASE, BASE + 100, BASE + PAGE);
    memory.put_words(header, &[BASE + 2 * PAGE, 16, vector, 1, control, 64, 0]);
    memory.put_words(vector, &[BASE + 3 * PAGE, 9]);
    let seen = all(&memory, libc::SYS_recvmsg, [3, header, 0, 0, 0, 0]);
    let expected = [
        (header, 56, ReadWrite),
        (BASE + 2 * PAGE, 16, Write),
        (control, 64, Write),
        (vector, 16, Read),
        (BASE + 3 * PAGE, 9, Write),
    ];
    assert_eq!(seen, expected);
    let sent = all(&memory, libc::SYS_sendmsg, [3, header, 0, 0, 0, 0]);
    assert!(sent.iter().all(|(_, _, access)| *access == Read), "{sent:?}");
}

#[test]
fn a_structure_that_is_evicted_is_visited_and_asked_for() {
    let mut memory = Pages::new();
    memory.put_words(BASE + PAGE, &[BASE, 5]);
    memory.evicted = 1 << 1;
    let (walked, seen) = walk(&memory, libc::SYS_writev, [3, BASE + PAGE, 1, 0, 0, 0]);
    let vector = BufferRange { start: BASE + PAGE, bytes: 16, access: Read };
    assert_eq!(walked, Walked::Evicted(vector));
    assert_eq!(seen, [(BASE + PAGE, 16, Read)], "the visitor has seen what it must make present");
    memory.evicted = 0;
    let seen = all(&memory, libc::SYS_writev, [3, BASE + PAGE, 1, 0, 0, 0]);
    assert_eq!(seen, [(BASE + PAGE, 16, Read), (BASE, 5, Read)]);
}

#[test]
fn arguments_of_a_program_end_with_a_null() {
    let mut memory = Pages::new();
    memory.put(BASE, b"/bin/x\0");
    memory.put(BASE + PAGE, b"one\0");
    memory.put_words(BASE + 2 * PAGE, &[BASE + PAGE, BASE, 0]);
    memory.put_words(BASE + 3 * PAGE, &[0]);
    let seen = all(&memory, libc::SYS_execve, [BASE, BASE + 2 * PAGE, BASE + 3 * PAGE, 0, 0, 0]);
    let starts: Vec<u64> = seen.iter().map(|(start, _, _)| *start - BASE).collect();
    let vector = 2 * PAGE;
    assert_eq!(starts, [0, vector, PAGE, vector + 8, 0, vector + 16, 3 * PAGE]);
}

/// Arrays of pointers that never end, all to strings that never end.
struct Endless;

impl Memory for Endless {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        match into.first_chunk_mut() {
            Some(pointer) if start < 1 << 30 => *pointer = (1_u64 << 40).to_ne_bytes(),
            _ => into.fill(b'x'),
        }
        Ok(())
    }
}

/// They were once looked at up to a million strings of 128 KiB, which takes minutes; the kernel says E2BIG at 6 MiB.
#[test]
fn no_more_arguments_of_a_program_are_looked_at_than_the_kernel_takes() {
    let call = call(libc::SYS_execve, [0, BASE, BASE, 0, 0, 0]);
    let mut bytes = 0;
    let row = row(call.number).expect("it has a row");
    let walked = for_each_range(row, &call, &Endless, &mut |range: BufferRange| bytes += range.bytes);
    assert_eq!(walked, Walked::Complete);
    assert!((12 << 20..13 << 20).contains(&bytes), "{bytes} bytes of two arrays");
}

#[test]
fn an_unknown_ioctl_goes_by_its_number() {
    let memory = Pages::new();
    let number = |direction: u64, bytes: u64| direction << 30 | bytes << 16 | 0x4242;
    let seen = |request| all(&memory, libc::SYS_ioctl, [3, request, BASE, 0, 0, 0]);
    assert_eq!(seen(number(0, 0)), []);
    assert_eq!(seen(number(1, 24)), [(BASE, 24, ReadWrite)]);
    assert_eq!(seen(number(2, 24)), [(BASE, 24, Write)]);
    assert_eq!(seen(number(3, 24)), [(BASE, 24, ReadWrite)]);
}

#[test]
fn a_private_wake_touches_nothing_and_a_wait_reads() {
    let memory = Pages::new();
    let private = libc::FUTEX_PRIVATE_FLAG;
    let futex = |operation: i32| all(&memory, libc::SYS_futex, [BASE, operation as u64, 1, 0, BASE + 64, 0]);
    assert_eq!(futex(libc::FUTEX_WAKE | private), []);
    assert_eq!(futex(libc::FUTEX_WAKE), [(BASE, 4, ReadWrite)]);
    assert_eq!(futex(libc::FUTEX_WAIT), [(BASE, 4, ReadWrite)]);
    assert_eq!(futex(libc::FUTEX_WAIT | private), [(BASE, 4, Read)]);
    assert_eq!(futex(libc::FUTEX_WAKE_OP | private), [(BASE + 64, 4, ReadWrite)]);
    assert_eq!(futex(libc::FUTEX_LOCK_PI | private), [(BASE, 4, ReadWrite)]);
}

#[test]
fn a_futex_with_a_node_is_two_words() {
    const NODE: u64 = 4;
    let mut memory = Pages::new();
    let private = libc::FUTEX_PRIVATE_FLAG as u64;
    let waiter = |flags: u64| [0, BASE + 128, 2 | flags];
    for (flags, seen) in [
        (0, &[(BASE, 4, ReadWrite)][..]),
        (private, &[(BASE, 4, Read)]),
        (NODE, &[(BASE, 8, ReadWrite)]),
        (NODE | private, &[(BASE, 8, ReadWrite)]),
    ] {
        let flags_and_size = 2 | flags;
        assert_eq!(all(&memory, FUTEX_WAIT, [BASE, 0, 1, flags_and_size, 0, 0]), seen, "{flags:x}");
        // A private one without a node is not looked at.
        let woken = if flags == private { &[] } else { seen };
        assert_eq!(all(&memory, FUTEX_WAKE, [BASE, 1, 1, flags_and_size, 0, 0]), woken, "{flags:x}");
        let (_, bytes, access) = seen[0];
        memory.put_words(BASE + 512, &[waiter(flags), waiter(flags)].concat());
        let requeued = all(&memory, FUTEX_REQUEUE, [BASE + 512, 0, 1, 1, 0, 0]);
        let words: Vec<_> = requeued.into_iter().filter(|range| range.0 == BASE + 128).collect();
        assert_eq!(words, [(BASE + 128, bytes, access); 2], "{flags:x}");
    }
}
