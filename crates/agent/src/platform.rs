//! The engine's world: this process, on Linux.
//!
//! Every wait blocks the thread, so every future is ready at once.

use crate::sync::RawLock;
use crate::{drops, forkd, handlers, hooks, locks, moves, state};
use core::sync::atomic::Ordering;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_core::pool::{Pool, ZSPAGE_BYTES};
use uswap_engine::event::Event;
use uswap_engine::platform::{
    Backing, FileBuffer, FileError, Filled, Install, Message, MoveOut, MoveStop, Platform, Register, Touch,
    Wake,
};
use uswap_host::swap_files::OpenFiles;
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_os::gate::{Gate, Lock};
use uswap_os::pagemap::Pagemap;
use uswap_os::uffd::{self, Features, Holes, Mode, Stop, Uffd, UffdMsg};
use uswap_os::{clock, memory, message, thread};
use uswap_units::limits::MESSAGES_PER_READ_MAX;
use uswap_units::{BLOCK_PAGES, FrameId, MmId, PAGE_BYTES, PageId, PageRange, ZspageId};

/// Everything that the engine of this process works on.
pub struct LinuxPlatform {
    /// The program's ranges and the arena.
    pub app: Uffd,
    /// Where dead frames are dropped.
    pub trash: Uffd,
    pub pagemap: Pagemap,
    pub swap_files: OpenFiles,
    /// First byte of the arena; one page more than the engine stages into.
    pub arena_start: usize,
    pub arena_bytes: usize,
    /// Room for one chunk in its first block, and for a block behind that.
    pub trash_start: usize,
    /// A page of the arena that is never used: event probes ask about it.
    pub probe: usize,
    /// A page of the agent's without access.
    pub unreadable: usize,
    pub gate: Gate,
    pub trash_lock: Lock,
}

/// Bytes of a block.
pub const BLOCK_BYTES: usize = BLOCK_PAGES as usize * PAGE_BYTES;
/// And of the trash.
pub const TRASH_BYTES: usize = 2 * BLOCK_BYTES;

/// Fresh pages that are filled together at most. 16 * 4 KiB of zeros are part of the library, and shared by all
/// processes.
static ZEROS: [Page; 16] = [[0; PAGE_BYTES]; 16];

/// As the kernel interface calls it.
pub fn os_wake(wake: Wake) -> uffd::Wake {
    match wake {
        Wake::Now => uffd::Wake::Now,
        Wake::Later => uffd::Wake::Later,
    }
}

impl LinuxPlatform {
    fn frame_address(&self, frame: FrameId) -> usize {
        let offset = frame.0 as usize * PAGE_BYTES;
        assert!(offset < self.arena_bytes);
        self.arena_start + offset
    }

    fn install_answer(&self, page: PageId, stop: Option<Stop>) -> Install {
        match stop {
            None => Install::Done,
            Some(Stop::AlreadyMapped) => {
                self.wake(page, 1);
                Install::AlreadyMapped
            }
            // No memory for the page just now: later.
            Some(Stop::Retry | Stop::Other(uswap_os::Errno::ENOMEM)) => Install::EventPending,
            Some(Stop::Gone) => Install::Gone,
            Some(Stop::Busy | Stop::NoSource | Stop::Refused | Stop::Other(_)) => {
                self.wake(page, 1);
                Install::NotMapped
            }
        }
    }

    /// Moves frames to a place in the trash, curing those that a fork left marked shared. Of a huge page the kernel
    /// looks at the mark of its first page, wherever that is now (seen of Linux 6.18): what is busy after it was cured
    /// is dropped where it is.
    fn move_to_trash(&self, from: usize, trash_start: usize, bytes: usize) {
        let (mut done, mut cured, mut unlocked) = (0, None, 0);
        while done < bytes {
            // SAFETY:
            // 1. Source and destination are mappings of the agent; nobody refers to the frames any more, the caller
            //    holds the trash lock.
            let progress =
                unsafe { self.trash.move_pages(trash_start + done, from + done, bytes - done, Holes::Allow) };
            done += progress.bytes_done;
            match progress.stop {
                None => return,
                Some(Stop::Busy) if cured == Some(done) => {
                    return self.drop_where_it_is(from + done, bytes - done);
                }
                Some(Stop::Busy) => {
                    cured = Some(done);
                    let _retried_below = memory::populate_write(from + done, PAGE_BYTES);
                }
                Some(Stop::Retry) => thread::yield_now(),
                // One of the two is locked, and the other not yet, or no longer.
                Some(Stop::Refused) if unlocked < locks::TRIES => {
                    unlocked += 1;
                    locks::make_alike();
                }
                Some(Stop::AlreadyMapped) => {
                    // The kernel has moved more than it said.
                    // SAFETY: 1. as in `drop_run`: the range is the agent's own, holds only dead frames, and raises no
                    // message.
                    let _tried_again = unsafe { memory::drop_pages(trash_start + done, bytes - done) };
                }
                Some(stop) => crate::fatal(format_args!("a frame of the arena cannot be dropped: {stop:?}")),
            }
        }
    }

    /// Drops dead frames in the arena. While they are not registered that sends no message; it takes 7 us instead of
    /// some ten ns a page.
    fn drop_where_it_is(&self, start: usize, bytes: usize) {
        // SAFETY: 1. it is the agent's own, and nobody refers to what lies there.
        let dropped =
            self.app.unregister(start, bytes).is_ok() && unsafe { memory::drop_pages(start, bytes) }.is_ok();
        if self.app.register(start, bytes, Mode::WriteProtect).is_err() || !dropped {
            crate::fatal(format_args!("frames of the arena cannot be dropped where they are"));
        }
    }

    fn drop_run(&self, first: FrameId, count: usize) {
        let _one_at_a_time = self.trash_lock.lock();
        let bytes = count * PAGE_BYTES;
        // What is dropped as a whole stays whole on its way there: the kernel has no table for the place of blocks.
        let is_block = bytes == BLOCK_BYTES;
        let trash_start = self.trash_start + if is_block { BLOCK_BYTES } else { 0 };
        self.move_to_trash(self.frame_address(first), trash_start, bytes);
        // SAFETY:
        // 1. The trash range is the agent's own mapping, and holds only frames that nobody refers to.
        // 2. Its userfaultfd has no event features, so no message is sent that we would have to read.
        if let Err(errno) = unsafe { memory::drop_pages(trash_start, bytes) } {
            crate::fatal(format_args!("dead frames cannot be dropped: {errno}"));
        }
    }
}

impl Backing for LinuxPlatform {
    fn release_zspage(&self, zspage: ZspageId) {
        let Some(segment) = state::SEGMENT.get() else { return };
        let offset = segment.layout().pool_offset_bytes() + Pool::data_offset_bytes(zspage);
        let start = state::SEGMENT_START.load(Ordering::Acquire) + offset as usize;
        // SAFETY:
        // 1. The range lies inside the segment: the zspage number is below the pool's count.
        // 2. The zspage is marked as being released: no cell of it is in use, and nobody may take it before `released`.
        let remove = || unsafe { memory::remove_pages(start, ZSPAGE_BYTES) };
        let removed = locks::unlocked(start, ZSPAGE_BYTES, remove);
        debug_assert!(removed.is_ok());
    }

    async fn read_file(&self, offset: u64, bytes: usize, buffer: &mut FileBuffer) -> Result<(), FileError> {
        handlers::let_another_lead();
        self.swap_files.read(offset, bytes, buffer)
    }

    async fn pause(&self) {
        thread::yield_now();
    }

    async fn step(&self) {}

    fn now_ns(&self) -> u64 {
        clock::engine_now_ns()
    }

    fn raise(&self, signal: Signal) {
        raise(signal);
    }

    async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        if let Some(segment) = state::SEGMENT.get() {
            let word = segment.budget().signal_word(signal);
            futex::wait_low(word, seen, Timeout::Nanoseconds(timeout_ns), Scope::Shared);
        }
    }
}

/// The runs of bits that are set: first bit and length of each.
fn runs_of(mask: u64) -> impl Iterator<Item = (u32, u32)> {
    let mut index = 0;
    core::iter::from_fn(move || {
        let left = mask.checked_shr(index).unwrap_or(0);
        if left == 0 {
            return None;
        }
        let start = index + left.trailing_zeros();
        let length = (!(mask >> start)).trailing_zeros().min(u64::BITS - start);
        index = start + length;
        Some((start, length))
    })
}

/// Counts a signal and wakes all who wait for it, in all processes.
pub fn raise(signal: Signal) {
    if let Some(segment) = state::SEGMENT.get() {
        segment.budget().raise(signal);
        futex::wake_low(segment.budget().signal_word(signal), u32::MAX, Scope::Shared);
    }
}

impl Platform for LinuxPlatform {
    type RawLock = RawLock;

    async fn lock_shared(&self) {
        core::mem::forget(self.gate.shared());
    }
    fn unlock_shared(&self) {
        self.gate.unlock_shared_forgotten();
    }
    async fn lock_exclusive(&self) {
        core::mem::forget(self.gate.exclusive());
    }
    fn unlock_exclusive(&self) {
        self.gate.unlock_exclusive_forgotten();
    }

    fn move_out(&self, page: PageId, frame: FrameId, count: u32) -> MoveOut {
        let bytes = count as usize * PAGE_BYTES;
        // SAFETY:
        // 1. The destination frames are holes of the arena that the caller has reserved.
        // 2. The source is memory of the program whose page words the caller has locked (or has just dropped): a touch
        //    of it faults and waits for us.
        // 3. The kernel refuses while an event is unread, so the source is the mapping that the words describe.
        let progress = unsafe {
            self.app.move_pages(self.frame_address(frame), page.address() as usize, bytes, Holes::Allow)
        };
        let pages = (progress.bytes_done / PAGE_BYTES) as u32;
        let stop = match progress.stop {
            None => None,
            Some(Stop::Retry | Stop::Gone) => Some(MoveStop::EventPending),
            Some(Stop::Busy) => Some(MoveStop::Busy),
            // The range may cross from one mapping into another: then a shorter one is taken.
            Some(_) if pages == 0 && count > 1 => return self.move_out(page, frame, count / 2),
            Some(_) if pages > 0 => None,
            Some(_) => Some(MoveStop::Refused),
        };
        MoveOut { pages, stop }
    }

    fn held(&self, frame: FrameId, count: u32) -> u64 {
        match self.pagemap.held(self.frame_address(frame), count as usize) {
            Ok(bits) => bits[0],
            Err(errno) => crate::fatal(format_args!("what was moved out cannot be told: pagemap: {errno}")),
        }
    }

    fn move_in(&self, frame: FrameId, page: PageId) -> Install {
        // SAFETY:
        // 1. The caller has locked the page word that names the frame: nobody else uses the frame.
        // 2. The destination is a hole of the program's memory, registered with this descriptor, or the call fails.
        let progress = unsafe {
            self.app.move_pages(page.address() as usize, self.frame_address(frame), PAGE_BYTES, Holes::Refuse)
        };
        match progress.stop {
            Some(Stop::Busy | Stop::NoSource | Stop::Refused) => {
                // Not a hole of ours to move into, or not a frame to move: the copy that comes next tells. The frame
                // itself must be there.
                assert!(self.held(frame, 1) == 1, "a staged frame holds its page");
                Install::CannotMove
            }
            stop => self.install_answer(page, stop),
        }
    }

    fn is_huge(&self, first: PageId) -> bool {
        self.pagemap.is_huge(first.address() as usize)
    }

    fn is_huge_frame(&self, first: FrameId) -> bool {
        self.pagemap.is_huge(self.frame_address(first))
    }

    fn clear_block(&self, first: FrameId) -> bool {
        let start = self.frame_address(first);
        // While it is not registered, dropping what is there sends no message. The kernel frees its table of the block
        // then (since Linux 6.14), and only where it has none can a huge page be moved to.
        if self.app.unregister(start, BLOCK_BYTES).is_ok() {
            // SAFETY: 1. it is the agent's own, and the caller has reserved all of it: nobody refers to what lies
            // there.
            let _stays_as_it_is = unsafe { memory::drop_pages(start, BLOCK_BYTES) };
        }
        self.app.register(start, BLOCK_BYTES, Mode::WriteProtect).is_ok()
    }

    fn move_block_in(&self, first: FrameId, page: PageId) -> Filled {
        // SAFETY:
        // 1. The caller has locked the page words that name the frames: nobody else uses them.
        // 2. The destination is holes of the program's memory, registered with this descriptor, or the call fails.
        let progress = unsafe {
            let (target, source) = (page.address() as usize, self.frame_address(first));
            self.app.move_pages(target, source, BLOCK_BYTES, Holes::Refuse)
        };
        let pages = (progress.bytes_done / PAGE_BYTES) as u32;
        let last = match progress.stop {
            Some(Stop::Busy | Stop::NoSource | Stop::Refused) => Install::CannotMove,
            stop => self.install_answer(page.plus(u64::from(pages)), stop),
        };
        Filled { pages, last }
    }

    fn wants_huge_pages(&self) -> bool {
        hooks::program_asks_for_huge_pages()
    }

    fn make_huge_frame(&self, first: FrameId) -> bool {
        let start = self.frame_address(first);
        // Only for this one touch: nobody else makes huge pages in the arena.
        if memory::huge_pages(start, BLOCK_BYTES).is_err() {
            return false;
        }
        // SAFETY:
        // 1. The block lies in the arena, which stays mapped and writable, and the caller has reserved all of it:
        //    nobody else uses it.
        unsafe { (start as *mut u8).write_volatile(0) };
        let _costs_a_mapping = memory::no_huge_pages(start, BLOCK_BYTES);
        self.pagemap.is_huge(start)
    }

    fn clear_huge_frame(&self, first: FrameId) {
        // SAFETY:
        // 1. The block lies in the arena, which stays mapped and writable, and the caller has reserved all of it:
        //    nobody else uses it.
        unsafe { (self.frame_address(first) as *mut u8).write_bytes(0, BLOCK_BYTES) };
    }

    fn write_frames(&self, first: FrameId, contents: &[Page]) {
        // SAFETY:
        // 1. The frames lie in the arena, which stays mapped and writable, and the caller has reserved their block:
        //    nobody else uses it.
        // 2. `contents` is the caller's own buffer, so the two do not overlap.
        unsafe {
            let target = self.frame_address(first) as *mut Page;
            target.copy_from_nonoverlapping(contents.as_ptr(), contents.len());
        }
    }

    fn drop_block(&self, first: FrameId) {
        self.drop_run(first, BLOCK_PAGES as usize);
    }

    fn copy_in(&self, page: PageId, contents: &[Page], wake: Wake) -> Filled {
        let progress = self.app.copy_pages(page.address() as usize, contents, os_wake(wake));
        let pages = (progress.bytes_done / PAGE_BYTES) as u32;
        if progress.stop.is_none() && (pages as usize) < contents.len() {
            // The rest lies in another mapping.
            return Filled { pages, last: Install::NotMapped };
        }
        Filled { pages, last: self.install_answer(page.plus(u64::from(pages)), progress.stop) }
    }

    fn zero_in(&self, page: PageId, count: u32) -> Filled {
        self.copy_in(page, &ZEROS[..(count as usize).min(ZEROS.len())], Wake::Now)
    }

    fn poison(&self, page: PageId) -> Install {
        message::write_message(
            state::MESSAGES_FD,
            format_args!(
                "uswap: the page at {:#x} of process {} is lost: the swap file does not give back what was written \
                 (read error, or data changed on the disk). \
                 The program gets SIGBUS if it touches the page, never wrong data. Check the disk under the swap \
                 directory.\n",
                page.address(),
                uswap_os::process::process_id()
            ),
        );
        let progress = self.app.poison(page.address() as usize, PAGE_BYTES);
        match progress.stop {
            Some(Stop::Refused | Stop::Other(_)) => crate::fatal(format_args!(
                "this kernel cannot mark one page as lost (UFFDIO_POISON, Linux 6.6): the process is ended instead"
            )),
            stop => self.install_answer(page, stop),
        }
    }

    /// The kernel refuses only what is not registered, and then nobody waits.
    fn wake(&self, page: PageId, count: u32) {
        let _nobody_waits = self.app.wake(page.address() as usize, count as usize * PAGE_BYTES);
    }

    fn remote_address(&self, frame: FrameId) -> (u32, u64) {
        // As the supervisor knows it.
        let process = state::SEGMENT.get().map_or(0, |segment| segment.mms().record(state::mm()).pid());
        (process, self.frame_address(frame) as u64)
    }

    fn read_frame(&self, frame: FrameId, content: &mut Page) {
        // SAFETY:
        // 1. The address lies in the arena, which stays mapped and readable.
        // 2. The caller has locked the page word that names the frame: nobody writes it.
        // 3. `content` is the caller's own buffer, so the two do not overlap.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.frame_address(frame) as *const u8,
                content.as_mut_ptr(),
                PAGE_BYTES,
            );
        }
    }

    fn drop_frames(&self, first: FrameId, mask: u64) {
        for (start, frames) in runs_of(mask) {
            self.drop_run(FrameId(first.0 + start), frames as usize);
        }
    }

    async fn recover(&self, first: PageId, mask: u64) {
        // Of a page that was part of a huge page the kernel looks at the mark of the first one, also where that is gone
        // from here: then nothing that is written to this page helps, as long as they are parts of one. What is one
        // still gets its mark as one.
        let is_one = self.is_huge(PageId(first.0 / BLOCK_PAGES * BLOCK_PAGES));
        for (start, pages) in runs_of(mask) {
            let start = first.plus(u64::from(start)).address() as usize;
            let bytes = pages as usize * PAGE_BYTES;
            if !is_one {
                let _shared_or_single = memory::split_large(start, bytes);
            }
            let _touched_or_gone = memory::populate_write(start, bytes);
        }
    }

    fn read_messages(&self, messages: &mut [Message]) -> usize {
        let mut raw = [UffdMsg::EMPTY; MESSAGES_PER_READ_MAX];
        let wanted = messages.len().min(MESSAGES_PER_READ_MAX);
        let Ok(count) = self.app.read(&mut raw[..wanted]) else { return 0 };
        let mut kept = 0;
        for raw in &raw[..count] {
            let range = |start: usize, end: usize| PageRange::of_addresses(start as u64, end as u64);
            messages[kept] = match raw.decode(self.app.features()) {
                uffd::Message::Fault { address, .. } if locks::guard_fault(address, &self.app) => continue,
                uffd::Message::Fault { address, write, .. } => {
                    Message::Fault(PageId::of_address(address as u64), Touch::that(write))
                }
                uffd::Message::Fork { fd } => Message::Fork(fd.into_raw()),
                uffd::Message::Remove { start, end } => Message::Event(Event::Remove(range(start, end))),
                uffd::Message::Unmap { start, end } => Message::Event(Event::Unmap(range(start, end))),
                uffd::Message::Remap { from, to, bytes } => Message::Event(Event::Remap {
                    from: PageId::of_address(from as u64),
                    to: PageId::of_address(to as u64),
                    pages: (bytes / PAGE_BYTES) as u64,
                    added: moves::pages_added(range(from, from + bytes)),
                    // The thread is in the call until this was read.
                    stays: moves::leaves_its_old_place(range(from, from + bytes)),
                }),
                uffd::Message::Unknown { .. } => continue,
            };
            kept += 1;
        }
        kept
    }

    fn child_forked(&self, descriptor: i32, child: Option<MmId>) {
        forkd::hand_over(descriptor, child);
    }

    fn child_has(&self, descriptor: i32, page: PageId) -> bool {
        // The descriptor stays open: it goes to forkd next.
        let child = core::mem::ManuallyDrop::new(Uffd::from_raw_fd(descriptor, Features::EVENTS));
        child.is_registered(page.address() as usize, self.unreadable)
    }

    fn register(&self, range: PageRange) -> Register {
        let (start, bytes) = (range.start.address() as usize, range.pages() as usize * PAGE_BYTES);
        match self.app.register(start, bytes, Mode::Missing) {
            Ok(()) => Register::Done,
            Err(_) => Register::Refused,
        }
    }

    fn event_pending(&self) -> bool {
        match self.app.no_event_pending(self.probe) {
            Ok(none) => !none,
            Err(stop) => crate::fatal(format_args!("the arena does not answer: {stop:?}")),
        }
    }

    fn registered_mapping(&self, range: PageRange) -> Option<PageRange> {
        let (start, end) = (range.start.address() as usize, range.end.address() as usize);
        match uswap_os::smaps::first_registered(start, end) {
            Ok(mapping) => mapping.map(|(start, end)| PageRange::of_addresses(start as u64, end as u64)),
            Err(errno) => {
                crate::fatal(format_args!("its mappings cannot be told: /proc/self/smaps: {errno}"))
            }
        }
    }

    fn drops_followed(&self, range: PageRange) -> bool {
        drops::are_followed(range)
    }

    fn drops_under_way(&self, range: PageRange) -> bool {
        drops::are_under_way(range)
    }

    fn may_wait(&self) -> bool {
        handlers::let_another_lead()
    }
}
