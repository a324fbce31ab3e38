//! Three threads on one swap table of two clusters that are nearly full, in random orders.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p uswap-core --lib shuttle`. Longer than what loom can go through: each
//! thread takes several steps, and each atomic operation is a point where another one may go on. All orders here are
//! sequential; weak orderings are loom's.

use crate::clusters::lock::{Holder, Locker, SUPERVISOR};
use crate::clusters::{CLUSTER_SLOTS, Clusters, SlotUsage};
use crate::counters::Counters;
use crate::mm::MmTable;
use crate::plant::{Plant, Planted};
use crate::swap_table::{LoadKind, Put, SwapTable, entry_space};
use crate::swap_word::{Content, SwapWord};
use shuttle::rand::Rng as _;
use shuttle::sync::{Arc, Mutex};
use shuttle::{rand, thread};
use std::vec::Vec;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{ClusterId, MmId, SwapId};

/// Orders that are tried.
const ORDERS_TRIED: usize = 4000;
const ENTRIES: u32 = 2 * CLUSTER_SLOTS;
/// Free entries of each cluster when the threads start; the others are reserved by somebody who does nothing.
const FREE: u32 = 3;
const STEPS: usize = 5;

/// The entries, as the clusters see them: only for making the table.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [AtomicU64]);

impl SlotUsage for Words<'_> {
    type Slot = SwapId;

    fn is_used(&self, entry: SwapId) -> bool {
        self.0[entry.index()].load(Ordering::Acquire) != 0
    }
    fn claim(&self, _: SwapId, _: MmId) {
        unreachable!("nothing is allocated here")
    }
}

struct Table {
    words: Vec<AtomicU64>,
    hashes: Vec<AtomicU64>,
    more: Vec<AtomicU64>,
    clusters: Vec<AtomicU64>,
    taken_total: AtomicU64,
    /// References that nobody has in hand.
    references: Mutex<Vec<SwapId>>,
}

fn wait(_: MmTable<'_>, _: MmId, _: u32) -> Holder {
    thread::yield_now();
    Holder::Lives
}

impl Table {
    fn new() -> Table {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let taken = SwapWord::reserved_by(SUPERVISOR).0;
        let is_free = |entry: u32| entry == 0 || entry % CLUSTER_SLOTS > CLUSTER_SLOTS - 1 - FREE;
        let words =
            (0..ENTRIES).map(|entry| AtomicU64::new(if is_free(entry) { 0 } else { taken })).collect();
        let table = Table {
            words,
            hashes: zeros(2 * ENTRIES as usize),
            more: zeros(ENTRIES as usize),
            clusters: zeros(entry_space(ENTRIES).words()),
            taken_total: AtomicU64::new(0),
            references: Mutex::new(Vec::new()),
        };
        assert!(table.clusters().touch_next(ClusterId::FIRST));
        assert!(table.clusters().touch_next(ClusterId::new(1)));
        table.clusters().audit();
        table
    }
    fn locker(&self) -> Locker<'_> {
        Locker::new(SUPERVISOR, MmTable { words: &[], taken_total: &self.taken_total }).waiting_by(wait)
    }
    fn clusters(&self) -> Clusters<'_, Words<'_>> {
        Clusters::new(&self.clusters, entry_space(ENTRIES), Words(&self.words), self.locker())
    }
    fn view(&self) -> SwapTable<'_> {
        SwapTable {
            words: &self.words,
            hashes: &self.hashes,
            more: &self.more,
            clusters: &self.clusters,
            counters: Counters { words: &[], histograms: &[] },
            locker: self.locker(),
        }
    }

    fn store(&self, number: u64) -> Option<SwapId> {
        let id = self.view().reserve()?;
        let hash = u128::from(number) << 64 | u128::from(id.number());
        self.view().set_hash(id, hash);
        if rand::thread_rng().gen_bool(0.2) {
            self.view().cancel(id);
            return None;
        }
        self.view().publish(id, Content::Same(number as u32));
        Some(id)
    }
    /// Reads an entry to which the caller refers.
    fn load(&self, id: SwapId) {
        let hash = self.view().hash(id);
        assert_eq!(
            self.view().load(id).content(),
            Content::Same((hash >> 64) as u32),
            "an entry is owned twice"
        );
        assert_eq!(hash as u64, u64::from(id.number()));
        self.view().note_loaded(id, LoadKind::Alone);
    }
    fn put(&self, id: SwapId) {
        let content = Content::Same((self.view().hash(id) >> 64) as u32);
        match self.view().put(id) {
            Put::StillShared => (),
            Put::Freed(freed) => assert_eq!(freed, content, "an entry is owned twice"),
            Put::Deferred => panic!("nothing is written back"),
        }
    }

    /// Puts an entry and one more that nobody has in hand.
    fn put_together(&self, id: SwapId) {
        let another = self.references.lock().expect("no panic").pop();
        let ids = [Some(id), another].into_iter().flatten();
        self.view()
            .put_each(ids, |freed| assert!(matches!(freed, Content::Same(_)), "an entry is owned twice"));
    }

    /// A few steps of one thread.
    fn work(&self, me: u64) {
        for step in 0..STEPS {
            let number = me * 100 + step as u64;
            let in_hand = self.references.lock().expect("no panic").pop();
            let mut keep = Vec::new();
            match (in_hand, rand::thread_rng().gen_range(0..4)) {
                (None, _) => keep.extend(self.store(number)),
                (Some(id), 0) => {
                    self.view().share(id);
                    keep.extend([id, id]);
                }
                (Some(id), 1) => {
                    self.load(id);
                    keep.push(id);
                }
                (Some(id), 2) => {
                    keep.extend(self.store(number));
                    keep.push(id);
                }
                (Some(id), _) if rand::thread_rng().gen_bool(0.5) => self.put(id),
                (Some(id), _) => self.put_together(id),
            }
            self.references.lock().expect("no panic").append(&mut keep);
        }
    }

    /// Puts all references: what is free then is what was free at the start, and all of it is to be had.
    fn check(&self) {
        let references = core::mem::take(&mut *self.references.lock().expect("no panic"));
        for id in references {
            self.load(id);
            self.put(id);
        }
        assert_eq!(self.view().used_count(), u64::from(ENTRIES - 1 - 2 * FREE), "owned entries are counted");
        self.clusters().check_lists();
        let all: Vec<SwapId> = core::iter::from_fn(|| self.view().reserve()).collect();
        assert_eq!(all.len(), 2 * FREE as usize, "free entries are to be had");
    }
}

fn three_threads_and_an_audit() {
    shuttle::check_random(
        || {
            let table = Arc::new(Table::new());
            let threads: Vec<_> = (1..=3)
                .map(|me| {
                    let table = Arc::clone(&table);
                    thread::spawn(move || {
                        table.work(me);
                        if me == 3 {
                            table.clusters().audit();
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            table.check();
        },
        ORDERS_TRIED,
    );
}

#[test]
fn shuttle_three_threads_allocate_share_and_free() {
    three_threads_and_an_audit();
}

/// The same finds a bug that is planted: an entry is owned twice, or shared by who has it while another has freed it,
/// whatever the random order shows first.
#[test]
#[should_panic(expected = "entr")]
fn shuttle_finds_a_dropped_second_look() {
    let _planted = Planted::new(Plant::FreeWithoutLook);
    three_threads_and_an_audit();
}
