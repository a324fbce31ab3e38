//! `uswap dump`: a recording as text for other programs.

use std::io::{BufWriter, Write};

use serde::Serialize;
use uswap_control::stat::{Pressure, ProcessStat, RunStat};

use crate::args::{DumpArguments, Form};
use crate::recording::Recording;
use crate::sample::{ProcessRates, Rates, Sample};

/// Prints a recording.
///
/// # Errors
/// As a sentence: it cannot be read, or printed.
pub fn dump(arguments: &DumpArguments) -> Result<(), String> {
    let table = match (arguments.form, arguments.processes) {
        (Form::Json, true) => return Err("--processes is for csv: json has all processes anyway".to_owned()),
        (Form::Json, false) => Table::Json,
        (Form::Csv, true) => Table::Processes,
        (Form::Csv, false) => Table::Run,
    };
    let mut recording = Recording::open(&arguments.file)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    match print(&mut recording, table, &mut out).and_then(|()| out.flush().map_err(Failure::Write)) {
        Ok(()) => Ok(()),
        Err(Failure::Read(why)) => Err(why),
        // Who reads has seen enough.
        Err(Failure::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(Failure::Write(error)) => Err(format!("it could not be printed ({error})")),
    }
}

/// What is printed.
#[derive(Clone, Copy)]
enum Table {
    Json,
    Run,
    Processes,
}

#[derive(Debug)]
enum Failure {
    Read(String),
    Write(std::io::Error),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Write(error)
    }
}

/// A sample, and what happened since the one before.
#[derive(Clone, Copy)]
struct Moment<'a> {
    sample: &'a Sample,
    rates: Option<&'a Rates>,
}

#[derive(Serialize)]
struct Element<'a> {
    at_seconds: f64,
    rates: Option<&'a Rates>,
    stat: &'a RunStat,
}

type Cell = fn(Moment<'_>) -> String;

const RUN: [(&str, Cell); 32] = [
    ("at_seconds", |now| decimal(now.sample.at_seconds)),
    ("uptime_seconds", |now| decimal(now.sample.stat.uptime_seconds)),
    ("pid", |now| now.sample.stat.pid.to_string()),
    ("ram_bytes", |now| now.sample.stat.ram_bytes.to_string()),
    ("used_bytes", |now| now.sample.stat.used_bytes.to_string()),
    ("used_peak_bytes", |now| now.sample.stat.used_peak_bytes.to_string()),
    ("resident_bytes", |now| now.sample.stat.resident_bytes.to_string()),
    ("pool_bytes", |now| now.sample.stat.pool_bytes.to_string()),
    ("pool_bytes_max", |now| now.sample.stat.pool_bytes_max.to_string()),
    ("swap_file_bytes", |now| now.sample.stat.swap_file_bytes.to_string()),
    ("processes", |now| (now.sample.stat.processes.len() + now.sample.stat.more_processes).to_string()),
    ("some_avg10", |now| psi(now, |pressure| pressure.some.avg10.to_string())),
    ("some_avg60", |now| psi(now, |pressure| pressure.some.avg60.to_string())),
    ("some_avg300", |now| psi(now, |pressure| pressure.some.avg300.to_string())),
    ("some_total_us", |now| psi(now, |pressure| pressure.some.total_us.to_string())),
    ("full_avg10", |now| psi(now, |pressure| pressure.full.avg10.to_string())),
    ("full_avg60", |now| psi(now, |pressure| pressure.full.avg60.to_string())),
    ("full_avg300", |now| psi(now, |pressure| pressure.full.avg300.to_string())),
    ("full_total_us", |now| psi(now, |pressure| pressure.full.total_us.to_string())),
    ("waits_some_seconds", |now| decimal(now.sample.stat.waits.some_seconds)),
    ("waits_full_seconds", |now| decimal(now.sample.stat.waits.full_seconds)),
    ("interval_seconds", |now| rate(now, |rates| Some(rates.seconds))),
    ("some", |now| rate(now, |rates| Some(rates.some))),
    ("full", |now| rate(now, |rates| Some(rates.full))),
    ("faults_per_second", |now| rate(now, |rates| Some(rates.faults.per_second))),
    ("fault_p50_ns", |now| quantile(now, |rates| rates.faults.p50_ns)),
    ("fault_p99_ns", |now| quantile(now, |rates| rates.faults.p99_ns)),
    ("pool_in_bytes_per_second", |now| rate(now, |rates| Some(rates.pool_in_bytes_per_second))),
    ("pool_out_bytes_per_second", |now| rate(now, |rates| Some(rates.pool_out_bytes_per_second))),
    ("compression_ratio", |now| rate(now, |rates| rates.compression_ratio)),
    ("read_bytes_per_second", |now| rate(now, |rates| Some(rates.read_bytes_per_second))),
    ("written_bytes_per_second", |now| rate(now, |rates| Some(rates.written_bytes_per_second))),
];

type ProcessCell = fn(&ProcessStat, Option<&ProcessRates>) -> String;

const PROCESS: [(&str, ProcessCell); 17] = [
    ("pid", |process, _| process.pid.to_string()),
    ("parent", |process, _| process.parent.to_string()),
    ("name", |process, _| quoted(&process.name)),
    ("resident_bytes", |process, _| process.resident_bytes.to_string()),
    ("protected_bytes", |process, _| process.protected_bytes.to_string()),
    ("weight", |process, _| process.weight.to_string()),
    ("in_use_bytes", |process, _| process.in_use_bytes.to_string()),
    ("pages_taken", |process, _| process.pages_taken.to_string()),
    ("pages_came_back", |process, _| process.pages_came_back.to_string()),
    ("pages_came_back_soon", |process, _| process.pages_came_back_soon.to_string()),
    ("some_avg10", |process, _| process.some.avg10.to_string()),
    ("some_total_us", |process, _| process.some.total_us.to_string()),
    ("full_avg10", |process, _| process.full.avg10.to_string()),
    ("full_total_us", |process, _| process.full.total_us.to_string()),
    ("taken_per_second", |_, rates| rates.map_or_else(String::new, |rates| decimal(rates.taken_per_second))),
    ("back_per_second", |_, rates| rates.map_or_else(String::new, |rates| decimal(rates.back_per_second))),
    ("soon", |_, rates| rates.and_then(|rates| rates.soon).map_or_else(String::new, decimal)),
];

fn print(recording: &mut Recording, table: Table, out: &mut impl Write) -> Result<(), Failure> {
    match table {
        Table::Json => {
            let mut separator = "[\n";
            each(recording, |now| {
                let Moment { sample: Sample { at_seconds, stat }, rates } = now;
                let element = Element { at_seconds: *at_seconds, rates, stat };
                let text = serde_json::to_string(&element).expect("it has nothing that JSON cannot say");
                write!(out, "{separator}{text}")?;
                separator = ",\n";
                Ok(())
            })?;
            writeln!(out, "\n]").map_err(Failure::Write)
        }
        Table::Run => {
            // A run names the same counters all the time.
            let first = recording.sample(0).map_err(Failure::Read)?;
            let counters: Vec<&String> = first.stat.counters.keys().collect();
            let names = RUN.iter().map(|(name, _)| *name).chain(counters.iter().map(|name| name.as_str()));
            writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?;
            each(recording, |now| {
                let counter = |name: &&String| {
                    now.sample.stat.counters.get(*name).map_or_else(String::new, u64::to_string)
                };
                let cells = RUN.iter().map(|(_, cell)| cell(now)).chain(counters.iter().map(counter));
                writeln!(out, "{}", cells.collect::<Vec<_>>().join(","))
            })
        }
        Table::Processes => {
            let names = PROCESS.iter().map(|(name, _)| *name);
            writeln!(out, "at_seconds,{}", names.collect::<Vec<_>>().join(","))?;
            each(recording, |now| {
                for process in &now.sample.stat.processes {
                    let rates = now.rates.and_then(|rates| rates.processes.get(&process.pid));
                    let cells = PROCESS.iter().map(|(_, cell)| cell(process, rates));
                    let cells = cells.collect::<Vec<_>>().join(",");
                    writeln!(out, "{},{cells}", decimal(now.sample.at_seconds))?;
                }
                Ok(())
            })
        }
    }
}

/// Goes through all samples.
fn each(
    recording: &mut Recording,
    mut print: impl FnMut(Moment<'_>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut before: Option<Sample> = None;
    for index in 0..recording.count() {
        let sample = recording.sample(index).map_err(Failure::Read)?;
        let rates = before.as_ref().and_then(|before| Rates::between(before, &sample));
        print(Moment { sample: &sample, rates: rates.as_ref() })?;
        before = Some(sample);
    }
    Ok(())
}

fn decimal(value: f64) -> String {
    format!("{value:.3}")
}

fn rate(now: Moment<'_>, value: fn(&Rates) -> Option<f64>) -> String {
    now.rates.and_then(value).map_or_else(String::new, decimal)
}

/// Of the whole run; empty if it does not say it.
fn psi(now: Moment<'_>, value: fn(Pressure) -> String) -> String {
    now.sample.stat.pressure.map_or_else(String::new, value)
}

fn quantile(now: Moment<'_>, value: fn(&Rates) -> Option<u64>) -> String {
    now.rates.and_then(value).map_or_else(String::new, |ns| ns.to_string())
}

/// As RFC 4180 has it, where a comma would be taken for an end.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::Scratch;

    fn printed(name: &str, table: Table) -> String {
        let scratch = Scratch::recorded(name, [1, 3]);
        let mut out = Vec::new();
        print(&mut Recording::open(&scratch.0).expect("it is one"), table, &mut out).expect("it is printed");
        String::from_utf8(out).expect("it is text")
    }

    /// The cells of a row by the names of their columns.
    fn cell<'a>(text: &'a str, row: usize, name: &str) -> &'a str {
        let column = text.lines().next().and_then(|names| names.split(',').position(|one| one == name));
        let line = text.lines().nth(row + 1).expect("there is such a row");
        line.split(',').nth(column.expect("there is such a column")).expect("rows are as long as the names")
    }

    #[test]
    fn a_table_has_a_row_for_each_sample() {
        let text = printed("dump-run", Table::Run);
        assert_eq!(text.lines().count(), 3, "{text}");
        let widths: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(widths, [37; 3]);
        assert_eq!((cell(&text, 0, "uptime_seconds"), cell(&text, 1, "uptime_seconds")), ("1.000", "3.000"));
        assert_eq!((cell(&text, 0, "some"), cell(&text, 1, "some")), ("", "0.040"));
        assert_eq!((cell(&text, 1, "some_total_us"), cell(&text, 1, "full_total_us")), ("90000", "45000"));
        assert_eq!((cell(&text, 0, "zswpout"), cell(&text, 1, "zswpout")), ("5000", "15000"));
        assert_eq!(cell(&text, 1, "fault_p99_ns"), "131071");
        assert_eq!(cell(&text, 1, "compression_ratio"), "3.000");
    }

    #[test]
    fn a_table_of_processes_has_a_row_for_each_of_them() {
        let text = printed("dump-processes", Table::Processes);
        assert_eq!(text.lines().count(), 7, "{text}");
        assert_eq!((cell(&text, 1, "name"), cell(&text, 1, "back_per_second")), ("worker-1", ""));
        assert_eq!((cell(&text, 4, "name"), cell(&text, 4, "back_per_second")), ("worker-1", "30.000"));
    }

    #[test]
    fn json_has_what_was_recorded_and_what_happened() {
        let list: serde_json::Value =
            serde_json::from_str(&printed("dump-json", Table::Json)).expect("it is JSON");
        assert!(list[0]["rates"].is_null() && list[2].is_null());
        assert_eq!(list[1]["rates"]["sources"]["pool"]["per_second"], 1000.0);
        assert_eq!(list[1]["stat"]["processes"][2]["name"], "worker-2");
    }

    /// As versions wrote it that said nothing of the run as a whole.
    #[test]
    fn what_was_recorded_before_is_shown_with_its_processes_added() {
        let scratch = Scratch::new("dump-older");
        let sample = |second: u32, waited: f64| {
            format!(
                r#"{{"at_seconds":{second},"stat":{{"pid":812,"uptime_seconds":{second},"waits":
                {{"some_seconds":{waited},"full_seconds":{waited}}},"faults":[{{"source":"pool","count":{second},
                "p50_ns":1023,"p99_ns":1023,"max_ns":1023,"latencies":[[1023,{second}]]}}],"counters":{{}}}}}}"#
            )
            .replace('\n', "")
        };
        let lines = [
            r#"{"format":"uswap-recording","version":1}"#.to_owned(),
            sample(1, 0.5),
            sample(2, 0.75),
            sample(3, 3.5),
        ];
        std::fs::write(&scratch.0, lines.join("\n") + "\n").expect("it can be written");
        let mut out = Vec::new();
        print(&mut Recording::open(&scratch.0).expect("it is one"), Table::Run, &mut out)
            .expect("it is printed");
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!((cell(&text, 1, "some"), cell(&text, 2, "some")), ("0.250", "1.000"), "{text}");
        assert_eq!((cell(&text, 1, "some_total_us"), cell(&text, 1, "waits_some_seconds")), ("", "0.750"));
    }

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(["a b", "a,b", "a\"b"].map(quoted), ["a b", "\"a,b\"", "\"a\"\"b\""]);
    }
}
