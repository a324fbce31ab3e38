//! The engine's seam, implemented over the made-up world.

use crate::process::Process;
use crate::world::World;
use std::rc::Rc;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_core::store_jobs::JobHead;
use uswap_engine::Engine;
use uswap_engine::platform::{
    Backing, FileBuffer, FileError, Filled, Install, Message, MoveOut, MoveStop, Platform, Register, Wake,
};
use uswap_engine::storer::RemoteFrames;
use uswap_engine::writeback::SwapWriter;
use uswap_units::{BLOCK_PAGES, FileId, FrameId, MmId, PageId, PageRange, ZspageId};

/// The engine of a made-up process.
pub type SimEngine<'a> = Engine<'a, SimPlatform<'a>>;

/// One process, seen by its engine; or a forked child, seen by its parent.
pub struct SimPlatform<'a> {
    /// Where it lives.
    pub world: Rc<World<'a>>,
    /// Whose memory is filled.
    pub process: Rc<Process<'a>>,
    /// Whose arena is read: the parent's while it serves a child.
    pub arena: Rc<Process<'a>>,
}

/// The supervisor, without a process of its own.
pub struct SimSupervisor<'w, 'a> {
    /// Where it lives.
    pub world: &'w World<'a>,
}

macro_rules! backing {
    ($reads:ident, $($header:tt)*) => {
        $($header)* {
            fn release_zspage(&self, zspage: ZspageId) {
                self.world.note(format_args!("{zspage:?} goes back to the system"));
            }
            async fn read_file(&self, offset: u64, bytes: usize, buffer: &mut FileBuffer) -> Result<(), FileError> {
                self.$reads(offset)?;
                self.world.read_file(offset, &mut buffer.0[..bytes]).await
            }
            /// Whoever is in the middle of something may come no further meanwhile: it waits for a processor.
            async fn pause(&self) {
                if self.world.chance(300) {
                    self.world.executor.step().await;
                } else {
                    self.world.sleep_up_to(20_000).await;
                }
            }
            async fn step(&self) {
                self.world.executor.step().await;
            }
            fn now_ns(&self) -> u64 {
                self.world.executor.now_ns()
            }
            fn raise(&self, signal: Signal) {
                self.world.raise(signal);
            }
            async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
                self.world.wait(signal, seen, timeout_ns).await;
            }
        }
    };
}

backing! { has_open, impl Backing for SimPlatform<'_> }
backing! { has_open, impl Backing for SimSupervisor<'_, '_> }

impl SimPlatform<'_> {
    /// A process reads only files that it has open; a forked child is read for by its parent.
    fn has_open(&self, offset: u64) -> Result<(), FileError> {
        self.world.is_to_be_read(offset, Some(&self.arena))
    }
}

impl SimSupervisor<'_, '_> {
    fn has_open(&self, offset: u64) -> Result<(), FileError> {
        self.world.is_to_be_read(offset, None)
    }
}

impl uswap_engine::reaper::GiveBack for SimSupervisor<'_, '_> {
    fn release_file(&self, bytes: std::ops::Range<u64>) {
        self.world.punch_file(bytes);
    }
    fn release_cluster(&self, cluster: u32) {
        self.world.note(format_args!("cluster {cluster} goes back to the system"));
        let first = cluster * uswap_core::swap_table::CLUSTER_ENTRIES;
        for id in (first..first + uswap_core::swap_table::CLUSTER_ENTRIES).map(uswap_units::SwapId) {
            if self.world.segment.swap_table().load(id).content() != uswap_core::swap_word::Content::Free {
                self.world.fail(format!("{id:?} is in use, and its memory goes back to the system"));
            }
        }
    }
}

impl SwapWriter for SimSupervisor<'_, '_> {
    fn may_write(&self, file: FileId, _: u64) -> bool {
        let forbidden = self.world.disks.borrow()[usize::from(file.0)].faults.forbidden;
        !self.world.chance(forbidden)
    }
    async fn write_file(&self, offset: u64, buffer: &[u8]) -> Result<(), FileError> {
        self.world.write_file(offset, buffer).await
    }
}

impl RemoteFrames for SimSupervisor<'_, '_> {
    /// As the kernel: an empty frame reads as zeros.
    fn read_frames(&self, head: JobHead, first: u32, pages: &mut [Page]) -> bool {
        let processes = self.world.processes.borrow();
        let Some(process) = processes.iter().find(|process| process.number as u32 == head.pid) else {
            return false;
        };
        if !process.alive.get() {
            return false;
        }
        let memory = process.memory.borrow();
        for (frame, page) in (head.address as usize + first as usize..).zip(pages) {
            *page = memory.frames[frame].content.as_ref().map_or([0; 4096], |content| **content);
        }
        true
    }
}

impl SimPlatform<'_> {
    fn is_remote(&self) -> bool {
        !Rc::ptr_eq(&self.process, &self.arena)
    }
    /// Wakes the waiters when a page is there, or never will be.
    fn after_install(&self, page: PageId, how: &str, install: Install, wake: Wake) -> Install {
        self.world.note(format_args!("{how} {page:?}: {install:?}"));
        let waits_on = wake == Wake::Later && install == Install::Done;
        if !waits_on && !matches!(install, Install::EventPending | Install::CannotMove | Install::Gone) {
            self.wake(page, 1);
        }
        install
    }
    /// The kernel may stop after any page; the first that could not be filled says why.
    fn fill<'c>(
        &self,
        page: PageId,
        how: &str,
        contents: impl ExactSizeIterator<Item = &'c Page>,
        wake: Wake,
    ) -> Filled {
        if !self.process.alive.get() {
            return Filled { pages: 0, last: Install::Gone };
        }
        let together = if self.world.chance(250) {
            self.world.below(contents.len() as u64) as u32 + 1
        } else {
            u32::MAX
        };
        let mut pages = 0;
        for content in contents {
            if pages == together {
                return Filled { pages, last: Install::NotMapped };
            }
            let target = page.plus(u64::from(pages));
            let install = self.process.memory.borrow_mut().copy_in(target, *content);
            let install = self.after_install(target, how, install, wake);
            if install != Install::Done {
                return Filled { pages, last: install };
            }
            pages += 1;
        }
        Filled { pages, last: Install::Done }
    }
    fn checked<T>(&self, result: Result<T, String>, otherwise: T) -> T {
        result.unwrap_or_else(|wrong| {
            self.world.fail(wrong);
            otherwise
        })
    }
}

impl Platform for SimPlatform<'_> {
    type RawLock = parking_lot::RawMutex;

    async fn lock_shared(&self) {
        self.world.executor.step().await;
        self.process.lock_shared(&self.world).await;
    }
    fn unlock_shared(&self) {
        self.process.unlock_shared(&self.world);
    }
    async fn lock_exclusive(&self) {
        self.world.executor.step().await;
        self.process.lock_exclusive(&self.world).await;
    }
    fn unlock_exclusive(&self) {
        self.process.unlock_exclusive(&self.world);
    }

    fn move_out(&self, page: PageId, frame: FrameId, count: u32) -> MoveOut {
        let mut count_now = count;
        let busy = self.world.chance(self.world.options.busy);
        if busy {
            count_now = self.world.below(u64::from(count)) as u32;
        }
        if self.world.chance(self.world.options.looks) {
            let looked_at = frame.0 + self.world.below(u64::from(count)) as u32;
            if self.process.memory.borrow_mut().look_at(looked_at) {
                self.world.count("frames looked at", 1);
                self.world.note(format_args!("somebody looks at frame {looked_at}"));
            }
        }
        let result = self.process.memory.borrow_mut().move_out(page, frame.0, count_now);
        let mut out = self.checked(result, MoveOut { pages: 0, stop: Some(MoveStop::Refused) });
        if busy && out.stop.is_none() {
            out.stop = Some(MoveStop::Busy);
        }
        if out.pages > 0 && self.world.chance(self.world.options.uncounted) {
            self.world.count("moves not counted", 1);
            let stop = if self.world.chance(500) { MoveStop::Refused } else { MoveStop::EventPending };
            out = MoveOut { pages: self.world.below(u64::from(out.pages)) as u32, stop: Some(stop) };
        }
        if out.stop == Some(MoveStop::Busy) {
            self.process.memory.borrow_mut().refused.insert(page.0 + u64::from(out.pages));
        }
        self.world.note(format_args!("move out {page:?} +{count} to {frame:?}: {out:?}"));
        out
    }
    fn held(&self, frame: FrameId, count: u32) -> u64 {
        let memory = self.process.memory.borrow();
        (0..count)
            .filter(|i| memory.frames[(frame.0 + i) as usize].content.is_some())
            .fold(0, |mask, i| mask | (1 << i))
    }
    fn move_in(&self, frame: FrameId, page: PageId) -> Install {
        if self.is_remote() {
            return Install::CannotMove;
        }
        let result = self.process.memory.borrow_mut().move_in(frame.0, page);
        let install = self.checked(result, Install::NotMapped);
        self.after_install(page, "move in", install, Wake::Now)
    }
    fn is_huge(&self, first: PageId) -> bool {
        self.process.memory.borrow().is_huge(first)
    }
    fn is_huge_frame(&self, first: FrameId) -> bool {
        self.arena.memory.borrow().is_huge_frame(first.0)
    }
    /// What single pages lay there leaves nothing behind in this world.
    fn clear_block(&self, first: FrameId) -> bool {
        self.drop_block(first);
        !self.world.chance(self.world.options.busy / 8)
    }
    fn move_block_in(&self, first: FrameId, page: PageId) -> Filled {
        if self.world.chance(self.world.options.busy) {
            // The kernel splits it at a bad moment.
            let at = first.0 as usize + self.world.below(BLOCK_PAGES) as usize;
            self.process.memory.borrow_mut().frames[at].in_huge = None;
        }
        let result = self.process.memory.borrow_mut().move_block_in(first.0, page);
        let (pages, last) = self.checked(result, (0, Install::NotMapped));
        let mut filled = Filled { pages, last };
        if pages > 0 && self.world.chance(self.world.options.uncounted) {
            self.world.count("moves not counted", 1);
            let pages = self.world.below(u64::from(pages)) as u32;
            let last = if self.world.chance(500) { Install::CannotMove } else { Install::EventPending };
            filled = Filled { pages, last };
            if self.world.chance(500) {
                let looked_at = first.0 + self.world.below(BLOCK_PAGES) as u32;
                if self.process.memory.borrow_mut().look_at(looked_at) {
                    self.world.count("frames looked at", 1);
                    self.world.note(format_args!("somebody looks at frame {looked_at}"));
                }
            }
        }
        self.world.note(format_args!("move block {first:?} back to {page:?}: {filled:?}"));
        // Those run whose pages were counted.
        self.wake(page, filled.pages);
        if !matches!(filled.last, Install::Done | Install::EventPending | Install::CannotMove) {
            self.wake(page.plus(u64::from(filled.pages)), 1);
        }
        filled
    }
    fn wants_huge_pages(&self) -> bool {
        self.world.options.weights.map_huge > 0
    }
    fn make_huge_frame(&self, first: FrameId) -> bool {
        let mut memory = self.process.memory.borrow_mut();
        let has_one = !self.world.chance(100);
        for (index, frame) in (0..BLOCK_PAGES).zip(&mut memory.frames[first.0 as usize..]) {
            if frame.content.is_some() {
                self.world
                    .fail(format!("{first:?}+{index} is to be part of a new huge page and holds something"));
            }
            if has_one || index == 0 {
                frame.content = Some(Rc::new([0; 4096]));
                frame.in_huge = has_one.then_some(index);
            }
        }
        self.world.note(format_args!("new huge page at {first:?}: {has_one}"));
        has_one
    }
    fn clear_huge_frame(&self, first: FrameId) {
        let mut memory = self.process.memory.borrow_mut();
        for frame in &mut memory.frames[first.0 as usize..][..BLOCK_PAGES as usize] {
            (frame.content, frame.shared) = (Some(Rc::new([0; 4096])), false);
        }
        self.world.note(format_args!("huge page at {first:?} is cleared"));
    }
    fn write_frames(&self, first: FrameId, contents: &[Page]) {
        let mut memory = self.process.memory.borrow_mut();
        for (frame, content) in memory.frames[first.0 as usize..].iter_mut().zip(contents) {
            // A write to a page that a fork left shared makes it exclusive, and no part of the huge page.
            let in_huge = frame.in_huge.filter(|_| !frame.shared);
            (frame.content, frame.shared, frame.in_huge) = (Some(Rc::new(*content)), false, in_huge);
        }
        self.world.note(format_args!("{} pages are written to {first:?}", contents.len()));
    }
    fn drop_block(&self, first: FrameId) {
        let mut memory = self.process.memory.borrow_mut();
        memory.frames[first.0 as usize..][..BLOCK_PAGES as usize].fill(Default::default());
        self.world.note(format_args!("drop block {first:?}"));
    }
    fn copy_in(&self, page: PageId, contents: &[Page], wake: Wake) -> Filled {
        self.fill(page, "copy in", contents.iter(), wake)
    }
    fn zero_in(&self, page: PageId, count: u32) -> Filled {
        self.fill(page, "zeros in", std::iter::repeat_n(&[0; 4096], count as usize), Wake::Now)
    }
    fn poison(&self, page: PageId) -> Install {
        self.world.count("pages poisoned", 1);
        let install = self.process.memory.borrow_mut().poison(page);
        self.after_install(page, "poison", install, Wake::Now)
    }
    fn wake(&self, page: PageId, count: u32) {
        for page in (0..count).map(|index| page.plus(u64::from(index))) {
            let waiters = self.process.memory.borrow_mut().waiters(page);
            waiters.into_iter().for_each(|task| self.world.executor.unpark(task));
        }
    }
    fn remote_address(&self, frame: FrameId) -> (u32, u64) {
        (self.arena.number as u32, u64::from(frame.0))
    }
    fn read_frame(&self, frame: FrameId, content: &mut Page) {
        match &self.arena.memory.borrow().frames[frame.0 as usize].content {
            Some(page) => *content = **page,
            None => self.world.fail(format!("read of {frame:?}, which is empty")),
        }
    }
    fn drop_frames(&self, first: FrameId, mask: u64) {
        let mut memory = self.process.memory.borrow_mut();
        for index in (0..64).filter(|index| mask & (1 << index) != 0) {
            memory.frames[first.0 as usize + index] = Default::default();
        }
        self.world.note(format_args!("drop {first:?} {mask:x}"));
    }
    async fn recover(&self, first: PageId, mask: u64) {
        let pages = (0..u64::BITS).filter(|index| mask & (1 << index) != 0);
        for page in pages.map(|index| first.plus(u64::from(index))) {
            self.process.recover(&self.world, page).await;
        }
    }
    fn read_messages(&self, messages: &mut [Message]) -> usize {
        let (count, go_on) = self.process.memory.borrow_mut().read(messages);
        go_on.into_iter().for_each(|task| self.world.executor.unpark(task));
        if count > 0 {
            self.world.note(format_args!("read {:?}", &messages[..count]));
        }
        count
    }
    fn child_forked(&self, descriptor: i32, child: Option<MmId>) {
        crate::fork::child_forked(&self.world, &self.process, descriptor as usize, child);
    }
    fn child_has(&self, descriptor: i32, page: PageId) -> bool {
        let child = self.world.processes.borrow()[descriptor as usize].clone();
        let memory = child.memory.borrow();
        memory.pages.get(&page.0).is_some_and(|mapped| mapped.registered)
    }
    fn register(&self, range: PageRange) -> Register {
        let any = self.process.memory.borrow_mut().register(range);
        self.world.note(format_args!("register {range:?}: {any}"));
        if any { Register::Done } else { Register::Refused }
    }
    fn event_pending(&self) -> bool {
        self.process.memory.borrow().changing > 0
    }
    fn registered_mapping(&self, range: PageRange) -> Option<PageRange> {
        let mapping = self.process.memory.borrow().registered_mapping(range);
        self.world.count("registered mappings asked for", 1);
        self.world.note(format_args!("registered in {range:?}: {mapping:?}"));
        mapping
    }
    fn drops_followed(&self, range: PageRange) -> bool {
        let dropping = self.process.dropping.borrow();
        dropping.iter().any(|other| other.start.0 <= range.start.0 && range.end.0 <= other.end.0)
    }
    fn drops_under_way(&self, range: PageRange) -> bool {
        let dropping = self.process.dropping.borrow();
        dropping.iter().any(|other| other.start.0 < range.end.0 && range.start.0 < other.end.0)
    }
    fn may_wait(&self) -> bool {
        // Budgets here are so small that some can never be met: giving up early now and then keeps runs short.
        !self.is_remote()
            && self.process.serving.get() < self.world.options.handlers
            && self.world.chance(700)
    }
}
