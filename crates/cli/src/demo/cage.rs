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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

impl Group {
    fn make(bytes: u64) -> Result<Self, String> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let places = places(&mountinfo, &own);
        let mut why = "no memory controller is mounted".to_owned();
        for (version, parent) in places {
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

/// Directories in which a memory cgroup might be made, best first: below one's own, beside it, below the root.
fn places(mountinfo: &str, own: &str) -> Vec<(Version, PathBuf)> {
    let mut places = Vec::new();
    for mount in mountinfo.lines().filter_map(Mount::parse) {
        let own_path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            let wanted = match mount.version {
                Version::One => controllers.split(',').any(|name| name == "memory"),
                Version::Two => controllers.is_empty(),
            };
            fields.next().filter(|_| wanted)
        });
        let point = Path::new(mount.point);
        let inside = own_path.and_then(|path| Path::new(path).strip_prefix(mount.root).ok());
        let own_dir = inside.map(|inside| point.join(inside));
        let beside = own_dir.as_deref().and_then(Path::parent).filter(|dir| dir.starts_with(point));
        let candidates = [own_dir.as_deref(), beside, Some(point)];
        for dir in candidates.into_iter().flatten() {
            // Paths from the root of the mount may end in a slash: rebuild them, so that equal ones compare equal.
            let place = (mount.version, dir.components().collect::<PathBuf>());
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// A mount that has the memory controller, or may have it.
struct Mount<'a> {
    version: Version,
    root: &'a str,
    point: &'a str,
}

impl<'a> Mount<'a> {
    /// A line is: id parent major:minor root point options optional-fields `-` kind source super-options.
    fn parse(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1)?;
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        Some(Self { version, root, point })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_both_versions_are_found() {
        let mountinfo = "\
25 20 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro
26 25 0:23 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
27 25 0:24 / /sys/fs/cgroup/cpu rw shared:7 - cgroup cgroup rw,cpu
28 25 0:25 /slice /sys/fs/cgroup/unified rw shared:8 - cgroup2 cgroup2 rw,nsdelegate
";
        let own = "4:memory:/box/one\n1:cpu:/\n0::/slice/app\n";
        let expected = [
            (Version::One, "/sys/fs/cgroup/memory/box/one"),
            (Version::One, "/sys/fs/cgroup/memory/box"),
            (Version::One, "/sys/fs/cgroup/memory"),
            (Version::Two, "/sys/fs/cgroup/unified/app"),
            (Version::Two, "/sys/fs/cgroup/unified"),
        ]
        .map(|(version, path)| (version, PathBuf::from(path)));
        assert_eq!(places(mountinfo, own), expected);
        assert_eq!(places("", own), []);
    }

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
