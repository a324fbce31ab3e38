//! Operations in which the kernel reads or writes the pages: pipes, files, direct IO, futex.

use crate::table::{Found, State, Word, verify_copy};
use crate::worker::Worker;
use std::ffi::CString;
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::message::errno;
use uswap_test_programs::pattern::Page;

/// Pages that the temporary file has room for.
const FILE_PAGES: usize = 64;

/// The descriptors of one thread; closed when it ends.
pub struct Files {
    pipe: [i32; 2],
    plain: i32,
    /// -1 where the file system has no direct IO.
    direct: i32,
}

impl Files {
    /// Opens a pipe and an unnamed temporary file in `directory`.
    pub fn open(directory: &str) -> Files {
        let mut pipe = [0; 2];
        let directory = CString::new(directory).expect("arguments hold no NUL");
        // SAFETY:
        // 1. `pipe` has room for two descriptors and `directory` ends in NUL.
        let (answer, plain) = unsafe {
            (
                libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC),
                libc::open(directory.as_ptr(), libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC, 0o600),
            )
        };
        assert!(answer == 0 && plain >= 0, "no pipe or temporary file in {directory:?}: errno {}", errno());
        let again = CString::new(format!("/proc/self/fd/{plain}")).expect("digits hold no NUL");
        // SAFETY:
        // 1. `again` ends in NUL.
        let direct = unsafe { libc::open(again.as_ptr(), libc::O_DIRECT | libc::O_RDWR | libc::O_CLOEXEC) };
        Files { pipe, plain, direct }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for descriptor in [self.pipe[0], self.pipe[1], self.plain, self.direct] {
            if descriptor >= 0 {
                // SAFETY:
                // 1. The descriptor was opened by `open` and is closed only here.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}

/// A page that the kernel can read now and whose content is known: `(record, page, word)`.
fn known_page(worker: &mut Worker) -> Option<(usize, usize, Word)> {
    let record = worker.any_record(None)?;
    let (page, _) = worker.any_part(record, 1);
    let word = worker.table.word(record, page);
    (word.readable() && word.state() != State::Unknown).then_some((record, page, word))
}

fn whole(worker: &Worker, what: &str, answer: isize) {
    if answer != PAGE_BYTES as isize {
        worker.fail(what, if answer < 0 { -i64::from(errno()) } else { answer as i64 });
    }
}

/// The kernel has read page `page` of `record`; `copy` is what came out.
fn judge_copy(worker: &mut Worker, record: usize, page: usize, word: Word, copy: &Page) {
    let address = worker.table.records[record].page_address(page);
    if let Found::GoneAfterFree =
        verify_copy(worker.table, "kernel", worker.table.thread, address, word, copy)
    {
        worker.table.set_word(record, page, Word::ZERO.with_access_of(word));
    }
}

/// Writes a page into a pipe and compares what comes out; then the other way round.
pub fn through_pipe(worker: &mut Worker) {
    let [out, into] = worker.files.pipe;
    let mut copy = [0u8; PAGE_BYTES];
    if let Some((record, page, word)) = known_page(worker) {
        let address = worker.table.records[record].page_address(page);
        // SAFETY:
        // 1. The thread owns 4096 readable bytes at `address`; `copy` is a local page.
        // 2. A pipe holds 64 KiB and is empty, so neither call waits.
        let (written, read) = unsafe {
            (
                libc::write(into, address as *const libc::c_void, PAGE_BYTES),
                libc::read(out, copy.as_mut_ptr().cast(), PAGE_BYTES),
            )
        };
        whole(worker, "write to a pipe from a page gave", written);
        whole(worker, "read from a pipe gave", read);
        judge_copy(worker, record, page, word, &copy);
    }
    if let Some((record, page, old)) = known_page(worker).filter(|(_, _, word)| word.writable()) {
        let word = Word::written(worker.table.next_number()).with_access_of(old);
        let content = worker.content(word);
        let address = worker.table.records[record].page_address(page);
        // SAFETY:
        // 1. `content` is a local page; the thread owns 4096 writable bytes at `address` and holds no reference.
        let (written, read) = unsafe {
            (
                libc::write(into, content.as_ptr().cast(), PAGE_BYTES),
                libc::read(out, address as *mut libc::c_void, PAGE_BYTES),
            )
        };
        whole(worker, "write to a pipe gave", written);
        whole(worker, "read from a pipe into a page gave", read);
        worker.table.set_word(record, page, word);
        worker.verify_page(record, page);
    }
}

/// Writes a page to a file and reads it back into another page.
pub fn through_file(worker: &mut Worker) {
    let descriptor = worker.files.plain;
    copy_through(worker, descriptor);
}

/// The same with direct IO, which pins the pages while the disk works.
pub fn through_direct_file(worker: &mut Worker) {
    let descriptor = worker.files.direct;
    if descriptor >= 0 {
        copy_through(worker, descriptor);
    }
}

fn copy_through(worker: &mut Worker, descriptor: i32) {
    let direct = descriptor == worker.files.direct;
    let Some((record, page, word)) = known_page(worker) else { return };
    let from = worker.table.records[record].page_address(page);
    if direct && !from.is_multiple_of(PAGE_BYTES) {
        return;
    }
    let offset = (worker.random.index(FILE_PAGES) * PAGE_BYTES) as i64;
    // SAFETY:
    // 1. The thread owns 4096 readable bytes at `from`.
    let written = unsafe { libc::pwrite(descriptor, from as *const libc::c_void, PAGE_BYTES, offset) };
    whole(worker, "pwrite from a page gave", written);
    // The target is another page of ours, so that the kernel also writes into evicted memory.
    let target = known_page(worker).filter(|(_, _, word)| word.writable());
    let mut copy = [0u8; PAGE_BYTES];
    let Some((target_record, target_page, old)) = target else { return };
    let to = worker.table.records[target_record].page_address(target_page);
    if direct && !to.is_multiple_of(PAGE_BYTES) {
        return;
    }
    // SAFETY:
    // 1. The thread owns 4096 writable bytes at `to` and holds no reference to them.
    let read = unsafe { libc::pread(descriptor, to as *mut libc::c_void, PAGE_BYTES, offset) };
    whole(worker, "pread into a page gave", read);
    uswap_test_programs::memory::copy_page_out(to, &mut copy);
    judge_copy_of_other(worker, from, word, &copy);
    // The target now holds the other page's content: give it content of its own before anyone verifies it.
    let fresh = Word::written(worker.table.next_number()).with_access_of(old);
    uswap_test_programs::memory::copy_page_in(to, &worker.content(fresh));
    worker.table.set_word(target_record, target_page, fresh);
}

fn judge_copy_of_other(worker: &mut Worker, from: usize, word: Word, copy: &Page) {
    // A page given to MADV_FREE may have been zero when the kernel read it; its own word is brought up to date
    // the next time that it is verified.
    let _ = verify_copy(worker.table, "file", worker.table.thread, from, word, copy);
}

/// Waits on a futex word in a page: the kernel must see the word's true value.
pub fn futex_wait(worker: &mut Worker) {
    let Some((record, page, word)) = known_page(worker) else { return };
    if word.state() == State::Freed {
        return;
    }
    let content = worker.content(word);
    let (fours, _) = content.as_chunks::<4>();
    let place = worker.random.index(fours.len());
    let value = u32::from_le_bytes(fours[place]);
    let address = worker.table.records[record].page_address(page) + 4 * place;
    for (expected_value, wanted) in [(value ^ 1, libc::EAGAIN), (value, libc::ETIMEDOUT)] {
        let patience = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
        // SAFETY:
        // 1. `address` is 4-byte aligned and in a readable page that the thread owns; `patience` is a live local.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                address,
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected_value,
                &raw const patience,
            )
        };
        if answer != -1 || errno() != wanted {
            worker.fail("futex on a page gave errno", errno().into());
        }
    }
}
