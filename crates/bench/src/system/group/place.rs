//! Where a cgroup may be made.

use std::fs;
use std::path::{Path, PathBuf};

/// Version of the cgroup interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// One tree for each controller.
    One,
    /// One tree for all.
    Two,
}

/// A directory in which a group might be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose files are in it.
    pub version: Version,
    /// The directory.
    pub dir: PathBuf,
}

/// Places of this machine for groups with `controller`, best first.
pub fn places(controller: &str) -> Vec<Place> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    places_in(controller, &mountinfo, &own)
}

/// For each tree that has `controller`, or may have it: below one's own group, beside it, below the root.
fn places_in(controller: &str, mountinfo: &str, own: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for mount in mountinfo.lines().filter_map(|line| Mount::parse(line, controller)) {
        let own_path = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            let wanted = match mount.version {
                Version::One => controllers.split(',').any(|name| name == controller),
                Version::Two => controllers.is_empty(),
            };
            fields.next().filter(|_| wanted)
        });
        let point = Path::new(mount.point);
        let inside = own_path.and_then(|path| Path::new(path).strip_prefix(mount.root).ok());
        let own_dir = inside.map(|inside| point.join(inside));
        let beside = own_dir.as_deref().and_then(Path::parent).filter(|dir| dir.starts_with(point));
        for dir in [own_dir.as_deref(), beside, Some(point)].into_iter().flatten() {
            // Paths may end in a slash: rebuilt, equal ones compare equal.
            let place = Place { version: mount.version, dir: dir.components().collect() };
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

struct Mount<'a> {
    version: Version,
    root: &'a str,
    point: &'a str,
}

impl<'a> Mount<'a> {
    /// A line is: id parent major:minor root point options optional-fields `-` kind source super-options.
    fn parse(line: &'a str, controller: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1)?;
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == controller) => Version::One,
            "cgroup2" => Version::Two,
            _ => return None,
        };
        Some(Self { version, root, point })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
25 20 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro
26 25 0:23 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 - cgroup cgroup rw,cpu,cpuacct
28 25 0:25 /slice /sys/fs/cgroup/unified rw shared:8 - cgroup2 cgroup2 rw,nsdelegate
";

    fn found(controller: &str, own: &str) -> Vec<(Version, String)> {
        let places = places_in(controller, MOUNTINFO, own);
        places.into_iter().map(|place| (place.version, place.dir.display().to_string())).collect()
    }

    #[test]
    fn places_of_both_versions_are_found() {
        let own = "4:memory:/box/one\n1:cpu,cpuacct:/\n0::/slice/app\n";
        let unified =
            [(Version::Two, "/sys/fs/cgroup/unified/app"), (Version::Two, "/sys/fs/cgroup/unified")];
        let memory = [
            (Version::One, "/sys/fs/cgroup/memory/box/one"),
            (Version::One, "/sys/fs/cgroup/memory/box"),
            (Version::One, "/sys/fs/cgroup/memory"),
        ];
        let with_names = |places: &[(Version, &str)]| {
            places.iter().map(|(version, dir)| (*version, (*dir).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(found("memory", own), with_names(&[&memory[..], &unified[..]].concat()));
        let accounts = [(Version::One, "/sys/fs/cgroup/cpu,cpuacct")];
        assert_eq!(found("cpuacct", own), with_names(&[&accounts[..], &unified[..]].concat()));
    }

    #[test]
    fn a_group_that_is_not_known_leaves_the_roots() {
        assert_eq!(found("memory", "").len(), 2);
        assert_eq!(places_in("memory", "", "4:memory:/box"), []);
    }
}
