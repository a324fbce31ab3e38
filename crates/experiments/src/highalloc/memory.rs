//! The memory of the machine that is made up: who has which frame, which pages were used lately, and what reclaim
//! finds.
//!
//! Frames come from `uswap_zones`, in every column. Pages are on lists as in Linux 4.4: of each zone, active and
//! inactive, of files and of processes.
//! Must hold: what a space says of a page and what the frame says of its page agree, also while pages are moved.

use uswap_core::working_set::WorkingSet;
use uswap_units::Prng;
use uswap_zones::FrameId;
use uswap_zones::compaction::{Move, Moved};
use uswap_zones::node::Node;
use uswap_zones::{BLOCK_FRAMES, Zone};

use super::counts::Counts;
use super::disk::Disk;
use super::prices;

/// A page of a space that is in no frame.
pub const NOWHERE: u32 = u32::MAX;
/// From here on an entry of a space is no frame. Of a page of a file that was reclaimed it says when, in pages that
/// were reclaimed before it.
pub const NO_FRAME: u32 = 1 << 31;
const CLOCK: u32 = (1 << 30) - 1;
/// A page of a process that is on the disk.
pub const SWAPPED: u32 = u32::MAX - 1;

/// What a space is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory of a process.
    Process,
    /// Files, cached.
    File,
}

/// Pages of one process, or of the files of one tree.
pub struct Space {
    kind: Kind,
    /// The frame of each page, or [`NOWHERE`], or [`SWAPPED`], or when it was reclaimed.
    pub frames: Vec<u32>,
}

/// The lists of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lru {
    InactiveFile,
    ActiveFile,
    InactiveProcess,
    ActiveProcess,
}

impl Lru {
    fn of(kind: Kind, is_active: bool) -> Lru {
        match (kind, is_active) {
            (Kind::File, false) => Lru::InactiveFile,
            (Kind::File, true) => Lru::ActiveFile,
            (Kind::Process, false) => Lru::InactiveProcess,
            (Kind::Process, true) => Lru::ActiveProcess,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    /// Of the file system itself: often in its journal.
    is_meta: bool,
    is_referenced: bool,
    is_active: bool,
    is_dirty: bool,
    is_being_written: bool,
}

/// What is in a frame. Of a huge page the first frame says it.
#[derive(Clone, Copy)]
struct Page {
    space: u32,
    index: u32,
    /// The page of the kernel that describes it, for pages of files.
    slab: u32,
    next: u32,
    previous: u32,
    flags: Flags,
    is_there: bool,
}

#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
    count: u64,
}

const LISTS: usize = 4;
const EMPTY: Ends = Ends { first: NOWHERE, last: NOWHERE, count: 0 };

/// Pages of files that one page of the kernel describes. A file of the sources has three pages; its inode and name take
/// 1,200 bytes, buffer heads 104 for each page: 4096 / 1512 * 3.
const PAGES_PER_SLAB: u32 = 8;

/// One page of files in so many is of the file system itself: tables of inodes, directories. 15 MiB of a tree of 400.
const PAGES_PER_META: u32 = 26;
/// Of those, one in so many is in the journal when somebody wants to move it.
const IN_JOURNAL: u64 = 3;

struct Slab {
    frame: FrameId,
    live: u32,
}

/// What a look at a list has brought.
#[derive(Clone, Copy, Default, Debug)]
pub struct Shrunk {
    /// Pages looked at.
    pub scanned: u64,
    /// Frames that are free now.
    pub reclaimed: u64,
    /// Time of a CPU.
    pub ns: u64,
}

impl std::ops::AddAssign for Shrunk {
    fn add_assign(&mut self, other: Shrunk) {
        self.scanned += other.scanned;
        self.reclaimed += other.reclaimed;
        self.ns += other.ns;
    }
}

/// See above.
pub struct Memory<'a> {
    /// The allocator.
    pub node: Node<'a>,
    /// Where pages come from and go to.
    pub disk: Disk,
    /// What happened.
    pub counts: Counts,
    spaces: Vec<Option<Space>>,
    pages: Vec<Page>,
    lists: Vec<[Ends; LISTS]>,
    slabs: Vec<Slab>,
    free_slabs: Vec<u32>,
    open_slab: Option<(u32, u32)>,
    /// Pages that were written to, the oldest first.
    dirty: std::collections::VecDeque<(u32, u32)>,
    dirty_count: u64,
    /// Pages that are being written, and until when.
    in_flight: std::collections::VecDeque<(u64, Vec<(u32, u32)>)>,
    prng: Prng,
    /// Pages reclaimed so far.
    clock: u32,
    /// What became of them.
    pub working_set: WorkingSet,
}

impl<'a> Memory<'a> {
    /// All of it free.
    pub fn new(node: Node<'a>, seed: u64) -> Memory<'a> {
        let frames =
            node.zones().map(|zone| zone.shape().first.number() + zone.shape().frames()).max().unwrap_or(0);
        let page = Page {
            space: NOWHERE,
            index: 0,
            slab: NOWHERE,
            next: NOWHERE,
            previous: NOWHERE,
            flags: Flags::default(),
            is_there: false,
        };
        Memory {
            node,
            disk: Disk::default(),
            counts: Counts::default(),
            spaces: Vec::new(),
            pages: vec![page; frames as usize],
            lists: vec![[EMPTY; LISTS]; node.zones().count()],
            slabs: Vec::new(),
            free_slabs: Vec::new(),
            open_slab: None,
            dirty: std::collections::VecDeque::new(),
            dirty_count: 0,
            in_flight: std::collections::VecDeque::new(),
            prng: Prng::new(seed),
            clock: 0,
            working_set: WorkingSet::default(),
        }
    }

    fn zone_number(&self, frame: u32) -> usize {
        self.node.zones().position(|zone| zone.has(FrameId::new(frame))).expect("every frame is in a zone")
    }
    fn zone_at(&self, number: usize) -> Zone<'a> {
        *self.node.zone(number).expect("it is there")
    }

    /// A new space of so many pages, none of which is in memory.
    pub fn add_space(&mut self, kind: Kind, pages: usize) -> u32 {
        let space = Space { kind, frames: vec![NOWHERE; pages] };
        if let Some(free) = self.spaces.iter().position(Option::is_none) {
            self.spaces[free] = Some(space);
            return free as u32;
        }
        self.spaces.push(Some(space));
        self.spaces.len() as u32 - 1
    }
    /// A space.
    pub fn space(&self, space: u32) -> &Space {
        self.spaces[space as usize].as_ref().expect("it is in use")
    }
    fn space_mut(&mut self, space: u32) -> &mut Space {
        self.spaces[space as usize].as_mut().expect("it is in use")
    }
    /// Frees all its pages, and the space.
    pub fn remove_space(&mut self, space: u32) {
        for index in 0..self.space(space).frames.len() {
            self.drop_page(space, index as u32);
        }
        self.spaces[space as usize] = None;
    }
    /// Frees one of its pages, if it is in memory.
    pub fn drop_page(&mut self, space: u32, index: u32) {
        let frame = self.space(space).frames[index as usize];
        if frame < NO_FRAME && self.pages[frame as usize].is_there {
            self.free_page(frame);
        }
        self.space_mut(space).frames[index as usize] = NOWHERE;
    }

    /// A page of a space is in this frame from now on; of a huge page, in all frames of the block. `slab`: see
    /// [`Memory::slab_is_needed`].
    pub fn put_page(&mut self, space: u32, index: u32, frame: FrameId, order: u32) {
        let kind = self.space(space).kind;
        self.note_what_comes_back(space, index);
        for part in 0..1 << order {
            self.space_mut(space).frames[(index + part) as usize] = frame.number() + part;
        }
        let slab = if kind == Kind::File { self.describe() } else { NOWHERE };
        // As Linux 4.4: memory of processes starts active.
        let is_active = kind == Kind::Process;
        let is_meta = kind == Kind::File && index.is_multiple_of(PAGES_PER_META);
        let flags = Flags { is_meta, is_active, ..Flags::default() };
        self.pages[frame.index()] =
            Page { space, index, slab, next: NOWHERE, previous: NOWHERE, flags, is_there: true };
        self.list_add(frame.number());
    }

    /// A page comes into memory: would it have stayed, if the inactive pages of files had the room of the active ones
    /// too? As Linux tells it.
    fn note_what_comes_back(&mut self, space: u32, index: u32) {
        let before = self.space(space).frames[index as usize];
        let is_shadow = (NO_FRAME..SWAPPED).contains(&before);
        let distance = u64::from(self.clock.wrapping_sub(before) & CLOCK);
        let active: u64 = (0..self.lists.len()).map(|zone| self.count(zone, Lru::ActiveFile)).sum();
        if before == SWAPPED || (is_shadow && distance < active) {
            self.counts.came_back += 1;
            self.working_set.note_came_back(1);
        }
    }

    /// Whether the next page of a file needs another page of the kernel to describe it.
    pub fn slab_is_needed(&self) -> bool {
        self.open_slab.is_none_or(|(_, room)| room == 0)
    }
    /// Here is one.
    pub fn add_slab(&mut self, frame: FrameId) {
        self.close_slab();
        let slab = Slab { frame, live: 0 };
        let number = match self.free_slabs.pop() {
            Some(number) => {
                self.slabs[number as usize] = slab;
                number
            }
            None => {
                self.slabs.push(slab);
                self.slabs.len() as u32 - 1
            }
        };
        self.open_slab = Some((number, PAGES_PER_SLAB));
    }
    fn close_slab(&mut self) {
        if let Some((number, _)) = self.open_slab.take()
            && self.slabs[number as usize].live == 0
        {
            self.free_slab(number);
        }
    }
    fn describe(&mut self) -> u32 {
        match &mut self.open_slab {
            Some((number, room)) if *room > 0 => {
                *room -= 1;
                self.slabs[*number as usize].live += 1;
                *number
            }
            // There was no memory for one.
            _ => NOWHERE,
        }
    }
    fn free_slab(&mut self, number: u32) {
        self.node.give_back(0, self.slabs[number as usize].frame);
        self.free_slabs.push(number);
    }

    fn free_page(&mut self, frame: u32) {
        self.list_remove(frame);
        let page = &mut self.pages[frame as usize];
        page.is_there = false;
        let (slab, is_dirty) = (page.slab, page.flags.is_dirty);
        self.dirty_count -= u64::from(is_dirty);
        if slab != NOWHERE {
            self.slabs[slab as usize].live -= 1;
            let is_open = self.open_slab.is_some_and(|(open, _)| open == slab);
            if self.slabs[slab as usize].live == 0 && !is_open {
                self.free_slab(slab);
            }
        }
        self.node.give_back(0, FrameId::new(frame));
    }

    fn list_of(&self, frame: u32) -> (usize, usize) {
        let page = &self.pages[frame as usize];
        let kind = self.space(page.space).kind;
        (self.zone_number(frame), Lru::of(kind, page.flags.is_active) as usize)
    }
    fn list_add(&mut self, frame: u32) {
        let (zone, list) = self.list_of(frame);
        let ends = &mut self.lists[zone][list];
        let first = ends.first;
        ends.first = frame;
        if first == NOWHERE {
            ends.last = frame;
        }
        ends.count += 1;
        self.pages[frame as usize].next = first;
        self.pages[frame as usize].previous = NOWHERE;
        if first != NOWHERE {
            self.pages[first as usize].previous = frame;
        }
    }
    fn list_remove(&mut self, frame: u32) {
        let (zone, list) = self.list_of(frame);
        let Page { next, previous, .. } = self.pages[frame as usize];
        let ends = &mut self.lists[zone][list];
        ends.count -= 1;
        if previous == NOWHERE {
            ends.first = next;
        }
        if next == NOWHERE {
            ends.last = previous;
        }
        if previous != NOWHERE {
            self.pages[previous as usize].next = next;
        }
        if next != NOWHERE {
            self.pages[next as usize].previous = previous;
        }
    }
    fn relist(&mut self, frame: u32, change: impl FnOnce(&mut Flags)) {
        self.list_remove(frame);
        change(&mut self.pages[frame as usize].flags);
        self.list_add(frame);
    }
    fn count(&self, zone: usize, list: Lru) -> u64 {
        self.lists[zone][list as usize].count
    }
    /// Pages of a zone that might be reclaimed.
    pub fn reclaimable(&self, zone: usize) -> u64 {
        self.lists[zone].iter().map(|ends| ends.count).sum()
    }

    /// The page is used. False: it is not in memory.
    pub fn touch(&mut self, space: u32, index: u32) -> bool {
        let frame = self.space(space).frames[index as usize];
        if frame >= NO_FRAME {
            return false;
        }
        if !self.pages[frame as usize].is_there {
            // Inside of a huge page.
            return true;
        }
        let is_file = self.space(space).kind == Kind::File;
        let flags = self.pages[frame as usize].flags;
        if is_file && flags.is_referenced && !flags.is_active {
            // The second use of a page of a file activates it at once.
            self.relist(frame, |flags| (flags.is_active, flags.is_referenced) = (true, false));
        } else {
            self.pages[frame as usize].flags.is_referenced = true;
        }
        true
    }
    /// The page, which is in memory, is written to.
    pub fn make_dirty(&mut self, space: u32, index: u32) {
        let frame = self.space(space).frames[index as usize];
        if frame < NO_FRAME && !self.pages[frame as usize].flags.is_dirty {
            self.pages[frame as usize].flags.is_dirty = true;
            self.dirty_count += 1;
            self.dirty.push_back((space, index));
        }
    }
    /// Pages that were written to and are not on the disk.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty_count
    }

    fn frame_of_page(&self, (space, index): (u32, u32)) -> Option<u32> {
        let space = self.spaces[space as usize].as_ref()?;
        let frame = *space.frames.get(index as usize)?;
        (frame < NO_FRAME && self.pages[frame as usize].is_there).then_some(frame)
    }
    /// What was being written until now is clean.
    pub fn end_writes(&mut self, now: u64) {
        while self.in_flight.front().is_some_and(|(end, _)| *end <= now) {
            let (_, pages) = self.in_flight.pop_front().expect("there is one");
            for page in pages {
                if let Some(frame) = self.frame_of_page(page) {
                    self.pages[frame as usize].flags.is_being_written = false;
                }
            }
        }
    }
    /// Begins to write so many of the oldest dirty pages. Returns when the disk is done.
    pub fn write_some(&mut self, now: u64, count: usize) -> Option<u64> {
        let mut pages = Vec::new();
        while pages.len() < count
            && let Some(page) = self.dirty.pop_front()
        {
            if let Some(frame) = self.frame_of_page(page)
                && self.pages[frame as usize].flags.is_dirty
            {
                let flags = &mut self.pages[frame as usize].flags;
                (flags.is_dirty, flags.is_being_written) = (false, true);
                self.dirty_count -= 1;
                pages.push(page);
            }
        }
        if pages.is_empty() {
            return None;
        }
        let end = self.disk.write(now, pages.len() as u64);
        self.in_flight.push_back((end, pages));
        Some(end)
    }

    /// Looks at the lists of a zone by the part that `priority` says, until so many frames are free.
    pub fn shrink(&mut self, number: usize, priority: u32, wanted: u64, may_write: bool, now: u64) -> Shrunk {
        let mut shrunk = Shrunk::default();
        let plenty = !self.is_inactive_low(number, Kind::File)
            && self.count(number, Lru::InactiveFile) >> priority > 0;
        self.age(number, Kind::File, priority, &mut shrunk);
        let part = |count: u64| (count >> priority).max(u64::from(priority == 0) * count);
        let file = part(self.count(number, Lru::InactiveFile));
        self.scan(number, Lru::InactiveFile, file.max(32), wanted, now, &mut shrunk);
        if may_write && !plenty && shrunk.reclaimed < wanted {
            self.age(number, Kind::Process, priority, &mut shrunk);
            // As swappiness 60: three of ten.
            let process = part(self.count(number, Lru::InactiveProcess)) * 3 / 7;
            self.scan(number, Lru::InactiveProcess, process, wanted, now, &mut shrunk);
        }
        shrunk
    }

    fn is_inactive_low(&self, zone: usize, kind: Kind) -> bool {
        let inactive = self.count(zone, Lru::of(kind, false));
        let active = self.count(zone, Lru::of(kind, true));
        let gib = (inactive + active) >> 18;
        let ratio = if kind == Kind::File || gib == 0 { 1 } else { (10 * gib).isqrt() };
        inactive * ratio < active
    }
    fn age(&mut self, zone: usize, kind: Kind, priority: u32, shrunk: &mut Shrunk) {
        if !self.is_inactive_low(zone, kind) {
            return;
        }
        let count = (self.count(zone, Lru::of(kind, true)) >> priority).max(32);
        for _ in 0..count {
            let last = self.lists[zone][Lru::of(kind, true) as usize].last;
            if last == NOWHERE {
                break;
            }
            shrunk.ns += prices::LOOK_AT_PAGE_NS;
            self.relist(last, |flags| (flags.is_active, flags.is_referenced) = (false, false));
        }
    }
    fn scan(&mut self, zone: usize, list: Lru, count: u64, wanted: u64, now: u64, shrunk: &mut Shrunk) {
        for _ in 0..count.min(self.count(zone, list)) {
            if shrunk.reclaimed >= wanted {
                break;
            }
            let frame = self.lists[zone][list as usize].last;
            shrunk.scanned += 1;
            shrunk.ns += prices::LOOK_AT_PAGE_NS;
            let Page { flags, space, index, .. } = self.pages[frame as usize];
            if flags.is_referenced {
                self.relist(frame, |flags| (flags.is_active, flags.is_referenced) = (true, false));
            } else if flags.is_dirty || flags.is_being_written {
                self.relist(frame, |_| ());
            } else {
                let order = self
                    .node
                    .zone_of(FrameId::new(frame))
                    .used(FrameId::new(frame))
                    .map_or(0, |used| used.order);
                self.clock = self.clock.wrapping_add(1) & CLOCK;
                let to = if list == Lru::InactiveProcess { SWAPPED } else { NO_FRAME | self.clock };
                if to == SWAPPED {
                    self.disk.write(now, 1 << order);
                    self.counts.swapped_out += 1 << order;
                }
                self.free_page(frame);
                for part in 0..1 << order {
                    self.space_mut(space).frames[(index + part) as usize] = to;
                }
                self.working_set.note_reclaimed(1 << order);
                shrunk.reclaimed += 1 << order;
                shrunk.ns += prices::FREE_PAGE_NS << order;
            }
        }
    }

    /// Tries to move a page. One that is being written, or in the journal, cannot be.
    pub fn try_move(&mut self, one: Move) -> Moved {
        let (from, to) = (one.from.number(), one.to.number());
        let page = self.pages[from as usize];
        let is_in_journal = page.flags.is_meta && self.prng.chance(1, IN_JOURNAL);
        if page.is_there && (page.flags.is_being_written || is_in_journal) {
            return Moved::Busy;
        }
        if page.is_there {
            self.list_remove(from);
            self.pages[from as usize].is_there = false;
            self.pages[to as usize] = page;
            for part in 0..1 << one.order {
                self.space_mut(page.space).frames[(page.index + part) as usize] = to + part;
            }
            self.list_add(to);
        }
        Moved::Yes
    }

    /// Drops all clean pages of files, and what describes them.
    pub fn drop_caches(&mut self) {
        for frame in 0..self.pages.len() as u32 {
            let Page { space, index, flags, is_there, .. } = self.pages[frame as usize];
            let is_file = is_there && self.space(space).kind == Kind::File;
            if is_file && !flags.is_dirty && !flags.is_being_written {
                self.drop_page(space, index);
            }
        }
        self.close_slab();
    }

    /// Frames in blocks in which something cannot be moved.
    pub fn blocks_with_pinned(&self) -> u32 {
        let in_zone = |zone: &Zone<'_>| {
            (0..zone.shape().blocks).filter(|&block| zone.block(block).pinned > 0).count() as u32
        };
        self.node.zones().map(in_zone).sum()
    }
    /// The zone with this number, and its frames.
    pub fn zone(&self, number: usize) -> Zone<'a> {
        self.zone_at(number)
    }

    /// Compares what spaces and frames say, for tests.
    pub fn check(&self) {
        for (number, space) in self.spaces.iter().enumerate() {
            let Some(space) = space else { continue };
            for (index, &frame) in space.frames.iter().enumerate().filter(|&(_, &frame)| frame < NO_FRAME) {
                let page = &self.pages[frame as usize];
                if page.is_there {
                    assert_eq!((page.space, page.index), (number as u32, index as u32));
                    assert!(self.node.zone_of(FrameId::new(frame)).used(FrameId::new(frame)).is_some());
                } else {
                    let head = &self.pages[(frame / BLOCK_FRAMES * BLOCK_FRAMES) as usize];
                    assert!(head.is_there && head.space == number as u32, "inside of a huge page");
                }
            }
        }
    }
}
