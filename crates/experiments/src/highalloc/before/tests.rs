//! What the ways of before do to a small zone.

use super::scanners::{End, Mode, Positions, Run};
use super::{Before, Suitable, suitable};
use crate::highalloc::Column;
use crate::highalloc::memory::{Kind, Memory};
use crate::highalloc::turn::Then;
use uswap_sync::AtomicU64;
use uswap_units::Prng;
use uswap_zones::FrameId;
use uswap_zones::marks::{Mark, Mixing, Spacing, kept_for_lower, marks};
use uswap_zones::node::Node;
use uswap_zones::tickets::Tickets;
use uswap_zones::wake::Asked;
use uswap_zones::{BLOCK_FRAMES, Level, Mobility, ORDER_MAX, Shape, Zone};

const BLOCKS: u32 = 32;
const ASKED: Asked = Asked { order: ORDER_MAX, class: 0 };

/// A zone full of pages of files, which lie in it in random order. `keeps` says which stay, and `min` is the lowest
/// mark.
fn with_memory(min: u64, keeps: impl Fn(u32) -> bool, test: impl FnOnce(&mut Memory<'_>)) {
    let shape = Shape { first: FrameId::new(0), blocks: BLOCKS, cpus: 1 };
    let words: Vec<AtomicU64> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
    let zone = Zone::create(&words, shape);
    let frames = u64::from(shape.frames());
    zone.set_marks(marks(frames, min, Spacing::Before), kept_for_lower(&[frames], 0), Mixing::Careless);
    let mut memory = Memory::new(Node::new([zone], Tickets::open(&[])), 1);
    let files = memory.add_space(Kind::File, frames as usize);
    let mut taken: Vec<FrameId> =
        (0..shape.frames()).map(|_| zone.take(0, Mobility::Movable).expect("room")).collect();
    let mut prng = Prng::new(1);
    for page in 0..shape.frames() {
        let frame = taken.swap_remove(prng.below(taken.len() as u64) as usize);
        memory.put_page(files, page, frame, 0);
    }
    let frame_of = |memory: &Memory<'_>, page: u32| memory.space(files).frames[page as usize];
    let gone: Vec<u32> = (0..shape.frames()).filter(|&page| !keeps(frame_of(&memory, page))).collect();
    gone.into_iter().for_each(|page| memory.drop_page(files, page));
    zone.drain();
    test(&mut memory);
    memory.check();
}

fn run_to_the_end(
    memory: &mut Memory<'_>,
    positions: &mut Positions,
    mode: Mode,
    ignores_marks: bool,
) -> End {
    let mut run = Run::new(&memory.zone(0), 0, ASKED, mode, positions, ignores_marks);
    loop {
        if let (_, Some(end)) = run.step(memory, positions) {
            return end;
        }
    }
}

#[test]
fn scanners_make_a_block_out_of_holes() {
    with_memory(
        128,
        |frame| !frame.is_multiple_of(4),
        |memory| {
            let zone = memory.zone(0);
            assert_eq!(suitable(&zone, ORDER_MAX, 0), Suitable::Yes);
            let mut positions = Positions::new(BLOCKS);
            // A page in a hundred is busy when it is to be moved. What is left of a block is a page or two, which the
            // next run takes.
            let mut runs = (0..3).map(|_| run_to_the_end(memory, &mut positions, Mode::Light, false));
            assert!(runs.any(|end| end == End::Partial));
            assert!(zone.is_above(Level::of(Mark::Low, ORDER_MAX, 0)));
            assert_eq!(zone.free_frames(), u64::from(BLOCKS * BLOCK_FRAMES / 4), "nothing is lost");
            assert!(memory.counts.migrated >= 384 && memory.counts.free_scanned > memory.counts.migrated);
        },
    );
}

#[test]
fn scanners_that_meet_begin_at_the_ends_again() {
    with_memory(
        128,
        |frame| !frame.is_multiple_of(4),
        |memory| {
            // All pages are being written, and cannot be moved.
            let files = 0;
            let pages = memory.space(files).frames.len() as u32;
            (0..pages).for_each(|page| memory.make_dirty(files, page));
            assert!(memory.write_some(0, pages as usize).is_some());
            let mut positions = Positions::new(BLOCKS);
            assert_eq!(run_to_the_end(memory, &mut positions, Mode::Light, false), End::Complete);
            let scanned = memory.counts.migrate_scanned;
            assert!(memory.counts.migrate_failed > 1000, "{:?}", memory.counts);
            assert_eq!(memory.counts.migrated, 0);
            assert_eq!(run_to_the_end(memory, &mut positions, Mode::Light, false), End::Complete);
            assert_eq!(memory.counts.migrate_scanned, 2 * scanned);
            assert_eq!(memory.zone(0).free_frames(), u64::from(BLOCKS * BLOCK_FRAMES / 4), "nothing is lost");
        },
    );
}

/// What each column tells kcompactd after a request for a block.
#[test]
fn the_order_is_lost_or_kept() {
    let told = |column: Column| {
        let mut told = None;
        with_memory(
            // kswapd reclaims up to the high mark at once: twice a block or more, after which it forgets the order.
            1024,
            |frame| !frame.is_multiple_of(50),
            |memory| {
                let mut before = Before::new(column, memory);
                assert!(before.wake_kswapd(memory, ASKED), "it sleeps");
                let mut now = 0;
                for _ in 0..10_000 {
                    let turn = before.kswapd_turn(memory, now);
                    told = told.or(turn.wakes_kcompactd.map(|asked| asked.order));
                    match turn.then {
                        Then::GoOn => now += turn.ns,
                        Then::At(time) => now = time,
                        Then::Sleep => return,
                    }
                }
                panic!("kswapd comes to an end");
            },
        );
        told
    };
    assert_eq!(told(Column::Base), None);
    assert_eq!(told(Column::Kcompactd), Some(0));
    assert_eq!(told(Column::WithOrder), Some(ORDER_MAX));
}
