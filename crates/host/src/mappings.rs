//! Calls that change the address space: made here, inside the gate, with the words changed before anybody can see one
//! without the other.

use crate::calls::{PageLost, make};
use crate::messages;
use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process, Space, stop_program};
use crate::{own_memory, run};
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;
use uswap_core::page_word::Afterwards;
use uswap_engine::Memory as _;
use uswap_engine::world::Touch;
use uswap_interpose::{Call, Context};
use uswap_os::gate::ExclusiveGuard;
use uswap_os::maps::{Kind, Maps, Vma};
use uswap_os::sys::{Errno, abi};
use uswap_os::uffd::Mode;
use uswap_units::{PAGE_BYTES, PageId, PageRange};

const PAGE: usize = PAGE_BYTES;
/// A mapping that is larger has more words than a run has room for: it is left alone.
const MAPPING_BYTES_MAX: usize = 32 << 30;
/// Addresses of a program end here.
pub(crate) const ADDRESSES_END: usize = 1 << 47;

const MAP_PRIVATE: usize = abi::MAP_PRIVATE as usize;
const MAP_ANONYMOUS: usize = abi::MAP_ANONYMOUS as usize;
const MAP_FIXED: usize = abi::MAP_FIXED as usize;
const MAP_STACK: usize = abi::MAP_STACK as usize;
const MAP_GROWSDOWN: usize = abi::MAP_GROWSDOWN as usize;
pub(crate) const MAP_LOCKED: usize = abi::MAP_LOCKED as usize;
const MAP_HUGETLB: usize = abi::MAP_HUGETLB as usize;
const MAP_NORESERVE: usize = abi::MAP_NORESERVE as usize;
const MREMAP_MAYMOVE: usize = abi::MREMAP_MAYMOVE as usize;
const MREMAP_FIXED: usize = abi::MREMAP_FIXED as usize;
const MREMAP_DONTUNMAP: usize = abi::MREMAP_DONTUNMAP as usize;
const PROT_READ: usize = abi::PROT_READ as usize;
const PROT_WRITE: usize = abi::PROT_WRITE as usize;
const PROT_EXEC: usize = abi::PROT_EXEC as usize;
const MADV_GUARD_INSTALL: usize = 102;
const MADV_GUARD_REMOVE: usize = 103;

/// The pages of `bytes` bytes at `start`, cut to what a program can have.
pub(crate) fn pages(start: usize, bytes: usize) -> PageRange {
    let end = start.saturating_add(bytes).min(ADDRESSES_END);
    PageRange::of_addresses(start.min(end) as u64, end as u64)
}

pub(crate) fn is_error(answer: isize) -> bool {
    (-4095..0).contains(&answer)
}

/// Makes an `mremap` without a place of its own: where the mapping is, or else in a place that touches no other
/// mapping. The kernel takes the registration from whatever it joins a moved mapping with.
fn grow_or_move(call: &Call) -> isize {
    let [start, bytes, new_bytes, flags, ..] = call.arguments;
    let here = make(&Call { number: call.number, arguments: [start, bytes, new_bytes, 0, 0, 0] });
    if here != -(Errno::ENOMEM.number() as isize) || flags & MREMAP_MAYMOVE == 0 {
        return here;
    }
    let new_bytes = new_bytes.next_multiple_of(PAGE);
    let reserve = Call {
        number: abi::__NR_mmap as usize,
        arguments: [0, new_bytes + 2 * PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, usize::MAX, 0],
    };
    let reserved = make(&reserve);
    if is_error(reserved) {
        return reserved;
    }
    let (edge, target) = (reserved as usize, reserved as usize + PAGE);
    let arguments = [start, bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target, 0];
    let answer = make(&Call { number: call.number, arguments });
    let unmap = |start: usize, bytes: usize| {
        let arguments = [start, bytes, 0, 0, 0, 0];
        let _it_is_an_empty_mapping_at_worst = make(&Call { number: abi::__NR_munmap as usize, arguments });
    };
    if is_error(answer) {
        unmap(edge, new_bytes + 2 * PAGE);
    } else {
        unmap(edge, PAGE);
        unmap(target + new_bytes, PAGE);
    }
    answer
}

/// A mapping that may be managed, as far as it tells itself.
pub(crate) fn is_candidate(vma: &Vma) -> bool {
    let is_plain = vma.anonymous && !vma.shared && matches!(vma.kind, Kind::Plain | Kind::Heap);
    is_plain && vma.readable && !vma.executable && vma.bytes() <= MAPPING_BYTES_MAX
}

/// The answer to a call of `process_madvise` that drops memory: that of Linux before 6.13, which knows it for no
/// process. `madvise` does the same, and is seen.
pub(crate) fn refused(call: &Call) -> Option<isize> {
    let advice = call.arguments[3];
    let drops = matches!(advice as u32, abi::MADV_DONTNEED | abi::MADV_FREE | abi::MADV_DONTNEED_LOCKED)
        || matches!(advice, MADV_GUARD_INSTALL | MADV_GUARD_REMOVE);
    let is_refused = call.number as u32 == abi::__NR_process_madvise && drops;
    is_refused.then_some(-(Errno::EINVAL.number() as isize))
}

/// Whether [`Process::note_stacks`] has something to note of the call.
fn changes_stacks(call: &Call) -> bool {
    let [_, _, advice, flags, ..] = call.arguments;
    match call.number as u32 {
        abi::__NR_munmap | abi::__NR_mremap => true,
        abi::__NR_mmap => flags & (MAP_FIXED | MAP_STACK | MAP_GROWSDOWN) != 0,
        abi::__NR_madvise => advice as u32 == abi::MADV_WIPEONFORK,
        _ => false,
    }
}

/// By how much a call lets the memory grow that counts; the heap ends at `heap_end`.
pub(crate) fn growth(call: &Call, heap_end: usize) -> usize {
    let [first, second, third, flags, ..] = call.arguments;
    match call.number as u32 {
        abi::__NR_mmap if flags & MAP_STACK != 0 => 0,
        abi::__NR_mmap if flags & MAP_ANONYMOUS != 0 => second,
        abi::__NR_mmap if flags & MAP_PRIVATE != 0 && third & PROT_WRITE != 0 => second,
        abi::__NR_brk => first.saturating_sub(heap_end),
        abi::__NR_mremap => third.saturating_sub(second),
        _ => 0,
    }
}

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
                Some(space) => self.change_mapping(space, call),
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
            true => (None, Some(self.mappings.exclusive())),
            false => (Some(self.mappings.shared()), None),
        };
        let answer = self.phase().is_before_active().then(|| {
            // What the kernel may drop when it likes would be missing one day, when it is managed.
            let is_free =
                call.number as u32 == abi::__NR_madvise && call.arguments[2] as u32 == abi::MADV_FREE;
            let mut call = *call;
            if is_free {
                call.arguments[2] = abi::MADV_DONTNEED as usize;
            }
            let call = &call;
            let (answer, new) = self.make_new(call);
            if call.number as u32 == abi::__NR_brk {
                self.heap_end.store(answer as usize, Ordering::Relaxed);
            }
            self.note_stacks(call, answer);
            // Before anybody activates.
            self.fill_new(new);
            answer
        });
        drop((shared, exclusive));
        answer
    }

    /// Memory that is about to be mapped would be more than there is room for: then its first touches come to us from
    /// the start.
    fn activate_if_needed(&self, call: &Call) {
        let Some(space) = self.space().filter(|_| self.phase() == Phase::Watching) else { return };
        let bytes = growth(call, self.heap_end.load(Ordering::Relaxed));
        let used = space.segment().budget().used().0;
        if bytes as u64 > 0 && used.saturating_add(bytes as u64) > space.watermarks().register.0 {
            space.world().process.activate(space);
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
            abi::__NR_madvise => self.advise(space, call, pages(first, second), third),
            abi::__NR_mprotect | abi::__NR_pkey_mprotect => {
                self.protect(space, call, pages(first, second), third)
            }
            abi::__NR_brk => self.change_heap(space, call),
            abi::__NR_shmat => {
                let _alone = self.mappings.exclusive();
                let (answer, new) = self.make_new(call);
                self.fill_new(new);
                answer
            }
            _ => make(call),
        }
    }

    /// Nothing managed in the ranges is being worked on: the gate, exclusive.
    fn alone_with(&self, space: &Space, ranges: &[PageRange]) -> ExclusiveGuard<'_> {
        loop {
            let alone = self.mappings.exclusive();
            let Some(page) = ranges.iter().find_map(|&range| space.first_locked(range)) else { return alone };
            drop(alone);
            run(space.wait_unlocked(page));
        }
    }

    /// Stacks of threads are never managed: the kernel writes there when it likes. Nor is what a child gets as zeros.
    fn note_stacks(&self, call: &Call, answer: isize) {
        let [start, bytes, _, flags, ..] = call.arguments;
        if is_error(answer) {
            return;
        }
        match call.number as u32 {
            abi::__NR_munmap => self.stacks.subtract(pages(start, bytes)),
            abi::__NR_madvise
                if call.arguments[2] as u32 == abi::MADV_WIPEONFORK
                    && self.stacks.add(pages(start, bytes)).is_none() =>
            {
                self.give_up_stacks();
            }
            abi::__NR_mmap if flags & (MAP_STACK | MAP_GROWSDOWN) == 0 => {
                self.stacks.subtract(pages(answer as usize, bytes));
            }
            abi::__NR_mremap => self.move_stacks(call, answer as usize),
            abi::__NR_mmap
                if flags & (MAP_STACK | MAP_GROWSDOWN) != 0
                    && self.stacks.add(pages(answer as usize, bytes)).is_none() =>
            {
                self.give_up_stacks();
            }
            _ => (),
        }
    }

    /// A mapping was moved, or has changed its length: what was not managed of it is not at its new place, and what was
    /// not managed before at either place is gone.
    fn move_stacks(&self, call: &Call, target: usize) {
        let [start, bytes, new_bytes, flags, ..] = call.arguments;
        let (from, to) = (pages(start, bytes), pages(target, new_bytes));
        let is_stack = self.stacks.iter().any(|stack| stack.start < from.end && from.start < stack.end);
        if flags & MREMAP_DONTUNMAP == 0 {
            self.stacks.subtract(from);
        }
        self.stacks.subtract(to);
        if is_stack && self.stacks.add(to).is_none() {
            self.give_up_stacks();
        }
    }

    /// There are more stacks than can be told from other memory: nothing more is taken.
    #[cold]
    fn give_up_stacks(&self) {
        match self.space() {
            // It is served as before, and nothing is taken any more.
            Some(space) if self.phase() == Phase::Active => space.hold_evicting(),
            _ => self.set_phase(Phase::Home),
        }
        messages::say_of_process(format_args!(
            "its memory stays in RAM from now on: it has more than 1024 thread stacks and ranges that are zeros in \
             a child"
        ));
    }

    fn map(&self, space: &'static Space, call: &Call) -> isize {
        let [start, bytes, protection, flags, ..] = call.arguments;
        let fixed = if flags & MAP_FIXED != 0 { pages(start, bytes) } else { pages(0, 0) };
        let alone = self.alone_with(space, &[fixed]);
        let (answer, new) = self.make_new(call);
        if is_error(answer) {
            return answer;
        }
        space.drop_words(fixed, Afterwards::Unmanaged);
        self.note_stacks(call, answer);
        drop(alone);
        self.fill_new(new);
        let wanted = flags & (MAP_PRIVATE | MAP_ANONYMOUS) == MAP_PRIVATE | MAP_ANONYMOUS
            && flags & (MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB) == 0
            && protection & PROT_READ != 0
            && protection & PROT_EXEC == 0;
        if wanted && bytes <= MAPPING_BYTES_MAX {
            let range = pages(answer as usize, bytes);
            let _alone = self.alone_with(space, &[range]);
            let _or_left_alone = self.take(space, range);
        }
        answer
    }

    /// Takes a mapping of private anonymous memory under management, with the gate exclusive. What cannot be registered
    /// is left alone: false.
    pub(crate) fn take(&self, space: &'static Space, range: PageRange) -> bool {
        if self.phase() != Phase::Active || range.start >= range.end {
            return false;
        }
        if space.reserve_words(range).is_err() {
            // The tables of the run are full: it stays the kernel's. What is managed of it stays so.
            return false;
        }
        let (start, bytes) = (range.start.address() as usize, range.pages() as usize * PAGE);
        if space.world().uffd.register(start, bytes, Mode::MissingAndProtected).is_err() {
            return false;
        }
        if space.adopt(range).is_err() {
            unreachable!("room for the words was made above, and the gate is exclusive");
        }
        self.keep_if_locked(space, range);
        true
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
        let mut call = *call;
        match advice as u32 {
            abi::MADV_DONTNEED | abi::MADV_FREE | abi::MADV_DONTNEED_LOCKED => {
                if advice as u32 == abi::MADV_FREE {
                    // What may be dropped at any time is dropped at once: else the kernel would drop it one day, and
                    // nobody would know.
                    call.arguments[2] = abi::MADV_DONTNEED as usize;
                }
                let _alone = self.mappings.exclusive();
                let answer = make(&call);
                // A hole in the range is an error, but the rest of it was dropped.
                if answer == 0 || answer == -(Errno::ENOMEM.number() as isize) {
                    space.drop_words(range, Afterwards::StillManaged);
                } else if range.start < range.end && is_error(answer) {
                    Self::drop_in_front(space, &call, range);
                }
                answer
            }
            abi::MADV_POPULATE_READ | abi::MADV_POPULATE_WRITE => {
                let touch = Touch::that(advice as u32 == abi::MADV_POPULATE_WRITE);
                self.bring_range(range, touch);
                make(&call)
            }
            // What a child does not have (MADV_DONTFORK) its words do not name either: see `fork`.
            abi::MADV_WIPEONFORK => {
                // A child must not get it back from a copy.
                match self.leave_alone(space, range) {
                    Ok(_alone) => make(&call),
                    Err(PageLost) => -(Errno::EIO.number() as isize),
                }
            }
            _ if advice == MADV_GUARD_INSTALL => {
                let _alone = self.mappings.exclusive();
                space.deactivate(range);
                let answer = make(&call);
                if !is_error(answer) {
                    space.drop_words(range, Afterwards::StillManaged);
                }
                answer
            }
            _ if advice == MADV_GUARD_REMOVE => {
                let _alone = self.mappings.exclusive();
                let answer = make(&call);
                self.activate_range(space, range);
                answer
            }
            _ => make(&call),
        }
    }

    /// The kernel goes from mapping to mapping, and ends at one that it refuses (locked memory): what lies in front of
    /// that is dropped. With the gate exclusive.
    fn drop_in_front(space: &'static Space, call: &Call, range: PageRange) {
        let Ok(maps) = Maps::open() else { return };
        let addresses = range.start.address() as usize..range.end.address() as usize;
        let mut at = range.start;
        maps.for_each_in(addresses, |vma| {
            let vma = PageRange::of_addresses(vma.start as u64, vma.end as u64);
            let part = PageRange { start: vma.start.max(at), end: vma.end.min(range.end) };
            if part.start >= part.end {
                return ControlFlow::Break(());
            }
            let mut call = *call;
            call.arguments[0] = part.start.address() as usize;
            call.arguments[1] = part.pages() as usize * PAGE;
            if make(&call) != 0 {
                return ControlFlow::Break(());
            }
            space.drop_words(part, Afterwards::StillManaged);
            at = part.end;
            ControlFlow::Continue(())
        });
    }

    /// A range comes home and is not managed any more; the gate, exclusive.
    fn leave_alone(&self, space: &'static Space, range: PageRange) -> Result<ExclusiveGuard<'_>, PageLost> {
        let alone = self.alone_with_all_home(space, range, pages(0, 0))?;
        if self.stacks.add(range).is_none() {
            self.give_up_stacks();
        }
        if space.page_table().first_managed(range).is_some() {
            space.drop_words(range, Afterwards::Unmanaged);
            let (start, bytes) = (range.start.address() as usize, range.pages() as usize * PAGE);
            let _what_is_missing_is_zeros = space.world().uffd.unregister(start, bytes);
        }
        Ok(alone)
    }

    /// The program serves the faults of a range itself (userfaultfd): it comes home, and is not managed any more. If it
    /// cannot come home it stays registered, and the program is told so by the kernel.
    pub(crate) fn give_to_program(&self, range: PageRange) {
        loop {
            if let Some(space) = self.space().filter(|_| self.phase() == Phase::Active) {
                drop(self.leave_alone(space, range));
                return;
            }
            let _nobody_activates = self.mappings.exclusive();
            if self.phase() != Phase::Active {
                if self.phase().is_before_active() && self.stacks.add(range).is_none() {
                    self.give_up_stacks();
                }
                return;
            }
        }
    }

    fn protect(&self, space: &'static Space, call: &Call, range: PageRange, protection: usize) -> isize {
        let _alone = self.mappings.exclusive();
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
        if protection & PROT_WRITE != 0 && space.page_table().first_unmanaged(range).is_some() {
            self.take_candidates(space, range);
        }
        answer
    }

    /// What is managed of a range may be evicted, if it is not locked. With the gate exclusive.
    fn activate_range(&self, space: &Space, range: PageRange) {
        match self.locks.has_any() {
            true => self.follow_locks(space, range.start.address() as usize..range.end.address() as usize),
            false => space.activate(range),
        }
    }

    /// Takes what may be managed of a range, as the kernel has it now. With the gate exclusive.
    pub(crate) fn take_candidates(&self, space: &'static Space, range: PageRange) {
        let Ok(maps) = Maps::open() else { return };
        let (start, end) = (range.start.address() as usize, range.end.address() as usize);
        maps.for_each_in(start..end, |vma| {
            if is_candidate(&vma) {
                self.for_each_part_to_take(vma.start.max(start), vma.end.min(end), |part| {
                    let _or_left_alone = self.take(space, part);
                });
            }
            ControlFlow::Continue(())
        });
    }

    /// Calls `visit` with a range but for what is ours, and the stacks of threads.
    pub(crate) fn for_each_part_to_take(&self, start: usize, end: usize, mut visit: impl FnMut(PageRange)) {
        own_memory::for_each_other_part(start, end, |start, end| {
            self.for_each_part_without_stacks(start, end, &mut visit);
        });
    }

    /// Calls `visit` with the parts of a range that are no stacks of threads.
    pub(crate) fn for_each_part_without_stacks(
        &self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(PageRange),
    ) {
        let mut at = PageId::of_address(start as u64);
        let end = PageId::of_address(end as u64);
        while at < end {
            let covering = self.stacks.iter().find(|stack| stack.contains(at));
            if let Some(stack) = covering {
                at = stack.end;
                continue;
            }
            let behind = self.stacks.iter().filter(|stack| at < stack.start).map(|stack| stack.start).min();
            let to = behind.unwrap_or(end).min(end);
            visit(PageRange { start: at, end: to });
            at = to;
        }
    }

    fn change_heap(&self, space: &'static Space, call: &Call) -> isize {
        let end = self.heap_end.load(Ordering::Relaxed);
        let wanted = if call.arguments[0] == 0 { end } else { call.arguments[0] };
        let cut = pages(wanted, end.saturating_sub(wanted));
        let _alone = self.alone_with(space, &[cut]);
        let before = self.heap_end.load(Ordering::Relaxed);
        let (answer, new) = self.make_new(call);
        self.fill_new(new);
        let after = answer as usize;
        self.heap_end.store(after, Ordering::Relaxed);
        let (old, new) = (before.next_multiple_of(PAGE), after.next_multiple_of(PAGE));
        if new < old {
            space.drop_words(pages(new, old - new), Afterwards::Unmanaged);
        } else if old < new {
            self.take_candidates(space, pages(old, new - old));
        }
        answer
    }

    fn remap(
        &self,
        space: &'static Space,
        call: &Call,
        from: PageRange,
        target: PageRange,
        flags: usize,
    ) -> isize {
        let fixed = if flags & MREMAP_FIXED != 0 { target } else { pages(0, 0) };
        if space.page_table().first_managed(from).is_none() {
            let _alone = self.alone_with(space, &[from, fixed]);
            let answer = make(call);
            if !is_error(answer) {
                space.drop_words(fixed, Afterwards::Unmanaged);
                self.note_stacks(call, answer);
            }
            return answer;
        }
        // Another thread may touch the place before it is registered again: then nothing may be missing there.
        let comes_home = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) != 0;
        let alone = match comes_home {
            true => self.alone_with_all_home(space, from, fixed),
            false => Ok(self.alone_with(space, &[from])),
        };
        let Ok(_alone) = alone else { return -(Errno::ENOMEM.number() as isize) };
        // What may not be evicted may not be at its new place either, nor what it grows by or leaves behind.
        let is_active = space.is_active(from);
        let answer = if comes_home { self.move_unregistered(space, call, from) } else { grow_or_move(call) };
        if is_error(answer) {
            return answer;
        }
        let to = pages(answer as usize, call.arguments[2]);
        self.note_stacks(call, answer);
        space.drop_words(fixed, Afterwards::Unmanaged);
        let stays = PageRange { start: from.start, end: from.end.min(from.start.plus(to.pages())) };
        if from.pages() > to.pages() {
            let cut = PageRange { start: stays.end, end: from.end };
            space.drop_words(cut, Afterwards::Unmanaged);
        }
        let is_moved = to.start != from.start;
        if is_moved {
            if space.carry(stays, to.start).is_err() {
                stop_program(format_args!(
                    "the run has no room for the page tables of memory that was moved"
                ));
            }
            if flags & MREMAP_DONTUNMAP != 0 {
                let _or_left_alone = self.take(space, from);
            }
        }
        self.register_again(space, to);
        if !is_active {
            space.deactivate(to);
            if flags & MREMAP_DONTUNMAP != 0 {
                space.deactivate(from);
            }
        }
        if is_moved {
            // Kernels that carry the protection along (6.1 is one) let a write fault for ever: no word tells of it.
            space.world().unprotect(to);
        }
        answer
    }

    /// All pages of `from` are in the program, and none is protected: the gate, exclusive. An error: one of them cannot
    /// be read back.
    fn alone_with_all_home(
        &self,
        space: &Space,
        from: PageRange,
        other: PageRange,
    ) -> Result<ExclusiveGuard<'_>, PageLost> {
        loop {
            space.hold_evicting();
            let alone = self.bring_home(space, from).map(|()| self.alone_with(space, &[from, other]));
            space.resume_evicting();
            let alone = alone?;
            if space.first_away(from).is_none() {
                return Ok(alone);
            }
        }
    }

    /// Moves what is all there. The kernel takes the registration from whatever it joins the moved mapping with, and a
    /// neighbour that is registered has missing pages: so the mapping goes without one, and cannot be joined with it.
    fn move_unregistered(&self, space: &'static Space, call: &Call, from: PageRange) -> isize {
        let (start, bytes) = (from.start.address() as usize, from.pages() as usize * PAGE);
        let _nothing_is_missing = space.world().uffd.unregister(start, bytes);
        let answer = make(call);
        if is_error(answer) {
            self.register_again(space, from);
        }
        answer
    }

    /// A moved or grown mapping is registered as it was: what is stored of it must not read as zeros.
    fn register_again(&self, space: &'static Space, range: PageRange) {
        if self.phase() != Phase::Active {
            // Everything came home while the call waited for the gate.
            return;
        }
        let (start, bytes) = (range.start.address() as usize, range.pages() as usize * PAGE);
        let registered = space.world().uffd.register(start, bytes, Mode::MissingAndProtected);
        if let Err(errno) = registered {
            stop_program(format_args!("memory that was moved cannot be registered again ({errno})"));
        }
        if space.adopt(range).is_err() {
            stop_program(format_args!("the run has no room for the page tables of memory that grew"));
        }
        self.keep_if_locked(space, range);
    }
}
