//! Whose pages go when it is the turn of another process of the run.

use super::machine::{MAPPED, Machine};
use super::tasks::complete;
use super::with_space;
use crate::in_place::evict::Evictor;
use crate::in_place::reclaim::BackgroundState;
use crate::in_place::space::AddressSpace;
use std::boxed::Box;
use uswap_core::mm::{Hands, MmState};
use uswap_units::Bytes;

const RAM: Bytes = Bytes(1 << 20);

fn present(space: &AddressSpace<'_, Machine>) -> usize {
    (0..MAPPED).filter(|&index| space.world().cell(index).content.is_some()).count()
}

/// Uses as much memory as the budget has.
fn fill_budget(space: &AddressSpace<'_, Machine>) {
    let budget = space.segment().budget();
    budget.add(RAM.0 - budget.used().0);
}

#[test]
fn a_fault_takes_from_its_own_process_and_the_background_then_does_it_instead() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let segment = space.segment();
        segment.budget().set_ram(RAM);
        // One that is as large, and that nothing was taken from yet.
        let other = segment.mms().take(Hands::Run).expect("there is room");
        for record in [space.record(), other] {
            record.set_state(MmState::Live, 1);
            record.set_resident_pages(64);
        }
        space.record().add_passed(1 << 40);
        let (mut evictor, mut state) = (Box::new(Evictor::new(0)), BackgroundState::default());
        let mut in_background = |evictor: &mut Evictor| {
            let before = present(space);
            fill_budget(space);
            complete(async {
                let _goes_on = space.background_turn(evictor, &mut state).await;
            });
            before - present(space)
        };
        assert_eq!(in_background(&mut evictor), 0, "it is the turn of the other");
        let before = present(space);
        fill_budget(space);
        complete(space.throttle(&mut evictor));
        assert!(present(space) < before, "a fault does not wait for the other");
        assert!(in_background(&mut evictor) > 0, "threads took pages: the background does it instead");
        space.rest(&evictor);
    });
}
