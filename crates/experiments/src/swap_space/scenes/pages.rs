//! What is kept of a swapped page: it leaves, it is looked up while others refer to it, it is given back with its
//! memory.
//!
//! As `usemem` does it: each CPU writes memory once, all of which leaves, then unmaps it. And as a program does it that
//! was forked to write its memory out: pages with two references are looked up, and their counts go down and up.
//!
//! Where it was published, a page of `usemem` took 22 us of system time afterwards, and a request of the other 3.3 us.

use uswap_sync::trace;
use uswap_units::Prng;

use super::single_pages::work;
use super::{OURS, Row, Scene, Size};
use crate::swap_space::cache::{SwapCache, Table, TableMemory, WithTrees};
use crate::swap_space::clock::{self, Length, Operation, measure, unnoted};
use crate::swap_space::fragments::{Fragments, Prefer, Rules, Walk};
use crate::swap_space::slots::lock_kinds;
use crate::swap_space::virtual_time::Step;

const STORE_WORK_NS: u64 = 22_000;
const LOOKUP_WORK_NS: u64 = 3_300;
/// Pages that are unmapped at once.
const RUN: usize = 64;

/// Who is compared: an allocator of clusters with trees, and our swap table.
pub const TREES: &str = "fragments, trees";
const WHO: [&str; 2] = [TREES, OURS];

/// Does something for each CPU with the pages that it owns. `each` says whether there is more.
fn measured<'a>(
    cache: &'a dyn SwapCache,
    own: &'a mut [Vec<u32>],
    length: Length,
    each: impl Fn(u16, &mut Vec<u32>, &mut Prng) -> Step + Send + Copy + 'a,
) -> clock::Measured {
    let operations: Vec<Operation<'_>> = own
        .iter_mut()
        .zip(0_u16..)
        .map(|(own, cpu)| {
            let mut prng = Prng::new(u64::from(cpu));
            Box::new(move || each(cpu, own, &mut prng)) as Operation<'_>
        })
        .collect();
    measure(operations, length, lock_kinds(cache.locks()))
}

/// A name with the work beside, if there is any.
fn setting(name: &str, work_ns: u64) -> String {
    if work_ns == 0 {
        name.to_owned()
    } else {
        format!("{name}, with {:.1} us of work", work_ns as f64 / 1000.0)
    }
}

fn usemem(who: &'static str, cache: &dyn SwapCache, cpus: u16, pages: u64, work_ns: u64) -> Vec<Row> {
    let mut own: Vec<Vec<u32>> = vec![Vec::new(); usize::from(cpus)];
    let row = |name: &str, measured| Row {
        setting: setting(name, work_ns),
        who,
        measured,
        fallback_percent: None,
        avoidable_percent: None,
    };
    let warm_up = pages / 5;
    let stored =
        measured(cache, &mut own, Length { warm_up, operations: pages - warm_up }, |cpu, own, prng| {
            let slot = cache.store(cpu).expect("the device is large enough");
            work(prng, work_ns);
            cache.written(cpu, slot);
            own.push(slot);
            Step::Done
        });
    let mut rows = vec![row("store", stored)];
    if work_ns == 0 {
        let freed = measured(cache, &mut own, Length { warm_up: 0, operations: u64::MAX }, |cpu, own, _| {
            if own.is_empty() {
                return Step::Finished;
            }
            let run = own.split_off(own.len().saturating_sub(RUN));
            for run in run.chunk_by(|before, next| before + 1 == *next) {
                cache.put_run(cpu, run[0], run.len() as u32);
            }
            Step::Done
        });
        rows.push(row("free, 64 pages", freed));
    }
    rows
}

/// Each CPU stores pages, with the work of where it was published.
pub(super) fn stored_with_work(who: &'static str, cache: &dyn SwapCache, cpus: u16, pages: u64) -> Row {
    usemem(who, cache, cpus, pages, STORE_WORK_NS).swap_remove(0)
}

fn shared(who: &'static str, cache: &dyn SwapCache, cpus: u16, pages: u64, work_ns: u64) -> Row {
    let slots: Vec<u32> = (0..pages)
        .filter_map(|page| cache.store((page % u64::from(cpus)) as u16))
        .inspect(|&slot| cache.share(slot))
        .collect();
    let slots = &slots;
    let mut own: Vec<Vec<u32>> = vec![Vec::new(); usize::from(cpus)];
    let length = Length { warm_up: pages / 5, operations: pages };
    let measured = measured(cache, &mut own, length, |cpu, _, prng| {
        let slot = slots[prng.below(slots.len() as u64) as usize];
        work(prng, work_ns);
        assert_ne!(cache.lookup(slot), 0, "what is shared stays");
        cache.share(slot);
        cache.put(cpu, slot);
        Step::Done
    });
    Row {
        setting: setting("lookup, share, put", work_ns),
        who,
        measured,
        fallback_percent: None,
        avoidable_percent: None,
    }
}

/// Both, each on a device of its own.
fn rows_of(who: &'static str, cache: &dyn SwapCache, cpus: u16, pages: u64) -> Vec<Row> {
    let works = |work_ns: u64| if trace::RECORDS { vec![0, work_ns] } else { vec![0] };
    let mut rows = Vec::new();
    // With work first: what it stores is not given back, and the rest finds room.
    for work_ns in works(STORE_WORK_NS).into_iter().rev() {
        rows.extend(usemem(who, cache, cpus, pages, work_ns));
    }
    for work_ns in works(LOOKUP_WORK_NS) {
        rows.push(shared(who, cache, cpus, pages, work_ns));
    }
    rows
}

fn rows(who: &'static str, clusters: u32, cpus: u16, pages: u64) -> Vec<Row> {
    if who == OURS {
        let memory = TableMemory::new(clusters);
        return rows_of(who, &Table::new(&memory), cpus, pages);
    }
    let rules = Rules { walk: Walk::One, prefer: Prefer::Nonfull };
    rows_of(who, &WithTrees::new(Fragments::new(clusters, rules), clusters), cpus, pages)
}

/// With any number of CPUs.
#[must_use]
pub fn run(size: Size) -> Scene {
    // Room for what is stored four times over, and for the clusters of 96 CPUs.
    let (pages, clusters) = match size {
        Size::Short => (2000, 64),
        Size::Full if trace::RECORDS => (60_000, 4096),
        Size::Full => (400_000, 4096),
    };
    let cpus = match size {
        Size::Short => &clock::CPUS[1..2],
        Size::Full => clock::CPUS,
    };
    let rows = cpus
        .iter()
        .flat_map(|&cpus| WHO.iter().flat_map(move |&who| unnoted(|| rows(who, clusters, cpus, pages))));
    Scene {
        name: "pages",
        operation: "one page stored, 64 pages freed, or one shared page looked up, shared and put",
        rows: rows.collect(),
    }
}
