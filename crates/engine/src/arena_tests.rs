//! The arena against a queue of its chunks.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// A huge page; so many pages of it arrive. None: it is given back.
    StageBlock(u32),
    /// The kept block, if there is one, goes.
    TakeKept,
}

fn operation() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..=64_u32, 0..4_u32).prop_map(|(pages, holes)| Op::Stage(pages, holes)),
        3 => Just(Op::Store),
        2 => (0..3_usize).prop_map(Op::StoreBehind),
        1 => Just(Op::CannotStore),
        1 => Just(Op::Rebuild),
        4 => (0..=512_u32).prop_map(Op::StageBlock),
        1 => Just(Op::TakeKept),
    ]
}

/// Chunks of the ring, the open one, and those of blocks that are done with.
fn chunks_used(model: &VecDeque<StagedChunk>, blocks: &BTreeMap<u32, (BTreeSet<u32>, u32)>) -> usize {
    model.len() + blocks.values().map(|(done, _)| done.len()).sum::<usize>()
}

/// The place in the model of the chunk at a place of the ring, which the open one is not part of.
fn in_model(model: &VecDeque<StagedChunk>, place: usize) -> Option<usize> {
    (0..model.len()).filter(|&at| model[at].room() == 0).nth(place)
}
fn remove(model: &mut VecDeque<StagedChunk>, place: usize) -> Option<StagedChunk> {
    model.remove(in_model(model, place)?)
}
/// The open one comes last.
fn pop_front(model: &mut VecDeque<StagedChunk>) -> Option<StagedChunk> {
    remove(model, 0).or_else(|| model.pop_front())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn chunks_are_filled_and_come_back_in_order(ops in prop::collection::vec(operation(), 1..80)) {
        const CHUNKS: u32 = 21;
        let mut arena = Arena::new(CHUNKS);
        // The staged chunks, oldest first; only the last that is not of a block may have room.
        let mut model: VecDeque<StagedChunk> = VecDeque::new();
        // Blocks by their number: which chunks are done with, and pages of them that were stored.
        let mut blocks: BTreeMap<u32, (BTreeSet<u32>, u32)> = BTreeMap::new();
        // Where single pages lay since the block was last cleared.
        let mut had_chunks: BTreeSet<u32> = BTreeSet::new();
        let mut kept: Option<FrameId> = None;
        let finish = |arena: &mut Arena, blocks: &mut BTreeMap<u32, (BTreeSet<u32>, u32)>, kept: &mut Option<FrameId>, chunk: ArenaChunk, stored: u32| {
            match (arena.finish(chunk, stored), blocks.get_mut(&(chunk.0 / 8))) {
                (Finished::Chunk, None) => arena.give_back(chunk),
                (finished, Some((done, sum))) => {
                    assert!(done.insert(chunk.0), "a chunk is done with once");
                    *sum += stored;
                    if done.len() == 8 {
                        let first = FrameId(chunk.0 / 8 * 512);
                        assert_eq!(finished, Finished::Block { first, stored: *sum });
                        // Those of which much was stored are wanted again.
                        if *sum > 256 && arena.keep(first) {
                            assert_eq!(kept.replace(first), None);
                        } else {
                            assert!(*sum <= 256 || kept.is_some());
                            arena.give_back_block(first);
                            blocks.remove(&(chunk.0 / 8));
                        }
                    } else {
                        assert_eq!(finished, Finished::PartOfBlock);
                    }
                }
                (finished, None) => panic!("{finished:?} of a chunk of its own"),
            }
        };
        for op in ops {
            match op {
                Op::Stage(pages, holes) => {
                    let open = model.iter().position(|chunk| chunk.room() > 0);
                    let Some(mut chunk) = arena.take() else {
                        assert!(open.is_none());
                        assert_eq!(chunks_used(&model, &blocks), CHUNKS as usize);
                        continue;
                    };
                    match open {
                        Some(open) => assert_eq!(Some(chunk), model.remove(open)),
                        None => assert_eq!((chunk.used, chunk.pages), (0, 0)),
                    }
                    assert!(model.iter().all(|other| other.arena != chunk.arena));
                    assert!(!blocks.contains_key(&(chunk.arena.0 / 8)));
                    had_chunks.insert(chunk.arena.0 / 8);
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
                    assert_eq!(chunk, pop_front(&mut model));
                    if let Some(chunk) = chunk {
                        finish(&mut arena, &mut blocks, &mut kept, chunk.arena, chunk.pages);
                    }
                }
                Op::StoreBehind(place) => {
                    if let Some(chunk) = arena.oldest(place) {
                        assert_eq!(remove(&mut model, place), Some(chunk));
                        let job = |index| TakenJob { index, seen: SeenJob::default() };
                        assert!(arena.set_job(place, chunk, job(7)));
                        assert!(!arena.set_job(place, chunk, job(8)));
                        assert_eq!(arena.oldest(place), Some(StagedChunk { job: Some(job(7)), ..chunk }));
                        arena.remove(place);
                        finish(&mut arena, &mut blocks, &mut kept, chunk.arena, 1);
                    }
                }
                Op::CannotStore => {
                    if let Some(chunk) = arena.pop_oldest() {
                        // What goes back is not filled any further.
                        assert_eq!(pop_front(&mut model), Some(chunk));
                        let full = StagedChunk { used: 64, ..chunk };
                        arena.push_oldest(full);
                        model.push_front(full);
                    }
                }
                Op::TakeKept => {
                    assert_eq!(arena.take_kept(), kept);
                    if let Some(first) = kept.take() {
                        arena.give_back_block(first);
                        blocks.remove(&(first.0 / 512));
                    }
                }
                Op::StageBlock(pages) => {
                    let Ok(block) = arena.take_block() else { continue };
                    let number = block.first.0 / 512;
                    assert!(model.iter().all(|chunk| chunk.arena.0 / 8 != number) && !blocks.contains_key(&number));
                    assert_eq!(block.must_be_cleared, had_chunks.remove(&number));
                    if pages == 0 {
                        arena.give_back_block(block.first);
                        continue;
                    }
                    let parts = core::array::from_fn(|part| pages.saturating_sub(64 * part as u32).min(64));
                    arena.push_block(block.first, parts);
                    let chunks = (number * 8..).map(ArenaChunk).zip(parts);
                    model.extend(chunks.map(|(arena, pages)| StagedChunk { arena, used: 64, pages, job: None }));
                    blocks.insert(number, Default::default());
                }
                Op::Rebuild => {
                    let frames = |chunk: &StagedChunk| {
                        let first = chunk.arena.first_frame().0;
                        (first..first + chunk.pages).map(|frame| (PageId(u64::from(frame)), FrameId(frame)))
                    };
                    arena.rebuild(model.iter().flat_map(frames).collect::<Vec<_>>().into_iter());
                    model.retain(|chunk| chunk.pages > 0);
                    blocks.clear();
                    kept = None;
                    had_chunks = (0..8).collect();
                    model.make_contiguous().sort_by_key(|chunk| core::cmp::Reverse(chunk.arena.0));
                    model.iter_mut().for_each(|chunk| chunk.used = 64);
                }
            }
            let firsts = blocks.keys().map(|block| FrameId(block * 512));
            assert!(firsts.clone().all(|first| arena.block_with(FrameId(first.0 + 511)).is_some_and(|(of, _)| of == first)));
            assert_eq!(arena.staged_pages(), model.iter().map(|chunk| u64::from(chunk.pages)).sum::<u64>());
            assert_eq!(arena.chunks_used as usize, chunks_used(&model, &blocks));
            assert_eq!(arena.zone().free_frames(), u64::from(arena_frames(CHUNKS) - 64 * arena.chunks_used));
        }
    }
}
