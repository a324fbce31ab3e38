//! touch: how long one access to memory takes, for comparisons of ways to swap.
//!
//! `touch --bytes 1G --content text|pointers|sparse|random|same|mixed --access read|write|sequential --seconds 20
//! --seed 1` fills memory, accesses it for a time (or `--count` accesses), and prints one line of JSON: accesses,
//! nanoseconds by percentile, and a checksum of all content at the end, which depends on nothing but the arguments when
//! `--count` is used. `--huge yes` asks the kernel for huge pages in that memory. `--rate N` makes at most so many
//! accesses a second, with pauses of 10 ms. `--spin N` and `--idle N` have more threads, that compute, or sleep.
//! `--hold SECONDS` waits before the end, so that others can look at the process. `--until FILE` ends the accesses, and
//! that wait, when there is such a file.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::arguments::Arguments;
use uswap_test_programs::memory;
use uswap_test_programs::message::end_process;
use uswap_test_programs::pattern::{Key, Kind};
use uswap_test_programs::random::{Random, mix};

/// Counts of durations in buckets that are at most 1/16 wide, from 1 ns to 2^40 ns.
struct Histogram {
    buckets: [u64; 40 * 16],
    sum_ns: u128,
    count: u64,
    max_ns: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { buckets: [0; 640], sum_ns: 0, count: 0, max_ns: 0 }
    }

    fn add(&mut self, ns: u64) {
        let index = Self::bucket(ns).min(self.buckets.len() - 1);
        self.buckets[index] += 1;
        self.sum_ns += u128::from(ns);
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    fn bucket(ns: u64) -> usize {
        let ns = ns.max(16);
        let exponent = ns.ilog2() as usize;
        (exponent - 4) * 16 + ((ns >> (exponent - 4)) & 15) as usize
    }

    /// The upper end of the bucket in which the given share (in thousandths) of the accesses is reached.
    fn percentile(&self, thousandths: u64) -> u64 {
        let wanted = (self.count * thousandths).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                let exponent = index / 16;
                return ((16 + (index as u64 % 16) + 1) << exponent).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// How the pages are visited.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Read,
    Write,
    Sequential,
}

/// When it ends, and how fast it may be.
struct Limits {
    seconds: Duration,
    count_max: u64,
    /// Accesses a second.
    rate: u64,
    /// The file that ends it before.
    until: Option<PathBuf>,
}

/// How often it is looked whether there is that file.
const LOOK: Duration = Duration::from_millis(20);

impl Limits {
    fn is_told_to_end(&self) -> bool {
        self.until.as_ref().is_some_and(|file| file.exists())
    }

    fn is_ahead(&self, done: u64, elapsed: Duration) -> bool {
        self.rate < u64::MAX && u128::from(done) * 1000 > u128::from(self.rate) * elapsed.as_millis().max(1)
    }
}

fn main() {
    let known = [
        "bytes", "content", "access", "seconds", "count", "seed", "hold", "rate", "spin", "idle", "huge",
        "until",
    ];
    let arguments = Arguments::read(std::env::args().skip(1), &known);
    let pages = (arguments.bytes("bytes", "1G") / PAGE_BYTES).max(1);
    let seed = arguments.number("seed", 1);
    let content = arguments.text("content", "mixed");
    let access = match arguments.text("access", "read") {
        "read" => Access::Read,
        "write" => Access::Write,
        "sequential" => Access::Sequential,
        other => end_process(2, format_args!("--access {other}: not read, write or sequential")),
    };
    let seconds = Duration::from_secs(arguments.number("seconds", 20));
    let count_max = arguments.number("count", u64::MAX);
    let rate = arguments.number("rate", u64::MAX);

    for _ in 0..arguments.number("spin", 0) {
        std::thread::spawn(|| {
            let mut number = 1;
            loop {
                number = std::hint::black_box(mix(number));
            }
        });
    }
    for _ in 0..arguments.number("idle", 0) {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }

    let fill_started = Instant::now();
    let address = memory::map_private(pages * PAGE_BYTES, 0)
        .unwrap_or_else(|error| end_process(1, format_args!("FAIL mmap: errno {error}")));
    if arguments.text("huge", "no") == "yes" {
        memory::advise(address, pages * PAGE_BYTES, libc::MADV_HUGEPAGE)
            .unwrap_or_else(|error| end_process(1, format_args!("FAIL MADV_HUGEPAGE: errno {error}")));
    }
    fill(address, pages, seed, content);
    let fill_ns = fill_started.elapsed().as_nanos();

    let until = Some(arguments.text("until", "")).filter(|file| !file.is_empty()).map(PathBuf::from);
    let limits = Limits { seconds, count_max, rate, until };
    let (histogram, elapsed) = visit(address, pages, access, seed, &limits);
    let checksum = checksum(address, pages);
    println!(
        "{{\"pages\":{pages},\"content\":\"{content}\",\"access\":\"{}\",\"fill_ns\":{fill_ns},\"accesses\":{},\
         \"elapsed_ns\":{},\"mean_ns\":{},\"p50_ns\":{},\"p99_ns\":{},\"p999_ns\":{},\"max_ns\":{},\
         \"checksum\":\"{checksum:016x}\"}}",
        arguments.text("access", "read"),
        histogram.count,
        elapsed.as_nanos(),
        histogram.sum_ns / u128::from(histogram.count.max(1)),
        histogram.percentile(500),
        histogram.percentile(990),
        histogram.percentile(999),
        histogram.max_ns,
    );
    let (holds, hold) = (Instant::now(), Duration::from_secs(arguments.number("hold", 0)));
    while holds.elapsed() < hold && !limits.is_told_to_end() {
        std::thread::sleep(LOOK.min(hold.saturating_sub(holds.elapsed())));
    }
}

fn fill(address: usize, pages: usize, seed: u64, content: &str) {
    let kind = match content {
        "mixed" => None,
        "text" => Some(Kind::Text),
        "pointers" => Some(Kind::Pointers),
        "sparse" => Some(Kind::Sparse),
        "random" => Some(Kind::Random),
        "same" => Some(Kind::Same),
        other => end_process(2, format_args!("--content {other} is not known")),
    };
    let mut page = [0; PAGE_BYTES];
    for index in 0..pages {
        let key = Key { seed, writer: 1, number: index as u32 };
        key.fill_as(kind.unwrap_or(key.kind()), &mut page);
        memory::copy_page_in(address + index * PAGE_BYTES, &page);
    }
}

fn visit(address: usize, pages: usize, access: Access, seed: u64, limits: &Limits) -> (Histogram, Duration) {
    let mut histogram = Histogram::new();
    let mut random = Random::new(mix(seed));
    let started = Instant::now();
    let mut before = started;
    let mut looked = started;
    let mut done = 0u64;
    let mut unused = 0u64;
    while done < limits.count_max && before - started < limits.seconds {
        if limits.until.is_some() && before - looked > LOOK {
            if limits.is_told_to_end() {
                break;
            }
            before = Instant::now();
            looked = before;
        }
        if limits.is_ahead(done, before - started) {
            std::thread::sleep(Duration::from_millis(10));
            before = Instant::now();
            continue;
        }
        let page =
            if access == Access::Sequential { (done % pages as u64) as usize } else { random.index(pages) };
        // One word of each page, not always the same one.
        let place = address + page * PAGE_BYTES + 8 * (page % 512);
        match access {
            Access::Write => memory::write_word(place, mix(done)),
            Access::Read | Access::Sequential => unused = unused.wrapping_add(memory::read_word(place)),
        }
        let after = Instant::now();
        histogram.add((after - before).as_nanos() as u64);
        before = after;
        done += 1;
    }
    std::hint::black_box(unused);
    (histogram, started.elapsed())
}

fn checksum(address: usize, pages: usize) -> u64 {
    let mut sum = 0u64;
    for place in (address..address + pages * PAGE_BYTES).step_by(8) {
        sum = (sum.rotate_left(5) ^ memory::read_word(place)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn percentiles_are_within_a_sixteenth() {
        let mut histogram = Histogram::new();
        (1..=10_000u64).for_each(|number| histogram.add(number * 10));
        for (thousandths, wanted) in [(500, 50_000u64), (990, 99_000), (999, 99_900)] {
            let found = histogram.percentile(thousandths);
            assert!(found >= wanted && found <= wanted + wanted / 15, "{thousandths}: {found}");
        }
        assert_eq!(histogram.percentile(1000), 100_000);
    }
}
