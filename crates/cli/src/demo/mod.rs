//! `uswap demo`: GNU sort on data about four times its budget. First under the kernel's limit, where it dies; then with
//! uswap, where it ends with the right result.
//!
//! What must hold: every sentence printed was seen in this run. Exit code 0 means that the sorted file is byte for byte
//! what sort makes without a limit, that uswap managed the process, and that it stayed in RAM and swap file only: sort
//! gets a directory for temporary files that does not exist.

mod cage;
mod data;
mod job;
mod workshop;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::args::DemoArguments;
use crate::human;
use crate::message::{say, write_stdout};
use crate::process::Ending;
use crate::report::RunRecord;
use cage::Cage;
use data::Written;
use job::Done;
use workshop::{Interrupt, Workshop};

/// How many times the budget sort needs in memory.
const TIMES_BUDGET: u64 = 4;
/// Threads that sort uses: named, because its memory depends on it.
const SORT_THREADS: &str = "--parallel=2";
/// Bytes that GNU sort with two threads reserves for each line beside its text: two records of 32 bytes.
const SORT_BYTES_A_LINE: u64 = 64;
/// Bytes of an average line of the data, line end included.
const LINE_BYTES: u64 = 190;

/// Runs the demo. What is returned is for [`Ending::pass_on`].
pub fn demo(arguments: &DemoArguments) -> Ending {
    let interrupt = match Interrupt::take() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            say(format_args!("signal handlers cannot be set ({error}), so the demo could not clean up"));
            return Ending::Exited(1);
        }
    };
    // All files are gone when this returns.
    let outcome = Demo::prepare(arguments, &interrupt).and_then(|demo| demo.tell());
    match (outcome, interrupt.signal()) {
        (_, Some(number)) => {
            say(format_args!("demo stopped by {}; its files are removed", human::signal(number)));
            Ending::Signalled(number)
        }
        (Ok(()), None) => Ending::Exited(0),
        (Err(error), None) => {
            say(format_args!("demo: {error:#}"));
            Ending::Exited(1)
        }
    }
}

struct Demo<'a> {
    ram_bytes: u64,
    arguments: &'a DemoArguments,
    interrupt: &'a Interrupt,
    workshop: Workshop,
}

/// Stops the story quietly; the signal says why.
macro_rules! unless_stopped {
    ($step:expr) => {
        match $step {
            Some(done) => done,
            None => return Ok(()),
        }
    };
}

impl<'a> Demo<'a> {
    fn prepare(arguments: &'a DemoArguments, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        check_sort()?;
        let dir = &arguments.swap.dir;
        let file_bytes = file_bytes(arguments.ram);
        let needed_bytes = 3 * file_bytes + TIMES_BUDGET * arguments.ram;
        let space = rustix::fs::statvfs(dir.as_path()).with_context(|| {
            format!("'{}' cannot be used: name another directory with --swap", dir.display())
        })?;
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        ensure!(
            free_bytes >= needed_bytes,
            "'{}' has {} free, the demo needs {} for its data, two results and the swap file: name another directory \
             with --swap, or take a smaller --ram",
            dir.display(),
            human::bytes(free_bytes),
            human::bytes(needed_bytes)
        );
        let workshop = Workshop::make(dir).with_context(|| {
            format!("'{}' cannot be written: name another directory with --swap", dir.display())
        })?;
        Ok(Self { ram_bytes: arguments.ram, arguments, interrupt, workshop })
    }

    fn tell(&self) -> anyhow::Result<()> {
        let budget = typed(self.ram_bytes);
        let (input, expected, result) =
            (self.workshop.path("logs"), self.workshop.path("expected"), self.workshop.path("result"));

        tell(&format!("[1/5] Writing the logs of 64 servers, {}.", human::bytes(file_bytes(self.ram_bytes))));
        let written = data::write(&input, file_bytes(self.ram_bytes), self.interrupt)?;
        let written = unless_stopped!(written);
        let sort_bytes = sort_bytes(written);
        tell(&format!(
            "      {} lines. To sort them in memory, sort needs {}.",
            human::count(written.line_count),
            human::bytes(sort_bytes)
        ));

        tell("[2/5] sort without any limit, to know the right result.");
        let mut free = Command::new("sort");
        free.args([SORT_THREADS, "-T"]).arg(self.workshop.path(".")).arg("-o").arg(&expected).arg(&input);
        let free = unless_stopped!(self.job(&mut free)?);
        ensure!(free.status.success(), "sort without a limit ended with {}", free.describe());
        tell(&format!("      Done in {:.1} s.", free.elapsed.as_secs_f64()));

        let caged = unless_stopped!(self.sort_in_cage(sort_bytes, &input, &result)?);

        tell(&format!("[4/5] The same sort with uswap: uswap run --ram {budget}."));
        let json = self.workshop.path("report.json");
        let mut command = self.uswap(&json)?;
        command.arg("sort").args(self.sort_arguments(sort_bytes, &input, &result));
        let managed = unless_stopped!(self.job(&mut command)?);
        ensure!(
            managed.status.success(),
            "sort with uswap ended with {}: the lines above say why; `uswap doctor` says what this machine allows",
            managed.describe()
        );
        let record: RunRecord = serde_json::from_reader(File::open(&json).context("uswap wrote no report")?)?;
        tell(&format!("      Done in {:.1} s.", managed.elapsed.as_secs_f64()));

        tell("[5/5] Comparing the two results.");
        if let Some(offset) = first_difference(&expected, &result)? {
            bail!(
                "the result with uswap is WRONG from byte {offset} on. Please report this with the table above"
            );
        }
        ensure!(
            record.report.processes_managed > 0,
            "the result is right, but sort was not managed by uswap"
        );
        self.summary(sort_bytes, &caged, &free, &managed, &record);
        Ok(())
    }

    /// Shows what happens under the same limit without uswap.
    fn sort_in_cage(&self, sort_bytes: u64, input: &Path, result: &Path) -> anyhow::Result<Option<String>> {
        let cage = Cage::make(self.ram_bytes);
        tell(&format!("[3/5] sort in memory under {}.", cage.describe()));
        let mut command = cage.command(OsStr::new("sort"));
        command.args(self.sort_arguments(sort_bytes, input, result));
        let Some(done) = self.job(&mut command)? else { return Ok(None) };
        let is_killed = cage.kill_count().is_some_and(|count| count > 0);
        let seen = match done.status.success() {
            true => "it ended well, so this limit did not bind here".to_owned(),
            false if is_killed => "the kernel's out-of-memory killer ended it".to_owned(),
            false => format!("it failed: {}", done.describe()),
        };
        tell(&format!("      After {:.1} s {seen}.", done.elapsed.as_secs_f64()));
        // Whatever it left must not be taken for the result of the next step.
        if let Err(error) = std::fs::remove_file(result)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error).context("the failed result cannot be removed");
        }
        Ok(Some(seen))
    }

    fn sort_arguments(&self, sort_bytes: u64, input: &Path, result: &Path) -> Vec<std::ffi::OsString> {
        let nowhere = self.workshop.path("no-temporary-files");
        let memory = format!("{sort_bytes}b");
        let mut arguments: Vec<std::ffi::OsString> =
            vec![SORT_THREADS.into(), "-S".into(), memory.into(), "-T".into()];
        arguments.extend([nowhere.into(), "-o".into(), result.into(), input.into()]);
        arguments
    }

    fn uswap(&self, json: &Path) -> anyhow::Result<Command> {
        let own_path: PathBuf = std::env::current_exe().context("uswap cannot find its own file")?;
        let mut command = Command::new(own_path);
        command.args(["run", "--ram", &self.ram_bytes.to_string(), "--json"]).arg(json);
        let mut swap = self.arguments.swap.dir.clone().into_os_string();
        if let Some(bytes) = self.arguments.swap.bytes_max {
            swap.push(format!(":{bytes}"));
        }
        command.arg("--swap").arg(swap).arg("--");
        Ok(command)
    }

    fn job(&self, command: &mut Command) -> anyhow::Result<Option<Done>> {
        command.env("LC_ALL", "C").stdin(Stdio::null());
        let shown = command.get_program().to_string_lossy().into_owned();
        job::run(command, self.interrupt).with_context(|| format!("'{shown}' cannot be started"))
    }

    fn summary(&self, sort_bytes: u64, caged: &str, free: &Done, managed: &Done, record: &RunRecord) {
        let report = &record.report;
        let slower = managed.elapsed.as_secs_f64() / free.elapsed.as_secs_f64().max(0.001);
        tell(&format!(
            "\nsort needed {} and was given {}. Without uswap {caged}. With uswap it took {:.1} s ({slower:.1} times \
             an unlimited run) and used at most {} of RAM, compressed pages and uswap itself included{}, and {} of the \
             swap file. The result is right, byte for byte.",
            human::bytes(sort_bytes),
            human::bytes(self.ram_bytes),
            managed.elapsed.as_secs_f64(),
            human::bytes(report.used_peak_bytes),
            beyond(report.used_peak_bytes, self.ram_bytes),
            human::bytes(report.swap_file_peak_bytes),
        ));
    }
}

/// Says so if the budget was not kept.
fn beyond(used_bytes: u64, ram_bytes: u64) -> String {
    match used_bytes.saturating_sub(ram_bytes) {
        0 => String::new(),
        excess => format!(" ({} more than the budget)", human::bytes(excess)),
    }
}

/// A size as one would type it behind `--ram`.
fn typed(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}M", bytes >> 20) } else { bytes.to_string() }
}

/// Size of the input for a budget, so that text and line records together are about four times as much.
fn file_bytes(ram_bytes: u64) -> u64 {
    let memory_bytes = u128::from(ram_bytes) * u128::from(TIMES_BUDGET);
    let file_bytes = memory_bytes * u128::from(LINE_BYTES) / u128::from(LINE_BYTES + SORT_BYTES_A_LINE);
    u64::try_from(file_bytes).unwrap_or(u64::MAX / 8)
}

/// Memory that lets sort take the whole file at once: text, records, and a little more.
fn sort_bytes(written: Written) -> u64 {
    let bytes = written.bytes + SORT_BYTES_A_LINE * written.line_count;
    bytes + bytes / 64 + (1 << 20)
}

/// The demo says things about GNU sort: another one keeps its memory in another way.
fn check_sort() -> anyhow::Result<()> {
    let output = Command::new("sort").arg("--version").stdin(Stdio::null()).output();
    let output = output.context("the program `sort` cannot be started: install coreutils")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = text.lines().next().unwrap_or("nothing");
    ensure!(
        first.contains("GNU coreutils"),
        "the demo is made for GNU sort, and this `sort` says '{first}': install GNU coreutils, or try \
         `uswap run` with a program of yours"
    );
    Ok(())
}

/// Offset of the first byte that differs, or where the shorter file ends; `None` if they are equal.
fn first_difference(left: &Path, right: &Path) -> anyhow::Result<Option<u64>> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let open = |path: &Path| File::open(path).with_context(|| format!("'{}' cannot be read", path.display()));
    let (mut left, mut right) = (open(left)?, open(right)?);
    let (mut left_chunk, mut right_chunk) = (Vec::new(), Vec::new());
    let mut offset = 0;
    loop {
        for (file, chunk) in [(&mut left, &mut left_chunk), (&mut right, &mut right_chunk)] {
            chunk.clear();
            file.take(CHUNK_BYTES).read_to_end(chunk)?;
        }
        if left_chunk != right_chunk {
            let equal = left_chunk.iter().zip(&right_chunk).take_while(|(left, right)| left == right).count();
            return Ok(Some(offset + equal as u64));
        }
        if left_chunk.is_empty() {
            return Ok(None);
        }
        offset += left_chunk.len() as u64;
    }
}

fn tell(line: &str) {
    // Nobody reads it: the exit code still says how the demo went.
    let _ = write_stdout(&format!("{line}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_needs_about_four_times_the_budget() {
        for ram_bytes in [8_u64 << 20, 128 << 20, 1 << 30] {
            let bytes = file_bytes(ram_bytes);
            let needed = sort_bytes(Written { bytes, line_count: bytes / LINE_BYTES });
            assert!((4 * ram_bytes..5 * ram_bytes).contains(&needed), "{ram_bytes}: {needed}");
        }
    }

    #[test]
    fn differences_are_found_at_their_place() {
        let dir = Workshop::make(&std::env::temp_dir()).unwrap();
        let (left, right) = (dir.path("left"), dir.path("right"));
        let mut bytes = vec![7_u8; (1 << 20) + 500];
        std::fs::write(&left, &bytes).unwrap();
        std::fs::write(&right, &bytes).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), None);
        bytes[(1 << 20) + 3] = 8;
        std::fs::write(&right, &bytes).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), Some((1 << 20) + 3));
        std::fs::write(&right, &bytes[..1 << 20]).unwrap();
        assert_eq!(first_difference(&left, &right).unwrap(), Some(1 << 20));
    }
}
