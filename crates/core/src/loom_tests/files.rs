//! A swap file is added while a process begins.

use super::mm::Records;
use crate::files::{FILES_WORDS, FileAccess, FileKind, FileSpec, FileState, Follow, SwapFiles};
use crate::held_files::HeldFiles;
use crate::mm::{HaveOpen, RecordHolder};
use loom::sync::Arc;
use loom::thread;
use std::vec::Vec;
use uswap_sync::AtomicU64;

const SPEC: FileSpec = FileSpec {
    slots: 512,
    priority: 0,
    kind: FileKind::SolidState,
    descriptor: 7,
    access: FileAccess::Direct,
};

#[test]
fn loom_a_file_is_added_while_a_process_begins() {
    a_file_is_added_while_a_process_begins();
}

/// The supervisor writes to the file once all who live have it open. A process that begins meanwhile is asked, or it
/// finds the file by itself: it must not live without it where the supervisor writes.
pub(super) fn a_file_is_added_while_a_process_begins() {
    loom::model(|| {
        let records = Records::new(1);
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..FILES_WORDS).map(|_| AtomicU64::new(0)).collect());
        let process = {
            let (records, words) = (Arc::clone(&records), Arc::clone(&words));
            thread::spawn(move || {
                let record = records.table().take(RecordHolder::Process).expect("nobody has it");
                assert!(record.announce());
                let mut held = HeldFiles::default();
                for follow in (SwapFiles { words: &words }).to_follow(held) {
                    let Follow::Open(file) = follow else { panic!("it has none to close") };
                    held = held.with(file.id, Ok(()));
                }
                record.set_held_files(held);
                held
            })
        };
        let file =
            (SwapFiles { words: &words }).add(SPEC, FileState::Opening, 1 << 20).expect("there is room");
        let are_open = records.table().have_open(file);
        let held = process.join().unwrap();
        assert!(are_open != HaveOpen::All || held.has(file), "it reads a file that it has not open");
    });
}
