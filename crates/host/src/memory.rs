//! The engine's world: the memory of this process, on Linux.
//!
//! Must hold: each call does all that it says or reports how far it came; a range is never dropped in part. Called by
//! the engine, through its traits; [`crate::joining`] and [`crate::process`] make the value.

use crate::address_space::ADDRESSES_END;
use crate::messages::stop_program;
use crate::supervisor;
use crate::swap_files::OpenFiles;
use uswap_codec::Page;
use uswap_core::budget::Signal;
use uswap_core::pool::{Pool, ZSPAGE_BYTES};
use uswap_core::segment::Segment;
use uswap_engine::world::{
    Backing, BlockBits, FileBuffer, FileError, FillAs, Filled, Gate, Hazards, Install, Memory, Touch,
};
use uswap_interpose::buffers::{HazardTable, asymmetric_fence_heavy};
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_os::maps::Maps;
use uswap_os::pagemap::{PAGES_MAX, PageBits, Pagemap};
use uswap_os::uffd::{Mode, Stop, Uffd};
use uswap_os::{Errno, clock, memory, protection_keys, thread};
use uswap_sync::AtomicU32;
use uswap_units::{PAGE_BYTES, PageId, PageRange, SwapOffset, ZspageId};

/// Before a file is read again that could not be read.
const PAUSE_NS: u64 = 1_000_000;

/// What the engine of this process works on.
pub struct LinuxWorld {
    /// Who changes mappings.
    pub gate: &'static uswap_os::gate::Gate,
    /// What calls under way have named.
    pub hazards: &'static HazardTable<'static>,
    /// The program's ranges are registered with it.
    pub uffd: Uffd,
    /// Tells what is present.
    pub pagemap: Pagemap,
    /// Tells what is mapped.
    pub maps: Maps,
    /// Swap files of the run.
    pub files: OpenFiles,
    /// The segment of the run, in the name of this process.
    pub segment: Segment<'static>,
    /// Where the segment is mapped.
    pub segment_start: usize,
    /// Many ranges are dropped with one call.
    pub drops_ranges: bool,
}

/// Fresh pages that are filled together at most. They are part of the library, and shared by all processes.
static ZEROS: [Page; 16] = [[0; PAGE_BYTES]; 16];

fn install_of(stop: Option<Stop>) -> Install {
    match stop {
        None => Install::Done,
        Some(Stop::AlreadyMapped) => Install::AlreadyMapped,
        Some(Stop::Retry | Stop::Other(Errno::ENOMEM)) => {
            // No memory for the page just now.
            thread::yield_now();
            Install::NotMapped
        }
        Some(Stop::Refused | Stop::Other(_)) => Install::NotMapped,
    }
}

impl Memory for LinuxWorld {
    fn present(&self, first: PageId, count: u32) -> u64 {
        match self.pagemap.present(first.address() as usize, count as usize) {
            Ok(bits) => bits[0],
            // Nothing is taken of what cannot be told.
            Err(_) => 0,
        }
    }

    fn held_in_block(&self, first: PageId) -> Option<BlockBits> {
        const _: () = assert!(size_of::<BlockBits>() == size_of::<PageBits>());
        let start = first.address() as usize;
        // The kernel tells nothing of the last page that a program may have, nor of what lies beside it.
        let count = PAGES_MAX.min((ADDRESSES_END - PAGE_BYTES - start) / PAGE_BYTES);
        self.pagemap.held(start, count).ok()
    }

    fn read(&self, page: PageId, content: &mut Page) {
        // The key that the program has given it, if any, may deny it to this thread.
        let is_read =
            protection_keys::with_all(|| crate::program_copy::read(page.address() as usize, content));
        assert!(is_read, "a page that is isolated is mapped and may be read");
    }

    fn fill(&self, page: PageId, contents: &[Page], access: FillAs) -> Filled {
        let target = page.address() as usize;
        let progress = match access {
            FillAs::Writable => self.uffd.copy_pages(target, contents),
            FillAs::Protected => self.uffd.copy_pages_protected(target, contents),
        };
        Filled { pages: (progress.bytes_done / PAGE_BYTES) as u32, last: install_of(progress.stop) }
    }

    fn zero(&self, page: PageId, count: u32, touch: Touch) -> Filled {
        let (target, bytes) = (page.address() as usize, count as usize * PAGE_BYTES);
        let progress = match touch {
            // The kernel's own page of zeros: a first write copies it, and is no fault of ours.
            Touch::Read => self.uffd.zeropage(target, bytes),
            Touch::Write => {
                let count = (count as usize).min(ZEROS.len());
                self.uffd.copy_pages(target, &ZEROS[..count])
            }
        };
        Filled { pages: (progress.bytes_done / PAGE_BYTES) as u32, last: install_of(progress.stop) }
    }

    fn zero_pages(&self, first: PageId, count: u32) -> u64 {
        match self.pagemap.zero_pages(first.address() as usize, count as usize) {
            Ok(bits) => bits[0],
            // They take memory, as far as is known.
            Err(_) => 0,
        }
    }

    fn protect(&self, range: PageRange) -> bool {
        let addresses = range.addresses();
        self.uffd.write_protect(addresses.start, addresses.len()).is_done()
    }

    fn unprotect(&self, range: PageRange) {
        let addresses = range.addresses();
        while let Some(Stop::Retry) = self.uffd.write_unprotect(addresses.start, addresses.len()).stop {
            thread::yield_now();
        }
    }

    fn drop_pages(&self, ranges: &[PageRange]) -> usize {
        if self.drops_ranges { self.drop_together(ranges) } else { self.drop_one_by_one(ranges) }
    }
}

impl LinuxWorld {
    /// Faults of a range come to us from now on: where a page is missing, and where one that is protected is written.
    pub(crate) fn register(&self, range: PageRange) -> Result<(), Errno> {
        let addresses = range.addresses();
        self.uffd.register(addresses.start, addresses.len(), Mode::MissingAndProtected)
    }

    fn drop_one_by_one(&self, ranges: &[PageRange]) -> usize {
        let refused = ranges.iter().position(|&range| {
            let addresses = range.addresses();
            // SAFETY:
            // 1. The engine has stored the content and holds the locks of the words: nobody needs the pages.
            unsafe { memory::drop_pages(addresses.start, addresses.len()) }.is_err()
        });
        let count = refused.unwrap_or(ranges.len());
        if let Some(&left) = ranges.get(count) {
            self.must_be_whole(left);
        }
        count
    }

    fn drop_together(&self, ranges: &[PageRange]) -> usize {
        let mut count = 0;
        let mut list = [[0; 2]; memory::DROP_RANGES_MAX];
        while count < ranges.len() {
            let part = &ranges[count..ranges.len().min(count + list.len())];
            for (entry, &range) in list.iter_mut().zip(part) {
                let addresses = range.addresses();
                *entry = [addresses.start, addresses.len()];
            }
            // SAFETY:
            // 1. The engine has stored the content and holds the locks of the words: nobody needs the pages.
            let mut done = unsafe { memory::drop_ranges(&list[..part.len()]) }.unwrap_or(0);
            let before = count;
            while count < ranges.len() && done >= ranges[count].addresses().len() {
                done -= ranges[count].addresses().len();
                count += 1;
            }
            if count == before {
                self.must_be_whole(ranges[count]);
                break;
            }
        }
        count
    }

    /// The kernel has refused to drop a range. If it has dropped a part of it, content is where no word says. A page
    /// that the kernel is just moving, or has swapped, is there.
    fn must_be_whole(&self, range: PageRange) {
        let mut page = range.start();
        while page < range.end() {
            let count = range.end().since(page).min(64);
            let all = u64::MAX >> (64 - count);
            let held = self.pagemap.held(page.address() as usize, count as usize);
            if !held.is_ok_and(|bits| bits[0] & all == all) {
                stop_program(
                    format_args!("the kernel dropped a part of what it refused to drop"),
                    "No kernel is known to do that: please report it, with its version (uname -r)",
                );
            }
            page = page.plus(count);
        }
    }
}

impl Hazards for LinuxWorld {
    fn membarrier(&self) {
        asymmetric_fence_heavy();
    }
    fn names(&self, page: PageId) -> bool {
        let (start, end) = (page.address(), page.address() + PAGE_BYTES as u64);
        let mut is_named = false;
        for index in 0..uswap_interpose::thread::slots_used_max() {
            let slot = self.hazards.slot(index);
            slot.for_each(&mut |from, to| is_named |= from < end && start < to);
        }
        is_named
    }
}

impl Gate for LinuxWorld {
    async fn lock_shared(&self) {
        core::mem::forget(self.gate.shared());
    }
    fn unlock_shared(&self) {
        self.gate.unlock_shared_forgotten();
    }
    async fn wait_while(&self, word: &AtomicU32, seen: u32) {
        // Who would wake us may have been killed in a child that shares this memory.
        futex::wait(word, seen, Timeout::Nanoseconds(100_000_000), Scope::Private);
    }
    fn wake(&self, word: &AtomicU32) {
        futex::wake(word, u32::MAX, Scope::Private);
    }
}

impl Backing for LinuxWorld {
    fn release_zspage(&self, zspage: ZspageId) {
        let offset = self.segment.layout().pool_offset_bytes() + Pool::data_offset_bytes(zspage);
        // SAFETY:
        // 1. The range lies inside the segment: the zspage number is below the pool's count.
        // 2. The zspage is marked as being released: no cell of it is in use, and nobody may take it before `released`.
        let removed = unsafe { memory::remove_pages(self.segment_start + offset as usize, ZSPAGE_BYTES) };
        debug_assert!(removed.is_ok());
    }
    async fn read_file(
        &self,
        offset: SwapOffset,
        bytes: usize,
        buffer: &mut FileBuffer,
    ) -> Result<(), FileError> {
        self.files.read(offset, bytes, buffer)
    }
    async fn pause(&self) {
        clock::sleep_ns(PAUSE_NS);
    }
    async fn step(&self) {}
    fn now_ns(&self) -> u64 {
        clock::engine_now_ns()
    }
    fn raise(&self, signal: Signal) {
        supervisor::raise(&self.segment, signal);
    }
    async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        let word = self.segment.budget().signal_word(signal);
        futex::wait_low(word, seen, Timeout::Nanoseconds(timeout_ns), Scope::Shared);
    }
}
