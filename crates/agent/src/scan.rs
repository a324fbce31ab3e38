//! Finds the program's memory: private anonymous mappings, whatever allocator made them.
//!
//! A mapping is registered as a whole, so that memory that is not touched yet will fault to us. Page words are made
//! only for blocks that hold pages. Left alone: shared and file mappings, hugetlb and device memory, the main stack,
//! what has a userfaultfd already, and what is ours.

use crate::handlers::Preferred;
use crate::platform::TRASH_BYTES;
use crate::register::register;
use crate::state::{AgentEngine, SEGMENT};
use crate::sync::run;
use crate::{HEAP, activate, fork, fresh, handlers, hooks, kswapd, locks, state};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use uswap_core::balance::Headroom;
use uswap_engine::Workspace;
use uswap_os::maps::{Kind, Maps, Vma};
use uswap_os::process::{self, Statm, StatmFile};
use uswap_os::{clock, memory, message};
use uswap_units::{BLOCK_PAGES, PAGE_BYTES, PageId, PageRange};

/// Smaller mappings that stand alone are left alone: many of them cost more mappings in the kernel than they free
/// memory.
const MAPPING_BYTES_MIN: usize = 64 * 1024;

/// Ranges adopted at once.
const BATCH: usize = 64;

/// Pages around a thread's robust list head that hold its control block (glibc's is 2.3 KiB): the kernel writes there
/// when the thread ends, and cannot wait for us then.
const CONTROL_BLOCK_BYTES: usize = 2560;

/// A scan without a sign of new memory is made this often.
const RESCAN_NS: u64 = 20_000_000;

/// So long are new mappings left alone, when more and more come, of a program that has a userfaultfd of its own.
const PUT_OFF_NS_MAX: u64 = 100_000_000;

/// What kswapd works with.
pub struct Scanner {
    pub workspace: &'static mut Workspace,
    pub pages: PageScanner,
    /// How the calling thread is preferred now.
    pub preferred: Preferred,
}

/// Open files of the scanner.
pub struct ScannerFiles {
    maps: Maps,
    check: Maps,
    statm: StatmFile,
}

impl ScannerFiles {
    pub fn open() -> Option<ScannerFiles> {
        let (maps, check) = (Maps::open().ok()?, Maps::open().ok()?);
        Some(ScannerFiles { maps, check, statm: StatmFile::open(None).ok()? })
    }
}

/// Looks through the mappings.
pub struct PageScanner {
    /// Taken out during a look.
    maps: Option<Maps>,
    check: Maps,
    statm: StatmFile,
    text: Vec<u8>,
    batch: Vec<PageRange>,
    /// Candidates that touch each other. A longer row of them is taken in parts.
    group: Vec<Vma>,
    last: Statm,
    last_ns: u64,
    took_ns: u64,
    /// New mappings are left alone since then.
    put_off_since_ns: Option<u64>,
    registered: Vec<(usize, usize)>,
    gone_seen: u64,
    tables_full_said: bool,
}

impl PageScanner {
    pub fn new(files: ScannerFiles) -> PageScanner {
        let text = alloc::vec![0; 8192];
        PageScanner {
            maps: Some(files.maps),
            check: files.check,
            statm: files.statm,
            text,
            batch: Vec::with_capacity(BATCH),
            group: Vec::with_capacity(256),
            last: Statm::default(),
            last_ns: 0,
            took_ns: 0,
            put_off_since_ns: None,
            registered: Vec::with_capacity(1024),
            gone_seen: 0,
            tables_full_said: false,
        }
    }

    /// Scans when the mappings or the resident memory changed, when it is asked to, and from time to time.
    pub fn scan_if_due(&mut self, engine: &AgentEngine) {
        let Ok(now) = self.statm.read() else { return };
        let now_ns = clock::now_ns();
        engine.record().set_resident_pages(now.anonymous_pages());
        let changed = now.total_pages != self.last.total_pages;
        let since_ns = now_ns.saturating_sub(self.last_ns);
        // A large sparse program takes long to look through: then at most a tenth of the time is spent on it, and a
        // third while memory appears that was not found yet.
        let part = match SEGMENT.get().map(|segment| segment.budget().headroom()) {
            Some(Headroom::Wide) => 2,
            _ => 10,
        };
        let asked = fresh::wanted();
        let is_due = since_ns > self.took_ns * part && (changed || since_ns > RESCAN_NS);
        let put_off_ns = self.put_off_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        let is_new = asked.is_some() || changed && is_due && put_off_ns < PUT_OFF_NS_MAX;
        if is_new && process::has_userfaultfd() != Ok(false) {
            // The program may want the new mapping for its own userfaultfd: it has time for that until nothing has
            // changed for a while.
            (self.last, self.last_ns) = (now, now_ns);
            self.put_off_since_ns.get_or_insert(now_ns);
            if let Some(asked) = asked {
                fresh::looked(asked);
            }
            return;
        }
        if asked.is_some() || is_due {
            (self.last, self.put_off_since_ns) = (now, None);
            self.scan(engine, MAPPING_BYTES_MIN);
            self.last_ns = clock::now_ns();
            self.took_ns = self.last_ns.saturating_sub(now_ns);
        }
        if let Some(asked) = asked {
            fresh::looked(asked);
        }
    }

    /// Registers every mapping of at least `bytes_min`, and takes what is present there under management.
    pub fn scan(&mut self, engine: &AgentEngine, bytes_min: usize) {
        self.forget_registered_if_changed(engine);
        let (Some(maps), mut text) = (self.maps.take(), core::mem::take(&mut self.text)) else { return };
        // A mapping that cannot be read ends the look; the next one is soon.
        for vma in maps.iter(&mut text).map_while(Result::ok) {
            let adjacent = self.group.last().is_none_or(|last| last.end == vma.start);
            if !adjacent || self.group.len() == self.group.capacity() {
                self.take_group(engine, bytes_min);
            }
            if is_candidate(&vma, PAGE_BYTES) {
                self.group.push(vma);
            }
        }
        self.take_group(engine, bytes_min);
        (self.maps, self.text) = (Some(maps), text);
        self.flush(engine);
    }

    /// Mappings that touch are taken together or not at all: a part that is left out, because it is small while its
    /// protection differs, could never again become one mapping with the rest, and mremap over both would fail.
    fn take_group(&mut self, engine: &AgentEngine, bytes_min: usize) {
        let group = core::mem::take(&mut self.group);
        if group.iter().map(Vma::bytes).sum::<usize>() >= bytes_min {
            for vma in &group {
                for_each_allowed_part(vma.start, vma.end, |start, end| {
                    self.take_part(engine, vma, start, end)
                });
            }
        }
        self.group = group;
        self.group.clear();
    }

    /// Unmapping or moving may have put a new mapping where a registered one was.
    fn forget_registered_if_changed(&mut self, engine: &AgentEngine) {
        let gone = run(engine.mappings_gone());
        if gone != self.gone_seen || self.registered.len() == self.registered.capacity() {
            self.gone_seen = gone;
            self.registered.clear();
        }
    }

    fn take_part(&mut self, engine: &AgentEngine, vma: &Vma, start: usize, end: usize) {
        if !self.registered.contains(&(start, end)) {
            let range = PageRange::of_addresses(start as u64, end as u64);
            if !register(engine, &self.check, range) {
                return;
            }
            self.registered.push((start, end));
        }
        if !vma.writable || vma.executable {
            return;
        }
        let (first, behind) = (PageId::of_address(start as u64), PageId::of_address(end as u64));
        let mut at = first;
        while at.0 < behind.0 {
            // Over holes in one step: a sparse mapping may be thousands of blocks.
            if !wholly_managed(engine, block_of(at, behind)) {
                let pagemap = &engine.platform().pagemap;
                match pagemap.next_present(at.address() as usize, behind.address() as usize) {
                    Ok(Some(address)) => at = PageId::of_address(address as u64),
                    Ok(None) => return,
                    Err(_) => (),
                }
            }
            let block_end = block_of(at, behind).end;
            // The whole block, as far as it lies in the mapping.
            let range =
                PageRange { start: PageId(at.0 / BLOCK_PAGES * BLOCK_PAGES).max(first), end: block_end };
            if !wholly_managed(engine, range) && holds_pages(engine, range) {
                self.batch.push(range);
                if self.batch.len() == BATCH {
                    self.flush(engine);
                }
            }
            at = block_end;
        }
    }

    /// Makes words for the batch, pins control blocks, and lets the rest be evicted.
    fn flush(&mut self, engine: &AgentEngine) {
        if self.batch.is_empty() {
            return;
        }
        if run(engine.adopt(&self.batch)).is_err() && !self.tables_full_said {
            self.tables_full_said = true;
            message::write_message(
                state::MESSAGES_FD,
                format_args!(
                    "uswap: the page tables of the run are full: further memory of process {} stays in RAM\n",
                    process::process_id()
                ),
            );
        }
        pin_control_blocks(engine);
        for range in &self.batch {
            // The end of a thread's stack holds its control block. One page that stays would keep a huge page from
            // leaving as one: no other block has it pinned.
            if self.ends_a_mapping(*range) {
                engine.pin(PageId(range.end.0 - 1));
            }
        }
        // Registering passes over holes without a word: only what one mapping covers now is registered for certain.
        let (mut kept, mut checked) = (0, 0);
        while checked < self.batch.len() {
            let range = self.batch[checked];
            checked += 1;
            if register(engine, &self.check, range) && self.is_covered(range) {
                self.batch[kept] = range;
                kept += 1;
            } else {
                run(engine.abandon(&[range]));
            }
        }
        self.batch.truncate(kept);
        run(engine.activate(&self.batch));
        self.batch.clear();
    }

    /// True when a mapping ends where the range does, or nobody can tell.
    fn ends_a_mapping(&self, range: PageRange) -> bool {
        let (last, end) = ((range.end.0 - 1) as usize * PAGE_BYTES, range.end.address() as usize);
        match self.check.covering_or_next(last) {
            Ok(Some(vma)) => vma.start > last || vma.end == end,
            Ok(None) | Err(_) => true,
        }
    }

    /// True when one mapping holds the whole range.
    fn is_covered(&self, range: PageRange) -> bool {
        let (start, end) = (range.start.address() as usize, range.end.address() as usize);
        match self.check.covering_or_next(start) {
            Ok(Some(vma)) => vma.start <= start && end <= vma.end && is_candidate(&vma, PAGE_BYTES),
            Ok(None) | Err(_) => false,
        }
    }
}

/// True for memory that may be managed as far as the mapping itself tells.
pub fn is_candidate(vma: &Vma, bytes_min: usize) -> bool {
    vma.anonymous && !vma.shared && matches!(vma.kind, Kind::Plain | Kind::Heap) && vma.bytes() >= bytes_min
}

fn block_of(at: PageId, behind: PageId) -> PageRange {
    PageRange { start: at, end: PageId(((at.0 / BLOCK_PAGES) + 1) * BLOCK_PAGES).min(behind) }
}

fn wholly_managed(engine: &AgentEngine, range: PageRange) -> bool {
    engine.is_managed(range.start) && engine.is_managed(PageId(range.end.0 - 1))
}

fn holds_pages(engine: &AgentEngine, range: PageRange) -> bool {
    let present = engine.platform().pagemap.present(range.start.address() as usize, range.pages() as usize);
    present.is_ok_and(|bits| bits.iter().any(|&word| word != 0))
}

fn pin_control_blocks(engine: &AgentEngine) {
    let _listed = process::for_each_thread(None, |thread| {
        if let Ok(head) = process::robust_list(thread)
            && head != 0
        {
            let (from, to) = (head.saturating_sub(CONTROL_BLOCK_BYTES), head + CONTROL_BLOCK_BYTES);
            for page in from / PAGE_BYTES..=to / PAGE_BYTES {
                engine.pin(PageId(page as u64));
            }
        }
    });
}

/// Calls `visit` with the parts of `start..end` that are not ours and that the program has not excluded.
pub fn for_each_allowed_part(start: usize, end: usize, visit: impl FnMut(usize, usize)) {
    for_each_part_outside(start, end, for_each_excluded, visit);
}

/// Calls `visit` with the parts of `start..end` that lie in none of the ranges that `excluded` shows.
pub fn for_each_part_outside(
    start: usize,
    end: usize,
    excluded: impl Fn(&mut dyn FnMut(usize, usize)),
    mut visit: impl FnMut(usize, usize),
) {
    let mut at = start;
    while at < end {
        let mut next = end;
        let mut inside = false;
        excluded(&mut |from, to| {
            if from <= at && at < to {
                inside = true;
                at = to;
            } else if at < from && from < next {
                next = from;
            }
        });
        if !inside {
            visit(at, next);
            at = next;
        }
    }
}

// SAFETY:
// 1. The linker defines both names in every library; only their addresses are taken.
unsafe extern "C" {
    /// First byte of this library in memory, and the one behind its last: names that the linker defines.
    static __ehdr_start: u8;
    static _end: u8;
}

/// The library itself: its zero-initialised data looks like memory of the program.
fn own_image() -> (usize, usize) {
    (&raw const __ehdr_start as usize, (&raw const _end as usize).next_multiple_of(PAGE_BYTES))
}

fn for_each_excluded(visit: &mut dyn FnMut(usize, usize)) {
    for_each_own(visit);
    hooks::for_each_excluded(visit);
}

/// Calls `visit` with start and end of each range that is the agent's own.
pub fn for_each_own(visit: &mut dyn FnMut(usize, usize)) {
    let mut show = |start: usize, bytes: usize| {
        if bytes > 0 {
            visit(start, start + bytes);
        }
    };
    let (image_start, image_end) = own_image();
    show(image_start, image_end - image_start);
    let (heap_start, heap_end) = HEAP.range();
    show(heap_start, heap_end - heap_start);
    let stacks = handlers::STACKS.iter().chain([&kswapd::STACK, &crate::forkd::STACK]);
    for (start, bytes) in stacks.filter_map(|stack| stack.range()) {
        show(start, bytes);
    }
    show(fork::doorbell(), if fork::doorbell() == 0 { 0 } else { PAGE_BYTES });
    show(fork::doorbell_aside(), if fork::doorbell_aside() == 0 { 0 } else { PAGE_BYTES });
    let (arena_start, arena_bytes, trash_start) = fork::arena();
    show(arena_start, arena_bytes);
    show(trash_start, if trash_start == 0 { 0 } else { TRASH_BYTES });
    let segment_start = state::SEGMENT_START.load(Ordering::Acquire);
    show(segment_start, if segment_start == 0 { 0 } else { state::SEGMENT_BYTES.load(Ordering::Acquire) });
    for page in [activate::unreadable_page(), memory::unlocked_page()].into_iter().chain(locks::guard_pages())
    {
        show(page, if page == 0 { 0 } else { PAGE_BYTES });
    }
}
