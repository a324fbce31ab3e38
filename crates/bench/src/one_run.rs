//! One run of a program under one rival, watched from outside.
//!
//! What must hold: nothing of the program is alive afterwards; a program that was killed or failed gives a [`Run`] like
//! any other.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use xxhash_rust::xxh3::Xxh3;

use crate::counts::Counts;
use crate::results::{Memory, MemoryAt, Outcome, Run};
use crate::rivals::Session;
use crate::system::program::{self, ProcessGroup};
use crate::system::undo::Undo;
use crate::workloads::{Launch, Output, parse_output};

/// Memory is looked at so often: as fast as a limit of 256 MiB can be filled to a few percent.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Points of memory over time that a result keeps.
const POINTS_MAX: usize = 200;

/// What to run.
pub struct Job {
    /// The program.
    pub launch: Launch,
    /// Longest time.
    pub timeout: Duration,
    /// Where its output goes, in files of this name.
    pub output: PathBuf,
}

/// Runs it to its end.
///
/// # Errors
/// The program cannot be started.
pub fn one_run(session: &mut dyn Session, job: &Job, judge: &Judge, undo: &Undo) -> anyhow::Result<Run> {
    let (stdout, stderr) = (job.output.with_extension("stdout"), job.output.with_extension("stderr"));
    let create =
        |path: &PathBuf| File::create(path).with_context(|| format!("cannot write {}", path.display()));
    let mut command = session.command(&job.launch.words);
    command.envs(job.launch.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(create(&stdout)?).stderr(create(&stderr)?);

    let counts = Counts::now();
    let cpu_before = session.cpu_seconds();
    let started = Instant::now();
    let (child, group) = program::start(undo, &mut command)?;
    let watched = watch((child, group), session, job.timeout, started)?;
    let came = Counts::now().since(counts);
    let (outcome, output) = judge.judge(&watched, session.kills(), &stdout, &stderr);
    for path in [&stdout, &stderr] {
        // What a program prints may be large, and there are many runs. The directory is removed at the end anyway.
        let _ = fs::remove_file(path);
    }
    let mut figures = output.figures;
    figures.insert("wall_s".to_owned(), watched.elapsed.as_secs_f64());
    Ok(Run {
        outcome,
        figures,
        checksum: output.checksum,
        latency: output.latency,
        cpu_program_s: (session.cpu_seconds() - cpu_before).max(0.0),
        cpu_machine_s: came.busy_s,
        memory: watched.peak,
        memory_over_time: watched.points.reduced(),
        disk_read_bytes: came.read_bytes,
        disk_written_bytes: came.written_bytes,
        faults: came.major_faults + session.faults().unwrap_or(0),
        ..Run::default()
    })
}

/// What was seen of a run.
struct Watched {
    /// None: it took too long, and was killed.
    status: Option<ExitStatus>,
    elapsed: Duration,
    peak: Memory,
    points: Points,
}

fn watch(
    (mut child, group): (Child, ProcessGroup),
    session: &dyn Session,
    timeout: Duration,
    started: Instant,
) -> anyhow::Result<Watched> {
    let (mut peak, mut points) = (Memory::default(), Points::default());
    loop {
        let status = child.try_wait().context("cannot wait for the program")?;
        let elapsed = started.elapsed();
        if status.is_some() {
            group.ended();
            return Ok(Watched { status, elapsed, peak, points });
        }
        if elapsed > timeout {
            drop(group);
            child.wait().context("cannot wait for the program")?;
            return Ok(Watched { status, elapsed, peak, points });
        }
        // A group that is just being filled may not have all its files yet: the next look will tell.
        if let Ok(memory) = session.memory() {
            if memory.sum_bytes > peak.sum_bytes {
                peak = memory;
            }
            points.add(elapsed, memory);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How runs are judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judge {
    /// A workload: it prints a line of JSON, and ends well.
    Workload,
    /// Any program, by its exit code and what it prints.
    Program {
        /// As it must be; none: as it is, it is right.
        expected: Option<String>,
    },
}

impl Judge {
    /// The same for a run whose result does not matter.
    #[must_use]
    pub fn of_anything(self) -> Judge {
        match self {
            Judge::Workload => Judge::Workload,
            Judge::Program { .. } => Judge::Program { expected: None },
        }
    }

    fn judge(&self, watched: &Watched, kills: u64, stdout: &Path, stderr: &Path) -> (Outcome, Output) {
        let nothing = Output::default();
        let Some(status) = watched.status else { return (Outcome::TimedOut, nothing) };
        if kills > 0 {
            return (Outcome::Killed, nothing);
        }
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        match self {
            Judge::Workload => judge_workload(status, &read(stdout), &read(stderr)),
            Judge::Program { expected } => judge_program(status, expected.as_deref(), stdout, &read(stderr)),
        }
    }
}

fn judge_workload(status: ExitStatus, stdout: &str, stderr: &str) -> (Outcome, Output) {
    let nothing = Output::default();
    let tail = tail(stderr);
    match (status.success(), parse_output(stdout)) {
        (true, Ok(output)) => (Outcome::Done, output),
        (true, Err(error)) => (Outcome::Failed(format!("its output cannot be read: {error:#}")), nothing),
        (false, _) => match status.signal() {
            Some(signal) => (Outcome::Failed(format!("ended by signal {signal}: {tail}")), nothing),
            None => (Outcome::Failed(format!("{status}: {tail}")), nothing),
        },
    }
}

fn judge_program(
    status: ExitStatus,
    expected: Option<&str>,
    stdout: &Path,
    stderr: &str,
) -> (Outcome, Output) {
    let printed = match hash_of(stdout) {
        Ok(printed) => printed,
        Err(error) => {
            let why = format!("its output cannot be read: {error}");
            return (Outcome::Failed(why), Output::default());
        }
    };
    let end = match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit code {}", status.code().unwrap_or_default()),
    };
    let result = format!("{end}, standard output {printed}");
    let outcome = match expected {
        Some(expected) if expected != result => {
            let tail = tail(stderr);
            let said = if tail.is_empty() { tail } else { format!("; it said: {tail}") };
            Outcome::Failed(format!("WRONG RESULT: {result}; without a limit {expected}{said}"))
        }
        _ => Outcome::Done,
    };
    (outcome, Output { checksum: Some(result), ..Output::default() })
}

/// The end of what a program said.
fn tail(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

/// Hash (xxh3, 128 bits) and size of a file, however large it is.
fn hash_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(format!("{:032x} of {bytes} bytes", hasher.digest128()));
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
}

/// Memory over time. Keeps every n-th point, with n doubled whenever there are too many.
#[derive(Default)]
struct Points {
    kept: Vec<MemoryAt>,
    step_shift: u32,
    seen: u64,
}

impl Points {
    fn add(&mut self, elapsed: Duration, memory: Memory) {
        if self.seen & ((1 << self.step_shift) - 1) == 0 {
            self.kept.push(MemoryAt {
                ms: elapsed.as_millis() as u64,
                resident_bytes: memory.resident_bytes,
                compressed_bytes: memory.compressed_bytes + memory.own_bytes,
            });
        }
        self.seen += 1;
        if self.kept.len() == 2 * POINTS_MAX {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let mut index = 0;
        self.kept.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.step_shift += 1;
    }

    fn reduced(mut self) -> Vec<MemoryAt> {
        while self.kept.len() > POINTS_MAX {
            self.thin();
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::process::Command;

    /// A rival that does nothing.
    struct Bare {
        kills: u64,
    }

    impl Session for Bare {
        fn command(&self, program: &[OsString]) -> Command {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]);
            command
        }
        fn set_limit(&mut self, _: u64) -> anyhow::Result<()> {
            Ok(())
        }
        fn memory(&self) -> anyhow::Result<Memory> {
            Ok(Memory { resident_bytes: 3, compressed_bytes: 2, own_bytes: 1, sum_bytes: 6 })
        }
        fn cpu_seconds(&self) -> f64 {
            0.0
        }
        fn kills(&self) -> u64 {
            self.kills
        }
    }

    fn run(script: &str, kills: u64, seconds: f64) -> Run {
        judged(script, kills, seconds, &Judge::Workload)
    }

    fn judged(script: &str, kills: u64, seconds: f64, judge: &Judge) -> Run {
        let name = format!("uswap-bench-test-{}-{:?}", std::process::id(), std::thread::current().id());
        let output = std::env::temp_dir().join(name);
        let job = Job {
            launch: Launch {
                words: ["sh", "-c", script].map(OsString::from).to_vec(),
                environment: vec![("WORD".into(), "7".into())],
            },
            timeout: Duration::from_secs_f64(seconds),
            output: output.clone(),
        };
        let run = one_run(&mut Bare { kills }, &job, judge, &Undo::new()).unwrap();
        for kind in ["stdout", "stderr"] {
            assert!(!output.with_extension(kind).exists(), "{kind} is left");
        }
        run
    }

    #[test]
    fn a_good_run_has_figures_and_memory() {
        let script = "sleep 0.05; echo '{\"figures\":{\"x\":'$WORD'},\"checksum\":\"ab\"}'";
        let run = run(script, 0, 20.0);
        assert_eq!(run.outcome, Outcome::Done);
        assert_eq!((run.figures["x"], run.checksum.as_deref()), (7.0, Some("ab")));
        assert!(run.figures["wall_s"] >= 0.05);
        assert_eq!(run.memory.sum_bytes, 6);
        assert_eq!(run.memory_over_time[0].compressed_bytes, 3);
    }

    #[test]
    fn bad_endings_are_results_too() {
        let failed = run("echo one >&2; echo why >&2; exit 3", 0, 20.0).outcome;
        assert!(matches!(&failed, Outcome::Failed(text) if text.contains("one | why")), "{failed:?}");
        let signal = run("kill -SEGV $$", 0, 20.0).outcome;
        assert!(matches!(&signal, Outcome::Failed(text) if text.contains("signal 11")), "{signal:?}");
        assert_eq!(run("kill -KILL $$", 1, 20.0).outcome, Outcome::Killed);
        assert_eq!(run("sleep 30 & sleep 30", 0, 0.1).outcome, Outcome::TimedOut);
        let silent = run("true", 0, 20.0).outcome;
        assert!(matches!(silent, Outcome::Failed(_)), "{silent:?}");
    }

    #[test]
    fn a_program_is_right_if_it_ends_and_prints_as_without_a_limit() {
        let free = Judge::Program { expected: None };
        let first = judged("echo one; exit 3", 0, 20.0, &free);
        let expected = first.checksum.clone().unwrap();
        assert_eq!(first.outcome, Outcome::Done);
        assert!(expected.starts_with("exit code 3, standard output ") && expected.ends_with(" of 4 bytes"));
        let strict = Judge::Program { expected: Some(expected) };
        let again = |script: &str| judged(script, 0, 20.0, &strict).outcome;
        assert_eq!(again("echo other >&2; echo one; exit 3"), Outcome::Done);
        for (script, said) in [
            ("echo why >&2; echo one; exit 4", "WRONG RESULT: exit code 4, "),
            ("echo why >&2; echo two; exit 3", "WRONG RESULT: exit code 3, "),
            ("echo why >&2; echo one; kill -SEGV $$", "WRONG RESULT: signal 11, "),
        ] {
            let outcome = again(script);
            let Outcome::Failed(text) = &outcome else { panic!("{script}: {outcome:?}") };
            assert!(text.starts_with(said) && text.ends_with("it said: why"), "{text}");
        }
        assert_eq!(judged("exit 3", 1, 20.0, &strict).outcome, Outcome::Killed);
        assert_eq!(judged("sleep 30", 0, 0.1, &strict).outcome, Outcome::TimedOut);
        let anything = strict.of_anything();
        assert_eq!(judged("echo two", 0, 20.0, &anything).outcome, Outcome::Done);
        assert_eq!(Judge::Workload.of_anything(), Judge::Workload);
    }

    #[test]
    fn few_points_are_kept_of_long_runs_evenly() {
        let mut points = Points::default();
        for number in 0..10_000 {
            points.add(Duration::from_millis(10 * number), Memory::default());
        }
        let kept = points.reduced();
        assert!(kept.len() <= POINTS_MAX && kept.len() > POINTS_MAX / 4, "{}", kept.len());
        let step = kept[1].ms - kept[0].ms;
        assert!(kept.windows(2).all(|pair| pair[1].ms - pair[0].ms == step));
    }
}
