//! Walks over the memory of a process and counts which parts of it are where, for whoever looks at the run
//! ([`uswap_core::memory_map`]).
//!
//! The process does it itself, since it frees the leaves of its page table without asking anybody. A map is no picture
//! of one moment: a page that moves meanwhile is counted where it was or where it is.
//!
//! Must hold: words are only read and never locked, each leaf in a shared section of the gate of its own: a mapping
//! call never waits for more than one. Called by `host`, in its background thread.

use crate::space::AddressSpace;
use crate::world::World;
use uswap_core::map_table::{MapRequest, Withdrawn};
use uswap_core::memory_map::{MapWriter, PageKind, Stored};
use uswap_core::page_table::Leaf;
use uswap_core::page_word::{PageWord, PageWordRef, Place};
use uswap_core::swap_word::Content;
use uswap_units::{BLOCK_PAGES, CHUNK_PAGES, PageId, PageRange, SwapId};

/// Leaves of one part of a walk: some 2 ms in which nothing is evicted in the background.
pub const LEAVES_MAX: u32 = 64;

/// A map that is being made.
pub struct MapWalk<'a> {
    writer: MapWriter<'a>,
    /// Where it goes on.
    at: PageId,
    /// Pages of all processes that are in RAM: what went not longer ago went lately.
    resident_of_all: u64,
}

/// How far a walk is.
#[must_use]
pub enum MapStep<'a> {
    /// There is more to look at.
    GoesOn(MapWalk<'a>),
    /// The map is complete, or nobody waits for it any more.
    Ended,
}

/// Where the content of a swap entry is. None: there is none, so the page has been brought back meanwhile.
fn kind_of(content: Content) -> Option<PageKind> {
    match content {
        Content::Same(_) => Some(PageKind::SameFilled),
        Content::Blob { .. } => Some(PageKind::Pool),
        Content::Slot { .. } | Content::Lost => Some(PageKind::File),
        Content::Free | Content::Reserved | Content::Discarded => None,
    }
}

fn warmth_of(word: PageWord) -> PageKind {
    let stays = word.heat() > 0 || word.rest() > 0 || word.is_pinned() || !word.is_active();
    if stays { PageKind::Warm } else { PageKind::Cold }
}

/// Only a look tells whether something is mapped there.
fn needs_look(word: PageWord) -> bool {
    word.is_managed() && word.place() == Place::Fresh && !word.is_hole()
}

impl<'a, W: World> AddressSpace<'a, W> {
    /// The map that was asked of this process, if any was.
    pub fn map_request(&self) -> Option<MapRequest> {
        self.segment.map_table().asked_of(self.mm)
    }

    /// Begins to answer.
    pub fn begin_map(&self, request: MapRequest) -> MapWalk<'a> {
        MapWalk {
            writer: MapWriter::new(self.segment.map_table(), request),
            at: PageId::FIRST,
            resident_of_all: self.segment.mms().resident_pages(),
        }
    }

    /// Answers that nothing is managed.
    pub fn answer_empty_map(&self, request: MapRequest) {
        let _withdrawn = MapWriter::new(self.segment.map_table(), request).finish();
    }

    /// Counts the pages of the next leaves, [`LEAVES_MAX`] at most.
    pub async fn step_map(&self, mut walk: MapWalk<'a>) -> MapStep<'a> {
        self.segment.map_table().note_progress();
        if self.map_request() != Some(walk.writer.request()) {
            return MapStep::Ended;
        }
        for _ in 0..LEAVES_MAX {
            self.world.lock_shared().await;
            let counted = self.table.next_leaf(walk.at).map(|leaf| {
                walk.at = leaf.first_page().plus(BLOCK_PAGES);
                self.count_leaf(&leaf, &mut walk)
            });
            self.world.unlock_shared();
            match counted {
                Some(Ok(())) => self.world.step().await,
                Some(Err(Withdrawn)) => return MapStep::Ended,
                None => {
                    let _or_withdrawn = walk.writer.finish();
                    return MapStep::Ended;
                }
            }
        }
        MapStep::GoesOn(walk)
    }

    /// In a shared section.
    fn count_leaf(&self, leaf: &Leaf<'a>, walk: &mut MapWalk<'a>) -> Result<(), Withdrawn> {
        for chunk in 0..BLOCK_PAGES / CHUNK_PAGES {
            let first = leaf.first_page().plus(chunk * CHUNK_PAGES);
            let word_refs = || leaf.word_refs_in(PageRange::of_pages(first, CHUNK_PAGES));
            let looks = word_refs().any(|(_, word_ref)| needs_look(word_ref.load()));
            let mapped = if looks { self.world.present(first, CHUNK_PAGES as u32) } else { 0 };
            for (index, (page, word_ref)) in word_refs().enumerate() {
                let is_mapped = mapped & (1 << index) != 0;
                if let Some((kind, stored)) = self.look_at(word_ref, is_mapped, walk.resident_of_all) {
                    walk.writer.add(page, kind, stored)?;
                }
            }
        }
        Ok(())
    }

    /// Where a page is, and whether it went lately. None: it is not managed.
    fn look_at(
        &self,
        word_ref: PageWordRef<'_>,
        is_mapped: bool,
        resident: u64,
    ) -> Option<(PageKind, Stored)> {
        let word = word_ref.load();
        if !word.is_managed() {
            return None;
        }
        if word.is_removed() {
            return Some((PageKind::Untouched, Stored::NotLately));
        }
        let kind = match (word.place(), word.swap()) {
            (Place::Present, _) if word.is_zero_page() => PageKind::Untouched,
            (Place::Present, _) => warmth_of(word),
            (Place::Swapped, Some(swap)) => match self.stored_kind(swap) {
                Some(kind) if self.segment.reuse().distance(word.evicted_at()) <= resident => {
                    return Some((kind, Stored::Lately));
                }
                Some(kind) => kind,
                None => warmth_of(word),
            },
            _ if is_mapped => warmth_of(word),
            _ => PageKind::Untouched,
        };
        Some((kind, Stored::NotLately))
    }

    fn stored_kind(&self, swap: SwapId) -> Option<PageKind> {
        kind_of(self.segment.swap_table().load(swap).content())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_units::{BlobId, SwapOffset};

    #[test]
    fn content_is_counted_where_it_is() {
        let content = [
            Content::Same(7),
            Content::Blob { blob: BlobId::new(3), length: 100 },
            Content::Slot { offset: SwapOffset::new(64), length: 128 },
            Content::Lost,
            Content::Discarded,
        ];
        let expected = [
            Some(PageKind::SameFilled),
            Some(PageKind::Pool),
            Some(PageKind::File),
            Some(PageKind::File),
            None,
        ];
        assert_eq!(content.map(kind_of), expected);
    }
}
