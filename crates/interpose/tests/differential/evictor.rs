//! Memory that is evicted and brought back, with a word for each page; and a thread that evicts all the time.
//!
//! An evicted page was moved to a second mapping by the kernel, or it was protected, copied and dropped, as uswap
//! evicts in place: then a write that came too late is lost, and shows. Who touches it gets SIGBUS, and the handler
//! brings it back. A protected page is there and may not be written: the kernel answers EFAULT for that too.

use crate::kernel::raw;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uswap_interpose::buffers::{HazardTable, Page, Residency};
use uswap_interpose::table::{Access, Memory, Unreadable};
use uswap_units::Prng;

pub const PAGE: u64 = 4096;
/// Pages that are kept. Behind them is nothing.
pub const PAGES: u64 = 48;
/// Threads that make calls, at most.
pub const THREADS: usize = 3;
/// Where they are, in both processes.
pub const KEPT: u64 = 0x2000_0000_0000;
pub const KEPT_END: u64 = KEPT + PAGES * PAGE;
/// Where evicted pages are.
const STORE: u64 = 0x2100_0000_0000;

const PRESENT: u32 = 0;
const MARKED: u32 = 1;
const EVICTED: u32 = 2;
const PROTECTED: u32 = 3;
const BUSY: u32 = 4;
/// Evicted in place: what it held is in `COPIES`.
const DROPPED: u32 = 5;

/// What dropped pages held, each by who has its word.
static mut COPIES: [[u8; PAGE as usize]; PAGES as usize] = [[0; PAGE as usize]; PAGES as usize];

pub static WORDS: [AtomicU32; PAGES as usize] = [const { AtomicU32::new(PRESENT) }; PAGES as usize];
/// The userfaultfd.
static FILE: AtomicU64 = AtomicU64::new(0);
/// What happened, for the report: evicted, protected, found in use, brought by a fault, brought by the boundary.
pub static COUNTS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
/// Where the last fault was, and the errors of the last moves and protections that failed, by their pages.
static LAST_FAULT: AtomicU64 = AtomicU64::new(0);
static LAST_ERRORS: [AtomicU64; PAGES as usize] = [const { AtomicU64::new(0) }; PAGES as usize];

fn count(index: usize) {
    COUNTS[index].fetch_add(1, Ordering::Relaxed);
}

const USER_MODE_ONLY: u64 = 1;
/// SIGBUS, protection from writes, moves.
const FEATURES: u64 = 1 << 7 | 1 | 1 << 16;
const API: u64 = 0xc018_aa3f;
const REGISTER: u64 = 0xc020_aa00;
const COPY: u64 = 0xc028_aa03;
const MOVE: u64 = 0xc028_aa05;
const WRITE_PROTECT: u64 = 0xc018_aa06;

/// Registers the kept memory, which is mapped already, and takes SIGBUS.
pub fn begin() {
    let file = raw(libc::SYS_userfaultfd, [USER_MODE_ONLY | libc::O_CLOEXEC as u64]);
    assert!(file >= 0, "userfaultfd answers {file}");
    // Out of the way of the descriptors that both processes compare.
    let moved = raw(libc::SYS_fcntl, [file as u64, libc::F_DUPFD_CLOEXEC as u64, 900]) as u64;
    raw(libc::SYS_close, [file as u64]);
    FILE.store(moved, Ordering::Relaxed);
    let api = [0xaa_u64, FEATURES, 0];
    assert_eq!(raw(libc::SYS_ioctl, [moved, API, api.as_ptr() as u64]), 0);
    map(STORE);
    for start in [KEPT, STORE] {
        let register = [start, PAGES * PAGE, 1 | 2, 0]; // Missing, and protected from writes.
        assert_eq!(raw(libc::SYS_ioctl, [moved, REGISTER, register.as_ptr() as u64]), 0);
    }
    take_faults();
    // SAFETY:
    // 1. The handler touches static words and makes system calls, on a stack of its own.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut()), 0);
    }
}

/// Gives the calling thread a stack for its faults.
pub fn take_faults() {
    let stack = libc::stack_t { ss_sp: map_anywhere(1 << 16) as *mut _, ss_flags: 0, ss_size: 1 << 16 };
    // SAFETY:
    // 1. The stack is a fresh mapping, which is never unmapped.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, core::ptr::null_mut()) }, 0);
}

/// Maps so many kept pages there.
pub fn map(start: u64) {
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let answer = raw(libc::SYS_mmap, [start, PAGES * PAGE, 3, flags, u64::MAX, 0]);
    assert_eq!(answer as u64, start);
    raw(libc::SYS_madvise, [start, PAGES * PAGE, libc::MADV_NOHUGEPAGE as u64]);
    // Pages that a child shares cannot be moved.
    raw(libc::SYS_madvise, [start, PAGES * PAGE, libc::MADV_DONTFORK as u64]);
}

fn map_anywhere(bytes: u64) -> u64 {
    raw(libc::SYS_mmap, [0, bytes, 3, (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64, u64::MAX, 0]) as u64
}

extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY:
    // 1. The kernel hands over a valid structure.
    let address = unsafe { (*info).si_addr() } as u64;
    if !(KEPT..KEPT_END).contains(&address) {
        raw(libc::SYS_exit_group, [99]);
    }
    count(3);
    LAST_FAULT.store(address, Ordering::Relaxed);
    bring(page_index(address));
}

fn page_index(address: u64) -> usize {
    ((address - KEPT) / PAGE) as usize
}

fn move_page(from: u64, to: u64) -> bool {
    let moved = [to, from, PAGE, 1, 0]; // Nobody waits for a page: do not wake.
    is_done(from, raw(libc::SYS_ioctl, [FILE.load(Ordering::Relaxed), MOVE, moved.as_ptr() as u64]))
}

fn protect_page(start: u64, mode: u64) -> bool {
    let protect = [start, PAGE, mode];
    is_done(
        start,
        raw(libc::SYS_ioctl, [FILE.load(Ordering::Relaxed), WRITE_PROTECT, protect.as_ptr() as u64]),
    )
}

/// Whether the page is in the store. A move that answers an error may have been made all the same: a page whose word
/// said that it was present was found there, after 43 million calls, and nobody had an error to tell why.
fn is_in_store(page: u64) -> bool {
    let is = !is_there(page) && is_there(page - KEPT + STORE);
    if is {
        let error = LAST_ERRORS[page_index(page)].load(Ordering::Relaxed);
        eprintln!("page {} was moved although the kernel answered error {error}", page_index(page));
    }
    is
}

/// Whether a page is there, as the kernel says (`mincore`).
fn is_there(page: u64) -> bool {
    let mut there = 0_u8;
    let answer = raw(libc::SYS_mincore, [page, PAGE, (&raw mut there) as u64]);
    answer == 0 && core::hint::black_box(there) & 1 != 0
}

/// Whether the kernel has done it to the page at `start`.
fn is_done(start: u64, answer: i64) -> bool {
    if answer != 0 {
        let index = start % (1 << 40) / PAGE % PAGES;
        LAST_ERRORS[index as usize].store(-answer as u64, Ordering::Relaxed);
    }
    answer == 0
}

/// What is known of the page of the last fault, in a process that stands still: its word, what the kernel says of it in
/// both places, and the ranges that calls under way use.
pub fn last_fault(hazards: &HazardTable<'_>) -> String {
    let address = LAST_FAULT.load(Ordering::Relaxed);
    if !(KEPT..KEPT_END).contains(&address) {
        return "no fault".into();
    }
    let index = page_index(address);
    let mut ranges = Vec::new();
    (0..THREADS)
        .for_each(|thread| hazards.slot(thread).for_each(&mut |start, end| ranges.push((start, end))));
    format!(
        "fault at {address:#x}, page {index}, word {}, last error {}, there {}, in the store {}, \
         hazards {ranges:x?}",
        WORDS[index].load(Ordering::Relaxed),
        LAST_ERRORS[index].load(Ordering::Relaxed),
        is_there(KEPT + index as u64 * PAGE),
        is_there(STORE + index as u64 * PAGE)
    )
}

fn copy_of(index: usize) -> *mut u8 {
    // SAFETY:
    // 1. The place of one page in a static array; no reference is made.
    unsafe { (&raw mut COPIES).cast::<u8>().add(index * PAGE as usize) }
}

/// Protects a page that the caller has marked, copies it, and drops it.
fn drop_page(index: usize) -> bool {
    let page = KEPT + index as u64 * PAGE;
    if !protect_page(page, 1) {
        return false;
    }
    // SAFETY:
    // 1. The page is there, and nobody writes it: it is protected, and no call under way uses it.
    // 2. The copy belongs to who has marked the word.
    unsafe { core::ptr::copy_nonoverlapping(page as *const u8, copy_of(index), PAGE as usize) };
    assert_eq!(raw(libc::SYS_madvise, [page, PAGE, libc::MADV_DONTNEED as u64]), 0);
    true
}

/// Fills the page with its copy.
fn fill_page(index: usize) -> bool {
    let page = KEPT + index as u64 * PAGE;
    let filled = [page, copy_of(index) as u64, PAGE, 1, 0];
    is_done(page, raw(libc::SYS_ioctl, [FILE.load(Ordering::Relaxed), COPY, filled.as_ptr() as u64]))
}

/// Makes a page present and writable, and waits for whoever is changing it.
fn bring(index: usize) {
    let (word, start) = (&WORDS[index], index as u64 * PAGE);
    loop {
        let seen = word.load(Ordering::Acquire);
        match seen {
            PRESENT => return,
            EVICTED | DROPPED | PROTECTED => {
                if word.compare_exchange(seen, BUSY, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    continue;
                }
                let is_done = match seen {
                    EVICTED => move_page(STORE + start, KEPT + start),
                    DROPPED => fill_page(index),
                    _ => protect_page(KEPT + start, 0),
                };
                if !is_done {
                    raw(libc::SYS_exit_group, [98]);
                }
                word.store(PRESENT, Ordering::Release);
            }
            _ => {
                raw(libc::SYS_sched_yield, []);
            }
        }
    }
}

/// Tries to evict these pages, or to protect them, as one batch.
pub fn evict(hazards: &HazardTable<'_>, indexes: &[usize], protects: bool) {
    let mark = |index: &&usize| {
        WORDS[**index].compare_exchange(PRESENT, MARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    let mut marked: Vec<usize> = indexes.iter().filter(mark).copied().collect();
    marked.sort_unstable();
    let pages: Vec<u64> = marked.iter().map(|index| KEPT + *index as u64 * PAGE).collect();
    let mut is_used = vec![false; pages.len()];
    hazards.find_used(&pages, || THREADS, &mut |index| is_used[index] = true);
    for ((index, page), is_used) in marked.iter().zip(&pages).zip(is_used) {
        let after = if is_used {
            count(2);
            PRESENT
        } else if protects && protect_page(*page, 1) {
            count(1);
            PROTECTED
        } else if !protects && COUNTS[0].load(Ordering::Relaxed).is_multiple_of(2) && drop_page(*index) {
            count(0);
            DROPPED
        } else if !protects && (move_page(*page, *page - KEPT + STORE) || is_in_store(*page)) {
            count(0);
            EVICTED
        } else {
            PRESENT
        };
        WORDS[*index].store(after, Ordering::Release);
    }
}

/// Evicts for ever.
pub fn run(hazards: &HazardTable<'_>, seed: u64) -> ! {
    let mut prng = Prng::new(seed);
    loop {
        let indexes: Vec<usize> = (0..1 + prng.below(4)).map(|_| prng.below(PAGES) as usize).collect();
        evict(hazards, &indexes, prng.chance(1, 4));
        raw(libc::SYS_sched_yield, []);
    }
}

/// Who keeps the pages, as the boundary sees it.
pub struct Keeper;

impl Memory for Keeper {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let end = start + into.len() as u64;
        if start < KEPT_END && end > KEPT {
            let pages = start.max(KEPT)..end.min(KEPT_END);
            let is_missing =
                |page: u64| !matches!(WORDS[page_index(page)].load(Ordering::Acquire), PRESENT | PROTECTED);
            if is_missing(pages.start) || is_missing(pages.end - 1) {
                return Err(Unreadable::Evicted);
            }
        }
        let (local, remote) = ([into.as_mut_ptr() as u64, into.len() as u64], [start, into.len() as u64]);
        let process = std::process::id().into();
        let arguments = [process, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0];
        let copied = raw(libc::SYS_process_vm_readv, arguments);
        if copied == into.len() as i64 {
            return Ok(());
        }
        // Evicted since it was looked at, or none of ours.
        Err(if start >= KEPT && end <= KEPT_END { Unreadable::Evicted } else { Unreadable::Bad })
    }
}

impl Residency for Keeper {
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (start, end) = (start.max(KEPT), end.min(KEPT_END));
        (start < end).then_some((start, end))
    }

    fn page(&self, address: u64, access: Access) -> Page {
        match WORDS[page_index(address)].load(Ordering::Acquire) {
            PRESENT => Page::Ready,
            PROTECTED if !access.writes() => Page::Ready,
            _ => Page::Missing,
        }
    }

    fn make_present(&self, start: u64, end: u64, _: Access) -> bool {
        for page in (start..end).step_by(PAGE as usize) {
            count(4);
            bring(page_index(page));
        }
        true
    }

    /// The longest transfers go in parts.
    fn part_bytes(&self) -> u64 {
        12 * PAGE
    }
}
