//! What each page of a thread must hold, kept in shared memory: uswap manages private memory only, so the judge's
//! own notes cannot be what is damaged.
//!
//! What must hold: a table is written by its own thread only. A child of fork reads the *snapshot* that its
//! thread took just before the fork, because the live table goes on changing. Called by every operation of churn.

use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory::{self, map_shared};
use uswap_test_programs::message::end_process;
use uswap_test_programs::pattern::{Key, Page};
use uswap_test_programs::random::mix;

/// Ranges a thread can own at once.
pub const RECORDS: usize = 160;
/// Pages of the largest range: 16 MiB.
pub const PAGES_MAX: usize = 4096;

/// What one page must hold.
///
/// ```text
/// | number 63..32 | 0 31..16 | stamp 15..8 | 0 7..4 | no access 3 | read only 2 | state 1..0 |
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

/// The state bits of a `Word`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Never written, and not promised to be zero (fresh malloc).
    Unknown,
    /// Must read as zeros.
    Zero,
    /// Must hold the content with the word's number and stamp.
    Written,
    /// MADV_FREE was called: the content, or zeros.
    Freed,
}

impl Word {
    pub const UNKNOWN: Word = Word(0);
    pub const ZERO: Word = Word(1);
    pub const READ_ONLY: u64 = 1 << 2;
    pub const NO_ACCESS: u64 = 1 << 3;

    pub fn written(number: u32) -> Word {
        Word((u64::from(number) << 32) | 2)
    }
    pub fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Unknown,
            1 => State::Zero,
            2 => State::Written,
            _ => State::Freed,
        }
    }
    pub fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
    pub fn stamp(self) -> u8 {
        (self.0 >> 8) as u8
    }
    pub fn stamped(self) -> Word {
        Word((self.0 & !0xFF00) | (u64::from(self.stamp().wrapping_add(1)) << 8))
    }
    pub fn freed(self) -> Word {
        if self.state() == State::Written { Word(self.0 | 3) } else { self }
    }
    pub fn readable(self) -> bool {
        self.0 & Word::NO_ACCESS == 0
    }
    pub fn writable(self) -> bool {
        self.0 & (Word::NO_ACCESS | Word::READ_ONLY) == 0
    }
    pub fn with_access(self, bits: u64) -> Word {
        Word((self.0 & !(Word::NO_ACCESS | Word::READ_ONLY)) | bits)
    }
}

/// Where a record's memory came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Origin {
    Nothing = 0,
    Mapping = 1,
    Malloc = 2,
}

/// One range of pages.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Record {
    pub origin: Origin,
    pub pages: u32,
    pub address: usize,
    /// Its protection was changed in part: the kernel may see several mappings for ever, which mremap refuses.
    pub split: bool,
}

impl Record {
    pub fn bytes(&self) -> usize {
        self.pages as usize * PAGE_BYTES
    }
    pub fn page_address(&self, page: usize) -> usize {
        self.address + page * PAGE_BYTES
    }
}

/// All ranges of one thread.
#[repr(C)]
pub struct Table {
    pub seed: u64,
    pub thread: u32,
    /// The last content number given out.
    pub number: u32,
    /// Operations done, over all incarnations of the thread.
    pub operation: u64,
    /// Which operation is running: index into the list of operation names.
    pub running: u32,
    pub incarnation: u32,
    pub counts: [u64; 32],
    pub records: [Record; RECORDS],
    words: [[Word; PAGES_MAX]; RECORDS],
}

impl Table {
    /// Makes an empty table in shared memory. It is never given back.
    pub fn new(seed: u64, thread: u32) -> &'static mut Table {
        let address = map_shared(size_of::<Table>()).unwrap_or_else(|error| {
            end_process(1, format_args!("FAIL no memory for a table: errno {error}"))
        });
        // SAFETY:
        // 1. The mapping is fresh, page-aligned, as large as `Table`, and is never unmapped.
        // 2. All zero bytes are a valid `Table`: `Origin::Nothing` is 0 and the rest are integers.
        // 3. Nobody else has the address.
        let table = unsafe { &mut *(address as *mut Table) };
        table.seed = seed;
        table.thread = thread;
        table
    }

    /// Copies what a child needs from `live`.
    pub fn take_snapshot(&mut self, live: &Table) {
        self.number = live.number;
        self.operation = live.operation;
        self.records = live.records;
        for (index, record) in live.records.iter().enumerate() {
            let pages = record.pages as usize;
            if record.origin != Origin::Nothing {
                self.words[index][..pages].copy_from_slice(&live.words[index][..pages]);
            }
        }
    }

    pub fn next_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// The words of the pages of a record.
    pub fn words(&mut self, record: usize) -> &mut [Word] {
        let pages = self.records[record].pages as usize;
        &mut self.words[record][..pages]
    }

    pub fn word(&self, record: usize, page: usize) -> Word {
        self.words[record][page]
    }

    pub fn set_word(&mut self, record: usize, page: usize, word: Word) {
        self.words[record][page] = word;
    }

    /// Uses a free record for a new range whose pages are all in the state `word`.
    pub fn add(&mut self, origin: Origin, address: usize, pages: usize, word: Word) -> Option<usize> {
        let index = self.free_record()?;
        self.records[index] = Record { origin, pages: pages as u32, address, split: false };
        self.words(index).fill(word);
        Some(index)
    }

    pub fn free_record(&self) -> Option<usize> {
        self.records.iter().position(|record| record.origin == Origin::Nothing)
    }

    pub fn remove(&mut self, record: usize) {
        self.records[record] = Record { origin: Origin::Nothing, pages: 0, address: 0, split: false };
    }

    /// Changes the length of a record; new pages are in the state `word`.
    pub fn resize(&mut self, record: usize, address: usize, pages: usize, word: Word) {
        let old_pages = self.records[record].pages as usize;
        self.records[record].address = address;
        self.records[record].pages = pages as u32;
        if pages > old_pages {
            self.words[record][old_pages..pages].fill(word);
        }
    }

    /// Takes pages `start..end` out of a record. What is behind them becomes a record of its own; the caller has
    /// made sure that one is free.
    pub fn cut(&mut self, record: usize, start: usize, end: usize) {
        let whole = self.records[record];
        let pages = whole.pages as usize;
        if end < pages {
            let tail = self.free_record().expect("the caller has seen a free record");
            self.records[tail] =
                Record { pages: (pages - end) as u32, address: whole.page_address(end), ..whole };
            let (from, to) = (self.words[record], &mut self.words[tail]);
            to[..pages - end].copy_from_slice(&from[end..pages]);
        }
        if start == 0 {
            self.remove(record);
        } else {
            self.records[record].pages = start as u32;
        }
    }

    /// The record and the page that an address belongs to.
    pub fn page_at(&self, address: usize) -> Option<(usize, usize)> {
        self.records.iter().enumerate().find_map(|(index, record)| {
            let offset = address.checked_sub(record.address).filter(|offset| *offset < record.bytes())?;
            Some((index, offset / PAGE_BYTES))
        })
    }

    /// Where the page with this content number is.
    pub fn address_of(&self, number: u32) -> Option<usize> {
        self.records.iter().zip(&self.words).find_map(|(record, words)| {
            let page = words[..record.pages as usize].iter().position(|word| word.number() == number)?;
            Some(record.page_address(page))
        })
    }

    /// Bytes in all ranges.
    pub fn bytes(&self) -> usize {
        self.records.iter().map(Record::bytes).sum()
    }
}

/// Writes the expected content of a page into `page`. `Unknown` gives nothing.
pub fn expected(seed: u64, writer: u32, word: Word, page: &mut Page) {
    if matches!(word.state(), State::Written | State::Freed) {
        Key { seed, writer, number: word.number() }.fill(page);
        if word.stamp() != 0 {
            let (offset, value) = stamp(word);
            page[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        }
    } else {
        page.fill(0);
    }
}

/// Where the stamp of a word is in its page, and its value.
pub fn stamp(word: Word) -> (usize, u64) {
    let place = mix(u64::from(word.number()) ^ 0x57A3);
    (8 + 8 * (place % 511) as usize, mix((u64::from(word.number()) << 8) | u64::from(word.stamp())))
}

/// What a page turned out to hold.
pub enum Found {
    AsExpected,
    /// Zeros where `Freed` allows it: from now on the page must stay zero.
    GoneAfterFree,
}

/// Reads a page and compares it with its word; a mismatch ends the process.
pub fn verify(table: &Table, who: &str, writer: u32, address: usize, word: Word) -> Found {
    if word.state() == State::Unknown || !word.readable() {
        return Found::AsExpected;
    }
    let mut found = [0; PAGE_BYTES];
    memory::copy_page_out(address, &mut found);
    verify_copy(table, who, writer, address, word, &found)
}

/// Compares a copy of a page with its word; a mismatch ends the process.
pub fn verify_copy(table: &Table, who: &str, writer: u32, address: usize, word: Word, found: &Page) -> Found {
    let mut wanted = [0; PAGE_BYTES];
    expected(table.seed, writer, word, &mut wanted);
    if *found == wanted {
        return Found::AsExpected;
    }
    if word.state() == State::Freed && found.iter().all(|&byte| byte == 0) {
        return Found::GoneAfterFree;
    }
    super::report::mismatch(&super::report::Mismatch {
        table,
        who,
        writer,
        address,
        word,
        wanted: &wanted,
        found,
    })
}
