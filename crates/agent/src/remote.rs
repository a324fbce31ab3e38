//! A forked child as its parent sees it: pages can be filled through the descriptor of the fork message, and nothing
//! else.

use crate::platform::{LinuxPlatform, os_wake};
use crate::sync::RawLock;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_engine::platform::{
    Backing, FileBuffer, FileError, Filled, Install, Message, MoveOut, MoveStop, Platform, Register, Wake,
};
use uswap_os::uffd::{Features, Progress, Stop, Uffd};
use uswap_os::{Errno, thread};
use uswap_units::{FrameId, MmId, PAGE_BYTES, PageId, PageRange, ZspageId};

/// The child's memory through its descriptor. Staged frames are read from the parent's arena, which is held still until
/// the child has its own engine.
pub struct RemotePlatform {
    pub descriptor: i32,
    pub parent: &'static LinuxPlatform,
}

impl RemotePlatform {
    fn uffd(&self) -> core::mem::ManuallyDrop<Uffd> {
        core::mem::ManuallyDrop::new(Uffd::from_raw_fd(self.descriptor, Features::EVENTS))
    }

    fn filled(&self, page: PageId, progress: Progress) -> Filled {
        let pages = (progress.bytes_done / PAGE_BYTES) as u32;
        let last = match progress.stop {
            None => Install::Done,
            Some(Stop::Gone) => Install::Gone,
            Some(Stop::Retry | Stop::Other(Errno::ENOMEM)) => Install::EventPending,
            Some(stop) => {
                self.wake(page.plus(u64::from(pages)), 1);
                if stop == Stop::AlreadyMapped { Install::AlreadyMapped } else { Install::NotMapped }
            }
        };
        Filled { pages, last }
    }
}

impl Backing for RemotePlatform {
    fn release_zspage(&self, zspage: ZspageId) {
        self.parent.release_zspage(zspage);
    }
    async fn read_file(&self, offset: u64, bytes: usize, buffer: &mut FileBuffer) -> Result<(), FileError> {
        self.parent.swap_files.read(offset, bytes, buffer)
    }
    async fn pause(&self) {
        thread::yield_now();
    }
    async fn step(&self) {}
    fn now_ns(&self) -> u64 {
        self.parent.now_ns()
    }
    fn raise(&self, signal: Signal) {
        self.parent.raise(signal);
    }
    async fn wait(&self, _: Signal, _: u32, _: u64) {}
}

impl Platform for RemotePlatform {
    type RawLock = RawLock;

    // Only forkd works on the child, so its gate is always open.
    async fn lock_shared(&self) {}
    fn unlock_shared(&self) {}
    async fn lock_exclusive(&self) {}
    fn unlock_exclusive(&self) {}

    fn move_out(&self, _: PageId, _: FrameId, _: u32) -> MoveOut {
        MoveOut { pages: 0, stop: Some(MoveStop::Refused) }
    }
    fn held(&self, _: FrameId, _: u32) -> u64 {
        0
    }
    fn move_in(&self, _: FrameId, _: PageId) -> Install {
        Install::CannotMove
    }
    // Huge pages are moved in the process itself.
    fn is_huge(&self, _: PageId) -> bool {
        false
    }
    fn is_huge_frame(&self, _: FrameId) -> bool {
        false
    }
    fn clear_block(&self, _: FrameId) -> bool {
        false
    }
    fn move_block_in(&self, _: FrameId, _: PageId) -> Filled {
        Filled { pages: 0, last: Install::CannotMove }
    }
    fn wants_huge_pages(&self) -> bool {
        false
    }
    fn make_huge_frame(&self, _: FrameId) -> bool {
        false
    }
    fn clear_huge_frame(&self, _: FrameId) {}
    fn write_frames(&self, _: FrameId, _: &[Page]) {}
    fn drop_block(&self, _: FrameId) {}
    fn copy_in(&self, page: PageId, contents: &[Page], wake: Wake) -> Filled {
        self.filled(page, self.uffd().copy_pages(page.address() as usize, contents, os_wake(wake)))
    }
    fn zero_in(&self, page: PageId, _: u32) -> Filled {
        self.copy_in(page, &[[0; PAGE_BYTES]], Wake::Now)
    }
    fn poison(&self, page: PageId) -> Install {
        self.filled(page, self.uffd().poison(page.address() as usize, PAGE_BYTES)).last
    }
    fn wake(&self, page: PageId, count: u32) {
        let _nobody_waits = self.uffd().wake(page.address() as usize, count as usize * PAGE_BYTES);
    }
    fn remote_address(&self, frame: FrameId) -> (u32, u64) {
        self.parent.remote_address(frame)
    }
    fn read_frame(&self, frame: FrameId, content: &mut Page) {
        self.parent.read_frame(frame, content);
    }
    fn drop_frames(&self, _: FrameId, _: u64) {}
    async fn recover(&self, _: PageId, _: u64) {}
    fn read_messages(&self, _: &mut [Message]) -> usize {
        0
    }
    fn child_forked(&self, _: i32, _: Option<MmId>) {}
    fn child_has(&self, _: i32, _: PageId) -> bool {
        false
    }
    fn register(&self, _: PageRange) -> Register {
        Register::Refused
    }
    fn event_pending(&self) -> bool {
        false
    }
    /// Nothing is unmapped through a remote: what is asked about stays.
    fn registered_mapping(&self, range: PageRange) -> Option<PageRange> {
        Some(range)
    }
    // Nothing is evicted from a child through its parent.
    fn drops_followed(&self, _: PageRange) -> bool {
        false
    }
    fn drops_under_way(&self, _: PageRange) -> bool {
        false
    }
    fn may_wait(&self) -> bool {
        false
    }
}
