//! The model checker finds the bugs that are planted. The same model without them is a test in `calls`.

use super::calls;
use crate::plant::{Plant, Planted};

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_dropped_membarrier() {
    let _planted = Planted::new(Plant::NoHeavyFence);
    calls::a_page_in_use_is_not_dropped();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_dropped_light_fence() {
    let _planted = Planted::new(Plant::NoLightFence);
    calls::a_page_in_use_is_not_dropped();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_hazard_published_too_late() {
    let _planted = Planted::new(Plant::PublishedLate);
    calls::a_page_in_use_is_not_dropped();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_finds_a_hazard_cleared_too_early() {
    let _planted = Planted::new(Plant::ClearedEarly);
    calls::a_page_in_use_is_not_dropped();
}
