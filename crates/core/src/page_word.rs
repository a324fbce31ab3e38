//! The word of a page table leaf: where one page of one process is.
//!
//! ```text
//! 63      62     61     60     59      58..57 56..55 54..52 51..32  31..0
//! MANAGED ACTIVE PINNED LOCKED REMOVED state  heat   rest   detail  swap id (0: none)
//! ```
//! * `MANAGED`: the address range is registered by us, or about to be. 0 means that we know nothing of the address.
//! * `ACTIVE`: the range may be evicted.
//! * `PINNED`: never evicted (thread control blocks, for instance).
//! * `LOCKED`: one thread works on the page. While it is set, only that thread changes state and swap id; others may
//!   still take the evictor out of the detail (`pin`, `deactivate`).
//! * `REMOVED`: a mapping call dropped the page while it was locked; the holder of the lock cleans up.
//! * detail, of a fresh page: 1 if nothing is mapped there. A touch will be a fault: there is nothing to evict until
//!   then.
//! * detail, of a present page: whether it is protected, and which evictor has it; see `present`.
//! * detail, of a swapped page: when it went, on the clock of [`Reuse`](crate::reuse::Reuse).
//! * heat: how often in a row the page came back soon, up to 3. rest: how many more times the hand passes it by;
//!   of a swapped page its first bit is `REWRITTEN`, see `present`.
//!
//! Must hold: the newest content of a managed page is where the state says, and nowhere else. Walking to a word and
//! locking it happens under the gate, so a leaf is never freed in between. Called by `engine`, which makes one word of
//! another, by `host` and `sim`, and by [`crate::page_table`], which holds the words.

mod present;

pub use present::{EVICTORS_MAX, EvictedContent, EvictorId, Warmth, inherited};

use crate::reuse::StoreTime;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, SwapId};

const MANAGED: u64 = 1 << 63;
const ACTIVE: u64 = 1 << 62;
const PINNED: u64 = 1 << 61;
const LOCKED: u64 = 1 << 60;
const REMOVED: u64 = 1 << 59;
const STATE_SHIFT: u32 = 57;
const STATE_MASK: u64 = 0b11 << STATE_SHIFT;
const HEAT_SHIFT: u32 = 55;
const HEAT_MASK: u64 = 0b11 << HEAT_SHIFT;
const REST_SHIFT: u32 = 52;
const REST_MASK: u64 = 0b111 << REST_SHIFT;
const REST_ONE: u64 = 1 << REST_SHIFT;
const DETAIL_SHIFT: u32 = 32;
const DETAIL_MASK: u64 = 0xF_FFFF << DETAIL_SHIFT;
/// In a fresh word: nothing is mapped there.
const HOLE: u64 = 1 << DETAIL_SHIFT;
const SWAP_MASK: u64 = 0xFFFF_FFFF;
const FLAGS: u64 = MANAGED | ACTIVE | PINNED;

const _: () = assert!(DETAIL_MASK >> DETAIL_SHIFT == (1 << StoreTime::BITS) - 1);

/// Where a managed page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nothing of ours: what is mapped is the program's own; a fault gets zeros.
    Fresh,
    /// In the program, put there by us.
    Present,
    /// In the swap table, under the word's swap id.
    Swapped,
}

/// A value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PageWord(u64);

impl PageWord {
    /// The value behind a raw word of a leaf.
    pub const fn from_raw(raw: u64) -> PageWord {
        PageWord(raw)
    }
    /// The raw word.
    pub const fn raw(self) -> u64 {
        self.0
    }
    /// The range is ours.
    pub const fn is_managed(self) -> bool {
        self.0 & MANAGED != 0
    }
    /// The page may be evicted as far as its range is concerned.
    pub const fn is_active(self) -> bool {
        self.0 & ACTIVE != 0
    }
    /// The page must stay resident.
    pub const fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }
    /// A thread works on it.
    pub const fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }
    /// A mapping call dropped it while locked.
    pub const fn is_removed(self) -> bool {
        self.0 & REMOVED != 0
    }
    /// Where the page is.
    pub const fn place(self) -> Place {
        match (self.0 & STATE_MASK) >> STATE_SHIFT {
            0 => Place::Fresh,
            1 => Place::Present,
            _ => Place::Swapped,
        }
    }
    /// The swap entry that holds the content (`Swapped`) or a retained copy.
    pub const fn swap(self) -> Option<SwapId> {
        match (self.0 & SWAP_MASK) as u32 {
            0 => None,
            id => Some(SwapId::new(id)),
        }
    }
    /// Fresh, and nothing is mapped there: an evictor has looked.
    pub const fn is_hole(self) -> bool {
        matches!(self.place(), Place::Fresh) && self.0 & HOLE != 0
    }
    /// The same, but that a fresh page may be mapped: nobody has looked since something may have been put there.
    pub const fn without_hole(self) -> PageWord {
        if self.is_hole() { PageWord(self.0 & !HOLE) } else { self }
    }
    /// When a swapped page went.
    pub const fn evicted_at(self) -> StoreTime {
        StoreTime::new((self.0 & DETAIL_MASK) >> DETAIL_SHIFT)
    }
    /// True when it may be evicted, if it is mapped: nobody works on it, and it may be in the program and take memory.
    pub const fn may_be_evicted(self) -> bool {
        let wanted = self.0 & (MANAGED | ACTIVE | PINNED | LOCKED) == MANAGED | ACTIVE;
        let may_be_there = matches!(self.place(), Place::Fresh | Place::Present);
        wanted && may_be_there && !self.is_hole() && !self.is_zero_page()
    }

    /// How often in a row the page came back soon: 0..=3.
    pub const fn heat(self) -> u32 {
        ((self.0 & HEAT_MASK) >> HEAT_SHIFT) as u32
    }
    /// How many more times the hand passes the page by: 0..=7.
    pub const fn rest(self) -> u32 {
        match self.place() {
            Place::Swapped => 0,
            _ => ((self.0 & REST_MASK) >> REST_SHIFT) as u32,
        }
    }

    /// The warmth of the page at its next place; a swapped page that stays where it is keeps its time.
    const fn warmth_at(self, next: Place) -> u64 {
        match (self.place(), next) {
            (Place::Swapped, Place::Present) => self.0 & HEAT_MASK,
            (_, Place::Present) => self.0 & (HEAT_MASK | REST_MASK),
            (Place::Swapped, Place::Swapped) => self.0 & (DETAIL_MASK | present::SWAPPED_REWRITTEN),
            (_, Place::Fresh | Place::Swapped) => 0,
        }
    }

    /// The same flags with another place and swap entry.
    pub fn with(self, place: Place, swap: Option<SwapId>) -> PageWord {
        let state = match place {
            Place::Fresh => 0,
            Place::Present => 1 << STATE_SHIFT,
            Place::Swapped => 2 << STATE_SHIFT,
        };
        assert!(place != Place::Swapped || swap.is_some());
        let kept = (self.0 & (FLAGS | LOCKED | REMOVED)) | self.warmth_at(place);
        PageWord(kept | state | u64::from(swap.map_or(0, |id| id.number())))
    }
}

impl core::fmt::Debug for PageWord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let flag = |bit, letter| if self.0 & bit != 0 { letter } else { "-" };
        let flags =
            [flag(MANAGED, "m"), flag(ACTIVE, "a"), flag(PINNED, "p"), flag(LOCKED, "l"), flag(REMOVED, "r")];
        write!(
            f,
            "{}{}{}{}{} {:?} {:?}",
            flags[0],
            flags[1],
            flags[2],
            flags[3],
            flags[4],
            self.place(),
            self.swap()
        )
    }
}

/// The outcome of `try_lock`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The lock is ours; the word as it was before.
    Locked(PageWord),
    /// Another thread has it: try again later, not inside the gate.
    Busy,
    /// The address is not ours.
    Unmanaged,
}

/// The outcome of `commit`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Commit {
    /// The new place is visible and the lock is given back.
    Done,
    /// A mapping call dropped the page meanwhile. The lock is still held: release what the page had, then call
    /// `finish_removed`.
    Removed(PageWord),
}

/// The outcome of `remove`.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Remove {
    /// The page held this; the caller releases its swap entry.
    Was(PageWord),
    /// The page is locked: the holder of the lock will clean up.
    Deferred,
    /// Nothing was there.
    Unmanaged,
}

/// What is left of an address after its content is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Afterwards {
    /// MADV_DONTNEED, MADV_FREE: the range stays ours and reads as zeros.
    StillManaged,
    /// munmap: the range is gone.
    Unmanaged,
}

/// Which chunks of a block may have a page to evict, bit i for chunk i. Whoever makes a word evictable sets the bit of
/// its chunk afterwards; whoever looks for such pages clears it before. So a bit that is clear means that nobody needs
/// to look.
#[derive(Clone, Copy)]
pub struct EvictableChunks<'a>(pub(crate) &'a AtomicU64);

const ALL_CHUNKS: u64 = (1 << (BLOCK_PAGES / CHUNK_PAGES)) - 1;

impl EvictableChunks<'_> {
    /// The chunks. Acquire is not needed: each is looked at with `begin_look`.
    pub fn chunks(self) -> u64 {
        self.0.load(Ordering::Relaxed) & ALL_CHUNKS
    }
    /// Before the words of a chunk are looked at. `Acquire` pairs with `set`: a word whose bit this clears is seen.
    pub fn begin_look(self, chunk_in_block: u32) {
        self.0.fetch_and(!(1 << chunk_in_block), Ordering::Acquire);
    }
    /// There is, or may be, a page to evict. `Release` pairs with `begin_look`.
    pub fn set(self, chunk_in_block: u32) {
        self.0.fetch_or(1 << chunk_in_block, Ordering::Release);
    }
}

/// One word in a leaf, with the changes it may make. Each is one atomic operation; what makes the page evictable is
/// noted for its chunk.
#[derive(Clone, Copy)]
pub struct PageWordRef<'a> {
    pub(crate) word: &'a AtomicU64,
    pub(crate) evictable: EvictableChunks<'a>,
    pub(crate) chunk_in_block: u32,
}

impl PageWordRef<'_> {
    fn note(self, next: PageWord) {
        if next.may_be_evicted() {
            self.evictable.set(self.chunk_in_block);
        }
    }

    /// The value now. `Acquire` pairs with the `Release` of `commit`: whoever sees a place also sees the content there.
    pub fn load(self) -> PageWord {
        PageWord(self.word.load(Ordering::Acquire))
    }

    /// Unlocked -> locked.
    ///
    /// `Acquire` pairs with the `Release` of `commit` by the holder before us.
    pub fn try_lock(self) -> TryLock {
        let seen = PageWord(self.word.load(Ordering::Relaxed));
        if !seen.is_managed() && !seen.is_locked() {
            return TryLock::Unmanaged;
        }
        if seen.is_locked() {
            return TryLock::Busy;
        }
        match self.word.compare_exchange(seen.0, seen.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => TryLock::Locked(seen),
            Err(_) => TryLock::Busy,
        }
    }

    /// Locked -> unlocked with a new place and swap entry; flags that changed meanwhile are kept.
    ///
    /// `Release` pairs with `load` and `try_lock`.
    pub fn commit(self, place: Place, swap: Option<SwapId>) -> Commit {
        self.commit_as(|seen| seen.with(place, swap))
    }

    /// Locked -> unlocked and known to be a hole, if nothing was ever put there. The caller has found nothing mapped
    /// while it held the lock, in a range that is registered.
    pub fn commit_hole(self) -> Commit {
        self.commit_as(|seen| match seen.place() {
            Place::Fresh => PageWord(seen.with(Place::Fresh, seen.swap()).0 | HOLE),
            _ => seen,
        })
    }

    fn commit_as(self, next: impl Fn(PageWord) -> PageWord) -> Commit {
        match self.commit_word(next) {
            Ok(_) => Commit::Done,
            Err(seen) => Commit::Removed(seen),
        }
    }

    /// The word that it is now. `Err`: a mapping call dropped the page; the lock is still held.
    fn commit_word(self, next: impl Fn(PageWord) -> PageWord) -> Result<PageWord, PageWord> {
        let mut seen = PageWord(self.word.load(Ordering::Relaxed));
        loop {
            assert!(seen.is_locked());
            if seen.is_removed() {
                return Err(seen);
            }
            let next = PageWord(next(seen).0 & !LOCKED);
            // Release pairs with `load`, `try_lock` and `remove`: what was done under the lock is seen.
            match self.word.compare_exchange_weak(seen.0, next.0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    self.note(next);
                    return Ok(next);
                }
                Err(now) => seen = PageWord(now),
            }
        }
    }

    /// Locked and removed -> unlocked and fresh (or unmanaged, if the range is gone). The caller has released
    /// everything the page had.
    pub fn finish_removed(self) {
        let mut seen = PageWord(self.word.load(Ordering::Relaxed));
        loop {
            assert!(seen.is_locked());
            assert!(seen.is_removed());
            let next = if seen.is_managed() { seen.0 & FLAGS } else { 0 };
            // Release pairs with `try_lock`.
            match self.word.compare_exchange_weak(seen.0, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return self.note(PageWord(next)),
                Err(now) => seen = PageWord(now),
            }
        }
    }

    /// A mapping call drops the page. Only with the gate exclusive.
    ///
    /// `AcqRel`: acquires what the last `commit` released, since the caller frees it; releases for the holder of the
    /// lock.
    pub fn remove(self, afterwards: Afterwards) -> Remove {
        let mut seen = PageWord(self.word.load(Ordering::Relaxed));
        loop {
            if !seen.is_managed() {
                // A locked word that lost its range before stays with its holder.
                return if seen.is_locked() { Remove::Deferred } else { Remove::Unmanaged };
            }
            let kept = match afterwards {
                Afterwards::StillManaged => seen.0 & FLAGS,
                Afterwards::Unmanaged => 0,
            };
            let next = if seen.is_locked() {
                let content = seen.0 & !(FLAGS);
                content | kept | REMOVED
            } else {
                kept
            };
            match self.word.compare_exchange_weak(seen.0, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if seen.is_locked() => return Remove::Deferred,
                Ok(_) => {
                    self.note(PageWord(next));
                    return Remove::Was(seen);
                }
                Err(now) => seen = PageWord(now),
            }
        }
    }

    /// Nothing -> managed, not yet active. False if something is there.
    ///
    /// `AcqRel` pairs with `remove` and `finish_removed`: what was there before is over.
    #[must_use]
    pub fn adopt(self) -> bool {
        self.word.compare_exchange(0, MANAGED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Managed -> active, if still managed.
    ///
    /// `AcqRel` pairs with `load` and `try_lock`: whoever may evict the page sees what was done to it before.
    pub fn activate(self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & MANAGED != 0 {
            match self.word.compare_exchange_weak(seen, seen | ACTIVE, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return self.note(PageWord(seen | ACTIVE)),
                Err(now) => seen = now,
            }
        }
    }

    /// The page must stay resident from now on, if it is managed.
    ///
    /// `AcqRel` pairs with `lock_isolated`, which fails from now on, and with the `commit` of whoever evicted it
    /// before.
    pub fn pin(self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & MANAGED != 0 && seen & PINNED == 0 {
            let next = PageWord(seen).without_evictor().0 | PINNED;
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// The page may go again, if it is managed. `AcqRel` pairs with `try_lock`, as in `activate`.
    pub fn unpin(self) {
        let seen = self.word.fetch_and(!PINNED, Ordering::AcqRel);
        self.note(PageWord(seen & !PINNED));
    }

    /// The hand comes by. True if the page rests: one time less from now on.
    pub fn pass_by(self) -> bool {
        let seen = self.word.load(Ordering::Relaxed);
        if PageWord(seen).rest() == 0 {
            return false;
        }
        // Whoever works on the page, or stores it, knows the word as it is: then this look does not count.
        if PageWord(seen).is_at_rest() {
            let next = seen - REST_ONE;
            let _counts = self.word.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        true
    }

    /// The page is as cold as one that was never looked at, if it is here and nobody works on it.
    pub fn cool(self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & (HEAT_MASK | REST_MASK) != 0 && PageWord(seen).is_at_rest() {
            let next = seen & !(HEAT_MASK | REST_MASK);
            match self.word.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes an unlocked word out (mremap moves it elsewhere). None while it is locked; `Some` of an unmanaged word is
    /// possible.
    ///
    /// `AcqRel` pairs with the `commit` before, whose content goes along, and with `adopt` afterwards.
    pub fn take(self) -> Option<PageWord> {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & LOCKED != 0 {
                return None;
            }
            match self.word.compare_exchange_weak(seen, 0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(PageWord(seen)),
                Err(now) => seen = now,
            }
        }
    }

    /// Puts a taken (or, at fork, copied) word where nothing is. False if something is there: a thread still holds
    /// the lock of what was unmapped here, and the caller waits for it outside of the gate.
    ///
    /// `Release` pairs with `load` and `try_lock`.
    #[must_use]
    pub fn put_back(self, word: PageWord) -> bool {
        assert!(!word.is_locked());
        let put = self.word.compare_exchange(0, word.0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.note(word);
        put
    }
}
