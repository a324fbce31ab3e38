//! How long a lock of a tree must be held until the comparison comes out as it was published.
//!
//! Made-up time knows cache lines and not instructions, and ours of the trees hold a lock for some lines. The kernel
//! does more under it: it walks and makes nodes, counts pages of the group and the zone, and has interrupts off. Here
//! the trees do so many nanoseconds of that more under each lock. What it is for: to see whether one such figure
//! explains all that was published, and which.

use uswap_sync::trace;

use super::{OURS, Row, Scene, Size, pages, single_pages};
use crate::swap_space::cache::{Table, TableMemory, WithTrees};
use crate::swap_space::clock::{Length, unnoted};
use crate::swap_space::fragments::{Fragments, Prefer, Rules, Walk};
use crate::swap_space::linear::{Base, Linear};

/// Of the scene.
pub const NAME: &str = "held";
/// Nanoseconds of instructions under each lock of a tree.
const HELD_NS: [u32; 5] = [0, 250, 300, 600, 1200];
/// As many processes as where the places for each CPU were published, and the swap table.
const SINGLE_CPUS: u16 = 16;
const STORE_CPUS: u16 = 31;

fn single(who: &'static str, base: Base, clusters: u32, held_ns: u32, length: Length) -> Row {
    let cache = WithTrees::new(Linear::new(clusters, base), clusters).holding(held_ns);
    named(single_pages::with_work(who, &cache, SINGLE_CPUS, length), "single pages", held_ns)
}

fn store(clusters: u32, pages: u64, held_ns: u32) -> [Row; 2] {
    let rules = Rules { walk: Walk::One, prefer: Prefer::Nonfull };
    let trees = WithTrees::new(Fragments::new(clusters, rules), clusters).holding(held_ns);
    let memory = TableMemory::new(clusters);
    let theirs = pages::stored_with_work(pages::TREES, &trees, STORE_CPUS, pages);
    let ours = pages::stored_with_work(OURS, &Table::new(&memory), STORE_CPUS, pages);
    [theirs, ours].map(|row| named(row, "store", held_ns))
}

fn named(row: Row, what: &str, held_ns: u32) -> Row {
    Row { setting: format!("{what}, {held_ns} ns under a tree's lock"), ..row }
}

/// Only in simulated time: threads take what they take.
#[must_use]
pub fn run(size: Size) -> Option<Scene> {
    let (clusters, pages, length) = match size {
        Size::Short => (256, 2000, Length { warm_up: 100, operations: 400 }),
        Size::Full => (4096, 60_000, Length { warm_up: 20_000, operations: 60_000 }),
    };
    let rows = HELD_NS.iter().flat_map(|&held_ns| {
        let single = |who, base| unnoted(|| single(who, base, clusters, held_ns, length));
        let mut rows =
            vec![single("linear, shared", Base::Shared), single("linear, each CPU", Base::EachCpu)];
        rows.extend(unnoted(|| store(clusters, pages, held_ns)));
        rows
    });
    trace::RECORDS.then(|| Scene {
        name: NAME,
        operation: "as single-pages, and as the store of pages, with other work",
        rows: rows.collect(),
    })
}
