//! The model checker finds the bugs that are planted. The same models without them are tests in `clusters` and `swap_word`.

use super::{clusters, swap_word};
use crate::plant::{Plant, Planted};

#[test]
#[should_panic(expected = "who sees an entry sees its hash")]
fn loom_finds_a_weakened_ordering() {
    let _planted = Planted::new(Plant::PublishRelaxed);
    swap_word::an_entry_is_read_while_it_is_published();
}

#[test]
#[should_panic(expected = "owned slots are counted")]
fn loom_finds_a_dropped_second_look() {
    let _planted = Planted::new(Plant::FreeWithoutLook);
    clusters::a_slot_is_freed_by_an_audit_and_taken_before_its_freer_ends();
}
