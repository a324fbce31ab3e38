//! Memory of one process, made up: what is mapped, present and protected, who is inside the gate, and which hazards are
//! published.

use crate::space::AddressSpace;
use crate::world::{Backing, BlockBits, FileBuffer, FileError, Filled, Install, Touch};
use crate::world::{FillAs, Gate, Hazards, Memory};
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;
use std::vec::Vec;
use uswap_codec::{PAGE_BYTES, Page};
use uswap_core::budget::Signal;
use uswap_core::page_word::PageWord;
use uswap_sync::{AtomicU32, Ordering};
use uswap_units::{PageId, PageRange, Prng, SwapOffset, ZspageId};

/// Pages of address space: some of them unmapped at first, as places for `mremap`.
pub const PAGES: usize = 192;
/// Of those, the ones that are mapped at first.
pub const MAPPED: usize = 128;
const FIRST: PageId = PageId::new(512 * 70 + 448);

#[derive(Clone, Copy, Default)]
pub struct Cell4K {
    pub mapped: bool,
    /// What the page holds if it is present.
    pub content: Option<u64>,
    pub protected: bool,
    /// What the program thinks it holds.
    pub oracle: u64,
}

pub struct Machine {
    pub cells: RefCell<Vec<Cell4K>>,
    pub prng: RefCell<Prng>,
    pub hazards: RefCell<Vec<Option<PageRange>>>,
    shared: Cell<u32>,
    exclusive: Cell<bool>,
    exclusive_wanted: Cell<u32>,
    pub tasks_left: Cell<u32>,
    faults: Cell<u64>,
    /// Each step takes one poll, and the kernel refuses nothing, but what is said here.
    pub in_lockstep: Cell<bool>,
    /// It protects nothing whole.
    pub refuses_protection: Cell<bool>,
    /// In lockstep, time is what was waited for.
    pub now_ns: Cell<u64>,
}

/// The page that a value stands for: words, every fourth time one word again and again; or for few of them text, which
/// takes more room, or noise.
fn page_of(value: u64) -> Page {
    let mut page = [0; PAGE_BYTES];
    if is_noise(value) {
        let mut prng = Prng::new(value);
        page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&prng.below(u64::MAX).to_le_bytes()));
        page[..8].copy_from_slice(&value.to_le_bytes());
        return page;
    }
    if is_text(value) {
        page[..8].copy_from_slice(&value.to_le_bytes());
        let mut prng = Prng::new(value);
        for word in page[8..].chunks_exact_mut(8) {
            const WORDS: [&[u8; 8]; 5] = [b"compress", b"the page", b" or keep", b" what is", b" written"];
            word.copy_from_slice(WORDS[prng.below(5) as usize]);
            word[prng.below(8) as usize] = b'a' + prng.below(26) as u8;
        }
        return page;
    }
    let word = if value.is_multiple_of(4) { u64::from(value as u32) * 0x1_0000_0001 } else { value };
    for (index, bytes) in page.chunks_exact_mut(8).enumerate() {
        let word = if value.is_multiple_of(4) { word } else { word.wrapping_mul(index as u64 / 40 + 1) };
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    page
}

/// What the codec for words refuses.
pub const fn is_text(value: u64) -> bool {
    value % 512 == 7
}

/// What no codec makes smaller.
pub const fn is_noise(value: u64) -> bool {
    value % 128 == 9
}

fn value_of(page: &Page) -> u64 {
    let word = u64::from_le_bytes(page[..8].try_into().expect("they are eight"));
    let value = if word >> 32 == word & 0xFFFF_FFFF { word & 0xFFFF_FFFF } else { word };
    assert!(*page == page_of(value), "a page is torn");
    value
}

impl Machine {
    pub fn new(seed: u64) -> Machine {
        let mut cells = std::vec![Cell4K::default(); PAGES];
        let mut prng = Prng::new(seed);
        for cell in &mut cells[..MAPPED] {
            cell.mapped = true;
            // What the program had before it was managed.
            if prng.below(2) == 0 {
                cell.oracle = 8 * prng.below(1000) + 1;
                cell.content = Some(cell.oracle);
            }
        }
        Machine {
            cells: RefCell::new(cells),
            prng: RefCell::new(prng),
            hazards: RefCell::default(),
            shared: Cell::new(0),
            exclusive: Cell::new(false),
            exclusive_wanted: Cell::new(0),
            tasks_left: Cell::new(0),
            faults: Cell::new(0),
            in_lockstep: Cell::new(false),
            refuses_protection: Cell::new(false),
            now_ns: Cell::new(0),
        }
    }
    pub fn first(&self) -> PageId {
        FIRST
    }
    pub fn all(&self) -> PageRange {
        PageRange::of_pages(FIRST, MAPPED as u64)
    }
    pub fn faults(&self) -> u64 {
        self.faults.get()
    }
    pub fn note_fault(&self) {
        self.faults.set(self.faults.get() + 1);
    }
    pub fn below(&self, limit: u64) -> u64 {
        self.prng.borrow_mut().below(limit)
    }
    pub fn page(&self, index: usize) -> PageId {
        FIRST.plus(index as u64)
    }
    fn index(&self, page: PageId) -> usize {
        let index = page.since(FIRST) as usize;
        assert!(index < PAGES);
        index
    }
    pub fn cell(&self, index: usize) -> Cell4K {
        self.cells.borrow()[index]
    }
    pub fn change<R>(&self, index: usize, change: impl FnOnce(&mut Cell4K) -> R) -> R {
        change(&mut self.cells.borrow_mut()[index])
    }
    /// What the kernel protects has a word that says so, or that is locked.
    pub fn check_protection(&self, space: &AddressSpace<'_, Machine>, index: usize) {
        let word = space.page_table().word_ref(self.page(index)).map(|slot| slot.load());
        let knows = |word: PageWord| word.is_locked() || word.is_protected();
        assert!(
            !self.cell(index).protected || word.is_none_or(knows),
            "page {index} is protected, and nobody knows"
        );
    }
    /// Each page is where its word says, with the content that the program left.
    pub fn check_all(&self, space: &AddressSpace<'_, Machine>) {
        for (index, cell) in self.cells.borrow().iter().enumerate() {
            let word = space.page_table().word_ref(self.page(index)).map(|slot| slot.load());
            let Some(word) = word.filter(|word| word.is_managed()) else {
                assert!(!cell.mapped, "a mapped page has no word");
                continue;
            };
            assert!(!word.is_locked());
            assert!(word.isolated_by().is_none(), "an evictor has forgotten page {index}");
            if let Some(value) = cell.content {
                assert_eq!(value, cell.oracle);
                self.check_protection(space, index);
            }
        }
    }
    pub async fn lock_exclusive(&self) {
        self.exclusive_wanted.set(self.exclusive_wanted.get() + 1);
        poll_fn(|_| match self.exclusive.get() || self.shared.get() > 0 {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        self.exclusive_wanted.set(self.exclusive_wanted.get() - 1);
        self.exclusive.set(true);
    }
    pub fn unlock_exclusive(&self) {
        assert!(self.exclusive.replace(false));
    }
}

impl Memory for Machine {
    fn present(&self, first: PageId, count: u32) -> u64 {
        assert!(self.shared.get() > 0);
        (0..count)
            .filter(|&ahead| {
                let index = first.plus(u64::from(ahead)).number().wrapping_sub(FIRST.number()) as usize;
                index < PAGES && self.cell(index).content.is_some()
            })
            .fold(0, |mask, ahead| mask | 1 << ahead)
    }
    fn held_in_block(&self, first: PageId) -> Option<BlockBits> {
        let mut bits: BlockBits = [0; _];
        for (index, word) in bits.iter_mut().enumerate() {
            *word = self.present(first.plus(index as u64 * 64), 64);
        }
        Some(bits)
    }
    fn read(&self, page: PageId, content: &mut Page) {
        assert!(self.shared.get() > 0);
        *content = page_of(self.cell(self.index(page)).content.expect("what is read is present"));
    }
    fn fill(&self, page: PageId, contents: &[Page], access: FillAs) -> Filled {
        assert!(self.shared.get() > 0);
        for (done, content) in contents.iter().enumerate() {
            let last = self.change(self.index(page) + done, |cell| match cell {
                Cell4K { mapped: false, .. } => Install::NotMapped,
                Cell4K { content: Some(_), .. } => Install::AlreadyMapped,
                _ => {
                    (cell.content, cell.protected) = (Some(value_of(content)), access == FillAs::Protected);
                    Install::Done
                }
            });
            if last != Install::Done {
                return Filled { pages: done as u32, last };
            }
        }
        Filled { pages: contents.len() as u32, last: Install::Done }
    }
    fn zero(&self, page: PageId, count: u32, _: Touch) -> Filled {
        let zeros = std::vec![page_of(0); count as usize];
        self.fill(page, &zeros, FillAs::Writable)
    }
    fn zero_pages(&self, first: PageId, count: u32) -> u64 {
        let is_zeros = |ahead: &u32| {
            self.cell(self.index(first) + *ahead as usize).content == Some(value_of(&page_of(0)))
        };
        (0..count).filter(is_zeros).fold(0, |mask, ahead| mask | 1 << ahead)
    }
    fn protect(&self, range: PageRange) -> bool {
        assert!(self.shared.get() > 0);
        // Now and then the kernel refuses, with the work half done.
        let by_chance = !self.in_lockstep.get() && self.below(20) == 0;
        let refuses = by_chance || self.refuses_protection.get();
        let end = if refuses { range.start().plus(range.pages() / 2) } else { range.end() };
        for page in PageId::each(range.start()..end) {
            self.change(self.index(page), |cell| cell.protected |= cell.content.is_some());
        }
        !refuses
    }
    fn unprotect(&self, range: PageRange) {
        for page in range.each() {
            self.change(self.index(page), |cell| cell.protected = false);
        }
    }
    fn drop_pages(&self, ranges: &[PageRange]) -> usize {
        assert!(self.shared.get() > 0);
        let refuses = !self.in_lockstep.get() && self.below(10) == 0;
        let count = if refuses { ranges.len() / 2 } else { ranges.len() };
        for range in &ranges[..count] {
            for page in range.each() {
                self.change(self.index(page), |cell| {
                    let content = cell.content.take();
                    assert_eq!(content, Some(cell.oracle), "what is dropped is not what the program has");
                    cell.protected = false;
                });
            }
        }
        count
    }
}

impl Hazards for Machine {
    fn membarrier(&self) {}
    fn names(&self, page: PageId) -> bool {
        self.hazards.borrow().iter().flatten().any(|range| range.contains(page))
    }
}

impl Gate for Machine {
    async fn lock_shared(&self) {
        poll_fn(|_| match self.exclusive.get() || self.exclusive_wanted.get() > 0 {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        self.shared.set(self.shared.get() + 1);
    }
    fn unlock_shared(&self) {
        self.shared.set(self.shared.get() - 1);
    }
    async fn wait_while(&self, word: &AtomicU32, seen: u32) {
        // A lost wake-up shows: the seed never comes to its end.
        poll_fn(|_| match word.load(Ordering::Relaxed) == seen {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
    fn wake(&self, _: &AtomicU32) {}
}

impl Backing for Machine {
    fn release_zspage(&self, _: ZspageId) {}
    async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
        panic!("there is no file")
    }
    async fn pause(&self) {
        self.step().await;
    }
    async fn step(&self) {
        // Now and then somebody gets no processor while others do all of their work.
        let mut left = match self.in_lockstep.get() {
            true => 1,
            false if self.below(50) == 0 => self.below(400),
            false => self.below(3),
        };
        poll_fn(|_| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            Poll::Pending
        })
        .await;
    }
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
    fn raise(&self, _: Signal) {}
    async fn wait(&self, _: Signal, _: u32, at_most_ns: u64) {
        if self.in_lockstep.get() {
            self.now_ns.set(self.now_ns.get() + at_most_ns);
        }
        self.step().await;
    }
}
