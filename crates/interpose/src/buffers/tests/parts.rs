//! Large transfers with a real kernel behind them: the same answer and the same bytes as in one call.

use super::super::{Boundary, FileKind, HazardSlot};
use super::flow::{AT, KEPT, PAGE, Pages, call};
use crate::Call;
use crate::table::{Memory, Unreadable};
use core::cell::{Cell, RefCell};
use std::vec::Vec;
use uswap_os::sys::syscall6;

/// Makes a call for real.
fn kernel(call: &Call) -> isize {
    let [a, b, c, d, e, f] = call.arguments;
    // SAFETY:
    // 1. The tests give the kernel memory of their own.
    match unsafe { syscall6(call.number as u32, a, b, c, d, e, f) } {
        Ok(answer) => answer as isize,
        Err(error) => error.as_answer(),
    }
}

fn raw(number: i64, arguments: [u64; 6]) -> isize {
    kernel(&call(number, arguments))
}

/// A mapping in the stretch that the pages of `flow` keep.
fn memory(bytes: usize) -> Vec<u8> {
    let memory = std::vec![0_u8; bytes];
    assert!(memory.as_ptr() as u64 > KEPT, "the heap is above the kept stretch's beginning");
    memory
}

/// The answer, and how many bytes each call that moved some was asked for.
fn transfer(limit: u64, call: &Call) -> (isize, Vec<usize>) {
    let (pages, slot) = (RealPages(Pages::new()), HazardSlot::default());
    pages.0.part_bytes.set(limit);
    let asked = RefCell::new(Vec::new());
    let answer = Boundary::new(&pages, &slot).call(call, AT, &mut |part| {
        if part.number == call.number {
            asked.borrow_mut().push(part.arguments[2]);
        }
        kernel(part)
    });
    assert_eq!(slot.counts(), (0, 0));
    (answer, asked.into_inner())
}

/// As `Pages`, all present, with the process's own words.
struct RealPages(Pages);

impl Memory for RealPages {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        for (index, byte) in into.iter_mut().enumerate() {
            // SAFETY:
            // 1. The calls of these tests name structures that the tests own.
            *byte = unsafe { ((start + index as u64) as *const u8).read() };
        }
        Ok(())
    }
}

impl super::super::Residency for RealPages {
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        self.0.kept(start, end)
    }

    fn page(&self, address: u64, access: crate::table::Access) -> super::super::Page {
        self.0.page(address, access)
    }

    fn make_present(&self, start: u64, end: u64, access: crate::table::Access) -> bool {
        self.0.make_present(start, end, access)
    }

    fn part_bytes(&self) -> u64 {
        self.0.part_bytes()
    }
}

fn file_of(bytes: u64, flags: u64) -> u64 {
    let file = raw(libc::SYS_memfd_create, [c"parts".as_ptr() as u64, 0, 0, 0, 0, 0]) as u64;
    let content: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
    assert_eq!(raw(libc::SYS_pwrite64, [file, content.as_ptr() as u64, bytes, 0, 0, 0]), bytes as isize);
    raw(libc::SYS_fcntl, [file, libc::F_SETFL as u64, flags, 0, 0, 0]);
    file
}

fn socket_pair(kind: i32) -> [u64; 2] {
    let mut ends = [0_i32; 2];
    let to = (&raw mut ends) as u64;
    assert_eq!(raw(libc::SYS_socketpair, [libc::AF_UNIX as u64, kind as u64, 0, to, 0, 0]), 0);
    ends.map(|end| end as u64)
}

#[test]
fn a_read_of_a_file_goes_in_parts_and_ends_at_its_end() {
    let file = file_of(5 * PAGE + 100, 0);
    let buffer = memory(8 * PAGE as usize);
    let (answer, asked) =
        transfer(2 * PAGE, &call(libc::SYS_read, [file, buffer.as_ptr() as u64, 8 * PAGE, 0, 0, 0]));
    assert_eq!(answer, 5 * PAGE as isize + 100);
    assert_eq!(asked, [2 * PAGE as usize; 3], "the third part is short and ends it");
    assert!(buffer[..answer as usize].iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8));
    assert!(buffer[answer as usize..].iter().all(|byte| *byte == 0));
}

#[test]
fn positions_move_from_part_to_part_and_the_files_own_does_not() {
    let file = file_of(6 * PAGE, 0);
    let buffer = memory(4 * PAGE as usize);
    let arguments = [file, buffer.as_ptr() as u64, 4 * PAGE, 7, 0, 0];
    let (answer, asked) = transfer(PAGE, &call(libc::SYS_pread64, arguments));
    assert_eq!((answer, asked.len()), (4 * PAGE as isize, 4));
    assert!(buffer.iter().enumerate().all(|(index, byte)| *byte == ((index + 7) % 251) as u8));
    assert_eq!(raw(libc::SYS_lseek, [file, 0, libc::SEEK_CUR as u64, 0, 0, 0]), 0);
}

#[test]
fn vectors_are_cut_where_a_part_ends() {
    let file = file_of(6 * PAGE, 0);
    let (first, second, third) = (memory(3 * PAGE as usize), memory(10), memory(2 * PAGE as usize));
    let vectors: Vec<[u64; 2]> =
        [&first, &second, &third].iter().map(|part| [part.as_ptr() as u64, part.len() as u64]).collect();
    let arguments = [file, vectors.as_ptr() as u64, 3, 0, 0, 0];
    let (answer, asked) = transfer(2 * PAGE, &call(libc::SYS_readv, arguments));
    assert_eq!(answer, 5 * PAGE as isize + 10);
    assert_eq!(asked, [1, 3, 1], "structures of each part");
    let all = [first, second, third].concat();
    assert!(all.iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8));
}

#[test]
fn a_read_of_a_stream_is_cut_and_a_write_is_not() {
    let [reader, writer] = socket_pair(libc::SOCK_STREAM);
    let data = memory(4 * PAGE as usize);
    let (answer, asked) =
        transfer(PAGE, &call(libc::SYS_write, [writer, data.as_ptr() as u64, 4 * PAGE, 0, 0, 0]));
    assert_eq!((answer, asked.len()), (4 * PAGE as isize, 4));
    let (answer, asked) =
        transfer(PAGE, &call(libc::SYS_read, [reader, data.as_ptr() as u64, 4 * PAGE, 0, 0, 0]));
    assert_eq!((answer, asked.len()), (PAGE as isize, 1), "a second read could wait");
}

#[test]
fn a_message_is_never_parted() {
    let [reader, writer] = socket_pair(libc::SOCK_SEQPACKET);
    let data = memory(4 * PAGE as usize);
    let send = call(libc::SYS_write, [writer, data.as_ptr() as u64, 4 * PAGE, 0, 0, 0]);
    assert_eq!(transfer(PAGE, &send), (4 * PAGE as isize, std::vec![4 * PAGE as usize]));
    let receive = call(libc::SYS_read, [reader, data.as_ptr() as u64, 4 * PAGE, 0, 0, 0]);
    assert_eq!(transfer(PAGE, &receive), (4 * PAGE as isize, std::vec![4 * PAGE as usize]));
}

#[test]
fn an_appending_write_is_never_parted() {
    let file = file_of(10, libc::O_APPEND as u64);
    let data = memory(4 * PAGE as usize);
    let append = call(libc::SYS_write, [file, data.as_ptr() as u64, 4 * PAGE, 0, 0, 0]);
    assert_eq!(transfer(PAGE, &append), (4 * PAGE as isize, std::vec![4 * PAGE as usize]));
}

#[test]
fn a_parted_message_sends_its_descriptors_once() {
    let [reader, writer] = socket_pair(libc::SOCK_STREAM);
    let data = memory(3 * PAGE as usize);
    let vector = [data.as_ptr() as u64, 3 * PAGE];
    // A control message with one descriptor: length, level and type, the descriptor.
    let control = [20_u64, (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32, reader];
    let header = [0, 0, vector.as_ptr() as u64, 1, control.as_ptr() as u64, 24, 0];
    let (answer, asked) =
        transfer(PAGE, &call(libc::SYS_sendmsg, [writer, header.as_ptr() as u64, 0, 0, 0, 0]));
    assert_eq!((answer, asked.len()), (3 * PAGE as isize, 3));
    let passed = Cell::new(0);
    for _ in 0..3 {
        let vector = [data.as_ptr() as u64, PAGE];
        let room = [0_u64; 8];
        let header = [0, 0, vector.as_ptr() as u64, 1, room.as_ptr() as u64, 64, 0];
        let answer = raw(libc::SYS_recvmsg, [reader, header.as_ptr() as u64, 0, 0, 0, 0]);
        assert_eq!(answer, PAGE as isize);
        passed.set(passed.get() + i32::from(core::hint::black_box(&header)[5] != 0));
    }
    assert_eq!(passed.get(), 1);
}

#[test]
fn what_the_kernel_refuses_as_a_whole_goes_as_a_whole() {
    let file = file_of(10, 0);
    let buffer = memory(PAGE as usize);
    let negative = call(libc::SYS_read, [file, buffer.as_ptr() as u64, u64::MAX, 0, 0, 0]);
    assert_eq!(transfer(PAGE, &negative).0, kernel(&negative));
    let vectors = [[buffer.as_ptr() as u64, 10], [buffer.as_ptr() as u64, u64::MAX]];
    let negative = call(libc::SYS_readv, [file, vectors.as_ptr() as u64, 2, 0, 0, 0]);
    assert_eq!(transfer(5, &negative).0, kernel(&negative));
}

#[test]
fn kinds_of_files_are_told_apart() {
    let kind = |file: u64| FileKind::of(file as usize, &mut kernel);
    assert_eq!(kind(file_of(1, 0)), FileKind::Plain);
    assert_eq!(kind(file_of(1, libc::O_APPEND as u64)), FileKind::Appending);
    assert_eq!(kind(socket_pair(libc::SOCK_STREAM)[0]), FileKind::Stream);
    assert_eq!(kind(socket_pair(libc::SOCK_DGRAM)[0]), FileKind::Other);
    assert_eq!(kind(raw(libc::SYS_eventfd2, [0; 6]) as u64), FileKind::Other);
    assert_eq!(kind(u64::MAX), FileKind::Other);
    for (flags, expected) in [(0, FileKind::Pipe), (libc::O_DIRECT, FileKind::Other)] {
        let mut ends = [0_i32; 2];
        raw(libc::SYS_pipe2, [(&raw mut ends) as u64, flags as u64, 0, 0, 0, 0]);
        assert_eq!(kind(core::hint::black_box(ends)[1] as u64), expected);
    }
}
