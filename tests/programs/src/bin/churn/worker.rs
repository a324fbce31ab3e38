//! One thread of churn: picks operations by weight and keeps its table true.

use crate::table::{Found, Origin, RECORDS, Table, Word, expected, verify};
use crate::{family, kernel, ranges};
use std::sync::OnceLock;
use std::time::Instant;
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory;
use uswap_test_programs::message::end_process;
use uswap_test_programs::pattern::Page;
use uswap_test_programs::random::{Random, mix};

type Operation = fn(&mut Worker);

/// Name, weight and function of each operation.
const OPERATIONS: [(&str, u32, Operation); 22] = [
    ("write", 2500, write_pages),
    ("stamp", 1200, stamp_pages),
    ("read", 3500, read_pages),
    ("verify_all_of_one", 60, verify_one),
    ("read_shared_by_threads", 400, read_common),
    ("map", 60, ranges::map_new),
    ("unmap", 40, ranges::unmap_whole),
    ("unmap_part", 40, ranges::unmap_part),
    ("remap_resize", 60, ranges::remap_resize),
    ("remap_move", 30, ranges::remap_move),
    ("remap_leave_old", 15, ranges::remap_leave_old),
    ("dontneed", 60, ranges::drop_part),
    ("free", 60, ranges::free_part),
    ("protect", 60, ranges::protect_part),
    ("unprotect", 60, ranges::unprotect_whole),
    ("malloc", 60, ranges::malloc_new),
    ("realloc", 40, ranges::realloc_one),
    ("pipe", 200, kernel::through_pipe),
    ("file", 60, kernel::through_file),
    ("direct_file", 20, kernel::through_direct_file),
    ("futex", 60, kernel::futex_wait),
    ("family", 8, family::fork_something),
];

/// The operations' names, in the order of the counters.
pub const NAMES: [&str; OPERATIONS.len()] = {
    let mut names = [""; OPERATIONS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = OPERATIONS[index].0;
        index += 1;
    }
    names
};

/// True for operations that `CHURN_WITHOUT=name,name` leaves out: to find which one a failure needs.
fn left_out(name: &str) -> bool {
    static WITHOUT: OnceLock<String> = OnceLock::new();
    let without = WITHOUT.get_or_init(|| std::env::var("CHURN_WITHOUT").unwrap_or_default());
    without.split(',').any(|left_out| left_out == name)
}

/// What all threads share.
pub struct Common {
    /// Private pages written once at the start and then only read, by all threads and all children.
    pub address: usize,
    pub pages: usize,
    /// Directory of temporary files.
    pub directory: String,
    /// When to stop.
    pub deadline: Instant,
    /// Bytes that one thread tries to own.
    pub bytes_per_thread: usize,
}

/// The writer number of the common pages.
pub const COMMON_WRITER: u32 = 0xFF;

/// A running thread.
pub struct Worker {
    pub table: &'static mut Table,
    pub snapshot: &'static mut Table,
    pub random: Random,
    pub common: &'static Common,
    pub files: kernel::Files,
    pub child: Option<family::Child>,
}

impl Worker {
    /// Runs operations until the deadline or until this incarnation has done enough; verifies everything at the end.
    pub fn run(table: &'static mut Table, snapshot: &'static mut Table, common: &'static Common) {
        table.incarnation += 1;
        let seed = mix(table.seed ^ mix(u64::from(table.thread) << 32 | u64::from(table.incarnation)));
        let mut random = Random::new(seed);
        let mut operations_left = 500 + random.below(8000);
        let files = kernel::Files::open(&common.directory);
        let mut worker = Worker { table, snapshot, random, common, files, child: None };
        while Instant::now() < common.deadline && operations_left > 0 {
            operations_left -= 1;
            worker.step();
        }
        family::reap(&mut worker);
        if Instant::now() >= common.deadline {
            worker.verify_everything();
            ranges::give_all_back(&mut worker);
        }
    }

    fn step(&mut self) {
        let owned = self.table.bytes();
        let weight_of = |&(name, weight, _): &(&str, u32, Operation)| match left_out(name) {
            true => 0,
            false => u64::from(weight),
        };
        let mut choice = self.random.below(OPERATIONS.iter().map(weight_of).sum());
        let mut index = 0;
        while choice >= weight_of(&OPERATIONS[index]) {
            choice -= weight_of(&OPERATIONS[index]);
            index += 1;
        }
        if owned < self.common.bytes_per_thread / 10 * 9 {
            index = if self.random.one_in(4) { named("malloc") } else { named("map") };
        } else if owned > self.common.bytes_per_thread {
            index = if self.random.one_in(2) { named("unmap_part") } else { named("unmap") };
        }
        self.table.operation += 1;
        self.table.running = index as u32;
        self.table.counts[index] += 1;
        (OPERATIONS[index].2)(self);
    }

    /// Ends the process with a message that names the run and the operation.
    pub fn fail(&self, what: &str, number: i64) -> ! {
        let table = &self.table;
        let name = NAMES[table.running as usize % NAMES.len()];
        end_process(
            1,
            format_args!(
                "FAIL thread {} operation {} ({name}) seed {}: {what} {number}",
                table.thread, table.operation, table.seed
            ),
        )
    }

    /// A record in use, chosen at random; with `Some(origin)` of that origin only.
    pub fn any_record(&mut self, origin: Option<Origin>) -> Option<usize> {
        let start = self.random.index(RECORDS);
        (0..RECORDS).map(|step| (start + step) % RECORDS).find(|&index| {
            let found = self.table.records[index].origin;
            origin.map_or(found != Origin::Nothing, |origin| found == origin)
        })
    }

    /// A run of pages of a record: `(first, behind the last)`, at most `limit` long.
    pub fn any_part(&mut self, record: usize, limit: usize) -> (usize, usize) {
        let pages = self.table.records[record].pages as usize;
        let start = self.random.index(pages);
        let length = 1 + self.random.index(limit.min(pages - start));
        (start, start + length)
    }

    /// Verifies one page and notes when a page given to MADV_FREE is gone.
    pub fn verify_page(&mut self, record: usize, page: usize) {
        let word = self.table.word(record, page);
        let address = self.table.records[record].page_address(page);
        if let Found::GoneAfterFree = verify(self.table, "thread", self.table.thread, address, word) {
            self.table.set_word(record, page, Word::ZERO.with_access_of(word));
        }
    }

    /// Writes new content into one page, if it may be written.
    pub fn write_page(&mut self, record: usize, page: usize) {
        let old = self.table.word(record, page);
        if !old.writable() {
            return;
        }
        let word = Word::written(self.table.next_number());
        let content = self.content(word);
        memory::copy_page_in(self.table.records[record].page_address(page), &content);
        self.table.set_word(record, page, word);
    }

    /// The content that belongs to a word of this thread.
    pub fn content(&self, word: Word) -> Page {
        let mut page = [0; PAGE_BYTES];
        expected(self.table.seed, self.table.thread, word, &mut page);
        page
    }

    fn verify_everything(&mut self) {
        for record in 0..RECORDS {
            for page in 0..self.table.records[record].pages as usize {
                self.verify_page(record, page);
            }
        }
    }
}

impl Word {
    /// This word with the access bits of `other`.
    pub fn with_access_of(self, other: Word) -> Word {
        let no_access = if other.readable() { 0 } else { Word::NO_ACCESS };
        let read_only = if other.writable() || !other.readable() { 0 } else { Word::READ_ONLY };
        self.with_access(no_access | read_only)
    }
}

fn named(name: &str) -> usize {
    NAMES.iter().position(|&other| other == name).expect("the name is in the table above")
}

fn write_pages(worker: &mut Worker) {
    let Some(record) = worker.any_record(None) else { return };
    let (start, end) = worker.any_part(record, 16);
    for page in start..end {
        worker.write_page(record, page);
    }
}

/// Changes 8 bytes of written pages: content that changed only a little must not be taken for unchanged.
fn stamp_pages(worker: &mut Worker) {
    let Some(record) = worker.any_record(None) else { return };
    let (start, end) = worker.any_part(record, 4);
    for page in start..end {
        let word = worker.table.word(record, page);
        if word.state() == crate::table::State::Written && word.writable() {
            let word = word.stamped();
            let (offset, value) = crate::table::stamp(word);
            let address = worker.table.records[record].page_address(page) + offset;
            if word.stamp() == 0 {
                worker.write_page(record, page);
            } else {
                // Blocks from malloc are 16-byte aligned, mappings page-aligned, and the offset is a multiple of 8.
                memory::write_word(address, value);
                worker.table.set_word(record, page, word);
            }
        }
    }
}

fn read_pages(worker: &mut Worker) {
    let Some(record) = worker.any_record(None) else { return };
    let (start, end) = worker.any_part(record, 16);
    for page in start..end {
        worker.verify_page(record, page);
    }
}

fn verify_one(worker: &mut Worker) {
    let Some(record) = worker.any_record(None) else { return };
    for page in 0..worker.table.records[record].pages as usize {
        worker.verify_page(record, page);
    }
}

fn read_common(worker: &mut Worker) {
    let page = worker.random.index(worker.common.pages);
    verify_common(worker.table, worker.common, page, "thread");
}

/// Verifies one of the pages that all threads read.
pub fn verify_common(table: &Table, common: &Common, page: usize, who: &str) {
    let word = Word::written(page as u32 + 1);
    verify(table, who, COMMON_WRITER, common.address + page * PAGE_BYTES, word);
}
