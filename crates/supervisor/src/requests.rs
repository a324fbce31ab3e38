//! What the shrinker is told to do by a command, and how it answers. It alone writes, whenever the pool needs no room.

use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};

use uswap_control::unpoisoned;
use uswap_engine::writeback::aged::Marked;
use uswap_engine::writeback::drain::Drain;

/// Marked pages on their way to the shrinker, which alone writes.
pub struct Aged {
    pub marked: Marked,
    /// Gets the pages that were written, or why not all could be.
    pub answer: mpsc::Sender<Result<u64, String>>,
}

/// A swap file on its way to the shrinker, which moves what is in it to others.
pub struct Emptying {
    pub drain: Drain,
    /// Gets the pages that were moved, or why not all could be.
    pub answer: mpsc::Sender<Result<u64, String>>,
}

/// What the shrinker was told and has not begun, or has put back.
#[derive(Default)]
pub struct Requests {
    aged: Mutex<VecDeque<Aged>>,
    emptying: Mutex<Option<Emptying>>,
}

impl Requests {
    /// These pages are to be written, behind what is to be written already.
    pub fn write(&self, aged: Aged) {
        unpoisoned(self.aged.lock()).push_back(aged);
    }

    /// This file is to be emptied, or to be emptied further. There is one at a time.
    pub fn empty(&self, file: Emptying) {
        *unpoisoned(self.emptying.lock()) = Some(file);
    }

    /// What is to be written next.
    pub fn take_aged(&self) -> Option<Aged> {
        unpoisoned(self.aged.lock()).pop_front()
    }

    /// Whether something is to be written.
    pub fn has_aged(&self) -> bool {
        !unpoisoned(self.aged.lock()).is_empty()
    }

    /// The file that is to be emptied.
    pub fn take_emptying(&self) -> Option<Emptying> {
        unpoisoned(self.emptying.lock()).take()
    }

    /// Nothing will be done any more.
    pub fn forget(&self) {
        unpoisoned(self.aged.lock()).clear();
        *unpoisoned(self.emptying.lock()) = None;
    }
}
