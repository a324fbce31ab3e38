//! The engine's side of `uswap run`: makes the segment and the swap files, measures the tree, moves the pool to the
//! files, cleans up after the dead.
//!
//! Five threads: [`monitor`] measures and raises pressure, [`shrinker`] writes back, [`reaper`] notices processes that
//! are gone, [`commands`] does what the run is told meanwhile, [`descriptors`] hands them to processes that cannot open
//! them. What they share is in [`shared`]. The processes of the run find the segment through `USWAP_RUN` in their
//! environment.

mod account;
mod commands;
mod counting;
mod descriptors;
mod device;
mod files;
mod full;
mod holders;
mod limits;
mod locked;
mod monitor;
mod pool_share;
mod pressure;
mod processes;
mod reaper;
mod shared;
mod shares;
mod shrinker;
mod stat;
mod stop;
mod tree;
mod unmanaged;
mod why;

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use descriptors::is_under_way;
pub use files::SwapFileOptions;
use shared::Shared;
use uswap_core::segment::Notice;

use crate::named::Rule;
use crate::report::{RunReport, SwapFileUse};

/// What the supervisor is told.
pub struct Options {
    /// The budget.
    pub ram_bytes: u64,
    /// The part of it that compressed pages may take.
    pub pool: PoolSize,
    /// The swap files, as they were named.
    pub swap_files: Vec<SwapFileOptions>,
    /// What the file systems of them keep free.
    pub swap_min_free_bytes: u64,
    /// How much may be written to all of them in a day; `None`: as much as comes.
    pub swap_bytes_a_day: Option<u64>,
    /// What happens when pool and file are full.
    pub on_full: OnFull,
    /// What holds for processes by their names.
    pub rules: Vec<Rule>,
    /// Accept a swap directory in memory.
    pub allow_tmpfs: bool,
    /// Keep managing a process that changes its credentials.
    pub keep_after_setuid: bool,
    /// The agent, as it is in `LD_PRELOAD`.
    pub agent: PathBuf,
    /// Nothing is said that is not an error.
    pub quiet: bool,
    /// How much is said while the program runs.
    pub verbosity: u8,
}

/// How much of the budget compressed pages may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolSize {
    /// Between 10 % and [`PoolSize::most`], as the program needs it, but never so much that its pages have no room.
    Auto,
    /// So many bytes.
    Fixed(u64),
}

impl PoolSize {
    /// The limit at the start.
    fn bytes_at_start(self, ram_bytes: u64, protected_bytes: u64) -> u64 {
        match self {
            PoolSize::Auto => (ram_bytes / 10 * 6).min(beside(ram_bytes, protected_bytes)),
            PoolSize::Fixed(bytes) => bytes,
        }
    }

    /// Between what limits it moves.
    fn bounds(self, ram_bytes: u64, protected_bytes: u64) -> RangeInclusive<u64> {
        let most = beside(ram_bytes, protected_bytes);
        match self {
            PoolSize::Auto => (ram_bytes / 10).min(most)..=PoolSize::most(ram_bytes).min(most),
            PoolSize::Fixed(bytes) => bytes..=bytes,
        }
    }

    /// The largest that pays, where pages that are only read keep their copies (docs/adr/0023).
    fn most(ram_bytes: u64) -> u64 {
        ram_bytes / 20 * 17
    }
}

/// What is protected stays out of the pool, so that has to be smaller; an eighth is for uswap and the processes that
/// nobody protects.
fn beside(ram_bytes: u64, protected_bytes: u64) -> u64 {
    ram_bytes.saturating_sub(protected_bytes).saturating_sub(ram_bytes / 8).max(ram_bytes / 20)
}

impl Options {
    /// What `--protect` asks for in all.
    pub fn protected_bytes(&self) -> u64 {
        self.rules.iter().map(|rule| rule.protected_bytes).sum()
    }
    /// The limit of the pool at the start.
    pub fn pool_bytes_at_start(&self) -> u64 {
        self.pool.bytes_at_start(self.ram_bytes, self.protected_bytes())
    }
    /// Between what limits it moves.
    pub fn pool_bounds(&self) -> RangeInclusive<u64> {
        self.pool.bounds(self.ram_bytes, self.protected_bytes())
    }
}

/// What happens when pool and file are full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFull {
    /// The run goes over its budget.
    Grow,
    /// All its processes are stopped (SIGSTOP).
    Stop,
    /// All its processes are killed.
    Kill,
}

/// What a thread of the supervisor does until the run ends.
type Task = fn(&Shared);

/// The supervisor of one run.
pub struct Supervisor {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Supervisor {
    /// Makes the segment and the swap files.
    ///
    /// # Errors
    /// Ready for the user: no userfaultfd, no room for the segment, a swap directory that cannot be used.
    pub fn start(options: Options) -> anyhow::Result<Supervisor> {
        Ok(Supervisor { shared: Arc::new(Shared::new(options)?), threads: Vec::new() })
    }

    /// The swap files.
    pub fn swap_files(&self) -> Vec<SwapFileUse> {
        account::swap_files(&self.shared)
    }

    /// Variables for the program's environment.
    pub fn environment(&self) -> [(&'static str, OsString); 1] {
        [("USWAP_RUN", self.shared.invitation())]
    }

    /// The program runs: starts the threads.
    pub fn attach(&mut self, child_pid: u32) {
        self.shared.processes.set_program(child_pid);
        let tasks: [(&str, Task); 5] = [
            ("uswap-monitor", monitor::run),
            ("uswap-shrinker", shrinker::run),
            ("uswap-reaper", reaper::run),
            ("uswap-control", commands::run),
            ("uswap-give", descriptors::run),
        ];
        for (name, task) in tasks {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(256 * 1024);
            let thread = thread.spawn(move || task(&shared)).expect("the system has room for five threads");
            self.threads.push(thread);
        }
    }

    /// Managed processes that are alive.
    pub fn live_processes(&self) -> usize {
        processes::count_live(self.shared.segment.mms(), &self.shared.memfd)
    }

    /// The user knows that the processes which are left go on without: none of them says so.
    pub fn leave_behind(&self) {
        let _no_other_is = self.shared.segment.is_first_to_say(Notice::SupervisorGone);
    }

    /// Ends the threads and reports.
    pub fn finish(self) -> RunReport {
        self.shared.end();
        for thread in self.threads {
            if thread.join().is_err() {
                self.shared.warn("a thread of the supervisor ended with an internal error");
            }
        }
        account::report(&self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control;

    fn options() -> Options {
        let dir = std::env::temp_dir();
        Options {
            ram_bytes: 64 << 20,
            pool: PoolSize::Auto,
            swap_files: vec![SwapFileOptions { dir, bytes_max: 64 << 20, priority: -1, kind: None }],
            swap_min_free_bytes: 0,
            swap_bytes_a_day: None,
            on_full: OnFull::Grow,
            rules: Vec::new(),
            allow_tmpfs: true,
            keep_after_setuid: false,
            agent: PathBuf::new(),
            quiet: true,
            verbosity: 0,
        }
    }

    /// The program may be another `uswap run`, or a process of another user: it asks when its first instruction runs.
    #[test]
    fn a_run_is_reached_before_its_program_starts() {
        let supervisor = match Supervisor::start(options()) {
            Ok(supervisor) => supervisor,
            Err(error) => return println!("SKIP: no run is possible here: {error}"),
        };
        let token = format!("{:016x}", supervisor.shared.token);
        assert!(is_under_way(&token));
        supervisor.finish();
        assert!(!is_under_way(&token));
    }

    /// What the threads wait for without work has no end in tests, so one that does not hear of the end of the run
    /// hangs here.
    #[test]
    fn the_end_of_a_run_waits_for_no_pause() {
        // The first end comes while the threads start, the last when they have long waited.
        for wait_ms in [0, 0, 0, 1, 2, 5, 10, 50] {
            let mut supervisor = match Supervisor::start(options()) {
                Ok(supervisor) => supervisor,
                Err(error) => return println!("SKIP: no run is possible here: {error}"),
            };
            let mut program = std::process::Command::new("true").spawn().unwrap();
            supervisor.attach(program.id());
            std::thread::sleep(std::time::Duration::from_millis(wait_ms));
            // It connects and says nothing.
            let silent = control::connect(std::process::id());
            assert!(silent.is_ok() || wait_ms < 50, "{silent:?}");
            program.wait().unwrap();
            let report = supervisor.finish();
            assert_eq!(report.warnings, Vec::<String>::new());
        }
    }
}
