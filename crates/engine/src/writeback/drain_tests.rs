//! A file is emptied while others load, share and free what is in it, against a model: what each entry must hold, and
//! how many refer to it.

use super::*;
use crate::block_on;
use crate::fault::load::{Load, Source};
use crate::pool::release::put_entry;
use crate::record::Cipher;
use crate::workspace::Workspace;
use crate::writeback::Batch;
use alloc::boxed::Box;
use alloc::vec;
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use uswap_core::budget::Signal;
use uswap_core::files::{FileAccess, FileKind, FileSpec, FileState, slots_of_all};
use uswap_core::mm::RecordHolder;
use uswap_core::pool::ZspageOwner;
use uswap_core::segment::Geometry;
use uswap_core::swap_table::LoadKind;
use uswap_sync::AtomicU64;
use uswap_units::{MmId, Prng, SlotId, SwapOffset, ZspageId};

const SLOTS: u64 = 600;
const FILES: usize = 3;

/// The files in memory. At each point where others may run, `between` runs; some calls fail, in so many of 1000 cases.
struct Disk<F: Fn()> {
    bytes: RefCell<Vec<u8>>,
    between: F,
    prng: RefCell<Prng>,
    fails: Cell<u64>,
    forbidden: Cell<bool>,
}

impl<F: Fn()> Disk<F> {
    fn error(&self) -> Result<(), FileError> {
        (self.between)();
        let fails = self.prng.borrow_mut().below(1000) < self.fails.get();
        if fails { Err(FileError::Io(5)) } else { Ok(()) }
    }
}

impl<F: Fn()> Backing for Disk<F> {
    fn release_zspage(&self, _: ZspageId) {}
    async fn read_file(
        &self,
        offset: SwapOffset,
        bytes: usize,
        buffer: &mut FileBuffer,
    ) -> Result<(), FileError> {
        self.error()?;
        buffer.0[..bytes].copy_from_slice(&self.bytes.borrow()[offset.bytes() as usize..][..bytes]);
        Ok(())
    }
    async fn pause(&self) {}
    async fn step(&self) {
        (self.between)();
    }
    fn now_ns(&self) -> u64 {
        0
    }
    fn raise(&self, _: Signal) {}
    async fn wait(&self, _: Signal, _: u32, _: u64) {}
}

impl<F: Fn()> SwapWriter for Disk<F> {
    type Backing = Self;
    fn backing(&self) -> &Self {
        self
    }
    fn may_write(&self, _: FileId, _: u64) -> bool {
        !self.forbidden.get()
    }
    async fn write_file(&self, offset: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        let result = self.error();
        let written = if result.is_ok() { buffer.len() } else { buffer.len() / 2 };
        self.bytes.borrow_mut()[offset.bytes() as usize..][..written].copy_from_slice(&buffer[..written]);
        result
    }
}

/// What each entry must hold, by its number; and how many refer to it.
type Model = RefCell<BTreeMap<u32, (Vec<u8>, u32)>>;

struct Run<'a> {
    segment: Segment<'a>,
    model: &'a Model,
    prng: RefCell<Prng>,
}

impl Run<'_> {
    /// Somebody shares, loads or frees an entry.
    fn touch_one(&self, backing: &impl Backing) {
        let mut model = self.model.borrow_mut();
        let (pick, what) = {
            let mut prng = self.prng.borrow_mut();
            (prng.below(model.len().max(1) as u64) as usize, prng.below(4))
        };
        let Some((&id, (_, count))) = model.iter_mut().nth(pick) else { return };
        match what {
            0 => {
                self.segment.swap_table().share(SwapId::new(id));
                *count += 1;
            }
            1 => {
                put_entry(self.segment, backing, SwapId::new(id));
                *count -= 1;
                if *count == 0 {
                    model.remove(&id);
                }
            }
            _ if *count > 1 => self.segment.swap_table().note_loaded(SwapId::new(id), LoadKind::InBatch),
            _ => (),
        }
    }

    fn check(&self, bytes: &[u8]) {
        let (table, slots) = (self.segment.swap_table(), self.segment.slots());
        let mut users = BTreeMap::new();
        for (&id, (content, count)) in self.model.borrow().iter() {
            let (id, word) = (SwapId::new(id), table.load(SwapId::new(id)));
            assert_eq!(word.count(), *count);
            let Content::Slot { offset, length } = word.content() else { panic!("{id:?} {word:?}") };
            let record = &bytes[offset.bytes() as usize..][..length as usize];
            let owner = Owner { id, hash: table.hash(id) };
            let mut out = [0; PAGE_BYTES];
            let cipher = Cipher::of(self.segment.file_key());
            let opened = cipher.open(owner, record, &mut out);
            assert_eq!(opened.map(|length| &out[..length]), Some(&content[..]), "{id:?} is not what it was");
            let slots = SlotId::each(offset.slots(u64::from(length)));
            slots.for_each(|slot| *users.entry(slot).or_insert(0_u8) += 1);
        }
        let all = slots.files().all().flat_map(|file| SlotId::each(file.slots()));
        for slot in all {
            assert_eq!(slots.count(slot), users.get(&slot).copied().unwrap_or(0), "{slot:?}");
        }
    }
}

fn used_in(segment: Segment<'_>, file: u8) -> u64 {
    let file = segment.slots().files().get(FileId::new(file)).expect("it was added");
    segment.slots().used_in(&file)
}

/// Fills files with blobs of all lengths, and calls `test`.
fn with_full_files(seed: u64, blobs: u32, test: impl FnOnce(&Run<'_>, &mut Shrinker, Vec<u8>, &mut [u8])) {
    let slots = slots_of_all([SLOTS; FILES]);
    let geometry = Geometry { mms: 4, tables: 8, entries: 4096, zspages: 512, slots, readahead: 0 };
    let words: Vec<AtomicU64> = (0..geometry.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
    let segment = Segment::create(&words, geometry);
    segment.file_key().set([7; 32]);
    for priority in [9, 5, 5] {
        let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
        let spec = FileSpec { slots: SLOTS, priority, kind, descriptor: 3, access };
        segment.slots().add_file(spec).expect("the geometry has room for it");
    }
    let (mut prng, mut zspages) = (Prng::new(seed), ZspageOwner::new());
    let model = Model::default();
    for number in 0..blobs {
        let length = if prng.below(4) == 0 { PAGE_BYTES } else { 100 + prng.below(3000) as usize };
        let content: Vec<u8> = (0..length).map(|_| prng.next_u64() as u8).collect();
        let id = segment.swap_table().reserve().expect("room");
        let cell = segment.pool().reserve(MmId::new(1), &mut zspages, length).expect("room");
        segment.pool().write(&cell, id, &content);
        segment.swap_table().set_hash(id, u128::from(number) + 1);
        segment.swap_table().publish(id, Content::Blob { blob: cell.blob(), length: length as u32 });
        model.borrow_mut().insert(id.number(), (content, 1));
    }
    let bytes = RefCell::new(vec![0; slots as usize * PAGE_BYTES]);
    let prng = RefCell::new(Prng::new(seed + 1));
    let disk = Disk { bytes, between: || (), prng, fails: Cell::new(0), forbidden: Cell::new(false) };
    let (mut shrinker, mut buffer) = (Shrinker::new(), vec![0; WRITEBACK_BATCH_BYTES]);
    while let Batch::Written { .. } = block_on(shrinker.write_batch(segment, &disk, &mut buffer)) {}
    let run = Run { segment, model: &model, prng: RefCell::new(Prng::new(seed + 2)) };
    run.check(&disk.bytes.borrow());
    assert!(segment.slots().files().change_state(FileId::new(0), FileState::InUse, FileState::Draining));
    test(&run, &mut shrinker, disk.bytes.take(), &mut buffer);
}

#[test]
fn what_is_in_a_drained_file_is_moved_while_others_load_share_and_free_it() {
    for seed in 0..30 {
        with_full_files(seed, 300, |run, shrinker, bytes, buffer| {
            let before = used_in(run.segment, 0);
            assert!(before > 50, "there is something to be moved");
            let quiet = Disk {
                bytes: RefCell::new(Vec::new()),
                between: || (),
                prng: RefCell::new(Prng::new(0)),
                fails: Cell::new(0),
                forbidden: Cell::new(false),
            };
            let between = || {
                if run.prng.borrow_mut().below(3) == 0 {
                    run.touch_one(&quiet);
                }
            };
            let prng = RefCell::new(Prng::new(seed + 3));
            let fails = Cell::new(if seed % 2 == 0 { 100 } else { 0 });
            let disk = Disk { bytes: RefCell::new(bytes), between, prng, fails, forbidden: Cell::new(false) };
            let (mut drain, mut trials) = (Drain::of(FileId::new(0)), 0);
            loop {
                let part = PAGE_BYTES * (1 + disk.prng.borrow_mut().below(40) as usize);
                match block_on(shrinker.drain_batch(run.segment, &disk, &mut buffer[..part], &mut drain)) {
                    Drained::All => break,
                    Drained::Some | Drained::NoRoom => (),
                    Drained::WriteFailed { .. } | Drained::Unreadable => assert!(disk.fails.get() > 0),
                }
                run.check(&disk.bytes.borrow());
                trials += 1;
                assert!(trials < 5000, "it does not end");
            }
            run.check(&disk.bytes.borrow());
            assert_eq!(used_in(run.segment, 0), 0, "nothing is left in it");
            assert!(drain.moved > 0);
            let files = run.segment.slots().files();
            assert!(files.change_state(FileId::new(0), FileState::Draining, FileState::Gone));
        });
    }
}

#[test]
fn a_file_that_cannot_be_emptied_keeps_what_is_in_it() {
    with_full_files(1, 300, |run, shrinker, bytes, buffer| {
        let (prng, fails) = (RefCell::new(Prng::new(3)), Cell::new(0));
        let forbidden = Cell::new(true);
        let disk = Disk { bytes: RefCell::new(bytes), between: || (), prng, fails, forbidden };
        let before = used_in(run.segment, 0);
        let mut drain = Drain::of(FileId::new(0));
        let mut batch = |drain: &mut Drain| block_on(shrinker.drain_batch(run.segment, &disk, buffer, drain));
        assert_eq!(batch(&mut drain), Drained::NoRoom);
        disk.forbidden.set(false);
        disk.fails.set(1000);
        assert_eq!(batch(&mut drain), Drained::Unreadable);
        assert_eq!((used_in(run.segment, 0), drain.moved), (before, 0));
        disk.fails.set(0);
        disk.bytes.borrow_mut()[..SLOTS as usize * PAGE_BYTES].fill(0);
        assert_eq!(batch(&mut drain), Drained::Unreadable, "it is not what was written");
        assert_eq!(drain.moved, 0);
    });
}

#[test]
fn files_that_are_full_take_nothing_of_a_drained_one() {
    with_full_files(2, 300, |run, shrinker, bytes, buffer| {
        let slots = run.segment.slots();
        for file in slots.files().in_use() {
            // The batches that took them never end.
            while slots.take_run(&file, 1, 512).is_some() {}
        }
        let (prng, fails) = (RefCell::new(Prng::new(3)), Cell::new(0));
        let forbidden = Cell::new(false);
        let disk = Disk { bytes: RefCell::new(bytes), between: || (), prng, fails, forbidden };
        let mut drain = Drain::of(FileId::new(0));
        assert_eq!(block_on(shrinker.drain_batch(run.segment, &disk, buffer, &mut drain)), Drained::NoRoom);
        assert_eq!(drain.moved, 0);
        assert!(slots.files().change_state(FileId::new(0), FileState::Draining, FileState::InUse));
    });
}

#[test]
fn what_cannot_be_read_keeps_its_place_and_what_is_wrong_there_is_lost() {
    with_full_files(5, 100, |run, _, bytes, _| {
        let (prng, fails) = (RefCell::new(Prng::new(3)), Cell::new(1000));
        let forbidden = Cell::new(false);
        let disk = Disk { bytes: RefCell::new(bytes), between: || (), prng, fails, forbidden };
        let cipher = Cipher::of(run.segment.file_key());
        let record = run.segment.mms().take(RecordHolder::Run).expect("room");
        let source = Source { segment: run.segment, backing: &disk, cipher: &cipher, record };
        let (table, counters) = (run.segment.swap_table(), run.segment.counters());
        let id = SwapId::new(*run.model.borrow().keys().next().expect("there are some"));
        let (before, mut workspace) = (table.load(id), Box::new(Workspace::new()));
        let mut load = || block_on(source.load(id, 0, SwapOffset::ZERO, &mut workspace));
        assert!(matches!(before.content(), Content::Slot { .. }));
        assert_eq!((load(), counters.get(Counter::LostPages)), (Load::Lost, 1));
        assert_eq!(table.load(id).content(), before.content(), "it may be read later");
        // The hashes of these pages are numbers: no content has them.
        disk.fails.set(0);
        assert_eq!((load(), counters.get(Counter::LostPages)), (Load::Lost, 2));
        assert_eq!(table.load(id).content(), Content::Lost);
    });
}
