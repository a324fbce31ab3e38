//! Chooses pages to evict: first what the program has just gone past, else what a clock hand over the page table finds.
//!
//! Must hold: locks are tried, never waited for; a chunk in which something may be left to evict keeps its bit. Called
//! by [`crate::evict`], and chunk by chunk by [`super::asked`] and [`super::behind`], in a shared section of the gate.

use crate::evict::candidate::{Candidate, Fate};
use crate::evict::{BATCH_PAGES, Evictor};
use crate::space::AddressSpace;
use crate::world::World;
use uswap_core::drop_behind::Chosen;
use uswap_core::page_table::{ALL_PAGES, Leaf};
use uswap_core::page_word::{Place, TryLock};
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, PageId, PageRange};

/// Rounds of the hand in search of a page that does not rest: what came back warm may rest for eleven.
const ROUNDS_MAX: u32 = 12;

/// Leaves that one search looks at: at some 10 ns each.
const LEAVES_MAX: u32 = 1 << 17;

/// Chunks that one batch looks at, at some 100 ns each: whoever changes a mapping waits for that.
const CHUNKS_MAX: u32 = 1024;

/// What is wanted of a chunk.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// By whom. The hand leaves alone what rests.
    pub(super) chosen: Option<Chosen>,
    /// Pages at most.
    pub(super) goes_max: usize,
    /// Of these pages.
    pub(super) within: PageRange,
}

/// What was found in a chunk: a bit for each page.
struct Looks {
    /// It may be isolated, but the hand passes it by.
    resting: u64,
    /// It may go.
    may_go: u64,
}

/// The bit of a page among those of its chunk.
fn bit_in_chunk(page: PageId) -> u64 {
    1 << page.position_in_chunk()
}

/// Keeps what is behind the first `goes_max` that would go. How many do.
fn keep_behind(goes_max: usize, locked: &mut [Candidate]) -> usize {
    let mut goes = 0;
    for candidate in locked.iter_mut().filter(|candidate| candidate.fate == Fate::Chosen) {
        if goes == goes_max {
            candidate.fate = Fate::Stays;
        } else {
            goes += 1;
        }
    }
    goes
}

impl<W: World> AddressSpace<'_, W> {
    /// Finds pages that may go and locks them. How many there are, and whether the search was broken off.
    pub(crate) fn choose(&self, evictor: &mut Evictor, pages_max: usize) -> (usize, bool) {
        let pages_max = pages_max.min(BATCH_PAGES);
        let (mut rounds, mut goes, mut chunks) = (0, self.lock_behind(evictor, pages_max), 0);
        if goes > 0 {
            evictor.chosen = Some(Chosen::Behind);
            return (goes, false);
        }
        evictor.chosen = Some(Chosen::ByHand);
        while goes < pages_max
            && evictor.length + CHUNK_PAGES as usize <= BATCH_PAGES
            && chunks < CHUNKS_MAX
            && self.may_evict()
        {
            chunks += 1;
            let Some((leaf, chunk_in_block)) = self.next_chunk(&mut rounds) else { break };
            let wanted = Wanted { chosen: evictor.chosen, goes_max: pages_max - goes, within: ALL_PAGES };
            goes += self.lock_chunk(&leaf, chunk_in_block, evictor, wanted);
        }
        (goes, chunks == CHUNKS_MAX)
    }

    /// The next chunk in which there may be a page to evict. None after a whole round without one.
    fn next_chunk(&self, rounds: &mut u32) -> Option<(Leaf<'_>, u32)> {
        let mut at = self.hand.page();
        for _ in 0..LEAVES_MAX {
            let Some(leaf) = self.table.next_leaf(at) else {
                at = PageId::FIRST;
                self.hand.begin_round();
                *rounds += 1;
                if *rounds > ROUNDS_MAX {
                    break;
                }
                continue;
            };
            let chunks = leaf.evictable_from(at);
            if chunks != 0 {
                let in_block = chunks.trailing_zeros();
                self.hand.move_to(leaf.chunk(in_block).end());
                return Some((leaf, in_block));
            }
            at = leaf.first_page().plus(BLOCK_PAGES);
        }
        self.hand.move_to(at);
        None
    }

    /// Locks what it can of a chunk; how many of the pages may go.
    pub(super) fn lock_chunk(
        &self,
        leaf: &Leaf<'_>,
        in_block: u32,
        evictor: &mut Evictor,
        wanted: Wanted,
    ) -> usize {
        let Wanted { chosen, goes_max, within } = wanted;
        let chunk = leaf.chunk(in_block);
        let looked = chunk.intersection(within);
        // Before the words are looked at: whoever makes one evictable sets it again.
        leaf.evictable().begin_look(in_block);
        if self.held.overlaps(looked) {
            // Whoever holds it sets its chunks again.
            return 0;
        }
        if looked != chunk {
            leaf.evictable().set(in_block);
        }
        let start = evictor.length;
        let looks = self.find_evictable(leaf, looked, chosen);
        if looks.may_go == 0 {
            if looks.resting != 0 {
                leaf.evictable().set(in_block);
            }
            return 0;
        }
        self.lock_pages(leaf, looked, &looks, evictor);
        let locked = &mut evictor.batch[start..evictor.length];
        self.find_holes(chunk.start(), locked);
        let goes = keep_behind(goes_max, locked);
        if goes == 0 {
            self.pass_over(locked);
            evictor.length = start;
        } else if goes == goes_max && chosen == Some(Chosen::ByHand) {
            // The rest of the chunk is next.
            let last = locked.iter().rfind(|candidate| candidate.fate == Fate::Chosen);
            let next = last.expect("one goes").page.plus(1);
            self.hand.move_to(next);
        }
        goes
    }

    /// What may be isolated in a part of a chunk. The hand takes a round of rest away from what it passes by.
    fn find_evictable(&self, leaf: &Leaf<'_>, pages: PageRange, chosen: Option<Chosen>) -> Looks {
        let (mut looks, round) = (Looks { resting: 0, may_go: 0 }, self.hand.round_of(pages.start()));
        for (page, word_ref) in
            leaf.word_refs_in(pages).filter(|(_, word_ref)| word_ref.load().may_be_isolated())
        {
            let rests = chosen == Some(Chosen::ByHand) && word_ref.pass_by_in(round);
            *if rests { &mut looks.resting } else { &mut looks.may_go } |= bit_in_chunk(page);
        }
        looks
    }

    /// Locks what was found, behind what is in the batch, unless somebody else has it.
    fn lock_pages(&self, leaf: &Leaf<'_>, pages: PageRange, looks: &Looks, evictor: &mut Evictor) {
        let found = |page: PageId| (looks.resting | looks.may_go) & bit_in_chunk(page) != 0;
        for (page, word_ref) in leaf.word_refs_in(pages).filter(|(page, _)| found(*page)) {
            let TryLock::Locked(word) = word_ref.try_lock() else { continue };
            if !word.may_be_isolated() {
                // Flags have changed between the look and the lock.
                self.must_be_done(word_ref.unlock_unchanged());
                self.unlocked(core::iter::once(page));
                continue;
            }
            let fate = if looks.resting & bit_in_chunk(page) != 0 { Fate::Stays } else { Fate::Chosen };
            evictor.batch[evictor.length] = Candidate::new(page, word, fate);
            evictor.length += 1;
        }
    }

    /// What nobody has touched is no page: the kernel says so of the chunk that begins at `first`.
    fn find_holes(&self, first: PageId, locked: &mut [Candidate]) {
        let is_fresh = |candidate: &Candidate| candidate.word.place() == Place::Fresh;
        if !locked.iter().any(is_fresh) {
            return;
        }
        let present = self.world.present(first, CHUNK_PAGES as u32);
        for candidate in locked.iter_mut().filter(|candidate| is_fresh(candidate)) {
            if present & bit_in_chunk(candidate.page) == 0 {
                candidate.fate = Fate::Hole;
            }
        }
    }

    /// Gives the locks of a chunk back from which nothing goes. It takes no room in the batch: a mapping that was never
    /// touched may be larger than all that the program has touched.
    fn pass_over(&self, locked: &[Candidate]) {
        for candidate in locked {
            let word_ref = self.word_ref(candidate.page);
            self.must_be_done(match candidate.fate {
                // Whoever fills the page locks its word first, whatever hazards it has published.
                Fate::Hole => word_ref.commit_hole(),
                _ => word_ref.unlock_unchanged(),
            });
        }
        self.unlocked(locked.iter().map(|candidate| candidate.page));
    }
}
