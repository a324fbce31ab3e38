//! Ranges that are held while the rest of the process is evicted.

use super::machine::{MAPPED, Machine};
use super::tasks::complete;
use super::with_space;
use crate::evict::Evictor;
use crate::space::AddressSpace;
use std::boxed::Box;
use std::vec::Vec;
use uswap_units::PageRange;

/// More batches than it takes to evict all.
const BATCHES: usize = 40;

pub(super) fn evict_all(space: &AddressSpace<'_, Machine>, evictor: &mut Evictor) {
    complete(async {
        for _ in 0..BATCHES {
            let _however_many = space.evict(evictor, 64).await;
        }
    });
    space.disown_zspages(evictor);
}

/// Which of the pages are there.
pub(super) fn present(space: &AddressSpace<'_, Machine>) -> Vec<usize> {
    (0..MAPPED).filter(|&index| space.world().cell(index).content.is_some()).collect()
}

#[test]
fn a_held_range_stays_and_the_rest_goes() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let mut evictor = Box::new(Evictor::new(0));
        let held_there = || present(space).into_iter().filter(|index| (70..100).contains(index)).count();
        let before = (held_there(), present(space).len());
        let hold = space.hold_range(PageRange::of_pages(space.world().first().plus(70), 30));
        assert!(space.may_evict());
        evict_all(space, &mut evictor);
        assert_eq!(held_there(), before.0);
        assert!(present(space).len() < before.1 * 3 / 4, "the other chunks go");
        drop(hold);
        evict_all(space, &mut evictor);
        assert!(
            held_there() < before.0 / 2,
            "the hand comes by again: {} of {} stay",
            held_there(),
            before.0
        );
    });
}

#[test]
fn what_was_isolated_before_it_was_held_is_not_dropped() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let mut evictor = Box::new(Evictor::new(0));
        let before = present(space).len();
        complete(async {
            let _looked = space.isolate(&mut evictor, |evictor| space.choose(evictor, 64)).await;
            let hold = space.hold_range(space.world().all());
            let evicted = space.evict_isolated(&mut evictor).await;
            assert_eq!(evicted.pages, 0);
            drop(hold);
        });
        space.disown_zspages(&evictor);
        assert_eq!(present(space).len(), before);
    });
}
