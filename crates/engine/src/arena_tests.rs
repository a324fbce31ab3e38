//! The arena against a queue of its chunks.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;
use uswap_core::jobs::SeenJob;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// So many pages are moved, and so many of the frames get none.
    Stage(u32, u32),
    Store,
    /// The one so many behind the oldest.
    StoreBehind(usize),
    CannotStore,
    Rebuild,
}

fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..=64_u32, 0..4_u32).prop_map(|(pages, holes)| Op::Stage(pages, holes)),
        3 => Just(Op::Store),
        2 => (0..3_usize).prop_map(Op::StoreBehind),
        1 => Just(Op::CannotStore),
        1 => Just(Op::Rebuild),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn chunks_are_filled_and_come_back_in_order(ops in prop::collection::vec(operation(), 1..80)) {
        const CHUNKS: u32 = 5;
        let mut arena = Arena::new(CHUNKS);
        // The staged chunks, oldest first; only the last may have room.
        let mut model: VecDeque<StagedChunk> = VecDeque::new();
        for op in ops {
            match op {
                Op::Stage(pages, holes) => {
                    let open = model.back().copied().filter(|last| last.room() > 0);
                    let Some(mut chunk) = arena.take() else {
                        assert!(open.is_none());
                        assert_eq!(model.len(), CHUNKS as usize);
                        continue;
                    };
                    match open {
                        Some(open) => {
                            assert_eq!(chunk, open);
                            model.pop_back();
                        }
                        None => assert_eq!((chunk.used, chunk.pages), (0, 0)),
                    }
                    assert!(model.iter().all(|other| other.arena != chunk.arena));
                    assert_eq!(chunk.next_frame().0, chunk.arena.0 * 64 + chunk.used);
                    let used = pages.min(chunk.room());
                    chunk.used += used;
                    chunk.pages += used.saturating_sub(holes);
                    arena.put(chunk);
                    if chunk.used > 0 {
                        model.push_back(chunk);
                    }
                }
                Op::Store => {
                    let chunk = arena.pop_oldest();
                    assert_eq!(chunk, model.pop_front());
                    if let Some(chunk) = chunk {
                        arena.give_back(chunk.arena);
                    }
                }
                Op::StoreBehind(place) => {
                    if let Some(chunk) = arena.oldest(place) {
                        assert_eq!(model.remove(place), Some(chunk));
                        let job = |index| TakenJob { index, seen: SeenJob::default() };
                        assert!(arena.set_job(place, chunk, job(7)));
                        assert!(!arena.set_job(place, chunk, job(8)));
                        assert_eq!(arena.oldest(place), Some(StagedChunk { job: Some(job(7)), ..chunk }));
                        arena.remove(place);
                        arena.give_back(chunk.arena);
                    }
                }
                Op::CannotStore => {
                    if let Some(chunk) = arena.pop_oldest() {
                        // What goes back is not filled any further.
                        arena.push_oldest(StagedChunk { used: 64, ..chunk });
                        model[0].used = 64;
                    }
                }
                Op::Rebuild => {
                    let frames = |chunk: &StagedChunk| {
                        let first = chunk.arena.first_frame().0;
                        (first..first + chunk.pages).map(|frame| (PageId(u64::from(frame)), FrameId(frame)))
                    };
                    arena.rebuild(model.iter().flat_map(frames).collect::<Vec<_>>().into_iter());
                    model.retain(|chunk| chunk.pages > 0);
                    model.make_contiguous().sort_by_key(|chunk| core::cmp::Reverse(chunk.arena.0));
                    model.iter_mut().for_each(|chunk| chunk.used = 64);
                }
            }
            assert_eq!(arena.staged_pages(), model.iter().map(|chunk| u64::from(chunk.pages)).sum::<u64>());
            assert_eq!(arena.free_chunks().len() + model.len(), CHUNKS as usize);
        }
    }
}
