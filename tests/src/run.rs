//! Runs a program, with uswap or without, watched from outside.
//!
//! What must hold: nothing of the tree is alive after `finish` or drop. A run that takes too long is killed and fails
//! its test. Called by all tests.

use crate::places::{Scratch, uswap_binary};
use crate::process::Process;
use crate::sampler::{Sampler, Samples};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program to run.
#[derive(Debug, Clone)]
pub struct Run {
    words: Vec<OsString>,
    budget: Option<(u64, Vec<String>)>,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    input: Option<PathBuf>,
    timeout: Duration,
}

impl Run {
    /// A run of `program` without uswap, at most 5 minutes long (3 hours in the full form).
    pub fn plain(program: impl AsRef<OsStr>) -> Self {
        let minutes = if crate::full_size() { 180 } else { 5 };
        Self {
            words: vec![program.as_ref().to_os_string()],
            budget: None,
            environment: Vec::new(),
            directory: None,
            input: None,
            timeout: Duration::from_secs(60 * minutes),
        }
    }

    /// The same run under `uswap run --ram MIB`, with further options of `uswap run`.
    #[must_use]
    pub fn uswap(mut self, ram_mib: u64, options: &[&str]) -> Self {
        self.budget = Some((ram_mib, options.iter().map(ToString::to_string).collect()));
        self
    }

    /// Adds an argument of the program.
    #[must_use]
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_os_string());
        self
    }

    /// Adds arguments of the program.
    #[must_use]
    pub fn args<Word: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = Word>) -> Self {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_os_string()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_string(), value.to_string()));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn directory(mut self, path: &Path) -> Self {
        self.directory = Some(path.to_path_buf());
        self
    }

    /// Reads standard input from a file; without this it is empty.
    #[must_use]
    pub fn input(mut self, path: &Path) -> Self {
        self.input = Some(path.to_path_buf());
        self
    }

    /// Sets the longest time that the run may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same program again and again, until it fails or is done and `file` is there.
    #[must_use]
    pub fn again_until(mut self, file: &Path) -> Self {
        let script = "while \"$@\" || exit; do if [ -e \"$0\" ]; then exit; fi; done";
        let mut words: Vec<OsString> = ["/bin/sh", "-c", script].map(OsString::from).into();
        words.push(file.into());
        words.append(&mut self.words);
        self.words = words;
        self
    }

    /// The command line: with uswap in front if there is a budget and a binary.
    pub fn command_words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let (Some((ram_mib, options)), Some(binary)) = (&self.budget, uswap_binary()) {
            words.extend([
                binary.into_os_string(),
                "run".into(),
                "--ram".into(),
                format!("{ram_mib}M").into(),
            ]);
            words.extend(options.iter().map(OsString::from));
            words.push("--".into());
        }
        words.extend(self.words.iter().cloned());
        words
    }

    /// Starts the program.
    pub fn start(self) -> Running {
        let scratch = Scratch::new();
        let words = self.command_words();
        let file = |name: &str| File::create(scratch.file(name)).expect("the scratch directory is writable");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdout(file("stdout")).stderr(file("stderr"));
        command.stdin(self.input.as_ref().map_or_else(Stdio::null, |path| {
            File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
        }));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let started = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let managed = self.budget.is_some() && uswap_binary().is_some();
        let budget_bytes =
            if managed { self.budget.as_ref().map_or(u64::MAX, |(mib, _)| mib << 20) } else { u64::MAX };
        let sampler = Sampler::start(child.id() as i32, budget_bytes);
        Running { child, sampler, scratch, words, started, timeout: self.timeout, status: None }
    }

    /// Runs the program to its good end with nobody watching, and answers how long it took. What it writes is thrown
    /// away.
    pub fn time(self) -> Duration {
        let words = self.command_words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let started = Instant::now();
        let status = command.status().unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let elapsed = started.elapsed();
        assert!(status.success(), "{words:?}: {status}");
        elapsed
    }

    /// Starts the program and waits for its end.
    pub fn finish(self) -> Outcome {
        self.start().finish()
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    sampler: Sampler,
    scratch: Scratch,
    words: Vec<OsString>,
    started: Instant,
    timeout: Duration,
    status: Option<ExitStatus>,
}

impl Running {
    /// Number of the process that was started: the supervisor under uswap.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The processes of the tree that are alive, the supervisor included.
    pub fn processes(&self) -> Vec<Process> {
        self.sampler.processes()
    }

    /// Waits until the run's swap file in `directory` holds at least `bytes`; answers its path below /proc. None: the
    /// run has ended before.
    pub fn waits_for_swap_file(&mut self, directory: &Path, bytes: u64) -> Option<PathBuf> {
        for _ in 0..3000 {
            if self.ended() {
                return None;
            }
            let descriptors =
                std::fs::read_dir(format!("/proc/{}/fd", self.pid())).into_iter().flatten().flatten();
            for path in descriptors.map(|entry| entry.path()) {
                let inside = std::fs::read_link(&path).is_ok_and(|link| link.starts_with(directory));
                if inside && std::fs::metadata(&path).is_ok_and(|status| status.blocks() * 512 >= bytes) {
                    return Some(path);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// What the sampler has seen so far.
    pub fn samples(&self) -> Samples {
        self.sampler.samples()
    }

    /// What the program has written so far to standard output.
    pub fn output_so_far(&self) -> String {
        self.read("stdout")
    }

    /// What was written so far to standard error: messages of uswap too.
    pub fn messages_so_far(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.scratch.file(name)).unwrap_or_default()).into_owned()
    }

    /// True when the started process has ended.
    pub fn ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("the child is ours");
        }
        self.status.is_some()
    }

    /// Waits for the end. Kills the tree and panics if it takes too long.
    pub fn finish(mut self) -> Outcome {
        while !self.ended() {
            if self.started.elapsed() > self.timeout {
                let alive = self.processes();
                self.sampler.kill_all();
                panic!(
                    "timeout after {:?}: {:?}; alive were {alive:?}; stderr:\n{}",
                    self.timeout,
                    self.words,
                    self.read("stderr")
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.status.expect("the loop above ended");
        Outcome {
            code: status.code(),
            signal: status.signal(),
            stdout: self.read("stdout"),
            stderr: self.read("stderr"),
            samples: self.samples(),
            elapsed: self.started.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sampler.kill_all();
        // The child may have been waited for already.
        let _ = self.child.wait();
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code, if the started process ended by itself.
    pub code: Option<i32>,
    /// Signal that ended the started process.
    pub signal: Option<i32>,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
    /// What the sampler saw.
    pub samples: Samples,
    /// From start to end.
    pub elapsed: Duration,
}

impl Outcome {
    /// Panics unless the run ended with code 0.
    #[track_caller]
    pub fn must_succeed(&self) -> &Self {
        assert!(
            self.code == Some(0),
            "code {:?}, signal {:?}; end of stdout:\n{}\nend of stderr:\n{}",
            self.code,
            self.signal,
            tail(&self.stdout),
            tail(&self.stderr)
        );
        self
    }

    /// Panics if more than 5 % of the samples were above 105 % of the budget.
    #[track_caller]
    pub fn must_hold_budget_mostly(&self, ram_mib: u64) -> &Self {
        let Samples { count, over, .. } = self.samples;
        let few = over * 20 <= count;
        assert!(
            few || uswap_binary().is_none(),
            "{over} of {count} samples are over 105 % of {ram_mib}M: {:?}",
            self.samples
        );
        self
    }

    /// Panics unless all samples were within 105 % of the budget. In a plain run there is nothing to hold.
    #[track_caller]
    pub fn must_hold_budget(&self, ram_mib: u64) -> &Self {
        let Samples { count, over, unknown, peak_bytes, .. } = self.samples;
        if uswap_binary().is_some() {
            let percent = peak_bytes as f64 * 100.0 / (ram_mib << 20) as f64;
            let share = over as f64 * 100.0 / count.max(1) as f64;
            assert!(
                over == 0,
                "peak {percent:.1} % of {ram_mib}M; {over} of {count} samples ({share:.2} %) are over 105 %; {:?}",
                self.samples
            );
            assert!(unknown * 10 <= count, "{unknown} of {count} samples are unknown: {:?}", self.samples);
        }
        self
    }
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
