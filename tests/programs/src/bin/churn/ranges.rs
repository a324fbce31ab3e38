//! Operations that make, cut, move, protect and drop ranges.

use crate::table::{Origin, PAGES_MAX, RECORDS, Record, Word};
use crate::worker::Worker;
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory;

/// A number of pages from 1 to `PAGES_MAX`, small ones as likely as large ones on a scale of doublings, and not more
/// than a quarter of what the thread may own.
fn random_pages(worker: &mut Worker) -> usize {
    let limit = (worker.common.bytes_per_thread / PAGE_BYTES / 4).clamp(1, PAGES_MAX);
    let ceiling = 1usize << worker.random.index(13);
    (ceiling + worker.random.index(ceiling)).clamp(1, limit)
}

pub fn map_new(worker: &mut Worker) {
    if worker.table.free_record().is_none() {
        return unmap_whole(worker);
    }
    let pages = random_pages(worker);
    let flags = if worker.random.one_in(4) { libc::MAP_NORESERVE } else { 0 };
    let address = memory::map_private(pages * PAGE_BYTES, flags)
        .unwrap_or_else(|error| worker.fail("mmap failed, errno", error.into()));
    if worker.random.one_in(8) {
        // Large folios: refused on kernels without them, and then it changes nothing.
        let _ = memory::advise(address, pages * PAGE_BYTES, libc::MADV_HUGEPAGE);
    }
    let record =
        worker.table.add(Origin::Mapping, address, pages, Word::ZERO).expect("a free record was seen");
    fill(worker, record);
}

pub fn malloc_new(worker: &mut Worker) {
    if worker.table.free_record().is_none() {
        return unmap_whole(worker);
    }
    let pages = random_pages(worker);
    // SAFETY:
    // 1. malloc has no precondition; a null answer is checked below.
    let address = unsafe { libc::malloc(pages * PAGE_BYTES) } as usize;
    if address == 0 {
        worker.fail("malloc failed for pages", pages as i64);
    }
    let record =
        worker.table.add(Origin::Malloc, address, pages, Word::UNKNOWN).expect("a free record was seen");
    fill(worker, record);
}

/// Writes most of the pages of a new range, or in one of eight ranges none.
fn fill(worker: &mut Worker, record: usize) {
    if worker.random.one_in(8) {
        return;
    }
    for page in 0..worker.table.records[record].pages as usize {
        if !worker.random.one_in(10) {
            worker.write_page(record, page);
        }
    }
}

pub fn realloc_one(worker: &mut Worker) {
    let Some(index) = worker.any_record(Some(Origin::Malloc)) else { return };
    let record = worker.table.records[index];
    let pages = random_pages(worker);
    // SAFETY:
    // 1. The record of origin Malloc holds an address that malloc or realloc gave and that was not freed since.
    let address = unsafe { libc::realloc(record.address as *mut libc::c_void, pages * PAGE_BYTES) } as usize;
    if address == 0 {
        worker.fail("realloc failed for pages", pages as i64);
    }
    worker.table.resize(index, address, pages, Word::UNKNOWN);
    let kept = record.pages.min(pages as u32) as usize;
    for page in (0..kept).step_by(7) {
        worker.verify_page(index, page);
    }
}

pub fn unmap_whole(worker: &mut Worker) {
    if let Some(record) = worker.any_record(None) {
        give_back(worker, record);
    }
}

fn give_back(worker: &mut Worker, index: usize) {
    let record = worker.table.records[index];
    match record.origin {
        Origin::Nothing => return,
        Origin::Mapping => memory::unmap(record.address, record.bytes())
            .unwrap_or_else(|error| worker.fail("munmap failed, errno", error.into())),
        // SAFETY:
        // 1. The record of origin Malloc holds an address that malloc or realloc gave and that was not freed since.
        Origin::Malloc => unsafe { libc::free(record.address as *mut libc::c_void) },
    }
    worker.table.remove(index);
}

/// Gives everything back at the end of the run.
pub fn give_all_back(worker: &mut Worker) {
    for index in 0..RECORDS {
        give_back(worker, index);
    }
}

pub fn unmap_part(worker: &mut Worker) {
    let Some(index) = worker.any_record(Some(Origin::Mapping)) else { return };
    let (start, end) = worker.any_part(index, PAGES_MAX);
    let record = worker.table.records[index];
    if end < record.pages as usize && worker.table.free_record().is_none() {
        return;
    }
    memory::unmap(record.page_address(start), (end - start) * PAGE_BYTES)
        .unwrap_or_else(|error| worker.fail("munmap of a part failed, errno", error.into()));
    worker.table.cut(index, start, end);
}

/// A mapping that mremap takes: its protection was never changed in part.
fn any_unsplit(worker: &mut Worker) -> Option<usize> {
    let index = worker.any_record(Some(Origin::Mapping))?;
    (!worker.table.records[index].split).then_some(index)
}

/// Gives a whole range its normal protection back.
pub fn unprotect_whole(worker: &mut Worker) {
    let Some(index) = worker.any_record(Some(Origin::Mapping)) else { return };
    let record = worker.table.records[index];
    memory::protect(record.address, record.bytes(), libc::PROT_READ | libc::PROT_WRITE)
        .unwrap_or_else(|error| worker.fail("mprotect back failed, errno", error.into()));
    for word in worker.table.words(index) {
        *word = word.with_access(0);
    }
}

pub fn protect_part(worker: &mut Worker) {
    let Some(index) = worker.any_record(Some(Origin::Mapping)) else { return };
    let (start, end) = worker.any_part(index, 512);
    let record = worker.table.records[index];
    let (protection, bits) = match worker.random.below(3) {
        0 => (libc::PROT_NONE, Word::NO_ACCESS),
        1 => (libc::PROT_READ, Word::READ_ONLY),
        _ => (libc::PROT_READ | libc::PROT_WRITE, 0),
    };
    memory::protect(record.page_address(start), (end - start) * PAGE_BYTES, protection)
        .unwrap_or_else(|error| worker.fail("mprotect failed, errno", error.into()));
    worker.table.records[index].split = true;
    for word in &mut worker.table.words(index)[start..end] {
        *word = word.with_access(bits);
    }
}

pub fn drop_part(worker: &mut Worker) {
    let Some(index) = worker.any_record(Some(Origin::Mapping)) else { return };
    let (start, end) = worker.any_part(index, 1024);
    let record = worker.table.records[index];
    memory::advise(record.page_address(start), (end - start) * PAGE_BYTES, libc::MADV_DONTNEED)
        .unwrap_or_else(|error| worker.fail("MADV_DONTNEED failed, errno", error.into()));
    for word in &mut worker.table.words(index)[start..end] {
        *word = Word::ZERO.with_access_of(*word);
    }
    let page = start + worker.random.index(end - start);
    worker.verify_page(index, page);
}

pub fn free_part(worker: &mut Worker) {
    let Some(index) = worker.any_record(Some(Origin::Mapping)) else { return };
    let (start, end) = worker.any_part(index, 1024);
    let record = worker.table.records[index];
    memory::advise(record.page_address(start), (end - start) * PAGE_BYTES, libc::MADV_FREE)
        .unwrap_or_else(|error| worker.fail("MADV_FREE failed, errno", error.into()));
    for word in &mut worker.table.words(index)[start..end] {
        *word = word.freed();
    }
}

pub fn remap_resize(worker: &mut Worker) {
    let Some(index) = any_unsplit(worker) else { return };
    let pages = random_pages(worker);
    let record = worker.table.records[index];
    let address = memory::remap(record.address, record.bytes(), pages * PAGE_BYTES, libc::MREMAP_MAYMOVE, 0)
        .unwrap_or_else(|error| {
            fail_with_mappings(worker, record, "mremap to another size failed, errno", error)
        });
    worker.table.resize(index, address, pages, Word::ZERO);
    verify_some(worker, index);
}

pub fn remap_move(worker: &mut Worker) {
    let Some(index) = any_unsplit(worker) else { return };
    let record = worker.table.records[index];
    let target = memory::map(0, record.bytes(), libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
        .unwrap_or_else(|error| worker.fail("mmap of a target failed, errno", error.into()));
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let address = memory::remap(record.address, record.bytes(), record.bytes(), flags, target)
        .unwrap_or_else(|error| {
            fail_with_mappings(worker, record, "mremap to a fixed place failed, errno", error)
        });
    worker.table.resize(index, address, record.pages as usize, Word::ZERO);
    verify_some(worker, index);
}

/// MREMAP_DONTUNMAP: the content moves, the old range stays and reads as zeros.
pub fn remap_leave_old(worker: &mut Worker) {
    let Some(index) = any_unsplit(worker) else { return };
    if worker.table.free_record().is_none() {
        return;
    }
    let record = worker.table.records[index];
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    let address =
        memory::remap(record.address, record.bytes(), record.bytes(), flags, 0).unwrap_or_else(|error| {
            fail_with_mappings(worker, record, "mremap that leaves the old range failed, errno", error)
        });
    let pages = record.pages as usize;
    worker.table.resize(index, address, pages, Word::ZERO);
    let old =
        worker.table.add(Origin::Mapping, record.address, pages, Word::ZERO).expect("a free record was seen");
    verify_some(worker, index);
    verify_some(worker, old);
}

/// Ends the process; says too what the kernel has mapped there, since a call like mremap wants one mapping.
fn fail_with_mappings(worker: &Worker, record: Record, what: &str, error: i32) -> ! {
    let end = record.address + record.bytes();
    let touches = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        range.is_some_and(|(from, to)| number(from) <= end && number(to) >= record.address)
    };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    eprintln!("{:x}-{end:x} lies in:", record.address);
    maps.lines().filter(touches).for_each(|line| eprintln!("{line}"));
    worker.fail(what, error.into());
}

fn verify_some(worker: &mut Worker, index: usize) {
    for _ in 0..8 {
        let (page, _) = worker.any_part(index, 1);
        worker.verify_page(index, page);
    }
}
