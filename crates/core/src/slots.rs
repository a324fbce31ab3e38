//! Room of the swap files: how many live blobs touch each 4 KiB slot. The slots of all files are numbered through;
//! [`files`](crate::files) says which are whose.
//!
//! Blobs are packed, so a slot may hold parts of many blobs and a blob may cross a slot border. Only the supervisor
//! takes slots (counts 0 -> n, before the words name them); anyone who frees a blob counts its slots down. A slot with
//! count 0 is free; `clusters` finds runs of them.
//!
//! Must hold: a slot is taken only when no swap word names it and no write to it is in flight; the batch that is being
//! written counts as one user. Called by `engine`, which takes slots and frees them, and by the supervisor and `sim`,
//! which add files and report what is used.

use crate::clusters::lock::Locker;
use crate::clusters::{CLUSTER_SLOTS, Clusters, SlotUsage, slot_at};
use crate::files::{FileRecord, FileSpec, FileState, NoFile, SwapFiles};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{ClusterId, FileId, FileSlot, MmId, PAGE_BYTES, SlotId, SwapOffset};

const SLOTS_PER_WORD: u64 = 8;

/// View of the slot map in the segment: one byte a slot.
#[derive(Clone, Copy)]
pub struct SlotMap<'a> {
    pub(crate) counts: &'a [AtomicU64],
    pub(crate) files: SwapFiles<'a>,
    /// State of the clusters, those of the first file first.
    pub(crate) clusters: &'a [AtomicU64],
    pub(crate) locker: Locker<'a>,
}

/// The counts of all slots.
#[derive(Clone, Copy)]
struct Counts<'a> {
    words: &'a [AtomicU64],
}

/// What says that a slot of one file is used: its count.
#[derive(Clone, Copy)]
struct FileCounts<'a> {
    counts: Counts<'a>,
    file: FileRecord,
}

const fn shift_of(slot: SlotId) -> u64 {
    slot.number() % SLOTS_PER_WORD * 8
}

impl Counts<'_> {
    fn word(&self, slot: SlotId) -> &AtomicU64 {
        &self.words[(slot.number() / SLOTS_PER_WORD) as usize]
    }
    fn count(&self, slot: SlotId) -> u8 {
        // Acquire pairs with `subtract`: whoever finds the slot free sees that its last user is done with it.
        (self.word(slot).load(Ordering::Acquire) >> shift_of(slot)) as u8
    }
    fn add(&self, slot: SlotId) {
        // AcqRel pairs with `subtract`: the last user's reads are done before the slot is written again.
        let before = self.word(slot).fetch_add(1 << shift_of(slot), Ordering::AcqRel);
        assert!((before >> shift_of(slot)) as u8 != u8::MAX, "a slot has room for 64 blobs and one batch");
    }
}

impl SlotUsage for FileCounts<'_> {
    type Slot = FileSlot;

    fn is_used(&self, slot: FileSlot) -> bool {
        self.counts.count(self.file.slot(slot)) != 0
    }
    fn claim(&self, slot: FileSlot, _: MmId) {
        self.counts.add(self.file.slot(slot));
    }
}

/// A run of free slots of one file that the supervisor has taken for a batch.
#[must_use]
#[derive(Debug)]
pub struct TakenRun {
    file: FileId,
    first: SlotId,
    count: u64,
}

impl TakenRun {
    /// The file.
    pub fn file(&self) -> FileId {
        self.file
    }
    /// Its first byte.
    pub fn start(&self) -> SwapOffset {
        self.first.start()
    }
    /// Bytes of the run.
    pub fn bytes(&self) -> u64 {
        self.count * PAGE_BYTES as u64
    }
}

/// A cluster of slots, none of which is used: nobody gets it before `trimmed`.
#[must_use]
#[derive(Debug)]
pub struct EmptyCluster {
    file: FileRecord,
    cluster: ClusterId,
    /// Its bytes among those of all files.
    pub bytes: core::ops::Range<SwapOffset>,
}

impl<'a> SlotMap<'a> {
    fn clusters(&self, file: &FileRecord) -> Clusters<'a, impl SlotUsage<Slot = FileSlot> + use<'a>> {
        let truth = FileCounts { counts: self.all(), file: *file };
        Clusters::new(&self.clusters[file.clusters_start..], file.space(), truth, self.locker)
    }
    fn all(&self) -> Counts<'a> {
        Counts { words: self.counts }
    }
    fn file_of(&self, slot: SlotId) -> FileRecord {
        self.files.of_slot(slot).expect("what a swap word names is in a file")
    }

    /// The files.
    pub fn files(&self) -> SwapFiles<'a> {
        self.files
    }
    /// Adds a file, before the processes of the run start. The supervisor does it.
    pub fn add_file(&self, spec: FileSpec) -> Result<FileId, NoFile> {
        self.add(spec, FileState::InUse)
    }
    /// Adds a file while the run goes on: it takes no writes before every process has it open.
    pub fn add_file_to_open(&self, spec: FileSpec) -> Result<FileId, NoFile> {
        self.add(spec, FileState::Opening)
    }
    fn add(&self, spec: FileSpec, state: FileState) -> Result<FileId, NoFile> {
        self.files.add(spec, state, self.counts.len() as u64 * SLOTS_PER_WORD)
    }
    /// Slots that one more file may have at most.
    pub fn largest_to_add(&self) -> u64 {
        self.files.largest_to_add(self.counts.len() as u64 * SLOTS_PER_WORD)
    }
    /// Slots that there are, in all files in use.
    pub fn capacity(&self) -> u64 {
        self.files.in_use().map(|file| file.spec.slots).sum()
    }
    /// Slots in use, in all files.
    pub fn used(&self) -> u64 {
        self.files.all().map(|file| self.used_in(&file)).sum()
    }
    /// Slots of one file that are in use.
    pub fn used_in(&self, file: &FileRecord) -> u64 {
        let used = self.clusters(file).used();
        self.files.note_used(file.id, used);
        used
    }
    /// Live blobs that touch `slot`.
    pub fn count(&self, slot: SlotId) -> u8 {
        self.all().count(slot)
    }

    /// One user of a slot less. True if it was the last. AcqRel pairs with `add`, and with itself: whoever is the last
    /// sees that the others are done.
    fn subtract(&self, slot: SlotId) -> bool {
        let shift = shift_of(slot);
        let before = self.all().word(slot).fetch_sub(1 << shift, Ordering::AcqRel);
        let count = (before >> shift) as u8;
        assert!(count > 0, "a slot is released as often as it was taken");
        count == 1
    }

    /// Takes a run of up to `wanted` free slots of a file, at most a cluster: the largest power of two that is to be
    /// had. None: it would be less than `least`.
    pub fn take_run(&self, file: &FileRecord, least: u64, wanted: u64) -> Option<TakenRun> {
        let most = wanted.clamp(1, u64::from(CLUSTER_SLOTS)).ilog2();
        let least = least.clamp(1, 1 << most).ilog2();
        let clusters = self.clusters(file);
        let mut orders = (least..=most).rev();
        orders.find_map(|order| {
            let first = file.slot(clusters.allocate(order)?);
            Some(TakenRun { file: file.id, first, count: 1 << order })
        })
    }

    /// A cluster whose blocks can be given back to the file system. Those that wait for it may be taken again
    /// meanwhile.
    pub fn take_to_trim(&self) -> Option<EmptyCluster> {
        let open = self.files.all().filter(|file| file.state != FileState::Gone);
        { open }.find_map(|file| {
            let cluster = self.clusters(&file).take_to_trim()?;
            let first = file.slot(slot_at(cluster, 0));
            let end = file.slots().end.min(first.plus(u64::from(CLUSTER_SLOTS)));
            let bytes = first.start()..end.start();
            Some(EmptyCluster { file, cluster, bytes })
        })
    }

    /// Its blocks are given back.
    pub fn trimmed(&self, empty: EmptyCluster) {
        self.clusters(&empty.file).trimmed(empty.cluster);
    }

    /// A blob at `offset` uses the slots it touches.
    pub fn add_blob(&self, offset: SwapOffset, bytes: u64) {
        SlotId::each(offset.slots(bytes)).for_each(|slot| self.all().add(slot));
    }

    /// A blob is freed.
    pub fn remove_blob(&self, offset: SwapOffset, bytes: u64) {
        self.remove(offset.slots(bytes));
    }

    /// The batch is written, or given up: its own use of the slots ends.
    pub fn end_run(&self, run: TakenRun) {
        self.remove(run.first..run.first.plus(run.count));
    }

    /// One user of each of these slots less. They are of one file.
    fn remove(&self, slots: core::ops::Range<SlotId>) {
        self.locker.begin();
        let file = self.file_of(slots.start);
        let clusters = self.clusters(&file);
        let mut freed = clusters.freed();
        let unused = SlotId::each(slots).filter(|&slot| self.subtract(slot));
        unused.for_each(|slot| freed.add(file.own_slot(slot)));
        freed.give_back();
        self.locker.end();
    }

    /// Gives up the locks that a dead process holds.
    pub fn break_locks(&self, dead: MmId) {
        self.files.all().for_each(|file| self.clusters(&file).break_locks(dead));
    }

    /// Frees what a dead process had not freed to the end.
    pub fn audit(&self) -> u64 {
        self.files.all().map(|file| self.clusters(&file).audit()).sum()
    }
}
