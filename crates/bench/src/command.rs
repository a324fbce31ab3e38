//! `uswap bench`: prepares, searches limits, runs everything in mixed order, reports.
//!
//! What must hold: all that is changed is in [`Undo`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::args::{BenchArguments, BenchCommand};
use crate::one_run::{Job, one_run};
use crate::order::order;
use crate::plan::Plan;
use crate::results::{Cell, FORMAT, Outcome, Results, RivalInfo, Run, Workload};
use crate::rivals::{self, Counting, Rival, Setting};
use crate::search::{self, Known, Next, Try};
use crate::system::settings::{self, KernelSetting};
use crate::system::signals;
use crate::system::undo::{Scope, Step, Undo};
use crate::workloads::{Launch, Prepared, WorkloadSpec};
use crate::{machine, report};

/// Runs the command; the exit code.
pub fn bench(arguments: &BenchArguments) -> i32 {
    let done = match &arguments.command {
        Some(BenchCommand::Compare { before, after }) => compare(before, after),
        Some(BenchCommand::Join { parts, out }) => {
            report::join::files(parts).and_then(|results| write(&results, out))
        }
        None => measure(arguments),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("uswap bench: {error:#}");
            1
        }
    }
}

fn compare(before: &Path, after: &Path) -> anyhow::Result<()> {
    print!("{}", report::compare::files(before, after)?);
    Ok(())
}

fn measure(arguments: &BenchArguments) -> anyhow::Result<()> {
    let plan = Plan::new(arguments)?;
    settings::check_machine()?;
    let undo = Undo::new();
    signals::undo_at_the_end_of_the_process(&undo)?;
    let results = Bench::new(arguments, &plan, &undo).and_then(Bench::run)?;
    write(&results, &arguments.out)
}

fn write(results: &Results, out: &Path) -> anyhow::Result<()> {
    for path in report::write_all(results, out)? {
        eprintln!("uswap bench: wrote {}", path.display());
    }
    print!("{}", report::table::text(results));
    Ok(())
}

/// Why a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its figures count.
    Measure,
    /// Only its memory counts.
    Search,
}

/// A bench that goes on.
struct Bench<'a> {
    plan: &'a Plan,
    undo: &'a Undo,
    setting: Setting,
    /// Settings of the kernel that hold during the bench, and its directory.
    _scope: Scope,
    results: Results,
    /// For each workload what to run, or why it cannot be.
    prepared: Vec<Result<Launch, String>>,
    runs_started: u32,
}

impl<'a> Bench<'a> {
    fn new(arguments: &BenchArguments, plan: &'a Plan, undo: &'a Undo) -> anyhow::Result<Bench<'a>> {
        let swap_dir = std::path::absolute(&arguments.swap_dir)?;
        let mut scope = undo.scope();
        let work_dir = work_dir(&mut scope, &swap_dir)?;
        let uswap = std::env::current_exe().context("uswap cannot find its own file: is /proc mounted?")?;
        let setting = Setting {
            budget_bytes: plan.scenario.budget_bytes,
            data_bytes: 0,
            swap_dir: swap_dir.clone(),
            uswap,
            work_dir,
            counting: Counting::Group,
            keep_statistics_fresh: !arguments.raw,
        };
        let mut machine = machine::look(&swap_dir);
        // Large pages would be compared, not ways to swap: none of the rivals stores them whole.
        KernelSetting::HugePages.set_if_there(&mut scope, "never")?;
        let held = [KernelSetting::HugePages, KernelSetting::PageCluster];
        machine.settings =
            held.into_iter().filter_map(|held| Some((held.name().to_owned(), held.read()?))).collect();
        let workloads = plan.workloads.iter().map(WorkloadSpec::info).collect::<Vec<Workload>>();
        let rivals = plan.rivals.iter().map(|rival| RivalInfo { name: rival.name(), title: rival.title() });
        let results = Results {
            format: FORMAT,
            machine,
            command: plan.command(arguments),
            scenario: format!("{} ({})", plan.scenario.name, plan.scenario.title),
            budget_bytes: plan.scenario.budget_bytes,
            factor: plan.scenario.factor,
            rounds: plan.scenario.rounds,
            seed: plan.scenario.seed,
            workloads,
            rivals: rivals.collect(),
            cells: Vec::new(),
        };
        Ok(Bench { plan, undo, setting, _scope: scope, results, prepared: Vec::new(), runs_started: 0 })
    }

    fn run(mut self) -> anyhow::Result<Results> {
        for spec in &self.plan.workloads {
            say(&format!("preparing {}", spec.name));
            let prepared = match spec.prepare(&self.setting.work_dir, &self.setting.uswap) {
                Ok(Prepared::Ready(launch)) => Ok(launch),
                Ok(Prepared::Missing(what)) => Err(what),
                // One that cannot be had, for example in so small a size, must not cost the others.
                Err(error) => Err(format!("{error:#}")),
            };
            if let Err(why) = &prepared {
                say(&format!("{} is left out: {why}", spec.name));
            }
            self.prepared.push(prepared);
        }
        for workload in 0..self.plan.workloads.len() {
            for rival in 0..self.plan.rivals.len() {
                let cell = self.find_limit(workload, rival)?;
                self.results.cells.push(cell);
            }
        }
        let turns = order(
            self.plan.scenario.rounds,
            self.plan.workloads.len(),
            self.plan.rivals.len(),
            self.plan.scenario.seed,
        );
        let count = turns.len();
        for (position, turn) in turns.into_iter().enumerate() {
            let index = turn.workload * self.plan.rivals.len() + turn.rival;
            if self.results.cells[index].left_out.is_some() {
                continue;
            }
            let limit = self.results.cells[index].limit_bytes;
            let mut run = self.one(turn.workload, turn.rival, limit, Purpose::Measure)?;
            (run.round, run.position) = (turn.round, position as u32);
            self.tell(position + 1, count, turn.workload, turn.rival, &run);
            self.results.cells[index].runs.push(run);
        }
        check_results(&mut self.results);
        Ok(self.results)
    }

    /// An empty cell, with the limit at which the rival's true RAM is the budget.
    fn find_limit(&mut self, workload: usize, rival: usize) -> anyhow::Result<Cell> {
        let spec = &self.plan.workloads[workload];
        let mut cell = Cell {
            workload: self.results.workloads[workload].name.clone(),
            rival: self.results.rivals[rival].name.clone(),
            ..Cell::default()
        };
        let left_out = match (&self.prepared[workload], &self.plan.rivals[rival]) {
            (Err(what), _) => Some(what.clone()),
            (_, Rival::MappedFile) if !spec.can_map_file() => {
                Some("it does not map its memory from a file".to_owned())
            }
            _ => None,
        };
        let budget_bytes = spec.budget_bytes;
        let first = search::first(spec, &self.plan.rivals[rival], &self.known_limits());
        let (None, Some(first)) = (&left_out, first) else {
            cell.left_out = left_out;
            return Ok(cell);
        };
        let mut tries = Vec::new();
        loop {
            match search::next(budget_bytes, first, &tries) {
                Next::Found(limit) => {
                    cell.limit_bytes = Some(limit);
                    cell.search_runs = tries.len() as u32;
                    return Ok(cell);
                }
                Next::Run(limit_bytes) => {
                    let run = self.one(workload, rival, Some(limit_bytes), Purpose::Search)?;
                    let sum_bytes = run.memory.sum_bytes;
                    say(&format!(
                        "limit of {} for {}: at {} MiB it uses {:.1} % of the budget, {:.1} s{}",
                        cell.rival,
                        cell.workload,
                        limit_bytes >> 20,
                        100.0 * sum_bytes as f64 / budget_bytes as f64,
                        run.figures.get("wall_s").copied().unwrap_or(0.0),
                        ending(&run.outcome),
                    ));
                    tries.push(Try::of(&run, limit_bytes, budget_bytes));
                }
            }
        }
    }

    /// The limits that were found so far.
    fn known_limits(&self) -> Vec<Known<'a>> {
        let rivals = self.plan.rivals.len();
        let found = |(index, cell): (usize, &Cell)| {
            let (spec, rival) = (&self.plan.workloads[index / rivals], &self.plan.rivals[index % rivals]);
            Some(Known { spec, rival, limit_bytes: cell.limit_bytes? })
        };
        self.results.cells.iter().enumerate().filter_map(found).collect()
    }

    fn one(
        &mut self,
        workload: usize,
        rival: usize,
        limit: Option<u64>,
        purpose: Purpose,
    ) -> anyhow::Result<Run> {
        let mut launch = self.prepared[workload].clone().map_err(anyhow::Error::msg)?;
        let spec = &self.plan.workloads[workload];
        let setting =
            Setting { budget_bytes: spec.budget_bytes, data_bytes: spec.bytes, ..self.setting.clone() };
        let mut session = rivals::prepare(&self.plan.rivals[rival], &setting, self.undo)
            .with_context(|| format!("rival '{}' cannot be set up", self.plan.rivals[rival].name()))?;
        if let Some(limit) = limit {
            session.set_limit(limit)?;
        }
        let title = &mut self.results.rivals[rival].title;
        if let Some(remark) = session.remark().filter(|remark| !title.contains(remark.as_str())) {
            *title += &format!("; {remark}");
        }
        let mut timeout = Duration::from_secs(self.plan.scenario.timeout_s(spec.name));
        if purpose == Purpose::Search {
            launch = launch.for_seconds(search::RUN_SECONDS.min(spec.seconds));
            timeout /= search::TIMEOUT_PART;
        }
        self.runs_started += 1;
        let job =
            Job { launch, timeout, output: self.setting.work_dir.join(format!("run-{}", self.runs_started)) };
        one_run(session.as_mut(), &job, self.undo)
    }

    fn tell(&self, position: usize, count: usize, workload: usize, rival: usize, run: &Run) {
        let workload = &self.results.workloads[workload];
        let figure = run.figures.get(&workload.main_figure);
        let figure = figure.map_or_else(String::new, |value| format!("{value:.1} {}", workload.unit));
        say(&format!(
            "{position}/{count} {} {}: {figure}, {:.1} s, RAM {:.1} %{}",
            workload.name,
            self.results.rivals[rival].name,
            run.figures.get("wall_s").copied().unwrap_or(0.0),
            100.0 * run.memory.sum_bytes as f64 / self.results.budget_of(workload) as f64,
            ending(&run.outcome),
        ));
    }
}

/// Nothing of a run that ended well.
fn ending(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => String::new(),
        other => format!(" {other:?}"),
    }
}

/// A directory of this bench on the disk of the swap files.
fn work_dir(scope: &mut Scope, swap_dir: &Path) -> anyhow::Result<PathBuf> {
    let path = swap_dir.join(format!("uswap-bench-{}", std::process::id()));
    let shown = path.display().to_string();
    scope.change(|| {
        fs::create_dir(&path)
            .with_context(|| format!("{shown} cannot be made: name another place with --swap-dir"))?;
        let made = path.clone();
        let removed = move || fs::remove_dir_all(&made).context("the bench's directory cannot be removed");
        Ok((path, Step::new(format!("rm -r {shown}"), removed)))
    })
}

fn say(line: &str) {
    eprintln!("uswap bench: {line}");
}

/// Runs whose result differs from that of most others are wrong.
fn check_results(results: &mut Results) {
    for workload in &results.workloads {
        let cells = || results.cells.iter().filter(|cell| cell.workload == workload.name);
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for checksum in cells().flat_map(|cell| &cell.runs).filter_map(|run| run.checksum.as_deref()) {
            *counts.entry(checksum).or_default() += 1;
        }
        let Some(right) = counts.into_iter().max_by_key(|(_, count)| *count) else { continue };
        let right = right.0.to_owned();
        for cell in results.cells.iter_mut().filter(|cell| cell.workload == workload.name) {
            for run in &mut cell.runs {
                if run.checksum.as_deref().is_some_and(|checksum| checksum != right) {
                    run.outcome = Outcome::Failed(format!(
                        "WRONG RESULT: checksum {}, others {right}",
                        run.checksum.as_deref().unwrap_or("none")
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_another_result_is_wrong() {
        let run = |checksum: &str| Run { checksum: Some(checksum.to_owned()), ..Run::default() };
        let cell = |rival: &str, runs: Vec<Run>| Cell {
            workload: "sort".to_owned(),
            rival: rival.to_owned(),
            runs,
            ..Cell::default()
        };
        let mut results = Results {
            workloads: vec![Workload { name: "sort".to_owned(), ..Workload::default() }],
            cells: vec![
                cell("none", vec![run("a"), run("a")]),
                cell("uswap", vec![run("b"), run("a"), Run::default()]),
            ],
            ..Results::default()
        };
        check_results(&mut results);
        let wrong = |run: &Run| matches!(&run.outcome, Outcome::Failed(text) if text.contains("WRONG"));
        let wrongs: Vec<bool> = results.cells.iter().flat_map(|cell| &cell.runs).map(wrong).collect();
        assert_eq!(wrongs, [false, false, true, false, false]);
    }
}
