//! Takes a program's memory under management, when memory gets short for the first time.
//!
//! Must hold: words come first, then what calls under way have told is filled, and only then is memory registered; all
//! of it with the gate exclusive. Until there are words, a call tells its ranges without asking for any. Else the
//! kernel would meet a missing page in a call that has found no word. Called by [`crate::background`] when memory is
//! short, by [`crate::mappings`] ahead of a call that would make it short or asks for pages to go, by
//! [`crate::regions`], and by [`crate::remap`] for a range that grows.

use crate::address_space::{control_block, is_candidate, program_break};
use crate::process::{Phase, Process, Space};
use crate::thread_stacks::last_seen_stack;
use core::sync::atomic::Ordering;
use uswap_core::page_word::Afterwards;
use uswap_engine::Hazards as _;
use uswap_interpose::thread;
use uswap_os::maps::{Kind, Maps};
use uswap_os::{PAGE_BYTES, memory, process};
use uswap_units::PageRange;

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

/// Of one range that a call has told so much is filled at most: 2 GiB, as much as a call moves; some 100 ns a page. (A
/// call with hundreds of buffers tells one range around them all, which may be longer.)
const HAZARD_PAGES_MAX: u64 = (2 << 30) / PAGE_BYTES as u64;

/// Fills what has words of a range that a call has told.
fn fill_managed(space: &Space, range: PageRange) {
    let (mut at, mut left) = (range.start(), HAZARD_PAGES_MAX);
    while let Some(first) = space.page_table().first_managed(PageRange::new(at, range.end()))
        && left > 0
    {
        let rest = PageRange::new(first, range.end().min(first.plus(left)));
        let end = space.page_table().first_unmanaged(rest).unwrap_or(rest.end());
        let addresses = PageRange::new(first, end).addresses();
        // The kernel's own page of zeros, if nothing was there.
        if memory::populate_read(addresses.start, addresses.len()).is_err() {
            let own = process::process_id();
            for page in addresses.step_by(PAGE_BYTES) {
                // What cannot be read cannot be filled.
                let _filled = process::read_memory(own, page as u64, &mut [0]);
            }
        }
        left -= end.since(first);
        at = end;
    }
}

impl Process {
    /// What the kernel may touch in calls that are under way, and for the frame of a signal, is there, as far as it is
    /// managed from now on: the rest may be pages of a slow file, or be served by the program itself.
    fn fill_hazards(&self, space: &Space) {
        for index in 0..thread::slots_used_max() {
            self.hazards().slot(index).for_each(&mut |start, end| {
                fill_managed(space, PageRange::of_addresses(start, end));
            });
        }
        for page in thread::slots().filter_map(last_seen_stack).flat_map(PageRange::each) {
            let word = space.page_table().word_ref(page).map(|slot| slot.load());
            // Those that stay are there.
            if word.is_some_and(|word| word.is_managed() && !word.is_pinned()) {
                fill_managed(space, PageRange::of_pages(page, 1));
            }
        }
    }

    /// Gives words to what `for_each` finds: who begins a call from here on finds them, and waits for the gate. With
    /// the gate exclusive.
    fn adopt_in_use(&self, space: &'static Space, for_each: impl Fn(&mut dyn FnMut(PageRange))) {
        for_each(&mut |part| {
            if space.adopt(part).is_err() {
                // The tables of the run are full: it stays the kernel's.
                space.drop_words(part, Afterwards::Unmanaged);
            }
        });
    }

    /// Takes what `for_each` finds, which has words now, and in which calls may be under way. With the gate exclusive.
    fn take_in_use(&self, space: &'static Space, for_each: impl Fn(&mut dyn FnMut(PageRange))) {
        // Whoever has found no word has told its ranges, which are there before they are registered: else the kernel
        // would meet missing pages.
        space.world().membarrier();
        self.fill_hazards(space);
        for_each(&mut |part| {
            if space.page_table().first_managed(part).is_some() && !self.take_used(space, part) {
                space.drop_words(part, Afterwards::Unmanaged);
            }
        });
    }

    /// A mapping that was too small to be managed has grown. With the gate exclusive.
    pub(crate) fn take_grown(&self, space: &'static Space, range: PageRange) {
        if range.addresses().len() >= MAPPING_BYTES_MIN {
            let candidates =
                |visit: &mut dyn FnMut(PageRange)| self.for_each_candidate(space, range, &mut *visit);
            self.adopt_in_use(space, candidates);
            self.take_in_use(space, candidates);
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
        // What is told from here on is pinned below.
        let _the_rest_is_pinned = self.note_threads();
        self.program_break.store(program_break(), Ordering::Relaxed);
        let all = |visit: &mut dyn FnMut(PageRange)| {
            for_each_to_take(&space.world().maps, |start, end| {
                self.for_each_part_to_take(start, end, &mut *visit)
            });
        };
        self.adopt_in_use(space, all);
        // Not ahead of the words: a call that found neither would tell nothing. Who makes a call from here on sees to
        // its stack by itself; where all others stand is told.
        self.set_phase(Phase::Active);
        self.take_in_use(space, all);
        for slot in thread::slots() {
            if let Some((start, bytes)) = slot.program_stack() {
                space.pin(PageRange::of_addresses(start as u64, (start + bytes) as u64));
            }
            let block = slot.thread_pointer().map(control_block);
            last_seen_stack(slot).into_iter().chain(block).for_each(|range| space.pin(range));
            self.for_each_range_of(slot, |range| space.pin(range));
        }
        self.pinned.iter().for_each(|range| space.pin(range));
        space.pin(control_block(self.first_thread_pointer.load(Ordering::Relaxed)));
    }
}
