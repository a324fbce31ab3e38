//! One of the four processes: takes, shares, reads and frees at random, until it is killed.
//!
//! Must hold: at no time does it have more than one reference, one cell and the slots of one blob that no shared word
//! names. So much a process may leak when it is killed, and no more. All else is found by who cleans up: its pages by
//! its page table, its runs by their owner.

use std::ops::Range;
use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicU32, Ordering};

use uswap_core::clusters::lock::Holder;
use uswap_core::clusters::{Clusters, ORDER_MAX};
use uswap_core::mm::{MmState, MmTable};
use uswap_core::page_word::{Afterwards, Commit, PageWordRef, Place, Remove, TryLock};
use uswap_core::pool::ZspageOwner;
use uswap_core::segment::Segment;
use uswap_core::swap_table::LoadKind;
use uswap_core::swap_word::Content;
use uswap_engine::pool::release::{free_blob, put_entries, put_entry, release_content};
use uswap_os::sys::abi;
use uswap_os::{Fd, clock, process, thread};
use uswap_units::{BLOCK_PAGES, FileSlot, MmId, PageId, Prng, SwapId};

use super::stage::{LETTERS, Owners, Stage};

/// The longest blob, in bytes: several to a slot of the file.
const BLOB_BYTES_MAX: u64 = 900;
/// Pages that are unmapped at once.
const PUT_PAGES: u64 = 8;
/// So many steps a process is eager to free, and then seven times so many to take: what there is, is mostly taken.
const MOOD_STEPS: u64 = 500;

/// As the threads of a managed program wait: who is dead is decided by the supervisor.
fn wait_for_lock(_: MmTable<'_>, _: MmId, tries: u32) -> Holder {
    match tries {
        0..64 => std::hint::spin_loop(),
        64..128 => thread::yield_now(),
        _ => {
            clock::sleep_ns(200_000);
            // Who would break the lock may be gone.
            end_without_parent();
        }
    }
    Holder::Lives
}

static PARENT: AtomicU32 = AtomicU32::new(0);

/// Nobody is left to kill us, or to clean up after others.
fn end_without_parent() {
    if parent_id() != PARENT.load(Ordering::Relaxed) {
        process::exit_process(0);
    }
}

struct Worker<'s> {
    stage: &'s Stage,
    segment: Segment<'static>,
    me: MmId,
    number: u64,
    pages: Vec<PageWordRef<'static>>,
    runs: Clusters<'static, Owners>,
    owners: Owners,
    /// First slot and count of what it has of the runs.
    owned: Vec<(FileSlot, u32)>,
    zspages: ZspageOwner,
    prng: Prng,
}

/// Plays the part that the invitation names, for ever: parent, descriptor of the memfd there, record, seed.
pub fn accept(invitation: &str) -> ! {
    let mut numbers = invitation.split(':').map(|word| word.parse::<u64>().expect("a number"));
    let mut number = || numbers.next().expect("four numbers");
    let (parent, descriptor, me, seed) = (number() as u32, number() as i32, number() as u16, number());
    PARENT.store(parent, Ordering::Relaxed);
    let path = process::descriptor_path(parent, descriptor);
    let Ok(memfd) = Fd::open(path.as_c_str(), abi::O_RDWR, 0) else {
        end_without_parent();
        panic!("the parent lives and has no memfd");
    };
    run(&Stage::open(memfd), MmId::new(me), seed)
}

fn run(stage: &Stage, me: MmId, seed: u64) -> ! {
    let segment = stage.segment.acting_as(me).waiting_by(wait_for_lock);
    let record = segment.mms().record(me);
    while record.state() != MmState::Live {
        clock::sleep_ns(50_000);
        end_without_parent();
    }
    let tables = segment.tables();
    let root = tables.allocate(me).expect("there are tables for all");
    record.set_root(root);
    let leaf =
        segment.page_table(me, root).leaf_or_allocate(PageId::FIRST).expect("there are tables for all");
    let pages: Vec<_> = (0..BLOCK_PAGES).map(|page| leaf.word_ref(PageId::new(page))).collect();
    assert!(pages.iter().all(|page| page.adopt()), "the leaf is new");
    let number = record.number().to_word();
    let mut worker = Worker {
        stage,
        segment,
        me,
        number,
        pages,
        runs: stage.runs(me, number, wait_for_lock),
        owners: stage.owners(number),
        owned: Vec::new(),
        zspages: ZspageOwner::new(),
        prng: Prng::new(seed),
    };
    for step in 0_u64.. {
        stage.stand_still(me.index(), end_without_parent);
        if step.is_multiple_of(4096) {
            end_without_parent();
        }
        let is_eager = step % (8 * MOOD_STEPS) >= MOOD_STEPS;
        match worker.prng.below(4) {
            0 => worker.step_of_runs(is_eager),
            _ => worker.step_of_pages(is_eager),
        }
    }
    unreachable!("somebody kills us before 2^64 steps")
}

fn content_of(seed: u64, length: usize) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let words = (0..length.div_ceil(8)).flat_map(|_| prng.next_u64().to_le_bytes());
    words.take(length).collect()
}

/// Some slots of a run, which are known by their places in it.
fn slots_of(first: FileSlot, places: Range<u32>) -> impl Iterator<Item = FileSlot> {
    places.map(move |place| FileSlot::new(first.number() + place))
}

impl Worker<'_> {
    fn step_of_runs(&mut self, is_eager: bool) {
        if self.owned.is_empty() || self.prng.chance(if is_eager { 7 } else { 2 }, 8) {
            // Small ones more often.
            let (one, other) = (self.prng.below(10), self.prng.below(10));
            let order = (one.min(other) as u32).min(ORDER_MAX);
            if let Some(first) = self.runs.allocate(order) {
                for slot in slots_of(first, 0..1 << order) {
                    assert_eq!(self.owners.of(slot), self.number, "slot {slot:?} is in a run of ours");
                }
                self.owned.push((first, 1 << order));
            }
            return;
        }
        let pick = self.prng.below(self.owned.len() as u64) as usize;
        let (first, count) = self.owned.swap_remove(pick);
        // All of it, or what is behind a part that is kept.
        let kept = if self.prng.chance(1, 3) { self.prng.below(u64::from(count)) as u32 } else { 0 };
        slots_of(first, kept..count).for_each(|slot| self.owners.release(slot));
        self.runs.free(first, count);
        if kept > 0 {
            self.owned.push((first, kept));
        }
    }

    fn step_of_pages(&mut self, is_eager: bool) {
        let page = self.pages[self.prng.below(BLOCK_PAGES) as usize];
        let TryLock::Locked(word) = page.try_lock() else {
            panic!("nobody else works on the pages of a process")
        };
        let Some(id) = word.swap() else {
            let swap = match self.prng.below(4) {
                0 => self.take_letter(),
                _ if is_eager => self.store(),
                _ => None,
            };
            return commit(page, swap);
        };
        match self.prng.below(if is_eager { 24 } else { 6 }) {
            0 => {
                self.segment.swap_table().share(id);
                commit(page, Some(id));
                self.send(id);
            }
            1 => {
                self.load(id);
                commit(page, Some(id));
                self.discard_any(id);
            }
            2 => {
                let _is_there = self.segment.swap_table().rely_on(id);
                commit(page, Some(id));
            }
            3 | 4 => {
                commit(page, None);
                put_entry(self.segment, self.stage, id);
            }
            5 => {
                commit(page, Some(id));
                self.put_some();
            }
            _ => commit(page, Some(id)),
        }
    }

    /// As when memory is unmapped: the names are taken out of the page words one after the other, and what they named
    /// is put together.
    fn put_some(&mut self) {
        let first = self.prng.below(BLOCK_PAGES - PUT_PAGES) as usize;
        let pages = &self.pages[first..first + PUT_PAGES as usize];
        put_entries(
            self.segment,
            self.stage,
            pages.iter().filter_map(|page| match page.remove(Afterwards::StillManaged) {
                Remove::Was(word) => word.swap(),
                Remove::Deferred | Remove::Unmanaged => panic!("nobody else works on the pages of a process"),
            }),
        );
    }

    /// A new entry with content, and the reference to it.
    fn store(&mut self) -> Option<SwapId> {
        let (table, pool) = (self.segment.swap_table(), self.segment.pool());
        let id = table.reserve()?;
        self.stage.change_reserver(id, 0, self.number);
        let seed = self.prng.next_u64();
        let length = 1 + (seed % BLOB_BYTES_MAX) as usize;
        let is_blob = self.prng.chance(7, 8);
        let cell = if is_blob { pool.reserve(self.me, &mut self.zspages, length) } else { None };
        if self.prng.chance(1, 16) {
            self.stage.change_reserver(id, self.number, 0);
            table.cancel(id);
            if let Some(cell) = cell {
                free_blob(self.segment, self.stage, cell.blob());
            }
            return None;
        }
        let content = match cell {
            Some(cell) => {
                pool.write(&cell, id, &content_of(seed, length));
                self.segment.budget().add(length as u64);
                Content::Blob { blob: cell.blob(), length: length as u32 }
            }
            None => Content::Same(seed as u32),
        };
        table.set_hash(id, u128::from(seed) << 64 | u128::from(!seed));
        self.stage.change_reserver(id, self.number, 0);
        table.publish(id, content);
        Some(id)
    }

    /// Reads an entry of ours. A blob whose name still stands after the copy is whole.
    fn load(&self, id: SwapId) {
        let table = self.segment.swap_table();
        let hash = table.hash(id);
        let seed = (hash >> 64) as u64;
        assert_eq!(seed, !(hash as u64), "the hash of {id:?}, to which we refer, stands still");
        let before = table.load(id).content();
        match before {
            Content::Blob { blob, length } => {
                let mut out = vec![0; length as usize];
                let was_read = self.segment.pool().read(blob, length as usize, &mut out);
                if table.load(id).content() == before {
                    assert!(was_read, "{id:?} names no cell");
                    assert!(out == content_of(seed, length as usize), "{id:?} reads wrong");
                }
            }
            Content::Same(value) => assert_eq!(value, seed as u32, "{id:?} reads wrong"),
            Content::Free | Content::Reserved => panic!("{id:?}, to which we refer, is {before:?}"),
            Content::Slot { .. } | Content::Discarded | Content::Lost => (),
        }
        table.note_loaded(id, LoadKind::Alone);
    }

    /// As the supervisor's clock hand does, for what was just loaded and for any other.
    fn discard_any(&mut self, id: SwapId) {
        let table = self.segment.swap_table();
        let any = SwapId::new(1 + self.prng.below(u64::from(table.entry_count()) - 1) as u32);
        for id in [id, any] {
            if self.prng.chance(1, 4)
                && let Some(content) = table.discard_retained(id)
            {
                release_content(self.segment, self.stage, content);
            }
        }
    }

    fn letter(&mut self) -> usize {
        self.prng.below(LETTERS as u64) as usize
    }
    /// A reference goes to whoever wants it.
    fn send(&mut self, id: SwapId) {
        let at = self.letter();
        let before = self.stage.mailbox[at].swap(u64::from(id.number()), Ordering::AcqRel);
        if before != 0 {
            put_entry(self.segment, self.stage, SwapId::new(before as u32));
        }
    }
    fn take_letter(&mut self) -> Option<SwapId> {
        let at = self.letter();
        let id = self.stage.mailbox[at].swap(0, Ordering::AcqRel);
        (id != 0).then_some(SwapId::new(id as u32))
    }
}

fn commit(page: PageWordRef<'_>, swap: Option<SwapId>) {
    let place = if swap.is_some() { Place::Swapped } else { Place::Fresh };
    assert_eq!(page.commit(place, swap), Commit::Done);
}
