//! Gives back what a page or a swap entry had: cells, slots, references.
//!
//! Must hold: only who took a name out of the last word that had it comes here with what it named, so nothing is freed
//! twice. Called by [`crate::evict`], [`crate::fault`], [`crate::mapping`], [`crate::writeback`],
//! [`crate::pool::compact`] and [`crate::reaper`]; it waits for nothing.

use crate::world::Backing;
use uswap_core::pool::FreeCell;
use uswap_core::segment::Segment;
use uswap_core::swap_table::Put;
use uswap_core::swap_word::Content;
use uswap_units::{BlobId, SwapId, ZspageId};

/// Frees a cell of the pool whose name was taken out of the swap word.
pub fn free_blob(segment: Segment<'_>, backing: &impl Backing, blob: BlobId) {
    let pool = segment.pool();
    if let FreeCell::ReleaseMemory(zspage) = pool.free(blob) {
        backing.release_zspage(zspage);
        pool.released(zspage);
    }
}

/// Gives the right to allocate in a zspage back, and its memory if no cell of it is in use.
pub(crate) fn disown_zspage(segment: Segment<'_>, backing: &impl Backing, zspage: ZspageId) {
    let pool = segment.pool();
    if let FreeCell::ReleaseMemory(zspage) = pool.disown(zspage) {
        backing.release_zspage(zspage);
        pool.released(zspage);
    }
}

/// Releases what a swap entry named when its last reference, or its copy, was given up.
pub fn release_content(segment: Segment<'_>, backing: &impl Backing, content: Content) {
    match content {
        Content::Blob { blob, length } => {
            free_blob(segment, backing, blob);
            segment.budget().subtract(u64::from(length));
        }
        // Slots that became free are found again by the supervisor's search; it also gives their disk space back.
        Content::Slot { offset, length } => segment.slots().remove_blob(offset, u64::from(length)),
        Content::Same(_) | Content::Discarded | Content::Lost | Content::Free | Content::Reserved => (),
    }
}

/// Drops one reference to a swap entry.
pub fn put_entry(segment: Segment<'_>, backing: &impl Backing, id: SwapId) {
    match segment.swap_table().put(id) {
        Put::Freed(content) => release_content(segment, backing, content),
        Put::StillShared | Put::Deferred => (),
    }
}

/// Drops one reference to each of these swap entries. Each before the next one is asked for: what asks may take their
/// names out of page words.
pub fn put_entries(segment: Segment<'_>, backing: &impl Backing, ids: impl IntoIterator<Item = SwapId>) {
    segment.swap_table().put_each(ids, |content| release_content(segment, backing, content));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use uswap_core::segment::Geometry;
    use uswap_sync::AtomicU64;
    use uswap_units::MmId;

    const GEOMETRY: Geometry =
        Geometry { mms: 4, tables: 1, entries: 1024, zspages: 1, slots: 8, readahead: 0 };
    const SHARERS: u32 = 20_000;

    /// With the capacity that the words really have: tests of `core` make it small.
    #[test]
    fn an_entry_has_more_sharers_than_its_word_counts() {
        let words: Vec<AtomicU64> = (0..GEOMETRY.layout().total_words()).map(|_| AtomicU64::new(0)).collect();
        let segment = Segment::create(&words, GEOMETRY);
        let table = segment.acting_as(MmId::new(1)).swap_table();
        let content = Content::Blob { blob: BlobId::new(9), length: 100 };
        let (id, neighbour) = (table.reserve().expect("room"), table.reserve().expect("room"));
        table.publish(id, content);
        table.publish(neighbour, Content::Same(1));
        for sharers in 0..SHARERS {
            // Up and down, so that each border is crossed in both directions.
            table.share(id);
            table.share(id);
            assert_eq!(table.put(id), Put::StillShared, "{sharers} and two more");
        }
        assert!(table.load(id).has_more());
        for left in (1..=SHARERS).rev() {
            assert_eq!(table.put(id), Put::StillShared, "{left} are left");
            assert_eq!(table.load(id).content(), content);
            assert_eq!(table.load(id).is_alone(), left == 1);
        }
        assert_eq!(table.put(id), Put::Freed(content));
        assert_eq!(table.put(neighbour), Put::Freed(Content::Same(1)));
        assert_eq!(table.used_count(), 0);
    }
}
