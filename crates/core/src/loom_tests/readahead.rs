//! A readahead buffer is given to another part and read anew while a fault copies it.

use crate::readahead_buffers::{CONTENT_WORDS, Copied, ReadaheadBuffers, STATE_WORDS, Task};
use core::ops::Range;
use loom::sync::Arc;
use loom::thread;
use std::vec;
use std::vec::Vec;
use uswap_sync::AtomicU64;
use uswap_units::{PAGE_BYTES, SlotId, SwapOffset};

/// Later than that nobody waits for what is in the buffer.
const LATER_NS: u64 = 100_000_000;

struct Buffers {
    states: Vec<AtomicU64>,
    content: Vec<AtomicU64>,
}

impl Buffers {
    fn view(&self) -> ReadaheadBuffers<'_> {
        ReadaheadBuffers { states: &self.states, content: &self.content }
    }
}

fn slot(number: u64) -> Range<SwapOffset> {
    SlotId::new(number).start()..SlotId::new(number + 1).start()
}

fn read(buffers: ReadaheadBuffers<'_>) {
    if let Some(task) = buffers.take() {
        let content = content_of(&task);
        buffers.finish(task, Some(&content));
    }
}

fn content_of(task: &Task) -> [u8; PAGE_BYTES] {
    [task.part.start.slot().number() as u8; PAGE_BYTES]
}

#[test]
fn loom_a_buffer_that_is_read_anew_while_it_is_copied_is_not_used() {
    a_buffer_is_read_anew_while_it_is_copied();
}

pub(super) fn a_buffer_is_read_anew_while_it_is_copied() {
    loom::model(|| {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let buffers = Arc::new(Buffers { states: zeros(STATE_WORDS), content: zeros(CONTENT_WORDS) });
        assert!(buffers.view().ask(&slot(1), 0));
        read(buffers.view());
        let other = Arc::clone(&buffers);
        let supervisor = thread::spawn(move || {
            // Another thread of a program asks; the supervisor reads. A buffer that was just used up is left alone.
            let is_asked = other.view().ask(&slot(2), LATER_NS);
            read(other.view());
            is_asked
        });
        let (part, mut out) = (slot(1), vec![0; PAGE_BYTES]);
        if let Copied::UpTo(end) = buffers.view().copy(&part, part.end, &mut out) {
            assert_eq!(end, part.end);
            assert_eq!(out[..16], [1; 16], "what is copied is of another part");
        }
        if supervisor.join().expect("no panic") {
            let part = slot(2);
            assert_eq!(buffers.view().copy(&part, part.end, &mut out), Copied::UpTo(part.end));
            assert_eq!(out[..16], [2; 16]);
        }
    });
}

/// A fault that comes before the supervisor has begun takes the part back: nobody reads it twice, and nobody uses what
/// was not read.
#[test]
fn loom_a_part_is_taken_back_while_the_supervisor_begins() {
    loom::model(|| {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let buffers = Arc::new(Buffers { states: zeros(STATE_WORDS), content: zeros(CONTENT_WORDS) });
        assert!(buffers.view().ask(&slot(1), 0));
        let other = Arc::clone(&buffers);
        let supervisor = thread::spawn(move || read(other.view()));
        let (part, mut out) = (slot(1), vec![0; PAGE_BYTES]);
        if let Copied::UpTo(_) = buffers.view().copy(&part, part.end, &mut out) {
            assert_eq!(out[..16], [1; 16]);
        }
        supervisor.join().expect("no panic");
        assert!(buffers.view().take().is_none());
    });
}
