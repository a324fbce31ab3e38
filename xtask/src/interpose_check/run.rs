//! One run of a case, in one way, with a limit of time.
//!
//! Must hold: no process of a run outlives it, not one that has left the process group either: see `family`.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::case::Case;
use super::family::{Family, MARK};
use crate::rights::AS_NOBODY;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// The smallest budget that `uswap run` takes.
const RAM_KIB_MIN: u64 = 8 << 10;

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Own,
    Nobody,
}

/// What stands between the program and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Alone,
    /// `counting` is preloaded, and patches a site after so many of its calls; 0: never.
    Counted {
        patch_after: u32,
    },
    /// `uswap run`.
    Evicted {
        ram_kib: u64,
    },
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Alone => "alone",
            Way::Counted { patch_after: 0 } => "dispatched",
            Way::Counted { .. } => "patched",
            Way::Evicted { .. } => "evicted",
        }
    }

    /// With half of what it had in RAM by itself.
    pub fn half(peak_kib: u64) -> Way {
        Way::Evicted { ram_kib: (peak_kib / 2).max(RAM_KIB_MIN) }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
    /// It was killed after the time that it may take.
    TooLate,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        match status.code() {
            Some(code) => End::Code(code),
            None => End::Signal(status.signal().unwrap_or(0)),
        }
    }
}

/// What a run did.
#[derive(Debug)]
pub struct Outcome {
    pub end: End,
    pub stdout: String,
    pub stderr: String,
    /// The most that its processes had in RAM of their own, as far as it was seen.
    pub peak_kib: u64,
    /// Pages that were evicted, with `Way::Evicted`.
    pub evicted: u64,
    pub elapsed: Duration,
}

/// Where cases run: a directory that everybody may enter.
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// A new one, with the programs of ours in it.
    pub fn new(own_files: &[PathBuf]) -> Result<Place> {
        let path = std::env::temp_dir().join(format!("interpose-check-{}", std::process::id()));
        let place = Place { path };
        for directory in [place.path.clone(), place.own(""), place.prepared()] {
            make_open(&directory)?;
        }
        for file in own_files {
            let name = file.file_name().context("what was built has a name")?;
            fs::copy(file, place.own("").join(name))
                .with_context(|| format!("copying {}", file.display()))?;
        }
        Ok(place)
    }

    fn own(&self, name: &str) -> PathBuf {
        self.path.join("own").join(name)
    }

    fn prepared(&self) -> PathBuf {
        self.path.join("prepared")
    }

    fn directory(&self) -> PathBuf {
        self.path.join("run")
    }

    /// Makes what the script of `case` needs.
    pub fn prepare(&self, case: &Case) -> Result<()> {
        empty(&self.prepared())?;
        let mut line = Command::new("bash");
        line.args(["-e", "-c", &case.prepare]).current_dir(self.prepared()).stdin(Stdio::null());
        let output = line.output().context("starting bash")?;
        ensure!(output.status.success(), "preparing: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn command(&self, case: &Case, way: Way, user: User) -> Command {
        let mut words: Vec<String> = Vec::new();
        if user == User::Nobody {
            words.extend(AS_NOBODY.map(str::to_owned));
        }
        if let Way::Evicted { ram_kib } = way {
            let (uswap, json) = (self.own("uswap"), self.path.join("report.json"));
            let swap = self.path.join("swap");
            words.extend([&uswap.display().to_string(), "run", "--quiet"].map(str::to_owned));
            words.extend(["--ram".to_owned(), format!("{ram_kib}K"), "--json".to_owned()]);
            words.extend([json.display().to_string(), "--swap".to_owned(), swap.display().to_string()]);
            words.push("--".to_owned());
        }
        words.extend(["bash", "-c", &case.script].map(str::to_owned));
        let mut line = Command::new(&words[0]);
        line.args(&words[1..]).process_group(0).current_dir(self.directory()).stdin(Stdio::null());
        line.env("HOME", self.directory()).env("TMPDIR", self.directory());
        line.env("PREPARED", self.prepared()).env(MARK, self.mark());
        if let Way::Counted { patch_after } = way {
            // SIGBUS and SIGSEGV: the signals that a host asks for.
            line.env("LD_PRELOAD", self.own("libcounting.so")).env("INTERPOSE_FAULTS", "1088");
            line.env("INTERPOSE_PATCH_AFTER", patch_after.to_string());
        }
        line
    }

    /// What the environment of each process of a run has.
    fn mark(&self) -> String {
        self.path.display().to_string()
    }

    /// Runs it once.
    pub fn run(&self, case: &Case, way: Way, user: User) -> Result<Outcome> {
        empty(&self.directory())?;
        empty(&self.path.join("swap"))?;
        let json = self.path.join("report.json");
        let _from_before = fs::remove_file(&json);
        let (stdout, stderr) = (self.path.join("stdout"), self.path.join("stderr"));
        let mut line = self.command(case, way, user);
        line.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let start = Instant::now();
        let child = line.spawn().with_context(|| format!("starting {line:?}"))?;
        let (end, peak_kib) = self.wait(child, start + Duration::from_secs(case.seconds_max))?;
        let text =
            |path: &Path| -> Result<String> { Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned()) };
        Ok(Outcome {
            end,
            stdout: text(&stdout)?,
            stderr: text(&stderr)?,
            peak_kib,
            evicted: evicted(&fs::read_to_string(&json).unwrap_or_default()),
            elapsed: start.elapsed(),
        })
    }

    /// Until it ends or is too late; then nothing of it is left.
    fn wait(&self, mut child: Child, latest: Instant) -> Result<(End, u64)> {
        let mut family = Family::new(&self.mark());
        let mut peak_kib = 0;
        let mut end = None;
        while end.is_none() && Instant::now() < latest {
            peak_kib = peak_kib.max(family.look().into_iter().map(own_kib).sum());
            sleep(LOOK);
            end = child.try_wait()?.map(End::from);
        }
        if end.is_none() {
            kill(&format!("-{}", child.id()));
        }
        while let [first, ..] = family.look().as_slice() {
            kill(&first.to_string());
            sleep(LOOK);
            let _ended = child.try_wait()?;
        }
        child.wait()?;
        Ok((end.unwrap_or(End::TooLate), peak_kib))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _left_to_the_user = fs::remove_dir_all(&self.path);
    }
}

/// A directory that everybody may write.
fn make_open(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(())
}

/// The directory is new: what was in it may have been protected by its owner.
fn empty(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("removing {}", path.display()))?;
    }
    make_open(path)
}

/// By the shell's own `kill`: not every machine has a program of that name.
fn kill(whom: &str) {
    let script = r#"kill -KILL -- "$0""#;
    let _has_ended = Command::new("bash").args(["-c", script, whom]).stderr(Stdio::null()).status();
}

/// Anonymous memory of a process that is in RAM.
fn own_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

/// Pages that left, by the report of a run.
fn evicted(report: &str) -> u64 {
    let number = |name: &str| -> Option<u64> {
        let rest = report.split(&format!("\"{name}\":")).nth(1)?.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    ["pages_compressed", "pages_same_filled", "pages_unchanged", "pages_incompressible"]
        .into_iter()
        .filter_map(number)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_leaves_behind_ends_with_its_run() {
        let place = Place::new(&[]).expect("the temporary directory is writable");
        let script = "setsid sleep 1000 & echo started; exit 3";
        let outcome = place.run(&Case::new("x", script), Way::Alone, User::Own).expect("it starts");
        assert_eq!((outcome.end, outcome.stdout.as_str()), (End::Code(3), "started\n"));
        assert!(Family::new(&place.mark()).look().is_empty());
        let late = Case::new("x", "sleep 1000").seconds_max(1);
        assert_eq!(place.run(&late, Way::Alone, User::Own).expect("it starts").end, End::TooLate);
        assert!(Family::new(&place.mark()).look().is_empty());
    }

    #[test]
    fn pages_are_read_from_a_report() {
        assert_eq!(evicted("{\n \"pages_compressed\": 12,\n \"pages_unchanged\": 30\n}"), 42);
        assert_eq!(evicted(""), 0);
    }
}
