//! The list of runs, as `uswap ps` shows it.

use uswap_control::stat::RunStat;

use super::empty;
use super::pen::Pen;
use crate::looks::Thing;
use crate::model::Model;
use crate::text;
use uswap_control::human;
use uswap_control::users::Users;

const TITLES: [&str; 12] =
    ["PID", "USER", "RAM", "USED", "RESIDENT", "POOL", "SWAP", "PROCS", "WAITS", "STATE", "TIME", "PROGRAM"];

/// Columns that begin at the same place; others end there.
const LEFT: [&str; 3] = ["USER", "STATE", "PROGRAM"];

/// Columns that are left out where there is no room for all, the first one first.
const GO_FIRST: [&str; 4] = ["RESIDENT", "POOL", "PROCS", "USER"];

/// Draws the list from the line of its header to the line before `end`.
pub fn draw(pen: &mut Pen<'_>, model: &Model, users: &Users, header: u16, end: u16) {
    if header >= end {
        return;
    }
    let mut rows = vec![(TITLES.map(str::to_owned), false)];
    rows.extend(model.runs().map(|(run, is_selected)| (row(run, users), is_selected)));
    let width = |column: usize| rows.iter().map(|(row, _)| row[column].chars().count()).max().unwrap_or(0);
    let mut columns: Vec<(usize, usize)> = (0..TITLES.len()).map(|column| (column, width(column))).collect();
    for title in GO_FIRST {
        if columns.iter().map(|(_, width)| width + 1).sum::<usize>() > usize::from(pen.width()) {
            columns.retain(|(column, _)| TITLES[*column] != title);
        }
    }
    if rows.len() == 1 {
        empty(pen, header + 1, end, "no run of this user is under way");
    }
    for (y, (row, is_selected)) in (header..end).zip(&rows) {
        let cells = columns.iter().map(|&(column, width)| match LEFT.contains(&TITLES[column]) {
            true => format!("{:<width$}", row[column]),
            false => format!("{:>width$}", row[column]),
        });
        pen.text(1, y, &cells.collect::<Vec<_>>().join(" "), Thing::Plain);
        if y == header {
            pen.paint(0, y, pen.width(), Thing::Header);
        } else if *is_selected {
            pen.paint(0, y, pen.width(), Thing::Selected);
        }
    }
}

fn row(run: &RunStat, users: &Users) -> [String; TITLES.len()] {
    let waits = run.processes.iter().map(|process| process.some.avg10).fold(0.0, f64::max);
    [
        run.pid.to_string(),
        users.name(run.uid),
        text::size(run.ram_bytes),
        text::size(run.used_bytes),
        text::size(run.resident_bytes),
        text::size(run.pool_bytes),
        text::size(run.swap_file_bytes),
        (run.processes.len() + run.more_processes).to_string(),
        format!("{waits:.0} %"),
        run.state.clone(),
        human::duration(run.uptime_seconds),
        run.program.clone(),
    ]
}
