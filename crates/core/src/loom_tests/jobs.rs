//! A job: who asked takes what there is while the supervisor works, or gives it up; and nobody else changes what is
//! his, also who looked at the job when it was another's.

use crate::jobs::{Finish, JobState, JobWord, SeenJob};
use crate::load_jobs::{read_words, write_words};
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicU32, Ordering as Std};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

const OWNER: MmId = MmId(7);
const DEAD: MmId = MmId(8);

struct Job {
    word: AtomicU64,
    data: [AtomicU64; 2],
}

impl Job {
    fn new() -> Arc<Job> {
        Arc::new(Job { word: AtomicU64::new(0), data: [AtomicU64::new(0), AtomicU64::new(0)] })
    }
    fn word(&self) -> JobWord<'_> {
        JobWord(&self.word)
    }
    fn store(&self, value: u64) {
        self.data[0].store(value, Ordering::Relaxed);
    }
    fn load(&self) -> u64 {
        self.data[0].load(Ordering::Relaxed)
    }
    fn take(&self, mm: MmId) -> Option<SeenJob> {
        let seen = self.word().load();
        let may_be_taken = matches!(seen.state(), JobState::Free | JobState::Done);
        if may_be_taken { self.word().take(seen, mm) } else { None }
    }
    /// The change of a state, if the job is in it.
    fn change(&self, from: JobState, to: JobState) -> Option<SeenJob> {
        let seen = self.word().load();
        if seen.state() == from { self.word().change(seen, to) } else { None }
    }
    /// Filled, worked on, and done, by one thread.
    fn go_through(&self, filling: SeenJob, value: u64) -> SeenJob {
        self.store(value);
        let ready = self.word().change(filling, JobState::Ready).expect("only its owner changes it");
        let working = self.word().change(ready, JobState::Working).expect("only the supervisor begins it");
        assert_eq!(self.word().finish(), Finish::Done);
        let done = self.word().load();
        assert!(done.is_same_use(working), "nobody else takes it so early");
        done
    }
}

/// How it ended in at least one of the explored runs: a model of which only one order is explored passes whatever is
/// wrong.
#[derive(Default)]
struct Seen([AtomicU32; 3]);

fn supervisor(job: &Job) {
    if job.change(JobState::Ready, JobState::Working).is_none() {
        return;
    }
    assert_eq!(job.load(), 1, "what was asked for");
    job.store(2);
    if let Finish::Abandoned(seen) = job.word().finish() {
        assert!(job.word().change(seen, JobState::Free).is_some(), "nobody else frees it");
    }
}

/// 0: it took it back. 1: it gave it up. 2: it has what was found.
fn owner(job: &Job) -> usize {
    if job.change(JobState::Ready, JobState::Free).is_some() {
        return 0;
    }
    if job.change(JobState::Working, JobState::Stopped).is_some()
        && job.change(JobState::Stopped, JobState::Abandoned).is_some()
    {
        return 1;
    }
    let reading = job.change(JobState::Done, JobState::Filling).expect("it came to an end");
    assert_eq!(job.load(), 2, "what was found");
    job.store(1);
    assert!(job.word().change(reading, JobState::Free).is_some());
    2
}

#[test]
fn each_job_ends_free_and_nobody_writes_what_another_reads() {
    let seen = std::sync::Arc::new(Seen::default());
    let outside = std::sync::Arc::clone(&seen);
    loom::model(move || {
        let job = Job::new();
        let filling = job.take(OWNER).expect("it is free");
        let other = Arc::clone(&job);
        let working = thread::spawn(move || supervisor(&other));
        job.store(1);
        assert!(job.word().change(filling, JobState::Ready).is_some());
        seen.0[owner(&job)].fetch_add(1, Std::Relaxed);
        working.join().expect("no panic");
        let end = job.word().load();
        assert_eq!((end.state(), end.mm()), (JobState::Free, OWNER));
    });
    let counts = outside.0.each_ref().map(|count| count.load(Std::Relaxed));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// The supervisor reaps a process while another one takes a job that the dead had before, `last` in this state.
fn taken_while_it_is_reaped(last: JobState) {
    loom::model(move || {
        let job = Job::new();
        let done = job.go_through(job.take(DEAD).expect("it is free"), 1);
        let _is_there = job.word().change(done, last);
        let other = Arc::clone(&job);
        let reaping = thread::spawn(move || {
            if let Some(reaped) = other.word().reap(DEAD) {
                assert_eq!(other.load(), 1, "what the dead had is given back, and nothing else");
                assert!(other.word().change(reaped, JobState::Free).is_some());
            }
        });
        if let Some(filling) = job.take(OWNER) {
            let done = job.go_through(filling, 2);
            assert_eq!(job.load(), 2, "what was found for us");
            assert!(job.word().change(done, JobState::Free).is_some(), "a job is freed by its owner");
        }
        reaping.join().expect("no panic");
        assert_eq!(job.word().state(), JobState::Free);
    });
}

#[test]
pub(super) fn a_free_job_is_taken_while_who_had_it_last_is_reaped() {
    taken_while_it_is_reaped(JobState::Free);
}

#[test]
fn a_job_that_is_done_is_taken_while_its_owner_is_reaped() {
    taken_while_it_is_reaped(JobState::Done);
}

/// Nobody came for a job for long: it is taken by another while its owner comes for it at last.
#[test]
pub(super) fn who_comes_late_does_not_get_what_was_found_for_another() {
    loom::model(|| {
        let job = Job::new();
        let done = job.go_through(job.take(OWNER).expect("it is free"), 1);
        let late = Arc::clone(&job);
        let coming = thread::spawn(move || {
            if let Some(reading) = late.word().change(done, JobState::Filling) {
                assert_eq!(late.load(), 1, "what was found for us");
                assert!(late.word().change(reading, JobState::Free).is_some(), "a job is freed by its owner");
            }
        });
        if let Some(filling) = job.take(DEAD) {
            let done = job.go_through(filling, 2);
            assert!(job.word().change(done, JobState::Filling).is_some(), "it is read by its owner");
        }
        coming.join().expect("no panic");
    });
}

/// The supervisor takes a process for dead that still reads: it notices.
#[test]
pub(super) fn who_loses_a_job_while_it_copies_a_page_notices() {
    loom::model(|| {
        let job = Job::new();
        let reading = job.take(OWNER).expect("it is free");
        write_words(&job.data, &[1; 16]);
        let other = Arc::clone(&job);
        let taking = thread::spawn(move || {
            assert!(other.word().reap(OWNER).is_none(), "nothing is to be given back");
            assert!(other.take(DEAD).is_some(), "it is free now");
            write_words(&other.data, &[2; 16]);
        });
        let mut out = [0; 16];
        read_words(&job.data, &mut out);
        if job.word().load() == reading {
            assert_eq!(out, [1; 16], "who kept the job has its page");
        }
        taking.join().expect("no panic");
    });
}
