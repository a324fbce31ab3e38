//! `--ram` as it is typed: a size, or `auto`, which is what the place allows where uswap is started.
//!
//! Looked at are the memory cgroup (a container, a Slurm job, a systemd unit) and those around it, what Slurm says in
//! the environment, and what the machine has available. The least counts. A tenth of it is left for what a budget does
//! not count: page tables, sockets, and pages of files that programs have mapped and use.

use std::path::{Path, PathBuf};

use crate::human;
use crate::size::{at_least, parse_ram_of_machine};

/// A budget.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ram {
    /// Bytes of it.
    pub bytes: u64,
    /// Where it comes from, if it was not typed, as a clause.
    pub why: Option<String>,
}

/// Of so much one part is left.
const MARGIN_PART: u64 = 10;

/// Reads `--ram` of `run`.
///
/// # Errors
/// What is wrong with `text`, with an example; or that this place allows too little.
pub fn parse_ram_or_auto(text: &str) -> Result<Ram, String> {
    match text {
        "auto" => auto(Path::new("/"), |name| std::env::var(name).ok()),
        _ => parse_ram_of_machine(text).map(|bytes| Ram { bytes, why: None }),
    }
}

/// What some limit leaves.
struct Allowance {
    bytes: u64,
    /// As a noun, with where it is said.
    what: String,
}

fn auto(root: &Path, variable: impl Fn(&str) -> Option<String>) -> Result<Ram, String> {
    let found = of_groups(root).into_iter().chain(of_slurm(variable)).chain(of_machine(root));
    let Some(least) = found.min_by_key(|allowance| allowance.bytes) else {
        return Err(
            "auto: what this machine has cannot be found out (is /proc mounted?): give a size".to_owned()
        );
    };
    let bytes = (least.bytes - least.bytes / MARGIN_PART) >> 20 << 20;
    let why = format!("{}, less a tenth for what a budget does not count", least.what);
    at_least(bytes)
        .map_err(|_| format!("auto is {} here, too little for any program ({why})", human::bytes(bytes)))?;
    Ok(Ram { bytes, why: Some(why) })
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

/// The group of this process and those around it, as far as they limit memory.
fn of_groups(root: &Path) -> Vec<Allowance> {
    let Some(groups) = read(&root.join("proc/self/cgroup")) else { return Vec::new() };
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let path = Path::new(path.trim_start_matches('/'));
        if controllers.is_empty() {
            found.extend(
                up_from(&root.join("sys/fs/cgroup"), path).iter().filter_map(|dir| version_2(dir, root)),
            );
        } else if controllers.split(',').any(|controller| controller == "memory") {
            found.extend(
                up_from(&root.join("sys/fs/cgroup/memory"), path)
                    .iter()
                    .filter_map(|dir| version_1(dir, root)),
            );
        }
    }
    found
}

/// Directories of a group and those around it. Where a container sees its own group as the uppermost, that is the only
/// one, whatever its path is called outside.
fn up_from(mounted: &Path, path: &Path) -> Vec<PathBuf> {
    path.ancestors().map(|part| mounted.join(part)).collect()
}

fn version_2(dir: &Path, root: &Path) -> Option<Allowance> {
    let most = number(&dir.join("memory.max"))?;
    let current = number(&dir.join("memory.current"))?;
    Some(left_of(most, current, dir, root, "memory.max"))
}

fn version_1(dir: &Path, root: &Path) -> Option<Allowance> {
    /// Without a limit it is the largest number of pages that fits.
    const NONE_FROM: u64 = 1 << 60;
    let most = number(&dir.join("memory.limit_in_bytes")).filter(|most| *most < NONE_FROM)?;
    let current = number(&dir.join("memory.usage_in_bytes"))?;
    Some(left_of(most, current, dir, root, "memory.limit_in_bytes"))
}

/// What a group allows beside what others in it have. Pages of files go when they must.
fn left_of(most: u64, current: u64, dir: &Path, root: &Path, name: &str) -> Allowance {
    let stat = read(&dir.join("memory.stat")).unwrap_or_default();
    let of_files: u64 = stat
        .lines()
        .filter_map(|line| line.strip_prefix("inactive_file ").or_else(|| line.strip_prefix("active_file ")))
        .filter_map(|value| value.parse::<u64>().ok())
        .sum();
    let used = current.saturating_sub(of_files);
    let dir = Path::new("/").join(dir.strip_prefix(root).unwrap_or(dir));
    let what = format!(
        "{} that the memory cgroup allows ({}), less {} that is used in it",
        human::bytes(most),
        dir.join(name).display(),
        human::bytes(used)
    );
    Allowance { bytes: most.saturating_sub(used), what }
}

/// What a job of Slurm was given, in MiB.
fn of_slurm(variable: impl Fn(&str) -> Option<String>) -> Option<Allowance> {
    let value = |name: &str| variable(name)?.parse::<u64>().ok();
    let (mib, name) = match value("SLURM_MEM_PER_NODE") {
        Some(mib) => (mib, "SLURM_MEM_PER_NODE"),
        None => {
            let processors = value("SLURM_CPUS_ON_NODE")?;
            (
                value("SLURM_MEM_PER_CPU")?.saturating_mul(processors),
                "SLURM_MEM_PER_CPU and SLURM_CPUS_ON_NODE",
            )
        }
    };
    // 0: all of the node.
    (mib > 0).then(|| {
        let bytes = mib.saturating_mul(1 << 20);
        Allowance {
            bytes,
            what: format!("{} that Slurm has given to this job ({name})", human::bytes(bytes)),
        }
    })
}

fn of_machine(root: &Path) -> Option<Allowance> {
    let info = read(&root.join("proc/meminfo"))?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let bytes = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10;
    Some(Allowance { bytes, what: format!("{} that this machine has available", human::bytes(bytes)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated machine.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str, files: &[(&str, &str)]) -> Place {
            let dir = std::env::temp_dir().join(format!("uswap-ram-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = dir.join(path);
                std::fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
                std::fs::write(path, text).expect("it can be written");
            }
            Place(dir)
        }
        fn auto(&self) -> Result<Ram, String> {
            self.auto_in(&[])
        }
        fn auto_in(&self, variables: &[(&str, &str)]) -> Result<Ram, String> {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            auto(&self.0, |name| find(name).map(|(_, value)| (*value).to_owned()))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("it is there");
        }
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n");

    #[test]
    fn the_least_of_all_groups_counts_without_what_others_use() {
        let place = Place::new(
            "groups",
            &[
                MEMORY,
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
                ("sys/fs/cgroup/a/memory.current", "314572800\n"),
                ("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 104857600\nactive_file 104857600\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/b/memory.current", "1\n"),
            ],
        );
        let ram = place.auto().expect("there is enough");
        assert_eq!(ram.bytes, 831 << 20, "nine tenths of 1024 - 100");
        let why = ram.why.expect("it was not typed");
        assert!(
            why.starts_with(
                "1 GiB that the memory cgroup allows (/sys/fs/cgroup/a/memory.max), less 100 MiB"
            ),
            "{why}"
        );
    }

    #[test]
    fn a_group_of_the_older_kind_is_read_too() {
        let place = Place::new(
            "older",
            &[
                MEMORY,
                ("proc/self/cgroup", "5:cpu:/x\n4:memory,hugetlb:/docker/1\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n"),
                ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "104857600\n"),
                ("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "0\n"),
            ],
        );
        assert_eq!(place.auto().expect("there is enough").bytes, 90 << 20);
    }

    #[test]
    fn slurm_and_the_machine_are_asked() {
        let place = Place::new("slurm", &[MEMORY]);
        assert_eq!(place.auto().expect("there is enough").bytes, 3686 << 20);
        let of_job = |variables| place.auto_in(variables).expect("there is enough").bytes >> 20;
        assert_eq!(of_job(&[("SLURM_MEM_PER_NODE", "1000")]), 900);
        assert_eq!(of_job(&[("SLURM_MEM_PER_CPU", "100"), ("SLURM_CPUS_ON_NODE", "3")]), 270);
        assert_eq!(of_job(&[("SLURM_MEM_PER_NODE", "0")]), 3686, "all of the node");
    }

    #[test]
    fn what_is_too_little_is_said() {
        let place = Place::new("little", &[("proc/meminfo", "MemAvailable: 8000 kB\n")]);
        let error = place.auto().expect_err("it is less than 8 MiB");
        assert!(error.contains("auto is 7 MiB here") && error.contains("has available"), "{error}");
        let error = Place::new("nothing", &[("x", "")]).auto().expect_err("nothing is known");
        assert!(error.contains("give a size"), "{error}");
    }
}
