//! A process answers what the supervisor asks, while another that was asked before goes on with its answer.

use crate::map_table::{HEAD_WORDS, MapRequest, MapTable, Withdrawn};
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;
use uswap_sync::AtomicU64;
use uswap_units::MmId;

/// Two show what many do.
const VALUES: usize = 2;

struct Words {
    head: Vec<AtomicU64>,
    values: Vec<AtomicU64>,
}

impl Words {
    fn new() -> Arc<Words> {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Words { head: zeros(HEAD_WORDS), values: zeros(VALUES) })
    }
    fn table(&self) -> MapTable<'_> {
        MapTable { head: &self.head, words: &self.values }
    }
}

fn answer(table: MapTable<'_>, request: MapRequest, value: u64) -> Result<(), Withdrawn> {
    for index in 0..VALUES {
        table.put(request, index, value)?;
    }
    table.publish(request);
    Ok(())
}

fn answer_to(table: MapTable<'_>, request: MapRequest) -> [Option<u64>; VALUES] {
    assert!(table.is_complete(request));
    core::array::from_fn(|index| table.get(request, index))
}

#[test]
fn loom_who_sees_that_a_map_is_complete_sees_all_of_it() {
    loom::model(|| {
        let words = Words::new();
        let others = Arc::clone(&words);
        let process = thread::spawn(move || {
            if let Some(request) = others.table().asked_of(MmId::new(1)) {
                let _withdrawn = answer(others.table(), request, 5);
            }
        });
        let request = words.table().ask(MmId::new(1));
        if words.table().is_complete(request) {
            assert_eq!(answer_to(words.table(), request), [Some(5); VALUES]);
        }
        process.join().expect("no panic");
    });
}

#[test]
fn loom_what_a_process_counts_too_late_is_in_no_map() {
    a_process_goes_on_after_its_request_is_over();
}

pub(super) fn a_process_goes_on_after_its_request_is_over() {
    loom::model(|| {
        let words = Words::new();
        let first = words.table().ask(MmId::new(1));
        let others = Arc::clone(&words);
        // It has found the request, and was stopped then.
        let late = thread::spawn(move || answer(others.table(), first, 5));
        words.table().withdraw(first);
        let second = words.table().ask(MmId::new(2));
        // The other process, which only this thread knows of.
        assert_eq!(words.table().asked_of(MmId::new(2)), Some(second));
        assert_eq!(answer(words.table(), second, 7), Ok(()), "a value is of an earlier request");
        let _may_be_too_late = late.join().expect("no panic");
        let answered = answer_to(words.table(), second);
        assert_eq!(answered, [Some(7); VALUES], "a value is of an earlier request");
    });
}
