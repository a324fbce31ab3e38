//! What evicting in place asks of the world, in small traits: `host` implements them over Linux, tests over made-up
//! memory.
//!
//! Calls that touch memory take effect at once. Between two of them the engine awaits [`Backing::step`], where tests
//! let others run.

use crate::platform::{Backing, Filled, Touch};
use core::future::Future;
use uswap_codec::Page;
use uswap_sync::AtomicU32;
use uswap_units::{PageId, PageRange};

/// How a page is mapped that is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillAs {
    /// It may be written.
    Writable,
    /// Its first write faults.
    Protected,
}

/// The memory of the program. Every call but `read` may be made of any managed page; a wrong one changes nothing and
/// says so.
pub trait Memory {
    /// Which of `count` pages (at most 64) are present: bit i for `first + i`.
    fn present(&self, first: PageId, count: u32) -> u64;
    /// Copies a present page, in a shared section of the gate, so that it stays mapped. Whoever writes it meanwhile
    /// takes the isolation out of its word first.
    fn read(&self, page: PageId, content: &mut Page);
    /// Fills missing pages with copies; at least one.
    fn fill(&self, page: PageId, contents: &[Page], access: FillAs) -> Filled;
    /// Fills `count` missing pages with zeros.
    fn zero(&self, page: PageId, count: u32, touch: Touch) -> Filled;
    /// The next write to each present page of `range` faults. False: not all of them.
    #[must_use]
    fn protect(&self, range: PageRange) -> bool;
    /// Pages may be written again.
    fn unprotect(&self, range: PageRange);
    /// Drops present pages, so that they are missing; how many of the ranges, from the front. Of the first that is not
    /// among them nothing was dropped.
    #[must_use]
    fn drop_pages(&self, ranges: &[PageRange]) -> usize;
}

/// Ranges that the kernel may touch for a thread of the program, in a call that is under way.
pub trait Hazards {
    /// Waits until each thread that has published a hazard is seen to have done so, and each that has not will see the
    /// words as they are now.
    fn settle(&self);
    /// Whether a hazard names the page.
    fn names(&self, page: PageId) -> bool;
}

/// Who changes mappings, and who relies on them; and waiting for a lock.
pub trait Gate {
    /// Enters a shared section: nobody changes a mapping.
    fn lock_shared(&self) -> impl Future<Output = ()>;
    /// Leaves it.
    fn unlock_shared(&self);
    /// Waits while `word` is `seen`. May come back for no reason.
    fn wait_while(&self, word: &AtomicU32, seen: u32) -> impl Future<Output = ()>;
    /// Wakes all who wait for a change of `word`.
    fn wake(&self, word: &AtomicU32);
}

/// All of it.
pub trait World: Backing + Memory + Hazards + Gate {}

impl<W: Backing + Memory + Hazards + Gate> World for W {}
