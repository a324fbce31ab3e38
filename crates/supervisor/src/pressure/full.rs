//! The part of the time in which a thread of a process waits for a page, in which none of its others runs: "full" of
//! Linux's pressure stall information, from samples.
//!
//! The engine knows who waits, and not what the other threads do; only the kernel does, and it must be asked for each
//! thread. So the monitor looks now and then: when a thread waits, does any thread of the program want a processor
//! (state R)? Who sleeps, for whatever reason, does not count, as in Linux. What is shown is (time in which one waits)
//! times (looks in which none wanted a processor) / (looks in which one waited). A look takes some 8 us for each thread
//! of the program; looks are so rare that they take 1.6 % of a processor at most. uswap's own threads are passed by.
//!
//! A thread that serves its own fault runs, or waits for the disk (state D), meanwhile: then the question is whether
//! more threads do so than wait. Some of those that wait sleep, until another has made room: these are not among the
//! ones that are seen to run.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use uswap_core::mm::{MmRecord, Waits};
use uswap_os::process;

use super::averages::Part;
use crate::processes::Processes;

/// How often a process is looked at; one of many threads less often.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const FOR_EACH_THREAD: Duration = Duration::from_micros(500);

/// Names of uswap's own threads begin so.
const OWN: &[u8] = b"uswap-";

/// Which threads are uswap's own is asked again after so many looks: others may have their ids by then.
const OWN_LOOKS: u32 = 64;

/// What was seen of a process.
#[derive(Default)]
pub struct Samples {
    due: Due,
    /// Of looks in which a thread waited, the ones in which no other ran.
    full: Part,
    own: OwnThreads,
}

impl Samples {
    /// Looks, if it is time and a thread waits. What was seen.
    pub fn look(&mut self, processes: &Processes, record: MmRecord<'_>) -> Option<ThreadStates> {
        let now = Instant::now();
        if record.waits().is_empty() || !self.due.is_at(now) {
            return None;
        }
        let seen = ThreadStates::now(processes, record, self.own.for_a_look())?;
        self.due = Due::after(now, seen.threads);
        if let Some(is_full) = seen.is_full {
            self.full.note(u32::from(is_full), 1);
        }
        Some(seen)
    }

    /// What was seen before counts half.
    pub fn grow_old(&mut self) {
        self.full.grow_old();
    }

    /// The part of the time in which one waits, from 0 to 1. As long as nothing was seen, 0.
    pub fn share(&self) -> f64 {
        self.full.share().unwrap_or(0.0)
    }
}

/// When the next look is due.
#[derive(Default)]
pub struct Due(Option<Instant>);

impl Due {
    /// The last look was at `now`, and at so many threads.
    pub fn after(now: Instant, threads: u32) -> Due {
        Due(Some(now + LOOK_EVERY.max(FOR_EACH_THREAD * threads)))
    }

    /// Whether it is.
    pub fn is_at(&self, now: Instant) -> bool {
        self.0.is_none_or(|due| now >= due)
    }
}

/// Threads of uswap, which need not be asked what they do.
#[derive(Default)]
pub struct OwnThreads {
    known: HashSet<u32>,
    /// Looks for which that holds.
    looks: u32,
}

impl OwnThreads {
    /// Those that are known, and room for what is found.
    pub fn for_a_look(&mut self) -> &mut HashSet<u32> {
        if self.looks == 0 {
            self.known.clear();
            self.looks = OWN_LOOKS;
        }
        self.looks -= 1;
        &mut self.known
    }
}

/// What a look at a process found.
#[derive(Clone, Copy)]
pub struct ThreadStates {
    /// Threads that were asked.
    pub threads: u32,
    /// Whether none of the threads that do not wait wants a processor. None: no thread waits any more.
    pub is_full: Option<bool>,
}

impl ThreadStates {
    /// Looks at a process of which a thread waits. None: it has ended.
    pub fn now(processes: &Processes, record: MmRecord<'_>, own: &mut HashSet<u32>) -> Option<ThreadStates> {
        let threads = processes.look(record, |pid| threads_of(pid, own))?;
        // It may have been served meanwhile: then it runs itself.
        let waits = record.waits();
        let is_known = threads.threads > 0 && !waits.is_empty();
        Some(ThreadStates { threads: threads.threads, is_full: is_known.then(|| threads.is_full(waits)) })
    }
}

/// The program's own threads.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Threads {
    /// How many there are.
    pub threads: u32,
    running: u32,
    in_disk: u32,
}

impl Threads {
    /// So many threads wait for their pages: does none of the others want a processor? An only thread is the one that
    /// waits.
    fn is_full(self, waits: Waits) -> bool {
        self.threads == 1 || self.running + self.in_disk <= waits.threads.saturating_sub(waits.asleep)
    }

    /// Whether one wants a processor, or waits for the disk, where none waits for a page.
    pub fn is_at_work(self) -> bool {
        self.running + self.in_disk > 0
    }

    /// Adds a thread by its line of `stat`: `id (name) state ...`, where the name may hold anything. False: it is
    /// uswap's own, and not added.
    fn add(&mut self, line: &[u8]) -> bool {
        let name = line.iter().position(|&byte| byte == b'(').map(|at| &line[at + 1..]);
        let state = line.iter().rposition(|&byte| byte == b')').and_then(|at| line.get(at + 2));
        let is_own = name.is_some_and(|name| name.starts_with(OWN));
        if name.is_some() && !is_own {
            self.threads += 1;
            self.running += u32::from(state == Some(&b'R'));
            self.in_disk += u32::from(state == Some(&b'D'));
        }
        !is_own
    }
}

/// Those of the program. `own` are known not to be, and more such are put there.
pub fn threads_of(pid: u32, own: &mut HashSet<u32>) -> Threads {
    let mut threads = Threads::default();
    let _is_gone = process::for_each_thread(Some(pid), |thread| {
        if own.contains(&thread) {
            return;
        }
        if let Ok(line) = std::fs::read(format!("/proc/{pid}/task/{thread}/stat"))
            && !threads.add(&line)
        {
            own.insert(thread);
        }
    });
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_program_that_run_are_told_from_those_that_sleep() {
        let mut threads = Threads::default();
        assert!(!threads.add(b"7 (uswap-kswapd) R 1 7"));
        assert_eq!(threads, Threads::default(), "it is not the program's");
        for line in [&b"8 (a) b) (c) R 1"[..], b"9 (touch) D 1", b"10 () S 1"] {
            assert!(threads.add(line));
        }
        assert_eq!(threads, Threads { threads: 3, running: 1, in_disk: 1 });
    }

    #[test]
    fn a_thread_that_is_known_to_be_ours_is_not_asked() {
        let mut sleeper = std::process::Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let mut own = HashSet::new();
        let seen = threads_of(sleeper.id(), &mut own).threads;
        let before = own.clone();
        own.insert(sleeper.id());
        let then = threads_of(sleeper.id(), &mut own).threads;
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it is our child");
        assert_eq!((seen, before.len(), then), (1, 0, 0));
    }

    #[test]
    fn full_is_the_part_of_the_looks_in_which_none_ran() {
        let mut samples = Samples::default();
        assert_eq!(samples.share(), 0.0);
        samples.full.note(1, 1);
        assert_eq!(samples.share(), 1.0);
        (0..3).for_each(|_| samples.full.note(0, 1));
        assert_eq!(samples.share(), 0.25);
        samples.full.note(1, 1);
        assert_eq!(samples.share(), 0.4);
        samples.grow_old();
        assert_eq!(samples.share(), 0.4);
    }

    #[test]
    fn who_serves_its_own_fault_runs_or_waits_for_the_disk_meanwhile() {
        let threads = |running, in_disk| Threads { threads: 3, running, in_disk };
        let one = Waits { threads: 1, asleep: 0 };
        let two = Waits { threads: 2, asleep: 0 };
        assert!(Threads { threads: 1, running: 1, in_disk: 0 }.is_full(one), "some is full");
        assert!(threads(0, 1).is_full(one));
        assert!(!threads(2, 0).is_full(one));
        assert!(threads(1, 0).is_full(one), "it is the one that waits");
        assert!(!threads(1, 1).is_full(one), "one serves its fault, and one computes");
        assert!(threads(1, 1).is_full(two));
    }

    #[test]
    fn one_that_sleeps_until_there_is_room_is_not_the_one_that_runs() {
        let threads = |running| Threads { threads: 2, running, in_disk: 0 };
        let asleep = Waits { threads: 1, asleep: 1 };
        assert!(threads(0).is_full(asleep));
        assert!(!threads(1).is_full(asleep), "the other one computes");
        assert!(threads(1).is_full(Waits { threads: 2, asleep: 1 }), "it serves its fault");
    }
}
