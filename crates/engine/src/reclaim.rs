//! When to stage and store: kswapd in the background; what handlers do themselves is in [`crate::throttle`].

use crate::engine::Engine;
use crate::evict::Stage;
use crate::platform::Platform;
use crate::storer::let_go_of_zspages;
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::balance::{self, Headroom};
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::drop_behind::Chosen;
use uswap_core::share::Turn;
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, ChunkId, PageId};

/// What one round of reclaim achieved.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    /// Pages whose memory was given back.
    pub pages: u64,
    /// Staged pages that were looked at, whether they could be stored or had gone back.
    pub looked: u32,
    /// Chunks that were staged.
    pub chunks: u32,
    /// The pool had no room: wait for [`Signal::Room`].
    pub no_room: bool,
    /// A message must be read first.
    pub event_pending: bool,
    /// Pages that a fork left marked shared, bit i for `first + i`: `recover` them, holding nothing.
    pub shared: Option<(PageId, u64)>,
}

/// What kswapd reclaims in one turn at most.
const CHUNKS_A_TURN: u64 = 8;

/// The same while memory appears that no engine gave out: between two turns kswapd looks where.
const CHUNKS_WHILE_NEW_COMES: u64 = 2;

/// Pages staged for one chunk that is stored, while the staged set is smaller than wanted.
const STAGE_BATCH_PAGES: u64 = 4 * CHUNK_PAGES;

/// Chunks of the program of which nothing could be moved, before reclaim looks for something else to do.
const FRUITLESS_MAX: u32 = 4;

/// Turns in a row that brought nothing, after which other processes of the run do not wait for this one. The first may
/// have met an event that was unread.
const FRUITLESS_TURNS: u32 = 2;

/// Turns in a row that neither staged nor freed anything, before reclaim lets others go on: all that is staged may have
/// been touched.
const IN_VAIN_MAX: u32 = 64;

/// Timeout of a wait for room or progress: a lost signal costs this much, not for ever.
pub(crate) const WAIT_NS: u64 = 2_000_000;

impl<P: Platform> Engine<'_, P> {
    /// Stages and stores until about `pages` pages of memory were given back, or nothing more can be done now.
    pub async fn reclaim(&self, pages: u64, workspace: &mut Workspace) -> Reclaimed {
        let mut total = Reclaimed::default();
        let mut in_vain = 0;
        while total.pages < pages && in_vain < IN_VAIN_MAX {
            let staged_before = total.chunks;
            self.stage_some(&mut total).await;
            if total.event_pending {
                break;
            }
            self.hand_over().await;
            match self.store_oldest(workspace).await {
                None => break,
                Some(chunk) => {
                    total.pages += u64::from(chunk.freed);
                    total.looked += chunk.looked;
                    total.no_room |= chunk.no_room;
                    let is_vain = chunk.freed == 0 && total.chunks == staged_before;
                    in_vain = if is_vain { in_vain + 1 } else { 0 };
                    if chunk.no_room || chunk.freed == 0 && total.chunks == 0 {
                        break;
                    }
                }
            }
            self.platform.step().await;
        }
        let_go_of_zspages(self.segment, &self.platform, self);
        total
    }

    /// Keeps the staged set at its size.
    async fn stage_some(&self, total: &mut Reclaimed) {
        let staged_pages = || self.private.lock().arena.staged_pages();
        let pattern = self.look_at_samples();
        let wanted = balance::staged_pages_wanted(self.record().resident_pages(), pattern)
            .min(staged_pages() + STAGE_BATCH_PAGES);
        let (mut rounds, mut fruitless) = (0, 0);
        while staged_pages() < wanted && fruitless < FRUITLESS_MAX {
            let staged = match self.stage_behind().await {
                Some(staged) => staged,
                None => match self.next_chunk(&mut rounds) {
                    Some(chunk) => self.stage_by_hand(chunk).await,
                    None => return,
                },
            };
            match staged {
                Stage::Staged(_) => total.chunks += 1,
                Stage::Rests => (),
                Stage::Shared(first, mask) => {
                    total.shared = Some((first, mask));
                    fruitless += 1;
                }
                Stage::Nothing => fruitless += 1,
                Stage::EventPending => {
                    total.event_pending = true;
                    return;
                }
                Stage::NoRoom => return,
            }
        }
    }

    async fn stage_by_hand(&self, chunk: ChunkId) -> Stage {
        let staged = match self.stage_huge(chunk).await {
            Some(staged) => {
                // Else it is its turn again when the event is read, or something is stored.
                if !matches!(staged, Stage::EventPending | Stage::NoRoom) {
                    let block_end = (chunk.first_page().0 / BLOCK_PAGES + 1) * BLOCK_PAGES;
                    self.private.lock().hand = PageId(block_end);
                }
                staged
            }
            None => self.stage_chunk(chunk).await,
        };
        if let Stage::Staged(pages) = staged {
            self.follow(Chosen::ByHand, chunk, pages);
        }
        staged
    }

    /// One turn of kswapd: reclaims this process's share of what is above the high watermark. True when there is
    /// nothing to do.
    pub async fn kswapd_turn(&self, workspace: &mut Workspace) -> bool {
        self.note_looked();
        let (budget, marks) = (self.segment.budget(), self.watermarks());
        if budget.used() <= marks.high || self.leaving.load(Ordering::Acquire) {
            return true;
        }
        let own = self.record().resident_pages();
        let seen = budget.signal_count(Signal::Room);
        let turn = match self.turn() {
            Turn::Own { burden, of, protection } if !self.spares(protection) => {
                Some((burden, of, protection))
            }
            _ => None,
        };
        let Some((burden, of, protection)) = turn else {
            self.platform.wait(Signal::Room, seen, WAIT_NS).await;
            return false;
        };
        let share = balance::reclaim_share(budget.used(), marks.high, burden, of);
        let chunks_max = match budget.headroom() {
            Headroom::Wide => CHUNKS_WHILE_NEW_COMES,
            Headroom::Narrow => CHUNKS_A_TURN,
        };
        let done = self.reclaim(share.min(chunks_max * CHUNK_PAGES), workspace).await;
        self.settle(burden, protection, done);
        if let Some((first, mask)) = done.shared {
            self.counters.add(Counter::Recovered, u64::from(mask.count_ones()));
            self.platform.recover(first, mask).await;
        }
        if done.pages == 0 && done.chunks == 0 {
            // Nothing to take now: pool full, everything hot or pinned, or an event unread.
            let turns = self.note_fruitless(own);
            let wait_ns = balance::fruitless_wait_ns(turns, WAIT_NS);
            if turns >= FRUITLESS_TURNS {
                self.has_nothing_for(wait_ns);
            }
            self.platform.wait(Signal::Room, seen, wait_ns).await;
        } else {
            self.fruitless.0.store(0, Ordering::Relaxed);
        }
        false
    }

    /// How many turns in a row brought nothing while the process did not grow by a chunk.
    fn note_fruitless(&self, own_pages: u64) -> u32 {
        let (turns, pages) = &self.fruitless;
        if turns.load(Ordering::Relaxed) == 0 || own_pages > pages.load(Ordering::Relaxed) + CHUNK_PAGES {
            pages.store(own_pages, Ordering::Relaxed);
            turns.store(0, Ordering::Relaxed);
        }
        turns.fetch_add(1, Ordering::Relaxed)
    }
}
