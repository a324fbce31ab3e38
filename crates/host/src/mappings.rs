//! Calls that change the address space: they are made here.
//!
//! Must hold: a call that changes a managed mapping, or drops its content, is made in the exclusive section of the gate
//! in which the words are changed, so that nobody sees one without the other; and no word of a range that is unmapped
//! or replaced is locked then. Called by [`crate::calls`], and by [`crate::remap`].

use crate::address_space::{MAPPING_BYTES_MAX, pages};
use crate::dropped::{for_each_part_advised, free, leave_unmerged};
use crate::own_stack::on_own_stack;
use crate::populate::{bytes_to_populate, without_populate};
use crate::process::{Phase, Process, Space};
use crate::syscalls::{
    MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, MAP_ANONYMOUS, MAP_FIXED, MAP_GROWSDOWN, MAP_HUGETLB, MAP_PRIVATE,
    MAP_STACK, PROT_EXEC, PROT_READ, PROT_WRITE, SHM_REMAP, changes_stacks, growth, is_error, make,
};
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use uswap_core::page_word::Afterwards;
use uswap_engine::world::Touch;
use uswap_interpose::{Call, Context};
use uswap_os::shared_segment;
use uswap_os::sys::abi;
use uswap_units::{BLOCK_PAGES, PAGE_BYTES, PageRange};

/// The kernel may round up what it attaches to a huge page.
const HUGE_PAGE_BYTES: usize = BLOCK_PAGES as usize * PAGE_BYTES;

impl Process {
    /// Makes a call that changes mappings.
    pub(crate) fn serve_mapping(&self, call: &Call, context: &Context) -> isize {
        on_own_stack(context.slot(), || {
            self.join_if_grown(call);
            self.activate_if_needed(call);
            if let Some(answer) = self.serve_lock(call) {
                return answer;
            }
            if self.phase().is_before_active()
                && let Some(answer) = self.watch_mapping(call)
            {
                return answer;
            }
            match self.space().filter(|_| self.phase() == Phase::Active) {
                Some(space) => {
                    // Wait until whoever activates is done. The phase is Active before memory is registered, and
                    // while the call waited for the gate its mapping would be registered.
                    drop(self.gate.shared());
                    self.change_mapping(space, call)
                }
                None => {
                    let (answer, new) = self.make_new(call);
                    self.fill_new(new);
                    answer
                }
            }
        })
    }

    /// Makes the call while nothing is managed. None: something is by now.
    ///
    /// What takes a stack away, or makes one, is made with the gate exclusive: the kernel puts a stack where another
    /// thread has just unmapped one, and of the two it must be the stack that is noted last.
    fn watch_mapping(&self, call: &Call) -> Option<isize> {
        let (shared, exclusive) = match changes_stacks(call) {
            true => (None, Some(self.gate.exclusive())),
            false => (Some(self.gate.shared()), None),
        };
        let answer = self.phase().is_before_active().then(|| {
            if call.number as u32 == abi::__NR_madvise {
                match call.arguments[2] as u32 {
                    abi::MADV_FREE => return free(call, |_| ()),
                    abi::MADV_MERGEABLE if self.manages_all() => return leave_unmerged(call),
                    _ => (),
                }
            }
            let (call, fill) = without_populate(call);
            let call = &call;
            let (answer, new) = self.make_new(call);
            if call.number as u32 == abi::__NR_brk {
                self.program_break.store(answer as usize, Ordering::Relaxed);
            }
            self.note_stacks(call, answer);
            // Before anybody activates.
            self.fill_new(new);
            self.fill_if_room(answer, fill);
            answer
        });
        drop((shared, exclusive));
        answer
    }

    /// Memory that is about to be mapped would be more than there is room for: then its first touches come to us from
    /// the start. Or some of it is to go, though there is room.
    fn activate_if_needed(&self, call: &Call) {
        let Some(space) = self.space().filter(|_| self.phase() == Phase::Watching) else { return };
        if call.number as u32 == abi::__NR_madvise && call.arguments[2] as u32 == abi::MADV_PAGEOUT {
            return self.own().activate(space);
        }
        let bytes = growth(call, self.program_break.load(Ordering::Relaxed)).max(bytes_to_populate(call));
        let used = space.segment().budget().used().bytes();
        if bytes as u64 > 0 && used.saturating_add(bytes as u64) > space.watermarks().register.bytes() {
            self.own().activate(space);
        }
    }

    fn change_mapping(&self, space: &'static Space, call: &Call) -> isize {
        let [first, second, third, fourth, fifth, ..] = call.arguments;
        match call.number as u32 {
            abi::__NR_mmap => self.map(space, call),
            abi::__NR_munmap => self.unmap(space, call),
            abi::__NR_mremap => {
                let answer = self.remap(space, call, pages(first, second), pages(fifth, third), fourth);
                if !is_error(answer) && second < third {
                    self.bring_if_locked(pages(answer as usize + second, third - second));
                }
                answer
            }
            abi::__NR_madvise => {
                let range = pages(first, second);
                let served = self.serve_advice(space, call, range);
                served.unwrap_or_else(|| self.advise(space, call, range, third))
            }
            abi::__NR_mprotect | abi::__NR_pkey_mprotect => {
                self.protect(space, call, pages(first, second), third)
            }
            abi::__NR_brk => self.change_heap(space, call),
            abi::__NR_shmat => self.attach_segment(space, call),
            _ => make(call),
        }
    }

    fn map(&self, space: &'static Space, call: &Call) -> isize {
        let [start, bytes, protection, flags, ..] = call.arguments;
        let fixed = if flags & MAP_FIXED != 0 { pages(start, bytes) } else { pages(0, 0) };
        let (call, fill) = match self.manages_all() {
            true => without_populate(call),
            false => (*call, 0),
        };
        let alone = self.alone_with(space, &[fixed]);
        let (answer, new) = self.make_new(&call);
        if is_error(answer) {
            forget_gaps(space, fixed);
            return answer;
        }
        space.drop_words(fixed, Afterwards::Unmanaged);
        self.note_stacks(&call, answer);
        drop(alone);
        self.fill_new(new);
        // Before it is registered: the kernel could not fill it then.
        self.fill_if_room(answer, fill);
        let wanted = flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE | MAP_ANONYMOUS
            && flags & (MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB) == 0
            && protection & PROT_READ != 0
            && protection & PROT_EXEC == 0;
        if wanted && bytes <= MAPPING_BYTES_MAX && self.manages_all() {
            let range = pages(answer as usize, bytes);
            let _alone = self.alone_with(space, &[range]);
            let _or_left_alone = self.take(space, range);
        }
        answer
    }

    /// A segment of System V. With SHM_REMAP it replaces what is mapped there.
    fn attach_segment(&self, space: &'static Space, call: &Call) -> isize {
        let [segment, start, flags, ..] = call.arguments;
        let replaces = flags & SHM_REMAP != 0;
        // Whose length cannot be asked for cannot be attached either.
        let bytes = if replaces { shared_segment::bytes(segment as u32).unwrap_or(0) } else { 0 };
        let around = pages(start / PAGE_BYTES * PAGE_BYTES, bytes.next_multiple_of(HUGE_PAGE_BYTES));
        let alone = self.alone_with(space, &[around]);
        let (answer, new) = self.make_new(call);
        if replaces && !is_error(answer) {
            let vma = space.world().maps.covering_or_next(answer as usize);
            let vma = vma.ok().flatten().filter(|vma| vma.start == answer as usize);
            let there = vma.map_or(pages(answer as usize, bytes), |vma| pages(vma.start, vma.bytes()));
            space.drop_words(there, Afterwards::Unmanaged);
        } else {
            forget_gaps(space, around);
        }
        drop(alone);
        self.fill_new(new);
        answer
    }

    fn unmap(&self, space: &'static Space, call: &Call) -> isize {
        let range = pages(call.arguments[0], call.arguments[1]);
        // A fault next to it may have locked some of it too: then what is mapped there next would find words.
        let _alone = self.alone_with(space, &[range]);
        let answer = make(call);
        if !is_error(answer) {
            space.drop_words(range, Afterwards::Unmanaged);
            self.note_stacks(call, answer);
        }
        answer
    }

    fn advise(&self, space: &'static Space, call: &Call, range: PageRange, advice: usize) -> isize {
        match advice as u32 {
            abi::MADV_DONTNEED | abi::MADV_DONTNEED_LOCKED => {
                let _alone = self.gate.exclusive();
                let answer = make(call);
                for_each_part_advised(call, answer, |part| space.drop_words(part, Afterwards::StillManaged));
                answer
            }
            abi::MADV_FREE => {
                let _alone = self.gate.exclusive();
                free(call, |part| space.drop_words(part, Afterwards::StillManaged))
            }
            abi::MADV_MERGEABLE
                if self.manages_all() || space.page_table().first_managed(range).is_some() =>
            {
                leave_unmerged(call)
            }
            abi::MADV_POPULATE_READ | abi::MADV_POPULATE_WRITE => {
                self.populate(space, call, range, Touch::that(advice as u32 == abi::MADV_POPULATE_WRITE))
            }
            // What a child does not have (MADV_DONTFORK) its words do not name either: see `fork`.
            abi::MADV_WIPEONFORK => {
                // A child must not get it back from a copy.
                match self.leave_alone(space, range) {
                    Ok(_alone) => make(call),
                    Err(errno) => errno.as_answer(),
                }
            }
            // A touch of it is the program's affair: without words, nobody fills it.
            MADV_GUARD_INSTALL => {
                let _alone = self.alone_with(space, &[range]);
                self.has_guards.store(1, Ordering::Relaxed);
                let answer = make(call);
                for_each_part_advised(call, answer, |part| space.drop_words(part, Afterwards::Unmanaged));
                answer
            }
            MADV_GUARD_REMOVE => {
                let _alone = self.alone_with(space, &[range]);
                let answer = make(call);
                for_each_part_advised(call, answer, |part| self.take_back(space, part));
                answer
            }
            _ => make(call),
        }
    }

    fn protect(&self, space: &'static Space, call: &Call, range: PageRange, protection: usize) -> isize {
        let _alone = self.gate.exclusive();
        if protection & (PROT_READ | PROT_WRITE) == 0 || protection & PROT_EXEC != 0 {
            // What cannot be read cannot be stored.
            space.deactivate(range);
            return make(call);
        }
        let answer = make(call);
        if is_error(answer) {
            // A part may have changed: it stays as it is.
            return answer;
        }
        self.activate_range(space, range);
        if protection & PROT_WRITE != 0
            && self.manages_all()
            && space.page_table().first_unmanaged(range).is_some()
        {
            self.take_candidates(space, range, Self::take_used);
        }
        answer
    }

    fn change_heap(&self, space: &'static Space, call: &Call) -> isize {
        let (before, _alone) = loop {
            let end = self.program_break.load(Ordering::Relaxed);
            let wanted = if call.arguments[0] == 0 { end } else { call.arguments[0] };
            let cut = pages(wanted, end.saturating_sub(wanted));
            let alone = self.alone_with(space, &[cut]);
            // Else another thread has moved the end, and somebody may be at work on what is cut now.
            if self.program_break.load(Ordering::Relaxed) == end {
                break (end, alone);
            }
        };
        let (answer, new) = self.make_new(call);
        self.fill_new(new);
        let after = answer as usize;
        self.program_break.store(after, Ordering::Relaxed);
        let (old, new) = (before.next_multiple_of(PAGE_BYTES), after.next_multiple_of(PAGE_BYTES));
        if new < old {
            space.drop_words(pages(new, old - new), Afterwards::Unmanaged);
        } else if old < new && self.manages_all() {
            self.take_candidates(space, pages(old, new - old), Self::take);
        }
        answer
    }
}

/// A call that puts a mapping in the place of others takes those away first, and may fail after that. With the gate
/// exclusive.
pub(crate) fn forget_gaps(space: &Space, range: PageRange) {
    if space.page_table().first_managed(range).is_none() {
        return;
    }
    let mut at = range.start();
    space.world().maps.for_each_in(range.addresses(), |vma| {
        let vma = PageRange::of_addresses(vma.start as u64, vma.end as u64);
        space.drop_words(PageRange::new(at, vma.start().max(at)), Afterwards::Unmanaged);
        at = vma.end().max(at);
        ControlFlow::Continue(())
    });
    space.drop_words(PageRange::new(at, range.end().max(at)), Afterwards::Unmanaged);
}
