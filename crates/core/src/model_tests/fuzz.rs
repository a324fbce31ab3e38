//! Random lists of operations against the models of the clusters, the swap table and the slot map, for as
//! long as one likes.
//!
//! Run by `cargo xtask fuzz [--seconds N] [--seed S]`. Each seed decides one list for each structure and nothing else
//! does, so that the seed that is printed when a list fails replays it.

use super::{clusters, slots, swap_table};
use crate::clusters::Search;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::vec::Vec;
use uswap_units::Prng;
use uswap_units::seeds::try_seeds;

/// The longest list: longer than those of the property tests, so that tables are full for long.
const OPERATIONS_MAX: usize = 300;

/// The lists of one seed, one after the other.
struct Lists(TestRunner);

impl Lists {
    fn new(seed: u64) -> Lists {
        let mut prng = Prng::new(seed);
        let bytes: [u8; 32] = core::array::from_fn(|_| prng.next_u64() as u8);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        Lists(TestRunner::new_with_rng(
            ProptestConfig { failure_persistence: None, ..Default::default() },
            rng,
        ))
    }
    fn value<T: core::fmt::Debug>(&mut self, strategy: impl Strategy<Value = T>) -> T {
        strategy.new_tree(&mut self.0).expect("nothing is filtered").current()
    }
    fn list<T: core::fmt::Debug>(&mut self, operation: impl Strategy<Value = T>) -> Vec<T> {
        self.value(prop::collection::vec(operation, 1..OPERATIONS_MAX))
    }
}

fn run_seed(seed: u64) {
    let mut lists = Lists::new(seed);
    for search in [Search::Scattered, Search::Onward] {
        clusters::run(lists.list(clusters::operation()), search);
    }
    swap_table::run(lists.list(swap_table::operation()));
    let always_whole = lists.value(any::<bool>());
    slots::run(lists.list(slots::operation()), always_whole);
}

#[test]
fn structures_are_as_their_models_for_random_lists() {
    try_seeds(10, run_seed);
}
