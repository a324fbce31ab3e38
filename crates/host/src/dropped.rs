//! Advice that drops content, as the kernel takes it: from mapping to mapping.
//!
//! Must hold: a part is said to be dropped exactly if the kernel has dropped it, and nothing is dropped of a call that
//! the kernel refuses before it looks at a mapping. All of it is in the section of the gate in which the call is made.
//! Called by [`crate::mappings`] and [`crate::thread_stacks`].

use crate::address_space::pages;
use crate::syscalls::{is_error, make};
use core::ops::ControlFlow;
use uswap_interpose::Call;
use uswap_os::maps::Maps;
use uswap_os::sys::{Errno, abi};
use uswap_units::{PAGE_BYTES, PageRange};

/// Calls `visit` with what a call of `madvise` has reached, which the kernel has answered so. A hole in the range is an
/// error, but the rest of it is advised; at a mapping that it refuses (locked memory) the kernel ends: what lies in
/// front of that is found by making the call for each mapping again.
pub(crate) fn for_each_part_advised(call: &Call, answer: isize, mut visit: impl FnMut(PageRange)) {
    let [start, bytes, ..] = call.arguments;
    let range = pages(start, bytes);
    if range.start() >= range.end() {
        return;
    }
    if answer == 0 || answer == Errno::ENOMEM.as_answer() {
        return visit(range);
    }
    // What the kernel refuses for what it says has reached nothing.
    let is_well_formed = start.is_multiple_of(PAGE_BYTES)
        && bytes.checked_next_multiple_of(PAGE_BYTES).is_some_and(|bytes| start.checked_add(bytes).is_some());
    if !is_error(answer) || !is_well_formed {
        return;
    }
    let Ok(maps) = Maps::open() else { return };
    let mut at = range.start();
    maps.for_each_in(range.addresses(), |vma| {
        let vma = PageRange::of_addresses(vma.start as u64, vma.end as u64);
        let part = PageRange::new(vma.start().max(at), vma.end().min(range.end()));
        if part.start() >= part.end() || make(&of_part(call, part)) != 0 {
            return ControlFlow::Break(());
        }
        visit(part);
        at = part.end();
        ControlFlow::Continue(())
    });
}

/// `MADV_FREE`: what the kernel may drop at any time is dropped at once, since nobody would know when it was. It is
/// asked first, because it refuses what it could not bring back (private pages of files).
pub(crate) fn free(call: &Call, mut visit: impl FnMut(PageRange)) -> isize {
    let answer = make(call);
    for_each_part_advised(call, answer, |part| {
        let mut dropping = of_part(call, part);
        dropping.arguments[2] = abi::MADV_DONTNEED as usize;
        let _holes_are_no_matter = make(&dropping);
        visit(part);
    });
    answer
}

/// `MADV_MERGEABLE` is taken note of, and no more: a page that the kernel merges with others (KSM) loses its protection
/// unseen, and what is written to it then would be lost. The kernel says whether it knows the advice.
pub(crate) fn leave_unmerged(call: &Call) -> isize {
    let mut of_nothing = *call;
    of_nothing.arguments[1] = 0;
    make(&of_nothing)
}

fn of_part(call: &Call, part: PageRange) -> Call {
    let mut call = *call;
    let addresses = part.addresses();
    [call.arguments[0], call.arguments[1]] = [addresses.start, addresses.len()];
    call
}
