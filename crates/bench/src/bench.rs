//! Prepares, searches limits, runs everything in mixed order.
//!
//! What must hold: all that is changed is in [`Undo`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::args::BenchArguments;
use crate::machine;
use crate::one_run::{Job, Judge, one_run};
use crate::order::order;
use crate::plan::Plan;
use crate::results::{Cell, FORMAT, Machine, Outcome, Results, RivalInfo, Run, Workload};
use crate::rivals::{self, Counting, Rival, Session, Setting};
use crate::search::{self, Known, Next, Try};
use crate::system::settings::KernelSetting;
use crate::system::undo::{Scope, Step, Undo};
use crate::workloads::{Launch, Prepared, WorkloadSpec};

/// Why a program is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its figures count.
    Measure,
    /// Only its memory counts.
    Search,
}

/// Where a bench works: its directory, and settings of the kernel that hold meanwhile.
pub struct Ground<'a> {
    undo: &'a Undo,
    setting: Setting,
    _scope: Scope,
    runs_started: u32,
}

/// A bench that goes on.
pub struct Bench<'a> {
    plan: &'a Plan,
    ground: Ground<'a>,
    results: Results,
    /// For each workload what to run, or why it cannot be.
    prepared: Vec<Result<Launch, String>>,
}

impl<'a> Ground<'a> {
    /// Makes the directory, and sets what must be the same for all rivals.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn prepare(
        arguments: &BenchArguments,
        undo: &'a Undo,
        counting: Counting,
    ) -> anyhow::Result<Ground<'a>> {
        let swap_dir = std::path::absolute(&arguments.swap_dir)?;
        let mut scope = undo.scope();
        let work_dir = work_dir(&mut scope, &swap_dir)?;
        let uswap = std::env::current_exe().context("uswap cannot find its own file: is /proc mounted?")?;
        // Large pages would be compared, not ways to swap: none of the rivals stores them whole. A user who may not
        // set it has them as they are, and the results say how.
        if rustix::process::geteuid().is_root() {
            KernelSetting::HugePages.set_if_there(&mut scope, "never")?;
        }
        let setting = Setting {
            budget_bytes: 0,
            data_bytes: 0,
            swap_dir,
            uswap,
            work_dir,
            counting,
            keep_statistics_fresh: !arguments.raw,
        };
        Ok(Ground { undo, setting, _scope: scope, runs_started: 0 })
    }

    /// How this machine is now.
    fn machine(&self) -> Machine {
        let held = [KernelSetting::HugePages, KernelSetting::PageCluster];
        let values = held.into_iter().filter_map(|held| Some((held.name().to_owned(), held.read()?)));
        Machine { settings: values.collect(), ..machine::look(&self.setting.swap_dir) }
    }

    /// Sets a rival up for a workload.
    fn session(&self, rival: &Rival, spec: &WorkloadSpec) -> anyhow::Result<Box<dyn Session>> {
        let setting =
            Setting { budget_bytes: spec.budget_bytes, data_bytes: spec.bytes, ..self.setting.clone() };
        rivals::prepare(rival, &setting, self.undo)
    }

    /// Runs a program that is set up to its end.
    fn run(
        &mut self,
        session: &mut dyn Session,
        launch: Launch,
        timeout: Duration,
        judge: &Judge,
    ) -> anyhow::Result<Run> {
        self.runs_started += 1;
        let output = self.setting.work_dir.join(format!("run-{}", self.runs_started));
        one_run(session, &Job { launch, timeout, output }, judge, self.undo)
    }

    /// Runs a program without any limit.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run_unlimited(&mut self, launch: &Launch, timeout: Duration) -> anyhow::Result<Run> {
        let mut session = rivals::prepare(&Rival::None, &self.setting, self.undo)?;
        self.run(session.as_mut(), launch.clone(), timeout, &Judge::Program { expected: None })
    }
}

impl<'a> Bench<'a> {
    /// Ready to begin; `command` does the same again.
    pub fn new(ground: Ground<'a>, plan: &'a Plan, command: String) -> Bench<'a> {
        let workloads = plan.workloads.iter().map(WorkloadSpec::info).collect::<Vec<Workload>>();
        let rivals = plan.rivals.iter().map(|rival| RivalInfo { name: rival.name(), title: rival.title() });
        let results = Results {
            format: FORMAT,
            machine: ground.machine(),
            command,
            scenario: format!("{} ({})", plan.scenario.name, plan.scenario.title),
            budget_bytes: plan.scenario.budget_bytes,
            factor: plan.scenario.factor,
            rounds: plan.scenario.rounds,
            seed: plan.scenario.seed,
            workloads,
            rivals: rivals.collect(),
            cells: Vec::new(),
        };
        Bench { plan, ground, results, prepared: Vec::new() }
    }

    /// Prepares, searches limits, runs everything in mixed order.
    ///
    /// # Errors
    /// If something cannot be set up. What a program does is no error.
    pub fn run(mut self) -> anyhow::Result<Results> {
        for spec in &self.plan.workloads {
            say(&format!("preparing {}", spec.name));
            let prepared = match spec.prepare(&self.ground.setting.work_dir, &self.ground.setting.uswap) {
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
            // Of a program one sees what can be seen here; a scenario is for machines that have all that it names.
            (_, rival) if spec.unlimited().is_some() => {
                self.ground.session(rival, spec).err().map(|error| format!("{error:#}"))
            }
            _ => None,
        };
        if let Some(why) = left_out.as_ref().filter(|_| spec.unlimited().is_some()) {
            say(&format!("{} is left out: {why}", cell.rival));
        }
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
        let mut session = self
            .ground
            .session(&self.plan.rivals[rival], spec)
            .with_context(|| format!("rival '{}' cannot be set up", self.plan.rivals[rival].name()))?;
        if let Some(limit) = limit {
            session.set_limit(limit)?;
        }
        let title = &mut self.results.rivals[rival].title;
        if let Some(remark) = session.remark().filter(|remark| !title.contains(remark.as_str())) {
            *title += &format!("; {remark}");
        }
        let mut timeout = Duration::from_secs(self.plan.scenario.timeout_s(spec.name));
        let mut judge = judge(spec);
        if purpose == Purpose::Search {
            launch = spec.for_search(&launch);
            timeout /= search::TIMEOUT_PART;
            // A wrong result says nothing about memory.
            judge = judge.of_anything();
        }
        self.ground.run(session.as_mut(), launch, timeout, &judge)
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

/// How runs of this workload are judged.
fn judge(spec: &WorkloadSpec) -> Judge {
    match spec.unlimited() {
        None => Judge::Workload,
        Some(unlimited) => Judge::Program { expected: Some(unlimited.result.clone()) },
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

/// Says how the bench goes on.
pub fn say(line: &str) {
    eprintln!("uswap bench: {line}");
}

/// Runs whose result differs from that of most others are wrong.
fn check_results(results: &mut Results) {
    // Runs of a program were judged one by one.
    for workload in results.workloads.iter().filter(|workload| workload.unlimited.is_none()) {
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
