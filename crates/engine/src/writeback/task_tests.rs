//! The loop with a task that does as a test says, and writes down what it was asked.

use super::*;
use crate::block_on;
use crate::world::{Backing, FileBuffer, FileError};
use crate::writeback::tests::{store, with_file};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use uswap_core::counters::Counter;
use uswap_core::pool::ZspageOwner;
use uswap_core::swap_word::Content;
use uswap_units::limits::WRITEBACK_BATCH_BYTES;
use uswap_units::{FileId, PAGE_BYTES, SwapId, SwapOffset, ZspageId};

const PACE: Pace = Pace { uncompressed_pages_min: 2, compact_every_ns: 100, idle_max_ns: 7 };

const FAILED: FileError = FileError::Io(5);

/// What the loop did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Emptied,
    WroteAsked {
        bytes: usize,
    },
    Followed {
        step: Step,
        batch: Batch,
    },
    Compacted,
    /// `for_long`: nothing was raised since its turn began.
    Waited {
        for_long: bool,
    },
}
use Event::{Compacted, Emptied, Followed, Waited, WroteAsked};

/// The world, and what is to happen in it.
struct Script<'a> {
    segment: Segment<'a>,
    events: RefCell<Vec<Event>>,
    now_ns: Cell<u64>,
    may_write: bool,
    fails: bool,
    /// So many turns until it stops.
    turns: Cell<u32>,
    /// The question whether it stops raises the signal, as the end of a run does.
    raises: bool,
    /// Batches that somebody asked for.
    asked: Cell<u32>,
    /// Batches that are in a file to be emptied.
    emptying: Cell<u32>,
    batch_bytes: usize,
}

impl<'a> Script<'a> {
    fn of_turns(segment: Segment<'a>, turns: u32) -> Script<'a> {
        Script {
            segment,
            events: RefCell::default(),
            now_ns: Cell::new(0),
            may_write: true,
            fails: false,
            turns: Cell::new(turns),
            raises: false,
            asked: Cell::new(0),
            emptying: Cell::new(0),
            batch_bytes: WRITEBACK_BATCH_BYTES,
        }
    }

    fn play(&self) -> Vec<Event> {
        let mut buffer = vec![0; WRITEBACK_BATCH_BYTES];
        block_on(run(self.segment, PACE, self, &mut buffer, &mut Actor { script: self, has_begun: false }));
        self.events.take()
    }

    fn note(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }
}

/// Takes one of a number, if any is left.
fn take_one(of: &Cell<u32>) -> bool {
    let left = of.get();
    of.set(left.saturating_sub(1));
    left > 0
}

impl Backing for Script<'_> {
    fn release_zspage(&self, _: ZspageId) {}
    async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
        panic!("nothing is read here")
    }
    async fn pause(&self) {}
    async fn step(&self) {}
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
    fn raise(&self, signal: Signal) {
        self.segment.budget().raise(signal);
    }
    async fn wait(&self, signal: Signal, seen: u32, timeout_ns: u64) {
        assert_eq!((signal, timeout_ns), (Signal::Shrink, PACE.idle_max_ns));
        self.note(Waited { for_long: self.segment.budget().signal_count(signal) == seen });
        self.now_ns.set(self.now_ns.get() + timeout_ns);
    }
}

impl SwapWriter for Script<'_> {
    type Backing = Self;
    fn backing(&self) -> &Self {
        self
    }
    fn may_write(&self, _: FileId, _: u64) -> bool {
        self.may_write
    }
    async fn write_file(&self, _: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        assert!(buffer.len() <= self.batch_bytes);
        if self.fails { Err(FAILED) } else { Ok(()) }
    }
}

/// Does what the script says.
struct Actor<'s, 'a> {
    script: &'s Script<'a>,
    has_begun: bool,
}

impl Task for Actor<'_, '_> {
    fn is_stopping(&self) -> bool {
        if self.script.raises {
            self.script.raise(Signal::Shrink);
        }
        !take_one(&self.script.turns)
    }
    async fn empty_a_file(&mut self, _: &mut Shrinker, _: &mut [u8]) -> bool {
        assert!(!self.has_begun);
        let is_emptying = take_one(&self.script.emptying);
        if is_emptying {
            self.script.note(Emptied);
        }
        is_emptying
    }
    fn begin_step(&mut self) {
        self.has_begun = true;
    }
    fn is_asked(&mut self) -> bool {
        assert!(core::mem::take(&mut self.has_begun), "a step begins before it is chosen");
        self.script.asked.get() > 0
    }
    async fn write_asked(&mut self, _: &mut Shrinker, buffer: &mut [u8]) {
        assert!(take_one(&self.script.asked));
        self.script.note(WroteAsked { bytes: buffer.len() });
    }
    fn batch_bytes(&self, buffer_bytes: usize) -> usize {
        self.script.batch_bytes.min(buffer_bytes)
    }
    /// What was written makes enough room.
    async fn follow(&mut self, Tried { step, batch, seen }: Tried) {
        self.script.note(Followed { step, batch });
        assert!(seen <= self.script.segment.budget().signal_count(Signal::Shrink));
        if matches!(batch, Batch::Written { .. }) {
            self.script.segment.pool().set_limit_bytes(1 << 30);
        }
    }
    fn note_compaction(&mut self, _: u64) {
        self.script.note(Compacted);
    }
}

/// The pool is over its limit, with so many blobs in it.
fn fill_pool(segment: Segment<'_>, blobs: usize) {
    let mut zspages = ZspageOwner::new();
    (0..blobs).for_each(|_| store(segment, &mut zspages, 3000));
    segment.pool().set_limit_bytes(0);
}

fn blobs_in_pool(segment: Segment<'_>) -> usize {
    let table = segment.swap_table();
    let ids = (1..table.touched_entries()).map(SwapId::new);
    ids.filter(|id| matches!(table.load(*id).content(), Content::Blob { .. })).count()
}

#[test]
fn what_is_asked_for_is_served_when_there_is_room() {
    with_file(|segment| {
        fill_pool(segment, 2);
        let script = Script { asked: Cell::new(2), ..Script::of_turns(segment, 4) };
        let wrote = WroteAsked { bytes: WRITEBACK_BATCH_BYTES };
        let made_room = Followed { step: Step::MakeRoom, batch: Batch::Written { blobs: 2, discarded: 0 } };
        assert_eq!(script.play(), [made_room, wrote, wrote, Waited { for_long: true }]);
        assert_eq!(blobs_in_pool(segment), 0);
    });
}

#[test]
fn who_is_stopping_ends_before_anything_else_is_done() {
    with_file(|segment| {
        fill_pool(segment, 2);
        let script = Script { asked: Cell::new(1), emptying: Cell::new(1), ..Script::of_turns(segment, 0) };
        assert!(script.play().is_empty());
        assert_eq!(blobs_in_pool(segment), 2);
    });
}

#[test]
fn a_signal_that_comes_with_the_question_does_not_let_it_wait() {
    with_file(|segment| {
        let script = Script { raises: true, ..Script::of_turns(segment, 1) };
        assert_eq!(script.play(), [Waited { for_long: false }]);
    });
}

#[test]
fn a_batch_that_failed_is_told_of_and_its_blobs_stay() {
    with_file(|segment| {
        fill_pool(segment, 2);
        let file = segment.slots().files().in_use().next().expect("there is one").id;
        let batch = Batch::Failed { file, error: FAILED };
        let script = Script { fails: true, ..Script::of_turns(segment, 1) };
        assert_eq!(script.play(), [Followed { step: Step::MakeRoom, batch }]);
        assert_eq!(blobs_in_pool(segment), 2);
    });
}

#[test]
fn files_that_may_not_be_written_are_told_of_with_what_was_tried() {
    with_file(|segment| {
        segment.counters().add(Counter::Incompressible, 2);
        let mut zspages = ZspageOwner::new();
        store(segment, &mut zspages, PAGE_BYTES);
        let script = Script { may_write: false, ..Script::of_turns(segment, 2) };
        let batch = Batch::FilesFull;
        assert_eq!(
            script.play(),
            [Followed { step: Step::WriteUncompressed, batch }, Waited { for_long: true }]
        );
        segment.pool().set_limit_bytes(0);
        let script = Script { may_write: false, ..Script::of_turns(segment, 2) };
        let told = Followed { step: Step::MakeRoom, batch };
        assert_eq!(script.play(), [told, told], "room is tried for again at once");
    });
}

#[test]
fn a_file_that_is_emptied_takes_turns_with_what_the_pool_needs_and_does_not_wait() {
    with_file(|segment| {
        fill_pool(segment, 1);
        let script = Script { emptying: Cell::new(2), ..Script::of_turns(segment, 3) };
        let batch = Batch::Written { blobs: 1, discarded: 0 };
        assert_eq!(
            script.play(),
            [Emptied, Followed { step: Step::MakeRoom, batch }, Emptied, Waited { for_long: true }]
        );
    });
}

#[test]
fn a_batch_takes_no_more_than_the_task_says() {
    with_file(|segment| {
        fill_pool(segment, 2);
        let script = Script { batch_bytes: PAGE_BYTES, asked: Cell::new(1), ..Script::of_turns(segment, 2) };
        let batch = Batch::Written { blobs: 1, discarded: 0 };
        assert_eq!(
            script.play(),
            [Followed { step: Step::MakeRoom, batch }, WroteAsked { bytes: PAGE_BYTES }]
        );
        assert_eq!(blobs_in_pool(segment), 1);
    });
}

#[test]
fn a_pool_with_room_is_compacted_now_and_then_while_memory_is_short() {
    with_file(|segment| {
        segment.budget().set_ram(uswap_units::Bytes::new(64 << 20));
        segment.budget().add(64 << 20);
        let script = Script::of_turns(segment, 20);
        let events = script.play();
        // Each wait takes 7 of the 100 ns between two compactions.
        assert_eq!(events.iter().filter(|event| **event == Compacted).count(), 1, "{events:?}");
        assert_eq!(events[15..17], [Compacted, Waited { for_long: true }], "{events:?}");
        assert_eq!(events.len(), 21, "after it, too, it waits");
    });
}
