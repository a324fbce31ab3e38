//! What the engine asks of the world, in small traits: `host` and the supervisor implement them over Linux, `sim` over
//! a simulated machine. The supervisor needs [`Backing`] only.
//!
//! Must hold: calls that touch memory take effect at once, and none says that it did more than it has done. Between two
//! of them the engine awaits [`Backing::step`], where the simulator lets others run. Called by [`crate::evict`],
//! [`crate::filled`], [`crate::fault`], [`crate::fork`], [`crate::mapping`], [`crate::reclaim`] and the other flows;
//! `host`, the supervisor and `sim` implement it.

use core::future::Future;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_sync::AtomicU32;
use uswap_units::limits::FILE_BUFFER_BYTES;
use uswap_units::{BLOCK_PAGES, PageId, PageRange, SwapOffset, ZspageId};

/// The outcome of filling one page of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Install {
    /// It is there.
    Done,
    /// A page was there already.
    AlreadyMapped,
    /// The address is not mapped, or not registered any more.
    NotMapped,
}

/// The outcome of filling pages that lie next to each other.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// Pages that were filled, from the front.
    pub pages: u32,
    /// [`Install::Done`] if that is all, or the outcome for the page behind them.
    pub last: Install,
}

/// What a thread does to the page that it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// It reads, as far as is known.
    Read,
    /// It writes: a stored copy of the page will not be its content any more.
    Write,
}

impl Touch {
    /// As the kernel says it.
    pub const fn that(writes: bool) -> Touch {
        if writes { Touch::Write } else { Touch::Read }
    }
}

/// A file operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileError {
    /// The device or file system reported an error (errno).
    Io(i32),
    /// The file ends too early.
    Short,
    /// No room.
    Full,
}

/// Room for blobs as they lie in the file: they may cross slot borders, and reads are of whole slots.
#[repr(C, align(4096))]
pub struct FileBuffer(pub [u8; FILE_BUFFER_BYTES]);

/// What lies behind the swap entries: pool memory and swap file. The supervisor needs only this.
pub trait Backing {
    /// Gives the memory of an empty zspage back to the system.
    fn release_zspage(&self, zspage: ZspageId);
    /// Reads whole slots at `offset` into the front of `buffer`.
    fn read_file(
        &self,
        offset: SwapOffset,
        bytes: usize,
        buffer: &mut FileBuffer,
    ) -> impl Future<Output = Result<(), FileError>>;
    /// Before a read that failed is tried again: others run, and what was short for a moment may be there.
    fn pause(&self) -> impl Future<Output = ()>;
    /// A point where others may run; nothing on Linux.
    fn step(&self) -> impl Future<Output = ()>;
    /// Monotonic time.
    fn now_ns(&self) -> u64;
    /// Counts a signal in the budget and wakes its waiters in all processes.
    fn raise(&self, signal: Signal);
    /// Waits until a signal's count is not `seen`, or so many ns.
    fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) -> impl Future<Output = ()>;
}

/// How a page is mapped that is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillAs {
    /// It may be written.
    Writable,
    /// Its first write faults.
    Protected,
}

/// Bit `i % 64` of word `i / 64` is about page `i` of a block.
pub type BlockBits = [u64; BLOCK_PAGES as usize / 64];

/// The memory of the program. Every call but `read` may be made of any managed page; a wrong one changes nothing and
/// says so.
pub trait Memory {
    /// Which of `count` pages (at most 64) are present: bit i for `first + i`.
    fn present(&self, first: PageId, count: u32) -> u64;
    /// Which pages of the block that begins at `first` are there at all, also those that the kernel has swapped or is
    /// just moving. None: that cannot be told.
    fn held_in_block(&self, first: PageId) -> Option<BlockBits>;
    /// Copies a present page, in a shared section of the gate, so that it stays mapped. Whoever writes it meanwhile
    /// takes the isolation out of its word first.
    fn read(&self, page: PageId, content: &mut Page);
    /// Fills missing pages with copies; at least one.
    fn fill(&self, page: PageId, contents: &[Page], access: FillAs) -> Filled;
    /// Fills `count` missing pages with zeros: for a thread that reads, with the kernel's page of zeros, which takes no
    /// memory until it is written.
    fn zero(&self, page: PageId, count: u32, touch: Touch) -> Filled;
    /// At which of `count` present pages (at most 64), filled in this shared section, the kernel's page of zeros is
    /// still mapped: bit i for `first + i`. They need not be readable.
    fn zero_pages(&self, first: PageId, count: u32) -> u64;
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
    fn membarrier(&self);
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
