//! Moves old blobs from the pool to the swap file when the pool takes more than its share, and when pages came that do
//! not compress. The loop is the engine's; here is what it asks of the supervisor: the files, what the user told to be
//! written, and what to do when nothing can be.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use uswap_core::budget::{Fullness, Signal};
use uswap_engine::world::FileError;
use uswap_engine::writeback::drain::Drained;
use uswap_engine::writeback::schedule::{Pace, Step};
use uswap_engine::writeback::task::{self, Task, Tried};
use uswap_engine::writeback::{Batch, Shrinker, SwapWriter};
use uswap_engine::{Backing as _, block_on};
use uswap_os::memory::AlignedBuf;
use uswap_os::process;
use uswap_units::limits::WRITEBACK_BATCH_BYTES;
use uswap_units::{FileId, SwapOffset};

use super::limits::{Obstacle, SwapFileLimits};
use crate::options::OnFull;
use crate::requests::Aged;
use crate::shared::{SIGCONT, SIGKILL, SIGSTOP, Shared};

/// The simulator has paces of its own.
const PACE: Pace = Pace {
    uncompressed_pages_min: 64,
    compact_every_ns: 100_000_000,
    // Without an end in tests: who goes on waiting when the run has ended hangs there.
    idle_max_ns: if cfg!(test) { 1_000_000_000 << 30 } else { 20_000_000 },
};

/// How often it is looked whether the program has stopped: once in a millisecond, for two seconds. If it takes longer
/// to stop, the run is continued, and stopped again when there is still no room.
const STOP_LOOKS: u32 = 2000;

const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The swap files with a ring, if the system has one.
struct Writer<'a> {
    shared: &'a Shared,
    limits: RefCell<SwapFileLimits>,
    /// The file that was last asked for.
    asked: Cell<FileId>,
}

const MORE_ROOM: &str = "give more room with --swap DIR:SIZE";

impl Writer<'_> {
    /// Why no file has room, or none may be written.
    fn why_full(&self) -> Obstacle {
        let files = &self.shared.files;
        let limit = self.limits.borrow().obstacle(&files.directory(self.asked.get()));
        let what = if files.open().len() == 1 { "the swap file is full" } else { "all swap files are full" };
        limit.unwrap_or_else(|| Obstacle {
            what: what.to_owned(),
            advice: format!(
                "Make room in {}; if there is room, the largest size is reached: {MORE_ROOM}",
                files.directories()
            ),
        })
    }

    /// Why what is in one file cannot go to others.
    fn why_nothing_moves(&self) -> String {
        let limit = self.limits.borrow().obstacle(&self.shared.files.directory(self.asked.get()));
        limit.map_or_else(
            || {
                "the other swap files have no room for what is in it. Add one with 'uswap swapon' first"
                    .to_owned()
            },
            |Obstacle { what, advice }| format!("{what}. {advice}"),
        )
    }

    /// Why nothing was written that should have been.
    fn obstacle(&self, batch: Batch) -> Option<Obstacle> {
        match batch {
            Batch::FilesFull => Some(self.why_full()),
            Batch::Failed { file, error } => {
                let advice = match error {
                    FileError::Full => {
                        format!("Make room in '{}', or {MORE_ROOM}", self.shared.files.directory(file))
                    }
                    _ => "Look at the disk, or name another with --swap DIR".to_owned(),
                };
                Some(Obstacle { what: what_failed(self.shared, file, error), advice })
            }
            _ => None,
        }
    }
}

impl SwapWriter for Writer<'_> {
    type Backing = Shared;
    fn backing(&self) -> &Shared {
        self.shared
    }
    fn may_write(&self, file: FileId, bytes: u64) -> bool {
        self.asked.set(file);
        let free_bytes = || self.shared.files.free_bytes(file);
        self.limits.borrow_mut().allow(bytes, self.shared.now_ns(), free_bytes)
    }
    async fn write_file(&self, offset: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        self.limits.borrow_mut().add(buffer.len() as u64, self.shared.now_ns());
        let files = self.shared.segment.slots().files();
        self.shared.files.write(files, offset, buffer)
    }
}

pub fn run(shared: &Shared) {
    let writer = Writer {
        shared,
        limits: RefCell::new(SwapFileLimits::new(&shared.options)),
        asked: Cell::new(FileId::new(0)),
    };
    let _only_root_may = uswap_os::thread::set_nice(uswap_os::thread::thread_id(), -15);
    let Ok(mut buffer) = AlignedBuf::new(WRITEBACK_BATCH_BYTES) else {
        shared.warn(
            "there is no memory for the write-back buffer: nothing will be written to the swap file. Free memory of \
             the machine, and start the run again",
        );
        return;
    };
    let mut work = Work { writer: &writer, aged: AgedWork::default(), coming_files: 0 };
    block_on(task::run(shared.segment, PACE, &writer, &mut buffer, &mut work));
    // Whoever waits for an answer finds that nobody will send one.
    shared.requests.forget();
}

/// The supervisor's side of the loop.
struct Work<'a> {
    writer: &'a Writer<'a>,
    aged: AgedWork,
    /// As [`FileChanges::coming`](crate::files::changes::FileChanges::coming) said before the step was chosen.
    coming_files: u64,
}

impl Task for Work<'_> {
    fn is_stopping(&self) -> bool {
        self.writer.shared.is_stopping()
    }

    async fn empty_a_file(&mut self, shrinker: &mut Shrinker, buffer: &mut [u8]) -> bool {
        let (writer, shared) = (self.writer, self.writer.shared);
        let Some(mut emptying) = shared.requests.take_emptying() else { return false };
        let drain = &mut emptying.drain;
        let answer = match shrinker.drain_batch(shared.segment, writer, buffer, drain).await {
            Drained::Some => {
                // `swapoff` empties one file at a time: nobody has put another one there meanwhile.
                shared.requests.empty(emptying);
                return true;
            }
            Drained::All => Ok(drain.moved),
            Drained::NoRoom => Err(writer.why_nothing_moves()),
            Drained::WriteFailed { file, error } => Err(what_failed(shared, file, error)),
            Drained::Unreadable => {
                Err("a page in it cannot be read, or is not what was written: look at the disk".to_owned())
            }
        };
        // Whoever has asked may be gone.
        let _nobody_waits = emptying.answer.send(answer);
        true
    }

    fn begin_step(&mut self) {
        // What had come by then is tried.
        self.coming_files = self.writer.shared.file_changes.coming();
    }

    fn is_asked(&mut self) -> bool {
        self.aged.is_asked(self.writer.shared)
    }

    async fn write_asked(&mut self, shrinker: &mut Shrinker, buffer: &mut [u8]) {
        self.aged.write_batch(shrinker, self.writer, buffer).await;
    }

    fn batch_bytes(&self, buffer_bytes: usize) -> usize {
        buffer_bytes
    }

    async fn follow(&mut self, Tried { step, batch, .. }: Tried) {
        let (writer, shared) = (self.writer, self.writer.shared);
        match batch {
            Batch::Written { .. } | Batch::Compacted { .. } => (),
            Batch::NothingToWrite => shared.sleep(Duration::from_millis(2)),
            Batch::LeftToOthers { file, error } => shared.warn(&left_to_others(shared, file, error)),
            Batch::FilesFull | Batch::Failed { .. } => {
                if let Some(obstacle) = writer.obstacle(batch) {
                    self.aged.refuse(shared, &obstacle);
                    let (is_tight, coming_files) = (step == Step::MakeRoom, self.coming_files);
                    cannot_write(shared, Situation { is_tight, coming_files }, &obstacle);
                }
            }
        }
    }

    fn note_compaction(&mut self, _: u64) {}
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
        self.now.take().or_else(|| shared.requests.take_aged())
    }

    /// Whether somebody waits.
    fn is_asked(&self, shared: &Shared) -> bool {
        self.now.is_some() || shared.requests.has_aged()
    }

    /// Writes a batch, if there is something to do.
    async fn write_batch(&mut self, shrinker: &mut Shrinker, writer: &Writer<'_>, buffer: &mut [u8]) {
        let Some(mut aged) = self.take(writer.shared) else { return };
        let segment = writer.shared.segment;
        let batch = shrinker.write_marked(segment, writer, buffer, &mut aged.marked).await;
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
            Batch::FilesFull | Batch::Failed { .. } => self.end(&aged, writer.obstacle(batch)),
        }
    }

    /// Nothing can be written, although the pool needs it: who waits for less urgent things is told.
    fn refuse(&mut self, shared: &Shared, obstacle: &Obstacle) {
        while let Some(aged) = self.take(shared) {
            self.end(&aged, Some(obstacle.clone()));
        }
    }

    fn end(&mut self, aged: &Aged, obstacle: Option<Obstacle>) {
        let pages = core::mem::take(&mut self.pages);
        let answer = match obstacle {
            None => Ok(pages),
            Some(Obstacle { what, .. }) => Err(format!("{what}; {pages} pages were written")),
        };
        // Whoever has asked may be gone.
        let _nobody_waits = aged.answer.send(answer);
    }
}

/// How things were when writing was tried.
#[derive(Clone, Copy)]
struct Situation {
    /// The pool needed room.
    is_tight: bool,
    /// As [`FileChanges::coming`](crate::files::changes::FileChanges::coming) said.
    coming_files: u64,
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
fn cannot_write(shared: &Shared, then: Situation, obstacle: &Obstacle) {
    let Obstacle { what, advice } = obstacle;
    if !then.is_tight {
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
        OnFull::Stop | OnFull::Kill if is_file_coming(shared, then) => (),
        OnFull::Stop => stop_all(shared, obstacle),
        OnFull::Kill => {
            shared.segment.budget().set_ending();
            shared.warn(&format!("{what}: the processes of the run are killed (--on-full kill)"));
            shared.signal_all(SIGKILL);
        }
    }
    shared.sleep(AFTER_ERROR);
}

/// Whether a swap file is on its way, or has come since it was tried to write.
fn is_file_coming(shared: &Shared, then: Situation) -> bool {
    let now = shared.file_changes.coming();
    now != then.coming_files || !now.is_multiple_of(2)
}

/// Stops the processes of the run until the user continues them.
fn stop_all(shared: &Shared, Obstacle { what, advice }: &Obstacle) {
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
