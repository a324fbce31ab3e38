//! What the boundary adds to a call: ranges, hazards and page words, without the call itself.
//!
//! Run by hand, on a quiet machine: `cargo run --release -p uswap-interpose --example boundary_cost`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use uswap_interpose::Call;
use uswap_interpose::buffers::{
    Boundary, HazardTable, Page, Residency, StackPoint, register_asymmetric_fence,
};
use uswap_interpose::table::{Access, Memory, Unreadable};

const KEPT: u64 = 0x2000_0000_0000;
const PAGES: usize = 1 << 16;
const ROUNDS: u32 = 200_000;

/// A byte a page, all present; and the one array that a call of this program names.
struct Words {
    pages: Vec<AtomicU8>,
    vectors: Vec<u8>,
}

impl Memory for Words {
    fn read(&self, _: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        into.copy_from_slice(&self.vectors[..into.len()]);
        Ok(())
    }
}

impl Residency for Words {
    fn kept(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        (end > KEPT).then_some((start.max(KEPT), end))
    }

    fn page(&self, address: u64, _: Access) -> Page {
        let word = &self.pages[(address - KEPT) as usize / 4096];
        if word.load(Ordering::Acquire) == 0 { Page::Ready } else { Page::Missing }
    }

    fn make_present(&self, _: u64, _: u64, _: Access) -> bool {
        false
    }

    fn part_bytes(&self) -> u64 {
        1 << 26
    }
}

/// The fastest of some rounds, in nanoseconds each.
fn measure(mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..20 {
        let begin = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    best
}

fn main() {
    println!("membarrier: {}", register_asymmetric_fence());
    let vectors: Vec<u8> =
        [0, 2, 16, 32].iter().flat_map(|page| [KEPT + page * 4096, 100]).flat_map(u64::to_ne_bytes).collect();
    let words = Words { pages: (0..PAGES).map(|_| AtomicU8::new(0)).collect(), vectors };
    let table = HazardTable::map(4).expect("memory for four slots");
    let boundary = Boundary::new(&words, table.slot(0));
    let at = StackPoint { pointer: 0x7000, stack: 0 };
    for (name, number, arguments) in [
        ("getpid", 39, [0; 6]),
        ("read, memory that nobody keeps", 0, [0, 0x1000, 100, 0, 0, 0]),
        ("read, one page", 0, [0, KEPT as usize, 100, 0, 0, 0]),
        ("read, 16 pages", 0, [0, KEPT as usize, 1 << 16, 0, 0, 0]),
        ("readv, 4 vectors", 19, [0, 0x1000, 4, 0, 0, 0]),
    ] {
        let call = Call { number, arguments };
        let ns = measure(|| {
            black_box(boundary.call(black_box(&call), at, &mut |_| 0));
        });
        println!("{name}: {ns:.1} ns");
    }
    let pages: Vec<u64> = (0..32).map(|page| KEPT + page * 4096).collect();
    println!(
        "evictor, a batch of 32 pages: {:.1} ns",
        measure(|| table.find_used(&pages, || 4, &mut |_| ()))
    );
}
