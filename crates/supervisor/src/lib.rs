//! The supervisor of a run: makes the segment and the swap files, measures the tree, moves the pool to the files,
//! cleans up after the dead.
//!
//! What it is for: the command `uswap run` stands on it, and so can any program that keeps others within a budget. It
//! writes to no terminal: what people should know goes through [`options::Say`], what happened is a
//! [`report::RunReport`]. What must hold: the run goes on until [`Supervisor::finish`], and that waits for no pause.
//!
//! Six threads: [`monitor`] measures and raises pressure, [`writeback`] moves the pool to the files, [`readahead`]
//! reads them ahead of faults, [`reaper`] notices processes that are gone, [`commands`] does what the run is told
//! meanwhile, [`descriptors`] hands them to processes that cannot open them. What they share is in [`shared`]. The
//! processes of the run find the segment through `USWAP_RUN` in their environment.
//!
//! | module | for |
//! |---|---|
//! | [`options`], [`rules`], [`error`] | what a run is told; rules by the names of programs; why it cannot start |
//! | [`program`] | finds the program, and says whether the agent can live in it |
//! | [`shared`] | what the threads have in common: the segment, the files, the processes |
//! | [`stop`] | how the threads learn that the run has ended |
//! | [`monitor`] | measures memory, raises pressure, sizes the pool; finds processes without an engine |
//! | [`counting`] | how much memory the processes have, what forked relatives share counted once |
//! | [`processes`] | the managed processes, each by a pidfd |
//! | [`locks`] | the locks by which records show that they live |
//! | [`reaper`] | gives back what processes that are gone have held |
//! | [`writeback`], [`requests`] | moves the pool to the swap files; what the shrinker is told to do by commands |
//! | [`files`] | the swap files: made, opened, read, written, emptied; where, and how large |
//! | [`readahead`] | reads the swap files ahead of faults |
//! | [`pressure`] | how long the run and its processes wait, as averages |
//! | [`holders`] | what holds memory that cannot be reclaimed, for warnings |
//! | [`socket`] | the socket by which processes reach the supervisor |
//! | [`descriptors`] | descriptors that it hands to them |
//! | [`growth_functions`] | what this process knows of the functions by which a small process grows, told to others |
//! | [`control`], [`commands`] | takes commands to the run from a socket, and does what they say |
//! | [`change`] | a command: new limits |
//! | [`freeze`] | freezing and thawing |
//! | [`leave`] | leaving |
//! | [`memory_map`] | the map of a process |
//! | [`stat`] | what a run says of itself while it goes on |
//! | [`report`], [`account`] | what has happened, as numbers: the report, and the counters that it is filled from |
#![forbid(unsafe_code)]

mod account;
mod change;
mod commands;
pub mod control;
mod counting;
mod descriptors;
mod error;
pub mod files;
mod freeze;
mod growth_functions;
mod holders;
mod leave;
mod locks;
mod memory_map;
mod monitor;
pub mod options;
mod pressure;
mod processes;
pub mod program;
mod readahead;
mod reaper;
pub mod report;
mod requests;
pub mod rules;
mod shared;
mod socket;
mod stat;
mod stop;
mod writeback;

use std::ffi::OsString;
use std::sync::Arc;
use std::thread::JoinHandle;

use uswap_control::human;
use uswap_control::map::MemoryMap;
use uswap_control::stat::RunStat;
use uswap_core::segment::Notice;

pub use error::StartError;
pub use socket::is_under_way;

use options::{Options, Say};
use report::{RunReport, SwapFileUse};
use shared::Shared;

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
    pub fn start(options: Options, say: Say) -> Result<Supervisor, StartError> {
        Ok(Supervisor { shared: Arc::new(Shared::new(options, say)?), threads: Vec::new() })
    }

    /// The swap files.
    pub fn swap_files(&self) -> Vec<SwapFileUse> {
        account::swap_files(&self.shared)
    }

    /// Variables for the program's environment.
    pub fn environment(&self) -> [(&'static str, OsString); 1] {
        [(uswap_identity::RUN_VARIABLE, self.shared.invitation())]
    }

    /// The program runs: starts the threads.
    pub fn attach(&mut self, child_pid: u32) {
        self.shared.processes.set_program(child_pid);
        let tasks: [(&str, Task); 6] = [
            ("uswap-monitor", monitor::run),
            ("uswap-shrinker", writeback::run),
            ("uswap-readahead", readahead::run),
            ("uswap-reaper", reaper::run),
            ("uswap-control", commands::run),
            ("uswap-give", descriptors::run),
        ];
        for (name, task) in tasks {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(256 * 1024);
            let thread = thread.spawn(move || task(&shared)).expect("the system has room for six threads");
            self.threads.push(thread);
        }
    }

    /// How the run goes, for other threads too.
    pub fn stat_source(&self) -> StatSource {
        StatSource(Arc::clone(&self.shared))
    }

    /// Managed processes that are alive.
    pub fn live_processes(&self) -> usize {
        processes::count_live(self.shared.segment.mms(), &self.shared.memfd)
    }

    /// The processes are stopped, and their memory is in the swap files, until the run is thawed.
    pub fn is_frozen(&self) -> bool {
        freeze::is_frozen(&self.shared)
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
                self.shared.warn("a thread of the supervisor ended with an internal error: please report it");
            }
        }
        account::report(&self.shared)
    }
}

/// Says how a run goes. It keeps what the run has, so let go of it before [`Supervisor::finish`].
#[derive(Clone)]
pub struct StatSource(Arc<Shared>);

impl StatSource {
    /// How it goes now.
    pub fn stat(&self) -> RunStat {
        stat::for_programs(&self.0)
    }

    /// Which parts of the memory of a process are where. `None`: of the one that has most under management. It waits
    /// for that process until `is_over`.
    ///
    /// # Errors
    /// As a sentence: there is no such process, or it does not answer.
    pub fn map(&self, pid: Option<u32>, is_over: &dyn Fn() -> bool) -> Result<MemoryMap, String> {
        memory_map::map(&self.0, pid, is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::SwapFileOptions;
    use options::{Limits, OnFull, PoolSize};
    use std::path::PathBuf;
    use uswap_os::Errno;
    use uswap_os::file::SwapFileError;

    /// Silent.
    fn start() -> Result<Supervisor, StartError> {
        Supervisor::start(options(), Box::new(|_| ()))
    }

    fn options() -> Options {
        let dir = std::env::temp_dir();
        Options {
            program: "true".to_owned(),
            limits: Limits {
                ram_bytes: 64 << 20,
                pool: PoolSize::Auto,
                on_full: OnFull::Grow,
                rules: Vec::new(),
            },
            swap_files: vec![SwapFileOptions { dir, bytes_max: 64 << 20, priority: -1, kind: None }],
            swap_min_free_bytes: 0,
            swap_bytes_a_day: None,
            allow_tmpfs: true,
            keep_after_setuid: false,
            root: None,
            regions_only: false,
            agent: PathBuf::new(),
            quiet: true,
            verbosity: 0,
        }
    }

    #[test]
    fn why_a_run_cannot_start_can_be_matched() {
        let file =
            |dir: &str| SwapFileOptions { dir: dir.into(), bytes_max: 4 << 20, priority: -1, kind: None };
        let refusal = |files: Vec<SwapFileOptions>| {
            let options = Options { swap_files: files, ..options() };
            Supervisor::start(options, Box::new(|_| ())).err().expect("it cannot start")
        };
        match refusal(vec![file("/tmp"); 17]) {
            error @ (StartError::Userfaultfd(_) | StartError::PidNamespace) => {
                return println!("SKIP: no run is possible here: {error}");
            }
            StartError::TooManySwapFiles(17) => (),
            error => panic!("{error}"),
        }
        let error = refusal(vec![file("/no/such/directory")]);
        let text = "the swap file cannot be made in '/no/such/directory': cannot open the swap directory: no such \
                    file or entry (ENOENT); check that it exists, is writable and has room, or name another with \
                    --swap DIR";
        assert_eq!(error.to_string(), text);
        let StartError::SwapFile { directory, cause: SwapFileError::Directory(errno) } = error else {
            panic!("{error}")
        };
        assert_eq!((directory, errno), (PathBuf::from("/no/such/directory"), Errno::ENOENT));
    }

    /// The program may be another `uswap run`, or a process of another user: it asks when its first instruction runs.
    #[test]
    fn a_run_is_reached_before_its_program_starts() {
        let supervisor = match start() {
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
            let mut supervisor = match start() {
                Ok(supervisor) => supervisor,
                Err(error) => return println!("SKIP: no run is possible here: {error}"),
            };
            let mut program = std::process::Command::new("true").spawn().unwrap();
            supervisor.attach(program.id());
            std::thread::sleep(std::time::Duration::from_millis(wait_ms));
            // It connects and says nothing.
            let silent = uswap_control::connect(std::process::id());
            assert!(silent.is_ok() || wait_ms < 50, "{silent:?}");
            program.wait().unwrap();
            let report = supervisor.finish();
            assert_eq!(report.warnings, Vec::<String>::new());
        }
    }
}
