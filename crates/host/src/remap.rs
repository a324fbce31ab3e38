//! `mremap`: words and registration go where the mapping goes.
//!
//! Must hold: until the new place is registered, nothing of it is missing, or nobody knows of it; and no word of the
//! range is locked when it goes along. All of it is one exclusive section of the gate. Called by [`crate::mappings`].

use crate::address_space::pages;
use crate::fault_in::PageLost;
use crate::mappings::forget_gaps;
use crate::messages::{FEWER_IN_A_RUN, stop_program};
use crate::process::{Phase, Process, Space};
use crate::syscalls::{
    MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE, is_error, make,
};
use uswap_core::page_word::Afterwards;
use uswap_engine::Memory as _;
use uswap_interpose::Call;
use uswap_os::sys::{Errno, abi};
use uswap_units::{PAGE_BYTES, PageRange};

/// Makes an `mremap` without a place of its own: where the mapping is, or else in a place that touches no other
/// mapping. The kernel takes the registration from whatever it joins a moved mapping with.
fn grow_or_move(call: &Call) -> isize {
    let [start, bytes, new_bytes, flags, ..] = call.arguments;
    let here = make(&Call { number: call.number, arguments: [start, bytes, new_bytes, 0, 0, 0] });
    if here != Errno::ENOMEM.as_answer() || flags & MREMAP_MAYMOVE == 0 {
        return here;
    }
    let new_bytes = new_bytes.next_multiple_of(PAGE_BYTES);
    let reserve = Call {
        number: abi::__NR_mmap as usize,
        arguments: [
            0,
            new_bytes + 2 * PAGE_BYTES,
            0,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            usize::MAX,
            0,
        ],
    };
    let reserved = make(&reserve);
    if is_error(reserved) {
        return reserved;
    }
    let (edge, target) = (reserved as usize, reserved as usize + PAGE_BYTES);
    let arguments = [start, bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target, 0];
    let answer = make(&Call { number: call.number, arguments });
    let unmap = |start: usize, bytes: usize| {
        let arguments = [start, bytes, 0, 0, 0, 0];
        let _it_is_an_empty_mapping_at_worst = make(&Call { number: abi::__NR_munmap as usize, arguments });
    };
    if is_error(answer) {
        unmap(edge, new_bytes + 2 * PAGE_BYTES);
    } else {
        unmap(edge, PAGE_BYTES);
        unmap(target + new_bytes, PAGE_BYTES);
    }
    answer
}

impl Process {
    pub(crate) fn remap(
        &self,
        space: &'static Space,
        call: &Call,
        from: PageRange,
        target: PageRange,
        flags: usize,
    ) -> isize {
        let fixed = if flags & MREMAP_FIXED != 0 { target } else { pages(0, 0) };
        let alone = self.alone_with(space, &[from, fixed]);
        if space.page_table().first_managed(from).is_none() {
            let answer = make(call);
            if is_error(answer) {
                forget_gaps(space, fixed);
                return answer;
            }
            space.drop_words(fixed, Afterwards::Unmanaged);
            self.note_stacks(call, answer);
            let to = pages(answer as usize, call.arguments[2]);
            if to.pages() > from.pages() && self.manages_all() {
                self.take_grown(space, to);
            }
            return answer;
        }
        // Another thread may touch the place before it is registered again: then nothing may be missing there.
        let comes_home = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) != 0;
        let new_pages = call.arguments[2].div_ceil(PAGE_BYTES) as u64;
        // Beside the words as they are: those go once they have been carried.
        if (comes_home || new_pages > from.pages()) && !space.page_table().has_room_for(new_pages) {
            return Errno::ENOMEM.as_answer();
        }
        let _alone = match comes_home {
            true => {
                drop(alone);
                match self.alone_with_all_home(space, from, fixed) {
                    Ok(alone) => alone,
                    Err(PageLost) => return Errno::ENOMEM.as_answer(),
                }
            }
            false => alone,
        };
        // What may not be evicted may not be at its new place either, nor what it grows by or leaves behind.
        let is_active = space.is_active(from);
        let answer = if comes_home { self.move_unregistered(space, call, from) } else { grow_or_move(call) };
        if is_error(answer) {
            forget_gaps(space, fixed);
            forget_gaps(space, from);
            return answer;
        }
        let to = pages(answer as usize, call.arguments[2]);
        self.note_stacks(call, answer);
        space.drop_words(fixed, Afterwards::Unmanaged);
        let stays = PageRange::new(from.start(), from.end().min(from.start().plus(to.pages())));
        if from.pages() > to.pages() {
            let cut = PageRange::new(stays.end(), from.end());
            space.drop_words(cut, Afterwards::Unmanaged);
        }
        let is_moved = to.start() != from.start();
        if is_moved {
            if space.carry(stays, to.start()).is_err() {
                stop_program(
                    format_args!("the run has no room for the page tables of memory that was moved"),
                    FEWER_IN_A_RUN,
                );
            }
            if flags & MREMAP_DONTUNMAP != 0 {
                let _or_left_alone = self.take(space, from);
            }
        }
        match comes_home {
            true => self.register_mappings_again(space, to),
            false => self.register_again(space, to),
        }
        if !is_active {
            space.deactivate(to);
            if flags & MREMAP_DONTUNMAP != 0 {
                space.deactivate(from);
            }
        }
        if is_moved {
            if self.phase() == Phase::Active && !space.drop_filled(to) {
                stop_program(
                    format_args!("what the kernel has filled of memory that was moved cannot be dropped"),
                    "Does the program lock that memory (mlock)? Then unlock it ahead of mremap",
                );
            }
            // Kernels that carry the protection along (6.1 is one) let a write fault for ever: no word tells of it.
            space.world().unprotect(to);
        }
        answer
    }

    /// Moves what is all there. The kernel takes the registration from whatever it joins the moved mapping with, and a
    /// neighbour that is registered has missing pages: so the mapping goes without one, and cannot be joined with it.
    fn move_unregistered(&self, space: &'static Space, call: &Call, from: PageRange) -> isize {
        if let Err(errno) = self.unregister(space, from) {
            return errno.as_answer();
        }
        let answer = make(call);
        if is_error(answer) {
            self.register_mappings_again(space, from);
        }
        answer
    }
}
