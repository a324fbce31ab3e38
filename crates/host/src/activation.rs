//! Takes a program's memory under management, when memory gets short for the first time.
//!
//! Must hold: words come first, then what calls under way have told is filled, and only then is memory registered; all
//! of it with the gate exclusive. Else the kernel would meet a missing page in a call that has found no word. Called by
//! [`crate::background`] when memory is short, by [`crate::mappings`] ahead of a call that would make it short or asks
//! for pages to go, by [`crate::regions`], and by [`crate::remap`] for a range that grows.

use crate::address_space::{heap_end, is_candidate};
use crate::process::{Phase, Process, Space};
use core::sync::atomic::Ordering;
use uswap_core::page_word::Afterwards;
use uswap_engine::Hazards as _;
use uswap_interpose::thread;
use uswap_os::maps::{Kind, Maps};
use uswap_os::{PAGE_BYTES, memory, process};
use uswap_units::{PageId, PageRange};

/// Around the thread pointer of the first thread: its control block above, its thread-local storage below.
const CONTROL_BLOCK_BYTES: usize = 8 * 1024;

/// Smaller mappings are left alone: many of them cost more mappings in the kernel than they free memory.
const MAPPING_BYTES_MIN: usize = 64 * 1024;
/// Zero-initialised data of a library, behind its file: not worth it either.
const IMAGE_BYTES_MIN: usize = 1 << 20;

/// Calls `visit` with the mappings that are taken.
fn for_each_to_take(maps: &Maps, mut visit: impl FnMut(usize, usize)) {
    let mut text = [0; 4096];
    // A mapping that cannot be read ends the look; what is behind it stays in RAM.
    let mut file_end = 0;
    for vma in maps.iter(&mut text).map_while(Result::ok) {
        let bytes_min = if vma.start == file_end { IMAGE_BYTES_MIN } else { MAPPING_BYTES_MIN };
        if is_candidate(&vma) && vma.writable && vma.bytes() >= bytes_min {
            visit(vma.start, vma.end);
        }
        file_end = if vma.kind == Kind::Named { vma.end } else { 0 };
    }
}

/// Of one range that a call has told, so much is filled: at some 500 ns a page.
const HAZARD_PAGES_MAX: usize = 8192;

impl Process {
    /// What the kernel may touch in calls that are under way is there, as far as it is managed from now on: the rest
    /// may be pages of a slow file, or be served by the program itself.
    fn fill_hazards(&self, space: &Space) {
        let own = process::process_id();
        let has_word = |page: u64| {
            let slot = space.page_table().slot(PageId::of_address(page));
            slot.is_some_and(|slot| slot.load().is_managed())
        };
        for index in 0..thread::slots_used_max() {
            self.hazards().slot(index).for_each(&mut |start, end| {
                let pages = (start..end).step_by(PAGE_BYTES).take(HAZARD_PAGES_MAX);
                for page in pages.filter(|page| has_word(*page)) {
                    // The kernel's own page of zeros, if nothing was there. What cannot be read cannot be filled.
                    let _filled = process::read_memory(own, page, &mut [0]);
                }
            });
        }
    }

    /// Takes what `for_each` finds, in which calls may be under way. With the gate exclusive.
    fn take_in_use(&self, space: &'static Space, for_each: impl Fn(&mut dyn FnMut(PageRange))) {
        // Words first: who begins a call from here on finds them, and waits for the gate. Whoever has found none has
        // told its ranges, which are there before they are registered: else the kernel would meet missing pages.
        for_each(&mut |part| {
            if space.adopt(part).is_err() {
                // The tables of the run are full: it stays the kernel's.
                space.drop_words(part, Afterwards::Unmanaged);
            }
        });
        space.world().settle();
        self.fill_hazards(space);
        for_each(&mut |part| {
            if space.page_table().first_managed(part).is_some() && !self.take_used(space, part) {
                space.drop_words(part, Afterwards::Unmanaged);
            }
        });
    }

    /// A mapping that was too small to be managed has grown. With the gate exclusive.
    pub(crate) fn take_grown(&self, space: &'static Space, range: PageRange) {
        if range.pages() as usize * PAGE_BYTES >= MAPPING_BYTES_MIN {
            self.take_in_use(space, |visit| self.for_each_candidate(space, range, &mut *visit));
        }
    }

    /// Takes the program's memory under management. On a stack of ours.
    pub(crate) fn activate(&'static self, space: &'static Space) {
        let _alone = self.gate.exclusive();
        if self.phase() != Phase::Watching {
            return;
        }
        if !self.manages_all() {
            // Ranges are named one by one.
            return self.set_phase(Phase::Active);
        }
        // A signal may come at any time: the pages for its frame are there before their first touch comes to us.
        for (start, bytes) in thread::slots().filter_map(|slot| slot.program_stack()) {
            let first = start & !(PAGE_BYTES - 1);
            let _unmapped = memory::populate_write(first, start + bytes - first);
        }
        self.set_phase(Phase::Active);
        self.heap_end.store(heap_end(), Ordering::Relaxed);
        self.take_in_use(space, |visit| {
            for_each_to_take(&space.world().maps, |start, end| {
                self.for_each_part_to_take(start, end, &mut *visit)
            });
        });
        for (start, bytes) in thread::slots().filter_map(|slot| slot.program_stack()) {
            space.pin(PageRange::of_addresses(start as u64, (start + bytes) as u64));
        }
        self.kept.iter().for_each(|range| space.pin(range));
        let block = self.first_thread_pointer.load(Ordering::Relaxed);
        let (from, to) = (block - CONTROL_BLOCK_BYTES, block + CONTROL_BLOCK_BYTES);
        space.pin(PageRange::of_addresses(from as u64, to as u64));
    }
}
