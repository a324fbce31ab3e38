//! The swap files of a run: which slots are whose, which file is filled first, and how each is read and written.
//!
//! The slots of all files are numbered through: a swap word names a byte of that one space, and this table tells the
//! file and the byte in the file.
//!
//! ```text
//! slots   0 .. a.slots | gap | b.first .. b.first + b.slots | gap | ...
//!         each file starts at a cluster; a gap is as long as the longest read
//!
//! word 0  63..48 priority  47..16 descriptor  15..8 kind  3..2 state  1 direct  0 known
//! word 1  first slot       2  slots           3  its clusters' first word
//! word 4  bytes written    5  most slots used
//!
//! Opening --(every process has it open)--> InUse <--(could not be emptied)-- Draining --(emptied)--> Gone
//!    '----------------(one cannot)-----------------------------------------------------------------> Gone
//! ```
//! Must hold: files lie in the order of their numbers, and no read of what lies together reaches from one into the
//! next. Only a file in use takes writes; what is in one that is drained is only read and moved; and a file that is
//! gone keeps its number and its slots: nothing is ever written there again, so a swap word that named a place of it is
//! told from any other. The supervisor alone changes the table; whoever reads it meets a file whole, or not at all.
//! Called by the supervisor and `sim`, which add files (through [`crate::slots`]) and take them away, by `engine`,
//! which reads and writes, and by `host`, which opens and closes.

use crate::clusters::{CLUSTER_SLOTS, Search, Space};
use crate::held_files::HeldFiles;
use uswap_sync::{AtomicU64, Ordering, fence};
use uswap_units::limits::{FILE_BUFFER_BYTES, SWAP_FILES_MAX};
use uswap_units::{FileId, FileOffset, FileSlot, PAGE_BYTES, SlotId, SwapOffset};

const ENTRY_WORDS: usize = 8;
/// Behind the files: how often the table was changed.
const CHANGES: usize = SWAP_FILES_MAX * ENTRY_WORDS;
/// Words of the table.
pub(crate) const FILES_WORDS: usize = CHANGES + 1;
/// Slots between two files.
const GAP_SLOTS: u64 = (FILE_BUFFER_BYTES / PAGE_BYTES) as u64;

const KNOWN: u64 = 1;
const DIRECT: u64 = 2;
const STATE_SHIFT: u32 = 2;
const STATE_MASK: u64 = 3 << STATE_SHIFT;
const KIND_SHIFT: u32 = 8;
const DESCRIPTOR_SHIFT: u32 = 16;
const PRIORITY_SHIFT: u32 = 48;

/// What a file lies on, as far as reading and writing it differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A disk that turns: it is filled in the order of its slots, and what lies between two pages that are wanted is
    /// read along.
    Rotational,
    /// Everything else: a disk without moving parts, and memory.
    SolidState,
}

/// Where a file is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileState {
    /// Processes that run already open it. Nothing is in it.
    Opening,
    /// It takes writes.
    InUse,
    /// What is in it is moved to other files.
    Draining,
    /// Nothing is in it, and nothing ever will be.
    Gone,
}

impl FileState {
    const fn from_head(head: u64) -> FileState {
        match (head & STATE_MASK) >> STATE_SHIFT {
            0 => FileState::Opening,
            1 => FileState::InUse,
            2 => FileState::Draining,
            _ => FileState::Gone,
        }
    }
    const fn bits(self) -> u64 {
        (self as u64) << STATE_SHIFT
    }
    /// Whether a file may go from one state to the other.
    pub const fn may_become(self, next: FileState) -> bool {
        use FileState::{Draining, Gone, InUse, Opening};
        matches!((self, next), (Opening, InUse | Gone) | (InUse, Draining) | (Draining, InUse | Gone))
    }
}

/// Whether the page cache lies between the file and its users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileAccess {
    /// O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// What is said of a file when it is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileSpec {
    /// Its largest size.
    pub slots: u64,
    /// Files of higher priority are filled first.
    pub priority: i16,
    /// What it lies on.
    pub kind: FileKind,
    /// Its number in the supervisor's descriptor table.
    pub descriptor: i32,
    /// How it is opened.
    pub access: FileAccess,
}

/// A file of the run, as it was when it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileRecord {
    /// Its number.
    pub id: FileId,
    /// Its first slot among those of all files.
    pub first_slot: SlotId,
    /// What was said of it.
    pub spec: FileSpec,
    /// Where it was in its life.
    pub state: FileState,
    /// Where the state of its clusters is.
    pub(crate) clusters_start: usize,
}

impl FileRecord {
    /// Its slots among those of all files.
    pub const fn slots(&self) -> core::ops::Range<SlotId> {
        self.first_slot..self.first_slot.plus(self.spec.slots)
    }
    /// One of its slots, among those of all files.
    pub(crate) const fn slot(&self, slot: FileSlot) -> SlotId {
        self.first_slot.plus(slot.number() as u64)
    }
    /// One of all slots that lies in it, among its own.
    pub(crate) const fn own_slot(&self, slot: SlotId) -> FileSlot {
        FileSlot::new(slot.since(self.first_slot) as u32)
    }
    pub(crate) fn space(&self) -> Space {
        let search = match self.spec.kind {
            FileKind::Rotational => Search::Onward,
            FileKind::SolidState => Search::Scattered,
        };
        Space { skipped: 0, count: self.spec.slots as u32, is_trimmed: true, search }
    }
}

/// Why there is no room for one more file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoFile {
    /// There are as many as there may be.
    TooMany,
    /// That many more slots cannot be numbered.
    TooLarge,
}

/// What a process must do next about the files of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// Open it: as soon as all have, swap words may name places in it.
    Open(FileRecord),
    /// Close it.
    Close(FileId),
}

/// View of the table.
#[derive(Clone, Copy)]
pub struct SwapFiles<'a> {
    pub(crate) words: &'a [AtomicU64],
}

/// Slots that files of these sizes take in the numbering, for a geometry.
pub fn slots_of_all(sizes: impl IntoIterator<Item = u64>) -> u64 {
    let end = sizes.into_iter().fold(0, |end, slots| first_behind(end) + slots);
    end.next_multiple_of(8)
}

/// The first slot of the file behind one that ends at `end`.
fn first_behind(end: u64) -> u64 {
    if end == 0 { 0 } else { (end + GAP_SLOTS).next_multiple_of(u64::from(CLUSTER_SLOTS)) }
}

impl<'a> SwapFiles<'a> {
    fn word(&self, id: FileId, index: usize) -> &'a AtomicU64 {
        &self.words[id.index() * ENTRY_WORDS + index]
    }

    /// The file of this number, if there is one.
    pub fn get(&self, id: FileId) -> Option<FileRecord> {
        // Acquire pairs with `add`: what is said of the file was written before.
        let head = self.word(id, 0).load(Ordering::Acquire);
        let number = |index| self.word(id, index).load(Ordering::Relaxed);
        (head & KNOWN != 0).then(|| FileRecord {
            id,
            first_slot: SlotId::new(number(1)),
            spec: FileSpec {
                slots: number(2),
                priority: (head >> PRIORITY_SHIFT) as i16,
                kind: match head >> KIND_SHIFT & 0xFF {
                    0 => FileKind::Rotational,
                    _ => FileKind::SolidState,
                },
                descriptor: (head >> DESCRIPTOR_SHIFT) as i32,
                access: if head & DIRECT != 0 { FileAccess::Direct } else { FileAccess::Buffered },
            },
            state: FileState::from_head(head),
            clusters_start: number(3) as usize,
        })
    }

    /// All files that ever were, in the order of their slots.
    pub fn all(self) -> impl Iterator<Item = FileRecord> + use<'a> {
        (0..SWAP_FILES_MAX as u8).map_while(move |number| self.get(FileId::new(number)))
    }

    /// The file that has this slot.
    pub fn of_slot(&self, slot: SlotId) -> Option<FileRecord> {
        self.all().find(|file| file.slots().contains(&slot))
    }

    /// The file of a byte that a swap word names, and its place in the file.
    pub fn locate(&self, offset: SwapOffset) -> Option<(FileRecord, FileOffset)> {
        let file = self.of_slot(offset.slot())?;
        Some((file, FileOffset::new(offset.since(file.first_slot.start()))))
    }

    /// Those that take writes.
    pub fn in_use(self) -> impl Iterator<Item = FileRecord> + use<'a> {
        self.all().filter(|file| file.state == FileState::InUse)
    }

    /// From `from` to `to`. False: it is not in that state.
    pub fn change_state(&self, id: FileId, from: FileState, to: FileState) -> bool {
        assert!(from.may_become(to), "{from:?} -> {to:?}");
        let word = self.word(id, 0);
        let head = word.load(Ordering::Relaxed);
        let is_changed = head & KNOWN != 0 && FileState::from_head(head) == from && {
            // Release pairs with `get`: what was done to the file in the old state is over.
            let next = head & !STATE_MASK | to.bits();
            word.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if is_changed {
            self.note_change();
        }
        is_changed
    }

    /// Grows whenever a file is added or changes its state.
    pub fn changes(&self) -> u64 {
        // Acquire pairs with `note_change`: whoever sees the number sees the change.
        self.words[CHANGES].load(Ordering::Acquire)
    }
    fn note_change(&self) {
        // Release pairs with `changes`: the change is in the table before it is counted.
        self.words[CHANGES].fetch_add(1, Ordering::Release);
    }

    /// What a process must do that has these files open. It looks after it has said that it lives.
    pub fn to_follow(self, held: HeldFiles) -> impl Iterator<Item = Follow> + use<'a> {
        // Pairs with that in `MmTable::look_for`: either we see a change that was made ahead of it, or whoever looks
        // there for processes that do not follow the change sees that this one lives.
        fence(Ordering::SeqCst);
        self.all().filter_map(move |file| match file.state {
            FileState::Gone => held.has_answered(file.id).then_some(Follow::Close(file.id)),
            _ => (!held.has_answered(file.id)).then_some(Follow::Open(file)),
        })
    }

    /// Adds a file behind the others: `slots_max` may be numbered in all, and `clusters_start` says from where on its
    /// clusters' state may be.
    pub(crate) fn add(&self, spec: FileSpec, state: FileState, slots_max: u64) -> Result<FileId, NoFile> {
        let last = self.all().last();
        let id = FileId::new(last.map_or(0, |last| last.id.number() + 1));
        if id.index() == SWAP_FILES_MAX {
            return Err(NoFile::TooMany);
        }
        let first_slot = first_behind(last.map_or(0, |last| last.slots().end.number()));
        if spec.slots == 0 || first_slot + spec.slots > slots_max {
            return Err(NoFile::TooLarge);
        }
        let clusters_start = last.map_or(0, |last| last.clusters_start + last.space().words());
        for (index, value) in [(1, first_slot), (2, spec.slots), (3, clusters_start as u64)] {
            self.word(id, index).store(value, Ordering::Relaxed);
        }
        let kind = match spec.kind {
            FileKind::Rotational => 0,
            FileKind::SolidState => 1,
        };
        let direct = if spec.access == FileAccess::Direct { DIRECT } else { 0 };
        let head = u64::from(spec.priority as u16) << PRIORITY_SHIFT
            | u64::from(spec.descriptor as u32) << DESCRIPTOR_SHIFT
            | kind << KIND_SHIFT
            | state.bits()
            | direct
            | KNOWN;
        // Release pairs with `get`.
        self.word(id, 0).store(head, Ordering::Release);
        self.note_change();
        Ok(id)
    }

    /// Slots that one more file may have at most; 0: there are as many files as there may be.
    pub(crate) fn largest_to_add(&self, slots_max: u64) -> u64 {
        if self.all().count() == SWAP_FILES_MAX {
            return 0;
        }
        slots_max.saturating_sub(first_behind(self.all().last().map_or(0, |last| last.slots().end.number())))
    }

    /// Adds to the bytes that were written to it.
    pub fn note_written(&self, id: FileId, bytes: u64) {
        self.word(id, 4).fetch_add(bytes, Ordering::Relaxed);
    }
    /// Bytes that were written to it.
    pub fn written_bytes(&self, id: FileId) -> u64 {
        self.word(id, 4).load(Ordering::Relaxed)
    }
    /// Notes how many of its slots are used now.
    pub(crate) fn note_used(&self, id: FileId, slots: u64) {
        self.word(id, 5).fetch_max(slots, Ordering::Relaxed);
    }
    /// The most of its slots that were seen to be used.
    pub fn used_peak(&self, id: FileId) -> u64 {
        self.word(id, 5).load(Ordering::Relaxed)
    }
}
