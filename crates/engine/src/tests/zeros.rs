//! Memory that was read and never written.

use super::held::{evict_all, present};
use super::memory_map::{map, sums};
use super::tasks::complete;
use super::with_space;
use crate::evict::Evictor;
use crate::workspace::Workspace;
use crate::world::Touch;
use std::boxed::Box;
use uswap_core::memory_map::PageKind;
use uswap_core::page_word::{Commit, TryLock};
use uswap_units::PAGE_BYTES;

#[test]
fn zeros_that_are_read_take_no_memory_until_they_are_written() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        let mut touch = |page, touch| {
            complete(async {
                let _served = space.fault(page, touch, &mut workspace).await;
            });
        };
        let budget = space.segment().budget();
        let there = present(space);
        let index = (0..).find(|index| !there.contains(index)).expect("half of them were never touched");
        let page = space.world().first().plus(index as u64);
        let word = || space.page_table().word_ref(page).expect("it is managed").load();

        let before = budget.used();
        touch(page, Touch::Read);
        assert!(word().is_zero_page() && present(space).contains(&index));
        assert_eq!(budget.used(), before, "the kernel's page of zeros is nobody's memory");
        assert!(!space.is_ready(page, Touch::Write), "its first write comes to us");
        evict_all(space, &mut evictor);
        assert!(word().is_zero_page(), "nothing would be gained");
        let untouched = || sums(&map(space))[PageKind::Untouched as usize];
        let not_written = untouched();

        let before = budget.used();
        touch(page, Touch::Write);
        assert!(!word().is_zero_page() && space.is_ready(page, Touch::Write));
        assert_eq!(budget.used().bytes(), before.bytes() + PAGE_BYTES as u64);
        assert_eq!(untouched(), not_written - 1);
        evict_all(space, &mut evictor);
        assert!(!present(space).contains(&index), "it goes as any other");
    });
}

#[test]
fn a_page_is_looked_at_only_where_it_is_present_and_nobody_works_on_it() {
    with_space(0, |space| {
        space.world().in_lockstep.set(true);
        let mut workspace = Box::new(Workspace::new());
        let mut index = 0;
        while present(space).contains(&index) {
            index += 1;
        }
        let page = space.world().first().plus(index as u64);
        let mut looks = None;
        let look = |looks: &mut Option<bool>| {
            complete(async { *looks = space.look_at_present(page, |word| word.is_zero_page()).await });
        };
        look(&mut looks);
        assert_eq!(looks, None, "it is fresh");
        complete(async {
            let _served = space.fault(page, Touch::Read, &mut workspace).await;
        });
        look(&mut looks);
        assert_eq!(looks, Some(true));
        let word_ref = space.page_table().word_ref(page).expect("it is managed");
        assert!(matches!(word_ref.try_lock(), TryLock::Locked(_)));
        look(&mut looks);
        assert_eq!(looks, None, "somebody works on it");
        assert_eq!(word_ref.unlock_unchanged(), Commit::Done);
        look(&mut looks);
        assert_eq!(looks, Some(true), "whoever looks gives the lock back");
    });
}
