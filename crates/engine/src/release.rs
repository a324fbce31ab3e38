//! Gives back what a page or a swap entry had: cells, slots, references.

use crate::engine::Engine;
use crate::platform::{Backing, Platform};
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
pub(crate) fn let_go_of_zspage(segment: Segment<'_>, backing: &impl Backing, zspage: ZspageId) {
    let pool = segment.pool();
    if let FreeCell::ReleaseMemory(zspage) = pool.let_go(zspage) {
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

impl<P: Platform> Engine<'_, P> {
    pub(crate) fn put_entry(&self, id: SwapId) {
        put_entry(self.segment, &self.platform, id);
    }
}
