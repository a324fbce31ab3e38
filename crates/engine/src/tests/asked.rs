//! Pages that go because the program has asked for it, while the pool is full.

use super::machine::MAPPED;
use super::tasks::complete;
use super::with_space;
use crate::evict::Evictor;
use crate::evict::asked::PATIENCE_NS;
use crate::world::Backing as _;
use core::cell::{Cell, RefCell};
use uswap_core::budget::{Fullness, Shrinking};
use uswap_units::limits::{ROOM_WAIT_NS, WRITE_PATIENCE_NS};

/// Evicts all, with a pool that gets room at try number `room_at` of the evictor. How many pages stay, and for how long
/// room was waited for.
fn evict_all(shrinking: Shrinking, full: Fullness, room_at: u32) -> (usize, u64) {
    let ended = Cell::new((0, 0));
    with_space(0, |space| {
        let (world, segment, tries) = (space.world(), space.segment(), Cell::new(0));
        let evictor = RefCell::new(Evictor::new(0));
        world.in_lockstep.set(true);
        segment.pool().set_limit_bytes(0);
        segment.budget().set_shrinking(shrinking);
        segment.budget().set_full(full);
        let borrow = || {
            tries.set(tries.get() + 1);
            if tries.get() == room_at {
                segment.pool().set_limit_bytes(1 << 30);
            }
            core::future::ready(evictor.borrow_mut())
        };
        complete(async {
            let _pages = space.evict_range(world.all(), borrow).await;
        });
        let left = (0..MAPPED).filter(|&index| world.cell(index).content.is_some()).count();
        ended.set((left, world.now_ns()));
    });
    ended.get()
}

#[test]
fn room_is_waited_for_though_nothing_is_written_yet() {
    // What does not compress stays: there is no file.
    let (left, waited_ns) = evict_all(Shrinking::Cannot, Fullness::Room, 1);
    assert!(left < MAPPED / 10 && waited_ns == 0, "there is room, and {left} stay");
    assert_eq!(evict_all(Shrinking::Cannot, Fullness::Room, 40), (left, 39 * ROOM_WAIT_NS));
}

#[test]
fn room_that_does_not_come_is_not_waited_for_for_ever() {
    let (left, waited_ns) = evict_all(Shrinking::Cannot, Fullness::Room, u32::MAX);
    assert!(left > MAPPED / 4, "{left} stay");
    assert_eq!(waited_ns, PATIENCE_NS);
    let writes = Shrinking::Writes { since_ns: 0 };
    assert_eq!(evict_all(writes, Fullness::Room, u32::MAX), (left, WRITE_PATIENCE_NS), "a slow file");
    assert_eq!(evict_all(writes, Fullness::Full, u32::MAX), (left, 0), "it is known that none comes");
}
