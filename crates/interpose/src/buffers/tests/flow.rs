//! What happens to the pages of one call, over a memory that is a list of pages.

use super::super::{Begun, Boundary, HazardSlot, Page, Residency, StackPoint};
use crate::Call;
use crate::table::{Access, Memory, Unreadable};
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

pub const PAGE: u64 = 4096;
/// Kept memory begins here; in front of it is some that nobody keeps.
pub const KEPT: u64 = 0x100_0000;
pub const AT: StackPoint = StackPoint { pointer: 0x7000, stack: 0 };
const FAULT: isize = -14;

/// Pages by number, and what was asked of them.
#[derive(Default)]
pub struct Pages {
    /// Evicted pages; true: present, and not writable.
    pub missing: RefCell<BTreeMap<u64, bool>>,
    pub words: RefCell<BTreeMap<u64, u64>>,
    pub brought: RefCell<Vec<(u64, u64, Access)>>,
    pub is_broken: Cell<bool>,
    pub part_bytes: Cell<u64>,
    pub unknown: RefCell<Vec<usize>>,
}

impl Pages {
    pub fn new() -> Pages {
        Pages { part_bytes: Cell::new(u64::MAX), ..Pages::default() }
    }

    pub fn evict(&self, page: u64) {
        self.missing.borrow_mut().insert(page, false);
    }

    fn protect(&self, page: u64) {
        self.missing.borrow_mut().insert(page, true);
    }

    pub fn put_words(&self, at: u64, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.words.borrow_mut().insert(at + 8 * index as u64, *word);
        }
    }
}

impl Memory for Pages {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        if start >= KEPT && self.page(start & !(PAGE - 1), Access::Read) == Page::Missing {
            return Err(Unreadable::Evicted);
        }
        if (KEPT / 2..KEPT).contains(&start) {
            return Err(Unreadable::Bad);
        }
        for (index, byte) in into.iter_mut().enumerate() {
            let at = start + index as u64;
            let word = self.words.borrow().get(&(at & !7)).copied().unwrap_or(0);
            *byte = word.to_ne_bytes()[(at & 7) as usize];
        }
        Ok(())
    }
}

impl Residency for Pages {
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        (end > KEPT).then(|| (start.max(KEPT), end))
    }

    fn page(&self, address: u64, access: Access) -> Page {
        match self.missing.borrow().get(&address) {
            Some(false) => Page::Missing,
            Some(true) if access.writes() => Page::Missing,
            _ => Page::Ready,
        }
    }

    fn make_present(&self, start: u64, end: u64, access: Access) -> bool {
        self.brought.borrow_mut().push((start, end, access));
        if self.is_broken.get() {
            return false;
        }
        let mut missing = self.missing.borrow_mut();
        (start..end).step_by(PAGE as usize).for_each(|page| {
            missing.remove(&page);
        });
        true
    }

    fn part_bytes(&self) -> u64 {
        self.part_bytes.get()
    }

    fn unknown_call(&self, number: usize) {
        self.unknown.borrow_mut().push(number);
    }
}

pub fn call(number: i64, arguments: [u64; 6]) -> Call {
    Call { number: number as usize, arguments: arguments.map(|argument| argument as usize) }
}

/// A kernel in which no signal waits; other calls go to `make`.
fn quiet(mut make: impl FnMut(&Call) -> isize) -> impl FnMut(&Call) -> isize {
    move |call| match call.number as i64 {
        libc::SYS_rt_sigprocmask | libc::SYS_rt_sigpending => 0,
        _ => make(call),
    }
}

pub fn read(start: u64, bytes: u64) -> Call {
    call(libc::SYS_read, [3, start, bytes, 0, 0, 0])
}

#[test]
fn a_call_without_kept_memory_is_not_held() {
    let (pages, slot) = (Pages::new(), HazardSlot::default());
    let boundary = Boundary::new(&pages, &slot);
    for call in [read(PAGE, 100), call(libc::SYS_getpid, [KEPT; 6]), call(9999, [KEPT; 6])] {
        assert_eq!(boundary.before(&call, AT, &mut |_| unreachable!("the caller makes it")), Begun::Free);
        assert_eq!(slot.counts(), (0, 0));
    }
    assert_eq!(*pages.unknown.borrow(), [9999], "a call that the table does not know is named");
}

/// What a child of vfork was executing when it was gone must not stay: its ranges would keep more and more pages from
/// eviction, in the end all of them.
#[test]
fn what_a_child_leaves_in_the_slot_goes_when_its_parent_comes_back() {
    let (memory, slot) = (Pages::new(), HazardSlot::default());
    let boundary = Boundary::new(&memory, &slot);
    let below = StackPoint { pointer: AT.pointer - 0x400, stack: 0 };
    let [vfork, execve] = [58, 59];
    let starts = Call { number: vfork, arguments: [0; 6] };
    let executes = Call { number: execve, arguments: [KEPT as usize, 0, 0, 0, 0, 0] };
    for _ in 0..3 {
        assert_eq!(boundary.before(&starts, AT, &mut quiet(|_| 0)), Begun::Held);
        assert_eq!(boundary.before(&executes, below, &mut quiet(|_| 0)), Begun::Held);
        assert_eq!(slot.counts(), (2, 1));
        assert_eq!(boundary.after(&starts, 4711, AT, &mut quiet(|_| 0)), 4711);
        assert_eq!(slot.counts(), (0, 0));
    }
}

#[test]
fn missing_pages_are_brought_before_the_call_and_held_during_it() {
    let (pages, slot) = (Pages::new(), HazardSlot::default());
    pages.evict(KEPT + PAGE);
    pages.evict(KEPT + 2 * PAGE);
    pages.evict(KEPT + 4 * PAGE);
    let boundary = Boundary::new(&pages, &slot);
    let answer = boundary.call(
        &read(KEPT + 5, 4 * PAGE),
        AT,
        &mut quiet(|_| {
            assert!(pages.missing.borrow().is_empty(), "all is there when the kernel looks");
            let mut held = Vec::new();
            slot.for_each(&mut |start, end| held.push((start, end)));
            assert_eq!(held, [(KEPT, KEPT + 5 * PAGE)]);
            77
        }),
    );
    assert_eq!(answer, 77);
    assert_eq!(slot.counts(), (0, 0));
    let expected = vec![
        (KEPT + PAGE, KEPT + 3 * PAGE, Access::Write),
        (KEPT + 4 * PAGE, KEPT + 5 * PAGE, Access::Write),
    ];
    assert_eq!(*pages.brought.borrow(), expected, "pages side by side are brought at once");
}

#[test]
fn a_page_that_may_not_be_written_is_brought_for_writing_only() {
    let (pages, slot) = (Pages::new(), HazardSlot::default());
    pages.protect(KEPT);
    let boundary = Boundary::new(&pages, &slot);
    let write = call(libc::SYS_write, [3, KEPT, 10, 0, 0, 0]);
    assert_eq!(boundary.call(&write, AT, &mut quiet(|_| 10)), 10);
    assert_eq!(*pages.brought.borrow(), []);
    assert_eq!(boundary.call(&read(KEPT, 10), AT, &mut quiet(|_| 10)), 10);
    assert_eq!(*pages.brought.borrow(), [(KEPT, KEPT + PAGE, Access::Write)]);
}

#[test]
fn structures_are_brought_before_what_they_name() {
    let (pages, slot) = (Pages::new(), HazardSlot::default());
    let (array, data) = (KEPT + 2 * PAGE, KEPT + 7 * PAGE);
    pages.put_words(array, &[data, 10]);
    pages.evict(array);
    pages.evict(data);
    let boundary = Boundary::new(&pages, &slot);
    let call = call(libc::SYS_writev, [3, array, 1, 0, 0, 0]);
    let begun = boundary.before(&call, AT, &mut quiet(|_| unreachable!("nothing goes in parts")));
    assert_eq!(begun, Begun::Held);
    let brought = [(array, array + PAGE, Access::Read), (data, data + PAGE, Access::Read)];
    assert_eq!(*pages.brought.borrow(), brought);
    assert_eq!(slot.counts(), (1, 2));
    assert_eq!(boundary.after(&call, 10, AT, &mut |_| unreachable!("it is not repeated")), 10);
    assert_eq!(slot.counts(), (0, 0));
}

#[test]
fn a_page_that_cannot_be_brought_is_left_to_the_kernel() {
    let (pages, slot) = (Pages::new(), HazardSlot::default());
    pages.evict(KEPT);
    pages.is_broken.set(true);
    let made = Cell::new(0);
    let wait = call(libc::SYS_wait4, [0, KEPT, 0, 0, 0, 0]);
    let kernel = |_: &Call| {
        made.set(made.get() + 1);
        FAULT
    };
    let answer = Boundary::new(&pages, &slot).call(&wait, AT, &mut quiet(kernel));
    assert_eq!((answer, made.get()), (FAULT, 1), "what has been consumed is not asked for again");
    assert_eq!(slot.counts(), (0, 0));
}

#[test]
fn after_efault_only_a_call_that_lost_nothing_is_repeated_and_only_if_a_page_is_missing() {
    let (pages, slot) = (Pages::new(), HazardSlot::default());
    let boundary = Boundary::new(&pages, &slot);
    let try_it = |call: &Call, evicts: bool| {
        let made = Cell::new(0);
        let kernel = |_: &Call| {
            made.set(made.get() + 1);
            if made.get() > 1 {
                return 4;
            }
            if evicts {
                pages.evict(KEPT);
            }
            FAULT
        };
        let answer = boundary.call(call, AT, &mut quiet(kernel));
        (answer, made.get())
    };
    let clock = call(libc::SYS_clock_gettime, [0, KEPT, 0, 0, 0, 0]);
    assert_eq!(try_it(&clock, true), (4, 2));
    assert_eq!(try_it(&clock, false), (FAULT, 1), "the program's own bad address");
    assert_eq!(try_it(&call(libc::SYS_wait4, [0, KEPT, 0, 0, 0, 0]), true), (FAULT, 1));
}
