//! What the boundary asks of whoever keeps the pages.
//!
//! Must hold: what implements it allocates nothing and takes no lock that code of the program can hold: it runs between
//! any two instructions of the program. Called by [`crate::buffers::boundary`], [`crate::buffers::holder`] and
//! [`crate::buffers::parts`]; `host` implements it.

use crate::Call;
use crate::table::{Access, Memory};

/// State of one page for one use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// It is present, and writable if that was asked.
    Ready,
    /// It is evicted, or about to be, or protected by whoever keeps it.
    Missing,
    /// Nobody keeps it: whatever is wrong with it is the program's affair.
    Foreign,
}

/// Who keeps pages. All addresses are of whole pages.
///
/// Called on threads of the program, between any two instructions of it: no allocation, no lock that the program's
/// code can hold.
pub trait Residency: Memory {
    /// The first stretch of kept memory in `start..end`. The hot path: most buffers are in none.
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)>;

    /// The state of a page of kept memory. Reads a word and takes no lock: about a nanosecond.
    ///
    /// `Acquire`: who sees `Ready` sees what the fault wrote.
    fn page(&self, address: u64, access: Access) -> Page;

    /// Makes the pages of `start..end` present and, if `access` writes, writable. Waits for an eviction under way.
    ///
    /// False: it cannot, and the kernel shall say what it finds. The range is published as a hazard already.
    fn make_present(&self, start: u64, end: u64, access: Access) -> bool;

    /// Calls that name more than so many bytes of kept memory go in parts where they may: a sixteenth of the
    /// budget, and no less than a page.
    fn part_bytes(&self) -> u64;

    /// The program makes a call that the table does not know: it goes to the kernel as it is, and what is evicted of
    /// its buffers is missing there. To be counted and named.
    fn unknown_call(&self, number: usize) {
        let _ = number;
    }
}

/// Makes a call as it stands, without coming back here.
pub type Make<'a> = dyn FnMut(&Call) -> isize + 'a;
