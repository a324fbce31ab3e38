//! The model checker finds the bugs that are planted. The same models without them are tests in `clusters`,
//! `handovers`, `jobs`, `protecting` and `swap_word`.

use super::{clusters, handovers, jobs, protecting, swap_word};
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

#[test]
#[should_panic(expected = "what the dead had is given back, and nothing else")]
fn loom_finds_a_reaper_that_looks_twice() {
    let _planted = Planted::new(Plant::ReapLooksTwice);
    jobs::a_free_job_is_taken_while_who_had_it_last_is_reaped();
}

#[test]
#[should_panic(expected = "what was found for us")]
fn loom_finds_a_change_of_what_became_anothers() {
    let _planted = Planted::new(Plant::ChangeByState);
    jobs::who_comes_late_does_not_get_what_was_found_for_another();
}

#[test]
#[should_panic(expected = "who kept the job has its page")]
fn loom_finds_a_look_that_may_be_before_the_copy() {
    let _planted = Planted::new(Plant::PageRelaxed);
    jobs::who_loses_a_job_while_it_copies_a_page_notices();
}

#[test]
#[should_panic(expected = "an entry that is shared is one that a page refers to")]
fn loom_finds_a_dropped_barrier() {
    let _planted = Planted::new(Plant::NoBarrier);
    handovers::a_page_is_stored_anew_while_its_word_is_copied_for_a_child();
}

#[test]
#[should_panic(expected = "protected, and nobody knows")]
fn loom_finds_a_dropped_barrier_before_a_page_is_filled() {
    let _planted = Planted::new(Plant::NoBarrier);
    protecting::a_page_that_comes_back_for_a_write_is_known_to_be_protected();
}
