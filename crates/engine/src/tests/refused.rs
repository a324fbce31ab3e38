//! The kernel refuses to protect pages, with the work half done.

use super::held::present;
use super::tasks::complete;
use super::with_space;
use crate::evict::Evictor;
use crate::workspace::Workspace;
use crate::world::Touch;
use std::boxed::Box;
use uswap_core::page_word::EvictorId;

/// Another evictor, which found the pages missing, has still to make its call: a word that said no more that the page
/// is protected would let each write to it fault for ever.
#[test]
fn what_another_evictor_may_be_protecting_is_said_to_be_protected() {
    with_space(0, |space| {
        let world = space.world();
        world.in_lockstep.set(true);
        let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
        let there = present(space);
        let touched: std::vec::Vec<usize> = (0..40).filter(|index| !there.contains(index)).collect();
        for &index in &touched {
            complete(async {
                let _served = space.fault(world.page(index), Touch::Write, &mut workspace).await;
            });
        }
        let said_to_be_protected = || {
            let word =
                |index: &&usize| space.page_table().word_ref(world.page(**index)).expect("managed").load();
            touched.iter().filter(|index| word(index).is_protected()).count()
        };
        world.refuses_protection.set(true);
        complete(async {
            let _nothing = space.evict(&mut evictor, 64).await;
        });
        assert_eq!(said_to_be_protected(), 0, "each was unprotected again");

        let other = EvictorId::new(1);
        space.protecting.begin(other, world.all());
        complete(async {
            let _nothing = space.evict(&mut evictor, 64).await;
        });
        space.protecting.end(other);
        assert!(said_to_be_protected() > 0);
        world.refuses_protection.set(false);
    });
}
