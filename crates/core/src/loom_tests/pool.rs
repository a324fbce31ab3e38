//! One zspage between its owner, who frees, who reads, and who adopts it. The class of 256 small cells keeps the data
//! to a few words.

use super::swap_word::Table;
use crate::pool::{CLASS_COUNT, FreeCell, MAP_WORDS, Pool, ZspageOwner};
use crate::swap_table::{Put, WritebackEnd};
use crate::swap_word::Content;
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{BlobId, MmId, SwapId};

const ID: SwapId = SwapId::new(1);
const OLD: [u8; 8] = [1; 8];
const NEW: [u8; 8] = [2; 8];
/// Words of one cell of the smallest class.
const CELL_WORDS: usize = 16;
const ALL_CELLS: u64 = 256;

struct Memory {
    states: Vec<AtomicU64>,
    maps: Vec<AtomicU64>,
    offers: Vec<AtomicU64>,
    data: Vec<AtomicU64>,
    resident: AtomicU64,
    fresh: AtomicU64,
    limit: AtomicU64,
    dense: AtomicU64,
}

impl Memory {
    /// One zspage, room for the data of its first three cells.
    fn new() -> Memory {
        let words = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Memory {
            states: words(1),
            maps: words(MAP_WORDS),
            offers: words(CLASS_COUNT + 1),
            data: words(3 * CELL_WORDS),
            resident: AtomicU64::new(0),
            fresh: AtomicU64::new(0),
            limit: AtomicU64::new(1),
            dense: AtomicU64::new(0),
        }
    }
    fn view(&self) -> Pool<'_> {
        Pool {
            states: &self.states,
            maps: &self.maps,
            offers: &self.offers,
            data: &self.data,
            resident: &self.resident,
            fresh: &self.fresh,
            limit: &self.limit,
            dense: &self.dense,
        }
    }
    fn store(&self, mm: MmId, owner: &mut ZspageOwner, content: [u8; 8]) -> Option<BlobId> {
        let cell = self.view().reserve(mm, owner, content.len())?;
        self.view().write(&cell, ID, &content);
        Some(cell.blob())
    }
    fn load(&self, blob: BlobId) -> [u8; 8] {
        let mut out = [0; 8];
        assert!(self.view().read(blob, 8, &mut out));
        out
    }
    /// Frees as the engine does: what is given back to the system reads as zeros.
    fn free(&self, blob: BlobId) {
        if let FreeCell::ReleaseMemory(zspage) = self.view().free(blob) {
            self.data[1].store(0, Ordering::Relaxed);
            self.view().released(zspage);
        }
    }
    /// Makes the zspage, owned by nobody, with one cell in use, and offered.
    fn disowned_with_one_cell(&self) -> BlobId {
        let blob = self.store(MmId::new(0), &mut ZspageOwner::new(), OLD).expect("room");
        self.states[0].fetch_and(u64::MAX >> 16, Ordering::Relaxed);
        self.offers[CLASS_COUNT - 1].store(1, Ordering::Relaxed);
        blob
    }
}

/// A process reads a cell by the name in the swap word, another one puts the last reference, and the owner writes the
/// freed cell anew.
#[test]
fn loom_a_checked_read_never_sees_the_next_content() {
    loom::model(|| {
        let memory = Arc::new(Memory::new());
        let mut owner = ZspageOwner::new();
        let blob = memory.store(MmId::new(0), &mut owner, OLD).expect("room");
        let table = Table::published(Content::Blob { blob, length: 8 });
        let threads = [
            {
                let (memory, table) = (Arc::clone(&memory), Arc::clone(&table));
                thread::spawn(move || {
                    if let Put::Freed(Content::Blob { blob, .. }) = table.view().put(ID) {
                        assert_eq!(memory.view().free(blob), FreeCell::Done);
                    }
                })
            },
            {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    let stored = memory.store(MmId::new(0), &mut owner, NEW).expect("room");
                    assert_eq!(memory.load(stored), NEW);
                })
            },
        ];
        let before = table.view().load(ID).content();
        if before != Content::Free {
            let content = memory.load(blob);
            if table.view().load(ID).content() == before {
                assert_eq!(content, OLD, "a name that still stands vouches for the content");
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn loom_a_zspage_is_released_or_adopted() {
    loom::model(|| {
        let memory = Arc::new(Memory::new());
        let blob = memory.disowned_with_one_cell();
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.free(blob));
        let stored = memory.store(MmId::new(1), &mut ZspageOwner::new(), NEW);
        thread.join().unwrap();
        let state = memory.states[0].load(Ordering::Relaxed);
        match stored {
            Some(stored) => {
                assert_eq!(memory.load(stored), NEW, "memory in use was given back");
                assert_eq!(state >> 48, 2);
                assert_eq!(state & 0xFFFF_FFFF, 1);
                assert_eq!(memory.resident.load(Ordering::Relaxed), 1);
            }
            None => {
                assert_eq!(state, 0);
                assert_eq!(memory.resident.load(Ordering::Relaxed), 0);
                assert!(memory.store(MmId::new(1), &mut ZspageOwner::new(), NEW).is_some());
            }
        }
    });
}

/// The owner gives a full zspage up while somebody frees a cell: the room must not be lost.
#[test]
fn loom_room_freed_while_a_full_zspage_is_given_up_is_found() {
    loom::model(|| {
        let memory = Arc::new(Memory::new());
        let mut owner = ZspageOwner::new();
        let blob = memory.store(MmId::new(0), &mut owner, OLD).expect("room");
        memory.maps.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        memory.states[0].fetch_add(ALL_CELLS - 1, Ordering::Relaxed);
        let other = Arc::clone(&memory);
        let thread = thread::spawn(move || other.free(blob));
        let stored = memory.store(MmId::new(0), &mut owner, NEW);
        thread.join().unwrap();
        if stored.is_none() {
            assert_eq!(memory.store(MmId::new(1), &mut ZspageOwner::new(), NEW), Some(blob));
        }
        assert_eq!(memory.load(blob), NEW);
        assert_eq!(memory.view().used_cells(), ALL_CELLS);
    });
}

/// Two processes look for room while a third frees a cell and offers the zspage again: one gets it.
#[test]
fn loom_an_offered_zspage_has_one_owner() {
    let mut model = loom::model::Builder::new();
    // All interleavings of three take minutes; those with two forced switches take seconds.
    model.preemption_bound = Some(2);
    model.check(|| {
        let memory = Arc::new(Memory::new());
        let blob = memory.disowned_with_one_cell();
        memory.maps[0].store(0b11, Ordering::Relaxed);
        memory.states[0].fetch_add(1, Ordering::Relaxed);
        let (freer, adopter) = (Arc::clone(&memory), Arc::clone(&memory));
        let freer = thread::spawn(move || freer.free(blob));
        let adopter =
            thread::spawn(move || adopter.store(MmId::new(1), &mut ZspageOwner::new(), NEW).is_some());
        let here = memory.store(MmId::new(2), &mut ZspageOwner::new(), NEW).is_some();
        freer.join().unwrap();
        let there = adopter.join().unwrap();
        assert!(here != there);
        assert_eq!(memory.states[0].load(Ordering::Relaxed) >> 48, if here { 3 } else { 2 });
    });
}

/// The compactor moves a blob while somebody reads it by the name in the swap word; the old cell is written anew at
/// once.
#[test]
fn loom_a_blob_that_is_moved_is_read_whole() {
    loom::model(|| {
        let memory = Arc::new(Memory::new());
        let mut owner = ZspageOwner::new();
        let blob = memory.store(MmId::new(0), &mut owner, OLD).expect("room");
        let table = Table::published(Content::Blob { blob, length: 8 });
        let reader = {
            let (memory, table) = (Arc::clone(&memory), Arc::clone(&table));
            thread::spawn(move || {
                let before = table.view().load(ID).content();
                let Content::Blob { blob, .. } = before else { panic!("it is in the pool all the time") };
                let content = memory.load(blob);
                if table.view().load(ID).content() == before {
                    assert_eq!(content, OLD, "a name that still stands vouches for the content");
                }
            })
        };
        let word = table.view().load(ID);
        assert!(table.view().begin_writeback(ID, word));
        let copied = memory.load(blob);
        let moved = memory.store(MmId::new(0), &mut owner, copied).expect("room");
        let content = Content::Blob { blob: moved, length: 8 };
        assert_eq!(table.view().finish_writeback(ID, content), WritebackEnd::Moved);
        assert_eq!(memory.view().free(blob), FreeCell::Done);
        assert_eq!(memory.store(MmId::new(0), &mut owner, NEW), Some(blob));
        reader.join().unwrap();
    });
}
