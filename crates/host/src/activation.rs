//! Takes a program's memory under management, when memory gets short for the first time.
//!
//! Must hold: words come first, then what calls under way have told is filled, and only then is memory registered; all
//! of it with the gate exclusive. Else the kernel would meet a missing page in a call that has found no word. Called by
//! [`crate::background`] when memory is short, by [`crate::mappings`] ahead of a call that would make it short or asks
//! for pages to go, and by [`crate::regions`].

use crate::address_space::{heap_end, is_candidate};
use crate::process::{Phase, Process, Space};
use core::sync::atomic::Ordering;
use uswap_core::page_word::Afterwards;
use uswap_engine::Hazards as _;
use uswap_interpose::thread;
use uswap_os::maps::{Kind, Maps};
use uswap_os::{PAGE_BYTES, memory, process};
use uswap_units::PageRange;

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
    /// What the kernel may touch in calls that are under way is there.
    fn fill_hazards(&self) {
        let own = process::process_id();
        for index in 0..thread::slots_used_max() {
            self.hazards().slot(index).for_each(&mut |start, end| {
                for page in (start..end).step_by(PAGE_BYTES).take(HAZARD_PAGES_MAX) {
                    // The kernel's own page of zeros, if nothing was there. What cannot be read cannot be filled.
                    let _filled = process::read_memory(own, page, &mut [0]);
                }
            });
        }
    }

    /// Takes the program's memory under management. On a stack of ours.
    pub(crate) fn activate(&'static self, space: &'static Space) {
        let _alone = self.mappings.exclusive();
        if self.phase() != Phase::Watching {
            return;
        }
        if !self.manages_all() {
            // Ranges are named one by one.
            return self.set_phase(Phase::Active);
        }
        let Ok(maps) = Maps::open() else { return };
        // A signal may come at any time: the pages for its frame are there before their first touch comes to us.
        for (start, bytes) in thread::slots().filter_map(|slot| slot.program_stack()) {
            let first = start & !(PAGE_BYTES - 1);
            let _unmapped = memory::populate_write(first, start + bytes - first);
        }
        self.set_phase(Phase::Active);
        self.heap_end.store(heap_end(), Ordering::Relaxed);
        // Words first: who begins a call from here on finds them, and waits for the gate. Whoever has found none has
        // told its ranges, which are there before they are registered: else the kernel would meet missing pages.
        for_each_to_take(&maps, |start, end| {
            self.for_each_part_to_take(start, end, |part| {
                if space.adopt(part).is_err() {
                    // The tables of the run are full: it stays the kernel's.
                    space.drop_words(part, Afterwards::Unmanaged);
                }
            });
        });
        space.world().settle();
        self.fill_hazards();
        for_each_to_take(&maps, |start, end| {
            self.for_each_part_to_take(start, end, |part| {
                if space.page_table().first_managed(part).is_some() && !self.take(space, part) {
                    space.drop_words(part, Afterwards::Unmanaged);
                }
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
