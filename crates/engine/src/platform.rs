//! The seam between the engine and the world: the agent implements it over `os`, `sim` over a made-up machine.
//!
//! Calls that touch program memory are plain functions: they take effect at once. What may wait returns a future.
//! Between two such calls the engine awaits [`Platform::step`], where the simulator may let someone else run.

use crate::event::Event;
use core::future::Future;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_units::limits::FILE_BUFFER_BYTES;
use uswap_units::{FrameId, MmId, PageId, PageRange, ZspageId};

/// What came of moving pages out of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveOut {
    /// Pages handled from the front, as far as the kernel says: it may have moved more. Holes count as moved.
    pub pages: u32,
    /// Why it ended before the last page.
    pub stop: Option<MoveStop>,
}

/// Why a move ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveStop {
    /// An event is unread: nothing may be moved until it is processed.
    EventPending,
    /// The page at this place is pinned, or marked shared by a fork.
    Busy,
    /// The range does not allow it: locked in memory, write-protected, or no longer mapped.
    Refused,
}

/// What came of filling one page of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Install {
    /// It is there, and its waiters run.
    Done,
    /// A page was there already; its waiters run.
    AlreadyMapped,
    /// An event is unread: try again after it was processed.
    EventPending,
    /// MOVE cannot take this frame (marked shared by a fork): copy instead.
    CannotMove,
    /// The address is not mapped, or not registered any more. Its waiters run.
    NotMapped,
    /// The process is gone.
    Gone,
}

/// When those run that wait for pages which are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// At once.
    Now,
    /// After [`Platform::wake`].
    Later,
}

/// What came of filling pages that lie next to each other.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// Pages that were filled, from the front.
    pub pages: u32,
    /// [`Install::Done`] if that is all, or what came of the page behind them.
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

/// A message of the kernel about the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A thread waits for this page, to do that to it.
    Fault(PageId, Touch),
    /// The program's mappings change.
    Event(Event),
    /// The process was forked; the number names the child's descriptor.
    Fork(i32),
}

/// What came of registering a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Register {
    /// Its faults come to us.
    Done,
    /// It has another userfaultfd, or may not have one.
    Refused,
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
        offset: u64,
        bytes: usize,
        buffer: &mut FileBuffer,
    ) -> impl Future<Output = Result<(), FileError>>;
    /// Lets others run for a moment.
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

/// One process with its program memory.
pub trait Platform: Backing {
    /// Lock of the private state of a process; held for some 100 ns, never across an await.
    type RawLock: lock_api::RawMutex;

    /// Enters a shared section of the gate.
    fn lock_shared(&self) -> impl Future<Output = ()>;
    /// Leaves it.
    fn unlock_shared(&self);
    /// Enters the exclusive section of the gate.
    fn lock_exclusive(&self) -> impl Future<Output = ()>;
    /// Leaves it.
    fn unlock_exclusive(&self);

    /// Moves `count` pages (at most 512) from the program into consecutive frames of the arena, holes included. A huge
    /// page goes as one if all of it goes to a block of the arena that was cleared.
    fn move_out(&self, page: PageId, frame: FrameId, count: u32) -> MoveOut;
    /// Which of `count` frames (at most 64) are not empty: bit i for `frame + i`. Also those whose page is not present,
    /// because the kernel has swapped it or just moves it in RAM.
    fn held(&self, frame: FrameId, count: u32) -> u64;
    /// Moves a frame back into the program.
    fn move_in(&self, frame: FrameId, page: PageId) -> Install;
    /// True when a block of the program is one huge page now. The kernel may split it at any time.
    fn is_huge(&self, first: PageId) -> bool;
    /// The same of a block of the arena.
    fn is_huge_frame(&self, first: FrameId) -> bool;
    /// Makes a block of the arena that nobody uses able to take a huge page: nothing is there afterwards. False: it
    /// cannot be used any more.
    fn clear_block(&self, first: FrameId) -> bool;
    /// Moves a whole block of the arena back into the program. If it does not end with [`Install::Done`], the kernel
    /// may have moved more than it counted.
    fn move_block_in(&self, first: FrameId, page: PageId) -> Filled;
    /// True when the program asks for huge pages somewhere.
    fn wants_huge_pages(&self) -> bool;
    /// Puts a huge page of zeros to a block of the arena that was cleared. False: the kernel has none to give; then
    /// something may be there all the same.
    fn make_huge_frame(&self, first: FrameId) -> bool;
    /// Fills a block of the arena that holds a huge page with zeros.
    fn clear_huge_frame(&self, first: FrameId);
    /// Writes pages to frames of a huge frame that nobody else uses, one behind the other.
    fn write_frames(&self, first: FrameId, contents: &[Page]);
    /// Gives the memory of a block of the arena back.
    fn drop_block(&self, first: FrameId);
    /// Fills pages of the program, from `page` on, with copies; at least one.
    fn copy_in(&self, page: PageId, contents: &[Page], wake: Wake) -> Filled;
    /// Fills `count` pages of the program, from `page` on, with zeros.
    fn zero_in(&self, page: PageId, count: u32) -> Filled;
    /// Makes the page give SIGBUS, and says why on the program's standard error.
    fn poison(&self, page: PageId) -> Install;
    /// Lets the waiters of `count` pages try again.
    fn wake(&self, page: PageId, count: u32);
    /// The process, and the address of a frame there, as another process names them.
    fn remote_address(&self, frame: FrameId) -> (u32, u64);
    /// Copies a frame of the arena.
    fn read_frame(&self, frame: FrameId, content: &mut Page);
    /// Gives the memory of those of 64 frames back whose bit is set.
    fn drop_frames(&self, first: FrameId, mask: u64);
    /// Makes present pages exclusive again that a fork left marked shared: those of 64 whose bit is set, and no other,
    /// for they may be ours. Faults like any access: hold nothing.
    fn recover(&self, first: PageId, mask: u64) -> impl Future<Output = ()>;
    /// Takes messages without waiting; how many.
    fn read_messages(&self, messages: &mut [Message]) -> usize;
    /// A child is there, with this record as its copy of the page table (None: there was no room for one, and the child
    /// cannot be kept).
    fn child_forked(&self, descriptor: i32, child: Option<MmId>);
    /// True when a forked child, named by its descriptor, has a mapping at `page` that was registered in the moment of
    /// the fork.
    fn child_has(&self, descriptor: i32, page: PageId) -> bool;
    /// Registers a range.
    fn register(&self, range: PageRange) -> Register;
    /// True while an event is unread.
    fn event_pending(&self) -> bool;
    /// The first mapping with a page in `range`, in order of addresses, that is registered now with the descriptor of
    /// the program's memory, as a whole; None when there is none. Asked only when an event may be older than a mapping
    /// that another thread moved to the same place, with the gate exclusive: it may be slow.
    fn registered_mapping(&self, range: PageRange) -> Option<PageRange>;
    /// True when a remove event of `range` is of a call that [`Platform::drops_under_way`] follows to its end.
    fn drops_followed(&self, range: PageRange) -> bool;
    /// True while pages of `range` may be about to be dropped by a call that is followed.
    fn drops_under_way(&self, range: PageRange) -> bool;
    /// True when a handler may wait now: another one reads messages meanwhile.
    fn may_wait(&self) -> bool;
}
