//! Stores the content of a page under a new entry of the swap table: as one word again and again, or as a blob in the
//! pool.
//!
//! Must hold: an entry is published only when its content is complete; where anything is missing, all that was reserved
//! is given back. Called by [`crate::evict`] with what the evictor owns, outside of the gate.

use crate::pool::release::disown_zspage;
use crate::space::sampled::Sampled;
use crate::world::Backing;
use uswap_codec::{self as codec, Codec, Compressed, Effort, Page, Scratch};
use uswap_core::budget::Signal;
use uswap_core::counters::{Counter, Counters};
use uswap_core::pool::ZspageOwner;
use uswap_core::segment::Segment;
use uswap_core::swap_word::Content;
use uswap_units::{MmId, PAGE_BYTES, SwapId};

/// Who owns zspages, and reserves entries.
pub(crate) trait Owners {
    /// Its name.
    fn mm(&self) -> MmId;
    /// What it owns, for a moment.
    fn with<T>(&self, change: impl FnOnce(&mut ZspageOwner) -> T) -> T;
}

/// Gives the right to allocate to the others: whoever stores now and then would keep a zspage of each size class partly
/// empty, half a megabyte in all.
pub(crate) fn disown_zspages(segment: Segment<'_>, backing: &impl Backing, owners: &impl Owners) {
    for zspage in owners.with(ZspageOwner::take_all) {
        disown_zspage(segment, backing, zspage);
    }
}

/// Where so many of the pages that are compressed do not get smaller, these are stored as they are, to be written to
/// the file. Where there are fewer, they stay: a read of the file takes as long as ten pages from the pool.
const INCOMPRESSIBLE_PERCENT_MIN: u32 = 50;

/// What storing works with.
pub(crate) struct StoreBuffers<'w> {
    /// The content.
    pub(crate) page: &'w Page,
    pub(crate) blob: &'w mut [u8; PAGE_BYTES],
    pub(crate) scratch: &'w mut Scratch,
    /// How well it is compressed.
    pub(crate) effort: Effort,
    /// It is compressed in both ways, and counted.
    pub(crate) is_trial: bool,
    /// How many pages do not compress. Where they are few they are not stored. None: they always are.
    pub(crate) incompressible: Option<&'w Sampled>,
}

/// Why a page is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotStored {
    /// There is no room for it in the pool, or no entry.
    NoRoom,
    /// It does not compress, and few pages do not.
    Incompressible,
}

/// Stores a page under a new entry, with one reference for the page word that will name it.
pub(crate) async fn store_anew(
    segment: Segment<'_>,
    backing: &impl Backing,
    owners: &impl Owners,
    hash: u128,
    buffers: &mut StoreBuffers<'_>,
) -> Result<SwapId, NotStored> {
    let (table, counters) = (segment.swap_table(), segment.counters());
    let id = table.reserve().ok_or(NotStored::NoRoom)?;
    table.set_hash(id, hash);
    backing.step().await;
    if let Some(value) = codec::same_filled(buffers.page) {
        table.publish(id, Content::Same(value));
        counters.add(Counter::SameFilled, 1);
        return Ok(id);
    }
    let length = match buffers.is_trial {
        true => compress_in_both_ways(counters, buffers),
        false => compress(buffers, buffers.effort),
    };
    backing.step().await;
    if let Some(sampled) = buffers.incompressible {
        sampled.note_case();
        if length == PAGE_BYTES {
            sampled.note_happened();
            if !sampled.reaches(INCOMPRESSIBLE_PERCENT_MIN) {
                table.cancel(id);
                return Err(NotStored::Incompressible);
            }
        }
    }
    store_blob(segment, backing, owners, id, &buffers.blob[..length]).ok_or(NotStored::NoRoom)
}

/// Leaves what it made in the buffer; its bytes.
fn compress(buffers: &mut StoreBuffers<'_>, effort: Effort) -> usize {
    match codec::compress(buffers.page, buffers.blob, effort, buffers.scratch) {
        Compressed::Bytes(length) => length,
        Compressed::Incompressible => {
            buffers.blob.copy_from_slice(buffers.page);
            PAGE_BYTES
        }
    }
}

/// Leaves what the dense codec made in the buffer. What is made of words is the same in both ways, and does not count.
fn compress_in_both_ways(counters: Counters<'_>, buffers: &mut StoreBuffers<'_>) -> usize {
    let quick = compress(buffers, Effort::Quick);
    let is_of_words = quick < PAGE_BYTES && Codec::of(buffers.blob) == Some(Codec::Words);
    if is_of_words && buffers.effort == Effort::Quick {
        return quick;
    }
    let dense = compress(buffers, Effort::Dense);
    if !is_of_words {
        counters.add(Counter::TrialQuickBytes, quick as u64);
        counters.add(Counter::TrialDenseBytes, dense as u64);
    }
    dense
}

fn store_blob(
    segment: Segment<'_>,
    backing: &impl Backing,
    owners: &impl Owners,
    id: SwapId,
    blob: &[u8],
) -> Option<SwapId> {
    let (table, pool, counters) = (segment.swap_table(), segment.pool(), segment.counters());
    let Some(cell) = owners.with(|zspages| pool.reserve(owners.mm(), zspages, blob.len())) else {
        table.cancel(id);
        backing.raise(Signal::Shrink);
        return None;
    };
    pool.write(&cell, id, blob);
    table.publish(id, Content::Blob { blob: cell.blob(), length: blob.len() as u32 });
    segment.budget().add(blob.len() as u64);
    if blob.len() == PAGE_BYTES {
        counters.add(Counter::Incompressible, 1);
    } else {
        counters.add(Counter::Compressed, 1);
        counters.add(Counter::CompressedBytesIn, PAGE_BYTES as u64);
        counters.add(Counter::CompressedBytesOut, blob.len() as u64);
    }
    Some(id)
}
