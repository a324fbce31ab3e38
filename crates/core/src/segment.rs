//! Cuts one slice of words into the tables that all processes of a run share.
//!
//! The creator writes the geometry into the header; whoever maps the segment later computes the same layout from it.
//!
//! Must hold: no two tables share a word, each starts at a page border, but for those in the header, and where they are
//! follows from the geometry alone. The magic number is written last: whoever finds it finds the rest of the header.
//! Called by the supervisor and `sim`, which create a segment, by `host`, which opens it, and by `engine`, `fuzz` and
//! `experiments`, which get their views of tables here.

use crate::budget::{BUDGET_WORDS, Budget};
use crate::clusters::lock::{Contended, Locker, SUPERVISOR, spin};
use crate::clusters::{CLUSTER_SLOTS, Space};
use crate::counters::{COUNTER_WORDS, Counters, HISTOGRAM_WORDS};
use crate::file_key::{FILE_KEY_WORDS, FileKey};
use crate::files::{FILES_WORDS, SwapFiles};
use crate::map_table::{self, MapTable};
use crate::memory_map;
use crate::mm::{MM_WORDS, MmTable, RecordHolder};
use crate::page_table::{PageTable, Tables};
use crate::pool::{CLASS_COUNT, MAP_WORDS, Pool, ZSPAGE_BYTES};
use crate::readahead_buffers::{self, ReadaheadBuffers};
use crate::reuse::Reuse;
use crate::slots::SlotMap;
use crate::swap_table::{CLUSTER_ENTRIES, SwapTable, entry_space};
use crate::swap_word::FILE_GRANULE_BYTES;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::limits::{READAHEAD_BUFFERS_MAX, SWAP_FILES_MAX};
use uswap_units::{ClusterId, MmId, PAGE_BYTES, TableId};

const MAGIC: u64 = u64::from_le_bytes(*b"uswapsg1");
const HEADER_WORDS: usize = PAGE_BYTES / 8;
/// Which sources the creator was built from: behind the sizes.
const SOURCES: usize = 6;
/// What was said to the user already, a bit each. Stays where it is as long as `MAGIC` does: agents of other sources
/// find it too.
const SAID: usize = 15;
/// Behind the sources.
const FILE_KEY_START: usize = 8;
/// The number of readahead buffers.
const READAHEAD: usize = 14;
const BUDGET_START: usize = 16;
/// Notes that structures keep in the header, each on a cache line of its own.
const NOTES: usize = 8;
/// The head of the table for memory maps: in a page that is there anyway, since each kswapd looks at it.
const MAP_START: usize = BUDGET_START + BUDGET_WORDS + NOTES * 8;
/// Slots that a swap word can name: 34 bits of granules of 64 bytes.
pub const SLOTS_MAX: u64 = (1 << 34) * FILE_GRANULE_BYTES / PAGE_BYTES as u64;

/// Sizes of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Records of processes.
    pub mms: u32,
    /// Pages of page tables.
    pub tables: u32,
    /// Swap entries, a multiple of 512.
    pub entries: u32,
    /// Zspages of the pool.
    pub zspages: u32,
    /// Slots of all swap files and the gaps between them ([`slots_of_all`](crate::files::slots_of_all)), a multiple of
    /// 8.
    pub slots: u64,
    /// Buffers for what is read from the swap files ahead of faults
    /// ([`count_for`](ReadaheadBuffers::count_for)); 0: nothing is.
    pub readahead: u32,
}

/// Offsets of the tables, in words. Each starts at a page border.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    geometry: Geometry,
    counters: usize,
    mms: usize,
    table_owners: usize,
    table_evictable: usize,
    clusters: usize,
    clusters_words: usize,
    files: usize,
    slot_clusters: usize,
    slot_clusters_words: usize,
    states: usize,
    maps: usize,
    offers: usize,
    slots: usize,
    words: usize,
    hashes: usize,
    more: usize,
    tables: usize,
    readahead_states: usize,
    readahead_content: usize,
    map: usize,
    pool: usize,
    total: usize,
}

impl Geometry {
    /// Where each table starts.
    pub fn layout(self) -> Layout {
        assert!(self.entries.is_multiple_of(CLUSTER_ENTRIES));
        assert!(self.slots.is_multiple_of(8));
        let mut at = HEADER_WORDS;
        let mut place = |words: usize| {
            let start = at;
            at += words.next_multiple_of(PAGE_BYTES / 8);
            start
        };
        let zspages = self.zspages as usize;
        let clusters_words = entry_space(self.entries).words();
        let slot_clusters = self.slots.div_ceil(u64::from(CLUSTER_SLOTS)) as usize;
        let slot_clusters_words = Space::words_of_all(SWAP_FILES_MAX, slot_clusters);
        Layout {
            geometry: self,
            counters: place(COUNTER_WORDS + HISTOGRAM_WORDS),
            mms: place(self.mms as usize * MM_WORDS),
            table_owners: place(self.tables as usize),
            table_evictable: place(self.tables as usize),
            clusters: place(clusters_words),
            clusters_words,
            files: place(FILES_WORDS),
            slot_clusters: place(slot_clusters_words),
            slot_clusters_words,
            states: place(zspages),
            maps: place(zspages * MAP_WORDS),
            offers: place(zspages.div_ceil(64) * (CLASS_COUNT + 1)),
            slots: place((self.slots / 8) as usize),
            words: place(self.entries as usize),
            hashes: place(self.entries as usize * 2),
            more: place(self.entries as usize),
            tables: place(self.tables as usize * 512),
            readahead_states: place(self.readahead as usize * readahead_buffers::STATE_WORDS),
            readahead_content: place(self.readahead as usize * readahead_buffers::CONTENT_WORDS),
            map: place(memory_map::TABLE_WORDS),
            pool: place(zspages * ZSPAGE_BYTES / 8),
            total: at,
        }
    }
}

impl Layout {
    /// Words of the whole segment.
    pub const fn total_words(&self) -> usize {
        self.total
    }
    /// Byte offsets and lengths of what belongs to a cluster of entries, whole pages: words, hashes, and what the words
    /// do not count.
    pub const fn cluster_bytes(&self, cluster: ClusterId) -> [(u64, u64); 3] {
        let (page, at) = (PAGE_BYTES as u64, cluster.number() as u64 * PAGE_BYTES as u64);
        let (words, hashes, more) = (self.words as u64 * 8, self.hashes as u64 * 8, self.more as u64 * 8);
        [(words + at, page), (hashes + 2 * at, 2 * page), (more + at, page)]
    }
    /// Byte offset of the pool's data in the segment: what is given back to the system lies there.
    pub const fn pool_offset_bytes(&self) -> u64 {
        self.pool as u64 * 8
    }
}

/// What one process of a run says for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Its agent is of other sources than the run.
    OtherSources = 1,
    /// The supervisor is gone.
    SupervisorGone = 2,
}

/// Why a slice is not a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum NotASegment {
    /// The first words are something else, or of another version of uswap.
    Header,
    /// The slice is shorter than its header says.
    TooShort,
}

/// All tables of a run.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    words: &'a [AtomicU64],
    layout: Layout,
    /// Who uses it, and how it waits for a lock.
    me: MmId,
    contended: Contended,
}

impl<'a> Segment<'a> {
    /// The same, used in the name of a process; else it is the supervisor's.
    pub fn acting_as(self, me: MmId) -> Segment<'a> {
        Segment { me, ..self }
    }
    /// The same, with another way to wait for a lock.
    pub fn waiting_by(self, contended: Contended) -> Segment<'a> {
        Segment { contended, ..self }
    }
    /// Who holds a record that this process works on.
    pub fn holder(&self) -> RecordHolder {
        if self.me == SUPERVISOR { RecordHolder::Run } else { RecordHolder::Mm(self.me) }
    }
    fn locker(&self) -> Locker<'a> {
        Locker { me: self.me, contended: self.contended, mms: self.mms() }
    }

    /// Makes a segment out of zeroed words.
    pub fn create(words: &'a [AtomicU64], geometry: Geometry) -> Segment<'a> {
        let layout = geometry.layout();
        assert!(words.len() >= layout.total);
        for (word, value) in words[1..].iter().zip(Self::header(geometry)) {
            word.store(value, Ordering::Relaxed);
        }
        words[READAHEAD].store(u64::from(geometry.readahead), Ordering::Relaxed);
        // Release pairs with `geometry_of`: whoever finds the magic number finds the rest of the header.
        words[0].store(MAGIC, Ordering::Release);
        let segment = Segment { words, layout, me: SUPERVISOR, contended: spin };
        segment.pool().set_limit_bytes(u64::from(geometry.zspages) * ZSPAGE_BYTES as u64);
        segment
    }

    fn header(geometry: Geometry) -> [u64; 5] {
        let Geometry { mms, tables, entries, zspages, slots, readahead: _ } = geometry;
        [u64::from(mms), u64::from(tables), u64::from(entries), u64::from(zspages), slots]
    }

    /// The geometry in the first words of a segment (at least one page of it). Acquire pairs with `create`.
    pub fn geometry_of(words: &[AtomicU64]) -> Result<Geometry, NotASegment> {
        if words.len() < HEADER_WORDS || words[0].load(Ordering::Acquire) != MAGIC {
            return Err(NotASegment::Header);
        }
        let field = |index: usize| words[index].load(Ordering::Relaxed);
        let number = |index: usize| u32::try_from(field(index)).map_err(|_| NotASegment::Header);
        let (mms, tables, entries, zspages) = (number(1)?, number(2)?, number(3)?, number(4)?);
        let geometry =
            Geometry { mms, tables, entries, zspages, slots: field(5), readahead: number(READAHEAD)? };
        let sound = entries.is_multiple_of(CLUSTER_ENTRIES)
            && geometry.slots.is_multiple_of(8)
            && geometry.slots <= SLOTS_MAX
            && geometry.readahead <= READAHEAD_BUFFERS_MAX;
        if sound { Ok(geometry) } else { Err(NotASegment::Header) }
    }

    /// Opens a segment that someone else made.
    pub fn open(words: &'a [AtomicU64]) -> Result<Segment<'a>, NotASegment> {
        let layout = Self::geometry_of(words)?.layout();
        if words.len() < layout.total {
            return Err(NotASegment::TooShort);
        }
        Ok(Segment { words, layout, me: SUPERVISOR, contended: spin })
    }

    /// A hash of the sources that the creator was built from; 0 if it has not said.
    pub fn sources(&self) -> [u64; 2] {
        [SOURCES, SOURCES + 1].map(|index| self.words[index].load(Ordering::Relaxed))
    }
    /// Says which sources the creator was built from: whoever opens the segment must be of the same.
    pub fn set_sources(&self, sources: [u64; 2]) {
        for (word, value) in self.words[SOURCES..].iter().zip(sources) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Whether nobody has said this before. Whoever gets `true` says it. That is one exchange: AcqRel guards nothing
    /// else.
    pub fn is_first_to_say(&self, what: Notice) -> bool {
        self.words[SAID].fetch_or(what as u64, Ordering::AcqRel) & what as u64 == 0
    }

    /// Where the tables are.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    fn part(&self, start: usize, length: usize) -> &'a [AtomicU64] {
        &self.words[start..start + length]
    }
    /// Word of the header that a structure keeps a hint or a total in.
    fn note(&self, index: usize) -> &'a AtomicU64 {
        assert!(index < NOTES);
        &self.words[BUDGET_START + BUDGET_WORDS + index * 8]
    }

    /// The budget.
    pub fn budget(&self) -> Budget<'a> {
        Budget { words: self.part(BUDGET_START, BUDGET_WORDS) }
    }
    /// The key of the swap file.
    pub fn file_key(&self) -> FileKey<'a> {
        FileKey { words: self.part(FILE_KEY_START, FILE_KEY_WORDS) }
    }
    /// The counters.
    pub fn counters(&self) -> Counters<'a> {
        Counters {
            words: self.part(self.layout.counters, COUNTER_WORDS),
            histograms: self.part(self.layout.counters + COUNTER_WORDS, HISTOGRAM_WORDS),
        }
    }
    /// The records of processes.
    pub fn mms(&self) -> MmTable<'a> {
        MmTable {
            words: self.part(self.layout.mms, self.layout.geometry.mms as usize * MM_WORDS),
            taken_total: self.note(0),
        }
    }
    /// The page table pages.
    pub fn tables(&self) -> Tables<'a> {
        let count = self.layout.geometry.tables as usize;
        Tables {
            owners: self.part(self.layout.table_owners, count),
            evictable: self.part(self.layout.table_evictable, count),
            words: self.part(self.layout.tables, count * 512),
            hint: self.note(1),
            touched: self.note(2),
        }
    }
    /// The page table of one process.
    pub fn page_table(&self, mm: MmId, root: TableId) -> PageTable<'a> {
        PageTable::new(self.tables(), mm, root)
    }
    /// The swap table.
    #[inline]
    pub fn swap_table(&self) -> SwapTable<'a> {
        let entries = self.layout.geometry.entries as usize;
        SwapTable {
            words: self.part(self.layout.words, entries),
            hashes: self.part(self.layout.hashes, entries * 2),
            more: self.part(self.layout.more, entries),
            clusters: self.part(self.layout.clusters, self.layout.clusters_words),
            counters: self.counters(),
            locker: self.locker(),
        }
    }
    /// How long ago what is stored was stored.
    pub fn reuse(&self) -> Reuse<'a> {
        Reuse::new(self.note(6), self.counters().reuse_distances(), self.budget().ram())
    }
    /// The pool.
    pub fn pool(&self) -> Pool<'a> {
        let zspages = self.layout.geometry.zspages as usize;
        Pool {
            states: self.part(self.layout.states, zspages),
            maps: self.part(self.layout.maps, zspages * MAP_WORDS),
            offers: self.part(self.layout.offers, zspages.div_ceil(64) * (CLASS_COUNT + 1)),
            data: self.part(self.layout.pool, zspages * ZSPAGE_BYTES / 8),
            resident: self.note(3),
            fresh: self.note(4),
            limit: self.note(5),
            dense: self.note(7),
        }
    }
    /// What was read from the swap files ahead of faults.
    pub fn readahead(&self) -> ReadaheadBuffers<'a> {
        let count = self.layout.geometry.readahead as usize;
        let Layout { readahead_states: states, readahead_content: content, .. } = self.layout;
        ReadaheadBuffers {
            states: self.part(states, count * readahead_buffers::STATE_WORDS),
            content: self.part(content, count * readahead_buffers::CONTENT_WORDS),
        }
    }
    /// Where a process answers which parts of its memory are where.
    pub fn map_table(&self) -> MapTable<'a> {
        MapTable {
            head: self.part(MAP_START, map_table::HEAD_WORDS),
            words: self.part(self.layout.map, memory_map::TABLE_WORDS),
        }
    }
    /// The room of the swap files.
    pub fn slots(&self) -> SlotMap<'a> {
        SlotMap {
            files: SwapFiles { words: self.part(self.layout.files, FILES_WORDS) },
            counts: self.part(self.layout.slots, (self.layout.geometry.slots / 8) as usize),
            clusters: self.part(self.layout.slot_clusters, self.layout.slot_clusters_words),
            locker: self.locker(),
        }
    }
}

const _: () = assert!(SLOTS_MAX <= readahead_buffers::SLOTS_NAMED);
const _: () = assert!(SOURCES + 2 <= FILE_KEY_START);
const _: () =
    assert!(FILE_KEY_START + FILE_KEY_WORDS <= READAHEAD && READAHEAD < SAID && SAID < BUDGET_START);
const _: () = assert!(MAP_START + map_table::HEAD_WORDS <= HEADER_WORDS);
