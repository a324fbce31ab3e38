//! `cargo xtask test`: all tests, in the order that tells soonest what is wrong.
//!
//! Must hold: a step that fails does not hide the others, but makes the whole fail; a step in which no test ran has
//! failed; nobody mistakes a skipped test for a passed one: lines that start with `SKIP:` are counted over all steps
//! and the number is printed last; and why tests failed is said again at the end of a step, since a log may be cut.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::commands::{
    self, AGENT, EXPERIMENTS, INTEGRATION, PROFILE, PROGRAMS, VIRTUAL_TIME, cargo, with_other_atomics,
};
use crate::rights;
use crate::steps::{STEPS, Step};

/// Seeds that the simulator runs beside those of its tests: as many as CI has time for.
const SIMULATOR_SEEDS: &str = "60";

/// The same of programs that mostly change mappings.
const MAPPINGS_SEEDS: &str = "100";

/// The same of swap files that come and go.
const FILES_SEEDS: &str = "30";

/// The same of programs that go round.
const ROUNDS_SEEDS: &str = "100";

/// Of system calls that touch memory.
const CALLS_SEEDS: &str = "60";

/// And of processes that fork.
const FORKS_SEEDS: &str = "20";

/// Time of the step `fuzz`: more than the property tests have.
pub const FUZZ_SECONDS: u64 = 5;

/// Lines of a panic that are said again, and of all panics of a step.
const PANIC_LINES: usize = 12;
const PANICS_LINES_MAX: usize = 120;

/// What the lines of a step said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Tests that started.
    test_count: u64,
    /// Tests that did not do their work, and said why.
    skip_count: u64,
    /// The first lines of what panics said.
    panics: Vec<String>,
    /// Lines that still belong to the last panic.
    panic_lines_left: usize,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.test_count += other.test_count;
        self.skip_count += other.skip_count;
        self.panics.extend(other.panics);
    }

    /// Reads one line of the output of a test program.
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["running", count, "test" | "tests"] = words.as_slice() {
            self.test_count += count.parse::<u64>().unwrap_or(0);
        }
        // With --nocapture the first line that a test prints stands behind its name: "test NAME ... SKIP: why".
        if line.starts_with("SKIP:") || (line.starts_with("test ") && line.contains(" ... SKIP:")) {
            self.skip_count += 1;
        }
        self.panic_line(line);
    }

    fn panic_line(&mut self, line: &str) {
        if line.starts_with("thread '") && line.contains("panicked at ") {
            self.panic_lines_left = PANIC_LINES;
        } else if line.starts_with("stack backtrace:") || line.starts_with("test ") {
            self.panic_lines_left = 0;
        }
        if self.panic_lines_left > 0 && self.panics.len() < PANICS_LINES_MAX {
            self.panic_lines_left -= 1;
            self.panics.push(line.to_owned());
        }
    }
}

fn run_step(step: Step) -> Result<Seen> {
    match step {
        Step::Check => crate::check::run().map(no_tests),
        Step::Format => commands::fmt().map(no_tests),
        Step::Clippy => commands::clippy().map(no_tests),
        Step::Documentation => commands::doc().map(no_tests),
        Step::Build => commands::build().map(no_tests),
        Step::Semver => crate::semver::lists().map(no_tests),
        Step::UnitTests => unit_tests(),
        Step::Fuzz => fuzz(Some(FUZZ_SECONDS), None),
        Step::Loom => loom(),
        Step::Shuttle => shuttle(),
        Step::SimulatedTime => simulated_time(),
        Step::Simulator => simulator(),
        Step::SystemCalls => system_calls(),
        Step::IntegrationTests => integration_tests(),
        Step::WithoutRights => integration_tests_without_rights(),
        Step::PythonPackage => python_package(),
    }
}

/// Runs everything.
///
/// # Errors
/// At least one step failed; its name is in the error.
pub fn run() -> Result<()> {
    let start = Instant::now();
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    let mut seen = Seen::default();
    for (name, step) in STEPS {
        println!("\n== {name}, after {} s", start.elapsed().as_secs());
        let step_start = Instant::now();
        let result = run_step(step);
        let seconds = step_start.elapsed().as_secs();
        match result {
            Ok(step_seen) => {
                let tests = if step_seen.test_count > 0 {
                    format!("  {} tests", step_seen.test_count)
                } else {
                    String::new()
                };
                seen.add(step_seen);
                summary.push(format!("ok    {seconds:>5} s  {name}{tests}"));
            }
            Err(error) => {
                println!("xtask: {name}: {error:#}");
                summary.push(format!("FAIL  {seconds:>5} s  {name}"));
                failed.push(name);
            }
        }
    }
    println!("\n{}", summary.join("\n"));
    println!("{:>11} s  in all", start.elapsed().as_secs());
    println!("skipped tests: {}", seen.skip_count);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn no_tests((): ()) -> Seen {
    Seen::default()
}

/// `cargo test` for the unit tests of all packages but the experiments, which have a step of their own. They are built
/// once for all steps. Documentation has no tests in it, and clippy has looked at the examples.
fn cargo_test(kinds: &[&str]) -> Command {
    let all = ["test", "--no-fail-fast", "--profile", PROFILE, "--workspace"];
    let but = ["--exclude", AGENT, "--exclude", INTEGRATION, "--exclude", EXPERIMENTS];
    cargo(&[&all[..], &but, kinds].concat())
}

fn unit_tests() -> Result<Seen> {
    // They are preloaded and run by tests of their package, and no test target themselves.
    commands::succeed(cargo(&["build", "--profile", PROFILE, "-p", "uswap-interpose", "--examples"]))?;
    watch_tests(cargo_test(&["--tests"]))
}

/// The tests that try random content.
const FUZZED: &[&str] = &[
    "model_tests::fuzz::structures_are_as_their_models_for_random_lists",
    "words::fuzz::vector_kernels_and_portable_code_do_the_same",
    "buffers::tests::slot::a_slot_covers_what_calls_under_way_use",
    "table::tests::random::a_walk_of_anything_ends_inside_the_address_space",
    "random::any_blob_makes_one_page_or_none",
    "random::any_page_that_is_compressed_comes_back",
    "random::only_what_was_sealed_opens",
    "random::a_control_line_that_is_understood_can_be_said_again",
    "random::any_arguments_are_taken_or_refused",
    "random::any_system_call_names_ranges_of_the_address_space",
];

/// Random lists of operations against the models, random pages by vector kernels against portable code, and random
/// bytes for all that takes some from outside (`crates/fuzz`), for some seconds each; or those of one seed.
///
/// # Errors
/// One failed; the line that replays it was printed.
pub fn fuzz(seconds: Option<u64>, seed: Option<u64>) -> Result<Seen> {
    let mut command = cargo_test(&["--lib", "--", "--exact", "--nocapture"]);
    command.args(FUZZED);
    for (name, value) in [("USWAP_FUZZ_SECONDS", seconds), ("USWAP_FUZZ_SEED", seed)] {
        match value {
            Some(value) => command.env(name, value.to_string()),
            None => command.env_remove(name),
        };
    }
    let seen = watch(command)?;
    ensure!(
        seen.test_count == FUZZED.len() as u64,
        "{} tests ran instead of {}",
        seen.test_count,
        FUZZED.len()
    );
    Ok(seen)
}

/// The model checker replaces the atomics of the whole crate: a build of its own. Without examples in the
/// documentation, which would be built without it. Of the interposer only what shares words between threads is
/// modelled.
fn loom() -> Result<Seen> {
    let core = ["test", "--no-fail-fast", "--profile", PROFILE, "-p", "uswap-core", "--lib", "--tests"];
    let interpose = ["test", "--profile", PROFILE, "-p", "uswap-interpose", "--lib", "loom_tests"];
    let mut seen = watch_tests(with_other_atomics("loom", &core))?;
    seen.add(watch_tests(with_other_atomics("loom", &interpose))?);
    Ok(seen)
}

/// Calls of the long list of the step below.
const SYSTEM_CALLS: u32 = 1_000_000;

/// Random system calls, as they are and with memory that is evicted under them, in step.
fn system_calls() -> Result<Seen> {
    let mut command = cargo_test(&["--test", "differential", "--", "random_calls"]);
    command.env("USWAP_DIFFERENTIAL_CALLS", SYSTEM_CALLS.to_string()).env("USWAP_DIFFERENTIAL_SEED", "77");
    watch_tests(command)
}

/// As loom, in a build of its own: longer tests in random orders. The other tests of the crate know nothing of it.
fn shuttle() -> Result<Seen> {
    let packages = ["-p", "uswap-core", "-p", "uswap-zones"];
    watch_tests(with_other_atomics(
        "shuttle",
        &[&["test", "--profile", PROFILE], &packages[..], &["--lib", "shuttle_tests"]].concat(),
    ))
}

/// The experiments. The atomics note each access, for what locks and cache lines would take on many processors.
fn simulated_time() -> Result<Seen> {
    let test = ["test", "--profile", PROFILE, "-p", EXPERIMENTS, "--features", VIRTUAL_TIME, "--lib"];
    watch_tests(cargo(&test))
}

fn simulator() -> Result<Seen> {
    // The unit tests have built it for their own, with assertions.
    let program = commands::target_directory().join(PROFILE).join("uswap-sim");
    ensure!(program.is_file(), "there is no {}: the build of the unit tests failed", program.display());
    for words in [
        &["run", "--seeds", SIMULATOR_SEEDS][..],
        &["run", "--seeds", FILES_SEEDS, "--mix", "files"],
        &["run", "--seeds", MAPPINGS_SEEDS, "--mix", "mappings"],
        &["run", "--seeds", ROUNDS_SEEDS, "--mix", "rounds"],
        &["run", "--seeds", CALLS_SEEDS, "--mix", "calls"],
        &["run", "--seeds", FORKS_SEEDS, "--mix", "forks"],
        // A short form of a day; some hours of it are among the unit tests. This seed has pauses.
        &["soak", "--hours", "1", "--from", "3", "--seeds", "1"],
    ] {
        let mut command = Command::new(&program);
        command.args(words);
        watch(command)?;
    }
    Ok(Seen::default())
}

/// Two at a time. Those that measure wait until they are alone; the others wait for something most of their time.
fn integration_tests() -> Result<Seen> {
    let uswap = commands::uswap_path();
    ensure!(uswap.is_file(), "there is no {}: the build failed", uswap.display());
    commands::succeed(cargo(&["build", "--release", "-p", PROGRAMS]))?;
    watch_tests(integration_command(&[]))
}

/// Integration tests of these files, or of all.
pub fn integration_command(files: &[&str]) -> Command {
    let tests = files.iter().flat_map(|file| ["--test", file]).collect::<Vec<_>>();
    // One file that fails does not hide what is wrong in the others.
    let words = ["test", "--no-fail-fast", "--profile", PROFILE, "-p", INTEGRATION];
    let mut command = cargo(&[&words[..], &tests, &["--", "--test-threads=2", "--nocapture"]].concat());
    command.env("USWAP_BIN", commands::uswap_path());
    command
}

/// Those that mean something for a user without rights.
const WITHOUT_RIGHTS: [&str; 36] = [
    "attached",
    "badcases_disk",
    "badcases_start",
    "budget_python",
    "budget_sort",
    "budget_sqlite",
    "c_library",
    "cancel",
    "evil",
    "examples",
    "filters",
    "fork",
    "handlers",
    "integrity",
    "kill",
    "map",
    "mappings",
    "metrics",
    "musl",
    "named",
    "over_budget",
    "passthrough",
    "refused",
    "shares",
    "small",
    "stat",
    "steer",
    "steer_loads",
    "ends",
    "limits",
    "swapfile",
    "swapfiles",
    "swapon",
    "thread_stacks",
    "top",
    "without",
];

/// As `nobody`, with the kernel's default settings. A user who is not root runs them with his own rights.
fn integration_tests_without_rights() -> Result<Seen> {
    without_rights(integration_command(&WITHOUT_RIGHTS), watch_tests)
}

/// Runs integration tests so; skips them if nobody may execute the command.
pub fn without_rights(mut command: Command, run: impl FnOnce(Command) -> Result<Seen>) -> Result<Seen> {
    let uswap = commands::uswap_path();
    let programs = uswap.parent().expect("it is in a directory");
    command.env("USWAP_TEST_PROGRAMS", programs);
    let _scratch = if rights::has_root() {
        if !rights::nobody_may_execute(&uswap) {
            println!("SKIP: nobody may not execute {}, or there is no setpriv", uswap.display());
            return Ok(Seen { skip_count: 1, ..Seen::default() });
        }
        command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", rights::AS_NOBODY.join(" "));
        Some(rights::Scratch::of_nobody(&mut command)?)
    } else {
        None
    };
    run(command)
}

fn python_package() -> Result<Seen> {
    let ran = crate::python::run()?;
    Ok(Seen { test_count: ran.tests, skip_count: ran.skips, ..Seen::default() })
}

/// As [`watch`], for commands that must run at least one test.
pub fn watch_tests(command: Command) -> Result<Seen> {
    at_least_one(watch(command)?)
}

fn at_least_one(seen: Seen) -> Result<Seen> {
    ensure!(seen.test_count > 0, "not one test ran");
    Ok(seen)
}

/// Runs a command, passes its output on as it comes, and reads it.
fn watch(command: Command) -> Result<Seen> {
    watch_into(command, &mut std::io::stdout(), &mut std::io::stderr())
}

fn watch_into(
    mut command: Command,
    to: &mut impl Write,
    errors_to: &mut (impl Write + Send),
) -> Result<Seen> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let errors = child.stderr.take().expect("stderr is a pipe");
    let output = child.stdout.take().expect("stdout is a pipe");
    let seen = thread::scope(|scope| {
        let error_reader = scope.spawn(|| pass_on(errors, errors_to));
        let mut seen = pass_on(output, to)?;
        match error_reader.join() {
            Ok(seen_in_errors) => seen.add(seen_in_errors?),
            Err(_) => bail!("the reader of the error output panicked"),
        }
        Ok(seen)
    })?;
    let status = child.wait()?;
    // Some tests want a panic; only who failed is asked why.
    ensure!(status.success(), "{}\n{status} of {command:?}", seen.panics.join("\n"));
    Ok(seen)
}

fn pass_on(from: impl Read, to: &mut impl Write) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    // Bytes, not strings: a test may print anything.
    while reader.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        seen.line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_skips_are_counted() {
        let output = "running 3 tests\ntest a ... ok\ntest b ... SKIP: no userfaultfd\nok\nSKIP: no redis\nnot SKIP: \
            this\nrunning 1 test\n";
        let mut copy = Vec::new();
        let seen = pass_on(output.as_bytes(), &mut copy).expect("memory can be read");
        assert_eq!(seen, Seen { test_count: 4, skip_count: 2, ..Seen::default() });
        assert_eq!(copy, output.as_bytes());
    }

    fn shell(script: &str) -> Result<Seen> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        // Not our own output: the suite that runs this test would count what it says.
        watch_into(command, &mut std::io::sink(), &mut std::io::sink())
    }

    #[test]
    fn both_outputs_of_a_command_are_read() {
        let seen = shell("echo SKIP: one; echo SKIP: two >&2; echo running 1 test").expect("sh runs");
        assert_eq!(seen, Seen { test_count: 1, skip_count: 2, ..Seen::default() });
    }

    #[test]
    fn why_a_test_failed_is_said_at_the_end() {
        let script = "echo \"thread 'a' (7) panicked at b.rs:1:2:\" >&2; echo wrong page >&2; echo stack backtrace: \
            >&2; echo far away >&2; exit 101";
        let error = shell(script).expect_err("it fails").to_string();
        let wanted = "thread 'a' (7) panicked at b.rs:1:2:\nwrong page\nexit status: 101";
        assert!(error.starts_with(wanted), "{error}");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        assert!(shell("echo running 1 test; exit 3").is_err());
        assert!(shell("echo running 1 test; kill -9 $$").is_err());
    }

    #[test]
    fn a_step_without_a_test_is_an_error() {
        assert!(at_least_one(shell("echo running 0 tests").expect("sh runs")).is_err());
        assert!(at_least_one(shell("echo running 2 tests").expect("sh runs")).is_ok());
    }
}
