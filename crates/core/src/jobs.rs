//! The state word of work that processes hand to the supervisor.
//!
//! ```text
//! Free -> Filling (owner) -> Ready -> Working (supervisor) -> Done -> Filling (owner) -> Free
//!                            Ready -> Free: taken back.   Working, Stopped -> Abandoned (owner, or reaper) -> Free (supervisor)
//!                            Working -> Stopped (owner) -> Done (supervisor): what there is will do.
//! ```

use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

const STATE_MASK: u64 = 0xFF;

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum JobState {
    /// Nobody's.
    Free,
    /// Its owner writes it, or reads what was found.
    Filling,
    /// It waits for the supervisor.
    Ready,
    /// The supervisor works on it.
    Working,
    /// The owner may use what was found.
    Done,
    /// Nobody waits for it any more.
    Abandoned,
    /// The supervisor works on it and should come to an end.
    Stopped,
}

/// View of the state word of a job.
#[derive(Clone, Copy)]
pub struct JobWord<'a>(pub(crate) &'a AtomicU64);

impl JobWord<'_> {
    fn load(self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
    /// Where the job is.
    pub fn state(self) -> JobState {
        match self.load() & STATE_MASK {
            0 => JobState::Free,
            1 => JobState::Filling,
            2 => JobState::Ready,
            3 => JobState::Working,
            4 => JobState::Done,
            5 => JobState::Abandoned,
            _ => JobState::Stopped,
        }
    }
    /// Whose it is, while it is not free.
    pub fn mm(self) -> MmId {
        MmId((self.load() >> 16) as u16)
    }
    /// One state to another, if it is in the first. Acquire and Release: what was written before is seen by who makes the next change.
    pub fn change(self, from: JobState, to: JobState, owner: Option<MmId>) -> bool {
        let seen = self.load();
        let mm = owner.map_or(seen >> 16 & 0xFFFF, |mm| u64::from(mm.0));
        seen & STATE_MASK == from as u64
            && self
                .0
                .compare_exchange(seen, mm << 16 | to as u64, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}
