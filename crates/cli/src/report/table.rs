//! The closing table on stderr: short, one idea a line, only lines that have something to say.

use std::fmt::Write as _;

use uswap_supervisor::report::{ProgramUse, RunReport, Unmanaged};

use crate::human;

pub(super) fn format(report: &RunReport) -> String {
    let mut lines = Lines(String::new());
    lines.head(report);
    lines.memory(report);
    lines.pages(report);
    lines.faults(report);
    lines.processes(report);
    for warning in &report.warnings {
        lines.add("warning", warning);
    }
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, label: &str, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "  {label:<11} {text}");
    }

    fn head(&mut self, report: &RunReport) {
        let _ = writeln!(
            self.0,
            "uswap: budget {}, {:.1} s, {:.1} s of CPU for uswap",
            human::bytes(report.ram_bytes),
            report.wall_seconds,
            report.engine_cpu_seconds
        );
    }

    fn memory(&mut self, report: &RunReport) {
        let mut text = format!(
            "peak {} ({} of the budget): resident {}{}, pool {}, uswap {}",
            human::bytes(report.used_peak_bytes),
            human::percent(report.used_peak_bytes, report.ram_bytes),
            human::bytes(report.resident_peak_bytes),
            match report.shared_peak_bytes {
                0 => String::new(),
                bytes => format!(", shared {}", human::bytes(bytes)),
            },
            human::bytes(report.pool_peak_bytes),
            human::bytes(report.engine_peak_bytes),
        );
        if report.over_budget_seconds > 0.0 {
            let _ = write!(text, "; over the budget for {:.2} s", report.over_budget_seconds);
        }
        self.add("memory", &text);
        self.swap_files(report);
        if report.compressed_bytes_out > 0 {
            let hundredths =
                u128::from(report.compressed_bytes_in) * 100 / u128::from(report.compressed_bytes_out);
            self.add(
                "compression",
                &format!(
                    "{}.{:02} to 1 ({} to {})",
                    hundredths / 100,
                    hundredths % 100,
                    human::bytes(report.compressed_bytes_in),
                    human::bytes(report.compressed_bytes_out)
                ),
            );
        }
    }

    fn swap_files(&mut self, report: &RunReport) {
        if report.swap_file_peak_bytes == 0 {
            return;
        }
        let peak = human::bytes(report.swap_file_peak_bytes);
        if report.swap_files.len() < 2 {
            return self.add("swap file", &format!("peak {peak}"));
        }
        self.add("swap files", &format!("peak {peak}"));
        for file in &report.swap_files {
            let line = format!(
                "{}: peak {} of {}, {} written, priority {}, {}",
                file.directory,
                human::bytes(file.peak_bytes),
                human::bytes(file.bytes_max),
                human::bytes(file.written_bytes),
                file.priority,
                file.kind
            );
            self.add("", &line);
        }
    }

    fn pages(&mut self, report: &RunReport) {
        let counts = [
            ("compressed", report.pages_compressed),
            ("same-filled", report.pages_same_filled),
            ("unchanged", report.pages_unchanged),
            ("just gone past", report.pages_dropped_behind),
            ("incompressible", report.pages_incompressible),
            ("written", report.pages_written),
            ("read", report.pages_read),
            ("read ahead", report.pages_read_ahead),
            ("zero-filled", report.pages_zero_filled),
        ];
        let seen: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{} {name}", human::count(*count)))
            .collect();
        match seen.chunks(5).collect::<Vec<_>>().as_slice() {
            [] => self.add("pages", &format!("none left RAM: {}", why_none_left(report))),
            chunks => {
                for (index, chunk) in chunks.iter().enumerate() {
                    self.add(if index == 0 { "pages" } else { "" }, &chunk.join(", "));
                }
            }
        }
    }

    fn faults(&mut self, report: &RunReport) {
        let seen: Vec<_> = report.faults.iter().filter(|kind| kind.count > 0).collect();
        if !seen.is_empty() {
            self.add(
                "faults",
                &format!(
                    "{:<12} {:>13} {:>9} {:>9} {:>9} {:>9}",
                    "from", "count", "mean", "p50", "p99", "max"
                ),
            );
        }
        for kind in seen {
            let row = format!(
                "{:<12} {:>13} {:>9} {:>9} {:>9} {:>9}",
                kind.name,
                human::count(kind.count),
                human::nanoseconds(kind.total_ns / kind.count),
                human::nanoseconds(kind.p50_ns),
                human::nanoseconds(kind.p99_ns),
                human::nanoseconds(kind.max_ns)
            );
            self.add("", &row);
        }
        if report.stall_ns > 0 {
            self.add("stalled", &format!("{}, all threads added", human::nanoseconds(report.stall_ns)));
        }
    }

    fn processes(&mut self, report: &RunReport) {
        let alone: u64 = report.unmanaged.iter().map(|process| process.processes.max(1)).sum();
        let managed = human::count(report.processes_managed);
        let tail = if alone == 0 { String::new() } else { format!(", {alone} left alone") };
        self.add("processes", &format!("{managed} managed{tail}"));
        for program in &report.programs {
            self.program(program);
        }
        for process in &report.unmanaged {
            let more = process.processes.saturating_sub(1);
            let more = if more == 0 { String::new() } else { format!(" and {} more", human::count(more)) };
            let peak = human::bytes(process.peak_bytes);
            let Unmanaged { name, pid, reason, .. } = process;
            self.add("", &format!("{name} (pid {pid}{more}) left alone, peak {peak}: {reason}"));
        }
    }

    /// Only of those that the user said something about.
    fn program(&mut self, program: &ProgramUse) {
        let protected = (program.protected_bytes > 0)
            .then(|| format!("protected {}", human::bytes(program.protected_bytes)));
        let weight = (program.weight > 0).then(|| format!("weight {}", program.weight));
        let said: Vec<String> = protected.into_iter().chain(weight).collect();
        if !said.is_empty() {
            let line = format!(
                "{}, {}: {} pages taken, {} came back, waited {:.1} s",
                program.name,
                said.join(", "),
                human::count(program.pages_taken),
                human::count(program.pages_came_back),
                program.some_seconds
            );
            self.add("", &line);
        }
    }
}

/// Said of a run whose pages all stayed: that it fitted, only if that is true.
fn why_none_left(report: &RunReport) -> &'static str {
    if report.processes_managed == 0 {
        "no process was managed"
    } else if report.used_peak_bytes > report.ram_bytes {
        "nothing that is over the budget could be moved"
    } else if !report.unmanaged.is_empty() {
        "what uswap saw fitted, but not all processes were managed"
    } else {
        "the program fitted into its budget"
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use uswap_supervisor::report::{FaultKind, SwapFileUse};

    pub(in super::super) fn sample() -> RunReport {
        let fault = |name: &str, count, mean_ns, p50_ns, p99_ns, max_ns| FaultKind {
            name: name.to_owned(),
            count,
            total_ns: count * mean_ns,
            p50_ns,
            p99_ns,
            max_ns,
        };
        let swap_file = |directory: &str, priority, peak_bytes| SwapFileUse {
            directory: directory.to_owned(),
            kind: "solid-state".to_owned(),
            priority,
            bytes_max: 1 << 30,
            peak_bytes,
            written_bytes: 2 << 30,
        };
        RunReport {
            ram_bytes: 256 << 20,
            resident_peak_bytes: 170 << 20,
            shared_peak_bytes: 0,
            pool_peak_bytes: 71 << 20,
            engine_peak_bytes: 6 << 20,
            used_peak_bytes: 251 << 20,
            over_budget_seconds: 0.25,
            swap_file_peak_bytes: 1_610_612_736,
            swap_files: vec![swap_file("/srv/fast", 5, 1 << 30), swap_file("/srv/slow", -1, 512 << 20)],
            pages_compressed: 400_000,
            pages_same_filled: 12_345,
            pages_unchanged: 700_001,
            pages_dropped_behind: 0,
            pages_incompressible: 0,
            pages_written: 300_000,
            pages_read: 299_999,
            pages_read_ahead: 250_000,
            pages_zero_filled: 262_144,
            compressed_bytes_in: 400_000 * 4096,
            compressed_bytes_out: 400_000 * 1400,
            faults: vec![
                fault("pool", 89_012, 4_510, 4_100, 9_000, 1_200_000),
                fault("same-filled", 0, 0, 0, 0, 0),
                fault("file", 299_999, 136_100, 95_000, 820_000, 2_100_000_000),
            ],
            stall_ns: 41_250_000_000,
            processes_managed: 3,
            programs: vec![
                ProgramUse {
                    name: "redis-server".to_owned(),
                    processes: 1,
                    protected_bytes: 100 << 20,
                    weight: 200,
                    pages_taken: 1234,
                    pages_came_back: 1200,
                    pages_came_back_soon: 1000,
                    some_seconds: 0.84,
                    full_seconds: 0.5,
                },
                ProgramUse { name: "sh".to_owned(), processes: 2, ..ProgramUse::default() },
            ],
            unmanaged: vec![Unmanaged {
                pid: 71,
                name: "sudo".to_owned(),
                reason: "it is setuid (user 0)".to_owned(),
                processes: 2,
                peak_bytes: 3 << 20,
            }],
            warnings: vec!["the swap file is 90 % full".to_owned()],
            wall_seconds: 61.04,
            engine_cpu_seconds: 17.26,
            counters: std::iter::once(("pswpin".to_owned(), 5_000)).collect(),
        }
    }

    #[test]
    fn the_table_of_a_busy_run() {
        let expected = "\
uswap: budget 256 MiB, 61.0 s, 17.3 s of CPU for uswap
  memory      peak 251 MiB (98 % of the budget): resident 170 MiB, pool 71 MiB, uswap 6 MiB; over the budget for 0.25 s
  swap files  peak 1.5 GiB
              /srv/fast: peak 1 GiB of 1 GiB, 2 GiB written, priority 5, solid-state
              /srv/slow: peak 512 MiB of 1 GiB, 2 GiB written, priority -1, solid-state
  compression 2.92 to 1 (1.5 GiB to 534.1 MiB)
  pages       400,000 compressed, 12,345 same-filled, 700,001 unchanged, 300,000 written, 299,999 read
              250,000 read ahead, 262,144 zero-filled
  faults      from                 count      mean       p50       p99       max
              pool                89,012    4.5 us    4.1 us    9.0 us    1.2 ms
              file               299,999  136.1 us   95.0 us  820.0 us     2.1 s
  stalled     41.2 s, all threads added
  processes   3 managed, 2 left alone
              redis-server, protected 100 MiB, weight 200: 1,234 pages taken, 1,200 came back, waited 0.8 s
              sudo (pid 71 and 1 more) left alone, peak 3 MiB: it is setuid (user 0)
  warning     the swap file is 90 % full
";
        assert_eq!(format(&sample()), expected);
    }

    #[test]
    fn the_table_of_a_run_without_pressure_is_short() {
        let report = RunReport {
            ram_bytes: 1 << 30,
            resident_peak_bytes: 10 << 20,
            used_peak_bytes: 12 << 20,
            engine_peak_bytes: 2 << 20,
            processes_managed: 1,
            wall_seconds: 0.52,
            ..RunReport::default()
        };
        let expected = "\
uswap: budget 1 GiB, 0.5 s, 0.0 s of CPU for uswap
  memory      peak 12 MiB (1 % of the budget): resident 10 MiB, pool 0 B, uswap 2 MiB
  pages       none left RAM: the program fitted into its budget
  processes   1 managed
";
        assert_eq!(format(&report), expected);
    }

    #[test]
    fn only_a_run_that_was_seen_whole_and_within_its_budget_has_fitted() {
        let fitting = RunReport {
            ram_bytes: 64 << 20,
            used_peak_bytes: 64 << 20,
            processes_managed: 1,
            ..RunReport::default()
        };
        assert!(format(&fitting).contains("fitted into its budget"));
        let over =
            RunReport { used_peak_bytes: (64 << 20) + 1, shared_peak_bytes: 50 << 20, ..fitting.clone() };
        let table = format(&over);
        assert!(!table.contains("fitted into its budget"), "{table}");
        assert!(table.contains("none left RAM: nothing that is over the budget could be moved"), "{table}");
        assert!(table.contains("resident 0 B, shared 50 MiB, pool 0 B"), "{table}");
        let unmanaged = RunReport { unmanaged: sample().unmanaged, ..fitting };
        let table = format(&unmanaged);
        assert!(!table.contains("fitted into its budget"), "{table}");
        assert!(table.contains("not all processes were managed"), "{table}");
    }

    #[test]
    fn a_run_that_managed_nothing_does_not_claim_to_have_kept_the_budget() {
        let table = format(&RunReport { ram_bytes: 1 << 30, ..RunReport::default() });
        assert!(table.contains("no process was managed"), "{table}");
    }
}
