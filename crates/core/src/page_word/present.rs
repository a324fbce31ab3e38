//! What the word of a present page says.
//!
//! ```text
//! detail of a present page: 51..37  36         35         34..33     32
//!                                0       ZERO_PAGE  REWRITTEN  isolated   PROTECTED
//! ```
//! * `PROTECTED`: the kernel may let nobody write the page before its fault has come to us, which takes the bit away.
//!   With a swap entry the page is *clean*: the entry holds its content, and the page is protected. An isolated page is
//!   protected too.
//! * isolated: the number of the evictor that stores the page, 0: none. Whoever writes, drops or locks the page takes
//!   it away.
//! * `REWRITTEN`: the page came back from swap and was written after that, this time or, as far as is known, the last
//!   time. A hint: it may be filled writable, which spares the fault of the first write. A swapped page has it too.
//! * `ZERO_PAGE`: what is mapped is the kernel's page of zeros. It takes no memory, so evicting it gains nothing. It
//!   is protected: its first write comes to us, and the memory that this takes is counted. Nobody's content depends
//!   on this bit: without it the page is evicted as any other.
//!
//! Must hold: a page that the kernel protects for us has a word that says so, or is locked. And: between
//! `commit_isolated` and `lock_isolated` of the value that it returned, the content of the page is unchanged. Only the
//! evictor that owns a number puts it into a word, and it does so once in a batch; so a word that lost it
//! meanwhile cannot look the same again. A word that `mremap` carries elsewhere loses both. Called by `engine`, and by
//! `host` and `sim`, which say what a page does after a change.

use super::{
    ACTIVE, Commit, DETAIL_MASK, DETAIL_SHIFT, FLAGS, HEAT_MASK, HEAT_SHIFT, LOCKED, MANAGED, PINNED,
    PageWord, PageWordRef, Place, REMOVED, REST_MASK, REST_SHIFT, SWAP_MASK,
};
use crate::plant::{Plant, is_planted};
use crate::reuse::StoreTime;
use uswap_sync::Ordering;
use uswap_units::SwapId;

const PROTECTED: u64 = 1 << DETAIL_SHIFT;
const ISOLATED_SHIFT: u32 = DETAIL_SHIFT + 1;
const ISOLATED_MASK: u64 = 0b11 << ISOLATED_SHIFT;
const REWRITTEN: u64 = 1 << (DETAIL_SHIFT + 3);
const ZERO_PAGE: u64 = 1 << (DETAIL_SHIFT + 4);
/// Where a swapped page has it.
pub(super) const SWAPPED_REWRITTEN: u64 = 1 << REST_SHIFT;

/// Evictors that may work on the pages of a process at once.
pub const EVICTORS_MAX: u32 = 3;

/// One of the evictors of a process: 1 to [`EVICTORS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvictorId(u8);

impl EvictorId {
    /// Number `index` of [`EVICTORS_MAX`].
    pub const fn new(index: u32) -> EvictorId {
        assert!(index < EVICTORS_MAX);
        EvictorId(index as u8 + 1)
    }
    /// Its number, from 0 on.
    pub const fn index(self) -> u32 {
        self.0 as u32 - 1
    }
}

/// How warm a page is that comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warmth {
    /// It would still have been there if there were twice the RAM: it is warmer than it was, and rests for about 1, 3
    /// or 7 rounds.
    Warmer {
        /// In which round of the hand it came back ([`PageWordRef::pass_by_in`]).
        round: u32,
    },
    /// It is as any other.
    Cold,
}

/// What is stored of a page that is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictedContent {
    /// The copy that it came back from: it was not written since.
    Unchanged,
    /// Its content, anew.
    StoredAnew,
}

impl PageWord {
    /// Stored, so that nothing is mapped, and nobody is working on it.
    pub const fn is_missing(self) -> bool {
        self.is_managed() && !self.is_locked() && matches!(self.place(), Place::Swapped)
    }
    /// Present, and its first write may come to us; without a copy it may as well not.
    pub const fn is_protected(self) -> bool {
        matches!(self.place(), Place::Present) && self.0 & PROTECTED != 0
    }
    /// The evictor that stores it.
    pub const fn isolated_by(self) -> Option<EvictorId> {
        match ((self.0 & ISOLATED_MASK) >> ISOLATED_SHIFT) as u8 {
            evictor if evictor > 0 && matches!(self.place(), Place::Present) => Some(EvictorId(evictor)),
            _ => None,
        }
    }
    /// Present, protected, and its swap entry holds the content: it may be dropped as it is.
    pub const fn is_clean(self) -> bool {
        self.is_protected() && self.swap().is_some()
    }
    /// The kernel's page of zeros is mapped, and nobody has written there since.
    pub const fn is_zero_page(self) -> bool {
        self.is_protected() && self.0 & ZERO_PAGE != 0
    }
    /// It was written after it came back from swap, now or the last time that it was here.
    pub const fn is_rewritten(self) -> bool {
        match self.place() {
            Place::Present => self.0 & REWRITTEN != 0,
            Place::Swapped => self.0 & SWAPPED_REWRITTEN != 0,
            Place::Fresh => false,
        }
    }
    /// True when an evictor may isolate it, if it is mapped.
    pub const fn may_be_isolated(self) -> bool {
        self.may_be_evicted() && self.isolated_by().is_none()
    }
    /// It is not stored, and nobody works on it: an evictor that has isolated it looks for the value that it knows.
    pub(super) const fn is_at_rest(self) -> bool {
        let is_here = !matches!(self.place(), Place::Swapped);
        is_here && !self.is_locked() && self.isolated_by().is_none()
    }
    /// The same, and no evictor stores it.
    pub(super) const fn without_evictor(self) -> PageWord {
        match self.place() {
            Place::Present => PageWord(self.0 & !ISOLATED_MASK),
            _ => self,
        }
    }
    const fn present(self, swap: Option<SwapId>) -> u64 {
        let swap = match swap {
            Some(id) => id.number() as u64,
            None => 0,
        };
        let rest = if matches!(self.place(), Place::Swapped) { 0 } else { REST_MASK };
        let kept = self.0 & (MANAGED | ACTIVE | PINNED | LOCKED | REMOVED | HEAT_MASK | rest);
        let rewritten = if self.is_rewritten() { REWRITTEN } else { 0 };
        kept | (1 << super::STATE_SHIFT) | rewritten | swap
    }
    /// A clean page that has no copy any more is one that is written.
    const fn rewritten(self, copy: Option<SwapId>) -> u64 {
        if self.is_clean() && copy.is_none() { REWRITTEN } else { 0 }
    }
    const fn present_as(self, clean: Option<SwapId>, warmth: Warmth) -> u64 {
        let (heat, rest) = match warmth {
            Warmth::Warmer { round } => {
                let heat = if self.heat() < 3 { self.heat() + 1 } else { 3 };
                let period = period(heat);
                let next = (period - round % period) % period;
                (heat as u64, (next < period / 2) as u64)
            }
            Warmth::Cold => (0, 0),
        };
        let present = self.present(clean) & !(HEAT_MASK | REST_MASK);
        let protected = if clean.is_some() { PROTECTED } else { 0 };
        present | protected | (heat << HEAT_SHIFT) | (rest << REST_SHIFT)
    }
}

/// What a forked child inherits of a word: the same place, without lock. What is protected without a copy was being
/// stored by an evictor that the child does not have.
pub fn inherited(word: PageWord) -> PageWord {
    if word.is_removed() {
        return PageWord(word.0 & FLAGS);
    }
    let word = PageWord(word.0 & !(LOCKED | REMOVED));
    match word.place() {
        Place::Present if word.is_clean() => PageWord(word.present(word.swap()) | PROTECTED),
        Place::Present => PageWord(word.present(word.swap())),
        // Where nothing was mapped the kernel may map zeros before the range is registered.
        Place::Fresh => word.without_hole(),
        Place::Swapped => word,
    }
}

/// A page that came back so warm is looked at in one round of so many.
const fn period(heat: u32) -> u32 {
    1 << heat
}

impl PageWordRef<'_> {
    /// The hand comes by in this round. True if the page is left where it is. Warm pages are looked at in every second,
    /// fourth or eighth round: all of those that count their rounds alike, so that neighbours go together, whenever
    /// they came back. One that came back less than half of that before rests once more.
    pub fn pass_by_in(self, round: u32) -> bool {
        !round.is_multiple_of(period(self.load().heat())) || self.pass_by()
    }

    /// Locked -> unlocked, present, protected and isolated; the value that says so. The page is mapped and was
    /// protected under the lock. None: the page was dropped meanwhile, and the lock is still held.
    #[must_use]
    pub fn commit_isolated(self, evictor: EvictorId) -> Option<PageWord> {
        let evictor = u64::from(evictor.0) << ISOLATED_SHIFT;
        self.commit_word(|seen| PageWord(seen.present(seen.swap()) | PROTECTED | evictor)).ok()
    }

    /// Isolated -> locked, if the word is still what [`commit_isolated`](Self::commit_isolated)
    /// returned: nobody has written the page since.
    #[must_use]
    pub fn lock_isolated(self, isolated: PageWord) -> bool {
        debug_assert!(isolated.isolated_by().is_some());
        let locked = isolated.0 | LOCKED;
        // Acquire pairs with the `Release` of a `commit` before.
        if is_planted(Plant::LockedAlthoughChanged) {
            return self.word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0;
        }
        self.word.compare_exchange(isolated.0, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Isolated -> isolated, and this entry holds its content from now on: the page is clean. If the word is still what
    /// [`commit_isolated`](Self::commit_isolated) returned; the value that it has then.
    #[must_use]
    pub fn keep_copy(self, isolated: PageWord, copy: SwapId) -> Option<PageWord> {
        debug_assert!(isolated.isolated_by().is_some());
        let next = isolated.0 & !SWAP_MASK | u64::from(copy.number());
        // Release pairs with `load` and `try_lock`: whoever finds the entry finds what it names.
        let kept = self.word.compare_exchange(isolated.0, next, Ordering::Release, Ordering::Relaxed);
        kept.is_ok().then_some(PageWord(next))
    }

    /// Locked -> unlocked, present and protected, as warm as it was. `clean`: the entry that holds the content.
    /// Without one, a page that was clean is being written.
    pub fn commit_protected(self, clean: Option<SwapId>) -> Commit {
        self.commit_as(|seen| PageWord(seen.present(clean) | seen.rewritten(clean) | PROTECTED))
    }

    /// Locked -> unlocked and swapped at this time, as warm as it was.
    pub fn commit_evicted(self, swap: SwapId, time: StoreTime, content: EvictedContent) -> Commit {
        let time = time.bits() << DETAIL_SHIFT;
        let is_anew = content == EvictedContent::StoredAnew;
        self.commit_as(|seen| {
            let swapped = seen.with(Place::Swapped, Some(swap)).0 & !(DETAIL_MASK | HEAT_MASK | REST_MASK);
            let rewritten = if seen.is_rewritten() && is_anew { SWAPPED_REWRITTEN } else { 0 };
            PageWord(swapped | rewritten | seen.0 & HEAT_MASK | time)
        })
    }

    /// Locked -> unlocked and present, for a thread that writes a page that came back.
    pub fn commit_rewritten(self, warmth: Warmth) -> Commit {
        self.commit_as(|seen| PageWord(seen.present_as(None, warmth) | REWRITTEN))
    }

    /// Locked -> unlocked and present. `clean`: the entry that holds the content; the page was mapped protected.
    pub fn commit_present(self, clean: Option<SwapId>, warmth: Warmth) -> Commit {
        self.commit_as(|seen| PageWord(seen.present_as(clean, warmth)))
    }

    /// Locked -> unlocked and present: the kernel's page of zeros, which is mapped and protected.
    pub fn commit_zero_page(self) -> Commit {
        self.commit_as(|seen| PageWord(seen.present_as(None, Warmth::Cold) | PROTECTED | ZERO_PAGE))
    }

    /// Locked -> unlocked, as it was, but that no evictor stores it: one that wanted the lock meanwhile has given the
    /// page up, and would never take its name away.
    pub fn unlock_unchanged(self) -> Commit {
        self.commit_as(PageWord::without_evictor)
    }

    /// Locked -> unlocked, present and no longer protected: it is being written. It is as warm as it was.
    pub fn commit_written(self) -> Commit {
        self.commit_as(|seen| PageWord(seen.present(None) | seen.rewritten(None)))
    }

    /// As [`commit_written`](Self::commit_written); the hand passes by the page as often as it can.
    pub fn commit_written_at_rest(self) -> Commit {
        self.commit_as(|seen| PageWord(seen.present(None) | seen.rewritten(None) | REST_MASK))
    }

    /// Managed and active -> managed: nobody evicts it until [`activate`](Self::activate).
    ///
    /// `AcqRel` pairs with `lock_isolated`, which fails from now on, and with the `commit` of whoever evicted it
    /// before.
    pub fn deactivate(self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & ACTIVE != 0 {
            let next = PageWord(seen).without_evictor().0 & !ACTIVE;
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
