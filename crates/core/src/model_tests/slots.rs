//! The slot map against one byte a slot.

use super::{SMALL, with_segment};
use crate::slots::TakenRun;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use uswap_units::PAGE_BYTES;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Take { wanted: u64 },
    AddBlob { run: usize, at: u64, granules: u64 },
    RemoveBlob { blob: usize },
    EndRun { run: usize },
}

pub(super) fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..70_u64).prop_map(|wanted| Op::Take { wanted }),
        8 => (0..64_usize, 0..4096_u64, 1..65_u64).prop_map(|(run, at, granules)| Op::AddBlob { run, at, granules }),
        4 => (0..256_usize).prop_map(|blob| Op::RemoveBlob { blob }),
        3 => (0..64_usize).prop_map(|run| Op::EndRun { run }),
    ]
}

/// Slots of the largest aligned free run that is a power of two.
fn largest_free_run(counts: &[u8]) -> u64 {
    (0..=6)
        .rev()
        .map(|order| 1 << order)
        .find(|&size| counts.chunks(size).any(|run| run.iter().all(|&count| count == 0)))
        .unwrap_or(0) as u64
}

fn touched(offset: u64, bytes: u64) -> Vec<usize> {
    let page = PAGE_BYTES as u64;
    (0..64)
        .filter(|slot| slot * page < offset + bytes && offset < (slot + 1) * page)
        .map(|slot| slot as usize)
        .collect()
}

/// Each step of a list against the model.
pub(super) fn run(ops: Vec<Op>, always_whole: bool) {
    with_segment(SMALL, |segment| {
        let map = segment.slots();
        let mut model = vec![0_u8; 64];
        let (mut runs, mut blobs): (Vec<TakenRun>, Vec<(u64, u64)>) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Take { wanted } => {
                    let largest = largest_free_run(&model);
                    let wanted = if always_whole { 64 } else { wanted };
                    match map.take_run(wanted) {
                        None => assert_eq!(largest, 0),
                        Some(run) => {
                            let slots = run.bytes() / PAGE_BYTES as u64;
                            assert!(slots.is_power_of_two() && slots <= wanted);
                            assert_eq!(slots, largest.min(1 << wanted.ilog2()), "the largest");
                            let first = (run.offset_bytes() / PAGE_BYTES as u64) as usize;
                            assert!(
                                first.is_multiple_of(slots as usize)
                                    && first as u64 + slots <= map.capacity()
                            );
                            for count in &mut model[first..first + slots as usize] {
                                assert_eq!(*count, 0, "a live slot was taken");
                                *count = 1;
                            }
                            runs.push(run);
                        }
                    }
                }
                Op::AddBlob { run, at, granules } if !runs.is_empty() => {
                    let run = &runs[run % runs.len()];
                    let bytes = (granules * 64).min(run.bytes());
                    let offset = run.offset_bytes() + (at * 64) % (run.bytes() - bytes + 64);
                    let slots = touched(offset, bytes);
                    if slots.iter().all(|&slot| model[slot] < 65) {
                        map.add_blob(offset, bytes);
                        slots.iter().for_each(|&slot| model[slot] += 1);
                        blobs.push((offset, bytes));
                    }
                }
                Op::RemoveBlob { blob } if !blobs.is_empty() => {
                    let (offset, bytes) = blobs.swap_remove(blob % blobs.len());
                    map.remove_blob(offset, bytes);
                    touched(offset, bytes).into_iter().for_each(|slot| model[slot] -= 1);
                }
                Op::EndRun { run } if !runs.is_empty() => {
                    let run = runs.swap_remove(run % runs.len());
                    let slots = touched(run.offset_bytes(), run.bytes());
                    map.end_run(run);
                    slots.iter().for_each(|&slot| model[slot] -= 1);
                }
                _ => {}
            }
            assert_eq!((0..64).map(|slot| map.count(slot)).collect::<Vec<_>>(), model);
            assert_eq!(map.used(), model.iter().filter(|&&count| count > 0).count() as u64);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn counts_are_those_of_the_model(ops in prop::collection::vec(operation(), 1..120), always_whole: bool) {
        run(ops, always_whole);
    }
}

#[test]
fn a_fragmented_file_gives_short_runs_and_a_full_one_none() {
    with_segment(SMALL, |segment| {
        let map = segment.slots();
        let run = map.take_run(64).expect("all are free");
        assert!(map.take_run(1).is_none());
        (0..64).step_by(2).for_each(|slot| map.add_blob(slot * 4096, 4096));
        map.end_run(run);
        assert_eq!(map.used(), 32);
        let singles: Vec<TakenRun> = core::iter::from_fn(|| map.take_run(8)).collect();
        assert!(singles.iter().all(|run| run.bytes() == 4096));
        assert_eq!(singles.len(), 32);
        assert_eq!(map.used(), 64);
        assert!(map.take_run(1).is_none());
    });
}
