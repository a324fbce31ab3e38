//! Runs as OpenMetrics text, which Prometheus reads.
//!
//! What must hold: the text is right whatever a program or a directory is called; no two samples have the same labels;
//! bounds of buckets are the same in each text. An older run says less, and what it does not say is left out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, GaugeValueEncoder,
    MetricEncoder, NoLabelSet,
};
use prometheus_client::registry::Registry;
use uswap_control::stat::{FaultStat, ProcessStat, RunStat};

use crate::counters::counter_metrics;
use crate::family::{Family, Kind, Number};
use crate::tables::{
    DIRECTORIES, DirectoryStat, FAULT_DURATION, FAULTS, INFO, PROCESSES, RUN, STATE, STATES, source_word,
};

/// What the text is, for HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The first and the last bucket of a histogram end at 2 to these powers, in ns: 256 ns and 17 s.
const FIRST_POWER: u32 = 8;
const LAST_POWER: u32 = 34;
const BOUNDS: usize = (LAST_POWER - FIRST_POWER + 1) as usize;

/// Whether samples have a label `run` with the process id of the supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunLabel {
    /// There is one run and stays one.
    Without,
    /// Runs come and go.
    With,
}

/// The text. Where there are several runs, the label `run` tells them apart.
pub fn render(stats: &[RunStat]) -> String {
    render_with(stats, if stats.len() > 1 { RunLabel::With } else { RunLabel::Without })
}

/// The text, with the label `run` or without. Without, there is one run at most.
pub fn render_with(stats: &[RunStat], label: RunLabel) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Runs { stats: stats.to_vec(), label }));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string does not fail");
    text
}

/// Everything is made anew for each text: nothing is kept twice.
#[derive(Debug)]
struct Runs {
    stats: Vec<RunStat>,
    label: RunLabel,
}

impl Collector for Runs {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut text = Text { encoder, runs: self };
        text.info()?;
        text.states()?;
        for (family, of) in RUN {
            text.family(family, |run| vec![(Vec::new(), of(run))])?;
        }
        text.directories()?;
        text.faults()?;
        for (described, metric) in counter_metrics() {
            text.family(&metric.family, |run| {
                let value = run.counters.get(described.name);
                value.map(|value| (Vec::new(), metric.number(*value))).into_iter().collect()
            })?;
        }
        for (family, of) in PROCESSES {
            text.family(family, |run| {
                distinct(&run.processes).map(|process| (labels_of(process), of(process))).collect()
            })?;
        }
        Ok(())
    }
}

/// Labels of a sample. The encoder escapes what needs it.
type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

struct Text<'a, 'e> {
    encoder: DescriptorEncoder<'e>,
    runs: &'a Runs,
}

impl<'a> Text<'a, '_> {
    /// The head of a family, and its samples of each run.
    fn family(
        &mut self,
        family: &Family,
        samples: impl Fn(&'a RunStat) -> Vec<(Labels<'a>, Number)>,
    ) -> fmt::Result {
        self.samples(family, samples, |encoder, number| match family.kind {
            Kind::Counter => encoder.encode_counter::<NoLabelSet, Number, u64>(number, None),
            _ => encoder.encode_gauge(number),
        })
    }

    fn samples<T>(
        &mut self,
        family: &Family,
        samples: impl Fn(&'a RunStat) -> Vec<(Labels<'a>, T)>,
        write: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        let (unit, runs) = (family.unit.encoded(), self.runs);
        let mut encoder =
            self.encoder.encode_descriptor(family.base, family.help, unit.as_ref(), family.kind.encoded())?;
        for run in &runs.stats {
            for (mut labels, value) in samples(run) {
                if runs.label == RunLabel::With {
                    labels.insert(0, ("run", Cow::from(run.pid.to_string())));
                }
                match labels.is_empty() {
                    true => write(&mut encoder, &value)?,
                    false => write(&mut encoder.encode_family(&labels)?, &value)?,
                }
            }
        }
        Ok(())
    }

    fn info(&mut self) -> fmt::Result {
        let labels = |run: &'a RunStat| {
            vec![
                ("version", Cow::from(&run.version)),
                ("pid", Cow::from(run.pid.to_string())),
                ("uid", Cow::from(run.uid.to_string())),
                ("program", Cow::from(&run.program)),
            ]
        };
        self.samples(
            &INFO,
            |run| vec![(Vec::new(), labels(run))],
            |encoder, labels| encoder.encode_info(labels),
        )
    }

    fn states(&mut self) -> fmt::Result {
        self.family(&STATE, |run| {
            // An older run does not say it.
            let states = STATES.iter().filter(|_| !run.state.is_empty());
            states
                .map(|state| {
                    (vec![("state", Cow::from(*state))], Number::Whole(u64::from(run.state == *state)))
                })
                .collect()
        })
    }

    fn directories(&mut self) -> fmt::Result {
        for (family, of) in DIRECTORIES {
            self.family(family, |run| {
                let samples = by_directory(run).into_iter();
                samples
                    .map(|(name, directory)| {
                        (vec![("directory", Cow::from(name))], Number::Whole(of(&directory)))
                    })
                    .collect()
            })?;
        }
        Ok(())
    }

    fn faults(&mut self) -> fmt::Result {
        self.family(&FAULTS, |run| {
            let samples = run.faults.iter();
            samples.map(|fault| (of_source(&fault.source), Number::Whole(fault.count))).collect()
        })?;
        let histograms = |run: &'a RunStat| {
            let samples = run.faults.iter();
            samples.map(|fault| (of_source(&fault.source), Buckets::of(fault))).collect()
        };
        self.samples(&FAULT_DURATION, histograms, |encoder, buckets: &Buckets| {
            encoder.encode_histogram::<NoLabelSet>(buckets.sum_seconds, buckets.count, &buckets.counts, None)
        })
    }
}

/// Files of one directory cannot be told apart by labels, so they are added up.
fn by_directory(run: &RunStat) -> BTreeMap<&str, DirectoryStat> {
    let mut directories: BTreeMap<&str, DirectoryStat> = BTreeMap::new();
    for file in &run.swap_files {
        let directory = directories.entry(&file.directory).or_default();
        directory.used_bytes += file.used_bytes;
        directory.bytes_max += file.bytes_max;
        directory.written_bytes += file.written_bytes;
    }
    directories
}

/// Without those whose number is not known yet, and without a second of one number.
fn distinct(processes: &[ProcessStat]) -> impl Iterator<Item = &ProcessStat> {
    let mut seen = BTreeSet::from([0]);
    processes.iter().filter(move |process| seen.insert(process.pid))
}

fn labels_of(process: &ProcessStat) -> Labels<'_> {
    vec![("pid", Cow::from(process.pid.to_string())), ("name", Cow::from(&process.name))]
}

fn of_source(source: &str) -> Labels<'_> {
    vec![("source", Cow::from(source_word(source)))]
}

/// A histogram, as the encoder takes it.
#[derive(Debug, PartialEq)]
struct Buckets {
    sum_seconds: f64,
    count: u64,
    /// The bound of each bucket, and how many values are in it and not in the one before.
    counts: Vec<(f64, u64)>,
}

impl Buckets {
    /// From counts of values up to a power of two less one, and their sum, in ns.
    fn of(fault: &FaultStat) -> Buckets {
        let bound = |index: usize| (1_u64 << (FIRST_POWER + index as u32)) as f64 / 1e9;
        let mut counts: Vec<(f64, u64)> = (0..BOUNDS).map(|index| (bound(index), 0)).collect();
        counts.push((f64::INFINITY, 0));
        let (mut estimated_ns, mut count) = (0.0, 0);
        for &(top_ns, values) in &fault.latencies {
            let power = u64::BITS - top_ns.leading_zeros();
            counts[(power.saturating_sub(FIRST_POWER) as usize).min(BOUNDS)].1 += values;
            estimated_ns += values as f64 * top_ns as f64 * 0.75;
            count += values;
        }
        // An older run does not say it: then it is of the middles of the buckets.
        let sum_ns = if fault.total_ns > 0 { fault.total_ns as f64 } else { estimated_ns };
        Buckets { sum_seconds: sum_ns / 1e9, count, counts }
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => {
                EncodeGaugeValue::encode(&i64::try_from(*number).unwrap_or(i64::MAX), encoder)
            }
            Number::Parts(number) => EncodeGaugeValue::encode(number, encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => EncodeCounterValue::encode(number, encoder),
            Number::Parts(number) => EncodeCounterValue::encode(number, encoder),
        }
    }
}

#[cfg(test)]
#[path = "openmetrics_tests.rs"]
mod tests;
