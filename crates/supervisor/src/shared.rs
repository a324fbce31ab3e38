//! What the threads of the supervisor share.

use std::ffi::OsString;
use std::fmt::Arguments;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use uswap_control::unpoisoned;
use uswap_core::budget::Signal;
use uswap_core::file_key::FILE_KEY_BYTES;
use uswap_core::pool::{Pool, ZSPAGE_BYTES};
use uswap_core::readahead_buffers::ReadaheadBuffers;
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::reaper::Trim;
use uswap_engine::world::{Backing, FileBuffer, FileError};
use uswap_identity::RunOptions;
use uswap_os::file::AllowTmpfs;
use uswap_os::futex::{self, Scope};
use uswap_os::memory::{self, Access};
use uswap_os::uffd::Uffd;
use uswap_os::without::Without;
use uswap_os::{Fd, process, random};
use uswap_units::limits::MM_MAX;
use uswap_units::{Bytes, ClusterId, PAGE_BYTES, SwapOffset, ZspageId};

use crate::control;
use crate::error::StartError;
use crate::files::changes::FileChanges;
use crate::files::{ADDED_BYTES_MIN, OpenFiles, slots_of};
use crate::growth_functions::known_functions;
use crate::holders::Holders;
use crate::options::{Limits, OnFull, Options, Say};
use crate::pressure::Pressure;
use crate::processes::{Processes, Root};
use crate::report::Unmanaged;
use crate::requests::Requests;
use crate::stop::Stop;

/// A process takes a place when it has this part of the budget: before that there is little
/// to gain from it, and what it would cost matters (a shell script starts hundreds).
const JOIN_PART: u64 = 128;
const JOIN_BYTES: RangeInclusive<u64> = (256 << 10)..=(8 << 20);

pub const SIGKILL: u32 = 9;
pub const SIGCONT: u32 = 18;
pub const SIGSTOP: u32 = 19;

/// Everything of one run.
pub struct Shared {
    pub options: Options,
    limits: Mutex<Arc<Limits>>,
    zspage_room_bytes: u64,
    say: Say,
    pub segment: Segment<'static>,
    pub memfd: Fd,
    pub files: OpenFiles,
    pub processes: Processes,
    /// In the name of the socket.
    pub token: u64,
    /// Where processes ask for descriptors.
    pub socket: io::Result<UnixListener>,
    /// Where people and libraries ask.
    pub control: io::Result<UnixListener>,
    /// Ends the threads of the supervisor, and their waiting.
    pub stop: Stop,
    pub started: Instant,
    pub peaks: Peaks,
    warnings: Mutex<Vec<String>>,
    pub unmanaged: Mutex<Vec<Unmanaged>>,
    /// What held memory when the run was over its budget, as last looked.
    pub holders: Mutex<Option<Holders>>,
    /// What the shrinker was told to do.
    pub requests: Requests,
    pub pressure: Pressure,
    /// Held while a process is asked for a map of its memory.
    pub making_map: Mutex<()>,
    /// Held while limits change. Those to come back to, while the run is frozen.
    pub changing_limits: Mutex<Option<Limits>>,
    /// The processes of the run are stopped by [`crate::freeze`], or are about to be.
    pub is_frozen: AtomicBool,
    /// Swap files that come or go.
    pub file_changes: FileChanges,
}

/// The highest values that were measured, in bytes, and the time above the budget.
#[derive(Default)]
pub struct Peaks {
    /// Of the budgets that it had.
    pub ram: AtomicU64,
    pub resident: AtomicU64,
    pub shared: AtomicU64,
    pub pool: AtomicU64,
    pub engine: AtomicU64,
    pub used: AtomicU64,
    pub slots: AtomicU64,
    pub over_budget_ns: AtomicU64,
}

impl Shared {
    pub fn new(options: Options, say: Say) -> Result<Shared, StartError> {
        Uffd::open().map_err(StartError::Userfaultfd)?;
        if process::ids_in_proc().process != process::process_id() {
            return Err(StartError::PidNamespace);
        }
        let geometry = geometry(&options, slots_of(&options.swap_files)?);
        let allow_tmpfs = if options.allow_tmpfs { AllowTmpfs::Yes } else { AllowTmpfs::No };
        let files = OpenFiles::make(&options.swap_files, allow_tmpfs)?;
        let (memfd, segment) = make_segment(geometry)?;
        for spec in files.specs() {
            let added = segment.slots().add_file(spec);
            added.expect("the geometry was made for these files, and they are not too many");
        }
        segment.budget().set_ram(Bytes::new(options.limits.ram_bytes));
        segment.pool().set_limit_bytes(options.limits.pool_bytes_at_start());
        // Until it is known whether that pays: what is in the pool already is not compressed again before it was used.
        segment.pool().set_compresses_densely(true);
        let (token, ram_bytes) = (random_number()?, options.limits.ram_bytes);
        let pressure = Pressure::new(segment);
        Ok(Shared {
            limits: Mutex::new(Arc::new(options.limits.clone())),
            zspage_room_bytes: u64::from(geometry.zspages) * ZSPAGE_BYTES as u64,
            options,
            say,
            segment,
            memfd,
            files,
            processes: Processes::default(),
            token,
            socket: crate::socket::listen(token),
            control: control::server::listen(),
            stop: Stop::new()?,
            started: Instant::now(),
            peaks: Peaks { ram: AtomicU64::new(ram_bytes), ..Peaks::default() },
            warnings: Mutex::new(Vec::new()),
            unmanaged: Mutex::new(Vec::new()),
            holders: Mutex::default(),
            requests: Requests::default(),
            pressure,
            making_map: Mutex::default(),
            changing_limits: Mutex::default(),
            is_frozen: AtomicBool::new(false),
            file_changes: FileChanges::default(),
        })
    }

    /// The value of `USWAP_RUN`.
    pub fn invitation(&self) -> OsString {
        let options = RunOptions {
            keep_after_setuid: self.options.keep_after_setuid,
            verbose: self.options.verbosity > 0,
            regions_only: self.options.regions_only,
            join_kib: (self.join_bytes() >> 10) as u32,
            without: Without::of_this_process().bits(),
        };
        let bits = options.bits();
        let inode = self.memfd.status().map_or(0, |status| status.inode);
        let known = known_functions();
        let numbers = format!(
            "{}:{}:{inode}:{:016x}:{bits}:{known}:",
            process::process_id(),
            self.memfd.raw(),
            self.token
        );
        let mut invitation = OsString::from(numbers);
        invitation.push(&self.options.agent);
        invitation
    }

    /// With whom the run begins.
    pub fn root(&self) -> Root {
        self.options.root.map_or(Root::Supervisor, Root::Member)
    }

    /// What a process has when it takes a place in the run.
    pub fn join_bytes(&self) -> u64 {
        (self.options.limits.ram_bytes / JOIN_PART).clamp(*JOIN_BYTES.start(), *JOIN_BYTES.end())
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_asked()
    }

    /// Waits for so long, or until the run ends.
    pub fn sleep(&self, time: Duration) {
        self.stop.pause(time);
    }

    /// The run has ended: every thread of the supervisor finds out at once, whatever it waits for.
    pub fn end(&self) {
        self.stop.ask();
        // Behind that: who waits for a signal reads its count before it asks whether the run has ended.
        self.raise(Signal::Shrink);
        self.raise(Signal::Readahead);
    }

    /// Says something to the user.
    pub fn say(&self, line: Arguments<'_>) {
        (self.say)(line);
    }

    /// Says something once and keeps it for the report.
    pub fn warn(&self, text: &str) {
        let mut warnings = unpoisoned(self.warnings.lock());
        if !warnings.iter().any(|known| known == text) {
            warnings.push(text.to_owned());
            self.say(format_args!("{text}"));
        }
    }

    pub fn warnings(&self) -> Vec<String> {
        unpoisoned(self.warnings.lock()).clone()
    }

    /// Sends a signal to all processes of the run, also those that have just come.
    pub fn signal_all(&self, signal: u32) {
        self.processes.follow(self.segment.mms(), &self.memfd);
        self.processes.signal(signal);
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

    /// Whether what is over the budget matters: not while the run is put aside, nor when it was left.
    pub fn keeps_budget(&self) -> bool {
        // Acquire pairs with the Release of `freeze` and `thaw`.
        !self.is_frozen.load(Ordering::Acquire) && !self.segment.budget().is_leaving()
    }

    /// What the run has to keep to now.
    pub fn limits(&self) -> Arc<Limits> {
        Arc::clone(&*unpoisoned(self.limits.lock()))
    }

    /// From now on the run keeps to these. What the pool and the processes have over them is not gone yet.
    pub fn set_limits(&self, limits: Limits) {
        self.segment.budget().set_ram(Bytes::new(limits.ram_bytes));
        self.peaks.ram.fetch_max(limits.ram_bytes, Ordering::Relaxed);
        *unpoisoned(self.limits.lock()) = Arc::new(limits);
        let pool = self.segment.pool();
        pool.set_limit_bytes(
            pool.limit_bytes().clamp(*self.pool_bounds().start(), *self.pool_bounds().end()),
        );
        self.raise(Signal::Pressure);
        self.raise(Signal::Shrink);
    }

    /// Between what the limit of the pool moves: never more than the segment has room for.
    pub fn pool_bounds(&self) -> RangeInclusive<u64> {
        let (least, most) = self.limits().pool_bounds().into_inner();
        let room = self.zspage_room_bytes;
        least.min(room)..=most.min(room)
    }

    pub fn on_full(&self) -> OnFull {
        self.limits().on_full
    }
}

fn geometry(options: &Options, slots: u64) -> Geometry {
    let at_start: u64 = options.swap_files.iter().map(|file| file.bytes_max).sum();
    // An entry takes 32 bytes of address space: not more of them than the least that may be added needs. What is added
    // beyond that replaces another file, or has less room for values and clean copies.
    let swap_bytes = at_start + ADDED_BYTES_MIN;
    // A page of the program takes at least some of pool or file; two pages a slot is what compression gives, and the
    // rest is for values and clean copies.
    let pages = options.limits.ram_bytes.saturating_add(swap_bytes.saturating_mul(2)) / PAGE_BYTES as u64;
    let entries = pages.clamp(1 << 16, 1 << 26).next_multiple_of(512) as u32;
    Geometry {
        mms: MM_MAX,
        // A leaf for 2 MiB: 128 GiB of managed address space, summed over the processes.
        tables: 1 << 16,
        entries,
        // The pool may grow to the whole budget when the file is full.
        zspages: (options.limits.ram_bytes.saturating_mul(2) / ZSPAGE_BYTES as u64).clamp(64, 1 << 22) as u32,
        slots,
        readahead: ReadaheadBuffers::count_for(options.limits.ram_bytes),
    }
}

/// The segment of a run without anything in it, and the file that it lies in.
fn make_segment(geometry: Geometry) -> Result<(Fd, Segment<'static>), StartError> {
    let bytes = geometry.layout().total_words() as u64 * 8;
    let memfd = memory::memfd_create(c"uswap-segment", bytes)
        .map_err(|errno| StartError::SegmentFile { errno, bytes })?;
    // By this lock the processes of the run know that their supervisor lives.
    crate::locks::hold_supervisor_lock(&memfd)?;
    let words = memory::map_shared_words(&memfd, bytes as usize, Access::ReadWrite)
        .map_err(StartError::SegmentMapping)?;
    let segment = Segment::create(words, geometry).waiting_by(crate::locks::wait_for_lock);
    segment.set_sources(uswap_identity::OWN.words());
    segment.file_key().set(random_key()?);
    Ok((memfd, segment))
}

fn random_number() -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    random::fill(&mut bytes).map_err(StartError::RandomNumber)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The key of the run: it is in the segment and nowhere else, and goes with it.
fn random_key() -> Result<[u8; FILE_KEY_BYTES], StartError> {
    let mut key = [0; FILE_KEY_BYTES];
    random::fill(&mut key).map_err(StartError::RandomKey)?;
    Ok(key)
}

impl Trim for Shared {
    fn release_file(&self, bytes: Range<SwapOffset>) {
        if let Err(what) = self.files.release(self.segment.slots().files(), bytes) {
            self.warn(&format!(
                "blocks of the swap file {what} cannot be given back: it keeps its size until the run ends. A file \
                 system that punches holes (ext4, xfs, btrfs) gives them back: name a directory there with --swap"
            ));
        }
    }

    fn release_cluster(&self, cluster: ClusterId) {
        for (offset, bytes) in self.segment.layout().cluster_bytes(cluster) {
            if let Err(errno) = self.memfd.punch_hole(offset, bytes) {
                self.warn(&format!(
                    "memory of the swap table cannot be given back ({errno}): the run may go over its budget. If it \
                     does, start it again"
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
                "memory of the pool cannot be given back ({errno}): the run may go over its budget. If it does, \
                 start it again"
            ));
        }
    }

    async fn read_file(
        &self,
        offset: SwapOffset,
        bytes: usize,
        buffer: &mut FileBuffer,
    ) -> Result<(), FileError> {
        self.files.read(self.segment.slots().files(), offset, &mut buffer.0[..bytes])
    }

    async fn pause(&self) {
        std::thread::yield_now();
    }

    async fn step(&self) {}

    fn now_ns(&self) -> u64 {
        uswap_os::clock::engine_now_ns()
    }

    fn raise(&self, signal: Signal) {
        Shared::raise(self, signal);
    }

    async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        let word = self.segment.budget().signal_word(signal);
        futex::wait_low(word, seen, uswap_os::fd::Timeout::Nanoseconds(timeout_ns), Scope::Shared);
    }
}
