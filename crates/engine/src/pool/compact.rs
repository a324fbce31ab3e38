//! Moves blobs together in the pool, so that memory which holds nothing is given back before anything is written to the
//! file.
//!
//! To the swap table it is a write-back into another cell: the entry is marked, so that nobody frees the cell; the blob
//! is copied; the entry names the new cell, and only then the old one is freed. A reader that copied from the old cell
//! meanwhile finds another hash, and the entry changed.
//!
//! Must hold: the old cell is freed after the word names the new one. Called by [`crate::writeback`] alone: there is
//! one task that moves blobs.

use crate::pool::release::{disown_zspage, free_blob};
use crate::world::Backing;
use alloc::vec::Vec;
use uswap_core::pool::compaction::{COMPACTOR, Partial, WrittenCell};
use uswap_core::pool::{FreeCell, ReservedCell};
use uswap_core::segment::Segment;
use uswap_core::swap_table::WritebackEnd;
use uswap_core::swap_word::Content;
use uswap_units::{PAGE_BYTES, ZspageId};

/// It is done when it gives at least this part of the pool's limit back: below, a round over the zspages costs more
/// than it brings.
const WORTH_WHILE: u64 = 64;

/// Compacts the pool. One task of the supervisor does it, the one that writes back.
pub struct Compactor {
    /// By class, the emptiest first.
    partial: Vec<Partial>,
}

/// One class: sources are taken from the front, destinations from the back.
struct Class<'a> {
    partial: &'a [Partial],
    destination: Option<ZspageId>,
    /// In all of them; an estimate, since others free and allocate.
    holes: u64,
}

impl<'a> Class<'a> {
    fn of(partial: &'a [Partial]) -> Class<'a> {
        Class { partial, destination: None, holes: partial.iter().copied().map(holes).sum() }
    }
}

fn holes(partial: Partial) -> u64 {
    u64::from(partial.cells - partial.used)
}

impl Compactor {
    /// Allocates when it is first used.
    pub const fn new() -> Compactor {
        Compactor { partial: Vec::new() }
    }

    /// Moves blobs together if that frees enough memory; how many bytes it freed.
    pub async fn compact(&mut self, segment: Segment<'_>, backing: &impl Backing) -> u64 {
        let pool = segment.pool();
        if pool.compactable_bytes() < pool.limit_bytes() / WORTH_WHILE {
            return 0;
        }
        self.partial.clear();
        self.partial.extend(pool.partial_zspages());
        self.partial.sort_unstable();
        let before = pool.resident_bytes();
        for class in self.partial.chunk_by(|one, other| one.cells == other.cells) {
            compact_class(Class::of(class), segment, backing).await;
        }
        before.saturating_sub(pool.resident_bytes())
    }
}

impl Default for Compactor {
    fn default() -> Self {
        Self::new()
    }
}

async fn compact_class(mut class: Class<'_>, segment: Segment<'_>, backing: &impl Backing) {
    let pool = segment.pool();
    while let Some((&source, rest)) = class.partial.split_first() {
        class.holes = class.holes.saturating_sub(holes(source));
        if class.holes < u64::from(source.used) {
            break;
        }
        class.partial = rest;
        if !pool.adopt_partial(COMPACTOR, source) {
            continue;
        }
        for cell in pool.written_cells(source.zspage) {
            backing.step().await;
            if !move_cell(cell, &mut class, segment, backing).await {
                break;
            }
        }
        disown_zspage(segment, backing, source.zspage);
    }
    if let Some(destination) = class.destination {
        disown_zspage(segment, backing, destination);
    }
}

/// A free cell in the fullest zspage of the class that still has one.
fn reserve(class: &mut Class<'_>, segment: Segment<'_>, backing: &impl Backing) -> Option<ReservedCell> {
    let pool = segment.pool();
    loop {
        if let Some(destination) = class.destination {
            if let Some(cell) = pool.reserve_in(COMPACTOR, destination) {
                class.holes = class.holes.saturating_sub(1);
                return Some(cell);
            }
            class.destination = None;
            disown_zspage(segment, backing, destination);
        }
        let (last, rest) = class.partial.split_last()?;
        class.partial = rest;
        if pool.adopt_partial(COMPACTOR, *last) {
            class.destination = Some(last.zspage);
        } else {
            class.holes = class.holes.saturating_sub(holes(*last));
        }
    }
}

/// False: there is no room.
async fn move_cell(
    cell: WrittenCell,
    class: &mut Class<'_>,
    segment: Segment<'_>,
    backing: &impl Backing,
) -> bool {
    let (pool, table) = (segment.pool(), segment.swap_table());
    let old = Content::Blob { blob: cell.blob, length: cell.length };
    if cell.swap.number() == 0 || cell.swap.number() >= table.entry_count() {
        return true;
    }
    let word = table.load(cell.swap);
    // It may be freed just now, and what freed it finds its way without us.
    if word.content() != old || word.is_writeback() || word.count() == 0 {
        return true;
    }
    let Some(reserved) = reserve(class, segment, backing) else { return false };
    let new = Content::Blob { blob: reserved.blob(), length: cell.length };
    if !table.begin_writeback(cell.swap, word) {
        if let FreeCell::ReleaseMemory(_) = pool.cancel(reserved) {
            unreachable!("the compactor owns the zspage");
        }
        return true;
    }
    // From here on whoever gives the entry up leaves the cell to us.
    backing.step().await;
    let mut content = [0; PAGE_BYTES];
    let content = &mut content[..cell.length as usize];
    let read = pool.read(cell.blob, cell.length as usize, content);
    assert!(read, "a blob in write-back keeps its cell");
    pool.write(&reserved, cell.swap, content);
    if table.finish_writeback(cell.swap, new) == WritebackEnd::Orphaned {
        free_blob(segment, backing, reserved.blob());
        segment.budget().subtract(u64::from(cell.length));
    }
    free_blob(segment, backing, cell.blob);
    true
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::block_on;
    use crate::world::{FileBuffer, FileError};
    use crate::writeback::{Batch, Shrinker, SwapWriter, excess_bytes};
    use alloc::vec;
    use core::cell::Cell;
    use core::sync::atomic::AtomicU64;
    use uswap_core::budget::Signal;
    use uswap_core::files::{FileAccess, FileKind, FileSpec};
    use uswap_core::pool::{ZSPAGE_BYTES, ZspageOwner};
    use uswap_core::segment::Geometry;
    use uswap_units::limits::WRITEBACK_BATCH_BYTES;
    use uswap_units::{FileId, MmId, Prng, SwapId, SwapOffset};

    /// Does what a test wants between two moves.
    pub(crate) struct Between<F: Fn()> {
        pub(crate) released: Cell<u64>,
        pub(crate) step: F,
    }

    impl<F: Fn()> Backing for Between<F> {
        fn release_zspage(&self, _: ZspageId) {
            self.released.set(self.released.get() + 1);
        }
        async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
            panic!("compaction reads no file")
        }
        async fn pause(&self) {}
        async fn step(&self) {
            (self.step)();
        }
        fn now_ns(&self) -> u64 {
            0
        }
        fn raise(&self, _: Signal) {}
        async fn wait(&self, _: Signal, _: u32, _: u64) {}
    }

    impl<F: Fn()> SwapWriter for Between<F> {
        type Backing = Self;
        fn backing(&self) -> &Self {
            self
        }
        fn may_write(&self, _: FileId, _: u64) -> bool {
            true
        }
        async fn write_file(&self, _: SwapOffset, _: &[u8]) -> Result<(), FileError> {
            Ok(())
        }
    }

    const GEOMETRY: Geometry =
        Geometry { mms: 4, tables: 8, entries: 8192, zspages: 512, slots: 64, readahead: 0 };

    /// Blobs of a few lengths, most of them freed again at random: what is left, with its first byte.
    fn scattered(segment: Segment<'_>, prng: &mut Prng) -> Vec<(SwapId, u8)> {
        let mut zspages = ZspageOwner::new();
        let mut live = Vec::new();
        for _ in 0..3000 {
            let id = segment.swap_table().reserve().expect("room");
            let (length, byte) = (200 + 700 * prng.below(5) as usize, prng.next_u64() as u8);
            let cell = segment.pool().reserve(MmId::new(1), &mut zspages, length).expect("room");
            segment.pool().write(&cell, id, &vec![byte; length]);
            segment.swap_table().publish(id, Content::Blob { blob: cell.blob(), length: length as u32 });
            live.push((id, byte));
        }
        segment.pool().reap(MmId::new(1), |_| ());
        let nothing_between = Between { released: Cell::new(0), step: || () };
        live.retain(|(id, _)| {
            let stays = prng.below(3) == 0;
            if !stays {
                crate::pool::release::put_entry(segment, &nothing_between, *id);
            }
            stays
        });
        live
    }

    fn compact(segment: Segment<'_>, between: impl Fn()) -> u64 {
        let backing = Between { released: Cell::new(0), step: between };
        let freed = block_on(Compactor::new().compact(segment, &backing));
        assert!(freed >= backing.released.get() * ZSPAGE_BYTES as u64, "more only if others released too");
        freed
    }

    fn with_scattered(seed: u64, test: impl FnOnce(Segment<'_>, Vec<(SwapId, u8)>, &mut Prng)) {
        let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, GEOMETRY);
        let mut prng = Prng::new(seed);
        let live = scattered(segment, &mut prng);
        let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
        let spec = FileSpec { slots: GEOMETRY.slots, priority: -1, kind, descriptor: 3, access };
        let added = segment.slots().add_file(spec);
        assert!(added.is_ok());
        test(segment, live, &mut prng);
    }

    fn check(segment: Segment<'_>, id: SwapId, byte: u8) {
        let word = segment.swap_table().load(id);
        let Content::Blob { blob, length } = word.content() else { panic!("{word:?}") };
        let mut out = [0; PAGE_BYTES];
        assert!(segment.pool().read(blob, length as usize, &mut out));
        assert!(out[..length as usize].iter().all(|&seen| seen == byte) && !word.is_writeback());
    }

    #[test]
    fn holes_come_together_and_nothing_else_changes() {
        with_scattered(7, |segment, live, _| {
            let (pool, before) = (segment.pool(), segment.pool().resident_bytes());
            let freed = compact(segment, || ());
            assert!(freed > before / 2, "{freed} of {before}, two thirds were holes");
            assert_eq!(pool.used_cells(), live.len() as u64);
            live.iter().for_each(|&(id, byte)| check(segment, id, byte));
            // No class has a zspage full of holes left, and a second round finds nothing to do.
            assert_eq!(pool.compactable_bytes(), 0);
            assert_eq!(compact(segment, || ()), 0);
        });
    }

    /// The shrinker also wakes for pages that do not compress, and then holes are in nobody's way.
    #[test]
    fn only_a_pool_that_is_nearly_full_is_compacted() {
        with_scattered(7, |segment, _, _| {
            let (pool, writer) = (segment.pool(), Between { released: Cell::new(0), step: || () });
            let (mut shrinker, mut buffer) = (Shrinker::new(), vec![0; WRITEBACK_BATCH_BYTES]);
            let mut batch = || block_on(shrinker.write_batch(segment, &writer, &mut buffer));
            assert_eq!(excess_bytes(segment), 0);
            assert!(matches!(batch(), Batch::Written { .. }));
            pool.set_limit_bytes(pool.resident_bytes());
            assert!(excess_bytes(segment) > 0);
            assert!(matches!(batch(), Batch::Compacted { .. }));
        });
    }

    /// Entries are freed while their neighbours, or they themselves, are moved.
    #[test]
    fn entries_may_go_at_any_moment() {
        for seed in 0..20 {
            with_scattered(seed, |segment, mut live, prng| {
                let gone = core::cell::RefCell::new(live.split_off(live.len() / 2));
                let backing = Between { released: Cell::new(0), step: || () };
                let chance = core::cell::RefCell::new(prng);
                let _freed = compact(segment, || {
                    let mut gone = gone.borrow_mut();
                    if !gone.is_empty() && chance.borrow_mut().below(2) == 0 {
                        let pick = chance.borrow_mut().below(gone.len() as u64) as usize;
                        crate::pool::release::put_entry(segment, &backing, gone.swap_remove(pick).0);
                    }
                });
                let left = gone.into_inner();
                assert_eq!(segment.pool().used_cells(), (live.len() + left.len()) as u64);
                live.iter().chain(&left).for_each(|&(id, byte)| check(segment, id, byte));
                for (id, _) in live.into_iter().chain(left) {
                    crate::pool::release::put_entry(segment, &backing, id);
                }
                assert_eq!((segment.pool().used_cells(), segment.pool().resident_bytes()), (0, 0));
            });
        }
    }
}
