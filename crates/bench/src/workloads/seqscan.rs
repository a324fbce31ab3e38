//! seqscan: memory is filled once, then read in order several times, page by page: what a way to swap makes of the
//! easiest order.
//!
//! Each thread has a part of its own. The checksum is that of all words; every pass must find the one that was written.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::{bail, ensure};
use clap::Args;

use super::area::Area;
use super::content::{Content, Sum};
use super::histogram::Histogram;
use super::output::Output;
use super::size::parse_size;

/// Options of `uswap workload seqscan`.
#[derive(Debug, Args)]
pub struct Options {
    /// Memory to be used
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bytes: u64,
    /// How often all of it is read
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub passes: u32,
    /// Threads that read, each its part
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    /// Seed of the content
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Fills and reads.
pub fn run(options: &Options) -> anyhow::Result<Output> {
    let content = Content::new(options.seed)?;
    let area = Area::new(options.bytes, "")?;
    ensure!(area.pages() >= options.threads, "more threads than pages: give more --bytes or fewer --threads");

    let started = Instant::now();
    let written = fill(&content, &area, options.threads);
    let fill_s = started.elapsed().as_secs_f64();

    let mut latency = Histogram::default();
    let started = Instant::now();
    for pass in 1..=options.passes {
        let read = read_pass(&area, options.threads, &mut latency);
        if read != written {
            bail!("{}", first_wrong(&content, &area, pass));
        }
    }
    let passes_s = started.elapsed().as_secs_f64();

    let megabytes = area.bytes() as f64 / 1e6;
    Ok(Output {
        figures: [
            ("mb_s".to_string(), megabytes * f64::from(options.passes) / passes_s),
            ("fill_mb_s".to_string(), megabytes / fill_s),
            ("page_p50_ns".to_string(), latency.percentile_ns(500) as f64),
            ("page_p99_ns".to_string(), latency.percentile_ns(990) as f64),
        ]
        .into(),
        checksum: Some(format!("{written:016x}")),
        latency: latency.filled().collect(),
    })
}

/// Fills all pages, a part by each thread; answers the sum of what was meant to be written, whatever the memory holds.
pub fn fill(content: &Content, area: &Area, threads: u64) -> u64 {
    let fill_part = |part| {
        let mut whole = 0u64;
        for number in area.part(part, threads) {
            let (page, mut sum) = (area.page(number), Sum::default());
            content.page(number).for_each(|index, word| {
                page[index].store(word, Relaxed);
                sum.add(index, word);
            });
            whole = whole.wrapping_add(sum.of_page(number));
        }
        whole
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|part| scope.spawn(move || fill_part(part))).collect();
        parts.into_iter().map(join).fold(0, u64::wrapping_add)
    })
}

/// Reads all pages once; answers their sum and counts how long each page took.
fn read_pass(area: &Area, threads: u64, latency: &mut Histogram) -> u64 {
    let read_part = |part| {
        let (mut whole, mut latency) = (0u64, Histogram::default());
        let mut before = Instant::now();
        for number in area.part(part, threads) {
            whole = whole.wrapping_add(Sum::of_words(number, area.page(number)));
            let after = Instant::now();
            latency.add((after - before).as_nanos() as u64);
            before = after;
        }
        (whole, latency)
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|part| scope.spawn(move || read_part(part))).collect();
        parts.into_iter().map(join).fold(0u64, |whole, (sum, counted)| {
            latency.merge(&counted);
            whole.wrapping_add(sum)
        })
    })
}

/// Says which page is wrong.
fn first_wrong(content: &Content, area: &Area, pass: u32) -> String {
    for number in 0..area.pages() {
        let page = area.page(number);
        let mut message = String::new();
        content.page(number).for_each(|index, wanted| {
            let found = page[index].load(Relaxed);
            if found != wanted && message.is_empty() {
                message = format!(
                    "pass {pass}: page {number} word {index} is {found:016x}, {wanted:016x} was written"
                );
            }
        });
        if !message.is_empty() {
            return message;
        }
    }
    format!("pass {pass} found a wrong page, which is right when read again")
}

/// The answer of a thread. A thread that panicked has ended the process.
pub fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().expect("a panic ends the process, so a thread that ended has an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_pages_are_found_and_named() {
        let (content, area) = (Content::new(4).unwrap(), Area::new(1 << 20, "").unwrap());
        let written = fill(&content, &area, 3);
        let mut latency = Histogram::default();
        assert_eq!(read_pass(&area, 2, &mut latency), written);
        assert_eq!(latency.count(), area.pages());
        let word = &area.page(77)[401];
        word.store(word.load(Relaxed) ^ 1, Relaxed);
        assert_ne!(read_pass(&area, 1, &mut latency), written);
        assert!(first_wrong(&content, &area, 2).starts_with("pass 2: page 77 word 401 is "));
    }

    #[test]
    fn checksum_follows_from_size_and_seed_alone() {
        let run = |bytes, passes, threads, seed| {
            run(&Options { bytes, passes, threads, seed }).unwrap().checksum.unwrap()
        };
        let first = run(2 << 20, 1, 1, 1);
        assert_eq!(first, run(2 << 20, 2, 2, 1));
        assert_ne!(first, run(2 << 20, 1, 1, 2));
        assert_ne!(first, run(1 << 20, 1, 1, 1));
    }
}
