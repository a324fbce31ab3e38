//! What the processes of the kill test share: one memfd with a segment, a space of slots for runs of all orders, and a
//! few words to agree on.
//!
//! ```text
//! segment | state of the runs | owner of each slot of them | reserver of each entry | mailbox | pause | who stands still
//! ```
//! Must hold: who owns a slot or has reserved an entry is changed by compare-exchange with the number of the process
//! alone, so that a second owner is noticed in the moment in which it comes. A word of the mailbox holds one reference
//! to the entry that it names.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use uswap_core::budget::Signal;
use uswap_core::clusters::lock::{Contended, Locker};
use uswap_core::clusters::{Clusters, Search, SlotUsage, Space};
use uswap_core::files::{FileAccess, FileKind, FileSpec};
use uswap_core::pool::{Pool, ZSPAGE_BYTES};
use uswap_core::segment::{Geometry, Segment};
use uswap_engine::reaper::Trim;
use uswap_engine::world::{Backing, FileBuffer, FileError};
use uswap_os::memory::{self, Access};
use uswap_os::{Fd, PAGE_BYTES, clock};
use uswap_units::{ClusterId, FileSlot, MmId, SlotId, SwapId, SwapOffset, ZspageId};

/// Few entries, slots and pages of tables: what four processes want is often not there. The pool has room for what the
/// dead leak.
pub const GEOMETRY: Geometry =
    Geometry { mms: 8, tables: 64, entries: 1024, zspages: 256, slots: 1024, readahead: 0 };
/// Slots of the swap files.
pub const FILES: [u64; 2] = [300, 512];
/// Clusters from which processes take runs of all orders; the first and the last are short.
pub const RUNS: Space =
    Space { skipped: 1, count: 3 * 512 + 100, is_trimmed: true, search: Search::Scattered };
/// References that belong to no process.
pub const LETTERS: usize = 64;

/// View of the shared words, in one process.
pub struct Stage {
    pub memfd: Fd,
    pub segment: Segment<'static>,
    runs: &'static [AtomicU64],
    owners: &'static [AtomicU64],
    reservers: &'static [AtomicU64],
    pub mailbox: &'static [AtomicU64],
    /// 0: all work. Else all are to stand still, and to say so with this number.
    pub pause: &'static AtomicU64,
    standing: &'static [AtomicU64],
}

/// Sizes of the parts behind the segment, in words.
const PARTS: [usize; 6] =
    [RUNS.words(), RUNS.count as usize, GEOMETRY.entries as usize, LETTERS, 1, GEOMETRY.mms as usize + 1];

fn segment_words() -> usize {
    GEOMETRY.layout().total_words()
}

fn bytes() -> usize {
    ((segment_words() + PARTS.iter().sum::<usize>()) * 8).next_multiple_of(PAGE_BYTES)
}

impl Stage {
    pub fn create() -> Stage {
        let memfd = memory::memfd_create(c"uswap-kill-test", bytes() as u64).expect("a memfd can be made");
        Self::map(memfd, |words| {
            let segment = Segment::create(words, GEOMETRY);
            for slots in FILES {
                let (kind, access) = (FileKind::SolidState, FileAccess::Buffered);
                let spec = FileSpec { slots, priority: -1, kind, descriptor: 0, access };
                segment.slots().add_file(spec).expect("the geometry has room for it");
            }
            segment
        })
    }

    /// The one that another process has made.
    pub fn open(memfd: Fd) -> Stage {
        Self::map(memfd, |words| Segment::open(words).expect("the parent made a segment"))
    }

    fn map(memfd: Fd, open: impl FnOnce(&'static [AtomicU64]) -> Segment<'static>) -> Stage {
        let words =
            memory::map_shared_words(&memfd, bytes(), Access::ReadWrite).expect("a memfd can be mapped");
        let (segment, mut rest) = words.split_at(segment_words());
        let parts = PARTS.map(|length| {
            let (part, behind) = rest.split_at(length);
            rest = behind;
            part
        });
        let [runs, owners, reservers, mailbox, pause, standing] = parts;
        Stage { memfd, segment: open(segment), runs, owners, reservers, mailbox, pause: &pause[0], standing }
    }

    /// The space of runs, as process `me` with this number sees it.
    pub fn runs(&self, me: MmId, number: u64, contended: Contended) -> Clusters<'static, Owners> {
        let locker = Locker::new(me, self.segment.mms()).waiting_by(contended);
        Clusters::new(self.runs, RUNS, self.owners(number), locker)
    }
    pub fn owners(&self, number: u64) -> Owners {
        Owners { words: self.owners, number }
    }
    /// Whether process `me` holds the lock of a cluster of the runs.
    pub fn holds_a_lock(&self, me: MmId) -> bool {
        ClusterId::each_below(RUNS.clusters()).any(|cluster| {
            self.runs[RUNS.lock_word(cluster)].load(Ordering::Relaxed) as u16 == me.number() + 1
        })
    }

    /// Nobody else has reserved the entry; or it is published next.
    pub fn change_reserver(&self, id: SwapId, from: u64, to: u64) {
        let word = &self.reservers[id.index()];
        let change = word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        assert_eq!(change, Ok(from), "{id:?} is reserved twice");
    }
    /// A process is dead: what it had reserved goes to others.
    pub fn forget_reserver(&self, number: u64) {
        for word in self.reservers {
            let _was_another = word.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Stands still as long as that is asked for. `who` is a record, or behind the last one the thread that writes
    /// back.
    pub fn stand_still(&self, who: usize, mut meanwhile: impl FnMut()) {
        let asked = self.pause.load(Ordering::Acquire);
        if asked == 0 {
            return;
        }
        // Release pairs with `stands_still`: all that we did is seen.
        self.standing[who].store(asked, Ordering::Release);
        while self.pause.load(Ordering::Acquire) == asked {
            clock::sleep_ns(100_000);
            meanwhile();
        }
    }
    pub fn stands_still(&self, who: usize) -> bool {
        self.standing[who].load(Ordering::Acquire) == self.pause.load(Ordering::Relaxed)
    }
}

/// Who owns each slot of the runs: the number of a process.
#[derive(Clone, Copy)]
pub struct Owners {
    words: &'static [AtomicU64],
    number: u64,
}

impl Owners {
    pub fn of(&self, slot: FileSlot) -> u64 {
        self.word(slot).load(Ordering::Acquire)
    }
    /// A slot of ours is free from now on.
    pub fn release(&self, slot: FileSlot) {
        let freed = self.word(slot).compare_exchange(self.number, 0, Ordering::AcqRel, Ordering::Acquire);
        assert_eq!(freed, Ok(self.number), "slot {slot:?} went to another owner");
    }
    fn word(&self, slot: FileSlot) -> &'static AtomicU64 {
        &self.words[slot.number() as usize]
    }
    /// Used slots.
    pub fn used(&self) -> u64 {
        self.words.iter().filter(|word| word.load(Ordering::Acquire) != 0).count() as u64
    }
}

impl SlotUsage for Owners {
    type Slot = FileSlot;

    fn is_used(&self, slot: FileSlot) -> bool {
        self.of(slot) != 0
    }
    fn claim(&self, slot: FileSlot, _: MmId) {
        let claimed = self.word(slot).compare_exchange(0, self.number, Ordering::AcqRel, Ordering::Acquire);
        assert_eq!(claimed, Ok(0), "slot {slot:?} is owned twice");
    }
}

/// Nothing is in a file here; memory goes back as the supervisor gives it back.
impl Backing for Stage {
    fn release_zspage(&self, zspage: ZspageId) {
        let offset = self.segment.layout().pool_offset_bytes() + Pool::data_offset_bytes(zspage);
        self.memfd.punch_hole(offset, ZSPAGE_BYTES as u64).expect("a memfd takes holes");
    }
    async fn read_file(&self, _: SwapOffset, _: usize, _: &mut FileBuffer) -> Result<(), FileError> {
        unreachable!("nobody reads a file here")
    }
    async fn pause(&self) {}
    async fn step(&self) {}
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
    fn raise(&self, signal: Signal) {
        self.segment.budget().raise(signal);
    }
    async fn wait(&self, _: Signal, _: u32, _: u64) {}
}

impl Trim for Stage {
    /// There is no file: but nothing may live in what would be given back.
    fn release_file(&self, bytes: Range<SwapOffset>) {
        for slot in SlotId::each(bytes.start.slot()..bytes.end.slot()) {
            assert_eq!(
                self.segment.slots().count(slot),
                0,
                "{slot:?} is used, and its blocks are given back"
            );
        }
    }
    fn release_cluster(&self, cluster: ClusterId) {
        for (offset, bytes) in self.segment.layout().cluster_bytes(cluster) {
            self.memfd.punch_hole(offset, bytes).expect("a memfd takes holes");
        }
    }
}
