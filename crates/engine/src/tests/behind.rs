//! A program goes through its memory in order: what it has just gone past goes first, and a stream goes on behind what
//! is still in RAM.

use super::machine::{MAPPED, Machine};
use super::tasks::{complete, read, write};
use super::with_space;
use crate::evict::Evictor;
use crate::space::AddressSpace;
use crate::workspace::Workspace;
use std::boxed::Box;
use std::vec::Vec;
use uswap_core::counters::Counter;
use uswap_units::CHUNK_PAGES;

type Space<'a> = AddressSpace<'a, Machine>;

/// More rounds than it takes until more chunks were gone past than the program may be at.
const ROUNDS: usize = 3;

fn present(space: &Space<'_>) -> Vec<usize> {
    (0..MAPPED).filter(|&index| space.world().cell(index).content.is_some()).collect()
}

fn evict(space: &Space<'_>, evictor: &mut Evictor, pages_max: u32) -> u64 {
    let mut pages = 0;
    complete(async { pages = space.evict(evictor, pages_max).await.pages });
    pages
}

/// All pages come back in this order, several times. Then what is left after one batch, and how many pages went
/// because they were just gone past.
fn left_after_rounds(order: impl Fn(usize) -> usize) -> (Vec<usize>, u64) {
    let mut left = (Vec::new(), 0);
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        (0..MAPPED).for_each(|index| complete(write(space, index, &mut workspace)));
        for _ in 0..ROUNDS {
            while !present(space).is_empty() {
                let _pages = evict(space, &mut evictor, 40);
            }
            (0..MAPPED).for_each(|index| complete(read(space, order(index), &mut workspace)));
        }
        assert_eq!(present(space).len(), MAPPED);
        assert!(evict(space, &mut evictor, 40) > 0);
        left = (present(space), space.counters().get(Counter::DroppedBehind));
        space.disown_zspages(&evictor);
    });
    left
}

#[test]
fn what_a_program_has_just_gone_past_goes_first_and_as_a_whole() {
    let chunk = CHUNK_PAGES as usize;
    // Up, the last chunk is the youngest; four of six are left alone.
    assert_eq!(left_after_rounds(|index| index), ((0..chunk).collect(), CHUNK_PAGES));
    assert_eq!(left_after_rounds(|index| MAPPED - 1 - index), ((chunk..MAPPED).collect(), CHUNK_PAGES));
}

#[test]
fn who_jumps_about_has_gone_past_nothing() {
    let (left, behind) = left_after_rounds(|index| index * 37 % MAPPED);
    assert_eq!((left.len(), behind), (MAPPED - 40, 0));
}

#[test]
fn a_stream_goes_on_at_the_first_page_that_is_not_in_ram() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        (0..MAPPED).for_each(|index| complete(write(space, index, &mut workspace)));
        while !present(space).is_empty() {
            let _pages = evict(space, &mut evictor, 40);
        }
        let skipped =
            |from: usize| space.skip_present(space.world().page(from)).since(space.world().first()) as usize;
        assert_eq!((skipped(0), skipped(64)), (0, 64));
        (10..100).step_by(3).chain((11..100).step_by(3)).chain((12..100).step_by(3)).for_each(|index| {
            complete(read(space, index, &mut workspace));
        });
        let first_missing =
            (10..MAPPED).find(|index| !present(space).contains(index)).expect("some are away");
        assert!(first_missing >= 100, "into the next block");
        assert_eq!((skipped(9), skipped(10), skipped(50)), (9, first_missing, first_missing));
        space.disown_zspages(&evictor);
    });
}
