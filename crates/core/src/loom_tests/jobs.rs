//! A job: who asked takes what there is while the supervisor works, or gives it up.

use crate::jobs::{JobState, JobWord};
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicU32, Ordering as Std};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

const OWNER: MmId = MmId(7);

struct Job {
    word: AtomicU64,
    data: AtomicU64,
}

impl Job {
    fn word(&self) -> JobWord<'_> {
        JobWord(&self.word)
    }
    fn store(&self, value: u64) {
        self.data.store(value, Ordering::Relaxed);
    }
    fn load(&self) -> u64 {
        self.data.load(Ordering::Relaxed)
    }
    fn change(&self, from: JobState, to: JobState) -> bool {
        self.word().change(from, to, None)
    }
}

/// How it ended in at least one of the explored runs: a model of which only one order is explored passes whatever is wrong.
#[derive(Default)]
struct Seen([AtomicU32; 3]);

fn supervisor(job: &Job) {
    if !job.change(JobState::Ready, JobState::Working) {
        return;
    }
    assert_eq!(job.load(), 1, "what was asked for");
    job.store(2);
    let ended = [JobState::Working, JobState::Stopped].iter().any(|from| job.change(*from, JobState::Done));
    if !ended {
        assert!(job.change(JobState::Abandoned, JobState::Free), "nobody else frees it");
    }
}

/// 0: it took it back. 1: it gave it up. 2: it has what was found.
fn owner(job: &Job) -> usize {
    if job.change(JobState::Ready, JobState::Free) {
        return 0;
    }
    if job.change(JobState::Working, JobState::Stopped) && job.change(JobState::Stopped, JobState::Abandoned)
    {
        return 1;
    }
    assert!(job.change(JobState::Done, JobState::Filling), "it came to an end");
    assert_eq!(job.load(), 2, "what was found");
    job.store(1);
    assert!(job.change(JobState::Filling, JobState::Free));
    2
}

#[test]
fn each_job_ends_free_and_nobody_writes_what_another_reads() {
    let seen = std::sync::Arc::new(Seen::default());
    let outside = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let job = Arc::new(Job { word: AtomicU64::new(0), data: AtomicU64::new(0) });
        assert!(job.word().change(JobState::Free, JobState::Filling, Some(OWNER)));
        let other = Arc::clone(&job);
        let working = thread::spawn(move || supervisor(&other));
        job.store(1);
        assert!(job.change(JobState::Filling, JobState::Ready));
        seen.0[owner(&job)].fetch_add(1, Std::Relaxed);
        working.join().expect("no panic");
        assert_eq!((job.word().state(), job.word().mm()), (JobState::Free, OWNER));
    });
    let counts = outside.0.each_ref().map(|count| count.load(Std::Relaxed));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
