//! What this machine allows, each answer by trying it: version numbers lie (backports, containers, seccomp).
//!
//! It runs in a process that has nothing registered.
//!
//! Must hold: a test leaves nothing behind: no mapping, no file, no descriptor, no registration. Called by `cli`, for
//! `uswap doctor` and at the start of `uswap run`.

use core::ffi::CStr;

use crate::PAGE_BYTES;
use crate::fd::read_file;
use crate::file::{AllowTmpfs, FileSystem, SwapFile, SwapFileError};
use crate::maps::{Maps, MapsSource};
use crate::memory::{self, Access, Mapping, memfd_create};
use crate::pagemap::{PageQuery, Pagemap};
use crate::ring::{Operation, Request, Ring};
use crate::sys::{Errno, Result};
use crate::text::{TextBuffer, skip_spaces, take_number};
use crate::uffd::{Uffd, UffdError};
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
    /// A userfaultfd whose faults the program's own threads serve.
    pub uffd: core::result::Result<(), UffdError>,
    /// PAGEMAP_SCAN told a present page from a missing one.
    pub pagemap_scan: Answer,
    /// PROCMAP_QUERY found this code.
    pub procmap_query: Answer,
    /// Many ranges of this process can be dropped with one call.
    pub drop_ranges: Answer,
    /// A page was made present as a write makes it.
    pub populate: Answer,
    /// A write went through an io_uring.
    pub io_uring: Answer,
    /// A file in memory was made and mapped.
    pub memfd: Answer,
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

impl Probe {
    /// Runs all tests; takes some milliseconds.
    pub fn run(swap_directory: Option<&CStr>) -> Probe {
        Probe {
            uffd: Uffd::open().map(drop),
            pagemap_scan: test_pagemap_scan(),
            procmap_query: test_procmap_query(),
            drop_ranges: memory::can_drop_ranges(),
            populate: memory::can_populate(),
            io_uring: test_io_uring(),
            memfd: test_memfd(),
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
        }
    }
}

fn test_pagemap_scan() -> Answer {
    let area = Mapping::anonymous(3 * PAGE_BYTES, PAGE_BYTES, Access::ReadWrite)?;
    memory::no_huge_pages(area.start(), area.bytes())?;
    memory::populate_write(area.start() + PAGE_BYTES, PAGE_BYTES)?;
    let bits = Pagemap::open()?.look_by_scan(area.start(), 3, PageQuery::Present)?;
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
