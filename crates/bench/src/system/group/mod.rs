//! A memory cgroup for one run, of either version.
//!
//! What must hold: whatever runs in it is killed and its directories are removed when its scope ends. Without
//! [`Group::set_limit`] it only counts.

pub(super) mod cpu;
pub mod place;
mod remove;
mod statistics;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use self::cpu::CpuClock;
use self::place::{Place, Version, places};
pub use self::statistics::GroupMemory;
use super::reread::Reread;
use super::undo::{Scope, Step};

/// Puts itself into the directories (their number comes first), then becomes the program. 125 says: not the program.
const ENTER: &str = "n=$1; shift; while [ \"$n\" -gt 0 ]; do echo $$ > \"$1/cgroup.procs\" || exit 125; \
                     shift; n=$((n - 1)); done; exec \"$@\"";

/// A group made by this process.
pub struct Group {
    version: Version,
    /// The memory controller.
    dir: PathBuf,
    /// For the processor time, if `dir` does not count it.
    cpu_dir: Option<PathBuf>,
    cpu: CpuClock,
    statistics: Reread,
    usage: Reread,
    events: Reread,
    /// Held while the file differs from it.
    limit_bytes: Mutex<Option<u64>>,
}

impl Group {
    /// Makes one where this user may, to be removed by `scope`.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn make(scope: &mut Scope) -> anyhow::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("uswap-bench-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mut why = anyhow::anyhow!("no memory controller is mounted");
        for place in places("memory") {
            match make_dir(scope, &place, &name) {
                Ok(dir) => return Self::open(scope, place.version, dir, &name),
                Err(error) => why = error,
            }
        }
        Err(why.context(
            "no memory cgroup can be made, and without one no rival can be measured; on a machine with systemd \
             `systemd-run --scope -p Delegate=yes uswap bench ...` may help",
        ))
    }

    fn open(scope: &mut Scope, version: Version, dir: PathBuf, name: &str) -> anyhow::Result<Self> {
        let (usage, events) = match version {
            Version::One => ("memory.usage_in_bytes", "memory.oom_control"),
            Version::Two => ("memory.current", "memory.events"),
        };
        match version {
            Version::One => {
                // A new group inherits from its parent; version 2 always has the system's. The same for both:
                let swappiness = fs::read_to_string("/proc/sys/vm/swappiness").unwrap_or("60".to_owned());
                let _ = fs::write(dir.join("memory.swappiness"), swappiness.trim());
                let _ = fs::write(dir.join("memory.memsw.limit_in_bytes"), "-1");
            }
            // Missing where the kernel has no swap; then `swapon` says so.
            Version::Two => drop(fs::write(dir.join("memory.swap.max"), "max")),
        }
        let cpu_dir = match version {
            Version::One => places("cpuacct").iter().find_map(|place| make_cpu_dir(scope, place, name).ok()),
            Version::Two => None,
        };
        Ok(Self {
            version,
            cpu: CpuClock::of([Some(dir.as_path()), cpu_dir.as_deref()].into_iter().flatten()),
            statistics: Reread::open(dir.join("memory.stat"))?,
            usage: Reread::open(dir.join(usage))?,
            events: Reread::open(dir.join(events))?,
            limit_bytes: Mutex::new(None),
            dir,
            cpu_dir,
        })
    }

    /// Its directory in the tree of the memory controller.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command that runs `program` in it.
    pub fn command(&self, program: &[OsString]) -> Command {
        let dirs = [Some(self.dir.as_path()), self.cpu_dir.as_deref()];
        enter(&dirs.into_iter().flatten().collect::<Vec<_>>(), program)
    }

    /// Limits its memory; swap stays free.
    ///
    /// # Errors
    /// If the kernel refuses, as when what is in it cannot be made smaller.
    pub fn set_limit(&self, bytes: u64) -> anyhow::Result<()> {
        let mut limit = self.limit_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_limit(bytes)?;
        *limit = Some(bytes);
        Ok(())
    }

    /// What [`Self::set_limit`] set.
    pub fn limit_bytes(&self) -> Option<u64> {
        *self.limit_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_limit(&self, bytes: u64) -> anyhow::Result<()> {
        let file = match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        fs::write(self.dir.join(file), bytes.to_string())
            .with_context(|| format!("'{}' does not take {bytes}", self.dir.join(file).display()))
    }

    /// What the limit is compared with: all pages charged, caches of files and the kernel's own for it too. Very cheap.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn usage_bytes(&self) -> anyhow::Result<u64> {
        self.usage.number()
    }

    /// Lets the kernel reclaim in this thread until `free_bytes` below the limit are free, as far as it can. Nothing
    /// happens without a limit.
    ///
    /// Version 2 has a file for that. Version 1 has not: there the limit is lowered and put back. The kernel reclaims
    /// first and lowers then, so the lower limit holds only until it is put back: 10 us on 6.18, 0.1 ms (at worst 30
    /// ms) with 20 others waiting for 2 processors. A soft limit does nothing as long as the machine has free memory:
    /// measured too, the program ran into its limit as often as without.
    ///
    /// Against a program that refills what is reclaimed it may take seconds.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn reclaim(&self, free_bytes: u64) -> anyhow::Result<()> {
        let limit = self.limit_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(limit_bytes) = *limit else { return Ok(()) };
        let wanted_bytes = limit_bytes.saturating_sub(free_bytes);
        match self.version {
            Version::One => {
                // It fails if not all could be reclaimed; what could be is.
                let _ = self.write_limit(wanted_bytes);
                self.write_limit(limit_bytes)
            }
            Version::Two => {
                let too_much = self.usage_bytes()?.saturating_sub(wanted_bytes);
                match fs::write(self.dir.join("memory.reclaim"), too_much.to_string()) {
                    // Not all could be reclaimed; what could be is.
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                    result => result.context("memory.reclaim is missing: it needs Linux 5.19"),
                }
            }
        }
    }

    /// What it holds now.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn memory(&self) -> anyhow::Result<GroupMemory> {
        GroupMemory::parse(self.version, &self.statistics.text()?)
    }

    /// The same from its processes, without asking the group: reading memory.stat brings the kernel's statistics up to
    /// date, and some runs must not do that. Pages of several processes count for each.
    pub fn memory_of_processes(&self) -> GroupMemory {
        let mut sum = GroupMemory::default();
        for id in self.process_ids() {
            let statm = uswap_os::process::StatmFile::open(Some(id)).and_then(|file| file.read());
            // It may have ended just now.
            let Ok(statm) = statm else { continue };
            sum.anonymous_bytes += statm.anonymous_bytes();
            sum.file_list_bytes += statm.shared_pages * uswap_units::PAGE_BYTES as u64;
        }
        sum
    }

    /// Processor seconds of all that ran in it; 0 if the group is gone.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu.seconds(|| self.process_ids()).unwrap_or(0.0)
    }

    /// How many processes the kernel has killed in it for want of memory.
    pub fn kill_count(&self) -> u64 {
        self.events.text().ok().and_then(|text| parse_kills(&text)).unwrap_or(0)
    }

    /// Kills all processes in it; they may take a moment to be gone.
    pub fn kill(&self) {
        remove::kill_all(&self.dir);
    }

    /// Processes in it now.
    pub fn process_ids(&self) -> Vec<u32> {
        remove::process_ids(&self.dir)
    }
}

fn enter(dirs: &[&Path], program: &[OsString]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "sh", &dirs.len().to_string()]).args(dirs).args(program);
    command
}

/// Of memory.events and memory.oom_control alike.
fn parse_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

fn make_dir(scope: &mut Scope, place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    if place.version == Version::Two {
        enable_memory(scope, &place.dir)?;
    }
    let limit_file = match place.version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    make_useful_dir(scope, &place.dir.join(name), limit_file)
}

fn make_cpu_dir(scope: &mut Scope, place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    let file = match place.version {
        Version::One => "cpuacct.usage",
        Version::Two => "cpu.stat",
    };
    make_useful_dir(scope, &place.dir.join(name), file)
}

/// Makes a directory that must then hold `file`, and that processes can be put into.
fn make_useful_dir(scope: &mut Scope, dir: &Path, file: &str) -> anyhow::Result<PathBuf> {
    scope.change(|| {
        fs::create_dir(dir).with_context(|| format!("'{}' cannot be made", dir.display()))?;
        let useful = is_useful(dir, file);
        if useful.is_err() {
            let _ = fs::remove_dir(dir);
        }
        useful?;
        let removed = dir.to_owned();
        let step = Step::new(format!("rmdir {}", dir.display()), move || remove::remove(&removed));
        Ok((dir.to_owned(), step))
    })
}

fn is_useful(dir: &Path, file: &str) -> anyhow::Result<()> {
    anyhow::ensure!(dir.join(file).exists(), "'{}' has no {file}", dir.display());
    let entered = enter(&[dir], &["true".into()]).stderr(Stdio::null()).status()?;
    anyhow::ensure!(entered.success(), "no process may be put into '{}'", dir.display());
    Ok(())
}

/// Gives the memory controller to the groups below `parent`, unless they have it.
fn enable_memory(scope: &mut Scope, parent: &Path) -> anyhow::Result<()> {
    let file = parent.join("cgroup.subtree_control");
    let now = fs::read_to_string(&file).with_context(|| format!("'{}' cannot be read", file.display()))?;
    if now.split_whitespace().any(|name| name == "memory") {
        return Ok(());
    }
    scope.change(|| {
        fs::write(&file, "+memory")
            .with_context(|| format!("'{}' takes no memory controller", file.display()))?;
        let mend = format!("echo -memory > {}", file.display());
        Ok(((), Step::new(mend, move || Ok(fs::write(&file, "-memory")?))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_read_from_files_of_both_versions() {
        assert_eq!(parse_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(parse_kills("low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(parse_kills("low 0\n"), None);
    }
}
