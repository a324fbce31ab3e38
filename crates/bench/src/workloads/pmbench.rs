//! pmbench: threads that access 8 bytes at a random place of a random page, and measure each access.
//!
//! As the program of that name: pages by an even draw or by Zipf's law, a share of reads, latency in a histogram with
//! 16 buckets for each power of two. The differences: memory is first filled with the content of real programs, a
//! quarter of the time passes before counting starts, and all content is checked at the end.
//!
//! What must hold: a write adds one to one of the eight counters of a page, so the other words stay as filled and are
//! checked one by one; the counters together must be the number of writes, so a lost write is found too. The checksum
//! is that of the words that are never written.

use std::sync::Barrier;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::{Args, ValueEnum};
use uswap_units::Prng;

use super::area::Area;
use super::content::{COUNTER_EVERY, Content, PAGE_WORDS, Sum, hash, is_counter};
use super::histogram::Histogram;
use super::output::Output;
use super::seqscan::{fill, join};
use super::size::parse_size;
use super::zipf::{Scatter, Zipf};

/// How uneven `--pattern zipf` is: the exponent that is usual for caches and databases.
const ZIPF_EXPONENT: f64 = 0.99;
/// Accesses between two looks at the end of the time.
const ACCESSES_BETWEEN_LOOKS: u32 = 64;

/// Which pages are accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Pattern {
    /// Each as often as any other
    Uniform,
    /// Some often, most rarely
    Zipf,
}

/// Options of `uswap workload pmbench`.
#[derive(Debug, Args)]
pub struct Options {
    /// Memory to be used
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bytes: u64,
    /// Threads that access all of it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    /// Which pages are accessed
    #[arg(long, value_name = "PATTERN", default_value = "uniform")]
    pub pattern: Pattern,
    /// Reads among 100 accesses
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub reads: u64,
    /// Time of the counted accesses
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Seed of content and accesses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().unwrap_or(0.0);
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("a number from 0.001 to 86400".to_string())
    }
}

/// Fills, accesses, checks.
pub fn run(options: &Options) -> anyhow::Result<Output> {
    let content = Content::new(options.seed)?;
    let area = Area::new(options.bytes, "")?;
    ensure!(area.pages() >= options.threads, "more threads than pages: give more --bytes or fewer --threads");

    let started = Instant::now();
    fill(&content, &area, options.threads);
    let fill_s = started.elapsed().as_secs_f64();

    let seen = access_all(&area, options);
    let checksum = check(&content, &area, seen.writes)?;
    Ok(Output {
        figures: [
            ("accesses_per_s".to_string(), seen.latency.count() as f64 / seen.counted_s),
            ("mean_ns".to_string(), seen.latency.mean_ns()),
            ("p50_ns".to_string(), seen.latency.percentile_ns(500) as f64),
            ("p99_ns".to_string(), seen.latency.percentile_ns(990) as f64),
            ("p999_ns".to_string(), seen.latency.percentile_ns(999) as f64),
            ("fill_mb_s".to_string(), area.bytes() as f64 / 1e6 / fill_s),
        ]
        .into(),
        checksum: Some(format!("{checksum:016x}")),
        latency: seen.latency.filled().collect(),
    })
}

/// What the threads saw.
struct Seen {
    latency: Histogram,
    /// All writes, those before counting started too.
    writes: u64,
    /// The longest time that a thread counted.
    counted_s: f64,
}

fn access_all(area: &Area, options: &Options) -> Seen {
    let together = Barrier::new(options.threads as usize);
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads)
            .map(|thread| {
                let together = &together;
                scope.spawn(move || {
                    let mut accesses = Accesses::new(area, options, thread);
                    let mut ignored = Histogram::default();
                    together.wait();
                    accesses.go_on(Duration::from_secs_f64(options.seconds / 4.0), &mut ignored);
                    together.wait();
                    let mut latency = Histogram::default();
                    let counted = accesses.go_on(Duration::from_secs_f64(options.seconds), &mut latency);
                    Seen { latency, writes: accesses.writes, counted_s: counted.as_secs_f64() }
                })
            })
            .collect();
        threads.into_iter().map(join).collect()
    });
    seen.into_iter().fold(
        Seen { latency: Histogram::default(), writes: 0, counted_s: 0.0 },
        |mut all, one| {
            all.latency.merge(&one.latency);
            all.writes += one.writes;
            all.counted_s = all.counted_s.max(one.counted_s);
            all
        },
    )
}

/// The accesses of one thread.
struct Accesses<'a> {
    area: &'a Area,
    random: Prng,
    zipf: Option<(Zipf, Scatter)>,
    reads: u64,
    writes: u64,
}

impl<'a> Accesses<'a> {
    fn new(area: &'a Area, options: &Options, thread: u64) -> Self {
        let zipf = match options.pattern {
            Pattern::Uniform => None,
            Pattern::Zipf => Some((Zipf::new(area.pages(), ZIPF_EXPONENT), Scatter::new(area.pages()))),
        };
        Self {
            area,
            random: Prng::new(hash(options.seed ^ hash(thread + 1))),
            zipf,
            reads: options.reads,
            writes: 0,
        }
    }

    /// Accesses pages for a time; answers how long it was.
    fn go_on(&mut self, time: Duration, latency: &mut Histogram) -> Duration {
        let started = Instant::now();
        loop {
            let mut now = started;
            for _ in 0..ACCESSES_BETWEEN_LOOKS {
                let (ns, after) = self.one();
                latency.add(ns);
                now = after;
            }
            if now - started >= time {
                return now - started;
            }
        }
    }

    /// One access: ns, and when it ended. Everything is drawn before the clock is read.
    #[inline]
    fn one(&mut self) -> (u64, Instant) {
        let page = match &self.zipf {
            None => self.random.below(self.area.pages()),
            Some((zipf, scatter)) => scatter.place(zipf.draw(&mut self.random)),
        };
        let page = self.area.page(page);
        let (before, after);
        if self.random.below(100) < self.reads {
            let word = &page[self.random.below(PAGE_WORDS as u64) as usize];
            before = Instant::now();
            std::hint::black_box(word.load(Relaxed));
            after = Instant::now();
        } else {
            let counter = self.random.below((PAGE_WORDS / COUNTER_EVERY) as u64) as usize;
            let word = &page[counter * COUNTER_EVERY + COUNTER_EVERY - 1];
            before = Instant::now();
            word.fetch_add(1, Relaxed);
            after = Instant::now();
            self.writes += 1;
        }
        ((after - before).as_nanos() as u64, after)
    }
}

/// Compares every page with what it must hold; answers the sum of the words that are never written.
fn check(content: &Content, area: &Area, writes: u64) -> anyhow::Result<u64> {
    let (mut whole, mut counted) = (0u64, 0u64);
    for number in 0..area.pages() {
        let (page, mut sum) = (area.page(number), Sum::default());
        let mut wrong = None;
        content.page(number).for_each(|index, wanted| {
            let found = page[index].load(Relaxed);
            if is_counter(index) {
                counted = counted.wrapping_add(found);
                sum.add(index, 0);
            } else {
                sum.add(index, found);
                if found != wanted {
                    wrong = wrong.or(Some((index, found, wanted)));
                }
            }
        });
        if let Some((index, found, wanted)) = wrong {
            bail!("page {number} word {index} is {found:016x}, {wanted:016x} was written");
        }
        whole = whole.wrapping_add(sum.of_page(number));
    }
    ensure!(
        counted == writes,
        "the counters of all pages are {counted} together, but {writes} times one was added"
    );
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pattern: Pattern, threads: u64, reads: u64) -> Options {
        Options { bytes: 4 << 20, threads, pattern, reads, seconds: 0.05, seed: 5 }
    }

    #[test]
    fn result_is_whole_and_the_checksum_that_of_the_fill() {
        let checksums: Vec<_> = [(Pattern::Uniform, 1, 80), (Pattern::Zipf, 3, 0), (Pattern::Zipf, 2, 100)]
            .map(|(pattern, threads, reads)| {
                let output = run(&options(pattern, threads, reads)).unwrap();
                let figure = |name: &str| output.figures[name];
                assert!(figure("p50_ns") <= figure("p99_ns") && figure("p99_ns") <= figure("p999_ns"));
                let count = output.latency.iter().map(|(_, count)| count).sum::<u64>() as f64;
                // A loaded machine may let the threads wait, so they take at least the time that was asked for.
                assert!(count > 0.0 && figure("accesses_per_s") * 0.05 <= count * 1.001);
                output.checksum
            })
            .into();
        assert_eq!(checksums[0], checksums[1]);
        assert_eq!(checksums[0], checksums[2]);
    }

    #[test]
    fn lost_writes_and_wrong_words_are_found() {
        let (content, area) = (Content::new(5).unwrap(), Area::new(1 << 20, "").unwrap());
        fill(&content, &area, 1);
        let mut accesses = Accesses::new(&area, &options(Pattern::Uniform, 1, 0), 0);
        for _ in 0..1000 {
            accesses.one();
        }
        assert!(check(&content, &area, 1000).is_ok());
        assert!(check(&content, &area, 1001).unwrap_err().to_string().contains("1000 together"));
        area.page(9)[100].fetch_xor(1 << 40, Relaxed);
        assert!(check(&content, &area, 1000).unwrap_err().to_string().starts_with("page 9 word 100 is "));
    }
}
