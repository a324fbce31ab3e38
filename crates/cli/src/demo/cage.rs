//! Holds a program to a limit as uswap would, but by the kernel alone: a memory cgroup without swap, or, where none may
//! be made, a limit on address space.
//!
//! What must hold: the cgroup is removed again, and nothing outside of it is changed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use uswap_bench::system::group::place::{Place, Version, places};

use crate::human;

/// A limit that programs can be started in.
pub enum Cage {
    /// A memory cgroup.
    Group(Group),
    /// RLIMIT_AS.
    AddressSpace {
        /// The limit.
        bytes: u64,
        /// Why it is not a cgroup.
        why: String,
    },
}

impl Cage {
    /// Makes the best one that this user may make.
    pub fn make(bytes: u64) -> Self {
        match Group::make(bytes) {
            Ok(group) => Self::Group(group),
            Err(why) => Self::AddressSpace { bytes, why },
        }
    }

    /// What it is, as a part of a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::Group(group) => format!("a memory cgroup of {} without swap", human::bytes(group.bytes)),
            Self::AddressSpace { bytes, why } => {
                format!("an address space limit of {} (no memory cgroup: {why})", human::bytes(*bytes))
            }
        }
    }

    /// A command that starts `program` inside. `sh` puts itself in and then becomes the program.
    pub fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("/bin/sh");
        match self {
            Self::Group(group) => {
                command.args(["-c", "echo $$ > \"$1/cgroup.procs\" || exit 125; shift; exec \"$@\"", "sh"]);
                command.arg(&group.dir);
            }
            Self::AddressSpace { bytes, .. } => {
                command.args(["-c", "ulimit -v \"$1\" || exit 125; shift; exec \"$@\"", "sh"]);
                command.arg((bytes / 1024).to_string());
            }
        }
        command.arg(program);
        command
    }

    /// How many processes the kernel has killed in it for want of memory, if it says.
    pub fn kill_count(&self) -> Option<u64> {
        match self {
            Self::Group(group) => group.kill_count(),
            Self::AddressSpace { .. } => None,
        }
    }
}

/// A memory cgroup made by this process.
pub struct Group {
    dir: PathBuf,
    bytes: u64,
    version: Version,
}

impl Group {
    fn make(bytes: u64) -> Result<Self, String> {
        let mut why = "no memory controller is mounted".to_owned();
        for Place { version, dir: parent } in places("memory") {
            match Self::make_in(&parent, version, bytes) {
                Ok(group) => return Ok(group),
                Err(error) => why = format!("{}: {error}", parent.display()),
            }
        }
        Err(why)
    }

    fn make_in(parent: &Path, version: Version, bytes: u64) -> io::Result<Self> {
        let dir = parent.join(format!("uswap-demo-{}", std::process::id()));
        fs::create_dir(&dir)?;
        // From here on it is removed by drop, also if it turns out to be useless.
        let group = Self { dir, bytes, version };
        let limit = bytes.to_string();
        match version {
            Version::One => {
                fs::write(group.dir.join("memory.limit_in_bytes"), &limit)?;
                // Both may be missing where the kernel has no swap; then there is none to switch off.
                let _ = fs::write(group.dir.join("memory.swappiness"), "0");
                let _ = fs::write(group.dir.join("memory.memsw.limit_in_bytes"), &limit);
            }
            Version::Two => {
                fs::write(group.dir.join("memory.max"), &limit)?;
                let _ = fs::write(group.dir.join("memory.swap.max"), "0");
            }
        }
        let mut test = Command::new("/bin/sh");
        test.args(["-c", "echo $$ > \"$1/cgroup.procs\"", "sh"]).arg(&group.dir);
        let entered = test.stderr(std::process::Stdio::null()).status()?;
        if entered.success() { Ok(group) } else { Err(io::Error::other("no process may be put into it")) }
    }

    fn kill_count(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.dir.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was killed in it may need a moment to be gone.
        for _ in 0..100 {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
        crate::message::say(format_args!(
            "the cgroup '{}' could not be removed: rmdir it",
            self.dir.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_address_space_makes_a_large_allocation_fail() {
        let cage = Cage::AddressSpace { bytes: 64 << 20, why: "test".to_owned() };
        let mut command = cage.command(OsStr::new("dd"));
        command
            .args(["if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"])
            .stderr(std::process::Stdio::null());
        assert!(!command.status().unwrap().success());
        assert_eq!(cage.kill_count(), None);
        let mut small = cage.command(OsStr::new("dd"));
        small.args(["if=/dev/zero", "of=/dev/null", "bs=1M", "count=1"]).stderr(std::process::Stdio::null());
        assert!(small.status().unwrap().success());
    }

    /// Where no cgroup may be made the reason must be given; where one may, it must hold and go away.
    #[test]
    fn a_group_holds_and_is_removed_or_the_reason_is_given() {
        let group = match Group::make(32 << 20) {
            Ok(group) => group,
            Err(why) => return assert!(!why.is_empty()),
        };
        let dir = group.dir.clone();
        let cage = Cage::Group(group);
        let mut command = cage.command(OsStr::new("dd"));
        command
            .args(["if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"])
            .stderr(std::process::Stdio::null());
        assert!(!command.status().unwrap().success());
        assert!(cage.kill_count().is_some_and(|count| count > 0));
        drop(cage);
        assert!(!dir.exists());
    }
}
