//! Places the threads of the run: all on one processor while that gets the program further, else wherever they like.
//! The decision is [`uswap_core::placement`].
//!
//! Only threads that may run wherever the run may are moved, and only those that were moved get their freedom back;
//! what is placed by a program is that program's affair.

use std::time::{Duration, Instant};

use uswap_core::counters::{Counter, FaultSource};
use uswap_core::placement::{EPOCH_NS, Epoch, PlaceOn, Processors, Trials, Wish, members, only};
use uswap_os::{process, thread};

use super::Cpus;
use super::shared::Shared;

/// A run with more threads than this is left alone: it computes, and to move them all takes too long.
const THREADS_MAX: usize = 256;

/// Walks over the tree in a row, to find what began meanwhile; the next epoch goes on.
const WALKS_MAX: u32 = 20;

/// While all are together, newcomers are placed like who started them; so often, in epochs, others are looked for.
const LOOK_EVERY: u32 = 20;

pub fn run(shared: &Shared) {
    let everywhere = shared.segment.placement().processors();
    if members(&everywhere).count() < 2 || shared.options.cpus == Cpus::All {
        return;
    }
    let mut placer = Placer {
        shared,
        everywhere,
        trials: Trials::new(),
        served: Served::default(),
        since: Instant::now(),
        epochs: 0,
    };
    while !shared.is_stopping() && !shared.segment.placement().is_left_to_programs() {
        match placer.wish() {
            Wish::Together => placer.gather(),
            Wish::Spread => placer.spread(),
        }
        let started = Instant::now();
        shared.sleep(Duration::from_nanos(EPOCH_NS));
        if shared.segment.placement().together().is_some() {
            shared.segment.counters().add(Counter::TogetherNs, started.elapsed().as_nanos() as u64);
        }
    }
    placer.spread();
    while placer.shared.segment.placement().together().is_some() && !shared.is_stopping() {
        shared.sleep(Duration::from_millis(1));
        placer.spread();
    }
}

/// Since the beginning of the run.
#[derive(Clone, Copy, Default)]
struct Served {
    faults: u64,
    pages: u64,
}

struct Placer<'a> {
    shared: &'a Shared,
    everywhere: Processors,
    trials: Trials,
    /// At the last look, and when that was.
    served: Served,
    since: Instant,
    /// Since all came together.
    epochs: u32,
}

impl Placer<'_> {
    fn wish(&mut self) -> Wish {
        if self.shared.options.cpus == Cpus::One {
            return Wish::Together;
        }
        let (served, elapsed) = (self.count_served(), self.since.elapsed());
        let epoch = Epoch {
            faults: served.faults - self.served.faults,
            pages: served.pages - self.served.pages,
            elapsed_ns: elapsed.as_nanos() as u64,
        };
        (self.served, self.since) = (served, Instant::now());
        self.trials.next(epoch)
    }

    /// What got the program on. What was staged and came back says more about reclaim than about the program.
    fn count_served(&self) -> Served {
        let counters = self.shared.segment.counters();
        let count = |source| counters.latency(source).count();
        let stored = count(FaultSource::Same) + count(FaultSource::Pool) + count(FaultSource::File);
        Served {
            faults: stored + count(FaultSource::Zero),
            pages: stored + counters.get(Counter::ReadAhead) + counters.get(Counter::ZeroFilled),
        }
    }

    fn gather(&mut self) {
        let placement = self.shared.segment.placement();
        self.epochs = if placement.together().is_some() { self.epochs + 1 } else { 0 };
        if !self.epochs.is_multiple_of(LOOK_EVERY) {
            return;
        }
        let Some(cpu) = placement.together().or_else(|| self.processor()) else { return };
        if placement.place_on(cpu) == PlaceOn::Refused {
            return;
        }
        if self.move_all(&self.everywhere, &only(cpu)).is_none() {
            self.spread();
        }
    }

    fn spread(&self) {
        let placement = self.shared.segment.placement();
        let Some(cpu) = placement.together() else { return };
        let mut moved = (0..WALKS_MAX).map(|_| self.move_all(&only(cpu), &self.everywhere));
        // Two walks that find none: during one, a child may have got another parent.
        while let Some(walk) = moved.next() {
            if walk == Some(0) && moved.next() == Some(Some(0)) {
                placement.let_go();
                return;
            }
        }
    }

    /// Where the program ran last.
    fn processor(&self) -> Option<u32> {
        let last = self.shared.processes.program()?.while_it_lives(process::stat)?.ok()?.processor;
        members(&self.everywhere).find(|&cpu| cpu == last).or_else(|| members(&self.everywhere).next())
    }

    /// Moves all threads of the run that may run exactly at `from`. How many there were; None: too many.
    fn move_all(&self, from: &Processors, to: &Processors) -> Option<usize> {
        let (mut seen, mut moved) = (0, 0);
        let mut to_visit = vec![process::process_id()];
        while let Some(pid) = to_visit.pop() {
            let _gone = process::for_each_thread(Some(pid), |thread_id| {
                seen += 1;
                if thread::affinity(thread_id).is_ok_and(|at| at == *from)
                    && thread::set_affinity(thread_id, to).is_ok()
                {
                    moved += 1;
                }
            });
            let _gone = process::for_each_child(pid, |child| to_visit.push(child));
            if seen > THREADS_MAX && members(to).count() == 1 {
                return None;
            }
        }
        Some(moved)
    }
}
