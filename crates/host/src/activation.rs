//! Takes a program's memory under management, when memory gets short for the first time.

use crate::joining::heap_end;
use crate::mappings::is_candidate;
use crate::process::{Phase, Process, Space};
use core::sync::atomic::Ordering;
use uswap_interpose::thread;
use uswap_os::maps::{Kind, Maps};
use uswap_os::{PAGE_BYTES, memory};
use uswap_units::PageRange;

/// Around the thread pointer of the first thread: its control block above, its thread-local storage below.
const CONTROL_BLOCK_BYTES: usize = 8 * 1024;

/// Smaller mappings are left alone: many of them cost more mappings in the kernel than they free memory.
const MAPPING_BYTES_MIN: usize = 64 * 1024;
/// Zero-initialised data of a library, behind its file: not worth it either.
const IMAGE_BYTES_MIN: usize = 1 << 20;

impl Process {
    /// Takes the program's memory under management. On a stack of ours.
    pub(crate) fn activate(&'static self, space: &'static Space) {
        let _alone = self.mappings.exclusive();
        if self.phase() != Phase::Watching {
            return;
        }
        let Ok(maps) = Maps::open() else { return };
        // A signal may come at any time: the pages for its frame are there before their first touch comes to us.
        for (start, bytes) in thread::slots().filter_map(|slot| slot.program_stack()) {
            let first = start & !(PAGE_BYTES - 1);
            let _unmapped = memory::populate_write(first, start + bytes - first);
        }
        self.set_phase(Phase::Active);
        self.heap_end.store(heap_end(), Ordering::Relaxed);
        let mut text = [0; 4096];
        // A mapping that cannot be read ends the look; what is behind it stays in RAM.
        let mut file_end = 0;
        for vma in maps.iter(&mut text).map_while(Result::ok) {
            let bytes_min = if vma.start == file_end { IMAGE_BYTES_MIN } else { MAPPING_BYTES_MIN };
            if is_candidate(&vma) && vma.writable && vma.bytes() >= bytes_min {
                self.take_but_own(space, vma.start, vma.end);
            }
            file_end = if vma.kind == Kind::Named { vma.end } else { 0 };
        }
        for (start, bytes) in thread::slots().filter_map(|slot| slot.program_stack()) {
            space.pin(PageRange::of_addresses(start as u64, (start + bytes) as u64));
        }
        let block = self.first_thread_pointer.load(Ordering::Relaxed);
        let (from, to) = (block - CONTROL_BLOCK_BYTES, block + CONTROL_BLOCK_BYTES);
        space.pin(PageRange::of_addresses(from as u64, to as u64));
    }
}
