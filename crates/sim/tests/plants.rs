//! Bugs that are switched on in the engine must be found, each within a bounded number of seeds.
#![cfg(feature = "plant")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use uswap_engine::plant::{Plant, set};
use uswap_sim::{Arena, Keep, Mix, run_seed};

/// The first seed that fails, in a check of the simulator or in an assertion of the engine.
fn found_after(plant: Plant, mix: Mix, seeds_max: u64) -> Option<u64> {
    set(Some(plant));
    let mut arena = Arena::default();
    let found = (0..seeds_max).find(|&seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run_seed(&mut arena, seed, mix, Keep::Hash)));
        outcome.map_or(true, |outcome| outcome.failure.is_some())
    });
    set(None);
    found
}

// One test, since the switch is of the whole test process.
#[test]
fn every_planted_bug_is_found() {
    let planted = [
        (Plant::LostDirty, Mix::All, 50),
        (Plant::EarlyFree, Mix::All, 100),
        (Plant::StaleCleanCopy, Mix::All, 50),
        (Plant::DroppedAlthoughWritten, Mix::All, 100),
        (Plant::HazardIgnored, Mix::Calls, 300),
        (Plant::ProtectedUnderCall, Mix::Calls, 300),
        (Plant::UnlockedBeforeDrop, Mix::All, 50),
        (Plant::RefusedDropForgotten, Mix::All, 100),
        (Plant::RefusedProtectForgotten, Mix::All, 300),
        (Plant::UnseenProtection, Mix::Calls, 1000),
        (Plant::WrittenTakenForZeros, Mix::All, 300),
        (Plant::DiscardedCopyTrusted, Mix::All, 300),
        (Plant::CopyUnnamed, Mix::All, 100),
        (Plant::LostWakeup, Mix::All, 300),
        (Plant::DropForgotten, Mix::All, 100),
        (Plant::CarriedClean, Mix::Mappings, 100),
        (Plant::ForkWithoutCount, Mix::Forks, 50),
        (Plant::ForkWithoutProtection, Mix::Forks, 50),
    ];
    assert_eq!(planted.map(|(plant, ..)| plant), Plant::ALL);
    for (plant, mix, seeds_max) in planted {
        let found = found_after(plant, mix, seeds_max);
        println!("{plant:?}: found by seed {found:?}");
        assert!(found.is_some(), "{plant:?} is not found by {seeds_max} seeds");
    }
}
