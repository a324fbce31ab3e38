//! What this machine allows, each answer by trying it: version numbers lie (backports, containers, seccomp).
//!
//! Run by `uswap doctor` and at the start of `uswap run`, in a process that has nothing registered. Every test cleans
//! up behind itself.

use core::ffi::CStr;

use crate::PAGE_BYTES;
use crate::fd::read_file;
use crate::file::{AllowTmpfs, FileSystem, SwapFile, SwapFileError};
use crate::maps::{Maps, MapsSource};
use crate::memory::{self, Access, Mapping, memfd_create};
use crate::pagemap::{Pagemap, What};
use crate::ring::{Operation, Request, Ring};
use crate::sys::{Errno, Result, abi};
use crate::text::{TextBuffer, skip_spaces, take_number};
use crate::uffd::{self, Features, Holes, Mode, Uffd, UffdError, UffdSource};
use crate::without::Without;

/// Answer of a test: works, or what the kernel said.
pub type Answer = Result<()>;

/// When the kernel makes transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// For all memory.
    Always,
    /// Where a program asks.
    Madvise,
    /// Not.
    Never,
    /// The kernel does not say.
    Unknown,
}

/// What is known of the swap directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapDirectory {
    /// Its file system, or why it cannot be opened.
    pub file_system: Result<FileSystem>,
    /// Whether a swap file works there; `true` inside: with O_DIRECT.
    pub swap_file: core::result::Result<bool, SwapFileError>,
}

/// What this machine allows.
#[derive(Debug)]
pub struct Probe {
    /// Opening `/dev/userfaultfd` and making a userfaultfd of it. ENOENT: no such device; EACCES: no rights.
    pub device: Answer,
    /// The userfaultfd system call with full rights. EPERM: neither CAP_SYS_PTRACE nor the sysctl; ENOSYS: forbidden by
    /// a filter, or not built.
    pub system_call: Answer,
    /// The system call for faults of user mode only, which needs no rights.
    pub system_call_user_mode: Answer,
    /// Which way [`Uffd::open`] takes, with the events that uswap needs; without EVENT_FORK if that is refused.
    pub uffd: core::result::Result<UffdSource, UffdError>,
    /// A userfaultfd whose faults the program's own threads serve, which needs no rights.
    pub in_thread: core::result::Result<(), UffdError>,
    /// A userfaultfd with EVENT_FORK. EPERM: no CAP_SYS_PTRACE.
    pub event_fork: Answer,
    /// A system call on a missing page waits for the handler instead of failing (full rights).
    pub kernel_mode_faults: Answer,
    /// A page was moved and its content arrived.
    pub move_pages: Answer,
    /// A poisoned page answers EFAULT to a system call.
    pub poison: Answer,
    /// PAGEMAP_SCAN told a present page from a missing one.
    pub pagemap_scan: Answer,
    /// PROCMAP_QUERY found this code.
    pub procmap_query: Answer,
    /// Many ranges of this process can be dropped with one call.
    pub drop_ranges: Answer,
    /// Locked pages were dropped with one call.
    pub drop_locked: Answer,
    /// A page was made present as a write makes it.
    pub populate: Answer,
    /// A write went through an io_uring.
    pub io_uring: Answer,
    /// A file in memory was made and mapped.
    pub memfd: Answer,
    /// Whether the effective capabilities of this process have CAP_SYS_PTRACE.
    pub cap_sys_ptrace: bool,
    /// `vm.unprivileged_userfaultfd`; `None` when there is no such file.
    pub unprivileged_userfaultfd: Option<u64>,
    /// `kernel.io_uring_disabled`; `None` when there is no such file.
    pub io_uring_disabled: Option<u64>,
    /// `vm.overcommit_memory`.
    pub overcommit_memory: Option<u64>,
    /// The swap directory, if one was given.
    pub swap_directory: Option<SwapDirectory>,
    /// Mode of transparent huge pages.
    pub huge_pages: HugePages,
    /// Kernel release, as `uname -r` has it.
    pub kernel_release: TextBuffer<65>,
    /// What is not tried, because it is switched off.
    pub without: Without,
    /// CPUs that this process may use.
    pub cpu_count: usize,
    /// RAM of the machine in bytes; 0 when the kernel does not say.
    pub memory_bytes: u64,
}

const CAP_SYS_PTRACE: u32 = 19;

impl Probe {
    /// Runs all tests; takes some milliseconds.
    pub fn run(swap_directory: Option<&CStr>) -> Probe {
        let uffd = open_best();
        let with_uffd = |test: fn(&Uffd) -> Answer| match &uffd {
            Ok(uffd) => test(uffd),
            Err(error) => Err(errno_of(error)),
        };
        Probe {
            device: uffd::open_device().map(drop),
            system_call: uffd::open_system_call(0).map(drop),
            system_call_user_mode: uffd::open_system_call(abi::UFFD_USER_MODE_ONLY).map(drop),
            in_thread: Uffd::open_in_thread().map(drop),
            event_fork: Uffd::open(Features::EVENT_FORK).map(drop).map_err(|error| errno_of(&error)),
            kernel_mode_faults: with_uffd(test_kernel_mode_faults),
            move_pages: with_uffd(test_move),
            poison: with_uffd(test_poison),
            pagemap_scan: test_pagemap_scan(),
            procmap_query: test_procmap_query(),
            drop_ranges: memory::can_drop_ranges(),
            drop_locked: memory::can_drop_locked(),
            populate: memory::can_populate(),
            io_uring: test_io_uring(),
            memfd: test_memfd(),
            cap_sys_ptrace: effective_capabilities().is_some_and(|bits| bits & (1 << CAP_SYS_PTRACE) != 0),
            unprivileged_userfaultfd: number_file(c"/proc/sys/vm/unprivileged_userfaultfd"),
            io_uring_disabled: number_file(c"/proc/sys/kernel/io_uring_disabled"),
            overcommit_memory: number_file(c"/proc/sys/vm/overcommit_memory"),
            swap_directory: swap_directory.map(|path| SwapDirectory {
                file_system: FileSystem::of_path(path),
                swap_file: SwapFile::create(path, AllowTmpfs::No).map(|file| file.is_direct()),
            }),
            huge_pages: huge_pages(),
            kernel_release: kernel_release(),
            without: Without::of_this_process(),
            cpu_count: crate::thread::cpu_count(),
            memory_bytes: memory_bytes(),
            uffd: uffd.map(|uffd| uffd.source()),
        }
    }
}

/// The descriptor that the agent would get: with all events, or without those of fork.
fn open_best() -> core::result::Result<Uffd, UffdError> {
    match Uffd::open(Features::EVENTS) {
        Err(UffdError::Features { errno: Errno::EPERM, .. }) => {
            Uffd::open(Features::EVENTS.without(Features::EVENT_FORK))
        }
        answer => answer,
    }
}

fn errno_of(error: &UffdError) -> Errno {
    match *error {
        // EACCES of the device says more than EPERM of the call, ENOENT less.
        UffdError::NoWayIn { device: Errno::EACCES, .. } => Errno::EACCES,
        UffdError::NoWayIn { system_call, .. } => system_call,
        UffdError::Features { errno, .. } => errno,
    }
}

/// A mapping, unregistered before it goes: with unmap events, munmap of a registered range would wait for a reader.
struct Registered<'a> {
    uffd: &'a Uffd,
    mapping: Mapping,
}

impl<'a> Registered<'a> {
    fn new(uffd: &'a Uffd, pages: usize, mode: Mode) -> Result<Registered<'a>> {
        let mapping = Mapping::anonymous(pages * PAGE_BYTES, PAGE_BYTES, Access::ReadWrite)?;
        // Neighbours of the same kind merge; a huge page would make the test one of something else.
        let _ = memory::no_huge_pages(mapping.start(), mapping.bytes());
        uffd.register(mapping.start(), mapping.bytes(), mode)?;
        Ok(Registered { uffd, mapping })
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let _ = self.uffd.unregister(self.mapping.start(), self.mapping.bytes());
    }
}

/// Content of a test page.
const PATTERN: [u8; PAGE_BYTES] = [0x5A; PAGE_BYTES];

fn test_move(uffd: &Uffd) -> Answer {
    let source = Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, Access::ReadWrite)?;
    let target = Registered::new(uffd, 1, Mode::WriteProtect)?;
    // SAFETY:
    // 1. Both mappings are of this function, readable and writable, and no reference into them exists.
    // 2. The destination is registered in write-protect mode only: a touch of a missing page is the kernel's.
    let content = unsafe {
        source.as_ptr().cast::<[u8; PAGE_BYTES]>().write(PATTERN);
        let progress = uffd.move_pages(target.mapping.start(), source.start(), PAGE_BYTES, Holes::Refuse);
        if let Some(stop) = progress.stop {
            return Err(stop_errno(stop));
        }
        target.mapping.as_ptr().read_volatile()
    };
    if content == PATTERN[0] { Ok(()) } else { Err(Errno::EIO) }
}

fn stop_errno(stop: uffd::Stop) -> Errno {
    match stop {
        uffd::Stop::AlreadyMapped => Errno::EEXIST,
        uffd::Stop::Retry => Errno::EAGAIN,
        uffd::Stop::Busy => Errno::EBUSY,
        uffd::Stop::NoSource => Errno::ENOENT,
        uffd::Stop::Refused => Errno::EINVAL,
        uffd::Stop::Gone => Errno::ESRCH,
        uffd::Stop::Other(errno) => errno,
    }
}

/// Writes one byte of `address` to a new pipe: the kernel, not this program, touches the page.
fn touch_by_kernel(address: usize) -> Result<u8> {
    let (reader, writer) = crate::fd::pipe()?;
    // SAFETY:
    // 1. The kernel reads one byte of a mapping of the caller, or answers EFAULT.
    unsafe { crate::sys::syscall3(abi::__NR_write, writer.raw() as usize, address, 1) }?;
    let mut byte = [0];
    reader.read(&mut byte)?;
    Ok(byte[0])
}

fn test_poison(uffd: &Uffd) -> Answer {
    let area = Registered::new(uffd, 1, Mode::Missing)?;
    if let Some(stop) = uffd.poison(area.mapping.start(), PAGE_BYTES).stop {
        return Err(stop_errno(stop));
    }
    match touch_by_kernel(area.mapping.start()) {
        Err(Errno::EFAULT) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Errno::EIO),
    }
}

/// A second thread serves the fault that this one's system call runs into.
fn test_kernel_mode_faults(uffd: &Uffd) -> Answer {
    use crate::fd::{PollEntry, Timeout, poll};
    use crate::gate::Lock;
    use crate::thread::{Files, StackArea, spawn};
    use core::sync::atomic::{AtomicBool, Ordering};

    static AREA: StackArea = StackArea::new(64 * 1024);
    static ONE_AT_A_TIME: Lock = Lock::new();

    struct Work<'a> {
        uffd: &'a Uffd,
        over: AtomicBool,
    }

    extern "C" fn serve(argument: usize) {
        // SAFETY:
        // 1. The argument is the address of the caller's `Work`, and the caller waits for this thread before it
        //    returns.
        let work = unsafe { &*(argument as *const Work<'_>) };
        let mut entries = [PollEntry::readable(work.uffd.fd())];
        // Acquire pairs with the release below: nothing else is read after it.
        while !work.over.load(Ordering::Acquire) {
            let _ = poll(&mut entries, Timeout::Nanoseconds(10_000_000));
            let mut messages = [uffd::UffdMsg::EMPTY; 1];
            if work.uffd.read(&mut messages) == Ok(1)
                && let uffd::Message::Fault { address, .. } = messages[0].decode(work.uffd.features())
            {
                let _ = work.uffd.copy_page(address, &PATTERN, uffd::Wake::Now);
            }
        }
    }

    let _alone = ONE_AT_A_TIME.lock();
    let area = Registered::new(uffd, 1, Mode::Missing)?;
    let work = Work { uffd, over: AtomicBool::new(false) };
    spawn(&AREA, serve, core::ptr::from_ref(&work) as usize, Files::Shared)?;
    let answer = touch_by_kernel(area.mapping.start());
    work.over.store(true, Ordering::Release);
    AREA.join(Timeout::Forever);
    match answer {
        Ok(byte) if byte == PATTERN[0] => Ok(()),
        Ok(_) => Err(Errno::EIO),
        Err(error) => Err(error),
    }
}

fn test_pagemap_scan() -> Answer {
    let area = Mapping::anonymous(3 * PAGE_BYTES, PAGE_BYTES, Access::ReadWrite)?;
    memory::no_huge_pages(area.start(), area.bytes())?;
    memory::populate_write(area.start() + PAGE_BYTES, PAGE_BYTES)?;
    let bits = Pagemap::open()?.look_by_scan(area.start(), 3, What::Present)?;
    if bits[0] == 0b010 { Ok(()) } else { Err(Errno::EIO) }
}

fn test_procmap_query() -> Answer {
    let maps = Maps::open()?;
    if maps.source() == MapsSource::Text {
        return Err(Errno::ENOTTY);
    }
    let here = test_procmap_query as *const () as usize;
    match maps.covering_or_next(here)? {
        Some(vma) if vma.start <= here && vma.executable => Ok(()),
        _ => Err(Errno::EIO),
    }
}

fn test_io_uring() -> Answer {
    let mut ring = Ring::new(4)?;
    let file = memfd_create(c"uswap-probe", 0)?;
    let mut word = *b"probe---";
    // SAFETY:
    // 1. `word` lives until its completion is popped below; the kernel only reads it.
    let pushed = unsafe {
        ring.push(Request {
            operation: Operation::Write,
            descriptor: file.raw(),
            buffer: word.as_mut_ptr(),
            bytes: word.len() as u32,
            offset: 0,
            user_data: 1,
        })
    };
    if !pushed {
        return Err(Errno::EAGAIN);
    }
    ring.submit_and_wait(1)?;
    let completion = ring.pop().ok_or(Errno::EIO)?;
    let mut back = [0; 8];
    if completion.result? == 8 && file.pread(&mut back, 0)? == 8 && back == word {
        Ok(())
    } else {
        Err(Errno::EIO)
    }
}

fn test_memfd() -> Answer {
    use core::sync::atomic::Ordering;
    let file = memfd_create(c"uswap-probe", PAGE_BYTES as u64)?;
    let words = memory::map_shared_words(&file, PAGE_BYTES, Access::ReadWrite)?;
    words[1].store(0x1234, Ordering::Relaxed);
    let mut back = [0; 8];
    file.pread(&mut back, 8)?;
    let same = u64::from_ne_bytes(back) == 0x1234;
    // SAFETY:
    // 1. The mapping was made above and `words` is not used again.
    unsafe { memory::unmap(words.as_ptr() as usize, PAGE_BYTES) }?;
    if same { Ok(()) } else { Err(Errno::EIO) }
}

/// The number at the start of a small file.
fn number_file(path: &CStr) -> Option<u64> {
    let mut buffer = [0; 64];
    let text = read_file(path, &mut buffer).ok()?;
    take_number(text, 10).map(|(number, _)| number)
}

/// The rest of the line that starts with `key`, in a file that fits into 8 KiB up to there.
fn line_number(path: &CStr, key: &[u8], radix: u32) -> Option<u64> {
    let mut buffer = [0; 8192];
    let text = read_file(path, &mut buffer).ok()?;
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key))?;
    take_number(skip_spaces(line), radix).map(|(number, _)| number)
}

fn effective_capabilities() -> Option<u64> {
    line_number(c"/proc/self/status", b"CapEff:", 16)
}

/// RAM of the machine in bytes; 0 when the kernel does not say.
pub fn memory_bytes() -> u64 {
    line_number(c"/proc/meminfo", b"MemTotal:", 10).unwrap_or(0) * 1024
}

fn huge_pages() -> HugePages {
    let mut buffer = [0; 64];
    let text = read_file(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut buffer).unwrap_or(&[]);
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    if has(b"[always]") {
        HugePages::Always
    } else if has(b"[madvise]") {
        HugePages::Madvise
    } else if has(b"[never]") {
        HugePages::Never
    } else {
        HugePages::Unknown
    }
}

/// Kernel release, as `uname -r` has it.
pub fn kernel_release() -> TextBuffer<65> {
    let mut buffer = [0; 64];
    let text = read_file(c"/proc/sys/kernel/osrelease", &mut buffer).unwrap_or(&[]);
    let text = core::str::from_utf8(text).unwrap_or("").trim_end();
    TextBuffer::format(format_args!("{text}"))
}
