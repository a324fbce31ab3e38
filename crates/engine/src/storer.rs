//! Stores content under new entries: for kswapd and handlers, and for the supervisor's storer, which does it for staged
//! chunks of any process on another processor. It also decodes what will be wanted soon: see [`crate::ahead`].

use crate::copies::pool_is_above;
use crate::loader::{BackgroundReads, Loader, Turn};
use crate::platform::Backing;
use crate::release::{let_go_of_zspage, put_entry};
use crate::sampled::Sampled;
use crate::workspace::Workspace;
use core::cell::RefCell;
use uswap_codec::{self as codec, Codec, Compressed, Effort, Page, Scratch};
use uswap_core::budget::Signal;
use uswap_core::counters::{Counter, Counters};
use uswap_core::jobs::{Finish, JobState, SeenJob};
use uswap_core::pool::ZspageOwner;
use uswap_core::segment::Segment;
use uswap_core::store_jobs::{FrameJob, JobHead, StoreJob};
use uswap_core::swap_word::Content;
use uswap_units::limits::MM_MAX;
use uswap_units::{MmId, PAGE_BYTES, SwapId};

/// The supervisor's name where owners are named: of no process.
const STORER: MmId = MmId(MM_MAX as u16);

/// Frames that are read at once.
const PART_FRAMES: usize = 8;

/// Who owns zspages, and reserves entries.
pub(crate) trait Owners {
    /// Its name.
    fn mm(&self) -> MmId;
    /// What it owns, for a moment.
    fn with<T>(&self, change: impl FnOnce(&mut ZspageOwner) -> T) -> T;
}

/// Gives the right to allocate to the others: who stores now and then would keep a zspage of each size class partly
/// empty, half a megabyte in all.
pub(crate) fn let_go_of_zspages(segment: Segment<'_>, backing: &impl Backing, owners: &impl Owners) {
    for zspage in owners.with(ZspageOwner::take_all) {
        let_go_of_zspage(segment, backing, zspage);
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

/// What is stored from now on would push something else into the file.
pub(crate) fn pool_is_tight(segment: Segment<'_>) -> bool {
    pool_is_above(segment, 12)
}

/// Dense once the pool is three quarters full.
pub(crate) fn effort(segment: Segment<'_>) -> Effort {
    if pool_is_tight(segment) { Effort::Dense } else { Effort::Quick }
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

/// Frames of any process, as the supervisor reads them.
pub trait RemoteFrames: Backing {
    /// Reads frames of a job, from number `first` on. False: not all could be read.
    fn read_frames(&self, head: JobHead, first: u32, pages: &mut [Page]) -> bool;
}

/// The supervisor's storer.
pub struct Storer<'w> {
    owned: RefCell<ZspageOwner>,
    loader: Loader,
    workspace: &'w mut Workspace,
}

impl Owners for RefCell<ZspageOwner> {
    fn mm(&self) -> MmId {
        STORER
    }
    fn with<T>(&self, change: impl FnOnce(&mut ZspageOwner) -> T) -> T {
        change(&mut self.borrow_mut())
    }
}

impl<'w> Storer<'w> {
    /// Of the workspace it uses 110 KiB.
    pub fn new(workspace: &'w mut Workspace) -> Storer<'w> {
        Storer { owned: RefCell::new(ZspageOwner::new()), loader: Loader::new(), workspace }
    }

    /// Lets others allocate in what it has begun, while it has nothing to do.
    pub fn rest(&self, segment: Segment<'_>, backing: &impl Backing) {
        let_go_of_zspages(segment, backing, &self.owned);
    }

    /// Does one job, if it can. A thread will soon wait for what is to be decoded, so that comes first.
    pub async fn turn(
        &mut self,
        segment: Segment<'_>,
        frames: &impl RemoteFrames,
        reads: &mut impl BackgroundReads,
    ) -> Turn {
        let loaded = self.load(segment, frames, reads).await;
        if loaded == Turn::Ended {
            return loaded;
        }
        let Some((job, working)) = segment.store_jobs().begin() else { return loaded };
        self.work(segment, frames, reads, (job, working)).await;
        if let Finish::Abandoned(seen) = job.word().finish() {
            release_job(segment, frames, job);
            let _nobody_else_changes_it = job.word().change(seen, JobState::Free);
        }
        frames.raise(Signal::Stored);
        Turn::Ended
    }

    async fn load(
        &mut self,
        segment: Segment<'_>,
        frames: &impl RemoteFrames,
        reads: &mut impl BackgroundReads,
    ) -> Turn {
        self.loader.turn(segment, frames, reads, self.workspace).await
    }

    async fn work(
        &mut self,
        segment: Segment<'_>,
        frames: &impl RemoteFrames,
        reads: &mut impl BackgroundReads,
        (job, working): (StoreJob<'_>, SeenJob),
    ) {
        let head = job.head();
        for first in (0..head.frames).step_by(PART_FRAMES) {
            // A thread waits for that, or will soon.
            while self.load(segment, frames, reads).await == Turn::Ended {}
            let Workspace { pages, blob, scratch, .. } = &mut *self.workspace;
            let pages = &mut pages[..PART_FRAMES.min((head.frames - first) as usize)];
            if job.word().load() != working || !frames.read_frames(head, first, pages) {
                return;
            }
            frames.step().await;
            for (index, page) in (first..).zip(pages.iter()) {
                let known = job.frame(index);
                let hash = codec::hash(page).0;
                let is_good = known.old.is_some_and(|old| segment.swap_table().hash(old) == hash);
                let effort = effort(segment);
                let mut buffers =
                    StoreBuffers { page, blob, scratch, effort, is_trial: false, incompressible: None };
                let stored = match is_good {
                    true => None,
                    false => store_anew(segment, frames, &self.owned, hash, &mut buffers).await.ok(),
                };
                job.set_frame(index, FrameJob { hash, stored, ..known });
                if !is_good && stored.is_none() {
                    return;
                }
            }
        }
    }
}

/// Gives up what was stored for a job that nobody waits for.
pub(crate) fn release_job(segment: Segment<'_>, backing: &impl Backing, job: StoreJob<'_>) {
    for index in 0..job.head().frames {
        if let Some(stored) = job.frame(index).stored {
            put_entry(segment, backing, stored);
        }
    }
}
