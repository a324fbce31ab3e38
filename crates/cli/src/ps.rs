//! `uswap ps`: the runs that are under way.

use std::time::Duration;

use uswap_control::stat::RunStat;
use uswap_control::users::Users;
use uswap_control::{runs, stat_of};

use crate::args::PsArguments;
use crate::control::exit_code;
use crate::human;
use crate::message::{say, write_stdout};

/// A run that is stopped does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

const TITLES: [&str; 12] =
    ["PID", "USER", "RAM", "USED", "RESIDENT", "POOL", "SWAP", "PROCS", "WAITS", "STATE", "TIME", "PROGRAM"];

/// Columns that begin at the same place; others end there.
const LEFT: [&str; 3] = ["USER", "STATE", "PROGRAM"];

/// `uswap ps`; the exit code.
pub fn ps(arguments: &PsArguments) -> i32 {
    exit_code(list(arguments))
}

fn list(arguments: &PsArguments) -> Result<(), String> {
    let pids = runs::of_this_user()
        .map_err(|error| format!("runs cannot be looked for ({error}): is /proc mounted?"))?;
    let mut stats = Vec::new();
    for pid in pids {
        match stat_of(pid, Some(PATIENCE)) {
            Ok(stat) => stats.push(RunStat { pid, ..stat }),
            // It may have ended since.
            Err(why) if std::fs::exists(format!("/proc/{pid}")).unwrap_or(true) => say(format_args!("{why}")),
            Err(_) => (),
        }
    }
    let text = match arguments.json {
        true => {
            let json = serde_json::to_string(&stats);
            format!("{}\n", json.expect("it has nothing that JSON cannot say"))
        }
        false => table(&stats, &Users::of_this_machine()),
    };
    match write_stdout(&text) {
        true => Ok(()),
        false => Err("the list could not be written".to_owned()),
    }
}

fn table(stats: &[RunStat], users: &Users) -> String {
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(stats.iter().map(|stat| row(stat, users)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells =
            row.iter().zip(&widths).zip(TITLES).map(|((cell, width), title)| match LEFT.contains(&title) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(stat: &RunStat, users: &Users) -> [String; TITLES.len()] {
    let waits = stat.processes.iter().map(|process| process.some.avg10).fold(0.0, f64::max);
    [
        stat.pid.to_string(),
        users.name(stat.uid),
        human::bytes(stat.ram_bytes),
        human::bytes(stat.used_bytes),
        human::bytes(stat.resident_bytes),
        human::bytes(stat.pool_bytes),
        human::bytes(stat.swap_file_bytes),
        (stat.processes.len() + stat.more_processes).to_string(),
        format!("{waits:.0} %"),
        stat.state.clone(),
        human::duration(stat.uptime_seconds),
        stat.program.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_control::stat::{ProcessStat, Psi};

    #[test]
    fn each_run_has_a_line_and_columns_stand_under_each_other() {
        let process = |avg10| ProcessStat { some: Psi { avg10, ..Psi::default() }, ..ProcessStat::default() };
        let stats = [
            RunStat {
                pid: 812,
                uid: 1000,
                program: "sort".to_owned(),
                state: "running".to_owned(),
                uptime_seconds: 75.9,
                ram_bytes: 512 << 20,
                used_bytes: 500 << 20,
                resident_bytes: 300 << 20,
                pool_bytes: 150 << 20,
                swap_file_bytes: 3 << 30,
                processes: vec![process(1.0), process(34.4)],
                more_processes: 1,
                ..RunStat::default()
            },
            RunStat { pid: 9, uid: 7, program: "redis-server".to_owned(), ..RunStat::default() },
        ];
        let text =
            table(&stats, &Users::parse("root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/:/bin/sh\nbroken\n"));
        assert_eq!(
            text,
            "PID  USER      RAM     USED  RESIDENT     POOL   SWAP  PROCS  WAITS  STATE     TIME  PROGRAM\n\
             812  ada   512 MiB  500 MiB   300 MiB  150 MiB  3 GiB      3   34 %  running  01:15  sort\n  \
             9  7         0 B      0 B       0 B      0 B    0 B      0    0 %           00:00  redis-server\n"
        );
    }
}
