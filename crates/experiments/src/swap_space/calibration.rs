//! What memory costs on this machine, for [`Prices`].
//!
//! Times of real threads, so no two runs agree: a comparison of designs uses the default prices, or one calibration for
//! all.

use std::fmt;
use std::fs;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::simulated_time::Prices;

/// Loads and exchanges that are timed.
const HITS: u64 = 4_000_000;

/// Round trips of a line between two CPUs that are timed: about 50 ms.
const ROUND_TRIPS: u64 = 200_000;

/// More than a CPU's own caches hold: 1 Mi lines of 64 bytes.
const CHASE_LINES: usize = 64 << 20 >> 6;

/// Steps of the chase that are timed: about 50 ms.
const CHASE_STEPS: usize = 500_000;

/// Tries of each; the fastest counts, which the other programs of the machine disturbed least.
const TRIES: usize = 3;

/// What was measured, and what follows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Nanoseconds of a load of an own line, with others going on at the same time.
    pub own_ns: f64,
    /// Nanoseconds of a `compare_exchange` of an own line.
    pub exchange_ns: f64,
    /// Nanoseconds of a transfer between two CPUs. None without two cores that this process may run on.
    pub transfer_ns: Option<f64>,
    /// Nanoseconds of a step through 64 MB in an order that nobody foresees, looking up the address included.
    pub memory_ns: f64,
}

impl Calibration {
    /// What was measured, and the default for the rest. The other socket is never measured: it stays as many times
    /// farther as it is by default.
    #[must_use]
    pub fn prices(&self) -> Prices {
        let default = Prices::default();
        let transfer_ns = self.transfer_ns.unwrap_or(default.transfer_ns);
        Prices {
            own_ns: self.own_ns,
            exchange_ns: self.exchange_ns,
            transfer_ns,
            transfer_far_ns: transfer_ns * default.transfer_far_ns / default.transfer_ns,
            memory_ns: self.memory_ns,
        }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "measured: own {:.2} ns, exchange {:.1} ns, transfer ",
            self.own_ns, self.exchange_ns
        )?;
        match self.transfer_ns {
            Some(transfer_ns) => write!(formatter, "{transfer_ns:.0} ns")?,
            None => write!(formatter, "unknown (needs two cores)")?,
        }
        writeln!(formatter, ", transfer far unknown, memory {:.0} ns", self.memory_ns)?;
        writeln!(formatter, "these make: {}", self.prices())?;
        write!(formatter, "by default: {}", Prices::default())
    }
}

/// Measures what it can. Takes about a second and 64 MB.
#[must_use]
pub fn calibrate() -> Calibration {
    let order = chase_order();
    Calibration {
        own_ns: fastest(own_ns),
        exchange_ns: fastest(exchange_ns),
        transfer_ns: two_cores().and_then(|cores| {
            let tries: Vec<f64> = (0..TRIES).filter_map(|_| transfer_ns(cores, ROUND_TRIPS)).collect();
            tries.into_iter().reduce(f64::min)
        }),
        memory_ns: fastest(|| memory_ns(&order)),
    }
}

fn fastest(measure: impl Fn() -> f64) -> f64 {
    (0..TRIES).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn ns_each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

fn own_ns() -> f64 {
    let word = AtomicU64::new(1);
    let word = black_box(&word);
    let start = Instant::now();
    let sum = (0..HITS).fold(0u64, |sum, _| sum.wrapping_add(word.load(Ordering::Relaxed)));
    let each = ns_each(start, HITS);
    assert_eq!(black_box(sum), HITS, "each load was done");
    each
}

fn exchange_ns() -> f64 {
    let word = AtomicU64::new(0);
    let word = black_box(&word);
    let start = Instant::now();
    for value in 0..HITS {
        // AcqRel as of the exchanges that this is the price of; nobody else sees the word.
        let _ = word.compare_exchange(value, value + 1, Ordering::AcqRel, Ordering::Relaxed);
    }
    let each = ns_each(start, HITS);
    assert_eq!(word.load(Ordering::Relaxed), HITS, "each exchange was done");
    each
}

/// Two CPUs of different cores that this process may run on. Two threads of one core share its caches: between them no
/// line moves.
fn two_cores() -> Option<(usize, usize)> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let first = cpus.next()?;
    let core = core_of(first);
    let other = cpus.find(|&cpu| core_of(cpu) != core)?;
    Some((first, other))
}

/// The CPUs of the same core, as the kernel writes them; the CPU alone if it does not say.
fn core_of(cpu: usize) -> String {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        .map_or_else(|_| cpu.to_string(), |siblings| siblings.trim().to_owned())
}

/// A line of its own.
#[repr(align(128))]
struct Ball(AtomicU64);

/// Two threads throw a line to and fro. None if they may not be placed.
///
/// A throw is two transfers: the thrower takes the line away from the catcher, who has been reading it, and the catcher
/// fetches it. So a round trip is four.
fn transfer_ns((one, other): (usize, usize), round_trips: u64) -> Option<f64> {
    let ball = Ball(AtomicU64::new(0));
    let has_given_up = AtomicBool::new(false);
    // Even numbers are on their way to the one, odd ones to the other. False if there is nobody to throw it back.
    let wait_for = |value| {
        // Acquire pairs with the Release of the throw, as where words are handed over.
        while ball.0.load(Ordering::Acquire) != value {
            if has_given_up.load(Ordering::Relaxed) {
                return false;
            }
            spin_loop();
        }
        true
    };
    let play = |cpu, first: u64| {
        let mut place = CpuSet::new();
        place.set(cpu);
        if sched_setaffinity(None, &place).is_err() {
            has_given_up.store(true, Ordering::Relaxed);
            return None;
        }
        // The clock starts with the first catch, when both are there.
        let mut start = None;
        for turn in 0..=round_trips {
            let value = first + 2 * turn;
            if !wait_for(value) {
                return None;
            }
            if turn == 1 {
                start = Some(Instant::now());
            }
            // Release pairs with the Acquire of the catch.
            ball.0.store(value + 1, Ordering::Release);
        }
        start.map(|start| ns_each(start, round_trips - 1) / 4.0)
    };
    thread::scope(|scope| {
        // Threads of their own, so that the caller's may go on running where it could.
        let thrower = scope.spawn(|| play(one, 0));
        let catcher = scope.spawn(|| play(other, 1));
        let each = thrower.join().ok().flatten();
        catcher.join().ok().flatten()?;
        each
    })
}

/// One line of the chase.
#[repr(align(64))]
struct ChaseLine {
    /// Index of the next one.
    next: usize,
}

/// All lines in one circle, in an order that is the same each time.
fn chase_order() -> Vec<ChaseLine> {
    let mut order: Vec<ChaseLine> = (0..CHASE_LINES).map(|next| ChaseLine { next }).collect();
    // Swapping each with an earlier one, never with itself, leaves one circle through all.
    let mut random = 1u64;
    for index in (1..CHASE_LINES).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let earlier = (random >> 33) as usize % index;
        let next = order[index].next;
        order[index].next = order[earlier].next;
        order[earlier].next = next;
    }
    order
}

fn memory_ns(order: &[ChaseLine]) -> f64 {
    let start = Instant::now();
    let end = (0..CHASE_STEPS).fold(0, |at, _| order[at].next);
    let each = ns_each(start, CHASE_STEPS as u64);
    assert_ne!(black_box(end), 0, "the circle is longer than the chase");
    each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_used_and_the_rest_is_the_default() {
        let mut calibration =
            Calibration { own_ns: 0.3, exchange_ns: 6.0, transfer_ns: Some(30.0), memory_ns: 100.0 };
        let prices = calibration.prices();
        assert_eq!(prices.own_ns, 0.3);
        assert_eq!(prices.transfer_ns, 30.0);
        assert_eq!(prices.transfer_far_ns, 70.0);
        calibration.transfer_ns = None;
        assert_eq!(calibration.prices().transfer_far_ns, Prices::default().transfer_far_ns);
        assert!(calibration.to_string().contains("needs two cores"));
    }

    #[test]
    fn this_machine_has_prices() {
        let calibration = calibrate();
        println!("{calibration}");
        // Which is larger depends on how this was compiled and on who else runs here.
        let measured = [calibration.own_ns, calibration.exchange_ns, calibration.memory_ns];
        assert!(measured.iter().chain(&calibration.transfer_ns).all(|&ns| ns > 0.0 && ns.is_finite()));
    }

    #[test]
    fn a_cpu_that_is_not_there_gives_no_figure() {
        assert_eq!(transfer_ns((CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU - 2), 10), None);
    }
}
