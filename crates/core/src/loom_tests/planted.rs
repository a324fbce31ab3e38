//! The model checker finds the bugs that are planted. The same models without them are tests in `clusters`,
//! `files`, `isolation`, `lending`, `map_table`, `mm`, `protecting`, `readahead`, `swap_word` and `waiting`.

use super::{clusters, files, isolation, lending, map_table, mm, protecting, readahead, swap_word, waiting};
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
#[should_panic(expected = "protected, and nobody knows")]
fn loom_finds_a_dropped_barrier_before_a_page_is_filled() {
    let _planted = Planted::new(Plant::NoBarrier);
    protecting::a_page_that_comes_back_for_a_write_is_known_to_be_protected();
}

#[test]
#[should_panic(expected = "it sleeps for ever")]
fn loom_finds_a_dropped_fence_behind_unlocking() {
    let _planted = Planted::new(Plant::NoFenceBehindUnlocking);
    waiting::a_page_word_is_unlocked_while_somebody_begins_to_wait_for_it();
}

#[test]
#[should_panic(expected = "copy 0 has 2 owners")]
fn loom_finds_a_page_that_is_dropped_although_it_was_written() {
    let _planted = Planted::new(Plant::LockedAlthoughChanged);
    isolation::a_page_is_written_while_it_is_evicted();
}

#[test]
#[should_panic(expected = "the record of another child is claimed")]
fn loom_finds_a_record_that_is_claimed_without_its_number() {
    let _planted = Planted::new(Plant::ClaimedWithoutNumber);
    mm::a_child_claims_its_record_while_that_is_reaped();
}

#[test]
#[should_panic(expected = "of another part")]
fn loom_finds_a_copy_without_a_second_look() {
    let _planted = Planted::new(Plant::CopyWithoutLook);
    readahead::a_buffer_is_read_anew_while_it_is_copied();
}

#[test]
#[should_panic(expected = "of an earlier request")]
fn loom_finds_a_late_put() {
    let _planted = Planted::new(Plant::LatePut);
    map_table::a_process_goes_on_after_its_request_is_over();
}

#[test]
#[should_panic(expected = "it sleeps for ever")]
fn loom_finds_a_dropped_fence_behind_giving_back() {
    let _planted = Planted::new(Plant::NoFenceBehindGivingBack);
    lending::a_thing_comes_back_while_somebody_begins_to_wait_for_it();
}

#[test]
#[should_panic(expected = "a file that it has not open")]
fn loom_finds_a_dropped_fence_behind_a_change_of_files() {
    let _planted = Planted::new(Plant::NoFenceBehindAChangeOfFiles);
    files::a_file_is_added_while_a_process_begins();
}
