//! Moves old blobs from the pool to the swap file when the pool takes more than its share, and when pages came that do
//! not compress.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::Duration;

use uswap_core::budget::{Fullness, Signal};
use uswap_engine::Backing as _;
use uswap_engine::world::FileError;
use uswap_engine::writeback::drain::Drained;
use uswap_engine::writeback::schedule::{Pace, Schedule, Step, uncompressed_pages};
use uswap_engine::writeback::{Batch, Shrinker, SwapWriter};
use uswap_os::memory::AlignedBuf;
use uswap_os::process;
use uswap_units::limits::WRITEBACK_BATCH_BYTES;
use uswap_units::{FileId, SwapOffset};

use super::limits::{Limits, Reason};
use crate::options::OnFull;
use crate::requests::Aged;
use crate::shared::{SIGCONT, SIGKILL, SIGSTOP, Shared, block};

/// The simulator has paces of its own.
const PACE: Pace = Pace { uncompressed_pages_min: 64, compact_every_ns: 100_000_000 };

/// Without an end in tests: who goes on waiting when the run has ended hangs there.
const IDLE: Duration = if cfg!(test) { Duration::from_secs(1 << 30) } else { Duration::from_millis(20) };

/// So often, once in a millisecond, is looked whether the program has stopped; a machine that takes longer than two
/// seconds for that is stopped again.
const STOP_LOOKS: u32 = 2000;

const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The swap files with a ring, if the system has one.
struct Writer<'a> {
    shared: &'a Shared,
    limits: RefCell<Limits>,
    /// The file that was last asked for.
    asked: Cell<FileId>,
}

const MORE_ROOM: &str = "give more room with --swap DIR:SIZE";

impl Writer<'_> {
    /// Why no file has room, or none may be written.
    fn why_full(&self) -> Reason {
        let files = &self.shared.files;
        let limit = self.limits.borrow().reason(&files.directory(self.asked.get()));
        let what = if files.open().len() == 1 { "the swap file is full" } else { "all swap files are full" };
        limit.unwrap_or_else(|| Reason {
            what: what.to_owned(),
            advice: format!(
                "Make room in {}; if there is room, the largest size is reached: {MORE_ROOM}",
                files.directories()
            ),
        })
    }

    /// Why what is in one file cannot go to others.
    fn why_nothing_moves(&self) -> String {
        let limit = self.limits.borrow().reason(&self.shared.files.directory(self.asked.get()));
        limit.map_or_else(
            || {
                "the other swap files have no room for what is in it. Add one with 'uswap swapon' first"
                    .to_owned()
            },
            |Reason { what, advice }| format!("{what}. {advice}"),
        )
    }

    /// Why nothing was written that should have been.
    fn hindrance(&self, batch: Batch) -> Option<Reason> {
        match batch {
            Batch::FilesFull => Some(self.why_full()),
            Batch::Failed { file, error } => {
                let advice = match error {
                    FileError::Full => {
                        format!("Make room in '{}', or {MORE_ROOM}", self.shared.files.directory(file))
                    }
                    _ => "Look at the disk, or name another with --swap DIR".to_owned(),
                };
                Some(Reason { what: what_failed(self.shared, file, error), advice })
            }
            _ => None,
        }
    }
}

impl uswap_engine::Backing for Writer<'_> {
    fn release_zspage(&self, zspage: uswap_units::ZspageId) {
        self.shared.release_zspage(zspage);
    }
    async fn read_file(
        &self,
        offset: SwapOffset,
        bytes: usize,
        buffer: &mut uswap_engine::world::FileBuffer,
    ) -> Result<(), FileError> {
        self.shared.read_file(offset, bytes, buffer).await
    }
    async fn pause(&self) {
        self.shared.pause().await;
    }
    async fn step(&self) {}
    fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }
    fn raise(&self, signal: Signal) {
        self.shared.raise(signal);
    }
    async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        self.shared.wait(signal, seen, timeout_ns).await;
    }
}

impl SwapWriter for Writer<'_> {
    fn may_write(&self, file: FileId, bytes: u64) -> bool {
        self.asked.set(file);
        let free_bytes = || self.shared.files.free_bytes(file);
        self.limits.borrow_mut().allow(bytes, self.now_ns(), free_bytes)
    }
    async fn write_file(&self, offset: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        self.limits.borrow_mut().add(buffer.len() as u64, self.now_ns());
        let files = self.shared.segment.slots().files();
        self.shared.files.write(files, offset, buffer)
    }
}

pub fn run(shared: &Shared) {
    let writer = Writer {
        shared,
        limits: RefCell::new(Limits::new(&shared.options)),
        asked: Cell::new(FileId::new(0)),
    };
    let mut shrinker = Shrinker::new();
    let _only_root_may = uswap_os::thread::set_nice(uswap_os::thread::thread_id(), -15);
    let Ok(mut buffer) = AlignedBuf::new(WRITEBACK_BATCH_BYTES) else {
        shared.warn("there is no memory for the write-back buffer: nothing will be written to the swap file");
        return;
    };
    let segment = shared.segment;
    let mut schedule = Schedule::new(PACE, shared.now_ns());
    let mut aged = AgedWork::default();
    loop {
        // Before the question whether the run has ended: its end raises the signal too.
        let seen = shared.segment.budget().signal_count(Signal::Shrink);
        if shared.is_stopping() {
            break;
        }
        let is_emptying = empty_a_file(&mut shrinker, &writer, &mut buffer);
        let uncompressed = uncompressed_pages(segment);
        // Acquire pairs with `swap_on`: what had come by then is tried.
        let coming_files = shared.coming_files.load(Ordering::Acquire);
        let step = schedule.next(segment, shared.now_ns(), aged.is_asked(shared));
        let batch = match step {
            Step::MakeRoom => block(shrinker.write_batch(segment, &writer, &mut buffer)),
            Step::WriteUncompressed => block(shrinker.write_uncompressed(segment, &writer, &mut buffer)),
            Step::WriteAsked => {
                aged.write_batch(&mut shrinker, &writer, &mut buffer);
                continue;
            }
            Step::Compact | Step::Wait if is_emptying => continue,
            Step::Compact => {
                let began_ns = shared.now_ns();
                let _freed = block(shrinker.compact(segment, &writer));
                schedule.note_compaction(began_ns, shared.now_ns());
                block(shared_wait(shared, seen));
                continue;
            }
            Step::Wait => {
                block(shared_wait(shared, seen));
                continue;
            }
        };
        schedule.note_batch(batch, uncompressed);
        let tried = Tried { is_tight: step == Step::MakeRoom, coming_files };
        after(&writer, batch, tried, &mut aged);
    }
    // Who waits for an answer finds that nobody will send one.
    shared.aged.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    *shared.emptying.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
}

/// Moves a batch of what is in the swap file that the user wants to be emptied, if there is one. It takes turns with
/// what the pool needs.
fn empty_a_file(shrinker: &mut Shrinker, writer: &Writer<'_>, buffer: &mut [u8]) -> bool {
    let shared = writer.shared;
    let mut job = shared.emptying.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(emptying) = job.as_mut() else { return false };
    let drain = &mut emptying.drain;
    let answer = match block(shrinker.drain_batch(shared.segment, writer, buffer, drain)) {
        Drained::Some => return true,
        Drained::All => Ok(drain.moved),
        Drained::NoRoom => Err(writer.why_nothing_moves()),
        Drained::WriteFailed { file, error } => Err(what_failed(shared, file, error)),
        Drained::Unreadable => {
            Err("a page in it cannot be read, or is not what was written: look at the disk".to_owned())
        }
    };
    // Whoever has asked may be gone.
    let _nobody_waits = emptying.answer.send(answer);
    *job = None;
    true
}

/// What the user told to be written, whenever the pool needs no room.
#[derive(Default)]
struct AgedWork {
    now: Option<Aged>,
    pages: u64,
}

impl AgedWork {
    /// What is to be done now, if anything is.
    fn take(&mut self, shared: &Shared) -> Option<Aged> {
        let next = || shared.aged.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
        self.now.take().or_else(next)
    }

    /// Whether somebody waits.
    fn is_asked(&self, shared: &Shared) -> bool {
        let is_empty = || shared.aged.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_empty();
        self.now.is_some() || !is_empty()
    }

    /// Writes a batch, if there is something to do.
    fn write_batch(&mut self, shrinker: &mut Shrinker, writer: &Writer<'_>, buffer: &mut [u8]) {
        let Some(mut aged) = self.take(writer.shared) else { return };
        let batch = block(shrinker.write_marked(writer.shared.segment, writer, buffer, &mut aged.marked));
        match batch {
            Batch::Written { blobs, .. } => {
                self.pages += u64::from(blobs);
                self.now = Some(aged);
            }
            Batch::LeftToOthers { file, error } => {
                writer.shared.warn(&left_to_others(writer.shared, file, error));
                self.now = Some(aged);
            }
            Batch::NothingToWrite | Batch::Compacted { .. } => self.end(&aged, None),
            Batch::FilesFull | Batch::Failed { .. } => self.end(&aged, writer.hindrance(batch)),
        }
    }

    /// Nothing can be written, although the pool needs it: who waits for less urgent things is told.
    fn refuse(&mut self, shared: &Shared, reason: &Reason) {
        while let Some(aged) = self.take(shared) {
            self.end(&aged, Some(reason.clone()));
        }
    }

    fn end(&mut self, aged: &Aged, hindrance: Option<Reason>) {
        let pages = core::mem::take(&mut self.pages);
        let answer = match hindrance {
            None => Ok(pages),
            Some(Reason { what, .. }) => Err(format!("{what}; {pages} pages were written")),
        };
        // Whoever has asked may be gone.
        let _nobody_waits = aged.answer.send(answer);
    }
}

async fn shared_wait(shared: &Shared, seen: u32) {
    uswap_engine::Backing::wait(shared, Signal::Shrink, seen, IDLE.as_nanos() as u64).await;
}

/// How things were when writing was tried.
#[derive(Clone, Copy)]
struct Tried {
    /// The pool needed room.
    is_tight: bool,
    /// As [`Shared::coming_files`] said.
    coming_files: u64,
}

fn after(writer: &Writer<'_>, batch: Batch, tried: Tried, aged: &mut AgedWork) {
    let shared = writer.shared;
    match batch {
        Batch::Written { .. } | Batch::Compacted { .. } => (),
        Batch::NothingToWrite => shared.sleep(Duration::from_millis(2)),
        Batch::LeftToOthers { file, error } => shared.warn(&left_to_others(shared, file, error)),
        Batch::FilesFull | Batch::Failed { .. } => {
            if let Some(reason) = writer.hindrance(batch) {
                aged.refuse(shared, &reason);
                cannot_write(shared, tried, &reason);
            }
        }
    }
}

fn left_to_others(shared: &Shared, file: FileId, error: FileError) -> String {
    let what = what_failed(shared, file, error);
    format!("{what}: the other swap files go on without it; it is tried again now and then")
}

/// What is wrong with a file, as a clause.
fn what_failed(shared: &Shared, file: FileId, error: FileError) -> String {
    let directory = shared.files.directory(file);
    match error {
        FileError::Full => {
            format!("the swap file in '{directory}' is full: its file system has no more room")
        }
        FileError::Io(errno) => format!(
            "the swap file in '{directory}' cannot be written: error {errno} ({})",
            std::io::Error::from_raw_os_error(errno)
        ),
        FileError::Short => {
            format!("the swap file in '{directory}' cannot be written: it took less than was written")
        }
    }
}

/// Nothing can be written. If the pool was tight when that was tried, the pages stay in RAM; what happens to the
/// program is the user's choice. The program may have taken something out of the pool since: that changes nothing.
fn cannot_write(shared: &Shared, tried: Tried, reason: &Reason) {
    let Reason { what, advice } = reason;
    if !tried.is_tight {
        shared.sleep(AFTER_ERROR);
        return;
    }
    let pool = shared.segment.pool();
    shared.segment.budget().set_full(Fullness::Full);
    shared.raise(Signal::Room);
    match shared.on_full() {
        OnFull::Grow => {
            // Compressed, a page takes less of what is over the budget than as it is.
            pool.set_limit_bytes(u64::from(pool.zspage_count()) * uswap_core::pool::ZSPAGE_BYTES as u64);
            shared.warn(&format!(
                "{what}: memory goes over the budget from here on, nothing is lost. {advice}, or choose --on-full stop \
                 or kill"
            ));
        }
        // It has room in a moment, or has it by now.
        OnFull::Stop | OnFull::Kill if is_file_coming(shared, tried) => (),
        OnFull::Stop => stop_all(shared, reason),
        OnFull::Kill => {
            shared.segment.budget().set_ending();
            shared.warn(&format!("{what}: the processes of the run are killed (--on-full kill)"));
            shared.signal_all(SIGKILL);
        }
    }
    shared.sleep(AFTER_ERROR);
}

/// Whether a swap file is on its way, or has come since it was tried to write. Acquire pairs with `swap_on`.
fn is_file_coming(shared: &Shared, tried: Tried) -> bool {
    let now = shared.coming_files.load(Ordering::Acquire);
    now != tried.coming_files || !now.is_multiple_of(2)
}

/// Stops the processes of the run until the user continues them.
fn stop_all(shared: &Shared, Reason { what, advice }: &Reason) {
    shared.say(format_args!(
        "{what}: the processes of the run are stopped (--on-full stop). {advice}. Continue them with 'fg' or 'kill \
         -CONT {}', or end them",
        process::process_id()
    ));
    shared.signal_all(SIGSTOP);
    // A process stops when its threads next come by: until then it looks like one that was continued.
    for _ in 0..STOP_LOOKS {
        if is_stopped(shared) || shared.is_stopping() {
            break;
        }
        shared.sleep(Duration::from_millis(1));
    }
    // Who is continued first is the program: by uswap, which is stopped with it so that the shell takes the terminal
    // back.
    while is_stopped(shared) && !shared.is_stopping() {
        shared.sleep(AFTER_ERROR);
    }
    shared.signal_all(SIGCONT);
}

fn is_stopped(shared: &Shared) -> bool {
    let stat = shared.processes.program().and_then(|program| program.while_it_lives(process::stat));
    stat.is_some_and(|stat| stat.is_ok_and(|stat| stat.state == b'T'))
}
