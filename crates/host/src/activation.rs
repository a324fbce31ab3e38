//! Brings a process to life: at its start, in a forked child, and when memory gets short for the first time.

use crate::background;
use crate::descriptors;
use crate::mappings::is_candidate;
use crate::memory::LinuxWorld;
use crate::own_memory;
use crate::process::{Phase, Process, Run, Space};
use crate::supervisor;
use crate::swap_files::OpenFiles;
use core::arch::asm;
use core::fmt;
use core::sync::atomic::Ordering;
use uswap_core::counters::Counter;
use uswap_engine::in_place::AddressSpace;
use uswap_interpose::buffers::{HazardTable, register_asymmetric_fence};
use uswap_interpose::{Options, install, thread};
use uswap_os::maps::{Kind, Maps};
use uswap_os::pagemap::Pagemap;
use uswap_os::sys::{self, abi};
use uswap_os::thread::{Files, spawn};
use uswap_os::uffd::Uffd;
use uswap_os::{PAGE_BYTES, memory, process};
use uswap_units::{MmId, PageRange};

/// Around the thread pointer of the first thread: its control block above, its thread-local storage below.
const CONTROL_BLOCK_BYTES: usize = 8 * 1024;

/// Smaller mappings are left alone: many of them cost more mappings in the kernel than they free memory.
const MAPPING_BYTES_MIN: usize = 64 * 1024;
/// Zero-initialised data of a library, behind its file: not worth it either.
const IMAGE_BYTES_MIN: usize = 1 << 20;

/// Why a process is left alone.
#[derive(Debug)]
pub enum Refused {
    /// There is no userfaultfd for it.
    Userfaultfd(uswap_os::uffd::UffdError),
    /// Its system calls cannot be seen.
    Calls(uswap_interpose::Error),
    /// Something else that it needs.
    Needs(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Userfaultfd(error) => write!(out, "{error}"),
            Refused::Calls(error) => write!(out, "{error}"),
            Refused::Needs(what) => out.write_str(what),
        }
    }
}

impl core::error::Error for Refused {}

fn signal_bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

impl Process {
    /// Becomes part of a run. Called once, before the program has threads: from then on its system calls are seen, and
    /// when memory gets short it is managed.
    pub fn start(&'static self, run: Run) -> Result<(), Refused> {
        const NO_ROOM: Refused = Refused::Needs("there is no address space for what it needs");
        self.set_run(run);
        if !register_asymmetric_fence() {
            return Err(Refused::Needs("the kernel has no membarrier"));
        }
        let hazards = HazardTable::map(thread::THREADS_MAX).map_err(|_| NO_ROOM)?;
        own_memory::add(hazards.slot(0) as *const _ as usize, thread::THREADS_MAX * PAGE_BYTES);
        self.set_hazards(hazards);
        self.background_stack.prepare().map_err(|_| NO_ROOM)?;
        let (stack, bytes) = self.background_stack.range().ok_or(NO_ROOM)?;
        own_memory::add(stack, bytes);
        self.first_thread_pointer.store(thread_pointer(), Ordering::Relaxed);
        let _space = self.join(None)?;
        let faults = signal_bit(abi::SIGBUS) | signal_bit(abi::SIGSEGV);
        install(self, &Options { faults, ..Options::default() }).map_err(Refused::Calls)?;
        self.heap_end.store(heap_end(), Ordering::Relaxed);
        self.set_phase(Phase::Watching);
        self.spawn_background()
    }

    /// Takes a record, or the one that a parent has made, and opens what the engine will need.
    pub(crate) fn join(&'static self, made: Option<MmId>) -> Result<&'static Space, Refused> {
        const NOT_OPEN: Refused =
            Refused::Needs("a file in /proc or a swap file of the run cannot be opened");
        let run = self.run();
        let uffd = Uffd::open_in_thread().map_err(Refused::Userfaultfd)?;
        let features = uffd.features();
        let uffd = Uffd::from_fd(descriptors::keep(uffd.into_fd()), features);
        let pagemap = Pagemap::open_as(descriptors::keep).map_err(|_| NOT_OPEN)?;
        let mm = match made {
            Some(mm) => mm,
            None => supervisor::take_record(&run.segment, descriptors::keep)
                .ok_or(Refused::Needs("the run has no room for a process and its page table"))?,
        };
        let record = run.segment.mms().record(mm);
        let root = record.root().ok_or(Refused::Needs("its record has no page table"))?;
        let segment = run.segment.acting_as(record.id());
        let files = OpenFiles::of_the_run(segment, record, descriptors::keep).ok_or(NOT_OPEN)?;
        let world = LinuxWorld {
            process: self,
            uffd,
            pagemap,
            files,
            segment,
            segment_start: run.segment_start,
            drops_ranges: memory::can_drop_ranges(),
        };
        self.set_mm(record.id());
        segment.counters().add(Counter::Joined, 1);
        Ok(self.set_space(AddressSpace::new(segment, record.id(), root, world)))
    }

    pub(crate) fn spawn_background(&'static self) -> Result<(), Refused> {
        let argument = self as *const Process as usize;
        self.process_id.store(process::process_id(), Ordering::Relaxed);
        match spawn(&self.background_stack, background::main, argument, Files::Shared) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.set_phase(Phase::Outside);
                Err(Refused::Needs(
                    "the thread that evicts cannot be started: raise the limit of processes (ulimit -u)",
                ))
            }
        }
    }

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

/// Where the heap ends.
fn heap_end() -> usize {
    // SAFETY:
    // 1. With zero the call only answers.
    unsafe { sys::syscall3(abi::__NR_brk, 0, 0, 0) }.unwrap_or(0)
}

/// The thread pointer of the calling thread, which every libc keeps at the place that it points to.
fn thread_pointer() -> usize {
    let pointer;
    // SAFETY:
    // 1. The convention of thread-local storage on x86-64: the word at the thread pointer is the thread pointer.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}
