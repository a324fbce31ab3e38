//! What a run does when it is told to (`crate::control`): write-back by age.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use uswap_core::budget::Signal;
use uswap_engine::aged::Marked;

use super::shared::Shared;
use crate::control::server::{Obey, serve};

/// Marked pages on their way to the shrinker, which alone writes.
pub struct Aged {
    pub marked: Marked,
    /// Gets the pages that were written, or why not all could be.
    pub answer: mpsc::Sender<Result<u64, String>>,
}

/// So often is looked whether the run ends.
const LOOK: Duration = Duration::from_millis(50);

impl Obey for Shared {
    fn is_stopping(&self) -> bool {
        Shared::is_stopping(self)
    }

    fn write_back(&self, age: Duration) -> Result<(u64, u64, u64), String> {
        let ended = || "the run has ended".to_owned();
        let marked = Marked::now(self.segment);
        let marked_at = Instant::now();
        while marked_at.elapsed() < age {
            if Shared::is_stopping(self) {
                return Err(ended());
            }
            std::thread::park_timeout(LOOK.min(age.saturating_sub(marked_at.elapsed())));
        }
        let before = self.segment.pool().resident_bytes();
        let (answer, written) = mpsc::channel();
        self.aged.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_back(Aged { marked, answer });
        self.raise(Signal::Shrink);
        loop {
            match written.recv_timeout(LOOK) {
                Ok(pages) => return Ok((pages?, before, self.segment.pool().resident_bytes())),
                Err(mpsc::RecvTimeoutError::Timeout) if !Shared::is_stopping(self) => (),
                Err(_) => return Err(ended()),
            }
        }
    }
}

pub fn run(shared: &Shared) {
    if let Err(error) = serve(shared)
        && shared.options.verbosity > 0
    {
        shared.warn(&format!("commands as 'uswap writeback' cannot reach this run ({error})"));
    }
}
