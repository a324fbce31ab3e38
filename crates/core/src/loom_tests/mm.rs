//! Records of processes are taken, claimed by a forked child, reaped, and taken again.

use crate::mm::{MM_WORDS, MmRecord, MmState, MmTable, RecordHolder};
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;
use uswap_sync::AtomicU64;
use uswap_units::{MmId, TableId};

pub(super) struct Records {
    words: Vec<AtomicU64>,
    taken_total: AtomicU64,
}

impl Records {
    pub(super) fn new(count: usize) -> Arc<Records> {
        let words = (0..count * MM_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Records { words, taken_total: AtomicU64::new(0) })
    }
    pub(super) fn table(&self) -> MmTable<'_> {
        MmTable { words: &self.words, taken_total: &self.taken_total }
    }
    fn first(&self) -> MmRecord<'_> {
        self.table().record(MmId::new(0))
    }
}

#[test]
fn loom_two_processes_that_come_at_once_get_a_record_each() {
    loom::model(|| {
        let records = Records::new(2);
        let take = |records: &Records| {
            let record = records.table().take(RecordHolder::Process).expect("there are two");
            (record.id(), record.number())
        };
        let other = {
            let records = Arc::clone(&records);
            thread::spawn(move || take(&records))
        };
        let (own, other) = (take(&records), other.join().unwrap());
        assert!(own.0 != other.0 && own.1 != other.1, "{own:?} {other:?}");
    });
}

/// A child that is late, while the reaper gives its record back and another child gets it.
pub(super) fn a_child_claims_its_record_while_that_is_reaped() {
    loom::model(|| {
        let records = Records::new(1);
        let number = {
            let record = records.table().take(RecordHolder::Run).expect("nobody has it");
            record.set_forked();
            record.number()
        };
        let child = {
            let records = Arc::clone(&records);
            thread::spawn(move || records.first().claim_forked(number))
        };
        let is_reaped = records.first().reap_forked();
        if is_reaped {
            records.first().free();
            records.table().take(RecordHolder::Run).expect("it was given back").set_forked();
        }
        let is_claimed = child.join().unwrap();
        assert!(is_claimed != is_reaped, "the record of another child is claimed, or nobody has it");
        let expected = if is_claimed { MmState::Taken } else { MmState::Forked };
        assert_eq!(records.first().state(), expected);
        assert_eq!(records.first().number() == number, is_claimed);
    });
}

#[test]
fn loom_a_child_that_is_late_does_not_claim_the_record_of_another() {
    a_child_claims_its_record_while_that_is_reaped();
}

#[test]
fn loom_who_sees_that_a_process_lives_sees_its_page_table() {
    loom::model(|| {
        let records = Records::new(1);
        let process = {
            let records = Arc::clone(&records);
            thread::spawn(move || {
                let record = records.table().take(RecordHolder::Process).expect("nobody has it");
                record.set_root(TableId::new(5));
                record.set_managed_pages(7);
                assert!(record.announce());
            })
        };
        if records.first().state() == MmState::Live {
            assert_eq!((records.first().root(), records.first().managed_pages()), (Some(TableId::new(5)), 7));
        }
        process.join().unwrap();
    });
}
