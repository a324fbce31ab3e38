//! Whether an environment may be read, asked where no handler of ours would catch a fault.
//!
//! Must hold: no byte of a page is read before the kernel has said that it may be. Called by [`crate::environment`] for
//! an `execve` of a process that is not armed.

use super::{ENTRIES_MAX, POINTER, byte_at, pointer_at};
use uswap_os::{PAGE_BYTES, memory};

/// Asks the kernel, once for each page.
pub(super) struct Probe {
    /// The last pages that may be read, by their numbers, and which of them is the oldest.
    pages: [usize; 8],
    oldest: usize,
}

impl Probe {
    pub(super) fn new() -> Probe {
        Probe { pages: [usize::MAX; 8], oldest: 0 }
    }

    /// Whether an array of strings may be read, and all of them.
    pub(super) fn may_be_read(&mut self, array: usize) -> bool {
        if array == 0 {
            return true;
        }
        for index in 0..=ENTRIES_MAX {
            let at = array.wrapping_add(index * POINTER);
            if !self.is_there(at) || !self.is_there(at.wrapping_add(POINTER - 1)) {
                return false;
            }
            match pointer_at(at) {
                None | Some(0) => return true,
                Some(string) if !self.is_string_there(string) => return false,
                Some(_) => (),
            }
        }
        false
    }

    fn is_string_there(&mut self, start: usize) -> bool {
        let mut at = start;
        while self.is_there(at) {
            let page_end = at | (PAGE_BYTES - 1);
            if (at..=page_end).any(|place| byte_at(place) == Some(0)) {
                return true;
            }
            at = page_end.wrapping_add(1);
        }
        false
    }

    fn is_there(&mut self, address: usize) -> bool {
        let page = address / PAGE_BYTES;
        if self.pages.contains(&page) {
            return true;
        }
        let is_there = memory::is_readable(address);
        if is_there {
            self.pages[self.oldest] = page;
            self.oldest = (self.oldest + 1) % self.pages.len();
        }
        is_there
    }
}
