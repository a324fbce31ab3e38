//! One page of a batch, and what becomes of it.
//!
//! Must hold: a candidate whose fate is not [`Fate::Done`] is locked or isolated by its evictor, and nobody else gives
//! that back. Called by [`crate::evict`].

use uswap_core::page_word::PageWord;
use uswap_units::{PageId, PageRange, SwapId};

/// What becomes of a page of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing is mapped there.
    Hole,
    /// It rests, and is here for its neighbours' sake.
    Stays,
    /// It goes, if nobody writes it before.
    Chosen,
    /// Its word is locked, and it will be dropped.
    LockedForDrop,
    /// Nothing more is done with it.
    Done,
}

/// A page of a batch.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) page: PageId,
    /// As it was when it was locked, then as it was isolated.
    pub(super) word: PageWord,
    /// Where the content is stored. The word names it, so the entry goes wherever the page goes: when the program
    /// writes the page it is given up, and when the process is killed it is given back.
    pub(super) stored: Option<SwapId>,
    /// That was stored for this batch.
    pub(super) is_stored_anew: bool,
    /// It is not looked at again for some rounds.
    pub(super) rests: bool,
    pub(super) fate: Fate,
}

impl Candidate {
    /// One that was just locked.
    pub(super) const fn new(page: PageId, word: PageWord, fate: Fate) -> Candidate {
        Candidate { page, word, stored: None, is_stored_anew: false, rests: false, fate }
    }
}

/// A place of a batch that is not in use.
pub(super) const NOTHING: Candidate = Candidate::new(PageId::FIRST, PageWord::from_raw(0), Fate::Done);
/// The same of a list of ranges.
pub(super) const NO_RANGE: PageRange = PageRange::EMPTY;

/// From the first page of a run that needs protection to the last: clean pages at the ends have it.
pub(super) fn range_to_protect(run: &[Candidate]) -> Option<PageRange> {
    let needs = |candidate: &Candidate| candidate.fate == Fate::Chosen && !candidate.word.is_clean();
    let (first, last) = (run.iter().find(|page| needs(page))?, run.iter().rfind(|page| needs(page))?);
    Some(PageRange::new(first.page, last.page.plus(1)))
}
