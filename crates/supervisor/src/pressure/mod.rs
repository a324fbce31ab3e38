//! How long the processes of the run wait for their pages, as averages in the form of Linux's pressure stall
//! information, for `uswap stat`; and the word to the user when what a program uses does not fit.
//!
//! The monitor calls [`Pressure::follow`] whenever it looks; every two seconds the averages are carried on, as Linux
//! does. "Some": at least one thread of the process waited, as the engine counts it. "Full": all did that do not sleep,
//! from samples ([`full`]).

mod full;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use uswap_control::stat::{Psi, Waits};
use uswap_core::mm::{MmRecord, MmState};
use uswap_core::refault_stats::TakenPages;
use uswap_core::segment::Segment;
use uswap_units::PAGE_BYTES;

use crate::human;
use crate::processes::{Processes, live};
use crate::report::ProgramUse;
use crate::rules::Rule;
use full::Samples;

const PERIOD: Duration = Duration::from_secs(2);

/// Seconds over which is averaged.
const WINDOWS: [f64; 3] = [10.0, 60.0, 300.0];

/// From this share of the last minute on a program is told that it waits more than it works. A thread that does nothing
/// but touch pages at random, of which eight in ten are elsewhere, is at 0.67: the ways into the kernel and back are
/// not counted.
const TELL_FROM: f64 = 0.5;

/// Shares of the last windows, from 0 to 1.
#[derive(Clone, Copy, Default)]
struct Averages([f64; WINDOWS.len()]);

impl Averages {
    /// In the last `elapsed` this share was stalled.
    fn carry_on(&mut self, share: f64, elapsed: Duration) {
        for (average, window) in self.0.iter_mut().zip(WINDOWS) {
            let rest = (-elapsed.as_secs_f64() / window).exp();
            *average = *average * rest + share * (1.0 - rest);
        }
    }
}

#[derive(Default)]
struct Known {
    averages: Averages,
    total_ns: u64,
    full_averages: Averages,
    full_ns: u64,
    samples: Samples,
    window: Window,
}

impl Known {
    /// Takes up what was waited since the last time. Parts of `elapsed` in which one, and all, waited.
    fn take_up(&mut self, total_ns: u64, elapsed: Duration) -> [f64; 2] {
        let waited_ns = total_ns.saturating_sub(self.total_ns) as f64;
        let full_ns = waited_ns * self.samples.share();
        (self.total_ns, self.full_ns) = (total_ns, self.full_ns + full_ns as u64);
        self.samples.grow_old();
        [waited_ns, full_ns].map(|ns| (ns / elapsed.as_nanos() as f64).min(1.0))
    }
}

/// What was taken and came back in the last half to whole minute: what was long ago says nothing of what is in use.
#[derive(Default)]
struct Window {
    /// Sums at its beginning, and in its middle.
    began: TakenPages,
    middle: Option<(Instant, TakenPages)>,
}

const HALF_WINDOW: Duration = Duration::from_secs(30);

/// Fewer pages taken say nothing.
const TAKEN_MIN: u64 = 1024;

impl Window {
    fn follow(&mut self, now: TakenPages) {
        match self.middle {
            Some((at, sums)) if at.elapsed() >= HALF_WINDOW => {
                self.began = sums;
                self.middle = Some((Instant::now(), now));
            }
            Some(_) => (),
            None => self.middle = Some((Instant::now(), now)),
        }
    }
    /// Pages that are in use and not in RAM.
    fn away(&self, now: TakenPages) -> u64 {
        let lately = now.since(self.began);
        if lately.taken < TAKEN_MIN { 0 } else { lately.away_in_use() }
    }
}

/// How long each process waits, and what of it comes back.
pub struct Pressure {
    segment: Segment<'static>,
    state: Mutex<State>,
}

struct State {
    at: Instant,
    /// The processes that live, by their numbers ([`MmRecord::number`]).
    known: HashMap<u64, Known>,
    /// Processes that are gone, by name.
    ended: Vec<ProgramUse>,
    /// The user knows that a program waits most of its time.
    is_told: bool,
}

/// What is beside the processes' pages is uswap's own, and what they need for a moment: a tenth more.
const ROOM_FOR_MORE: u64 = 10;

/// Names of programs that the report tells apart. What others did is added up.
const NAMES_MAX: usize = 32;

impl Pressure {
    /// Nobody waits yet.
    pub fn new(segment: Segment<'static>) -> Pressure {
        let state = State { at: Instant::now(), known: HashMap::new(), ended: Vec::new(), is_told: false };
        Pressure { segment, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What was taken from a process and came back, up to now.
    pub fn taken_pages(&self, record: MmRecord<'_>) -> TakenPages {
        record.refault_stats().pages(self.segment.reuse().stored())
    }

    /// What a process uses: what it has in RAM, and what comes back to it.
    pub fn in_use_bytes(&self, record: MmRecord<'_>) -> u64 {
        let known = |state: &State| {
            state.known.get(&record.number()).map(|known| known.window.away(self.taken_pages(record)))
        };
        let away = known(&self.lock());
        (record.resident_pages() + away.unwrap_or(0)) * PAGE_BYTES as u64
    }

    /// Looks what waits, and carries the averages on, if it is time. What the user should know, once.
    pub fn follow(&self, processes: &Processes) -> Option<String> {
        let mut state = self.lock();
        for record in live(self.segment.mms()).filter(|record| record.waits() > 0) {
            state.known.entry(record.number()).or_default().samples.look(processes, record);
        }
        let elapsed = state.at.elapsed();
        if elapsed < PERIOD {
            return None;
        }
        state.at = Instant::now();
        let mut before = std::mem::take(&mut state.known);
        let mut waits = None;
        for record in live(self.segment.mms()) {
            let mut known = before.remove(&record.number()).unwrap_or_default();
            let [some, full] = known.take_up(record.stall().total_ns(), elapsed);
            known.averages.carry_on(some, elapsed);
            known.full_averages.carry_on(full, elapsed);
            known.window.follow(self.taken_pages(record));
            let of_a_minute = known.averages.0[1];
            if of_a_minute >= TELL_FROM && !std::mem::replace(&mut state.is_told, true) {
                waits = Some((record, of_a_minute));
            }
            state.known.insert(record.number(), known);
        }
        drop(state);
        waits.map(|(record, share)| self.does_not_fit(processes, record, share))
    }

    fn does_not_fit(&self, processes: &Processes, record: MmRecord<'_>, share: f64) -> String {
        let ram_bytes = self.segment.budget().ram().0;
        let in_use: u64 = live(self.segment.mms()).map(|record| self.in_use_bytes(record)).sum();
        let wanted_mib = (in_use + in_use / ROOM_FOR_MORE).div_ceil(1 << 20);
        let advice = if in_use > ram_bytes {
            format!(
                "all that the run uses is about {}, so with --ram {wanted_mib}M it would hardly wait; or let it use \
                 less at once (smaller caches, fewer threads or processes)",
                human::bytes(in_use)
            )
        } else {
            "what it uses would fit without the compressed pages beside it: a little more --ram, or a smaller --pool, \
             helps"
                .to_owned()
        };
        format!(
            "process {} ({}) waits {:.0} % of its time for its pages, since what is used at once does not fit in the \
             budget of {}: {advice}. 'uswap stat {}' shows it",
            record.pid(),
            processes.name_of(record),
            share * 100.0,
            human::bytes(ram_bytes),
            std::process::id(),
        )
    }

    /// How long a process waits, as it was known a moment ago.
    pub fn stalls_of(&self, record: MmRecord<'_>) -> Stalls {
        let state = self.lock();
        let nothing = Known::default();
        let known = state.known.get(&record.number()).unwrap_or(&nothing);
        let total_ns = record.stall().total_ns();
        let since_ns = total_ns.saturating_sub(known.total_ns) as f64 * known.samples.share();
        Stalls {
            some: psi(known.averages, total_ns),
            full: psi(known.full_averages, known.full_ns + since_ns as u64),
        }
    }

    /// How long the processes of the run have waited, those that are gone among them.
    pub fn waits(&self) -> Waits {
        let of_ended = {
            let state = self.lock();
            let sum = |part: fn(&ProgramUse) -> f64| state.ended.iter().map(part).sum();
            Waits {
                some_seconds: sum(|program| program.some_seconds),
                full_seconds: sum(|program| program.full_seconds),
            }
        };
        live(self.segment.mms()).map(|record| self.stalls_of(record)).fold(of_ended, |waits, stalls| Waits {
            some_seconds: waits.some_seconds + stalls.some.total_us as f64 / 1e6,
            full_seconds: waits.full_seconds + stalls.full.total_us as f64 / 1e6,
        })
    }

    /// A process is gone, or the run ends: its numbers go to those of its name.
    pub fn note_end(&self, processes: &Processes, rules: &[Rule], record: MmRecord<'_>) {
        if record.state() != MmState::Live {
            return;
        }
        let (name, stalls) = (processes.name_of(record), self.stalls_of(record));
        let mut state = self.lock();
        state.known.remove(&record.number());
        let ended = &mut state.ended;
        let at = ended.iter().position(|program| program.name == name).unwrap_or_else(|| {
            if ended.len() < NAMES_MAX {
                let rule = rules.iter().find(|rule| rule.is_about(&name, &name));
                ended.push(ProgramUse {
                    name,
                    protected_bytes: rule.map_or(0, |rule| rule.protected_bytes),
                    weight: rule.map_or(0, |rule| rule.weight),
                    ..ProgramUse::default()
                });
            } else if ended.len() == NAMES_MAX {
                ended.push(ProgramUse { name: "others".to_owned(), ..ProgramUse::default() });
            }
            ended.len() - 1
        });
        let (program, taken) = (&mut ended[at], self.taken_pages(record));
        program.processes += 1;
        program.pages_taken += taken.taken;
        program.pages_came_back += taken.came_back;
        program.pages_came_back_soon += taken.came_back_soon;
        program.some_seconds += stalls.some.total_us as f64 / 1e6;
        program.full_seconds += stalls.full.total_us as f64 / 1e6;
    }

    /// The programs of the run by name, at its end.
    pub fn programs(&self, processes: &Processes, rules: &[Rule]) -> Vec<ProgramUse> {
        live(self.segment.mms()).for_each(|record| self.note_end(processes, rules, record));
        std::mem::take(&mut self.lock().ended)
    }
}

fn psi(averages: Averages, total_ns: u64) -> Psi {
    let [avg10, avg60, avg300] = averages.0.map(|share| (share * 10_000.0).round() / 100.0);
    Psi { avg10, avg60, avg300, total_us: total_ns / 1000 }
}

/// How long a process waits.
#[derive(Clone, Copy, Default)]
pub struct Stalls {
    /// At least one of its threads.
    pub some: Psi,
    /// All of them that do not sleep.
    pub full: Psi,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_as_those_of_linux() {
        let mut averages = Averages::default();
        (0..5).for_each(|_| averages.carry_on(1.0, PERIOD));
        let [ten, sixty, more] = averages.0;
        // 1 - e^(-10/10), 1 - e^(-10/60), 1 - e^(-10/300).
        assert!((ten - 0.632).abs() < 0.001 && (sixty - 0.154).abs() < 0.001 && (more - 0.033).abs() < 0.001);
        (0..500).for_each(|_| averages.carry_on(0.25, PERIOD));
        assert!(averages.0.iter().all(|average| (average - 0.25).abs() < 0.02));
    }
}
