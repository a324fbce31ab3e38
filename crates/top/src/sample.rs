//! What a run said at one moment, and what happened between two of them.
//!
//! What must hold: no rate is negative. Two samples of different runs have nothing between them; a count that goes back
//! within one run counts as none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uswap_control::stat::{FaultStat, Pressure, ProcessStat, RunStat};
use uswap_units::PAGE_BYTES;

/// What a run said, and when.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since 1970.
    pub at_seconds: f64,
    /// What it said.
    pub stat: RunStat,
}

/// What happened in a run between two samples.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Rates {
    /// Time between them.
    pub seconds: f64,
    /// Part of that in which at least one thread of the run waited. Of a run that does not say it, its processes are
    /// added, up to 1.
    pub some: f64,
    /// Part in which one waited, and nothing of the run that does not sleep did anything else.
    pub full: f64,
    /// Faults of all sources.
    pub faults: FaultRate,
    /// Faults of each source that the run names.
    pub sources: BTreeMap<String, FaultRate>,
    /// Content that faults took from the pool.
    pub pool_in_bytes_per_second: f64,
    /// Content that was compressed into the pool.
    pub pool_out_bytes_per_second: f64,
    /// Content that was compressed, by the room that it took; nothing if none was.
    pub compression_ratio: Option<f64>,
    /// Read from the swap files.
    pub read_bytes_per_second: f64,
    /// Written to them.
    pub written_bytes_per_second: f64,
    /// Processes that are in both samples.
    #[serde(skip)]
    pub processes: BTreeMap<u32, ProcessRates>,
}

/// Faults between two samples.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct FaultRate {
    /// How many.
    pub per_second: f64,
    /// Half of them took no longer than this; nothing if there was none.
    pub p50_ns: Option<u64>,
    /// 99 of 100 took no longer than this.
    pub p99_ns: Option<u64>,
}

/// What happened to a process between two samples.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ProcessRates {
    /// Pages that reclaim took from it.
    pub taken_per_second: f64,
    /// Pages that a touch brought back.
    pub back_per_second: f64,
    /// The part of those that came back soon; nothing if none came back.
    pub soon: Option<f64>,
}

impl Rates {
    /// What happened from `before` to `after`; nothing can be said if they are of two runs, or of one moment.
    pub fn between(before: &Sample, after: &Sample) -> Option<Self> {
        let (before, after) = (&before.stat, &after.stat);
        // By the clock of the run, which nobody sets.
        let seconds = after.uptime_seconds - before.uptime_seconds;
        if before.pid != after.pid || seconds <= 0.0 {
            return None;
        }
        let grown = |name: &str| {
            let count = |stat: &RunStat| stat.counters.get(name).copied().unwrap_or(0);
            count(after).saturating_sub(count(before)) as f64
        };
        let (mut all, mut sources) = (Latencies::default(), BTreeMap::new());
        for fault in &after.faults {
            let new = Latencies::between(before.faults.iter().find(|one| one.source == fault.source), fault);
            all.add(&new);
            sources.insert(fault.source.clone(), new.rate(seconds));
        }
        // Waits are read at other moments than the clock.
        let waited = |before: f64, after: f64| ((after - before) / seconds).clamp(0.0, 1.0);
        let [some, full] = [0, 1].map(|line| match (before.pressure, after.pressure) {
            (Some(before), Some(after)) => waited(seconds_of(before)[line], seconds_of(after)[line]),
            _ => waited(added_seconds(before)[line], added_seconds(after)[line]),
        });
        let from_pool = sources.get("pool").map_or(0.0, |rate| rate.per_second);
        let (content, room) = (grown("compressed_bytes_in"), grown("compressed_bytes_out"));
        Some(Self {
            seconds,
            some,
            full,
            faults: all.rate(seconds),
            sources,
            pool_in_bytes_per_second: from_pool * PAGE_BYTES as f64,
            pool_out_bytes_per_second: grown("zswpout") * PAGE_BYTES as f64 / seconds,
            compression_ratio: (room > 0.0).then(|| content / room),
            read_bytes_per_second: grown("read_bytes") / seconds,
            written_bytes_per_second: grown("written_bytes") / seconds,
            processes: processes(before, after, seconds),
        })
    }
}

/// "Some" and "full" of the whole run.
fn seconds_of(pressure: Pressure) -> [f64; 2] {
    [pressure.some, pressure.full].map(|line| line.total_us as f64 / 1e6)
}

/// The same of its processes, added.
fn added_seconds(stat: &RunStat) -> [f64; 2] {
    [stat.waits.some_seconds, stat.waits.full_seconds]
}

fn processes(before: &RunStat, after: &RunStat, seconds: f64) -> BTreeMap<u32, ProcessRates> {
    let known: BTreeMap<u32, &ProcessStat> =
        before.processes.iter().map(|process| (process.pid, process)).collect();
    let rates = |process: &ProcessStat| {
        let earlier = known.get(&process.pid)?;
        let grown = |count: fn(&ProcessStat) -> u64| count(process).saturating_sub(count(earlier)) as f64;
        let back = grown(|process| process.pages_came_back);
        Some((
            process.pid,
            ProcessRates {
                taken_per_second: grown(|process| process.pages_taken) / seconds,
                back_per_second: back / seconds,
                // The two are not read at one moment.
                soon: (back > 0.0).then(|| (grown(|process| process.pages_came_back_soon) / back).min(1.0)),
            },
        ))
    };
    after.processes.iter().filter_map(rates).collect()
}

/// How many faults took more than one bound, and at most the next, in ns.
#[derive(Default)]
struct Latencies(BTreeMap<u64, u64>);

impl Latencies {
    /// Those that were added.
    fn between(before: Option<&FaultStat>, after: &FaultStat) -> Self {
        let mut counts: BTreeMap<u64, u64> = after.latencies.iter().copied().collect();
        for (bound, count) in before.iter().flat_map(|fault| &fault.latencies) {
            if let Some(left) = counts.get_mut(bound) {
                *left = left.saturating_sub(*count);
            }
        }
        Self(counts)
    }

    fn add(&mut self, other: &Self) {
        for (bound, count) in &other.0 {
            *self.0.entry(*bound).or_default() += count;
        }
    }

    fn rate(&self, seconds: f64) -> FaultRate {
        let count: u64 = self.0.values().sum();
        FaultRate {
            per_second: count as f64 / seconds,
            p50_ns: self.quantile(count, 1, 2),
            p99_ns: self.quantile(count, 99, 100),
        }
    }

    /// The least bound that `part` of `whole` of all `count` values do not exceed.
    fn quantile(&self, count: u64, part: u64, whole: u64) -> Option<u64> {
        let rank = u128::from(count) * u128::from(part);
        let mut seen = 0_u128;
        let reached = |(bound, count): (&u64, &u64)| {
            seen += u128::from(*count) * u128::from(whole);
            (*count > 0 && seen >= rank).then_some(*bound)
        };
        self.0.iter().find_map(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_control::stat::{Psi, Waits};

    fn sample(uptime_seconds: f64, stat: RunStat) -> Sample {
        Sample { at_seconds: 1e9 + uptime_seconds, stat: RunStat { pid: 7, uptime_seconds, ..stat } }
    }

    fn counters(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn fault(source: &str, latencies: &[(u64, u64)]) -> FaultStat {
        FaultStat { source: source.to_owned(), latencies: latencies.to_vec(), ..FaultStat::default() }
    }

    #[test]
    fn rates_are_what_was_added_by_the_time_of_the_run() {
        let names = [("zswpout", 100), ("compressed_bytes_in", 1000), ("compressed_bytes_out", 500)];
        let before = RunStat {
            waits: Waits { some_seconds: 1.0, full_seconds: 0.5 },
            faults: vec![fault("pool", &[(4095, 10)])],
            counters: counters(&names),
            ..RunStat::default()
        };
        let names = [("zswpout", 150), ("compressed_bytes_in", 4000), ("compressed_bytes_out", 1500)];
        let after = RunStat {
            waits: Waits { some_seconds: 2.5, full_seconds: 1.0 },
            faults: vec![fault("pool", &[(4095, 30)])],
            counters: counters(&[&names[..], &[("read_bytes", 8192), ("written_bytes", 4096)]].concat()),
            ..RunStat::default()
        };
        let rates = Rates::between(&sample(10.0, before), &sample(12.0, after)).expect("they are of one run");
        assert_eq!((rates.seconds, rates.some, rates.full), (2.0, 0.75, 0.25));
        assert_eq!((rates.faults.per_second, rates.sources["pool"].per_second), (10.0, 10.0));
        assert_eq!(rates.pool_in_bytes_per_second, 40_960.0);
        assert_eq!(rates.pool_out_bytes_per_second, 102_400.0);
        assert_eq!(rates.compression_ratio, Some(3.0));
        assert_eq!((rates.read_bytes_per_second, rates.written_bytes_per_second), (4096.0, 2048.0));
    }

    #[test]
    fn another_run_begins_anew() {
        let one = sample(10.0, RunStat::default());
        assert_eq!(Rates::between(&one, &sample(3.0, RunStat::default())), None);
        assert_eq!(Rates::between(&one, &one), None);
        let mut other = sample(12.0, RunStat::default());
        other.stat.pid = 8;
        assert_eq!(Rates::between(&one, &other), None);
    }

    #[test]
    fn what_goes_back_is_no_negative_rate() {
        let of = |count: u64, waits: f64| RunStat {
            counters: counters(&[("zswpout", count), ("read_bytes", count), ("compressed_bytes_out", count)]),
            waits: Waits { some_seconds: waits, full_seconds: waits },
            faults: vec![fault("file", &[(1023, count)])],
            processes: vec![ProcessStat { pid: 1, pages_taken: count, ..ProcessStat::default() }],
            ..RunStat::default()
        };
        let rates = Rates::between(&sample(1.0, of(9, 9.0)), &sample(2.0, of(4, 4.0))).expect("one run");
        assert_eq!((rates.some, rates.full, rates.faults.per_second), (0.0, 0.0, 0.0));
        assert_eq!((rates.pool_out_bytes_per_second, rates.read_bytes_per_second), (0.0, 0.0));
        assert_eq!((rates.compression_ratio, rates.faults.p50_ns), (None, None));
        assert_eq!(rates.processes[&1], ProcessRates::default());
    }

    fn pressure(some_us: u64, full_us: u64) -> Option<Pressure> {
        let [some, full] = [some_us, full_us].map(|total_us| Psi { total_us, ..Psi::default() });
        Some(Pressure { some, full })
    }

    #[test]
    fn a_run_waits_no_longer_than_time_goes_by_however_many_processes_wait() {
        let of = |waits: f64, pressure| RunStat {
            waits: Waits { some_seconds: waits, full_seconds: waits / 2.0 },
            pressure,
            ..RunStat::default()
        };
        let between = |before, after| {
            let rates = Rates::between(&sample(1.0, before), &sample(2.0, after)).expect("one run");
            (rates.some, rates.full)
        };
        let known = of(2.5, pressure(750_000, 500_000));
        assert_eq!(between(of(0.0, pressure(0, 0)), known.clone()), (0.75, 0.5));
        assert_eq!(between(of(0.0, pressure(0, 0)), of(2.5, pressure(1_000_200, 0))), (1.0, 0.0));
        // Recorded of an older run, or in part of one.
        assert_eq!(between(of(0.0, None), of(0.5, None)), (0.5, 0.25));
        assert_eq!(between(of(0.0, None), of(2.5, None)), (1.0, 1.0));
        assert_eq!(between(of(2.25, None), known), (0.25, 0.125));
    }

    #[test]
    fn quantiles_are_of_the_values_that_were_added() {
        // Before, all were slow; since then 99 of 100 were quick.
        let before = RunStat { faults: vec![fault("pool", &[(65_535, 1000)])], ..RunStat::default() };
        let latencies = [(1023, 60), (4095, 39), (65_535, 1001)];
        let after = RunStat {
            faults: vec![fault("pool", &latencies), fault("file", &[(1_048_575, 1)])],
            ..RunStat::default()
        };
        let rates = Rates::between(&sample(1.0, before), &sample(2.0, after)).expect("one run");
        let pool = rates.sources["pool"];
        assert_eq!((pool.per_second, pool.p50_ns, pool.p99_ns), (100.0, Some(1023), Some(4095)));
        let file = rates.sources["file"];
        assert_eq!((file.per_second, file.p50_ns, file.p99_ns), (1.0, Some(1_048_575), Some(1_048_575)));
        assert_eq!((rates.faults.per_second, rates.faults.p99_ns), (101.0, Some(65_535)));
    }

    #[test]
    fn a_process_that_is_new_has_no_rates_yet() {
        let of = |pid, taken, back, soon| ProcessStat {
            pid,
            pages_taken: taken,
            pages_came_back: back,
            pages_came_back_soon: soon,
            ..ProcessStat::default()
        };
        let with = |processes| RunStat { processes, ..RunStat::default() };
        let before = with(vec![of(1, 100, 50, 0), of(2, 0, 0, 0)]);
        let after = with(vec![of(3, 9, 9, 9), of(1, 300, 90, 10)]);
        let rates = Rates::between(&sample(1.0, before), &sample(3.0, after)).expect("one run");
        let one = ProcessRates { taken_per_second: 100.0, back_per_second: 20.0, soon: Some(0.25) };
        assert_eq!(rates.processes, BTreeMap::from([(1, one)]));
    }
}
