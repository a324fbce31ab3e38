//! The program locks its memory (`mlock`, `mlockall`): what is locked is in RAM and is not evicted, and nothing of ours
//! is locked or filled with it.
//!
//! The kernel is never told `mlockall`, which would lock our tables too, and fill them. With MCL_CURRENT each mapping
//! of the program is locked by itself. MCL_FUTURE is remembered here, and each mapping that the program makes from then
//! on is locked when it is made: by [`Process::make_new`], whatever the phase.
//!
//! Must hold: a range is locked for the kernel, without being filled, and its words are made inactive, in one exclusive
//! section of the gate: an evictor that drops pages on both sides of its begin would lose those in front of it, and be
//! told that none was dropped. Then what is away is brought, and only then the kernel fills: a page that is missing
//! would be an error there.
//!
//! Called by [`crate::mappings`] and [`crate::calls`] for calls of the program, by [`crate::managed_ranges`] and
//! [`crate::fork`] for what becomes active, and by [`crate::background`], which counts.

use crate::address_space::{ADDRESSES_END, may_have_words, pages, program_break};
use crate::fault_in::Room;
use crate::own_memory;
use crate::process::{Phase, Process, Space};
use crate::syscalls::{MAP_LOCKED, is_error, make};
use core::ops::{ControlFlow, Range};
use uswap_core::counters::Counter;
use uswap_engine::world::Touch;
use uswap_interpose::Call;
use uswap_os::PAGE_BYTES;
use uswap_os::maps::{Maps, Vma};
use uswap_os::mlock::{self, CURRENT, FUTURE, ON_FAULT, Presence};
use uswap_os::process::StatmFile;
use uswap_os::sys::{Errno, abi};
use uswap_units::PageRange;

const ALL: Range<usize> = 0..ADDRESSES_END;

/// Smaller ranges are counted when the thread that evicts looks, twice a second.
const COUNTED_AT_ONCE_BYTES: usize = 1 << 20;
/// A process that has no place in the run takes one when it locks so many times what makes it grow into it: an eighth
/// of the budget, from which on the user is told.
const JOINS_AT: u64 = 16;

/// Calls `visit` with the mappings of the process in a range.
fn for_each_mapping(range: Range<usize>, mut visit: impl FnMut(&Vma)) {
    let Ok(maps) = Maps::open() else { return };
    maps.for_each_in(range, |vma| {
        visit(&vma);
        ControlFlow::Continue(())
    });
}

/// Calls `visit` with what is the program's of each mapping in a range.
fn for_each_part(range: Range<usize>, mut visit: impl FnMut(&Vma, usize, usize)) {
    for_each_mapping(range.clone(), |vma| {
        let (start, end) = (vma.start.max(range.start), vma.end.min(range.end));
        own_memory::for_each_other_part(start, end, |start, end| visit(vma, start, end));
    });
}

/// How many pages the program may lock; None: any number.
fn limit_pages() -> Option<u64> {
    mlock::limit_pages().ok().flatten().filter(|&limit| !mlock::may_exceed(limit))
}

/// Whether the program may lock so much more.
fn may_lock_more(bytes: usize) -> bool {
    let locked = || mlock::locked_bytes(None).unwrap_or(0);
    limit_pages().is_none_or(|limit| locked().saturating_add(bytes as u64) <= limit * PAGE_BYTES as u64)
}

/// Whether the address space of the program, without ours, is within a limit of locked memory.
fn all_is_within(limit_pages: u64) -> bool {
    let total = StatmFile::open(None).and_then(|file| file.read()).map_or(0, |statm| statm.total_pages);
    total.saturating_sub((own_memory::bytes() / PAGE_BYTES) as u64) <= limit_pages
}

impl Process {
    /// Whether the call needs us in a process that is not part of a run any more.
    pub(crate) fn locks_outside(&self, call: &Call) -> bool {
        match call.number as u32 {
            abi::__NR_mlockall | abi::__NR_munlockall => true,
            abi::__NR_mmap | abi::__NR_brk | abi::__NR_shmat => self.locks.future().is_some(),
            _ => false,
        }
    }

    /// Makes a call that locks or unlocks memory. None: it is none. On a stack of ours.
    pub(crate) fn serve_lock(&self, call: &Call) -> Option<isize> {
        let [start, bytes, flags, ..] = call.arguments;
        match call.number as u32 {
            abi::__NR_mlock => Some(self.lock_range(call, Presence::Now)),
            abi::__NR_mlock2 => Some(match flags as u32 {
                0 => self.lock_range(call, Presence::Now),
                abi::MLOCK_ONFAULT => self.lock_range(call, Presence::OnFault),
                _ => make(call),
            }),
            abi::__NR_mlockall => Some(self.lock_all(call.arguments[0] as u32)),
            abi::__NR_munlock => Some(self.unlock(call, start..start.saturating_add(bytes))),
            abi::__NR_munlockall => Some(self.unlock(call, ALL)),
            _ => None,
        }
    }

    fn lock_range(&self, call: &Call, presence: Presence) -> isize {
        let [start, bytes, ..] = call.arguments;
        let range = start..start.saturating_add(bytes).min(ADDRESSES_END);
        self.locks.note(presence);
        let answer = loop {
            let phase = self.phase();
            if let Some(space) = self.managed_space() {
                let locked = {
                    let _nobody_evicts = self.gate.exclusive();
                    // It tells what is wrong before anything is brought for it.
                    let locked = mlock::lock(start, bytes, Presence::OnFault);
                    self.follow_locks(space, range.clone());
                    locked
                };
                if locked.is_err() {
                    return make(call);
                }
                if presence == Presence::Now {
                    self.bring_all(space, range.clone());
                }
            }
            let answer = make(call);
            // Else it became managed meanwhile, and the kernel has met missing pages.
            if self.phase() == phase {
                break answer;
            }
        };
        if bytes >= COUNTED_AT_ONCE_BYTES {
            self.count_locked();
        }
        answer
    }

    fn lock_all(&self, flags: u32) -> isize {
        if flags == 0 || flags & !(CURRENT | FUTURE | ON_FAULT) != 0 || flags == ON_FAULT {
            return Errno::EINVAL.as_answer();
        }
        match limit_pages() {
            Some(0) => return Errno::EPERM.as_answer(),
            Some(limit) if flags & CURRENT != 0 && !all_is_within(limit) => return Errno::ENOMEM.as_answer(),
            _ => (),
        }
        self.locks.set_future(flags);
        if flags & CURRENT != 0 {
            self.lock_current(if flags & ON_FAULT == 0 { Presence::Now } else { Presence::OnFault });
            self.count_locked();
        }
        0
    }

    /// As the kernel does it: what cannot be locked or filled is passed over.
    fn lock_current(&self, presence: Presence) {
        self.locks.note(presence);
        loop {
            let phase = self.phase();
            let space = self.managed_space();
            {
                let _nobody_evicts = space.map(|_| self.gate.exclusive());
                for_each_part(ALL, |_, start, end| {
                    let _may_be_of_a_kind_that_cannot_be = mlock::lock(start, end - start, Presence::OnFault);
                });
                if let Some(space) = space {
                    self.follow_locks(space, ALL);
                }
            }
            if let (Some(space), Presence::Now) = (space, presence) {
                self.bring_all(space, ALL);
            }
            if presence == Presence::Now {
                for_each_part(ALL, |_, start, end| {
                    let _may_be_of_a_kind_that_cannot_be = mlock::lock(start, end - start, presence);
                });
            }
            if self.phase() == phase {
                return;
            }
        }
    }

    /// Unlocks a range, of which what is managed may be evicted again.
    fn unlock(&self, call: &Call, range: Range<usize>) -> isize {
        let _alone = self.gate.exclusive();
        if call.number as u32 == abi::__NR_munlockall {
            self.locks.clear();
        }
        let answer = make(call);
        if let Some(space) = self.managed_space() {
            self.follow_locks(space, range);
        }
        answer
    }

    fn managed_space(&self) -> Option<&'static Space> {
        self.space().filter(|_| self.phase() == Phase::Active)
    }

    /// What may be managed of a range, as the kernel has it now, may be evicted if it is not locked. With the gate
    /// exclusive.
    pub(crate) fn follow_locks(&self, space: &Space, range: Range<usize>) {
        for_each_mapping(range.clone(), |vma| {
            let (start, end) = (vma.start.max(range.start), vma.end.min(range.end));
            let part = pages(start, end - start);
            if !may_have_words(vma) || space.page_table().first_managed(part).is_none() {
                return;
            }
            // What cannot be read cannot be stored.
            let may_go = vma.readable && !vma.executable && !mlock::is_locked(start);
            if may_go { space.activate(part) } else { space.deactivate(part) }
        });
    }

    /// A part of one mapping was made active: if it is locked, it stays where it is. With the gate exclusive.
    pub(crate) fn keep_if_locked(&self, space: &Space, part: PageRange) {
        if self.locks.has_any() && mlock::is_locked(part.start().address() as usize) {
            space.deactivate(part);
        }
    }

    /// A mapping has grown: what is locked of it is there, as after any other growth of it.
    pub(crate) fn bring_if_locked(&self, range: PageRange) {
        if self.locks.are_all_filled() && mlock::is_locked(range.start().address() as usize) {
            self.fault_in_range(range, Touch::Write);
        }
    }

    /// Brings all that is managed and may be touched; what is locked stays.
    fn bring_all(&self, space: &Space, range: Range<usize>) {
        let room = Room::for_what_stays(space, pages(range.start, range.len()));
        for_each_part(range, |vma, start, end| {
            if vma.readable {
                self.bring_range(pages(start, end - start), Touch::that(vma.writable), room);
            }
        });
    }

    /// Makes a call that may make a mapping, or let the heap grow. What is new is locked if the program wants that, and
    /// is to be filled by [`fill_new`](Self::fill_new).
    pub(crate) fn make_new(&self, call: &Call) -> (isize, Range<usize>) {
        let [first, second, _, flags, ..] = call.arguments;
        let number = call.number as u32;
        if number == abi::__NR_mmap && flags & MAP_LOCKED != 0 {
            self.locks.note(Presence::Now);
        }
        if self.locks.future().is_none()
            || !matches!(number, abi::__NR_mmap | abi::__NR_brk | abi::__NR_shmat)
        {
            return (make(call), 0..0);
        }
        let heap = program_break();
        let whole = |bytes: usize| bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        let bytes = match number {
            abi::__NR_mmap => whole(second),
            abi::__NR_brk => whole(first).saturating_sub(whole(heap)),
            _ => 0,
        };
        if bytes > 0 && !may_lock_more(bytes) {
            let refused = if number == abi::__NR_brk { heap as isize } else { Errno::EAGAIN.as_answer() };
            return (refused, 0..0);
        }
        let answer = make(call);
        if is_error(answer) {
            return (answer, 0..0);
        }
        let new = match number {
            abi::__NR_mmap => answer as usize..answer as usize + bytes,
            abi::__NR_brk => whole(heap)..whole(answer as usize),
            _ => {
                let mut new = 0..0;
                for_each_mapping(answer as usize..answer as usize + 1, |vma| new = vma.start..vma.end);
                new
            }
        };
        if !new.is_empty() {
            let _may_be_of_a_kind_that_cannot_be = mlock::lock(new.start, new.len(), Presence::OnFault);
        }
        (answer, new)
    }

    /// Fills what [`make_new`](Self::make_new) has locked, before it is managed.
    pub(crate) fn fill_new(&self, new: Range<usize>) {
        if !new.is_empty() && self.locks.future() == Some(Presence::Now) {
            let _may_be_of_a_kind_that_cannot_be = mlock::lock(new.start, new.len(), Presence::Now);
        }
    }

    /// Counts what is locked, so that the supervisor can tell. Whoever locks much takes a place in the run for that.
    pub(crate) fn count_locked(&self) {
        self.count_as_locked(mlock::locked_bytes(None).unwrap_or(0));
    }

    /// The same, where it is known.
    pub(crate) fn count_as_locked(&self, locked: u64) {
        if self.phase() == Phase::Waiting && locked >= self.terms().join_bytes.saturating_mul(JOINS_AT) {
            self.own().enter();
        }
        if matches!(self.phase(), Phase::Watching | Phase::Active | Phase::Home)
            && let Some(space) = self.space()
        {
            let risen_by = self.locks.raise_most(locked);
            space.segment().counters().add(Counter::LockedBytes, risen_by);
        }
    }
}
