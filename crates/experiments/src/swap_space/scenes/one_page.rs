//! What one page takes with one thread of this machine: to be stored and to be freed, alone and in runs of 16; and its
//! bytes.

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;

use super::pages::TREES;
use super::{OURS, Size};
use crate::swap_space::cache::{SwapCache, Table, TableMemory, WithTrees};
use crate::swap_space::fragments::{Fragments, Prefer, Rules, Walk};
use crate::swap_space::ours::Ours;
use crate::swap_space::slots::Slots;
use uswap_bench::statistics::median;

const RULES: Rules = Rules { walk: Walk::One, prefer: Prefer::Nonfull };
const ORDER: u32 = 4;
const RUN: u32 = 1 << ORDER;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was done.
    pub what: &'static str,
    /// By whom.
    pub who: &'static str,
    /// For each page: nanoseconds, or bytes.
    pub each_page: f64,
    /// Of which.
    pub unit: &'static str,
}

/// Nanoseconds for each of `count`.
fn ns_each(count: u32, job: impl FnOnce()) -> f64 {
    let start = Instant::now();
    job();
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

fn of_cache(who: &'static str, cache: &dyn SwapCache, pages: u32, runs: usize) -> Vec<Figure> {
    let (mut store, mut lookup, mut free) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0.0;
    let mut slots = Vec::with_capacity(pages as usize);
    for _ in 0..runs {
        slots.clear();
        store.push(ns_each(pages, || {
            slots.extend((0..pages).map(|_| cache.store(0).expect("there is room")));
        }));
        bytes = cache.bytes_each(u64::from(pages));
        lookup.push(ns_each(pages, || {
            let sum = slots.iter().fold(0_u64, |sum, &slot| sum.wrapping_add(cache.lookup(slot)));
            black_box(sum);
        }));
        free.push(ns_each(pages, || slots.iter().for_each(|&slot| cache.put(0, slot))));
    }
    let figure =
        |what, values: &[f64]| Figure { what, who, each_page: median(values).unwrap_or(0.0), unit: "ns" };
    vec![
        figure("store one page", &store),
        figure("look it up", &lookup),
        figure("free it", &free),
        Figure { what: "bytes of a page, all slots in use", who, each_page: bytes, unit: "bytes" },
    ]
}

/// Runs of 16 entries of our table, from nothing to stored and back.
fn of_table_runs(table: &Table<'_>, pages: u32, runs: usize) -> Vec<Figure> {
    let (mut store, mut free) = (Vec::new(), Vec::new());
    let mut firsts = Vec::with_capacity((pages / RUN) as usize);
    for _ in 0..runs {
        firsts.clear();
        store.push(ns_each(pages, || {
            firsts.extend((0..pages / RUN).map_while(|_| table.store_run(0, ORDER)))
        }));
        free.push(ns_each(pages, || firsts.iter().for_each(|&first| table.put_run(0, first, RUN))));
    }
    let figure = |what, values: &[f64]| Figure {
        what,
        who: OURS,
        each_page: median(values).unwrap_or(0.0),
        unit: "ns",
    };
    vec![figure("store 16 pages together", &store), figure("free 16 pages together", &free)]
}

fn of_runs(who: &'static str, slots: &dyn Slots, pages: u32, runs: usize) -> Vec<Figure> {
    let (mut allocate, mut free) = (Vec::new(), Vec::new());
    let mut firsts = Vec::with_capacity((pages / RUN) as usize);
    for _ in 0..runs {
        firsts.clear();
        allocate
            .push(ns_each(pages, || firsts.extend((0..pages / RUN).map_while(|_| slots.allocate(0, ORDER)))));
        free.push(ns_each(pages, || firsts.iter().for_each(|&first| slots.free(0, first, RUN))));
    }
    let figure =
        |what, values: &[f64]| Figure { what, who, each_page: median(values).unwrap_or(0.0), unit: "ns" };
    vec![figure("allocate in runs of 16", &allocate), figure("free in runs of 16", &free)]
}

/// Medians of some runs.
#[must_use]
pub fn run(size: Size) -> Vec<Figure> {
    let (clusters, runs) = match size {
        Size::Short => (16, 3),
        Size::Full => (512, 31),
    };
    // All but what may be missing at the start, in whole runs.
    let pages = (clusters - 1) * 512;
    let memory = TableMemory::new(clusters);
    let mut figures = of_cache(OURS, &Table::new(&memory), pages, runs);
    let memory = TableMemory::new(clusters);
    figures.extend(of_table_runs(&Table::new(&memory), pages - 512, runs));
    figures.extend(of_cache(TREES, &WithTrees::new(Fragments::new(clusters, RULES), clusters), pages, runs));
    figures.extend(of_runs(OURS, &Ours::new(clusters), pages, runs));
    figures.extend(of_runs(TREES, &Fragments::new(clusters, RULES), pages, runs));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_all_figures() {
        let figures = run(Size::Short);
        for (who, count) in [(OURS, 8), (TREES, 6)] {
            assert_eq!(figures.iter().filter(|figure| figure.who == who).count(), count);
        }
        assert!(figures.iter().all(|figure| figure.each_page > 0.0), "{figures:?}");
    }
}
