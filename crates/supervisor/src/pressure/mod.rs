//! How long the processes of the run wait for their pages, as averages in the form of Linux's pressure stall
//! information, for `uswap stat`; and the word to the user when what a program uses does not fit.
//!
//! The monitor calls [`Pressure::follow`] whenever it looks; every two seconds the averages are carried on, as Linux
//! does. "Some": at least one thread of the process waited, as the engine counts it. "Full": all did that do not sleep,
//! from samples ([`full`]). The same is said of the whole run, as Linux says it of a cgroup ([`whole_run`]).

mod averages;
mod full;
mod run_looks;
mod whole_run;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use uswap_control::stat::{self, Psi, Waits};
use uswap_control::unpoisoned;
use uswap_core::mm::{MmRecord, MmState};
use uswap_core::refault_stats::TakenPages;
use uswap_core::segment::Segment;
use uswap_units::{PAGE_BYTES, ProcessNumber};

use crate::human;
use crate::processes::{Processes, live};
use crate::report::ProgramUse;
use crate::rules::Rule;
use averages::Averages;
use full::Samples;
use run_looks::{RunLooks, Waiting};
use whole_run::{Waited, WholeRun};

const PERIOD: Duration = Duration::from_secs(2);

/// From this share of the last minute on a program is told that it waits more than it works. A thread that does nothing
/// but touch pages at random, of which eight in ten are elsewhere, is at 0.67: the ways into the kernel and back are
/// not counted.
const TELL_FROM: f64 = 0.5;

#[derive(Default)]
struct Known {
    averages: Averages,
    total_ns: u64,
    full_averages: Averages,
    full_ns: u64,
    samples: Samples,
    window: Window,
    /// What the run has taken up of `total_ns`, which it does more often.
    total_ns_of_run: u64,
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

    /// What was waited since the run asked the last time, in ns.
    fn take_up_of_run(&mut self, record: MmRecord<'_>) -> u64 {
        let before = std::mem::replace(&mut self.total_ns_of_run, record.stall().total_ns());
        self.total_ns_of_run.saturating_sub(before)
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
    known: HashMap<ProcessNumber, Known>,
    run: WholeRun,
    run_looks: RunLooks,
    /// Until when the run has taken up what was waited.
    run_until: Instant,
    /// What processes that are gone waited since then.
    waited_by_ended: Waited,
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
        let now = Instant::now();
        let state = State {
            at: now,
            known: HashMap::new(),
            run: WholeRun::default(),
            run_looks: RunLooks::default(),
            run_until: now,
            waited_by_ended: Waited::default(),
            ended: Vec::new(),
            is_told: false,
        };
        Pressure { segment, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        unpoisoned(self.state.lock())
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

    /// Looks what waits, and carries the averages on, if it is time. What the user should know, once. `pids`: all
    /// processes of the run, managed or not.
    pub fn follow(&self, processes: &Processes, pids: &[u32]) -> Option<String> {
        let mut state = self.lock();
        state.look(self.segment, processes, pids);
        let elapsed = state.at.elapsed();
        if elapsed < PERIOD {
            return None;
        }
        state.at = Instant::now();
        state.take_up_of_run(self.segment);
        state.run.carry_on(elapsed);
        let mut before = std::mem::take(&mut state.known);
        let mut waits = None;
        for record in live(self.segment.mms()) {
            let mut known = before.remove(&record.number()).unwrap_or_default();
            let [some, full] = known.take_up(record.stall().total_ns(), elapsed);
            known.averages.carry_on(some, elapsed);
            known.full_averages.carry_on(full, elapsed);
            known.window.follow(self.taken_pages(record));
            let of_a_minute = known.averages.of_a_minute();
            if of_a_minute >= TELL_FROM && !std::mem::replace(&mut state.is_told, true) {
                waits = Some((record, of_a_minute));
            }
            state.known.insert(record.number(), known);
        }
        drop(state);
        waits.map(|(record, share)| self.does_not_fit(processes, record, share))
    }

    fn does_not_fit(&self, processes: &Processes, record: MmRecord<'_>, share: f64) -> String {
        let ram_bytes = self.segment.budget().ram().bytes();
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
            some: known.averages.psi(total_ns),
            full: known.full_averages.psi(known.full_ns + since_ns as u64),
        }
    }

    /// How long the run as a whole waits.
    pub fn of_run(&self) -> stat::Pressure {
        let mut state = self.lock();
        state.take_up_of_run(self.segment);
        state.run.pressure()
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
        // It stays known until the next period: its record is there for some moments more.
        let new_ns = state.known.entry(record.number()).or_default().take_up_of_run(record);
        state.waited_by_ended.add(new_ns);
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

impl State {
    /// Looks what waits, and what else is done.
    fn look(&mut self, segment: Segment<'_>, processes: &Processes, pids: &[u32]) {
        let waiting = live(segment.mms()).filter(|record| !record.waits().is_empty());
        let mut waiting: Vec<_> = waiting.map(|record| Waiting { record, seen: None }).collect();
        // Of one moment, before anything is asked.
        self.run.note_waiting(waiting.len());
        for process in &mut waiting {
            let known = self.known.entry(process.record.number()).or_default();
            process.seen = known.samples.look(processes, process.record);
        }
        if let Some(is_full) = self.run_looks.look(processes, &waiting, pids) {
            self.run.note_full(is_full);
        }
    }

    /// The run takes up what was waited since the last time.
    fn take_up_of_run(&mut self, segment: Segment<'_>) {
        let mut waited = std::mem::take(&mut self.waited_by_ended);
        let now = Instant::now();
        for record in live(segment.mms()) {
            waited.add(self.known.entry(record.number()).or_default().take_up_of_run(record));
        }
        self.run.take_up(waited, now - std::mem::replace(&mut self.run_until, now));
    }
}

/// How long a process waits.
#[derive(Clone, Copy, Default)]
pub struct Stalls {
    /// At least one of its threads.
    pub some: Psi,
    /// All of them that do not sleep.
    pub full: Psi,
}
