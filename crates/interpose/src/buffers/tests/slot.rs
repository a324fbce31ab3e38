//! Random lists of operations on a slot, compared with a list of frames that a child could check.

use crate::buffers::{FRAMES_MAX, HazardSlot, HazardTable, RANGES_MAX, StackPoint};
use std::vec::Vec;
use uswap_units::Prng;
use uswap_units::seeds::try_seeds;

const PAGE: u64 = 4096;

/// What is under way: where each call began, and the pages that it published.
#[derive(Default)]
struct Model {
    frames: Vec<(StackPoint, Vec<u64>)>,
}

impl Model {
    /// Pages that must not be evicted.
    fn pages(&self) -> impl Iterator<Item = u64> {
        self.frames.iter().flat_map(|(_, pages)| pages.iter().copied())
    }
}

fn is_covered(slot: &HazardSlot, page: u64) -> bool {
    let mut is_covered = false;
    slot.for_each(&mut |start, end| is_covered |= (start..end).contains(&page));
    is_covered
}

fn stack_point(depth: usize, stack: u64) -> StackPoint {
    StackPoint { pointer: 1 << 20 | (1000 - depth as u64) << 8, stack }
}

/// Calls inside calls, ended in order, or left behind by a jump to a call further out.
fn run(seed: u64) {
    let mut prng = Prng::new(seed);
    let (slot, mut model) = (HazardSlot::default(), Model::default());
    for _ in 0..400 {
        let depth = model.frames.len();
        match prng.below(8) {
            0 | 1 if depth < FRAMES_MAX => {
                let at = stack_point(depth, prng.below(2) * 0x7000);
                slot.begin(at);
                model.frames.push((at, Vec::new()));
            }
            2..=4 if depth > 0 => {
                let (start, count) = (prng.below(5000), 1 + prng.below(6));
                slot.publish(start * PAGE, (start + count) * PAGE);
                let top = model.frames.last_mut().expect("a call is under way");
                top.1.extend((start..start + count).map(|page| page * PAGE));
            }
            5 if depth > 0 && prng.chance(1, 20) => {
                for index in 0..300 {
                    let start = 10_000 + 3 * index;
                    slot.publish(start * PAGE, (start + 1) * PAGE);
                    model.frames.last_mut().expect("a call is under way").1.push(start * PAGE);
                }
            }
            6 if depth > 0 => {
                let (at, _) = model.frames.pop().expect("a call is under way");
                slot.end(at);
            }
            7 if depth > 1 && prng.chance(1, 3) => {
                // The calls on top never end; the one below does.
                let index = prng.below(depth as u64) as usize;
                let at = model.frames[index].0;
                model.frames.truncate(index);
                slot.end(at);
            }
            _ => {}
        }
        for page in model.pages() {
            assert!(is_covered(&slot, page), "page {page:#x} is in use; seed {seed}");
        }
        let (frames, ranges) = slot.counts();
        assert_eq!(frames as usize, model.frames.len(), "seed {seed}");
        assert!(
            model.pages().next().is_some() || ranges == 0,
            "nothing is used and {ranges} ranges are kept"
        );
    }
}

#[test]
fn a_slot_covers_what_calls_under_way_use() {
    try_seeds(300, run);
}

#[test]
fn pages_that_nobody_published_are_free_while_there_is_room() {
    let slot = HazardSlot::default();
    slot.begin(stack_point(0, 0));
    for index in 0..RANGES_MAX as u64 {
        slot.publish(10 * index * PAGE, (10 * index + 1) * PAGE);
    }
    for index in 0..RANGES_MAX as u64 {
        assert!(is_covered(&slot, 10 * index * PAGE) && !is_covered(&slot, (10 * index + 1) * PAGE));
    }
}

#[test]
fn ranges_side_by_side_are_one() {
    let slot = HazardSlot::default();
    slot.begin(stack_point(0, 0));
    slot.publish(4 * PAGE, 5 * PAGE);
    slot.publish(5 * PAGE, 6 * PAGE);
    slot.publish(4 * PAGE, 5 * PAGE);
    slot.publish(3 * PAGE, 4 * PAGE);
    assert_eq!(slot.counts(), (1, 1));
    // But not with those of the call below, which may end later.
    slot.begin(stack_point(1, 0));
    slot.publish(6 * PAGE, 7 * PAGE);
    assert_eq!(slot.counts(), (2, 2));
}

/// A handler that jumped out of its call makes the next one at the same place: only that is under way.
#[test]
fn a_call_takes_the_place_of_one_that_began_where_it_begins() {
    let slot = HazardSlot::default();
    let (outer, inner) = (stack_point(0, 0), stack_point(1, 0));
    slot.begin(outer);
    slot.publish(PAGE, 2 * PAGE);
    slot.begin(inner);
    slot.publish(4 * PAGE, 5 * PAGE);
    slot.begin(inner);
    assert_eq!(slot.counts(), (2, 1));
    assert!(is_covered(&slot, PAGE) && !is_covered(&slot, 4 * PAGE));
    slot.publish(8 * PAGE, 9 * PAGE);
    slot.end(inner);
    assert_eq!(slot.counts(), (1, 1));
    slot.begin(outer);
    assert_eq!(slot.counts(), (1, 0));
    slot.end(outer);
    assert_eq!(slot.counts(), (0, 0));
}

#[test]
fn a_handler_that_jumps_away_leaves_no_more_than_a_few_frames() {
    let slot = HazardSlot::default();
    for round in 0..10 * FRAMES_MAX {
        // Each round the handler runs deeper and never comes back; then the program goes on where it was.
        slot.begin(stack_point(1 + round % 7, 0));
        slot.publish(round as u64 * 2 * PAGE, (round as u64 * 2 + 1) * PAGE);
        let at = stack_point(0, 0);
        slot.begin(at);
        slot.end(at);
        assert!(slot.counts().0 as usize <= FRAMES_MAX);
    }
    let at = StackPoint { pointer: u64::MAX, stack: 0 };
    (0..=FRAMES_MAX).for_each(|_| slot.begin(at));
    slot.end(at);
    assert_eq!(slot.counts(), (0, 0), "the outermost call ends all that was left behind");
}

#[test]
fn the_evictor_finds_the_pages_of_every_thread_with_one_barrier() {
    let slots: [HazardSlot; 3] = Default::default();
    let table = HazardTable::new(&slots);
    table.slot(0).begin(stack_point(0, 0));
    table.slot(0).publish(3 * PAGE, 6 * PAGE);
    table.slot(2).begin(stack_point(0, 0));
    table.slot(2).publish(9 * PAGE, 10 * PAGE);
    let batch = [2, 3, 5, 6, 8, 9, 10].map(|page| page * PAGE);
    let mut used = Vec::new();
    table.find_used(&batch, || 3, &mut |index| used.push(index));
    assert_eq!(used, [1, 2, 5]);
}

#[test]
fn a_child_begins_with_empty_slots() {
    let slots: [HazardSlot; 2] = Default::default();
    let table = HazardTable::new(&slots);
    for slot in &slots {
        slot.begin(stack_point(0, 0));
        slot.publish(0, PAGE);
    }
    table.begin_as_child(2);
    table.find_used(&[0], || 2, &mut |_| panic!("nobody uses it"));
    assert!(slots.iter().all(|slot| slot.counts() == (0, 0)));
}
