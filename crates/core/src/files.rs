//! The swap files of a run: which slots are whose, which file is filled first, and how each is read and written.
//!
//! The slots of all files are numbered through: a swap word names a byte of that one space, and this table tells the file and the byte in the file.
//!
//! ```text
//! slots   0 .. a.slots | gap | b.first .. b.first + b.slots | gap | ...      each file starts at a cluster; the gap is as long as the longest read
//! word 0: 63..48 priority  47..16 descriptor  15..8 kind  1 direct  0 in use     1: first slot  2: slots  3: its clusters' first word  4: bytes written  5: most slots used
//! ```
//! Must hold: files lie in the order of their numbers, and no read of what lies together reaches from one into the next. The supervisor alone changes the table; who reads it meets a file
//! whole, or not at all.

use crate::clusters::{CLUSTER_SLOTS, Search, Space};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::limits::{FILE_BUFFER_BYTES, SWAP_FILES_MAX};
use uswap_units::{FileId, PAGE_BYTES};

const ENTRY_WORDS: usize = 8;
/// Words of the table.
pub(crate) const FILES_WORDS: usize = SWAP_FILES_MAX * ENTRY_WORDS;
/// Slots between two files.
const GAP_SLOTS: u64 = (FILE_BUFFER_BYTES / PAGE_BYTES) as u64;

const IN_USE: u64 = 1;
const DIRECT: u64 = 2;
const KIND_SHIFT: u32 = 8;
const DESCRIPTOR_SHIFT: u32 = 16;
const PRIORITY_SHIFT: u32 = 48;

/// What a file lies on, as far as reading and writing it differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A disk that turns: it is filled in the order of its slots, and what lies between two pages that are wanted is read along.
    Rotational,
    /// Everything else: a disk without moving parts, and memory.
    SolidState,
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
    pub first_slot: u64,
    /// What was said of it.
    pub spec: FileSpec,
    /// Where the state of its clusters is.
    pub(crate) clusters_start: usize,
}

impl FileRecord {
    /// Its slots among those of all files.
    pub const fn slots(&self) -> core::ops::Range<u64> {
        self.first_slot..self.first_slot + self.spec.slots
    }
    pub(crate) fn space(&self) -> Space {
        let search = match self.spec.kind {
            FileKind::Rotational => Search::Onward,
            FileKind::SolidState => Search::Scattered,
        };
        Space { first: 0, end: self.spec.slots as u32, is_discarding: true, search }
    }
}

/// Why there is no room for one more file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoFile {
    /// There are as many as there may be.
    TooMany,
    /// So many slots more cannot be numbered.
    TooLarge,
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
        &self.words[usize::from(id.0) * ENTRY_WORDS + index]
    }

    /// The file of this number, if there is one.
    pub fn get(&self, id: FileId) -> Option<FileRecord> {
        // Acquire pairs with `add`: what is said of the file was written before.
        let head = self.word(id, 0).load(Ordering::Acquire);
        let number = |index| self.word(id, index).load(Ordering::Relaxed);
        (head & IN_USE != 0).then(|| FileRecord {
            id,
            first_slot: number(1),
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
            clusters_start: number(3) as usize,
        })
    }

    /// All files, in the order of their slots.
    pub fn all(self) -> impl Iterator<Item = FileRecord> + use<'a> {
        (0..SWAP_FILES_MAX as u8).map_while(move |number| self.get(FileId(number)))
    }

    /// The file that has this slot.
    pub fn of_slot(&self, slot: u64) -> Option<FileRecord> {
        self.all().find(|file| file.slots().contains(&slot))
    }

    /// The file of a byte that a swap word names, and its place in the file.
    pub fn locate(&self, offset: u64) -> Option<(FileRecord, u64)> {
        let file = self.of_slot(offset / PAGE_BYTES as u64)?;
        Some((file, offset - file.first_slot * PAGE_BYTES as u64))
    }

    /// Adds a file behind the others: `slots_max` may be numbered in all, and `clusters_start` says from where on its clusters' state may be.
    pub(crate) fn add(&self, spec: FileSpec, slots_max: u64) -> Result<FileId, NoFile> {
        let last = self.all().last();
        let id = FileId(last.map_or(0, |last| last.id.0 + 1));
        if usize::from(id.0) == SWAP_FILES_MAX {
            return Err(NoFile::TooMany);
        }
        let first_slot = first_behind(last.map_or(0, |last| last.slots().end));
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
            | direct
            | IN_USE;
        // Release pairs with `get`.
        self.word(id, 0).store(head, Ordering::Release);
        Ok(id)
    }

    /// So many bytes more were written to it.
    pub fn note_written(&self, id: FileId, bytes: u64) {
        self.word(id, 4).fetch_add(bytes, Ordering::Relaxed);
    }
    /// Bytes that were written to it.
    pub fn written_bytes(&self, id: FileId) -> u64 {
        self.word(id, 4).load(Ordering::Relaxed)
    }
    /// So many of its slots are used now.
    pub(crate) fn note_used(&self, id: FileId, slots: u64) {
        self.word(id, 5).fetch_max(slots, Ordering::Relaxed);
    }
    /// The most of its slots that were seen to be used.
    pub fn used_peak(&self, id: FileId) -> u64 {
        self.word(id, 5).load(Ordering::Relaxed)
    }
}
