//! The state word of work that processes hand to the supervisor.
//!
//! ```text
//! Free -> Filling (owner) -> Ready -> Working (supervisor) -> Done -> Filling (owner) -> Free
//!                            Ready -> Free: taken back.   Working, Stopped -> Abandoned (owner, or reaper) -> Free (supervisor)
//!                            Working -> Stopped (owner) -> Done (supervisor): what there is will do.   Filling -> Done (owner): there is more in it for the next fault.
//!
//! word: 63..24 generation   23..8 owner   7..0 state
//! ```
//! The generation counts how often the job was taken. Each change is made to exactly the word that the caller has
//! looked at: a job that became another's since the look, if only for a moment, is left alone. Without that, a reaper
//! that was interrupted between the look and the change would free the job of a process that lives; two chunks would
//! then have one job, and a page the content of another.

use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

const STATE_MASK: u64 = 0xFF;
const OWNER_SHIFT: u32 = 8;
const GENERATION_SHIFT: u32 = 24;

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

/// A look at the word. The default is one at a job that was never taken.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SeenJob(u64);

impl SeenJob {
    /// Where the job was.
    pub const fn state(self) -> JobState {
        match self.0 & STATE_MASK {
            0 => JobState::Free,
            1 => JobState::Filling,
            2 => JobState::Ready,
            3 => JobState::Working,
            4 => JobState::Done,
            5 => JobState::Abandoned,
            _ => JobState::Stopped,
        }
    }
    /// Whose it was; of a free job, whose it was last.
    pub const fn mm(self) -> MmId {
        MmId((self.0 >> OWNER_SHIFT) as u16)
    }
    /// Whether it was not taken again between this look and another one.
    pub const fn is_same_use(self, other: SeenJob) -> bool {
        self.0 >> OWNER_SHIFT == other.0 >> OWNER_SHIFT
    }
    const fn at(self, state: JobState) -> SeenJob {
        SeenJob(self.0 & !STATE_MASK | state as u64)
    }
    const fn taken_by(self, mm: MmId) -> SeenJob {
        let generation = (self.0 >> GENERATION_SHIFT) + 1;
        SeenJob(generation << GENERATION_SHIFT | (mm.0 as u64) << OWNER_SHIFT | JobState::Filling as u64)
    }
}

impl core::fmt::Debug for SeenJob {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} {:?} #{}", self.state(), self.mm(), self.0 >> GENERATION_SHIFT)
    }
}

/// What came of `finish`.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// The owner finds it.
    Done,
    /// Nobody waits for it any more: the caller gives back what it found, and then makes the job free.
    Abandoned(SeenJob),
}

/// View of the state word of a job.
#[derive(Clone, Copy)]
pub struct JobWord<'a>(pub(crate) &'a AtomicU64);

impl JobWord<'_> {
    /// Looks at it. Acquire: what was written before the last change is seen.
    pub fn load(self) -> SeenJob {
        SeenJob(self.0.load(Ordering::Acquire))
    }
    /// Where the job is.
    pub fn state(self) -> JobState {
        self.load().state()
    }

    /// To another state, if nothing has changed since it was `seen`; the word then.
    /// Acquire and Release: what was written before is seen by who makes the next change.
    #[must_use]
    pub fn change(self, seen: SeenJob, to: JobState) -> Option<SeenJob> {
        self.exchange(seen, |seen| seen.at(to))
    }
    /// Free, or done, to being filled by `mm`, if nothing has changed since it was `seen`; the word then.
    #[must_use]
    pub fn take(self, seen: SeenJob, mm: MmId) -> Option<SeenJob> {
        debug_assert!(matches!(seen.state(), JobState::Free | JobState::Done));
        self.exchange(seen, |seen| seen.taken_by(mm))
    }
    fn exchange(self, seen: SeenJob, next: impl Fn(SeenJob) -> SeenJob) -> Option<SeenJob> {
        let seen = match is_planted(Plant::ChangeByState) {
            true => Some(self.load()).filter(|now| now.state() == seen.state())?,
            false => seen,
        };
        let next = next(seen);
        let changed = self.0.compare_exchange(seen.0, next.0, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok().then_some(next)
    }

    /// Who works on it comes to an end.
    pub fn finish(self) -> Finish {
        loop {
            let seen = self.load();
            match seen.state() {
                JobState::Working | JobState::Stopped => {
                    if self.change(seen, JobState::Done).is_some() {
                        return Finish::Done;
                    }
                }
                JobState::Abandoned => return Finish::Abandoned(seen),
                state => unreachable!("who works on a job ends that, and not {state:?}"),
            }
        }
    }

    /// Its owner is dead, if that was `dead`: nobody waits for it any more. Some: what was found is the caller's now,
    /// who gives it back and then makes the job free.
    #[must_use]
    pub fn reap(self, dead: MmId) -> Option<SeenJob> {
        loop {
            let seen = self.load();
            if seen.mm() != dead {
                return None;
            }
            // Whose it is and where it is must be of one look.
            let seen = if is_planted(Plant::ReapLooksTwice) { self.load() } else { seen };
            let next = match seen.state() {
                JobState::Free | JobState::Abandoned => return None,
                JobState::Filling | JobState::Ready => JobState::Free,
                // Who works on it will see it.
                JobState::Working | JobState::Stopped => JobState::Abandoned,
                JobState::Done => JobState::Filling,
            };
            if let Some(now) = self.change(seen, next) {
                return Some(now).filter(|now| now.state() == JobState::Filling);
            }
        }
    }
}
