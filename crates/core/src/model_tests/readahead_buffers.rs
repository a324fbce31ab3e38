//! Readahead buffers against a list of parts, with a file whose content changes under them.

use super::{SMALL, with_segment};
use crate::readahead_buffers::{Copied, ReadaheadBuffers};
use crate::segment::Geometry;
use core::ops::Range;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use uswap_units::limits::FILE_BUFFER_BYTES;
use uswap_units::{PAGE_BYTES, SlotId, SwapOffset};

const BUFFERS: u32 = 3;
const FILE_SLOTS: u64 = 64;
const PART_SLOTS_MAX: u64 = (FILE_BUFFER_BYTES / PAGE_BYTES) as u64;
const SOON_NS: u64 = 1_000_000;
const LATE_NS: u64 = 200_000_000;

#[derive(Clone, Debug)]
enum Operation {
    Ask { first: u64, slots: u64, after_ns: u64 },
    Read,
    Copy { first: u64, slots: u64, reach: u64 },
    Rewrite { slot: u64 },
    Forget { first: u64, slots: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let first = || 0..FILE_SLOTS - PART_SLOTS_MAX;
    prop_oneof![
        3 => (first(), 1..=PART_SLOTS_MAX, prop_oneof![Just(SOON_NS), Just(LATE_NS)])
            .prop_map(|(first, slots, after_ns)| Operation::Ask { first, slots, after_ns }),
        3 => Just(Operation::Read),
        4 => (first(), 1..3_u64, 0..20_u64)
            .prop_map(|(first, slots, reach)| Operation::Copy { first, slots, reach }),
        1 => (0..FILE_SLOTS).prop_map(|slot| Operation::Rewrite { slot }),
        1 => (first(), 1..3_u64).prop_map(|(first, slots)| Operation::Forget { first, slots }),
    ]
}

fn part(first: u64, slots: u64) -> Range<SwapOffset> {
    SlotId::new(first).start()..SlotId::new(first + slots).start()
}

/// What every slot holds: how often it was written, and its number.
fn read(file: &[u8], part: &Range<SwapOffset>) -> Vec<u8> {
    SlotId::each(part.start.slot()..part.end.slot())
        .flat_map(|slot| {
            let mut content = vec![file[slot.number() as usize]; PAGE_BYTES];
            content[..8].copy_from_slice(&slot.number().to_le_bytes());
            content
        })
        .collect()
}

/// A part that was asked for, and what was read, in the model.
struct Known {
    part: Range<SwapOffset>,
    content: Option<Vec<u8>>,
}

fn apply(buffers: ReadaheadBuffers<'_>, operations: &[Operation]) {
    let mut file = vec![0_u8; FILE_SLOTS as usize];
    // What may be held: what is replaced or forgotten stays in the list.
    let mut known: Vec<Known> = Vec::new();
    let mut out = vec![0; FILE_BUFFER_BYTES];
    let (mut now_ns, mut wanted) = (0, 0);
    for operation in operations {
        match *operation {
            Operation::Ask { first, slots, after_ns } => {
                now_ns += after_ns;
                let part = part(first, slots);
                if buffers.ask(&part, now_ns) {
                    assert!(buffers.find(&part).is_some_and(|found| found.start <= part.start));
                    known.push(Known { part, content: None });
                    wanted += 1;
                } else {
                    assert!(after_ns < LATE_NS, "what nobody has used for long gives way");
                    assert!(wanted >= BUFFERS, "a buffer that was never given out is free");
                }
            }
            Operation::Read => {
                let Some(task) = buffers.take() else { continue };
                let content = read(&file, &task.part);
                let asked = known.iter_mut().rev().find(|known| known.part == task.part);
                asked.expect("only what was asked for is read").content = Some(content.clone());
                buffers.finish(task, Some(&content));
            }
            Operation::Copy { first, slots, reach } => {
                let (least, reach) = (part(first, slots), SlotId::new(first + slots + reach).start());
                let Copied::UpTo(end) = buffers.copy(&least, reach, &mut out) else { continue };
                assert!(least.end <= end && end <= reach);
                let bytes = end.since(least.start) as usize;
                let is_it = |known: &Known| {
                    let Some(content) = &known.content else { return false };
                    let from = least.start.bytes().wrapping_sub(known.part.start.bytes()) as usize;
                    content.get(from..).and_then(|rest| rest.get(..bytes)) == Some(&out[..bytes])
                };
                assert!(known.iter().any(is_it), "what is copied was read there once");
            }
            Operation::Rewrite { slot } => file[slot as usize] += 1,
            Operation::Forget { first, slots } => {
                let part = part(first, slots);
                buffers.forget(&part);
                let copied = buffers.copy(&part, part.end, &mut out);
                assert!(!matches!(copied, Copied::UpTo(_)), "{copied:?} after it was forgotten");
            }
        }
    }
}

const GEOMETRY: Geometry = Geometry { readahead: BUFFERS, ..SMALL };

proptest! {
    #[test]
    fn what_is_copied_was_read(operations in prop::collection::vec(operation(), 1..60)) {
        with_segment(GEOMETRY, |segment| apply(segment.readahead(), &operations));
    }
}

fn read_next(buffers: ReadaheadBuffers<'_>) {
    let task = buffers.take().expect("something is wanted");
    let content = read(&[7; FILE_SLOTS as usize], &task.part);
    buffers.finish(task, Some(&content));
}

#[test]
fn streams_do_not_take_each_others_buffers_before_they_are_used() {
    with_segment(GEOMETRY, |segment| {
        let (buffers, mut out) = (segment.readahead(), vec![0; FILE_BUFFER_BYTES]);
        for first in [0, 16, 32] {
            assert!(buffers.ask(&part(first, 16), SOON_NS));
            read_next(buffers);
        }
        assert!(!buffers.ask(&part(8, 16), 2 * SOON_NS), "all three wait for their faults");
        let half = part(0, 8);
        assert_eq!(buffers.copy(&half, half.end, &mut out), Copied::UpTo(half.end));
        assert!(!buffers.ask(&part(8, 16), 3 * SOON_NS), "the rest of it is still wanted");
        let rest = part(8, 7);
        assert_eq!(buffers.copy(&rest, rest.end, &mut out), Copied::UpTo(rest.end));
        assert!(buffers.ask(&part(40, 16), 3 * SOON_NS), "the last record of it may go on in the next part");
        assert!(buffers.ask(&part(24, 16), LATE_NS), "a stream that has ended keeps nothing for ever");
    });
}

#[test]
fn what_nobody_has_begun_to_read_is_left_to_the_fault_that_needs_it() {
    with_segment(GEOMETRY, |segment| {
        let (buffers, mut out) = (segment.readahead(), vec![0; FILE_BUFFER_BYTES]);
        assert!(buffers.ask(&part(4, 4), SOON_NS));
        assert_eq!(buffers.copy(&part(5, 1), part(5, 3).end, &mut out), Copied::Not);
        assert!(buffers.take().is_none(), "it is not read twice");
        assert!(buffers.ask(&part(4, 4), SOON_NS));
        let task = buffers.take().expect("it is wanted");
        assert_eq!(buffers.copy(&part(5, 1), part(5, 3).end, &mut out), Copied::Coming);
        buffers.finish(task, None);
        assert_eq!(buffers.copy(&part(5, 1), part(5, 3).end, &mut out), Copied::Not, "it could not be read");
    });
}

#[test]
fn a_run_without_buffers_reads_nothing_ahead() {
    with_segment(SMALL, |segment| {
        assert!(!segment.readahead().ask(&part(0, 1), 0));
        assert!(segment.readahead().find(&part(0, 1)).is_none());
        assert!(segment.readahead().take().is_none());
    });
}
