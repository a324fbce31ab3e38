//! Which pages of a range are present.
//!
//! Asked after a batch was moved: what arrived? PAGEMAP_SCAN costs 5-11 ns a page; on kernels before 6.7 the pagemap file is read instead.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::PAGE_BYTES;
use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};

/// Pages of one question.
pub const PAGES_MAX: usize = 512;

/// Bit `i % 64` of word `i / 64` says whether page `i` of the range is present.
pub type PageBits = [u64; PAGES_MAX / 64];

const PAGEMAP_SCAN: u32 = sys::ioctl_read_write(b'f', 16, size_of::<abi::pm_scan_arg>());

/// Regions fetched by one call: 64 * 24 bytes of stack. A range with more holes takes more calls.
const REGIONS_MAX: usize = 64;

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

    /// The present pages of `page_count` pages (at most [`PAGES_MAX`]) from `start` on, a multiple of 4096.
    ///
    /// Present are pages that a touch would not fault in, the shared zero page too; not those that the kernel swapped.
    pub fn present(&self, start: usize, page_count: usize) -> Result<PageBits> {
        if page_count > PAGES_MAX || !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::EINVAL);
        }
        // Relaxed: only saves calls that would fail again.
        if !self.scan_missing.load(Ordering::Relaxed) {
            match self.present_by_scan(start, page_count) {
                Err(Errno::ENOTTY | Errno::EINVAL | Errno::ENOSYS) => {
                    self.scan_missing.store(true, Ordering::Relaxed)
                }
                answer => return answer,
            }
        }
        self.present_by_read(start, page_count)
    }

    /// [`Pagemap::present`] by the ioctl. ENOTTY on kernels that do not know it.
    pub fn present_by_scan(&self, start: usize, page_count: usize) -> Result<PageBits> {
        let mut bits: PageBits = [0; PAGES_MAX / 64];
        let end = (start + page_count.min(PAGES_MAX) * PAGE_BYTES) as u64;
        let mut at = start as u64;
        while at < end {
            let mut regions = [abi::page_region { start: 0, end: 0, categories: 0 }; REGIONS_MAX];
            let (count, walk_end) = self.scan(at, end, &mut regions, 0)?;
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

    /// The first present page at `start` or behind it, before `end`; its address. `Ok(None)`: there is none. ENOTTY on kernels before 6.7.
    pub fn next_present(&self, start: usize, end: usize) -> Result<Option<usize>> {
        let mut regions = [abi::page_region { start: 0, end: 0, categories: 0 }];
        let (count, _) = self.scan(start as u64, end as u64, &mut regions, 1)?;
        Ok((count > 0).then_some(regions[0].start as usize))
    }

    /// One PAGEMAP_SCAN for present pages: how many regions were filled in, and where the walk ended. `pages_max` 0: no limit.
    fn scan(
        &self,
        start: u64,
        end: u64,
        regions: &mut [abi::page_region],
        pages_max: u64,
    ) -> Result<(usize, u64)> {
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
            category_mask: abi::PAGE_IS_PRESENT as u64,
            category_anyof_mask: 0,
            return_mask: abi::PAGE_IS_PRESENT as u64,
        };
        // SAFETY:
        // 1. The request takes this structure; `vec` names `vec_len` regions of the kernel's layout that the caller lends exclusively.
        // 2. Without PM_SCAN_WP_MATCHING it changes no page.
        let count = unsafe { sys::ioctl(self.file.raw(), PAGEMAP_SCAN, &mut request) }?;
        Ok((count, request.walk_end))
    }

    /// [`Pagemap::present`] by reading the file: 8 bytes a page, bit 63 says present.
    pub fn present_by_read(&self, start: usize, page_count: usize) -> Result<PageBits> {
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
                if word[7] & 0x80 != 0 {
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
