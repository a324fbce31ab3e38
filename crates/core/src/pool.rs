//! The pool: compressed pages in RAM, shared by all processes of a run.
//!
//! Memory is cut into zspages of 32 KiB; a zspage has cells of one size class. A cell starts with a header word. A
//! process allocates only in zspages that it owns; anyone may free. An unowned zspage with room is offered in a bitmap
//! of its class; one without used cells goes back to the system.
//!
//! ```text
//! state word of a zspage: 63..48 owner+1   47..40 cells-per-zspage   39..32 state   31..0 used cells
//! header of a cell:       63..48 owner+1 while reserved, 0 once written   47..32 length   31..0 swap id
//! ```
//! Must hold: a bit in the cell map is set by the owner only, and cleared by whoever took the cell's name out of the
//! swap word. The used count is never below the number of bits: it is raised before a bit is set and lowered after it
//! is cleared. A process killed in between leaves it one too high, and that zspage is not given back; one too low would
//! give back cells in use. Bitmaps of offers are hints: the state word is the truth. Called by `engine`, which stores,
//! loads and frees, by `host` and `sim`, which count what is used, and by the supervisor, which sets the limit.
//!
//! Memory order: changes of a state word are exchanges (AcqRel), and `released` leaves 0 there (Release). So whoever
//! adopts a zspage sees the bits that its owner before has set, and those that `free` has cleared, as does whoever
//! looks whether one is full (`disown_full`); whoever takes the memory of an empty one (`begin_release`) sees that all
//! who freed cells there are done with them; and whoever takes an unused one (`take_used_before`, `take_fresh`) sees
//! its memory given back. An offer is made behind the change of the state word that it is for (Release: `offer`), and
//! whoever takes it sees that change (Acquire: `adopt_offered`, `take_used_before`). In the map a bit is set behind the
//! header and the count (Release: `take_cell`) for whoever finds it set (Acquire: `reap`, `written_cells`), and cleared
//! behind the last look at the cell (Release: `free`) for whoever finds it clear (Acquire: `take_cell`). `resident` is
//! lowered when the memory is given back and raised before other memory is used, so the limit is one of memory. `fresh`
//! only says how far there is something to look at, and its order guards nothing; nor does that of the owner in `reap`:
//! what the dead wrote is seen because the kernel says that they are dead.

pub mod compaction;

use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{BlobId, MmId, SwapId, ZspageId};

/// Bytes of one zspage.
pub const ZSPAGE_BYTES: usize = 32 * 1024;
const ZSPAGE_WORDS: usize = ZSPAGE_BYTES / 8;
/// Bytes of the header in each cell.
const HEADER_BYTES: usize = 8;
/// Words of the cell map of one zspage.
pub(crate) const MAP_WORDS: usize = 4;

/// Cells per zspage of each size class, from large cells to small ones. 7 cells of 4680 bytes take an uncompressed
/// page.
const CLASS_CELLS: [u32; CLASS_COUNT] = [
    7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 24, 26, 28, 31, 34, 38, 42, 47, 53, 60, 69, 80,
    96, 120, 160, 256,
];
/// Number of size classes.
pub const CLASS_COUNT: usize = 31;

const fn cell_bytes(class: usize) -> usize {
    cell_words(CLASS_CELLS[class]) * 8
}
const fn cell_words(cells: u32) -> usize {
    ZSPAGE_WORDS / cells as usize
}
const _: () = assert!(cell_bytes(0) >= 4096 + HEADER_BYTES);
const _: () = assert!(CLASS_CELLS[CLASS_COUNT - 1] as usize <= MAP_WORDS * 64);

const OWNER_SHIFT: u32 = 48;
const CELLS_SHIFT: u32 = 40;
const STATE_SHIFT: u32 = 32;
const USED_MASK: u64 = 0xFFFF_FFFF;
const IN_USE: u64 = 1 << STATE_SHIFT;
const RELEASING: u64 = 2 << STATE_SHIFT;

/// Views of the pool in the segment.
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    pub(crate) states: &'a [AtomicU64],
    pub(crate) maps: &'a [AtomicU64],
    /// One bitmap over the zspages for each class, and a last one of free zspages that were used before.
    pub(crate) offers: &'a [AtomicU64],
    pub(crate) data: &'a [AtomicU64],
    /// Zspages that hold memory.
    pub(crate) resident: &'a AtomicU64,
    /// Zspages below this number were used before.
    pub(crate) fresh: &'a AtomicU64,
    /// Zspages that may hold memory at once.
    pub(crate) limit: &'a AtomicU64,
    /// 1: what is stored is compressed densely, however much room there is.
    pub(crate) dense: &'a AtomicU64,
}

/// The zspage of each class that a process allocates from. Private to the process; behind its lock.
#[derive(Debug)]
pub struct ZspageOwner {
    current: [Option<ZspageId>; CLASS_COUNT],
}

impl ZspageOwner {
    /// Owns nothing yet.
    pub const fn new() -> ZspageOwner {
        ZspageOwner { current: [None; CLASS_COUNT] }
    }
    /// Owns nothing any more; what it owned. [`Pool::disown`] gives each to the others.
    pub fn take_all(&mut self) -> impl Iterator<Item = ZspageId> + use<> {
        core::mem::take(self).current.into_iter().flatten()
    }
}

impl Default for ZspageOwner {
    fn default() -> Self {
        Self::new()
    }
}

/// A cell that is reserved and not yet named by a swap word.
#[must_use]
#[derive(Debug)]
pub struct ReservedCell {
    blob: BlobId,
}

impl ReservedCell {
    /// Its id, for the swap word that will name it.
    pub fn blob(&self) -> BlobId {
        self.blob
    }
}

/// The outcome of freeing a cell.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum FreeCell {
    /// Other cells of the zspage are in use.
    Done,
    /// The zspage is empty: give its memory back to the system, then call `released`.
    ReleaseMemory(ZspageId),
}

/// The class whose cells take `length` bytes of content.
fn class_for(length: usize) -> usize {
    let wanted = length + HEADER_BYTES;
    assert!(wanted <= cell_bytes(0));
    // Cells shrink with the class number: the last one that is large enough wastes least.
    (0..CLASS_COUNT).rev().find(|&class| cell_bytes(class) >= wanted).expect("class 0 takes any length")
}

fn class_of_cells(cells: u32) -> usize {
    CLASS_CELLS.iter().position(|&c| c == cells).expect("state words hold only cell counts of the table")
}

impl<'a> Pool<'a> {
    /// Number of zspages of the address range.
    pub fn zspage_count(&self) -> u32 {
        self.states.len() as u32
    }
    /// Bytes of RAM that the pool holds.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed) * ZSPAGE_BYTES as u64
    }
    /// Bytes of RAM that the pool may hold.
    pub fn limit_bytes(&self) -> u64 {
        self.limit.load(Ordering::Relaxed) * ZSPAGE_BYTES as u64
    }
    /// Sets the bytes of RAM that the pool may hold, rounded up to whole zspages.
    pub fn set_limit_bytes(&self, bytes: u64) {
        self.limit.store(bytes.div_ceil(ZSPAGE_BYTES as u64), Ordering::Relaxed);
    }
    /// Whether what is stored is to be compressed densely, however much room there is.
    pub fn compresses_densely(&self) -> bool {
        self.dense.load(Ordering::Relaxed) != 0
    }
    /// See [`Pool::compresses_densely`].
    pub fn set_compresses_densely(&self, dense: bool) {
        self.dense.store(u64::from(dense), Ordering::Relaxed);
    }

    fn map(&self, zspage: ZspageId) -> &'a [AtomicU64] {
        &self.maps[zspage.index() * MAP_WORDS..][..MAP_WORDS]
    }
    fn offer_words(&self, class: usize) -> &'a [AtomicU64] {
        let words = self.states.len().div_ceil(64);
        &self.offers[class * words..][..words]
    }
    fn offer(&self, class: usize, zspage: ZspageId) {
        self.offer_words(class)[zspage.index() / 64].fetch_or(1 << (zspage.number() % 64), Ordering::AcqRel);
    }

    /// Reserves a cell for `length` bytes. None: the pool is full.
    pub fn reserve(&self, mm: MmId, owner: &mut ZspageOwner, length: usize) -> Option<ReservedCell> {
        let class = class_for(length);
        loop {
            if let Some(zspage) = owner.current[class] {
                if let Some(blob) = self.take_cell(mm, zspage) {
                    return Some(ReservedCell { blob });
                }
                if !self.disown_full(zspage) {
                    continue;
                }
                owner.current[class] = None;
            }
            owner.current[class] = Some(self.adopt_offered(mm, class).or_else(|| self.take_free(mm, class))?);
        }
    }

    fn take_cell(&self, mm: MmId, zspage: ZspageId) -> Option<BlobId> {
        let state = &self.states[zspage.index()];
        let cells = Self::cells(state.load(Ordering::Relaxed));
        for (index, word) in self.map(zspage).iter().enumerate() {
            // Acquire pairs with `free`: the last reader of the cell is done with it. Only we set bits, so it is still
            // clear.
            let seen = word.load(Ordering::Acquire);
            let cell = index as u32 * 64 + (!seen).trailing_zeros();
            if seen != u64::MAX && cell < cells {
                let blob = BlobId::of_cell(zspage, cell);
                self.cell_words(blob)[0].store(Self::reserved_header(mm), Ordering::Release);
                state.fetch_add(1, Ordering::AcqRel);
                word.fetch_or(1 << (cell % 64), Ordering::AcqRel);
                return Some(blob);
            }
        }
        None
    }

    const fn reserved_header(mm: MmId) -> u64 {
        mm.to_word() << OWNER_SHIFT
    }

    /// Gives up the right to allocate in a zspage, if it is still full: whoever frees a cell afterwards offers it.
    /// False: there is room again.
    fn disown_full(&self, zspage: ZspageId) -> bool {
        let state = &self.states[zspage.index()];
        // Acquire pairs with `free`: whoever sees the lower count finds the cleared bit.
        let mut seen = state.load(Ordering::Acquire);
        while seen & USED_MASK >= u64::from(Self::cells(seen)) {
            let next = seen & !(0xFFFF << OWNER_SHIFT);
            match state.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes the right to allocate in a zspage from its owner, and offers the room in it.
    fn clear_owner(&self, zspage: ZspageId) {
        let state = &self.states[zspage.index()];
        let before = state.fetch_and(!(0xFFFF << OWNER_SHIFT), Ordering::AcqRel);
        let cells = Self::cells(before);
        if before & USED_MASK < u64::from(cells) {
            self.offer(class_of_cells(cells), zspage);
        }
    }

    fn cells(state: u64) -> u32 {
        match (state >> CELLS_SHIFT) & 0xFF {
            0 => 256,
            cells => cells as u32,
        }
    }

    fn adopt_offered(&self, mm: MmId, class: usize) -> Option<ZspageId> {
        let fresh = self.fresh.load(Ordering::Relaxed).min(self.states.len() as u64) as usize;
        for (index, word) in self.offer_words(class)[..fresh.div_ceil(64)].iter().enumerate() {
            loop {
                let seen = word.load(Ordering::Relaxed);
                if seen == 0 {
                    break;
                }
                let bit = seen.trailing_zeros();
                if word.fetch_and(!(1 << bit), Ordering::AcqRel) & (1 << bit) == 0 {
                    continue;
                }
                let zspage = ZspageId::new(index as u32 * 64 + bit);
                if self.adopt(mm, zspage, class) {
                    return Some(zspage);
                }
            }
        }
        None
    }

    fn adopt(&self, mm: MmId, zspage: ZspageId, class: usize) -> bool {
        let state = &self.states[zspage.index()];
        let mut seen = state.load(Ordering::Relaxed);
        loop {
            let fits = seen & IN_USE != 0
                && seen >> OWNER_SHIFT == 0
                && Self::cells(seen) == CLASS_CELLS[class]
                && seen & USED_MASK < u64::from(CLASS_CELLS[class]);
            if !fits {
                return false;
            }
            let next = seen | (mm.to_word() << OWNER_SHIFT);
            match state.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes a zspage without cells, if the limit allows one more.
    fn take_free(&self, mm: MmId, class: usize) -> Option<ZspageId> {
        if self.resident.fetch_add(1, Ordering::AcqRel) >= self.limit.load(Ordering::Relaxed) {
            self.resident.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let owned =
            (mm.to_word() << OWNER_SHIFT) | (u64::from(CLASS_CELLS[class] & 0xFF) << CELLS_SHIFT) | IN_USE;
        let zspage = self.take_used_before(owned).or_else(|| self.take_fresh(owned));
        if zspage.is_none() {
            self.resident.fetch_sub(1, Ordering::AcqRel);
        }
        zspage
    }

    fn take_used_before(&self, owned: u64) -> Option<ZspageId> {
        for (index, word) in self.offer_words(CLASS_COUNT).iter().enumerate() {
            let mut seen = word.load(Ordering::Relaxed);
            while seen != 0 {
                let bit = seen.trailing_zeros();
                seen = word.fetch_and(!(1 << bit), Ordering::AcqRel) & !(1 << bit);
                let zspage = ZspageId::new(index as u32 * 64 + bit);
                let state = &self.states[zspage.index()];
                if state.compare_exchange(0, owned, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return Some(zspage);
                }
            }
        }
        None
    }

    fn take_fresh(&self, owned: u64) -> Option<ZspageId> {
        loop {
            let index = self.fresh.load(Ordering::Relaxed);
            if index >= self.states.len() as u64 {
                return None;
            }
            let next = self.fresh.compare_exchange(index, index + 1, Ordering::AcqRel, Ordering::Relaxed);
            let state = &self.states[index as usize];
            if next.is_ok() && state.compare_exchange(0, owned, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(ZspageId::new(index as u32));
            }
        }
    }

    fn cell_words(&self, blob: BlobId) -> &'a [AtomicU64] {
        self.cell_words_in(self.states[blob.zspage().index()].load(Ordering::Relaxed), blob)
    }

    fn cell_words_in(&self, state: u64, blob: BlobId) -> &'a [AtomicU64] {
        let words = cell_words(Self::cells(state));
        let start = blob.zspage().index() * ZSPAGE_WORDS + blob.cell() as usize * words;
        &self.data[start..start + words]
    }

    /// Writes content into a reserved cell. The swap word that will name it is published with `Release` afterwards.
    pub fn write(&self, cell: &ReservedCell, swap: SwapId, content: &[u8]) {
        let words = self.cell_words(cell.blob);
        assert!(content.len() + HEADER_BYTES <= words.len() * 8);
        let (whole, rest) = content.as_chunks();
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&padded);
        for (word, bytes) in words[1..].iter().zip(whole.iter().chain(last)) {
            // Release pairs with `read`: whoever copies these bytes for the blob that was here before finds it gone
            // from the swap word.
            word.store(u64::from_le_bytes(*bytes), Ordering::Release);
        }
        // From here on a reaper leaves the cell alone, since any process may be freeing it: publish next.
        words[0].store(u64::from(swap.number()) | ((content.len() as u64) << 32), Ordering::Release);
    }

    /// Copies `length` bytes of a cell out. The cell may be freed and written by others meanwhile: the caller checks
    /// the swap word or the content hash afterwards, and treats the bytes as garbage if they do not agree.
    pub fn read(&self, blob: BlobId, length: usize, out: &mut [u8]) -> bool {
        if blob.zspage().number() >= self.zspage_count() {
            return false;
        }
        let state = self.states[blob.zspage().index()].load(Ordering::Relaxed);
        if state & IN_USE == 0 || blob.cell() >= Self::cells(state) {
            return false;
        }
        let words = self.cell_words_in(state, blob);
        if length > out.len() || length + HEADER_BYTES > words.len() * 8 {
            return false;
        }
        let (whole, rest) = out[..length].as_chunks_mut();
        for (word, bytes) in words[1..].iter().zip(&mut *whole) {
            // Acquire pairs with `write`, and keeps the caller's check behind the copying.
            *bytes = word.load(Ordering::Acquire).to_le_bytes();
        }
        if !rest.is_empty() {
            let last = words[1 + whole.len()].load(Ordering::Acquire).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
        true
    }

    /// Gives back a reserved cell that was not used.
    pub fn cancel(&self, cell: ReservedCell) -> FreeCell {
        self.free(cell.blob)
    }

    /// Frees a cell whose name the caller took out of the swap word.
    pub fn free(&self, blob: BlobId) -> FreeCell {
        let zspage = blob.zspage();
        let bit = 1 << (blob.cell() % 64);
        // Release pairs with `take_cell`: our reads of the cell are done before another may write it.
        let before = self.map(zspage)[blob.cell() as usize / 64].fetch_and(!bit, Ordering::Release);
        assert!(before & bit != 0, "a cell is freed once");
        let state = &self.states[zspage.index()];
        let before = state.fetch_sub(1, Ordering::AcqRel);
        assert!(before & USED_MASK > 0);
        if before >> OWNER_SHIFT != 0 {
            return FreeCell::Done;
        }
        if before & USED_MASK == 1 {
            return self.begin_release(zspage);
        }
        self.offer(class_of_cells(Self::cells(before)), zspage);
        FreeCell::Done
    }

    fn begin_release(&self, zspage: ZspageId) -> FreeCell {
        let state = &self.states[zspage.index()];
        let seen = state.load(Ordering::Relaxed);
        let empty = seen & IN_USE != 0 && seen >> OWNER_SHIFT == 0 && seen & USED_MASK == 0;
        if empty && state.compare_exchange(seen, RELEASING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return FreeCell::ReleaseMemory(zspage);
        }
        FreeCell::Done
    }

    /// The memory of `zspage` was given back to the system: it may be used for any class.
    pub fn released(&self, zspage: ZspageId) {
        assert!(self.states[zspage.index()].load(Ordering::Relaxed) == RELEASING);
        self.states[zspage.index()].store(0, Ordering::Release);
        self.resident.fetch_sub(1, Ordering::AcqRel);
        self.offer(CLASS_COUNT, zspage);
    }

    /// Byte offset of a zspage from the start of the pool data.
    pub const fn data_offset_bytes(zspage: ZspageId) -> u64 {
        zspage.number() as u64 * ZSPAGE_BYTES as u64
    }

    /// Takes over what a dead process owned: frees cells that it reserved and did not write, and offers the rest to the
    /// others. `release` gives the memory of an empty zspage back. What others reserved there before, or free just now,
    /// is theirs.
    pub fn reap(&self, mm: MmId, mut release: impl FnMut(ZspageId)) {
        let used = self.fresh.load(Ordering::Acquire).min(self.states.len() as u64);
        for zspage in (0..used as u32).map(ZspageId::new) {
            let state = &self.states[zspage.index()];
            let seen = state.load(Ordering::Acquire);
            if seen >> OWNER_SHIFT != mm.to_word() {
                continue;
            }
            for cell in 0..Self::cells(seen) {
                let blob = BlobId::of_cell(zspage, cell);
                let taken =
                    self.map(zspage)[cell as usize / 64].load(Ordering::Acquire) & (1 << (cell % 64)) != 0;
                let header = self.cell_words(blob)[0].load(Ordering::Relaxed);
                if taken && header == Self::reserved_header(mm) {
                    let _owned_so_never_released = self.free(blob);
                }
            }
            self.clear_owner(zspage);
            if let FreeCell::ReleaseMemory(zspage) = self.begin_release(zspage) {
                release(zspage);
                self.released(zspage);
            }
        }
    }

    /// Cells in use, for tests and reports.
    pub fn used_cells(&self) -> u64 {
        let fresh = self.fresh.load(Ordering::Acquire).min(self.states.len() as u64) as usize;
        self.states[..fresh]
            .iter()
            .map(|state| state.load(Ordering::Relaxed))
            .filter(|s| s & IN_USE != 0)
            .map(|s| s & USED_MASK)
            .sum()
    }
}
