//! Which pages of a range are present, or at least there.
//!
//! Called by [`crate::probe`], and by `host`, for evictors and for a process that is taken in while it runs.
//! PAGEMAP_SCAN costs 5-11 ns a page; on kernels before 6.7 the pagemap file is read instead.
//!
//! Must hold: whoever asks whether content is somewhere asks for [`PageQuery::Held`]. While the kernel moves a page to
//! other memory (compaction does, for each huge page that is wanted), and for as long as it has swapped the page, the
//! page is not present, and yet it is there.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::PAGE_BYTES;
use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};
use crate::without::{KernelFeature, is_switched_off};

/// Pages of one question.
pub const PAGES_MAX: usize = 512;

/// Bit `i % 64` of word `i / 64` says whether page `i` of the range is present.
pub type PageBits = [u64; PAGES_MAX / 64];

const PAGEMAP_SCAN: u32 = sys::ioctl_read_write(b'f', 16, size_of::<abi::pm_scan_arg>());

/// Regions fetched by one call: 64 * 24 bytes of stack. A range with more holes takes more calls.
const REGIONS_MAX: usize = 64;

/// In the topmost byte of a word of the pagemap file: bits 63, 62, 58, 57, and 56 (of this process alone).
const PRESENT: u8 = 0x80;
const SWAPPED: u8 = 0x40;
const GUARD: u8 = 0x04;
const PROTECTED: u8 = 0x02;
const EXCLUSIVE: u8 = 0x01;

/// What the kernel says of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageState {
    /// Its place is not empty ([`PageQuery::Held`]).
    pub is_held: bool,
    /// A userfaultfd protects it against writing. Kernels before 5.14 do not tell.
    pub is_protected: bool,
}

/// Which pages are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageQuery {
    /// Those that a touch would not fault in, the shared zero page too.
    Present,
    /// Those that are part of a huge page which is mapped as one.
    Huge,
    /// Those whose place is not empty: also pages that the kernel is just moving to other memory or has swapped, and
    /// marks.
    Held,
    /// Those where the kernel's shared page of zeros is mapped.
    ZeroPage,
    /// Those that the program has guarded (MADV_GUARD_INSTALL).
    Guard,
}

impl PageQuery {
    const fn categories(self) -> u64 {
        match self {
            PageQuery::Present => abi::PAGE_IS_PRESENT as u64,
            PageQuery::Huge => abi::PAGE_IS_HUGE as u64,
            PageQuery::Held => abi::PAGE_IS_PRESENT as u64 | abi::PAGE_IS_SWAPPED as u64,
            PageQuery::ZeroPage => abi::PAGE_IS_PFNZERO as u64,
            PageQuery::Guard => abi::PAGE_IS_GUARD as u64,
        }
    }
    /// By the topmost byte of a word of the pagemap file.
    const fn is_told_by(self, top: u8) -> bool {
        match self {
            PageQuery::Present => top & PRESENT != 0,
            // The file does not tell.
            PageQuery::Huge => false,
            PageQuery::Held => top & (PRESENT | SWAPPED) != 0,
            PageQuery::ZeroPage => top & (PRESENT | EXCLUSIVE) == PRESENT,
            // From Linux 6.15 on.
            PageQuery::Guard => top & GUARD != 0,
        }
    }
}

/// An open `/proc/self/pagemap`.
#[derive(Debug)]
pub struct Pagemap {
    file: Fd,
    scan_missing: AtomicBool,
}

impl Pagemap {
    /// Opens it for this process. Threads of one process may share it.
    pub fn open() -> Result<Pagemap> {
        Ok(Pagemap {
            file: Fd::open(c"/proc/self/pagemap", abi::O_RDONLY, 0)?,
            scan_missing: AtomicBool::new(false),
        })
    }

    /// [`Pagemap::open`], through a descriptor that `keep` may give another number.
    pub fn open_as(keep: fn(Fd) -> Result<Fd>) -> Result<Pagemap> {
        let Pagemap { file, scan_missing } = Pagemap::open()?;
        Ok(Pagemap { file: keep(file)?, scan_missing })
    }

    /// Those of `page_count` pages (at most [`PAGES_MAX`]) from `start` on, a multiple of 4096, that are present.
    pub fn present(&self, start: usize, page_count: usize) -> Result<PageBits> {
        self.look(start, page_count, PageQuery::Present)
    }

    /// The same for those that are there at all.
    pub fn held(&self, start: usize, page_count: usize) -> Result<PageBits> {
        self.look(start, page_count, PageQuery::Held)
    }

    /// The same for those where the kernel's page of zeros is mapped, among private anonymous pages that this process
    /// shares with no other: on kernels before 6.7 a page that it shares with a forked relative looks alike.
    pub fn zero_pages(&self, start: usize, page_count: usize) -> Result<PageBits> {
        self.look(start, page_count, PageQuery::ZeroPage)
    }

    /// Looks at the page at `start`, a multiple of 4096.
    pub fn look_at(&self, start: usize) -> Result<PageState> {
        let mut word = [0u8; 8];
        match self.file.pread(&mut word, (start / PAGE_BYTES * 8) as u64)? {
            8 => Ok(PageState {
                is_held: PageQuery::Held.is_told_by(word[7]),
                is_protected: word[7] & PROTECTED != 0,
            }),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Calls `visit` with start and end of each run of pages in `range` that the program has guarded. EINVAL, ENOTTY:
    /// the kernel is older than 6.16, and does not tell.
    pub fn for_each_guard(&self, range: Range<usize>, mut visit: impl FnMut(usize, usize)) -> Result<()> {
        let (mut at, end) = (range.start as u64, range.end as u64);
        while at < end {
            let mut regions = [abi::page_region { start: 0, end: 0, categories: 0 }; REGIONS_MAX];
            let (count, walk_end) = self.scan(at, end, &mut regions, 0, PageQuery::Guard)?;
            for region in regions.iter().take(count) {
                visit(region.start as usize, region.end as usize);
            }
            if walk_end <= at {
                break;
            }
            at = walk_end;
        }
        Ok(())
    }

    fn look(&self, start: usize, page_count: usize, what: PageQuery) -> Result<PageBits> {
        if page_count > PAGES_MAX || !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::EINVAL);
        }
        // Relaxed: only saves calls that would fail again.
        if !self.scan_missing.load(Ordering::Relaxed) {
            match self.look_by_scan(start, page_count, what) {
                Err(Errno::ENOTTY | Errno::EINVAL | Errno::ENOSYS) => {
                    self.scan_missing.store(true, Ordering::Relaxed)
                }
                answer => return answer,
            }
        }
        self.look_by_read(start, page_count, what)
    }

    /// [`Pagemap::present`] and [`Pagemap::held`] by the ioctl. ENOTTY on kernels that do not know it.
    pub fn look_by_scan(&self, start: usize, page_count: usize, what: PageQuery) -> Result<PageBits> {
        let mut bits: PageBits = [0; PAGES_MAX / 64];
        let end = (start + page_count.min(PAGES_MAX) * PAGE_BYTES) as u64;
        let mut at = start as u64;
        while at < end {
            let mut regions = [abi::page_region { start: 0, end: 0, categories: 0 }; REGIONS_MAX];
            let (count, walk_end) = self.scan(at, end, &mut regions, 0, what)?;
            for region in regions.iter().take(count) {
                let first = region.start.saturating_sub(start as u64) as usize / PAGE_BYTES;
                let behind = region.end.saturating_sub(start as u64) as usize / PAGE_BYTES;
                set_bits(&mut bits, first, behind);
            }
            if walk_end <= at {
                break;
            }
            at = walk_end;
        }
        Ok(bits)
    }

    /// One PAGEMAP_SCAN: how many regions were filled in, and where the walk ended. `pages_max` 0: no limit.
    fn scan(
        &self,
        start: u64,
        end: u64,
        regions: &mut [abi::page_region],
        pages_max: u64,
        what: PageQuery,
    ) -> Result<(usize, u64)> {
        if is_switched_off(KernelFeature::PagemapScan) {
            return Err(Errno::ENOTTY);
        }
        let mut request = abi::pm_scan_arg {
            size: size_of::<abi::pm_scan_arg>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            max_pages: pages_max,
            category_inverted: 0,
            category_mask: 0,
            category_anyof_mask: what.categories(),
            return_mask: what.categories(),
        };
        // SAFETY:
        // 1. The request takes this structure; `vec` names `vec_len` regions of the kernel's layout that the caller
        //    lends exclusively.
        // 2. Without PM_SCAN_WP_MATCHING it changes no page.
        let count = unsafe { sys::ioctl(self.file.raw(), PAGEMAP_SCAN, &mut request) }?;
        Ok((count, request.walk_end))
    }

    /// [`Pagemap::present`] and [`Pagemap::held`] by reading the file: 8 bytes a page.
    pub fn look_by_read(&self, start: usize, page_count: usize, what: PageQuery) -> Result<PageBits> {
        let mut bits: PageBits = [0; PAGES_MAX / 64];
        let page_count = page_count.min(PAGES_MAX);
        let mut buffer = [0u8; 64 * 8];
        let mut page = 0;
        while page < page_count {
            let wanted = (page_count - page).min(64) * 8;
            let offset = (start / PAGE_BYTES + page) as u64 * 8;
            let bytes = self.file.pread(&mut buffer[..wanted], offset)?;
            if bytes < 8 {
                break;
            }
            for word in buffer[..bytes].chunks_exact(8) {
                if what.is_told_by(word[7]) {
                    set_bits(&mut bits, page, page + 1);
                }
                page += 1;
            }
        }
        Ok(bits)
    }
}

fn set_bits(bits: &mut PageBits, first: usize, behind: usize) {
    for page in first..behind.min(PAGES_MAX) {
        bits[page / 64] |= 1 << (page % 64);
    }
}
