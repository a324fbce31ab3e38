//! What the threads of the supervisor share.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use uswap_core::budget::Signal;
use uswap_core::file_key::FILE_KEY_BYTES;
use uswap_core::pool::{Pool, ZSPAGE_BYTES};
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::platform::{Backing, FileBuffer, FileError};
use uswap_engine::reaper::GiveBack;
use uswap_os::file::{AllowTmpfs, IoCause, IoError, SwapFile, SwapFileError};
use uswap_os::futex::{self, Scope};
use uswap_os::memory::{self, Access};
use uswap_os::uffd::{Features, Uffd};
use uswap_os::{Fd, process, random, thread};
use uswap_units::limits::MM_MAX;
use uswap_units::{Bytes, PAGE_BYTES, ZspageId};

use super::{OnFull, Options};
use crate::message::say;
use crate::report::Unmanaged;

/// Largest swap file: what the page words can name, and the default.
const SWAP_BYTES_MAX: u64 = 256 << 30;

/// Options as the agent reads them; the bits of `USWAP_RUN`.
const KEEP_AFTER_SETUID: u32 = 1;
const VERBOSE: u32 = 2;
const DIRECT: u32 = 4;

/// Everything of one run.
pub struct Shared {
    pub options: Options,
    pub segment: Segment<'static>,
    pub memfd: Fd,
    pub swap_file: SwapFile,
    /// Process id of the program.
    pub program: AtomicU32,
    pub stopping: AtomicBool,
    pub started: Instant,
    pub peaks: Peaks,
    warnings: Mutex<Vec<String>>,
    pub unmanaged: Mutex<Vec<Unmanaged>>,
}

/// The highest values that were measured, in bytes, and the time above the budget.
#[derive(Default)]
pub struct Peaks {
    pub resident: AtomicU64,
    pub pool: AtomicU64,
    pub engine: AtomicU64,
    pub used: AtomicU64,
    pub slots: AtomicU64,
    pub over_budget_ns: AtomicU64,
}

impl Shared {
    pub fn new(options: Options) -> anyhow::Result<Shared> {
        Uffd::open(Features::EVENTS.without(Features::EVENT_FORK)).map_err(|error| {
            anyhow!(
                "faults cannot be served here: {error}. uswap needs userfaultfd to bring pages back; \
                 'uswap doctor' says what is missing and how to mend it"
            )
        })?;
        let swap_file = make_swap_file(&options)?;
        let geometry = geometry(&options);
        let bytes = geometry.layout().total_words() as u64 * 8;
        let memfd = memory::memfd_create(c"uswap-segment", bytes).map_err(|errno| {
            anyhow!("the shared memory of the run cannot be made ({errno}): memfd_create of {bytes} bytes")
        })?;
        let words = memory::map_shared_words(&memfd, bytes as usize, Access::ReadWrite).map_err(|errno| {
            anyhow!("the shared memory of the run cannot be mapped ({errno}): is there a limit on address space (ulimit -v)?")
        })?;
        let segment = Segment::create(words, geometry).waiting_by(super::reaper::wait_for_lock);
        segment.file_key().set(random_key()?);
        segment.budget().set_ram(Bytes(options.ram_bytes));
        segment.budget().set_supervisor(process::process_id());
        segment.pool().set_limit_bytes(options.pool.bytes_at_start(options.ram_bytes));
        if let Ok(processors) = thread::affinity(0) {
            segment.placement().set_processors(&processors);
        }
        Ok(Shared {
            options,
            segment,
            memfd,
            swap_file,
            program: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            peaks: Peaks::default(),
            warnings: Mutex::new(Vec::new()),
            unmanaged: Mutex::new(Vec::new()),
        })
    }

    /// The value of `USWAP_RUN`.
    pub fn invitation(&self) -> String {
        let mut bits = 0;
        for (set, bit) in [
            (self.options.keep_after_setuid, KEEP_AFTER_SETUID),
            (self.options.verbosity > 0, VERBOSE),
            (self.swap_file.is_direct(), DIRECT),
        ] {
            bits |= if set { bit } else { 0 };
        }
        format!("{}:{}:{}:{bits}", process::process_id(), self.memfd.raw(), self.swap_file.fd().raw())
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Says something once and keeps it for the report.
    pub fn warn(&self, text: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !warnings.iter().any(|known| known == text) {
            warnings.push(text.to_owned());
            say(format_args!("{text}"));
        }
    }

    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Wakes all who wait for a signal, in all processes.
    pub fn raise(&self, signal: Signal) {
        self.segment.budget().raise(signal);
        futex::wake_low(self.segment.budget().signal_word(signal), u32::MAX, Scope::Shared);
    }

    /// Bytes of RAM that the segment takes.
    pub fn segment_bytes(&self) -> u64 {
        self.memfd.status().map_or(0, |status| status.bytes_allocated)
    }

    pub fn on_full(&self) -> OnFull {
        self.options.on_full
    }
}

fn geometry(options: &Options) -> Geometry {
    let swap_bytes = options.swap_bytes_max.unwrap_or(64 << 30).min(SWAP_BYTES_MAX);
    let slots = (swap_bytes / PAGE_BYTES as u64).next_multiple_of(8);
    // A page of the program takes at least some of pool or file; two pages a slot is what compression gives, and the rest is for values and clean copies.
    let pages = options.ram_bytes.saturating_add(swap_bytes.saturating_mul(2)) / PAGE_BYTES as u64;
    let entries = pages.clamp(1 << 16, 1 << 26).next_multiple_of(512) as u32;
    Geometry {
        mms: MM_MAX,
        // A leaf for 2 MiB: 128 GiB of managed address space, summed over the processes.
        tables: 1 << 16,
        entries,
        // The pool may grow to the whole budget when the file is full.
        zspages: (options.ram_bytes.saturating_mul(2) / ZSPAGE_BYTES as u64).clamp(64, 1 << 22) as u32,
        slots,
    }
}

/// The key of the run: it is in the segment and nowhere else, and goes with it.
fn random_key() -> anyhow::Result<[u8; FILE_KEY_BYTES]> {
    let mut key = [0; FILE_KEY_BYTES];
    random::fill(&mut key).map_err(|errno| {
        anyhow!("the kernel gives no random key for the swap file ({errno}): getrandom may be forbidden here")
    })?;
    Ok(key)
}

fn make_swap_file(options: &Options) -> anyhow::Result<SwapFile> {
    let shown = options.swap_dir.display();
    let directory = CString::new(options.swap_dir.as_os_str().as_bytes())
        .context("the swap directory's name has a zero byte")?;
    let allow = if options.allow_tmpfs { AllowTmpfs::Yes } else { AllowTmpfs::No };
    SwapFile::create(&directory, allow).map_err(|error| {
        let hint = match error {
            SwapFileError::InMemory => {
                "name a directory on a disk with --swap DIR, or say --allow-tmpfs if you want that"
            }
            SwapFileError::NoTmpfile(_) => {
                "name a directory on ext4, xfs, btrfs or another file system with O_TMPFILE with --swap DIR"
            }
            _ => "check that it exists, is writable and has room, or name another with --swap DIR",
        };
        anyhow!("the swap file cannot be made in '{shown}': {error}; {hint}")
    })
}

/// The engine's word for a failed file operation.
pub fn file_error(error: IoError) -> FileError {
    match error.cause {
        IoCause::Errno(errno) if matches!(errno.name(), Some("ENOSPC" | "EDQUOT" | "EFBIG")) => {
            FileError::Full
        }
        IoCause::Errno(errno) => FileError::Io(errno.number()),
        IoCause::EndOfFile | IoCause::NothingWritten => FileError::Short,
    }
}

impl GiveBack for Shared {
    fn release_file(&self, bytes: Range<u64>) {
        if let Err(errno) = self.swap_file.punch_hole(bytes.start, bytes.end - bytes.start) {
            self.warn(&format!("blocks of the swap file cannot be given back ({errno}): it keeps its size"));
        }
    }

    fn release_cluster(&self, cluster: u32) {
        for (offset, bytes) in self.segment.layout().cluster_bytes(cluster) {
            if let Err(errno) = self.memfd.punch_hole(offset, bytes) {
                self.warn(&format!(
                    "memory of the swap table cannot be given back ({errno}): the run may go over its budget"
                ));
            }
        }
    }
}

impl Backing for Shared {
    fn release_zspage(&self, zspage: ZspageId) {
        let offset = self.segment.layout().pool_offset_bytes() + Pool::data_offset_bytes(zspage);
        if let Err(errno) = self.memfd.punch_hole(offset, ZSPAGE_BYTES as u64) {
            self.warn(&format!(
                "memory of the pool cannot be given back ({errno}): the run may go over its budget"
            ));
        }
    }

    async fn read_file(&self, offset: u64, bytes: usize, buffer: &mut FileBuffer) -> Result<(), FileError> {
        self.swap_file.read_at(&mut buffer.0[..bytes], offset).map_err(file_error)
    }

    async fn pause(&self) {
        std::thread::yield_now();
    }

    async fn step(&self) {}

    fn now_ns(&self) -> u64 {
        uswap_os::clock::now_ns()
    }

    fn raise(&self, signal: Signal) {
        Shared::raise(self, signal);
    }

    async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        let word = self.segment.budget().signal_word(signal);
        futex::wait_low(word, seen, uswap_os::fd::Timeout::Nanoseconds(timeout_ns), Scope::Shared);
    }
}
