//! What was measured: plain data, written as JSON, read by the reports.
//!
//! What must hold: every field says its unit in its name or here; a name does not change its meaning. A result is never
//! left out because it looks bad.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// Version of the JSON format.
pub const FORMAT: u32 = 1;

/// Everything of one `uswap bench`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// Where it ran.
    pub machine: Machine,
    /// The command line that does the same again.
    pub command: String,
    /// Name of the scenario.
    pub scenario: String,
    /// True RAM that every rival may use: resident and compressed together; for workloads that have no
    /// [`Workload::budget_bytes`].
    pub budget_bytes: u64,
    /// Working sets are so many times the budget.
    pub factor: f64,
    /// Runs of each rival on each workload.
    pub rounds: u32,
    /// Seed of contents, accesses and the order of runs.
    pub seed: u64,
    /// The workloads, in the order of the tables.
    pub workloads: Vec<Workload>,
    /// The rivals, in the order of the tables.
    pub rivals: Vec<RivalInfo>,
    /// One for each workload and rival.
    pub cells: Vec<Cell>,
}

impl Results {
    /// The cell of a workload and a rival, both by name.
    pub fn cell(&self, workload: &str, rival: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.workload == workload && cell.rival == rival)
    }

    /// True RAM that every rival may use for this workload.
    pub fn budget_of(&self, workload: &Workload) -> u64 {
        workload.budget_bytes.unwrap_or(self.budget_bytes)
    }

    /// Memory of this workload at its highest, in times its budget.
    pub fn factor_of(&self, workload: &Workload) -> f64 {
        let own = workload.data_bytes.map(|bytes| bytes as f64 / self.budget_of(workload) as f64);
        own.filter(|factor| factor.is_finite()).unwrap_or(self.factor)
    }
}

/// The machine and its state.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the processor.
    pub cpu: String,
    /// Processors that may be used.
    pub cpus: u32,
    /// RAM of the machine.
    pub ram_bytes: u64,
    /// Directory and file system of the swap files.
    pub swap_place: String,
    /// Date, as in 2026-11-22.
    pub date: String,
    /// Version of uswap.
    pub uswap_version: String,
    /// Commit it was built from, if known.
    pub commit: Option<String>,
    /// Spread of a fixed computation repeated before the first run: (third quartile - first quartile) / median.
    pub noise: f64,
    /// Settings of the kernel that hold during the bench, name and value.
    pub settings: BTreeMap<String, String>,
}

/// One kind of work.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Its name: `seqscan`, `pmbench-zipf-2`.
    pub name: String,
    /// What it does and what its memory holds, one line.
    pub title: String,
    /// The figure that it is judged by, a key of [`Run::figures`]; `wall_s` is there for every workload.
    pub main_figure: String,
    /// Unit of that figure: `MB/s`, `s`.
    pub unit: String,
    /// Whether more of it is better.
    pub better: Better,
    /// True RAM that every rival may use for it; none: [`Results::budget_bytes`].
    #[serde(default)]
    pub budget_bytes: Option<u64>,
    /// Memory at its highest, as it was asked for; none: [`Results::factor`] times the budget.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    /// For a program of the user: its first run, without any limit. Results of others are compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<Unlimited>,
}

/// The run of a program without any limit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Unlimited {
    /// How it ended and what it printed, in words: exit code and hash of standard output.
    pub result: String,
    /// How long it took.
    pub wall_s: f64,
    /// Memory at its highest.
    pub peak_bytes: u64,
}

/// Which values of a figure are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Throughput.
    #[default]
    Higher,
    /// Times.
    Lower,
}

/// One way to swap.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RivalInfo {
    /// Its name: `zram-lz4`, `uswap`.
    pub name: String,
    /// How it was set up, one line.
    pub title: String,
}

/// One rival on one workload.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cell {
    /// [`Workload::name`].
    pub workload: String,
    /// [`RivalInfo::name`].
    pub rival: String,
    /// Limit of the memory cgroup at which its true RAM is the budget; none for `none` and `uswap`.
    pub limit_bytes: Option<u64>,
    /// Runs that it took to find the limit.
    pub search_runs: u32,
    /// Why there are no runs.
    pub left_out: Option<String>,
    /// The measured runs, in order of rounds.
    pub runs: Vec<Run>,
}

/// One run of a workload.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Round, from 0.
    pub round: u32,
    /// Place in the order of all runs of the bench.
    pub position: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// What the program printed, and `wall_s`. One that is no finite number is null in JSON and not there when it is
    /// read again.
    #[serde(deserialize_with = "without_nulls")]
    pub figures: BTreeMap<String, f64>,
    /// Checksum of its result, or [`Unlimited::result`] of a program; the same for all rivals.
    pub checksum: Option<String>,
    /// Processor seconds of the program's processes, uswap's engine threads inside them included.
    pub cpu_program_s: f64,
    /// Processor seconds of the whole machine meanwhile: kernel threads too, and whatever else ran.
    pub cpu_machine_s: f64,
    /// Memory at its highest.
    pub memory: Memory,
    /// Memory over time, at most 200 points.
    pub memory_over_time: Vec<MemoryAt>,
    /// Bytes read from disks.
    pub disk_read_bytes: u64,
    /// Bytes written to disks.
    pub disk_written_bytes: u64,
    /// Major faults of the kernel, or faults that uswap served.
    pub faults: u64,
    /// Latency of single accesses, if the workload measures it: upper end of each bucket in ns, and how many.
    pub latency: Vec<(u64, u64)>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "how", content = "detail")]
pub enum Outcome {
    /// With the right result.
    #[default]
    Done,
    /// The kernel killed it for want of memory.
    Killed,
    /// It did not end in time.
    TimedOut,
    /// It failed, or its result was wrong; with what it said.
    Failed(String),
}

/// Bytes of RAM at one moment, or at the highest.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Anonymous memory of the processes.
    pub resident_bytes: u64,
    /// Compressed pages: the zram device, the zswap pool, or uswap's pool.
    pub compressed_bytes: u64,
    /// uswap's own tables, threads and supervisor; 0 for the kernel, whose own are not counted.
    pub own_bytes: u64,
    /// The three at the moment when their sum was highest.
    pub sum_bytes: u64,
}

/// Memory at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryAt {
    /// Since the start of the run.
    pub ms: u64,
    /// Anonymous memory.
    pub resident_bytes: u64,
    /// Compressed pages and, for uswap, its own memory.
    pub compressed_bytes: u64,
}

fn without_nulls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let figures = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    Ok(figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}
