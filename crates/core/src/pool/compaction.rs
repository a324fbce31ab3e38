//! What compaction needs: zspages with holes, the cells in them, and the right to move cells.
//!
//! Cells are freed in the order of the write-back and of the program, so after a while most zspages have holes, and
//! hardly one is empty: memory that holds nothing and can be used by pages of one size only. The compactor takes such
//! zspages as a process does that allocates, and moves the cells of the emptiest into the holes of the fullest. Whose
//! cell may be moved, and who learns of it, is up to the swap table.
//!
//! Must hold: cells are reserved and listed only in a zspage that the caller owns. A [`Partial`] is a hint:
//! `adopt_partial` looks again. Called by `engine`, which moves blobs and lets emptied zspages go ([`Pool::disown`]).

use super::{
    CLASS_CELLS, FreeCell, IN_USE, OWNER_SHIFT, Pool, ReservedCell, USED_MASK, ZSPAGE_BYTES, class_of_cells,
};
use uswap_sync::Ordering;
use uswap_units::{BlobId, MmId, SwapId, ZspageId};

/// The compactor as an owner of zspages. No record of a process has this number.
pub const COMPACTOR: MmId = MmId::new(u16::MAX - 1);
const _: () = assert!(uswap_units::limits::MM_MAX < COMPACTOR.number() as u32);

/// A zspage with holes that nobody allocates from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Partial {
    /// Cells that it has.
    pub cells: u32,
    /// Cells in use.
    pub used: u32,
    /// Which.
    pub zspage: ZspageId,
}

/// A written cell, by its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenCell {
    /// Where it is.
    pub blob: BlobId,
    /// The swap entry that named it when it was written.
    pub swap: SwapId,
    /// Bytes of its content.
    pub length: u32,
}

impl<'a> Pool<'a> {
    /// Zspages with holes that nobody allocates from.
    pub fn partial_zspages(&self) -> impl Iterator<Item = Partial> + use<'a> {
        let pool = *self;
        // The Acquire guards nothing: only how far there is something to look at.
        let fresh = self.fresh.load(Ordering::Acquire).min(self.states.len() as u64) as u32;
        (0..fresh).map(ZspageId::new).filter_map(move |zspage| {
            let state = pool.states[zspage.index()].load(Ordering::Relaxed);
            let (cells, used) = (Self::cells(state), (state & USED_MASK) as u32);
            let partial = state & IN_USE != 0 && state >> OWNER_SHIFT == 0 && used < cells;
            partial.then_some(Partial { cells, used, zspage })
        })
    }

    /// Bytes of whole zspages that would be free if all holes of each size lay together.
    pub fn compactable_bytes(&self) -> u64 {
        let mut holes = [0_u64; CLASS_CELLS.len()];
        for partial in self.partial_zspages() {
            holes[class_of_cells(partial.cells)] += u64::from(partial.cells - partial.used);
        }
        let zspages: u64 = holes.iter().zip(CLASS_CELLS).map(|(holes, cells)| holes / u64::from(cells)).sum();
        zspages * ZSPAGE_BYTES as u64
    }

    /// Takes the right to allocate in a partial zspage. False: someone else was faster.
    #[must_use]
    pub fn adopt_partial(&self, mm: MmId, partial: Partial) -> bool {
        self.adopt(mm, partial.zspage, class_of_cells(partial.cells))
    }

    /// Reserves a cell in a zspage that the caller owns. None: it is full.
    pub fn reserve_in(&self, mm: MmId, zspage: ZspageId) -> Option<ReservedCell> {
        self.take_cell(mm, zspage).map(|blob| ReservedCell { blob })
    }

    /// The cells of a zspage that the caller owns which are in use and written. Each may be freed meanwhile: what it
    /// holds is what the swap entry says now.
    pub fn written_cells(&self, zspage: ZspageId) -> impl Iterator<Item = WrittenCell> + use<'a> {
        let pool = *self;
        let cells = Self::cells(self.states[zspage.index()].load(Ordering::Relaxed));
        (0..cells).filter_map(move |cell| {
            let blob = BlobId::of_cell(zspage, cell);
            // Acquire pairs with `take_cell`: the header is of this use of the cell, not of the one before.
            let map = pool.map(zspage)[cell as usize / 64].load(Ordering::Acquire);
            // Acquire pairs with `write`.
            let header = pool.cell_words(blob)[0].load(Ordering::Acquire);
            let written = map & (1 << (cell % 64)) != 0 && header >> OWNER_SHIFT == 0;
            let length = (header >> 32) as u32;
            written.then_some(WrittenCell { blob, swap: SwapId::new(header as u32), length })
        })
    }

    /// Gives up the right to allocate in a zspage that the caller owns.
    pub fn disown(&self, zspage: ZspageId) -> FreeCell {
        self.clear_owner(zspage);
        self.begin_release(zspage)
    }
}
