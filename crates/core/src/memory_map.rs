//! A memory map: which parts of the memory of one process are where, as counts in buckets.
//!
//! How many pages there are is not known before the end of a walk, while the program maps and unmaps. So buckets begin
//! small, and whenever the table is full two and two become one, of twice the size.
//!
//! Must hold: pages are added in the order of addresses, each at most once. So a bucket covers managed pages that
//! follow each other, as many as every other but the last. Called by `engine`, which counts ([`MapWriter`]), and by the
//! supervisor, which reads ([`read`]); in between is a [`MapTable`].

use crate::map_table::{MapRequest, MapTable, Withdrawn};
use uswap_units::PageId;

/// Buckets of a map: more than a terminal or a page has room for.
pub const BUCKETS_MAX: usize = 256;

/// Pages of a bucket at first: 64 KiB, as the smallest mapping that is managed.
const BUCKET_PAGES_MIN: u64 = 16;

/// Kinds of pages.
pub const KINDS: usize = 6;

/// First page, end, pages of each kind, recent ones.
const BUCKET_WORDS: usize = 2 + KINDS + 1;

/// In front of the buckets: how many there are.
const COUNT: usize = 0;

/// Words of the table.
pub(crate) const TABLE_WORDS: usize = 1 + BUCKETS_MAX * BUCKET_WORDS;

/// Where a page is, and how warm if it is in RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum PageKind {
    /// Nothing is stored, and nothing is mapped there, or only the kernel's page of zeros: it reads as zeros.
    Untouched,
    /// In RAM, and the clock hand passes it by, in some rounds at least: it came back soon after it had gone, did not
    /// compress when it was tried, or may not be evicted.
    Warm,
    /// In RAM, and the hand may take it when it comes by next. That nothing speaks for it does not say that nobody uses
    /// it: a page that never went is one of these.
    Cold,
    /// Compressed in the pool.
    Pool,
    /// In a swap file, or lost there.
    File,
    /// One value again and again, which takes no room.
    SameFilled,
}

/// Whether a page is stored, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// It is not, or it went long ago.
    NotLately,
    /// It is, and went so lately that it would still be here if there were twice the RAM.
    Lately,
}

/// A part of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// The first of its pages.
    pub start: PageId,
    /// Behind the last of them. What is not managed may lie in between.
    pub end: PageId,
    /// Pages of each kind, by [`PageKind`].
    pub pages: [u64; KINDS],
    /// Of those that are stored, the ones that went so lately that they would still be here if there were twice the
    /// RAM.
    pub recent: u64,
}

impl Bucket {
    fn new(start: PageId) -> Bucket {
        Bucket { start, end: start, pages: [0; KINDS], recent: 0 }
    }
    /// Pages of it.
    pub fn len(&self) -> u64 {
        self.pages.iter().sum()
    }
    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Together with the next one.
    fn joined(self, next: Bucket) -> Bucket {
        Bucket {
            start: self.start,
            end: next.end,
            pages: core::array::from_fn(|kind| self.pages[kind] + next.pages[kind]),
            recent: self.recent + next.recent,
        }
    }
    fn words(&self) -> [u64; BUCKET_WORDS] {
        let mut words = [0; BUCKET_WORDS];
        [words[0], words[1]] = [self.start.number(), self.end.number()];
        words[2..2 + KINDS].copy_from_slice(&self.pages);
        words[2 + KINDS] = self.recent;
        words
    }
    fn from_words(words: [u64; BUCKET_WORDS]) -> Bucket {
        Bucket {
            start: PageId::new(words[0]),
            end: PageId::new(words[1]),
            pages: core::array::from_fn(|kind| words[2 + kind]),
            recent: words[2 + KINDS],
        }
    }
}

fn get(table: MapTable<'_>, request: MapRequest, index: usize) -> Option<Bucket> {
    let mut words = [0; BUCKET_WORDS];
    for (at, word) in words.iter_mut().enumerate() {
        *word = table.get(request, 1 + index * BUCKET_WORDS + at)?;
    }
    Some(Bucket::from_words(words))
}

fn put(table: MapTable<'_>, request: MapRequest, index: usize, bucket: &Bucket) -> Result<(), Withdrawn> {
    for (at, word) in bucket.words().into_iter().enumerate() {
        table.put(request, 1 + index * BUCKET_WORDS + at, word)?;
    }
    Ok(())
}

/// The buckets of an answer that is complete, in the order of addresses.
pub fn read(table: MapTable<'_>, request: MapRequest) -> impl Iterator<Item = Bucket> {
    let count = table.get(request, COUNT).unwrap_or(0) as usize;
    (0..count).map_while(move |index| get(table, request, index))
}

/// A map that is being made.
pub struct MapWriter<'a> {
    table: MapTable<'a>,
    request: MapRequest,
    /// Buckets that are in the table.
    count: usize,
    bucket_pages: u64,
    /// The one that is not full yet.
    last: Option<Bucket>,
}

impl<'a> MapWriter<'a> {
    /// An empty map, as the answer to a request.
    pub fn new(table: MapTable<'a>, request: MapRequest) -> MapWriter<'a> {
        MapWriter { table, request, count: 0, bucket_pages: BUCKET_PAGES_MIN, last: None }
    }

    /// What it answers.
    pub fn request(&self) -> MapRequest {
        self.request
    }

    fn capacity(&self) -> usize {
        (self.table.len() - 1) / BUCKET_WORDS
    }

    /// Counts a page; they come in the order of addresses.
    ///
    /// # Errors
    /// Nobody waits for the map any more.
    pub fn add(&mut self, page: PageId, kind: PageKind, stored: Stored) -> Result<(), Withdrawn> {
        let last = self.last.get_or_insert(Bucket::new(page));
        last.end = page.plus(1);
        last.pages[kind as usize] += 1;
        last.recent += u64::from(stored == Stored::Lately);
        if last.len() < self.bucket_pages { Ok(()) } else { self.put_last() }
    }

    fn put_last(&mut self) -> Result<(), Withdrawn> {
        if self.count == self.capacity() {
            self.join_pairs()?;
            if self.last.is_some_and(|last| last.len() < self.bucket_pages) {
                return Ok(());
            }
        }
        if let Some(last) = self.last.take() {
            put(self.table, self.request, self.count, &last)?;
            self.count += 1;
        }
        Ok(())
    }

    /// Half as many buckets, of twice the size. One that is left over is the last again.
    fn join_pairs(&mut self) -> Result<(), Withdrawn> {
        let at = |index| get(self.table, self.request, index).ok_or(Withdrawn);
        for index in 0..self.count / 2 {
            put(self.table, self.request, index, &at(2 * index)?.joined(at(2 * index + 1)?))?;
        }
        if !self.count.is_multiple_of(2) {
            let left = at(self.count - 1)?;
            self.last = Some(self.last.map_or(left, |last| left.joined(last)));
        }
        self.count /= 2;
        self.bucket_pages *= 2;
        Ok(())
    }

    /// All pages were counted: the map is complete.
    ///
    /// # Errors
    /// Nobody waits for it any more.
    pub fn finish(mut self) -> Result<(), Withdrawn> {
        if self.last.is_some() {
            // The last one may be short, and there is room for it then.
            if self.count == self.capacity() {
                self.join_pairs()?;
            }
            if let Some(last) = self.last.take() {
                put(self.table, self.request, self.count, &last)?;
                self.count += 1;
            }
        }
        self.table.put(self.request, COUNT, self.count as u64)?;
        self.table.publish(self.request);
        Ok(())
    }
}

const _: () = assert!(BUCKETS_MAX.is_multiple_of(2));
