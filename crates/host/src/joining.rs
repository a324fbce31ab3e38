//! Brings a process to life: at its start only its growth is seen ([`crate::small`]). When it has grown to what its run
//! can feel, all its calls are, and it takes a place there, before the call that makes it grow is made.
//! ([`crate::attach`]: all at once, while it runs.)
//!
//! Most processes of a run are small and short (a shell, a compiler's driver): they open nothing, and have no thread of
//! ours.
//!
//! Must hold: a process takes its place with the gate exclusive, or in the only thread of a forked child. One that
//! cannot has nothing of it. Called by [`crate::small`], which arms, by [`crate::calls`], [`crate::mappings`] and
//! [`crate::lock_calls`] when it has grown, and by [`crate::attach`] and [`crate::fork`].

use crate::address_space::program_break;
use crate::background;
use crate::descriptors;
use crate::invitation;
use crate::memory::LinuxWorld;
use crate::messages::{self, MORE_MAPPINGS, stop_program};
use crate::own_memory;
use crate::own_stack::on_own_stack;
use crate::process::{Membership, Phase, Process, Space};
use crate::refused::{NO_DESCRIPTORS, NO_ROOM, NO_THREAD, Refused};
use crate::supervisor;
use crate::swap_files::OpenFiles;
use crate::syscalls::growth;
use core::arch::asm;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_engine::AddressSpace;
use uswap_interpose::buffers::{HazardTable, register_asymmetric_fence};
use uswap_interpose::thread::{self, Slot};
use uswap_interpose::{Call, Options, install};
use uswap_os::maps::Maps;
use uswap_os::own_calls::MANAGED;
use uswap_os::pagemap::Pagemap;
use uswap_os::process::StatmFile;
use uswap_os::sys::{Errno, abi};
use uswap_os::thread::{Files, spawn};
use uswap_os::uffd::Uffd;
use uswap_os::{PAGE_BYTES, clock, memory, process};
use uswap_units::MmId;
use uswap_units::limits::SWAP_FILES_MAX;

/// How often it is tried to start the thread that evicts, where as many threads run as may (`ulimit -u`, a cgroup).
const THREAD_TRIES: u32 = 20;
const THREAD_PAUSE_NS: u64 = 5_000_000;

/// What a place takes in a run with one swap file, and one that is open for a moment.
pub(crate) const PLACE_DESCRIPTORS: usize = descriptors::PLACES - SWAP_FILES_MAX + 1;

/// Signals that are ours before they are the program's: of faults.
pub(crate) const FAULTS: u64 = signal_bit(abi::SIGBUS) | signal_bit(abi::SIGSEGV);

pub(crate) const fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// How calls are interposed.
pub(crate) fn options() -> Options {
    Options { faults: FAULTS, own_text: Some(own_memory::text()), own_calls: &MANAGED, ..Options::default() }
}

impl Process {
    /// Its calls are seen from its start. `stack` is that of its only thread.
    pub(crate) fn arm_at_start(&'static self, stack: Range<usize>) -> Result<(), Refused> {
        self.prepare()?;
        let options = Options { stack: Some(stack), ..options() };
        let report = install(self, &options).map_err(Refused::Calls)?;
        if report.other_threads > 0 {
            // It has no alternate stack: the signal of a fault on its own stack could not be delivered.
            return Err(Refused::Needs(
                "another library that is preloaded has started a thread before uswap was loaded: do not preload it",
            ));
        }
        self.set_phase(Phase::Waiting);
        Ok(())
    }

    /// What is there before the first call is seen. Of a try before this one the hazards are there, and empty.
    pub(crate) fn prepare(&'static self) -> Result<(), Refused> {
        if !register_asymmetric_fence() {
            return Err(Refused::Needs("the kernel has no membarrier, or a filter forbids it: allow it"));
        }
        if !self.has_hazards() {
            let hazards = HazardTable::map(thread::THREADS_MAX).map_err(|_| NO_ROOM)?;
            own_memory::add(hazards.slot(0) as *const _ as usize, thread::THREADS_MAX * PAGE_BYTES);
            self.set_hazards(hazards);
        }
        self.first_thread_pointer.store(thread_pointer(), Ordering::Relaxed);
        if !clock::has_time_stamps() {
            clock::no_time_stamps();
        }
        self.process_id.store(process::process_id(), Ordering::Relaxed);
        self.program_break.store(program_break(), Ordering::Relaxed);
        Ok(())
    }

    /// A call that changes mappings is about to be made: if the process is large enough by then, it takes its place in
    /// the run. On a stack of ours.
    pub(crate) fn join_if_grown(&self, call: &Call) {
        if self.phase() != Phase::Waiting {
            return;
        }
        let bytes = growth(call, self.program_break.load(Ordering::Relaxed)) as u64;
        if bytes == 0 {
            return;
        }
        if self.grown_bytes.load(Ordering::Relaxed) == 0 {
            // What it was started with may be large too. Two threads may both add it: then it joins a little earlier.
            let sizes = StatmFile::open(None).and_then(|sizes| sizes.read());
            let data_bytes = sizes.map_or(0, |sizes| sizes.data_bytes());
            let of_program = data_bytes.saturating_sub(own_memory::bytes() as u64).max(1);
            self.grown_bytes.fetch_add(of_program, Ordering::Relaxed);
        }
        let grown = self.grown_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if grown >= self.terms().join_bytes {
            self.own().enter();
        }
    }

    /// A call is about to be made: the stack of its thread may be large by now.
    #[inline]
    pub(crate) fn join_if_deep(&self, slot: &Slot, stack_pointer: usize) {
        let deep = slot.stack_end().saturating_sub(stack_pointer) as u64;
        if deep >= self.terms().join_bytes && !self.enter_later.is_early() {
            on_own_stack(slot, || self.own().enter());
        }
    }

    /// Takes its place, or is left alone from now on. A child that shares the memory (vfork) has descriptors of its
    /// own, and takes no place for its parent.
    pub(crate) fn enter(&'static self) {
        let _alone = self.gate.exclusive();
        let is_child = || self.process_id.load(Ordering::Relaxed) != process::process_id();
        if self.phase() != Phase::Waiting || is_child() || self.enter_later.is_early() {
            return;
        }
        if let Err(reason) = self.take_place() {
            self.put_off_or_leave_alone(&reason);
        }
    }

    /// It has no place. It waits for one, if that may come.
    pub(crate) fn put_off_or_leave_alone(&self, reason: &Refused) {
        if matches!(reason, Refused::NeedsNow(_)) && self.enter_later.put_off() {
            self.set_phase(Phase::Waiting);
            return;
        }
        self.set_phase(Phase::Outside);
        if !matches!(reason, Refused::NoRun) {
            messages::say_of_process(format_args!("it is left alone: {reason}. Run 'uswap doctor'"));
        }
    }

    /// With the gate exclusive. An error: nothing of it is left.
    pub(crate) fn take_place(&'static self) -> Result<(), Refused> {
        self.background_stack.prepare().map_err(|_| NO_ROOM)?;
        let (stack, bytes) = self.background_stack.range().ok_or(NO_ROOM)?;
        own_memory::add(stack, bytes);
        let opened = invitation::open_segment()?;
        own_memory::add(opened.start, opened.bytes);
        self.set_membership(Membership {
            segment: opened.segment,
            segment_start: opened.start,
            segment_bytes: opened.bytes,
        });
        // What is read from the swap file is decrypted there: the key must be in no core file.
        own_memory::for_each(&mut |start, end| {
            let _as_a_kernel_without_it = memory::no_dump(start, end - start);
        });
        // A page that the kernel merges with others (KSM) loses its protection unseen.
        memory::merge_no_pages();
        self.watch()
    }

    /// It has the segment, and takes the place that goes with it. An error: nothing is left of that, and of the segment
    /// at most zeros.
    pub(crate) fn watch(&'static self) -> Result<(), Refused> {
        let room = if descriptors::is_room(PLACE_DESCRIPTORS) { Ok(()) } else { Err(NO_DESCRIPTORS) };
        if let Err(reason) = room.and_then(|()| self.join(None)) {
            self.lose_place();
            return Err(reason);
        }
        self.set_phase(Phase::Watching);
        self.spawn_background().inspect_err(|_| self.abandon_place())?;
        self.membership().segment.counters().add(Counter::Joined, 1);
        Ok(())
    }

    /// It cannot have the place that it was to take. Nobody has seen it: the phase has not changed, and there is no
    /// engine. The segment goes, too: a process that is none of the run may change its credentials without anybody
    /// looking.
    fn lose_place(&self) {
        supervisor::give_up_record(self.mm());
        supervisor::forget_open();
        descriptors::close_all();
        let Some(membership) = self.take_membership() else { return };
        // SAFETY:
        // 1. The mapping is ours, and nobody has been told of it.
        if unsafe { memory::unmap(membership.segment_start, membership.segment_bytes) }.is_ok() {
            own_memory::remove(membership.segment_start);
        }
    }

    /// It has its place, and no thread can be started for it. With the gate exclusive: nothing is managed, and other
    /// threads may only look.
    fn abandon_place(&self) {
        self.set_phase(Phase::Outside);
        self.evicting_id.store(0, Ordering::Relaxed);
        let membership = self.membership();
        let _it_lived = membership.segment.mms().record(self.mm()).withdraw();
        // SAFETY:
        // 1. The mapping is ours; zeros are valid words, and those who look there have no work under way.
        if unsafe { memory::replace_by_zeros(membership.segment_start, membership.segment_bytes) }.is_err() {
            stop_program(
                format_args!("{NO_THREAD}, and the memory of the run cannot be let go"),
                MORE_MAPPINGS,
            );
        }
        supervisor::give_up_record(self.mm());
    }

    /// Takes a record, or the one that a parent has made, and opens what the engine will need. An error: some of that
    /// may be open, and the record taken.
    pub(crate) fn join(&'static self, made: Option<MmId>) -> Result<&'static Space, Refused> {
        const NOT_OPEN: Refused =
            Refused::NeedsNow("a file in /proc or a swap file of the run cannot be opened: raise ulimit -n");
        let membership = self.membership();
        let uffd = Uffd::open().map_err(Refused::of_userfaultfd)?;
        // A number that is kept leaves the list of ours when it is closed, which `lose_place` does.
        let uffd = ManuallyDrop::new(Uffd::from_fd(descriptors::keep(uffd.into_fd()).map_err(|_| NOT_OPEN)?));
        let pagemap = ManuallyDrop::new(Pagemap::open_as(descriptors::keep).map_err(|_| NOT_OPEN)?);
        let maps = ManuallyDrop::new(Maps::open_as(descriptors::keep).map_err(|_| NOT_OPEN)?);
        let mm = match made {
            Some(mm) => mm,
            None => supervisor::take_record(&membership.segment)?,
        };
        self.set_mm(mm);
        let record = membership.segment.mms().record(mm);
        let root = record.root().ok_or(Refused::Needs("its record has no page table: please report it"))?;
        let segment = membership.segment.acting_as(record.id());
        // From here on it is asked before a swap file comes into use. Those from before are opened below; in the other
        // order one that is added in between would be nobody's to open.
        let _first = record.announce();
        let Some(files) = OpenFiles::of_the_run(segment, record) else {
            let _it_lived = record.withdraw();
            return Err(NOT_OPEN);
        };
        let world = LinuxWorld {
            gate: &self.gate,
            hazards: self.hazards(),
            uffd: ManuallyDrop::into_inner(uffd),
            pagemap: ManuallyDrop::into_inner(pagemap),
            maps: ManuallyDrop::into_inner(maps),
            files,
            segment,
            segment_start: membership.segment_start,
            drops_ranges: memory::can_drop_ranges().is_ok(),
        };
        messages::keep_open();
        Ok(self.set_space(AddressSpace::new(segment, record.id(), root, world)))
    }

    pub(crate) fn spawn_background(&'static self) -> Result<(), Refused> {
        let argument = self as *const Process as usize;
        self.evicting_id.store(process::process_id(), Ordering::Relaxed);
        // Here: a forked child has only this thread, and its program no eye on which number is free.
        self.background_files.open();
        if let (Some(space), Ok(name)) = (self.space(), process::own_command_name()) {
            // The supervisor may want it when the process is gone.
            space.record().set_name(name.as_bytes());
        }
        for _ in 0..THREAD_TRIES {
            match spawn(&self.background_stack, background::main, argument, Files::Shared) {
                Ok(_) => return Ok(()),
                // As many run as may run, at this moment.
                Err(Errno::EAGAIN) => clock::sleep_ns(THREAD_PAUSE_NS),
                Err(_) => break,
            }
        }
        Err(Refused::Needs(NO_THREAD))
    }
}

/// The thread pointer of the calling thread, which every libc keeps at the place that it points to.
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY:
    // 1. The convention of thread-local storage on x86-64: the word at the thread pointer is the thread pointer.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}
