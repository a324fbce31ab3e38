//! churn: threads that use memory in every way that Linux offers and know what each page must hold.
//!
//! `churn --threads 8 --seconds 600 --bytes 600M --seed 1 [--dir /tmp]` ends with status 0 and one line of counts, or
//! at the first wrong page with status 1 and a line that says what was wrong. A run is not repeated exactly by its
//! seed, because threads race; the seed makes the same operations likely.

mod family;
mod kernel;
mod ranges;
mod report;
mod table;
mod worker;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use table::{Table, Word, expected};
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::arguments::Arguments;
use uswap_test_programs::memory;
use uswap_test_programs::message::end_process;
use worker::{COMMON_WRITER, Common, NAMES, Worker};

/// A thread that has finished no operation for this long hangs: the longest one (verify 16 MiB) takes well under
/// a second even when each page comes from a disk.
const STALL: Duration = Duration::from_secs(120);

/// The shared notes of one thread, which outlive its incarnations.
#[derive(Clone, Copy)]
struct Place {
    table: *mut Table,
    snapshot: *mut Table,
}

// SAFETY:
// 1. The pointers lead to shared memory that is never given back.
// 2. Only one thread at a time makes references from them: main starts the next after joining the last.
unsafe impl Send for Place {}

impl Place {
    fn start(self, common: &'static Common) -> JoinHandle<()> {
        std::thread::spawn(move || {
            let place = self;
            // SAFETY:
            // 1. As said at `Send`: the former incarnation has been joined, so no other reference lives.
            let (table, snapshot) = unsafe { (&mut *place.table, &mut *place.snapshot) };
            Worker::run(table, snapshot, common);
        })
    }

    fn operation(self) -> u64 {
        // SAFETY:
        // 1. The field is an aligned 64-bit word that is never given back; a torn or old value only delays a message.
        unsafe { core::ptr::read_volatile(&raw const (*self.table).operation) }
    }
}

fn main() {
    let arguments =
        Arguments::read(std::env::args().skip(1), &["threads", "seconds", "bytes", "seed", "dir"]);
    let threads = arguments.number("threads", 8).clamp(1, 200) as u32;
    let seed = arguments.number("seed", 1);
    let bytes = arguments.bytes("bytes", "600M");
    let seconds = arguments.number("seconds", 600);
    let started = Instant::now();
    let common_pages = (bytes / 32 / PAGE_BYTES).max(16);
    let common: &'static Common = Box::leak(Box::new(Common {
        address: fill_common(common_pages, seed),
        pages: common_pages,
        directory: arguments.text("dir", "/tmp").to_string(),
        deadline: started + Duration::from_secs(seconds),
        bytes_per_thread: bytes.saturating_sub(common_pages * PAGE_BYTES) / threads as usize,
    }));
    let places: Vec<Place> = (0..threads)
        .map(|thread| Place { table: Table::new(seed, thread), snapshot: Table::new(seed, thread) })
        .collect();
    let incarnations = keep_running(&places, common);
    print_summary(&places, incarnations, started.elapsed());
}

fn fill_common(pages: usize, seed: u64) -> usize {
    let address = memory::map_private(pages * PAGE_BYTES, 0)
        .unwrap_or_else(|error| end_process(1, format_args!("FAIL mmap: errno {error}")));
    let mut content = [0; PAGE_BYTES];
    for page in 0..pages {
        expected(seed, COMMON_WRITER, Word::written(page as u32 + 1), &mut content);
        memory::copy_page_in(address + page * PAGE_BYTES, &content);
    }
    address
}

/// Starts the threads, starts ended ones anew until the deadline, and watches for one that hangs. Returns how many
/// threads were started.
fn keep_running(places: &[Place], common: &'static Common) -> u64 {
    let mut handles: Vec<Option<JoinHandle<()>>> =
        places.iter().map(|place| Some(place.start(common))).collect();
    let mut seen: Vec<(u64, Instant)> = vec![(0, Instant::now()); places.len()];
    let mut started = places.len() as u64;
    while handles.iter().any(Option::is_some) {
        std::thread::sleep(Duration::from_millis(20));
        for (index, place) in places.iter().enumerate() {
            let Some(handle) = &handles[index] else { continue };
            if handle.is_finished() {
                // The deadline is read before the join: a thread that ended behind it has verified its pages.
                let again = Instant::now() < common.deadline || !verified_at_end(place, common);
                let handle = handles[index].take().expect("seen above");
                handle
                    .join()
                    .unwrap_or_else(|_| end_process(1, format_args!("FAIL thread {index} panicked")));
                if again {
                    handles[index] = Some(place.start(common));
                    started += 1;
                }
                seen[index].1 = Instant::now();
            } else if place.operation() != seen[index].0 {
                seen[index] = (place.operation(), Instant::now());
            } else if seen[index].1.elapsed() > STALL && Instant::now() < common.deadline + STALL {
                // SAFETY:
                // 1. As in `operation`: an aligned word that is never given back.
                let running = unsafe { core::ptr::read_volatile(&raw const (*place.table).running) } as usize;
                let name = NAMES[running % NAMES.len()];
                end_process(
                    1,
                    format_args!("STALL thread {index} hangs in {name}, operation {}", seen[index].0),
                );
            }
        }
    }
    started
}

/// True if the thread has given everything back, which it does only after its last verification.
fn verified_at_end(place: &Place, _common: &Common) -> bool {
    // SAFETY:
    // 1. The thread has finished, so nobody writes the table.
    unsafe { (*place.table).bytes() == 0 }
}

fn print_summary(places: &[Place], incarnations: u64, elapsed: Duration) {
    let mut line = format!("churn OK {:.1} s, {incarnations} threads started", elapsed.as_secs_f64());
    let mut sum = 0;
    for (index, name) in NAMES.iter().enumerate() {
        // SAFETY:
        // 1. All threads have been joined, so nobody writes the tables.
        let count: u64 = places.iter().map(|place| unsafe { (*place.table).counts[index] }).sum();
        sum += count;
        line.push_str(&format!(", {name} {count}"));
    }
    println!("{line}, operations {sum}");
}
