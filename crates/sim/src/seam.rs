//! The engine's seams, implemented over the simulated world.

use crate::engine::{
    AddressSpace, Backing, BlockBits, FileBuffer, FileError, FillAs, Filled, Gate, Hazards, Install, Memory,
    Touch,
};
use crate::kernel_side::KernelSide;
use crate::memory::Rights;
use crate::world::World;
use std::rc::Rc;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_core::swap_table::CLUSTER_ENTRIES;
use uswap_core::swap_word::Content;
use uswap_engine::reaper::Trim;
use uswap_engine::writeback::SwapWriter;
use uswap_sync::{AtomicU32, Ordering};
use uswap_units::{ClusterId, FileId, PageId, PageRange, SwapId, SwapOffset, ZspageId};

/// The engine of a simulated process.
pub type Space<'a> = AddressSpace<'a, SimMemory<'a>>;

/// One process, seen by its engine.
pub struct SimMemory<'a> {
    /// Where it lives.
    pub world: Rc<World<'a>>,
    /// Whose memory it is.
    pub kernel: Rc<KernelSide>,
}

/// The supervisor, without a process of its own.
pub struct SimSupervisor<'w, 'a> {
    /// Where it lives.
    pub world: &'w World<'a>,
}

/// Zeros that are copied with one call at most, as `host` has it.
const ZEROS: u32 = 16;

/// Virtual time that a task may wait for the lock on a word. On Linux it looks again after a tenth of a second; here
/// that would hide a wake-up that was forgotten.
const WORD_WAIT_MAX_NS: u64 = 60_000_000_000;

macro_rules! backing {
    ($($header:tt)*) => {
        $($header)* {
            fn release_zspage(&self, zspage: ZspageId) {
                self.world.note(format_args!("{zspage:?} goes back to the system"));
            }
            async fn read_file(
                &self,
                offset: SwapOffset,
                bytes: usize,
                buffer: &mut FileBuffer,
            ) -> Result<(), FileError> {
                self.has_open(offset)?;
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
            /// Now and then somebody gets no processor while others do all of their work.
            async fn step(&self) {
                if self.world.chance(40) {
                    self.world.sleep_up_to(200_000).await;
                } else {
                    self.world.executor.step().await;
                }
            }
            fn now_ns(&self) -> u64 {
                self.world.executor.now_ns()
            }
            fn raise(&self, signal: Signal) {
                self.world.raise(signal);
            }
            async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
                self.world.wait(signal, seen, timeout_ns * self.world.options.calm()).await;
            }
        }
    };
}

backing! { impl Backing for SimMemory<'_> }
backing! { impl Backing for SimSupervisor<'_, '_> }

impl SimSupervisor<'_, '_> {
    fn has_open(&self, offset: SwapOffset) -> Result<(), FileError> {
        self.world.is_to_be_read(offset, None)
    }
}

impl Trim for SimSupervisor<'_, '_> {
    fn release_file(&self, bytes: std::ops::Range<SwapOffset>) {
        self.world.punch_file(bytes);
    }
    fn release_cluster(&self, cluster: ClusterId) {
        self.world.note(format_args!("cluster {} goes back to the system", cluster.number()));
        let first = cluster.number() * CLUSTER_ENTRIES;
        for id in (first..first + CLUSTER_ENTRIES).map(SwapId::new) {
            if self.world.segment.swap_table().load(id).content() != Content::Free {
                self.world.fail(format!("{id:?} is in use, and its memory goes back to the system"));
            }
        }
    }
}

impl SwapWriter for SimSupervisor<'_, '_> {
    type Backing = Self;
    fn backing(&self) -> &Self {
        self
    }
    fn may_write(&self, file: FileId, _: u64) -> bool {
        let forbidden = self.world.disks.borrow()[file.index()].faults.forbidden;
        !self.world.chance(forbidden)
    }
    async fn write_file(&self, offset: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        self.world.write_file(offset, buffer).await
    }
}

impl SimMemory<'_> {
    fn has_open(&self, offset: SwapOffset) -> Result<(), FileError> {
        self.world.is_to_be_read(offset, Some(self.kernel.open()))
    }
    /// What touches the program's memory happens inside the gate.
    fn must_be_inside(&self) {
        if self.kernel.gate_is_free() {
            self.world.fail("memory of a program is touched outside of the gate".to_owned());
        }
    }
    /// The kernel refuses now and then, for no reason that we see.
    fn refuses(&self) -> bool {
        let refuses = self.world.chance(self.world.options.refusals);
        self.world.count("refusals of the kernel", u64::from(refuses));
        refuses
    }
    /// One call that fills pages one after the other; it may end after any of them, also without one.
    fn fill_each(&self, first: PageId, count: u32, mut fill: impl FnMut(PageId, usize) -> Install) -> Filled {
        self.must_be_inside();
        let range = PageRange::of_pages(first, u64::from(count));
        if !self.kernel.memory.borrow().is_in_one_mapping(range) {
            return Filled { pages: 0, last: Install::NotMapped };
        }
        let most = if self.refuses() { self.world.below(u64::from(count)) as u32 } else { count };
        let mut filled = Filled { pages: 0, last: Install::Done };
        while filled.pages < most && filled.last == Install::Done {
            filled.last = fill(first.plus(u64::from(filled.pages)), filled.pages as usize);
            filled.pages += u32::from(filled.last == Install::Done);
        }
        if most < count && filled.last == Install::Done {
            filled.last = Install::NotMapped;
        }
        filled
    }
}

impl SimMemory<'_> {
    fn present_now(&self, first: PageId, count: u32) -> u64 {
        let memory = self.kernel.memory.borrow();
        let is_present = |ahead: &u32| {
            memory
                .pages
                .get(&first.plus(u64::from(*ahead)).number())
                .is_some_and(|page| page.content.is_some())
        };
        (0..count).filter(is_present).fold(0, |mask, ahead| mask | 1 << ahead)
    }
}

impl Memory for SimMemory<'_> {
    fn held_in_block(&self, first: PageId) -> Option<BlockBits> {
        let mut bits: BlockBits = [0; _];
        for (index, word) in bits.iter_mut().enumerate() {
            *word = self.present_now(first.plus(index as u64 * 64), 64);
        }
        Some(bits)
    }
    fn present(&self, first: PageId, count: u32) -> u64 {
        self.must_be_inside();
        self.present_now(first, count)
    }
    fn read(&self, page: PageId, content: &mut Page) {
        self.must_be_inside();
        let memory = self.kernel.memory.borrow();
        let mapped = memory.pages.get(&page.number()).filter(|mapped| mapped.rights != Rights::Nothing);
        match mapped.and_then(|mapped| mapped.content.as_ref()) {
            Some(there) => *content = **there,
            None => self.world.fail(format!("{page:?} is to be stored, and cannot be read")),
        }
    }
    fn fill(&self, page: PageId, contents: &[Page], access: FillAs) -> Filled {
        let filled = self.fill_each(page, contents.len() as u32, |page, index| {
            self.kernel.memory.borrow_mut().fill(page, &contents[index], access)
        });
        self.world.note(format_args!("fill {page:?} +{} {access:?}: {filled:?}", contents.len()));
        filled
    }
    fn zero(&self, page: PageId, count: u32, touch: Touch) -> Filled {
        let count = if touch == Touch::Write { count.min(ZEROS) } else { count };
        let filled =
            self.fill_each(page, count, |page, _| self.kernel.memory.borrow_mut().fill_zeros(page, touch));
        self.world.note(format_args!("zeros {page:?} +{count}: {filled:?}"));
        filled
    }
    fn zero_pages(&self, first: PageId, count: u32) -> u64 {
        self.must_be_inside();
        let memory = self.kernel.memory.borrow();
        let is_zero_page = |ahead: &u32| {
            memory.pages.get(&first.plus(u64::from(*ahead)).number()).is_some_and(|page| page.is_zero_page)
        };
        (0..count).filter(is_zero_page).fold(0, |mask, ahead| mask | 1 << ahead)
    }
    fn protect(&self, range: PageRange) -> bool {
        self.must_be_inside();
        let refuses = self.refuses();
        let part = if refuses { self.world.below(range.pages()) } else { range.pages() };
        let is_all = self.kernel.memory.borrow_mut().protect(PageRange::of_pages(range.start(), part));
        self.world.note(format_args!("protect {range:?}: {part}, {is_all}"));
        is_all && !refuses
    }
    fn unprotect(&self, range: PageRange) {
        self.must_be_inside();
        self.world.note(format_args!("unprotect {range:?}"));
        self.kernel.memory.borrow_mut().unprotect(range);
    }
    fn drop_pages(&self, ranges: &[PageRange]) -> usize {
        self.must_be_inside();
        let refuses = self.refuses();
        let most = if refuses { self.world.below(ranges.len() as u64) as usize } else { ranges.len() };
        let mut memory = self.kernel.memory.borrow_mut();
        let mut count = 0;
        for &range in &ranges[..most] {
            if !memory.is_all(range, |mapped| mapped.content.is_some()) {
                self.world.fail(format!("{range:?} is to be dropped, and some of it is not there"));
            }
            let end = memory.drop_content(range);
            if end != range.end() {
                if end != range.start() {
                    self.world.fail(format!(
                        "{range:?} is dropped up to {end:?}: a part of it is locked, and the program is ended"
                    ));
                }
                break;
            }
            count += 1;
        }
        self.world.note(format_args!("drop {ranges:?}: {count}"));
        count
    }
}

impl Hazards for SimMemory<'_> {
    /// There is one processor here.
    fn membarrier(&self) {}
    fn names(&self, page: PageId) -> bool {
        self.kernel.hazards.borrow().iter().any(|(_, range)| range.contains(page))
    }
}

impl Gate for SimMemory<'_> {
    async fn lock_shared(&self) {
        self.kernel.lock_shared(&self.world).await;
    }
    fn unlock_shared(&self) {
        self.kernel.unlock_shared(&self.world);
    }
    async fn wait_while(&self, word: &AtomicU32, seen: u32) {
        let executor = &self.world.executor;
        let until = executor.now_ns() + WORD_WAIT_MAX_NS * self.world.options.calm();
        while word.load(Ordering::Relaxed) == seen {
            if self.world.chance(20) {
                // For no reason.
                return executor.step().await;
            }
            self.kernel.word_waiters.borrow_mut().push((address_of(word), executor.current()));
            executor.park("a word", Some(until)).await;
            if executor.now_ns() >= until {
                return self.world.fail("a thread waits for the lock of a word for ever".to_owned());
            }
        }
    }
    fn wake(&self, word: &AtomicU32) {
        let address = address_of(word);
        let mut waiters = self.kernel.word_waiters.borrow_mut();
        waiters
            .extract_if(.., |(of, _)| *of == address)
            .for_each(|(_, task)| self.world.executor.unpark(task));
    }
}

fn address_of(word: &AtomicU32) -> usize {
    core::ptr::from_ref(word) as usize
}
