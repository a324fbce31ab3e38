//! What happened in a run, in plain numbers: filled in by [`crate::account`], and by others while the run goes on.
//!
//! What must hold: every field says its unit in its name or here; names in JSON are the field names and do not change
//! their meaning. What a number does not know (nothing happened) is 0, an empty list, or absent. Fields that are
//! counters too ([`uswap_core::counters`] says what they count) are here for programs that know them by these names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The closing report of one run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// The budget, `--ram`; the largest, if it was changed.
    pub ram_bytes: u64,
    /// Highest sum of anonymous resident memory of all processes of the run.
    pub resident_peak_bytes: u64,
    /// Highest size of the shared memory that they have mapped.
    pub shared_peak_bytes: u64,
    /// Highest size of the pool of compressed pages.
    pub pool_peak_bytes: u64,
    /// Highest size of uswap's own memory: tables, supervisor, threads' stacks.
    pub engine_peak_bytes: u64,
    /// Highest value of resident + pool + engine at one moment: this is what the budget limits.
    pub used_peak_bytes: u64,
    /// How long that sum was above the budget.
    pub over_budget_seconds: f64,
    /// Highest size of all swap files in use together.
    pub swap_file_peak_bytes: u64,
    /// Each swap file.
    pub swap_files: Vec<SwapFileUse>,
    /// Counter `zswpout`.
    pub pages_compressed: u64,
    /// Counter `swpout_same`.
    pub pages_same_filled: u64,
    /// Counter `swpout_unchanged`.
    pub pages_unchanged: u64,
    /// Counter `drop_behind`.
    #[serde(default)]
    pub pages_dropped_behind: u64,
    /// Counter `zswp_reject_compress_poor`.
    pub pages_incompressible: u64,
    /// Counter `zswpwb`.
    pub pages_written: u64,
    /// Counter `pswpin`.
    pub pages_read: u64,
    /// Counter `swap_ra`.
    pub pages_read_ahead: u64,
    /// Counter `fault_zero`.
    pub pages_zero_filled: u64,
    /// Counter `compressed_bytes_in`.
    pub compressed_bytes_in: u64,
    /// Counter `compressed_bytes_out`.
    pub compressed_bytes_out: u64,
    /// Faults served, by kind.
    pub faults: Vec<FaultKind>,
    /// Counter `stall_ns`.
    pub stall_ns: u64,
    /// Counter `joined`.
    pub processes_managed: u64,
    /// The managed processes by name.
    #[serde(default)]
    pub programs: Vec<ProgramUse>,
    /// Processes of the tree that were left alone.
    pub unmanaged: Vec<Unmanaged>,
    /// What the user should know, one sentence each.
    pub warnings: Vec<String>,
    /// From the start of the program to the end of the run.
    pub wall_seconds: f64,
    /// CPU time of all of uswap's own threads, in every process.
    pub engine_cpu_seconds: f64,
    /// Every counter, by its name in docs/METRICS.md.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
}

/// One swap file, and how much of it was used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SwapFileUse {
    /// Where it lay.
    pub directory: String,
    /// `rotational` or `solid-state`.
    pub kind: String,
    /// Files of higher priority are filled first.
    pub priority: i16,
    /// Its largest size.
    pub bytes_max: u64,
    /// The most of it that was in use.
    pub peak_bytes: u64,
    /// What was written to it in all.
    pub written_bytes: u64,
}

/// Faults of one kind and how long they took.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FaultKind {
    /// `same-filled`, `pool`, `file`, ...: where the page came from.
    pub name: String,
    /// How many.
    pub count: u64,
    /// What all of them took together, exactly.
    #[serde(default)]
    pub total_ns: u64,
    /// Half of them took no longer than this.
    pub p50_ns: u64,
    /// 99 of 100 took no longer than this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The managed processes of one name, added up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProgramUse {
    /// As the kernel has it (`comm`, at most 15 bytes).
    pub name: String,
    /// How many there were.
    pub processes: u64,
    /// What `--protect` said; 0 for nothing.
    pub protected_bytes: u64,
    /// What `--weight` said; 0 for nothing.
    pub weight: u64,
    /// Pages that reclaim took from them.
    pub pages_taken: u64,
    /// Pages that a touch brought back.
    pub pages_came_back: u64,
    /// Of those, the ones that would still have been there if the run had had twice the RAM for its pages.
    pub pages_came_back_soon: u64,
    /// How long at least one thread of a process waited for a page, processes added.
    pub some_seconds: f64,
    /// The part of it in which none of its other threads ran, from samples.
    pub full_seconds: f64,
}

/// Processes of the tree that were left alone, of one name and for one reason.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Unmanaged {
    /// Its process id.
    pub pid: u32,
    /// Its name as the kernel has it (`comm`, at most 15 bytes).
    pub name: String,
    /// Why, as a clause: "it is statically linked, so ...".
    pub reason: String,
    /// Processes of this name with this reason; `pid` is the first of them.
    #[serde(default)]
    pub processes: u64,
    /// Most anonymous memory that one of them was seen with.
    #[serde(default)]
    pub peak_bytes: u64,
}
