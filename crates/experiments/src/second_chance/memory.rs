//! Memory under one limit: pages in RAM on two lists, compressed in the pool, or on the disk; and reclaim, which makes
//! room when a page more would be too much.
//!
//! As Linux 6.18 does it for a group of processes with zswap: new pages are inactive; a page that was touched twice
//! between looks of reclaim becomes active, and so does one that comes back soon; what goes is compressed; behind each
//! look at the lists the pool's rule is driven with the same priority. A page that came from the disk and was not
//! written to since only drops its memory.

use super::lists::{Linked, Links, List};
use super::prices::{Disk, PRICES};
use super::shrinker::{Absence, BATCH, Pass, Pool, Shrinker, Visit, Why};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
/// Pages that one reclaim frees before it looks at the limit again.
const RECLAIM_PAGES: u64 = 32;
/// Reclaim begins with one part in 2^12 of the lists.
const FIRST_PRIORITY: u32 = 12;
/// Pages that come along with a fault, at most.
const WINDOW_MAX: u64 = 8;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Never touched, or freed.
    Nowhere,
    Inactive,
    Active,
    Pool,
    Disk,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    links: Links,
    place: Place,
    /// Compressed, in bytes.
    length: u16,
    /// Touched since reclaim looked.
    accessed: bool,
    /// Reclaim saw it touched once. In the pool: stored since the hand passed.
    referenced: bool,
    /// As it is on the disk too.
    has_copy: bool,
    /// It came along with another and was not used yet.
    ahead: bool,
    /// Nobody wants it again once it was touched.
    cold: bool,
    /// The number that it had when it was written.
    written: u64,
    /// Count of what left the lists when it did.
    left_at: u64,
}

impl Linked for Page {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// How a page is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// It stays as it is.
    Read,
    /// It differs from any copy afterwards.
    Write,
}

/// What a range of pages remembers of the order in which it is touched, for what comes along.
#[derive(Clone, Copy, Debug)]
pub struct Readahead {
    last: u64,
    window: u64,
    hits: u64,
}

impl Default for Readahead {
    fn default() -> Self {
        Readahead { last: u64::MAX, window: 0, hits: 4 }
    }
}

impl Readahead {
    /// Pages to bring in with a fault at `index`, itself included, and the first of them. Linux: by the order within a
    /// mapping.
    fn range(&mut self, index: u64, length: u64) -> std::ops::Range<u64> {
        let next = index.wrapping_sub(self.last) == 1;
        let before = self.last.wrapping_sub(index) == 1;
        let wanted = match self.hits {
            0 if next || before => 2,
            0 => 1,
            hits => (hits + 2).max(4).next_power_of_two(),
        };
        let window = wanted.min(WINDOW_MAX).max(self.window / 2);
        *self = Readahead { last: index, window, hits: 0 };
        let start = if next {
            index
        } else if before {
            (index + 1).saturating_sub(window)
        } else {
            index.saturating_sub((window - 1) / 2)
        };
        start..(start + window).min(length)
    }

    fn hit(&mut self, index: u64) {
        self.last = index;
        self.hits = (self.hits + 1).min(63);
    }
}

/// What happened.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Pages that were read from the disk.
    pub from_disk: u64,
    /// Of those, pages that somebody waited for.
    pub asked_from_disk: u64,
    /// Pages that were decompressed out of the pool.
    pub from_pool: u64,
    /// Pages that were compressed.
    pub stored: u64,
    /// Pages that went from the pool to the disk.
    pub written: u64,
    /// Of those, pages that nobody wants again.
    pub cold_written: u64,
}

/// The memory.
pub struct Memory<S> {
    pages: Vec<Page>,
    free: Vec<u32>,
    inactive: List,
    active: List,
    pool: List,
    pool_bytes: u64,
    limit_bytes: u64,
    /// Pages that left the lists or became active.
    age: u64,
    disk: Disk,
    shrinker: S,
    counts: Counts,
}

impl<S: Shrinker> Memory<S> {
    /// Nothing is in it.
    pub fn new(limit_bytes: u64, disk: Disk, shrinker: S) -> Memory<S> {
        Memory {
            pages: Vec::new(),
            free: Vec::new(),
            inactive: List::default(),
            active: List::default(),
            pool: List::default(),
            pool_bytes: 0,
            limit_bytes,
            age: 0,
            disk,
            shrinker,
            counts: Counts::default(),
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that count against the limit.
    pub fn used_bytes(&self) -> u64 {
        (self.inactive.length() + self.active.length()) * PAGE_BYTES + self.pool_bytes
    }

    /// A page that was never touched, and takes so many bytes when it is compressed.
    pub fn allocate(&mut self, length: u16, cold: bool) -> u32 {
        let page = Page {
            links: Links::default(),
            place: Place::Nowhere,
            length,
            accessed: false,
            referenced: false,
            has_copy: false,
            ahead: false,
            cold,
            written: 0,
            left_at: 0,
        };
        if let Some(index) = self.free.pop() {
            self.pages[index as usize] = page;
            return index;
        }
        self.pages.push(page);
        self.pages.len() as u32 - 1
    }

    /// The page is not needed any more.
    pub fn free(&mut self, page: u32) {
        self.take_out(page);
        self.pages[page as usize].place = Place::Nowhere;
        self.free.push(page);
    }

    fn take_out(&mut self, page: u32) {
        let Page { place, length, .. } = self.pages[page as usize];
        match place {
            Place::Nowhere | Place::Disk => (),
            Place::Inactive => self.inactive.remove(&mut self.pages, page),
            Place::Active => self.active.remove(&mut self.pages, page),
            Place::Pool => {
                self.pool.remove(&mut self.pages, page);
                self.pool_bytes -= u64::from(length);
            }
        }
    }

    fn put_in(&mut self, page: u32, place: Place) {
        self.pages[page as usize].place = place;
        match place {
            Place::Nowhere | Place::Disk => (),
            Place::Inactive => self.inactive.add(&mut self.pages, page),
            Place::Active => self.active.add(&mut self.pages, page),
            Place::Pool => {
                self.pool.add(&mut self.pages, page);
                self.pool_bytes += u64::from(self.pages[page as usize].length);
            }
        }
    }

    /// Touches the page at `index` of `range`, whose order `ahead` remembers. The time at which that is done.
    pub fn touch(
        &mut self,
        range: &[u32],
        index: u64,
        ahead: &mut Readahead,
        touch: Touch,
        now_ns: u64,
    ) -> u64 {
        let page = range[index as usize];
        let mut now_ns = now_ns;
        let state = self.pages[page as usize];
        match state.place {
            Place::Inactive | Place::Active => {
                if state.ahead {
                    now_ns += PRICES.fault_ns;
                    ahead.hit(index);
                    self.pages[page as usize].ahead = false;
                    if state.has_copy {
                        self.shrinker.ahead_used(self.absence(page));
                    }
                }
            }
            Place::Nowhere => {
                now_ns = self.make_room(now_ns + PRICES.fault_ns);
                self.put_in(page, Place::Inactive);
            }
            Place::Pool | Place::Disk => {
                self.shrinker.asked();
                now_ns = self.bring_in(page, Why::Asked, now_ns + PRICES.fault_ns);
                for other in ahead.range(index, range.len() as u64) {
                    let other = range[other as usize];
                    if matches!(self.pages[other as usize].place, Place::Pool | Place::Disk) {
                        now_ns = self.bring_in(other, Why::Ahead, now_ns);
                    }
                }
            }
        }
        let state = &mut self.pages[page as usize];
        state.accessed = true;
        state.has_copy &= touch == Touch::Read;
        now_ns
    }

    fn absence(&self, page: u32) -> Absence {
        let (last_written, entries) = (self.counts.written, self.pool.length());
        Absence { written: self.pages[page as usize].written, last_written, entries }
    }

    /// Brings a page back. What comes ahead is not waited for.
    fn bring_in(&mut self, page: u32, why: Why, now_ns: u64) -> u64 {
        // Room first: reclaim may write the very page to the disk.
        let mut now_ns = self.make_room(now_ns);
        let state = self.pages[page as usize];
        self.take_out(page);
        if state.place == Place::Disk {
            let done_ns = self.disk.read(now_ns);
            self.counts.from_disk += 1;
            if why == Why::Asked {
                self.counts.asked_from_disk += 1;
                now_ns = done_ns;
            }
            self.shrinker.came_from_disk(why, self.absence(page));
        } else {
            self.counts.from_pool += 1;
            now_ns += PRICES.decompress_ns;
        }
        let comes_soon = self.age - state.left_at <= self.active.length();
        let next = &mut self.pages[page as usize];
        next.has_copy = state.place == Place::Disk;
        (next.ahead, next.referenced) = (why == Why::Ahead, false);
        if comes_soon {
            self.age += 1;
        }
        self.put_in(page, if comes_soon { Place::Active } else { Place::Inactive });
        now_ns
    }

    /// Reclaims until there is room for a page.
    fn make_room(&mut self, mut now_ns: u64) -> u64 {
        while self.used_bytes() + PAGE_BYTES > self.limit_bytes {
            let mut freed = 0;
            for priority in (0..=FIRST_PRIORITY).rev() {
                let in_ram = self.inactive.length() + self.active.length();
                let wanted = RECLAIM_PAGES.saturating_sub(freed);
                let taken = self.look_at_lists(priority, wanted, &mut now_ns);
                freed += taken;
                now_ns = self.drive_shrinker(Pass { now_ns, priority, taken, in_ram });
                if freed >= RECLAIM_PAGES {
                    break;
                }
            }
            assert!(freed > 0, "something can be reclaimed");
        }
        now_ns
    }

    /// The inactive list is short for the size of memory.
    fn inactive_is_low(&self) -> bool {
        let gib = ((self.inactive.length() + self.active.length()) * PAGE_BYTES) >> 30;
        let ratio = if gib == 0 { 1 } else { (10 * gib).isqrt() };
        self.inactive.length() * ratio < self.active.length()
    }

    /// Looks at the oldest pages of both lists, one part in `1 << priority`; how many were freed. Beyond the first
    /// priority it ends when enough are.
    fn look_at_lists(&mut self, priority: u32, wanted: u64, now_ns: &mut u64) -> u64 {
        if self.inactive_is_low() {
            self.deactivate(self.active.length() >> priority, now_ns);
        }
        let looks = self.inactive.length() >> priority;
        let mut freed = 0;
        for _ in 0..looks {
            if priority < FIRST_PRIORITY && freed >= wanted {
                break;
            }
            let Some(page) = self.inactive.oldest() else { break };
            *now_ns += PRICES.look_ns;
            self.inactive.remove(&mut self.pages, page);
            let state = &mut self.pages[page as usize];
            if std::mem::take(&mut state.accessed) {
                let is_second = std::mem::replace(&mut state.referenced, true);
                self.age += u64::from(is_second);
                self.put_in(page, if is_second { Place::Active } else { Place::Inactive });
                continue;
            }
            *now_ns = self.evict(page, *now_ns);
            freed += 1;
        }
        if self.inactive_is_low() {
            self.deactivate(RECLAIM_PAGES, now_ns);
        }
        freed
    }

    fn deactivate(&mut self, looks: u64, now_ns: &mut u64) {
        for _ in 0..looks {
            let Some(page) = self.active.oldest() else { return };
            *now_ns += PRICES.look_ns;
            self.active.remove(&mut self.pages, page);
            let state = &mut self.pages[page as usize];
            (state.accessed, state.referenced) = (false, false);
            self.put_in(page, Place::Inactive);
        }
    }

    /// A page that is on no list leaves RAM.
    fn evict(&mut self, page: u32, mut now_ns: u64) -> u64 {
        now_ns += PRICES.unmap_ns;
        self.age += 1;
        let absence = self.absence(page);
        let state = &mut self.pages[page as usize];
        state.left_at = self.age;
        let was_used = !std::mem::take(&mut state.ahead);
        if state.has_copy && !(was_used && self.shrinker.promotes(absence)) {
            self.put_in(page, Place::Disk);
            return now_ns;
        }
        (state.has_copy, state.referenced) = (false, true);
        self.put_in(page, Place::Pool);
        self.counts.stored += 1;
        self.shrinker.stored(self.pool.length());
        now_ns + PRICES.compress_ns
    }

    fn drive_shrinker(&mut self, pass: Pass) -> u64 {
        let pool = Pool { entries: self.pool.length(), pages: self.pool_bytes / PAGE_BYTES };
        let wanted = self.shrinker.begin(pool, pass);
        let (mut now_ns, mut visits, mut written_before) = (pass.now_ns, 0, None);
        while visits < wanted {
            let batch = (wanted - visits).min(BATCH);
            if !self.shrinker.may_go_on(self.pool.length(), batch, written_before) {
                break;
            }
            let before = self.counts.written;
            for _ in 0..batch {
                now_ns = self.pass_oldest(now_ns);
            }
            written_before = Some(self.counts.written - before);
            visits += batch;
        }
        self.shrinker.end(visits, now_ns);
        now_ns
    }

    /// The hand passes the oldest entry of the pool.
    fn pass_oldest(&mut self, now_ns: u64) -> u64 {
        let Some(page) = self.pool.oldest() else { return now_ns };
        let now_ns = now_ns + PRICES.look_ns;
        self.take_out(page);
        let state = &mut self.pages[page as usize];
        if self.shrinker.visit(std::mem::take(&mut state.referenced)) == Visit::Spare {
            self.put_in(page, Place::Pool);
            return now_ns;
        }
        self.counts.written += 1;
        self.counts.cold_written += u64::from(state.cold);
        state.written = self.counts.written;
        self.put_in(page, Place::Disk);
        self.disk.write(now_ns);
        now_ns + PRICES.decompress_ns + PRICES.submit_ns
    }
}
