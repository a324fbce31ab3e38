//! The pool against a list of cells with their content.

use super::{SMALL, with_segment};
use crate::pool::compaction::COMPACTOR;
use crate::pool::{FreeCell, Pool, ReservedCell, ZSPAGE_BYTES, ZspageOwner};
use crate::segment::Geometry;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use uswap_sync::Ordering;
use uswap_units::{BlobId, MmId, PAGE_BYTES, Prng, SwapId, ZspageId};

const OWNERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Store {
        owner: usize,
        length: usize,
    },
    /// Reserve and hold back; its owner may die before it writes.
    Reserve {
        owner: usize,
        length: usize,
    },
    WriteReserved {
        pick: usize,
    },
    CancelReserved {
        pick: usize,
    },
    Free {
        pick: usize,
    },
    FreeMany {
        count: usize,
    },
    Reap {
        owner: usize,
    },
    /// Moves what it can from emptier zspages into fuller ones.
    Compact,
    SetLimit {
        zspages: u64,
    },
}

fn operation() -> impl Strategy<Value = Op> {
    let length = prop_oneof![1..=PAGE_BYTES, 1..200_usize, Just(PAGE_BYTES), Just(1000_usize)];
    prop_oneof![
        12 => (0..OWNERS, length.clone()).prop_map(|(owner, length)| Op::Store { owner, length }),
        2 => (0..OWNERS, length).prop_map(|(owner, length)| Op::Reserve { owner, length }),
        1 => (0..64_usize).prop_map(|pick| Op::WriteReserved { pick }),
        1 => (0..64_usize).prop_map(|pick| Op::CancelReserved { pick }),
        6 => (0..512_usize).prop_map(|pick| Op::Free { pick }),
        1 => (1..30_usize).prop_map(|count| Op::FreeMany { count }),
        1 => (0..OWNERS).prop_map(|owner| Op::Reap { owner }),
        2 => Just(Op::Compact),
        1 => (0..8_u64).prop_map(|zspages| Op::SetLimit { zspages }),
    ]
}

pub(super) fn content_of(seed: u64, length: usize) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    (0..length).map(|_| prng.next_u64() as u8).collect()
}

struct Live {
    blob: BlobId,
    content: Vec<u8>,
}

struct Held {
    cell: ReservedCell,
    owner: usize,
    length: usize,
}

struct Model<'a> {
    pool: Pool<'a>,
    owners: Vec<ZspageOwner>,
    live: Vec<Live>,
    held: Vec<Held>,
    /// Reserved by a dead process in zspages that it did not own any more.
    leaked: Vec<(BlobId, usize)>,
    next_seed: u64,
}

fn owner_of(pool: &Pool<'_>, blob: BlobId) -> u64 {
    pool.states[blob.zspage().index()].load(Ordering::Relaxed) >> 48
}

fn bit_is_set(pool: &Pool<'_>, blob: BlobId) -> bool {
    let word = &pool.maps[blob.zspage().index() * crate::pool::MAP_WORDS + blob.cell() as usize / 64];
    word.load(Ordering::Relaxed) & (1 << (blob.cell() % 64)) != 0
}

impl Model<'_> {
    fn note_freed(&self, freed: FreeCell) {
        if let FreeCell::ReleaseMemory(zspage) = freed {
            assert!(self.live.iter().all(|live| live.blob.zspage() != zspage), "memory in use was released");
            assert!(
                self.held.iter().all(|held| held.cell.blob().zspage() != zspage),
                "memory in use was released"
            );
            self.pool.released(zspage);
        }
    }

    fn reserve(&mut self, owner: usize, length: usize) -> Option<ReservedCell> {
        let before = self.pool.resident_bytes();
        let cell = self.pool.reserve(MmId::new(owner as u16), &mut self.owners[owner], length);
        assert!(self.pool.resident_bytes() <= before.max(self.pool.limit_bytes()));
        match &cell {
            Some(cell) => {
                assert!(self.live.iter().all(|live| live.blob != cell.blob()), "a cell in use was reserved");
                assert!(
                    self.held.iter().all(|held| held.cell.blob() != cell.blob()),
                    "a cell in use was reserved"
                );
            }
            None => {
                let all = u64::from(self.pool.zspage_count()) * ZSPAGE_BYTES as u64;
                assert!(before >= self.pool.limit_bytes().min(all), "full, though there is room");
            }
        }
        cell
    }

    fn write(&mut self, cell: ReservedCell, length: usize) {
        self.next_seed += 1;
        let content = content_of(self.next_seed, length);
        self.pool.write(&cell, SwapId::new(self.next_seed as u32), &content);
        self.live.push(Live { blob: cell.blob(), content });
    }

    fn free(&mut self, pick: usize) {
        if !self.live.is_empty() {
            let live = self.live.swap_remove(pick % self.live.len());
            self.note_freed(self.pool.free(live.blob));
        }
    }

    fn reap(&mut self, owner: usize) {
        let (dead, alive): (Vec<Held>, Vec<Held>) =
            core::mem::take(&mut self.held).into_iter().partition(|held| held.owner == owner);
        self.held = alive;
        let mut reserved: Vec<(BlobId, usize)> = dead.iter().map(|held| (held.cell.blob(), owner)).collect();
        reserved.append(&mut self.leaked);
        let its =
            |&(blob, of): &(BlobId, usize)| of == owner && owner_of(&self.pool, blob) == owner as u64 + 1;
        let (freed, kept): (Vec<_>, Vec<_>) = reserved.into_iter().partition(its);
        let live = &self.live;
        self.pool.reap(MmId::new(owner as u16), |zspage| {
            assert!(live.iter().all(|live| live.blob.zspage() != zspage))
        });
        assert!(freed.iter().all(|&(blob, _)| !bit_is_set(&self.pool, blob)));
        assert!(kept.iter().all(|&(blob, _)| bit_is_set(&self.pool, blob)));
        self.leaked = kept;
        self.owners[owner] = ZspageOwner::new();
    }

    fn compact(&mut self) {
        let mut partial: Vec<_> = self.pool.partial_zspages().collect();
        partial.sort_unstable();
        for pair in partial.windows(2).filter(|pair| pair[0].cells == pair[1].cells) {
            let (source, destination) = (pair[0], pair[1]);
            // Either may have become full or empty by the pair before.
            if !self.pool.adopt_partial(COMPACTOR, source) {
                continue;
            }
            if self.pool.adopt_partial(COMPACTOR, destination) {
                self.move_cells(source.zspage, destination.zspage);
                self.note_freed(self.pool.disown(destination.zspage));
            }
            self.note_freed(self.pool.disown(source.zspage));
        }
    }

    fn move_cells(&mut self, source: ZspageId, destination: ZspageId) {
        let cells: Vec<_> = self.pool.written_cells(source).collect();
        let live = self.live.iter().filter(|live| live.blob.zspage() == source).count();
        assert_eq!(cells.len(), live, "reserved cells are not written, and all others are in use");
        for cell in cells {
            let live = self.live.iter_mut().find(|live| live.blob == cell.blob).expect("in use");
            assert_eq!(cell.length as usize, live.content.len());
            let Some(reserved) = self.pool.reserve_in(COMPACTOR, destination) else { return };
            self.pool.write(&reserved, cell.swap, &live.content);
            live.blob = reserved.blob();
            assert_eq!(self.pool.free(cell.blob), FreeCell::Done, "the compactor owns it");
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Store { owner, length } => {
                if let Some(cell) = self.reserve(owner, length) {
                    self.write(cell, length);
                }
            }
            Op::Reserve { owner, length } => {
                if let Some(cell) = self.reserve(owner, length) {
                    self.held.push(Held { cell, owner, length });
                }
            }
            Op::WriteReserved { pick } if !self.held.is_empty() => {
                let held = self.held.swap_remove(pick % self.held.len());
                self.write(held.cell, held.length);
            }
            Op::CancelReserved { pick } if !self.held.is_empty() => {
                let held = self.held.swap_remove(pick % self.held.len());
                self.note_freed(self.pool.cancel(held.cell));
            }
            Op::Free { pick } => self.free(pick),
            Op::FreeMany { count } => (0..count).for_each(|pick| self.free(pick)),
            Op::Reap { owner } => self.reap(owner),
            Op::Compact => self.compact(),
            Op::SetLimit { zspages } => self.pool.set_limit_bytes(zspages * ZSPAGE_BYTES as u64),
            Op::WriteReserved { .. } | Op::CancelReserved { .. } => {}
        }
    }

    fn check(&self) {
        for live in &self.live {
            let mut out = vec![0; live.content.len()];
            assert!(self.pool.read(live.blob, out.len(), &mut out));
            assert!(out == live.content, "{:?} was overwritten", live.blob);
        }
        assert_eq!(self.pool.used_cells(), (self.live.len() + self.held.len() + self.leaked.len()) as u64);
        let with_memory = self.pool.states.iter().filter(|state| state.load(Ordering::Relaxed) != 0).count();
        assert_eq!(self.pool.resident_bytes(), (with_memory * ZSPAGE_BYTES) as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 192, ..ProptestConfig::default() })]
    #[test]
    fn cells_hold_what_the_model_holds(ops in prop::collection::vec(operation(), 1..160)) {
        with_segment(SMALL, |segment| {
            let owners = (0..OWNERS).map(|_| ZspageOwner::new()).collect();
            let (live, held, leaked) = (Vec::new(), Vec::new(), Vec::new());
            let mut model = Model { pool: segment.pool(), owners, live, held, leaked, next_seed: 0 };
            for op in ops {
                model.apply(op);
                model.check();
            }
            while !model.live.is_empty() {
                model.free(0);
            }
            for held in core::mem::take(&mut model.held) {
                model.note_freed(model.pool.cancel(held.cell));
            }
            (0..OWNERS).for_each(|owner| model.reap(owner));
            model.check();
            // Only the zspages of leaked cells still hold memory.
            let mut zspages: Vec<u32> = model.leaked.iter().map(|(blob, _)| blob.zspage().number()).collect();
            zspages.sort_unstable();
            zspages.dedup();
            assert_eq!(model.pool.resident_bytes(), (zspages.len() * ZSPAGE_BYTES) as u64);
        });
    }
}

#[test]
fn every_length_is_stored_and_given_back() {
    with_segment(Geometry { zspages: 512, ..SMALL }, |segment| {
        let (pool, mut owner) = (segment.pool(), ZspageOwner::new());
        let stored: Vec<(BlobId, usize)> = (1..=PAGE_BYTES)
            .map(|length| {
                let cell = pool.reserve(MmId::new(0), &mut owner, length).expect("room");
                pool.write(&cell, SwapId::new(length as u32), &content_of(length as u64, length));
                (cell.blob(), length)
            })
            .collect();
        for &(blob, length) in &stored {
            let mut out = [0; PAGE_BYTES];
            assert!(pool.read(blob, length, &mut out));
            assert_eq!(out[..length], content_of(length as u64, length));
        }
        for (blob, _) in stored {
            if let FreeCell::ReleaseMemory(zspage) = pool.free(blob) {
                pool.released(zspage);
            }
        }
        pool.reap(MmId::new(0), |_| {});
        assert_eq!((pool.used_cells(), pool.resident_bytes()), (0, 0));
    });
}

#[test]
fn reaping_the_next_owner_of_a_zspage_spares_what_others_reserved_there() {
    with_segment(SMALL, |segment| {
        let (pool, mut first, mut second) = (segment.pool(), ZspageOwner::new(), ZspageOwner::new());
        let cells: Vec<ReservedCell> =
            (0..8).map(|_| pool.reserve(MmId::new(1), &mut first, PAGE_BYTES).expect("room")).collect();
        let zspage = cells[0].blob().zspage();
        assert!(cells[7].blob().zspage() != zspage, "the first one is full and has no owner");
        let mut cells = cells.into_iter();
        assert_eq!(pool.cancel(cells.next().expect("8 cells")), FreeCell::Done);
        let lost = pool.reserve(MmId::new(2), &mut second, PAGE_BYTES).expect("offered");
        assert_eq!(lost.blob().zspage(), zspage);
        pool.reap(MmId::new(2), |_| panic!("six cells are in use"));
        assert!(!bit_is_set(&pool, lost.blob()));
        for (index, cell) in cells.enumerate() {
            assert!(bit_is_set(&pool, cell.blob()));
            pool.write(&cell, SwapId::new(1 + index as u32), &content_of(index as u64, PAGE_BYTES));
        }
        assert_eq!(pool.used_cells(), 7);
    });
}

/// Between the taking of a name and the freeing of its cell, the reaper must not free the cell too.
#[test]
fn reaping_leaves_written_cells_to_who_takes_their_name() {
    with_segment(SMALL, |segment| {
        let (pool, mut owner) = (segment.pool(), ZspageOwner::new());
        let cell = pool.reserve(MmId::new(1), &mut owner, 100).expect("room");
        pool.write(&cell, SwapId::new(9), &[1; 100]);
        pool.reap(MmId::new(1), |_| panic!("a cell is in use"));
        assert_eq!(pool.free(cell.blob()), FreeCell::ReleaseMemory(cell.blob().zspage()));
        pool.released(cell.blob().zspage());
        assert_eq!(pool.resident_bytes(), 0);
    });
}

#[test]
fn reading_any_name_is_harmless() {
    with_segment(SMALL, |segment| {
        let (pool, mut owner) = (segment.pool(), ZspageOwner::new());
        let mut out = [0; PAGE_BYTES];
        assert!(!pool.read(BlobId::new(0), 1, &mut out));
        let cell = pool.reserve(MmId::new(1), &mut owner, PAGE_BYTES).expect("room");
        for raw in 0..SMALL.zspages * 256 + 3 {
            let known = pool.read(BlobId::new(raw), PAGE_BYTES, &mut out);
            assert_eq!(
                known,
                BlobId::new(raw).zspage() == cell.blob().zspage() && BlobId::new(raw).cell() < 7
            );
        }
        assert!(!pool.read(cell.blob(), PAGE_BYTES + 1, &mut out));
    });
}
