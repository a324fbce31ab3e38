//! Single pages are swapped in and out at random on a device without an empty cluster.
//!
//! With pmbench as the example: sixteen processes, much more memory than there is. Where it was published, a page that
//! came and one that left took 20 us in all, most of it faults and copies. So each is measured twice: with nothing
//! beside the allocator, where the locks show, and with 19 us of other work, where the share is that of a real machine.

use uswap_sync::trace;
use uswap_units::Prng;

use super::{OURS, Row, Scene, Size};
use crate::swap_space::cache::{SwapCache, Table, TableMemory, WithTrees};
use crate::swap_space::clock::{self, Length, Operation, measure, unnoted};
use crate::swap_space::fragments::{Fragments, Prefer, Rules, Walk};
use crate::swap_space::linear::{Base, Linear};
use crate::swap_space::slots::lock_kinds;
use crate::swap_space::virtual_time::Step;

/// What a page that comes and one that leaves take beside the allocator: 16 processes swapped out 3.33 GB/s.
const WORK_NS: u64 = 19_000;
/// Parts of that work, one before each step.
const STEPS: u64 = 4;

/// Of so many slots one is free.
const FREE: u64 = 50;

const WHO: [&str; 4] = ["linear, shared", "linear, each CPU", "fragments, 6.18", OURS];

/// Work that is not ours, half as much to one and a half times as much: CPUs do not go in step.
pub(super) fn work(prng: &mut Prng, mean_ns: u64) {
    if mean_ns > 0 {
        trace::worked((mean_ns / 2 + prng.below(mean_ns)) as u32);
    }
}

/// One operation of a CPU: a page of its own is read back and another leaves.
fn swap(cache: &dyn SwapCache, cpu: u16, own: &mut [u32], prng: &mut Prng, work_ns: u64) {
    let at = prng.below(own.len() as u64) as usize;
    work(prng, work_ns / STEPS);
    cache.read_back(cpu, own[at]);
    work(prng, work_ns / STEPS);
    cache.put(cpu, own[at]);
    work(prng, work_ns / STEPS);
    own[at] = cache.store(cpu).expect("one was just given back");
    work(prng, work_ns / STEPS);
    cache.written(cpu, own[at]);
}

/// Fills the device, then gives some pages back, here and there.
fn filled(cache: &dyn SwapCache, cpus: u16) -> Vec<Vec<u32>> {
    let mut prng = Prng::new(7);
    let mut full: Vec<u32> = Vec::new();
    for turn in 0_u64.. {
        let cpu = (turn % u64::from(cpus)) as u16;
        let Some(slot) = cache.store(cpu) else { break };
        cache.written(cpu, slot);
        full.push(slot);
    }
    for _ in 0..full.len() as u64 / FREE {
        let slot = full.swap_remove(prng.below(full.len() as u64) as usize);
        cache.put((slot % u32::from(cpus)) as u16, slot);
    }
    // Random pages for each: after some time nobody's are together.
    for at in (1..full.len()).rev() {
        full.swap(at, prng.below(at as u64 + 1) as usize);
    }
    full.chunks(full.len() / usize::from(cpus)).take(usize::from(cpus)).map(<[u32]>::to_vec).collect()
}

fn rows_of(who: &'static str, cache: &dyn SwapCache, cpus: u16, length: Length) -> Vec<Row> {
    let works: &[u64] = if trace::RECORDS { &[0, WORK_NS] } else { &[0] };
    rows_with(who, cache, cpus, length, works)
}

/// With the work of where it was published.
pub(super) fn with_work(who: &'static str, cache: &dyn SwapCache, cpus: u16, length: Length) -> Row {
    rows_with(who, cache, cpus, length, &[WORK_NS]).swap_remove(0)
}

fn rows_with(who: &'static str, cache: &dyn SwapCache, cpus: u16, length: Length, works: &[u64]) -> Vec<Row> {
    let mut own = filled(cache, cpus);
    works
        .iter()
        .map(|&work_ns| {
            let operations: Vec<Operation<'_>> = own
                .iter_mut()
                .zip(0_u16..)
                .map(|(own, cpu)| {
                    let mut prng = Prng::new(u64::from(cpu));
                    Box::new(move || {
                        swap(cache, cpu, own, &mut prng, work_ns);
                        Step::Done
                    }) as Operation<'_>
                })
                .collect();
            let measured = measure(operations, length, lock_kinds(cache.locks()));
            let setting =
                if work_ns == 0 { "alone".to_owned() } else { format!("with {} us of work", work_ns / 1000) };
            Row { setting, who, measured, fallback_percent: None, avoidable_percent: None }
        })
        .collect()
}

fn rows(who: &'static str, clusters: u32, cpus: u16, length: Length) -> Vec<Row> {
    let of = |cache: &dyn SwapCache| rows_of(who, cache, cpus, length);
    match who {
        "linear, shared" => of(&WithTrees::new(Linear::new(clusters, Base::Shared), clusters)),
        "linear, each CPU" => of(&WithTrees::new(Linear::new(clusters, Base::EachCpu), clusters)),
        OURS => {
            let memory = TableMemory::new(clusters);
            of(&Table::new(&memory))
        }
        _ => {
            let rules = Rules { walk: Walk::One, prefer: Prefer::Nonfull };
            of(&WithTrees::new(Fragments::new(clusters, rules), clusters))
        }
    }
}

/// With any number of CPUs; the full size is a device of 8 GiB.
#[must_use]
pub fn run(size: Size) -> Scene {
    let (clusters, length) = match size {
        Size::Short => (64, Length { warm_up: 200, operations: 800 }),
        Size::Full if trace::RECORDS => (4096, Length { warm_up: 20_000, operations: 60_000 }),
        Size::Full => (4096, Length { warm_up: 100_000, operations: 800_000 }),
    };
    let cpus = match size {
        Size::Short => &clock::CPUS[1..2],
        Size::Full => clock::CPUS,
    };
    let rows = cpus
        .iter()
        .flat_map(|&cpus| WHO.iter().flat_map(move |&who| unnoted(|| rows(who, clusters, cpus, length))));
    Scene {
        name: "single-pages",
        operation: "one page is read back, and one leaves; no cluster is empty",
        rows: rows.collect(),
    }
}
