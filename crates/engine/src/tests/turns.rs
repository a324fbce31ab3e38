//! Whose pages go when it is the turn of another process of the run.

use super::machine::{MAPPED, Machine};
use super::tasks::complete;
use super::with_space;
use crate::evict::Evictor;
use crate::reclaim::{KswapdFailures, OTHERS_FAIL_NS};
use crate::space::AddressSpace;
use crate::world::Backing;
use core::cell::Cell;
use std::boxed::Box;
use uswap_core::budget::Shrinking;
use uswap_core::counters::Counter;
use uswap_core::mm::{MmState, RecordHolder};
use uswap_units::Bytes;
use uswap_units::limits::ROOM_WAIT_NS;
use uswap_units::limits::THROTTLE_ROUNDS_MAX;

const RAM: Bytes = Bytes::new(1 << 20);

fn present(space: &AddressSpace<'_, Machine>) -> usize {
    (0..MAPPED).filter(|&index| space.world().cell(index).content.is_some()).count()
}

/// Uses as much memory as the budget has.
fn fill_budget(space: &AddressSpace<'_, Machine>) {
    let budget = space.segment().budget();
    budget.add(RAM.bytes() - budget.used().bytes());
}

#[test]
fn a_thread_waits_once_for_others_and_for_a_while_not_at_all_if_they_brought_nothing() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let segment = space.segment();
        segment.budget().set_ram(RAM);
        // One that is as large, and that nothing was taken from yet. It never gives anything.
        let other = segment.mms().take(RecordHolder::Run).expect("there is room");
        for record in [space.record(), other] {
            record.set_state(MmState::Live, 1);
            record.set_resident_pages(64);
        }
        space.record().add_pass(1 << 40);
        let mut evictor = Box::new(Evictor::new(0));
        let taken_in_background = |evictor: &mut Evictor| {
            let before = present(space);
            fill_budget(space);
            complete(async {
                let _goes_on = space.background_turn(evictor, &mut KswapdFailures::default()).await;
            });
            before - present(space)
        };
        let taken_by_thread = |evictor: &mut Evictor| {
            let (before, began_ns) = (present(space), space.world().now_ns());
            let waits = || space.counters().get(Counter::WaitedForOthers);
            let waited = waits();
            fill_budget(space);
            complete(space.throttle(evictor));
            (before - present(space), space.world().now_ns() - began_ns, waits() - waited)
        };
        assert_eq!(taken_in_background(&mut evictor), 0, "it is the turn of the other");
        let (taken, waited_ns, waits) = taken_by_thread(&mut evictor);
        assert!(taken > 0, "it does not wait for ever");
        assert_eq!((waited_ns, waits), (ROOM_WAIT_NS, 1));
        let (taken, waited_ns, waits) = taken_by_thread(&mut evictor);
        assert!(taken > 0);
        assert_eq!((waited_ns, waits), (0, 0), "the other has just given nothing");
        assert!(taken_in_background(&mut evictor) > 0, "nor does the background leave it to threads");
        space.world().now_ns.set(space.world().now_ns() + OTHERS_FAIL_NS);
        assert_eq!(taken_in_background(&mut evictor), 0, "it may give now");
        space.disown_zspages(&evictor);
    });
}

#[test]
fn a_thread_waits_for_an_evictor_that_others_of_its_process_have_but_not_for_ever() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        space.segment().budget().set_ram(RAM);
        let waited_ns = |tries_of_others: u32| {
            fill_budget(space);
            let (began_ns, tries) = (space.world().now_ns(), Cell::new(0));
            let borrow = || {
                tries.set(tries.get() + 1);
                (tries.get() > tries_of_others).then(|| Box::new(Evictor::new(0)))
            };
            complete(space.make_room(borrow));
            space.world().now_ns() - began_ns
        };
        let before = present(space);
        assert_eq!(waited_ns(3), 3 * ROOM_WAIT_NS);
        assert!(present(space) < before, "then it evicts by itself");
        let over = || space.counters().get(Counter::ForcedOver);
        assert_eq!(
            (waited_ns(u32::MAX), over()),
            (u64::from(THROTTLE_ROUNDS_MAX) * ROOM_WAIT_NS, 0),
            "they are stuck"
        );
        space.segment().budget().set_ram(RAM.minus(1));
        assert_eq!(
            (waited_ns(u32::MAX), over()),
            (u64::from(THROTTLE_ROUNDS_MAX) * ROOM_WAIT_NS, 1),
            "over the budget"
        );
        space.hold_evicting();
        assert_eq!((waited_ns(u32::MAX), over()), (0, 2), "nobody evicts");
        space.resume_evicting();
    });
}

#[test]
fn room_that_comes_late_is_not_used_up_again_without_a_wait() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (segment, budget) = (space.segment(), space.segment().budget());
        budget.set_ram(RAM);
        // Nothing that is stored can be kept, so nothing goes: what is the same in all its words is gone before.
        let mut evictor = Box::new(Evictor::new(0));
        complete(async {
            for _ in 0..8 {
                let _however_many = space.evict(&mut evictor, 64).await;
            }
        });
        segment.pool().set_limit_bytes(0);
        budget.set_shrinking(Shrinking::Cannot);
        budget.add(2 * RAM.bytes() - budget.used().bytes());
        complete(space.throttle(&mut evictor));
        assert!(!space.is_short(), "it waited in vain, so it goes on as it is");
        budget.subtract(RAM.bytes() / 2);
        assert!(!space.is_short() && budget.used() > RAM, "what it has now");
        budget.add(RAM.bytes() / 4);
        assert!(space.is_short(), "but it had less");
        space.disown_zspages(&evictor);
    });
}
