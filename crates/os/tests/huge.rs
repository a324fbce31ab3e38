//! What the engine relies on of huge pages and MOVE, shown on the running kernel.

mod common;

use std::io::Write;
use std::os::fd::AsRawFd;

use common::{End, alone, fork, get, open, wait_for};
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::pagemap::{Pagemap, What};
use uswap_os::uffd::{Features, Holes, Mode, Stop, Uffd};
use uswap_os::{PAGE_BYTES, sys};

const BLOCK_BYTES: usize = 512 * PAGE_BYTES;

/// A block of memory, with or without huge pages.
fn block() -> Mapping {
    Mapping::anonymous(BLOCK_BYTES, BLOCK_BYTES, Access::ReadWrite).unwrap()
}

/// One that is a huge page, each page filled with its number. None, with a line that says why: the kernel has none to
/// give.
fn huge_block(pagemap: &Pagemap) -> Option<Mapping> {
    let block = block();
    if memory::huge_pages(block.start(), BLOCK_BYTES).is_err() {
        println!("SKIP: this kernel has no transparent huge pages");
        return None;
    }
    for page in 0..512 {
        // SAFETY: 1. the page lies in the new mapping; no reference into it exists.
        unsafe { ((block.start() + page * PAGE_BYTES) as *mut u8).write_bytes(page as u8, PAGE_BYTES) };
    }
    if !pagemap.is_huge(block.start()) {
        println!("SKIP: the kernel gives no huge page now, or does not tell");
        return None;
    }
    Some(block)
}

fn move_pages(uffd: &Uffd, target: usize, source: usize, bytes: usize) {
    // SAFETY: 1. the tests move pages of their own mappings, into which no reference exists.
    let progress = unsafe { uffd.move_pages(target, source, bytes, Holes::Allow) };
    assert!(progress.is_done(), "{progress:?}");
}

/// A child that has the memory of its parent until it is let go, and then looks at it.
struct Sharer {
    pid: u32,
    pipe: (std::io::PipeReader, std::io::PipeWriter),
}

impl Sharer {
    fn start(looks_right: impl Fn() -> bool) -> Sharer {
        let pipe = std::io::pipe().unwrap();
        let pid = fork(|| {
            let mut byte = 0_u8;
            // SAFETY: 1. read writes one byte to a variable of ours.
            let _ = unsafe { sys::syscall3(0, pipe.0.as_raw_fd() as usize, &raw mut byte as usize, 1) };
            u8::from(!looks_right())
        });
        Sharer { pid, pipe }
    }

    fn end(mut self) {
        self.pipe.1.write_all(&[1]).unwrap();
        assert_eq!(wait_for(self.pid), End::Exit(0));
    }
}

/// Moves one page of a block to its place in another.
fn move_one(uffd: &Uffd, target: &Mapping, source: &Mapping, page: usize) -> Option<Stop> {
    let at = page * PAGE_BYTES;
    // SAFETY: 1. the tests move pages of their own mappings, into which no reference exists.
    unsafe { uffd.move_pages(target.start() + at, source.start() + at, PAGE_BYTES, Holes::Allow).stop }
}

fn holds_its_numbers(block: &Mapping) -> bool {
    (0..512).all(|page| get(block.start() + page * PAGE_BYTES + 7) == page as u8)
}

#[test]
fn a_huge_page_moves_as_one_to_where_no_table_is_and_back() {
    let _alone = alone();
    let Some(uffd) = open(Features::NONE) else { return };
    let pagemap = Pagemap::open().unwrap();
    let Some(program) = huge_block(&pagemap) else { return };
    let arena = block();
    // As the agent does: the arena asks for none itself.
    memory::no_huge_pages(arena.start(), BLOCK_BYTES).unwrap();
    uffd.register(program.start(), BLOCK_BYTES, Mode::Missing).unwrap();
    uffd.register(arena.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    move_pages(&uffd, arena.start(), program.start(), BLOCK_BYTES);
    assert!(pagemap.is_huge(arena.start()) && !pagemap.is_huge(program.start()));
    assert_eq!(pagemap.look_by_scan(program.start(), 512, What::Held), Ok([0; 8]));
    // Reading it does not split it.
    assert!(holds_its_numbers(&arena));
    move_pages(&uffd, program.start(), arena.start(), BLOCK_BYTES);
    assert!(pagemap.is_huge(program.start()));
    assert!(holds_its_numbers(&program));
    // A part of it cannot be moved without splitting it.
    move_pages(&uffd, arena.start(), program.start(), PAGE_BYTES);
    assert!(!pagemap.is_huge(program.start()));
    assert_eq!(get(arena.start() + 7), 0);
    uffd.unregister(program.start(), BLOCK_BYTES).unwrap();
    uffd.unregister(arena.start(), BLOCK_BYTES).unwrap();
}

/// Who gives frames of a huge page back after a fork relies on the last step.
#[test]
fn a_part_of_a_huge_page_that_a_fork_left_shared_is_busy_until_its_first_page_is_written_to() {
    let _alone = alone();
    let Some(uffd) = open(Features::MOVE) else { return };
    let pagemap = Pagemap::open().unwrap();
    let Some(arena) = huge_block(&pagemap) else { return };
    let trash = block();
    memory::no_huge_pages(arena.start(), BLOCK_BYTES).unwrap();
    memory::no_huge_pages(trash.start(), BLOCK_BYTES).unwrap();
    uffd.register(arena.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    uffd.register(trash.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    let child = Sharer::start(|| true);
    let write = |page: usize| memory::populate_write(arena.start() + page * PAGE_BYTES, PAGE_BYTES).unwrap();
    let move_page = |page| move_one(&uffd, &trash, &arena, page);
    // A copy, since the child has it too; the others are single pages of the huge page from now on.
    write(448);
    child.end();
    assert_eq!(move_page(448), None);
    write(300);
    assert_eq!(move_page(300), Some(Stop::Busy), "though it was written to");
    write(0);
    assert_eq!(move_page(300), None);
    // Dropping works in any case.
    uffd.unregister(arena.start(), BLOCK_BYTES).unwrap();
    // SAFETY: 1. the mapping is this test's, and no reference into it exists.
    unsafe { memory::drop_pages(arena.start(), BLOCK_BYTES) }.unwrap();
    uffd.register(arena.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    assert_eq!(pagemap.look_by_scan(arena.start(), 512, What::Held), Ok([0; 8]));
    uffd.unregister(arena.start(), BLOCK_BYTES).unwrap();
    uffd.unregister(trash.start(), BLOCK_BYTES).unwrap();
}

/// The way out where the first page is gone for good: what reclaim of pages that are busy relies on.
#[test]
fn a_huge_page_whose_first_page_is_gone_since_a_fork_is_split_by_cold_and_then_moves() {
    let _alone = alone();
    let Some(uffd) = open(Features::MOVE) else { return };
    let pagemap = Pagemap::open().unwrap();
    let Some(program) = huge_block(&pagemap) else { return };
    let arena = block();
    memory::no_huge_pages(arena.start(), BLOCK_BYTES).unwrap();
    uffd.register(program.start(), BLOCK_BYTES, Mode::Missing).unwrap();
    uffd.register(arena.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    let child = Sharer::start(|| holds_its_numbers(&program));
    let address = |page: usize| program.start() + page * PAGE_BYTES;
    let write = |page: usize| memory::populate_write(address(page), PAGE_BYTES).unwrap();
    let move_page = |page| move_one(&uffd, &arena, &program, page);
    // Copied away.
    write(0);
    memory::split_large(address(200), PAGE_BYTES).unwrap();
    write(200);
    assert_eq!(move_page(200), None, "while the child lives a write copies");
    assert_eq!(move_page(201), Some(Stop::Busy), "and nothing is split");
    child.end();
    (1..512).filter(|&page| page != 200).for_each(write);
    write(0);
    assert_eq!(move_page(300), Some(Stop::Busy), "though all that is left was written to");
    memory::split_large(address(301), PAGE_BYTES).unwrap();
    assert_eq!(move_page(300), None, "split as a whole by any of its pages");
    assert_eq!(move_page(511), None);
    for page in [200, 300, 511] {
        assert_eq!(get(arena.start() + page * PAGE_BYTES + 7), page as u8);
    }
    uffd.unregister(program.start(), BLOCK_BYTES).unwrap();
    uffd.unregister(arena.start(), BLOCK_BYTES).unwrap();
}

#[test]
fn a_place_where_single_pages_were_takes_a_huge_page_after_it_was_cleared() {
    let _alone = alone();
    let Some(uffd) = open(Features::NONE) else { return };
    let pagemap = Pagemap::open().unwrap();
    let (arena, aside) = (block(), block());
    uffd.register(arena.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    uffd.register(aside.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
    for cleared in [false, true] {
        let Some(program) = huge_block(&pagemap) else { return };
        uffd.register(program.start(), BLOCK_BYTES, Mode::Missing).unwrap();
        // A page comes and goes, and its table stays.
        // SAFETY: 1. the page lies in the mapping; no reference into it exists.
        unsafe { (arena.start() as *mut u8).write_volatile(1) };
        move_pages(&uffd, aside.start(), arena.start(), PAGE_BYTES);
        if cleared {
            uffd.unregister(arena.start(), BLOCK_BYTES).unwrap();
            // SAFETY: 1. the mapping is the test's own; no reference into it exists.
            unsafe { memory::drop_pages(arena.start(), BLOCK_BYTES) }.unwrap();
            uffd.register(arena.start(), BLOCK_BYTES, Mode::WriteProtect).unwrap();
        }
        move_pages(&uffd, arena.start(), program.start(), BLOCK_BYTES);
        assert_eq!(pagemap.is_huge(arena.start()), cleared, "before Linux 6.14 it never is");
        assert!(holds_its_numbers(&arena), "moved, in whatever way");
        uffd.unregister(program.start(), BLOCK_BYTES).unwrap();
        for start in [arena.start(), aside.start()] {
            // SAFETY: 1. the mappings are the test's own; no reference into them exists.
            unsafe { memory::drop_pages(start, BLOCK_BYTES) }.unwrap();
        }
    }
    uffd.unregister(arena.start(), BLOCK_BYTES).unwrap();
    uffd.unregister(aside.start(), BLOCK_BYTES).unwrap();
}
