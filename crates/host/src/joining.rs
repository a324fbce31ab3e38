//! Brings a process to life: at its start only its growth is seen ([`crate::small`]). When it has grown to what its run
//! can feel, all its calls are, and it takes a place there, before the call that makes it grow is made.
//! ([`crate::attach`]: all at once, while it runs.)
//!
//! Most processes of a run are small and short (a shell, a compiler's driver): they open nothing, and have no thread of
//! ours.
//!
//! Must hold: a process takes its place once, with the gate exclusive or in the only thread of a forked child. Called
//! by `agent` and [`crate::small`], which arm, by [`crate::calls`], [`crate::mappings`] and [`crate::lock_calls`] when
//! it has grown, and by [`crate::attach`] and [`crate::fork`].

use crate::address_space::heap_end;
use crate::background;
use crate::descriptors;
use crate::invitation;
use crate::memory::LinuxWorld;
use crate::messages;
use crate::own_memory;
use crate::own_stack::on_own_stack;
use crate::process::{Membership, Phase, Process, Space};
use crate::supervisor;
use crate::swap_files::OpenFiles;
use crate::syscalls::growth;
use core::arch::asm;
use core::fmt;
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
use uswap_os::sys::abi;
use uswap_os::thread::{Files, spawn};
use uswap_os::uffd::Uffd;
use uswap_os::{PAGE_BYTES, clock, memory, process};
use uswap_units::MmId;

/// Why a process is left alone.
#[derive(Debug)]
pub enum Refused {
    /// There is no userfaultfd for it.
    Userfaultfd(uswap_os::uffd::UffdError),
    /// Its system calls cannot be seen.
    Calls(uswap_interpose::Error),
    /// Something else that it needs.
    Needs(&'static str),
    /// Another process has the same memory, and would not be armed with it.
    IsShared,
    /// The run has ended, or said already why it cannot be entered.
    NoRun,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Userfaultfd(error) => write!(out, "{error}"),
            Refused::Calls(error) => write!(out, "{error}"),
            Refused::Needs(what) => out.write_str(what),
            Refused::IsShared => out.write_str("another process shares its memory now (vfork): try again"),
            Refused::NoRun => out.write_str("its run has ended"),
        }
    }
}

impl core::error::Error for Refused {}

/// Signals that are ours before they are the program's: of faults.
pub(crate) const FAULTS: u64 = signal_bit(abi::SIGBUS) | signal_bit(abi::SIGSEGV);

pub(crate) const fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// How calls are interposed.
pub(crate) fn options() -> Options {
    Options { faults: FAULTS, own_text: Some(own_memory::text()), own_calls: &MANAGED, ..Options::default() }
}

/// Why a process is left alone, or leaves.
pub(crate) const NO_THREAD: &str =
    "the thread that evicts cannot be started: raise the limit of processes (ulimit -u)";
pub(crate) const NO_ROOM: Refused = Refused::Needs("there is no address space for what it needs");

impl Process {
    /// Its calls are seen from its start. `stack` is that of its only thread.
    pub(crate) fn arm_at_start(&'static self, stack: Range<usize>) -> Result<(), Refused> {
        self.prepare()?;
        let options = Options { stack: Some(stack), ..options() };
        let report = install(self, &options).map_err(Refused::Calls)?;
        if report.other_threads > 0 {
            // It has no alternate stack: the signal of a fault on its own stack could not be delivered.
            return Err(Refused::Needs(
                "another library that is preloaded has started a thread before uswap was loaded",
            ));
        }
        self.set_phase(Phase::Waiting);
        Ok(())
    }

    /// What is there before the first call is seen.
    pub(crate) fn prepare(&'static self) -> Result<(), Refused> {
        if !register_asymmetric_fence() {
            return Err(Refused::Needs("the kernel has no membarrier"));
        }
        let hazards = HazardTable::map(thread::THREADS_MAX).map_err(|_| NO_ROOM)?;
        own_memory::add(hazards.slot(0) as *const _ as usize, thread::THREADS_MAX * PAGE_BYTES);
        self.set_hazards(hazards);
        self.first_thread_pointer.store(thread_pointer(), Ordering::Relaxed);
        if !clock::has_time_stamps() {
            clock::no_time_stamps();
        }
        self.process_id.store(process::process_id(), Ordering::Relaxed);
        self.heap_end.store(heap_end(), Ordering::Relaxed);
        Ok(())
    }

    /// A call that changes mappings is about to be made: if the process is large enough by then, it takes its place in
    /// the run. On a stack of ours.
    pub(crate) fn join_if_grown(&self, call: &Call) {
        if self.phase() != Phase::Waiting {
            return;
        }
        let bytes = growth(call, self.heap_end.load(Ordering::Relaxed)) as u64;
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
        if deep >= self.terms().join_bytes {
            on_own_stack(slot, || self.own().enter());
        }
    }

    /// Takes its place, or is left alone from now on. A child that shares the memory (vfork) has descriptors of its
    /// own, and takes no place for its parent.
    pub(crate) fn enter(&'static self) {
        let _alone = self.gate.exclusive();
        let is_child = || self.process_id.load(Ordering::Relaxed) != process::process_id();
        if self.phase() != Phase::Waiting || is_child() {
            return;
        }
        if let Err(reason) = self.take_place() {
            self.set_phase(Phase::Outside);
            if !matches!(reason, Refused::NoRun) {
                messages::say_of_process(format_args!("it is left alone: {reason}. Run 'uswap doctor'"));
            }
        }
    }

    pub(crate) fn take_place(&'static self) -> Result<(), Refused> {
        self.background_stack.prepare().map_err(|_| NO_ROOM)?;
        let (stack, bytes) = self.background_stack.range().ok_or(NO_ROOM)?;
        own_memory::add(stack, bytes);
        let opened = invitation::open_segment().ok_or(Refused::NoRun)?;
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
        let _space = self.join(None)?;
        self.set_phase(Phase::Watching);
        self.spawn_background()
    }

    /// Takes a record, or the one that a parent has made, and opens what the engine will need.
    pub(crate) fn join(&'static self, made: Option<MmId>) -> Result<&'static Space, Refused> {
        let joined = self.open_all(made);
        if joined.is_err() {
            descriptors::forget_closed();
        }
        joined
    }

    fn open_all(&'static self, made: Option<MmId>) -> Result<&'static Space, Refused> {
        const NOT_OPEN: Refused =
            Refused::Needs("a file in /proc or a swap file of the run cannot be opened");
        let membership = self.membership();
        let uffd = Uffd::open().map_err(Refused::Userfaultfd)?;
        let uffd = Uffd::from_fd(descriptors::keep(uffd.into_fd()).map_err(|_| NOT_OPEN)?);
        let pagemap = Pagemap::open_as(descriptors::keep).map_err(|_| NOT_OPEN)?;
        let maps = Maps::open_as(descriptors::keep).map_err(|_| NOT_OPEN)?;
        let mm = match made {
            Some(mm) => mm,
            None => supervisor::take_record(&membership.segment)
                .ok_or(Refused::Needs("the run has no room for a process and its page table"))?,
        };
        let record = membership.segment.mms().record(mm);
        let root = record.root().ok_or(Refused::Needs("its record has no page table"))?;
        let segment = membership.segment.acting_as(record.id());
        let files = OpenFiles::of_the_run(segment, record).ok_or(NOT_OPEN)?;
        let world = LinuxWorld {
            gate: &self.gate,
            hazards: self.hazards(),
            uffd,
            pagemap,
            maps,
            files,
            segment,
            segment_start: membership.segment_start,
            drops_ranges: memory::can_drop_ranges().is_ok(),
        };
        self.set_mm(record.id());
        messages::keep_open();
        segment.counters().add(Counter::Joined, 1);
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
        let spawned = spawn(&self.background_stack, background::main, argument, Files::Shared);
        spawned.map(drop).map_err(|_| Refused::Needs(NO_THREAD))
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
