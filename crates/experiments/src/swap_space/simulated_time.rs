//! What an access to memory costs on a machine that is made up: who has which cache line, and what it takes to get it.
//!
//! A line is Modified by one CPU, or Shared by some, or in memory only. A CPU that has the line pays a hit; any other
//! waits for it, one behind the other. That is all: no levels of caches, no line is ever pushed out of a cache, no
//! bandwidth, no work out of order. So the figures say how a design behaves with more CPUs, not how fast it is.
//!
//! Time is in whole picoseconds, so that a run repeats to the last digit. [`virtual_time`](super::virtual_time) calls
//! this.

use std::collections::HashMap;
use std::fmt;

/// CPUs there may be: one bit each in the set of those that share a line.
pub const CPUS_MAX: usize = 128;

/// Picoseconds in a nanosecond.
const PS_PER_NS: u64 = 1000;

/// What an access costs, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prices {
    /// Load or store of a line that the CPU has.
    pub own_ns: f64,
    /// Atomic read and write in one step of a line that the CPU has.
    pub exchange_ns: f64,
    /// Fetching a line that another CPU of this socket has, or taking it away from those that share it.
    pub transfer_ns: f64,
    /// The same, if one of those CPUs is in the other socket.
    pub transfer_far_ns: f64,
    /// Fetching a line that no CPU has touched.
    pub memory_ns: f64,
}

impl Default for Prices {
    /// About a server of the years around 2020.
    fn default() -> Self {
        Prices { own_ns: 0.5, exchange_ns: 5.0, transfer_ns: 60.0, transfer_far_ns: 140.0, memory_ns: 90.0 }
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "own {:.2} ns, exchange {:.1} ns, transfer {:.0} ns, transfer far {:.0} ns, memory {:.0} ns",
            self.own_ns, self.exchange_ns, self.transfer_ns, self.transfer_far_ns, self.memory_ns
        )
    }
}

/// Where the CPUs sit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sockets {
    /// All in one.
    #[default]
    One,
    /// The first half of the CPUs in one, the others in the other. Of an odd number the first half has one fewer.
    Two,
}

/// Virtual time since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    picoseconds: u64,
}

impl Time {
    /// The start.
    pub const ZERO: Time = Time { picoseconds: 0 };

    /// `nanoseconds` after the start.
    #[must_use]
    pub const fn from_ns(nanoseconds: u64) -> Time {
        Time { picoseconds: nanoseconds * PS_PER_NS }
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub fn ns(self) -> f64 {
        self.picoseconds as f64 / PS_PER_NS as f64
    }

    /// Later by `picoseconds`.
    #[must_use]
    pub fn plus(self, picoseconds: u64) -> Time {
        Time { picoseconds: self.picoseconds + picoseconds }
    }

    /// Picoseconds since `before`, which is not later.
    #[must_use]
    pub fn picoseconds_since(self, before: Time) -> u64 {
        assert!(before.picoseconds <= self.picoseconds, "time does not run backwards");
        self.picoseconds - before.picoseconds
    }
}

/// What a CPU does to a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Load and store in one step.
    Exchange,
}

/// How an access was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Served {
    /// When the access is done.
    pub done: Time,
    /// Whether the line came from another CPU, or was taken away from one.
    pub by_transfer: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// One CPU has it for itself.
    Modified { by: usize },
    /// These CPUs may read it; a bit each, at least one.
    Shared { by: u128 },
}

#[derive(Clone, Copy, Debug)]
struct Line {
    held: Held,
    /// The line is on its way until then.
    busy_until: Time,
}

/// The prices in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Picoseconds {
    own: u64,
    exchange: u64,
    transfer: u64,
    transfer_far: u64,
    memory: u64,
}

/// The lines of memory and who has them.
#[derive(Debug)]
pub struct Lines {
    prices: Picoseconds,
    /// Bits of the CPUs of the first socket.
    near_cpus: u128,
    lines: HashMap<usize, Line>,
}

impl Lines {
    /// Memory that nobody has touched.
    #[must_use]
    pub fn new(prices: &Prices, sockets: Sockets, cpu_count: usize) -> Lines {
        assert!(cpu_count <= CPUS_MAX, "{cpu_count} CPUs; there may be {CPUS_MAX}");
        let near_cpus = match sockets {
            Sockets::One => u128::MAX,
            Sockets::Two => (1 << (cpu_count / 2)) - 1,
        };
        let prices = Picoseconds {
            own: picoseconds(prices.own_ns),
            exchange: picoseconds(prices.exchange_ns),
            transfer: picoseconds(prices.transfer_ns),
            transfer_far: picoseconds(prices.transfer_far_ns),
            memory: picoseconds(prices.memory_ns),
        };
        Lines { prices, near_cpus, lines: HashMap::new() }
    }

    /// `cpu` does `access` to `line` at `now`.
    ///
    /// Calls come in the order of their times: who asks first has the line first.
    pub fn access(&mut self, cpu: usize, line: usize, access: Access, now: Time) -> Served {
        let me = 1u128 << cpu;
        let Some(before) = self.lines.get(&line).copied() else {
            let done = now.plus(self.prices.memory);
            // What one CPU alone has read it may write without asking, so that is as good as Modified.
            self.lines.insert(line, Line { held: Held::Modified { by: cpu }, busy_until: done });
            return Served { done, by_transfer: false };
        };
        let holders = match before.held {
            Held::Modified { by } => 1 << by,
            Held::Shared { by } => by,
        };
        let is_hit = match access {
            Access::Read => holders & me != 0,
            Access::Write | Access::Exchange => holders == me,
        };
        if is_hit {
            let cost = if access == Access::Exchange { self.prices.exchange } else { self.prices.own };
            return Served { done: now.plus(cost), by_transfer: false };
        }
        let cost = match access {
            // The nearest that has it sends it.
            Access::Read if holders & self.socket_of(cpu) != 0 => self.prices.transfer,
            Access::Read => self.prices.transfer_far,
            // The farthest that has it must give it up.
            Access::Write | Access::Exchange => self.price_of_taking_from(holders, cpu),
        };
        let held = match access {
            Access::Read => Held::Shared { by: holders | me },
            Access::Write | Access::Exchange => Held::Modified { by: cpu },
        };
        self.move_line(line, held, now.max(before.busy_until).plus(cost))
    }

    /// The lock in `line` goes from one CPU to another that waits for it: a transfer, whatever became of the line
    /// meanwhile.
    pub fn hand_over(&mut self, line: usize, from: usize, to: usize, now: Time) -> Served {
        let cost = self.price_of_taking_from(1 << from, to);
        let start = self.lines.get(&line).map_or(now, |line| now.max(line.busy_until));
        self.move_line(line, Held::Modified { by: to }, start.plus(cost))
    }

    fn move_line(&mut self, line: usize, held: Held, done: Time) -> Served {
        self.lines.insert(line, Line { held, busy_until: done });
        Served { done, by_transfer: true }
    }

    fn price_of_taking_from(&self, holders: u128, cpu: usize) -> u64 {
        let is_near = holders & !self.socket_of(cpu) == 0;
        if is_near { self.prices.transfer } else { self.prices.transfer_far }
    }

    /// Bits of the CPUs in the socket of `cpu`.
    fn socket_of(&self, cpu: usize) -> u128 {
        if self.near_cpus & (1 << cpu) != 0 { self.near_cpus } else { !self.near_cpus }
    }
}

fn picoseconds(ns: f64) -> u64 {
    assert!(ns.is_finite(), "a price is a number");
    assert!(ns >= 0.0, "a price is not negative");
    (ns * PS_PER_NS as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices =
        Prices { own_ns: 1.0, exchange_ns: 5.0, transfer_ns: 60.0, transfer_far_ns: 140.0, memory_ns: 90.0 };

    /// Does the accesses each 1000 ns after the one before; what each took in nanoseconds.
    fn costs(lines: &mut Lines, accesses: &[(usize, Access)]) -> Vec<f64> {
        let starts = (0..).map(|index| Time::from_ns(index * 1000));
        accesses
            .iter()
            .zip(starts)
            .map(|(&(cpu, access), start)| lines.access(cpu, 7, access, start).done.ns() - start.ns())
            .collect()
    }

    #[test]
    fn one_cpu_pays_memory_once() {
        let mut lines = Lines::new(&PRICES, Sockets::One, 1);
        let accesses = [(0, Access::Read), (0, Access::Write), (0, Access::Exchange), (0, Access::Read)];
        assert_eq!(costs(&mut lines, &accesses), [90.0, 1.0, 5.0, 1.0]);
    }

    #[test]
    fn a_line_that_is_only_read_is_fetched_once_by_each() {
        let mut lines = Lines::new(&PRICES, Sockets::One, 3);
        let accesses = [0, 1, 2, 0, 1, 2].map(|cpu| (cpu, Access::Read));
        assert_eq!(costs(&mut lines, &accesses), [90.0, 60.0, 60.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_line_written_in_turn_is_a_transfer_each() {
        let mut lines = Lines::new(&PRICES, Sockets::One, 2);
        let accesses = [(0, Access::Write), (1, Access::Exchange), (0, Access::Write), (1, Access::Write)];
        assert_eq!(costs(&mut lines, &accesses), [90.0, 60.0, 60.0, 60.0]);
    }

    #[test]
    fn a_sharer_that_writes_takes_the_line_from_the_others() {
        let mut lines = Lines::new(&PRICES, Sockets::One, 2);
        let accesses = [(0, Access::Read), (1, Access::Read), (0, Access::Write), (1, Access::Read)];
        assert_eq!(costs(&mut lines, &accesses), [90.0, 60.0, 60.0, 60.0]);
    }

    #[test]
    fn the_other_socket_is_farther() {
        let mut lines = Lines::new(&PRICES, Sockets::Two, 4);
        let accesses = [
            (0, Access::Write),
            (1, Access::Write),
            (2, Access::Write),
            (1, Access::Read),
            // CPU 1 of the own socket has it.
            (0, Access::Read),
            // So has CPU 2, and it must give it up.
            (0, Access::Write),
        ];
        assert_eq!(costs(&mut lines, &accesses), [90.0, 60.0, 140.0, 140.0, 60.0, 140.0]);
    }

    #[test]
    fn who_asks_later_has_the_line_later() {
        let mut lines = Lines::new(&PRICES, Sockets::One, 3);
        let done: Vec<f64> = [0, 1, 2]
            .iter()
            .map(|&cpu| lines.access(cpu, 7, Access::Write, Time::from_ns(cpu as u64)).done.ns())
            .collect();
        assert_eq!(done, [90.0, 150.0, 210.0]);
        let other_line = lines.access(2, 8, Access::Write, Time::from_ns(3));
        assert_eq!(other_line.done, Time::from_ns(93));
    }

    #[test]
    fn half_a_nanosecond_is_not_lost() {
        let mut lines = Lines::new(&Prices::default(), Sockets::One, 1);
        let first = lines.access(0, 7, Access::Read, Time::ZERO).done;
        let second = lines.access(0, 7, Access::Read, first).done;
        assert_eq!(second.picoseconds_since(first), 500);
    }
}
