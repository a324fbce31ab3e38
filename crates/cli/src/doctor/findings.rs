//! From what the kernel answered to what it means for `uswap run`.
//!
//! What must hold: a pure function of its arguments, so each bad machine can be made up in a test. Every finding that
//! is not "works" says why it matters and, where one line can change it, that line.

use std::path::Path;

use uswap_os::Errno;
use uswap_os::file::SwapFileError;
use uswap_os::probe::{HugePages, Probe};
use uswap_os::uffd::UffdError;
use uswap_os::without::KernelFeature;

use super::finding::{Finding, Verdict, needed, unless_switched_off, wanted, works};
use super::newer_kernels::newer;
use crate::filter::Filtered;
use crate::human;
use crate::ram::{Ram, parse_ram_or_auto};

/// What the probe does not know.
#[derive(Debug)]
pub struct Surroundings {
    /// Where the swap file would be, as typed.
    pub swap_dir: String,
    /// Path of the agent, or why there is none.
    pub agent: Result<String, String>,
    /// Inside a container, the way in is given from outside.
    pub container: Option<Container>,
    /// What `--ram auto` would be here, or why it is nothing.
    pub ram: Result<Ram, String>,
    /// What a filter of system calls does, if there is one.
    pub filtered: Option<Filtered>,
}

/// What made the container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// Docker, Podman, or another whose options are much the same.
    Docker,
    /// A pod.
    Kubernetes,
    /// Apptainer, or Singularity, as it was called.
    Apptainer,
}

impl Container {
    fn look() -> Option<Container> {
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let exists = |path: &str| Path::new(path).exists();
        if is_set("KUBERNETES_SERVICE_HOST") {
            Some(Container::Kubernetes)
        } else if is_set("APPTAINER_NAME") || is_set("SINGULARITY_NAME") || exists("/.singularity.d") {
            Some(Container::Apptainer)
        } else if exists("/.dockerenv") || exists("/run/.containerenv") {
            Some(Container::Docker)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Container::Docker => "Docker, Podman or the like",
            Container::Kubernetes => "Kubernetes",
            Container::Apptainer => "Apptainer",
        }
    }

    /// Where its filter of system calls is set.
    fn filter_option(self) -> &'static str {
        match self {
            Container::Docker => "docker run --security-opt seccomp=PROFILE ...",
            Container::Kubernetes => {
                "securityContext: {seccompProfile: {type: Localhost, localhostProfile: PROFILE}}"
            }
            Container::Apptainer => "apptainer exec --security seccomp:PROFILE ...",
        }
    }
}

impl Surroundings {
    /// Looks around.
    pub fn look(swap_dir: &Path, agent: Result<String, String>) -> Self {
        Self {
            swap_dir: swap_dir.display().to_string(),
            agent,
            container: Container::look(),
            ram: parse_ram_or_auto("auto"),
            filtered: None,
        }
    }
}

/// All findings, the ones that `run` cannot do without first.
pub fn all(probe: &Probe, surroundings: &Surroundings) -> Vec<Finding> {
    let mut findings = vec![agent(surroundings), userfaultfd(probe, surroundings)];
    findings.push(needed(
        "memfd",
        probe.memfd,
        "the tables and the pool that all processes of a run share lie in one",
        "allow memfd_create in the seccomp filter of this container",
    ));
    findings.extend(swap_directory(probe, surroundings));
    findings.extend(surroundings.filtered.as_ref().map(filter));
    findings.push(memory_limit(&surroundings.ram));
    findings.extend(surroundings.container.map(container));
    findings.extend(newer(probe));
    findings.push(io_uring(probe, surroundings));
    findings.push(huge_pages(probe));
    findings.extend(overcommit(probe));
    findings
}

fn agent(surroundings: &Surroundings) -> Finding {
    let why = "it is the part of uswap that runs inside the program";
    match &surroundings.agent {
        Ok(path) => works("agent library", path.clone(), why),
        Err(message) => Finding {
            name: "agent library",
            verdict: Verdict::Missing,
            seen: message.clone(),
            why,
            mend: None,
        },
    }
}

fn userfaultfd(probe: &Probe, surroundings: &Surroundings) -> Finding {
    let why =
        "by it the kernel lets uswap take pages from the program and bring them back when they are touched";
    let name = "userfaultfd";
    let missing = |seen: String, mend: &str| Finding {
        name,
        verdict: Verdict::Missing,
        seen,
        why,
        mend: Some(mend.to_owned()),
    };
    match probe.uffd {
        Ok(()) => works(name, "faults of user mode, which need no privilege".to_owned(), why),
        Err(UffdError::Features(errno)) => missing(
            format!("this kernel refuses what uswap needs of it ({errno})"),
            "use Linux 5.11 or newer",
        ),
        Err(UffdError::NoWayIn { system_call, device }) => missing(
            format!("the system call: {system_call}; /dev/userfaultfd: {device}"),
            &way_in(surroundings, system_call, device),
        ),
    }
}

/// The line that opens a way to userfaultfd.
fn way_in(surroundings: &Surroundings, system_call: Errno, device: Errno) -> String {
    // The device is there, in a container too: only its rights are wrong.
    if device == Errno::EACCES {
        return "sudo setfacl -m u:$USER:rw /dev/userfaultfd".to_owned();
    }
    let Some(container) = surroundings.container else {
        return match (system_call, device) {
            (Errno::ENOSYS, Errno::ENOENT) => {
                "use a kernel built with CONFIG_USERFAULTFD=y (grep USERFAULTFD /boot/config-$(uname -r))"
            }
            _ => "allow the userfaultfd system call, or /dev/userfaultfd, in the sandbox that this runs in",
        }
        .to_owned();
    };
    let device = match container {
        Container::Docker => "docker run --device /dev/userfaultfd ... (podman: the same)",
        Container::Kubernetes => "a device plugin that gives /dev/userfaultfd to the pod",
        Container::Apptainer => "rights to /dev/userfaultfd, which Apptainer passes on",
    };
    format!("{}, with a profile that allows userfaultfd; or {device}", container.filter_option())
}

/// How much RAM this place allows.
fn memory_limit(ram: &Result<Ram, String>) -> Finding {
    let name = "memory limit";
    let why = "a run whose budget is larger than what this place allows is killed by the kernel";
    match ram {
        Ok(Ram { bytes, why: from }) => {
            let from = from.as_ref().map_or_else(String::new, |from| format!(" ({from})"));
            works(name, format!("--ram auto is {} here{from}", human::bytes(*bytes)), why)
        }
        Err(error) => Finding { name, verdict: Verdict::Limited, seen: error.clone(), why, mend: None },
    }
}

/// What is around.
fn container(container: Container) -> Finding {
    let why = "what is missing here is given from outside";
    works("container", container.name().to_owned(), why)
}

fn swap_directory(probe: &Probe, surroundings: &Surroundings) -> Option<Finding> {
    let name = "swap directory";
    let why = "what does not fit into the pool is written to a file there";
    let dir = &surroundings.swap_dir;
    let directory = probe.swap_directory.as_ref()?;
    let kind = directory.file_system.as_ref().map_or("unknown file system", |system| system.name());
    let free = directory.file_system.as_ref().map_or(0, |system| system.free_bytes);
    let missing =
        |seen: String, mend: String| Finding { name, verdict: Verdict::Missing, seen, why, mend: Some(mend) };
    Some(match directory.swap_file {
        Ok(true) => works(name, format!("{dir}: {kind}, {} free", human::bytes(free)), why),
        Ok(false) => Finding {
            name,
            verdict: Verdict::Limited,
            seen: format!("{dir}: {kind}, {} free, without O_DIRECT", human::bytes(free)),
            why: "without O_DIRECT the kernel keeps copies of what is written, which costs RAM outside the budget",
            mend: Some("uswap run --swap DIR ..., with DIR on ext4, xfs or btrfs".to_owned()),
        },
        Err(SwapFileError::InMemory) => missing(
            format!("{dir} is itself in RAM ({kind}), so writing to it frees nothing"),
            "uswap run --swap DIR ..., with DIR on a disk (or --allow-tmpfs)".to_owned(),
        ),
        Err(error) => missing(
            format!("{dir}: {error}"),
            "uswap run --swap DIR ..., with a DIR that you may write to".to_owned(),
        ),
    })
}

/// What the filter under which this process runs does to the calls of uswap.
pub fn filter(filtered: &Filtered) -> Finding {
    let name = "call filter";
    let why = "under a filter that ends a process for a call of uswap, neither uswap nor a program can be run by it";
    let names: Vec<_> = match filtered.needed.is_empty() {
        true => filtered.spared.names().collect(),
        false => filtered.needed.clone(),
    };
    if names.is_empty() {
        return works(
            name,
            "there is one (seccomp), and it ends no process for a call of uswap".to_owned(),
            why,
        );
    }
    let seen = format!("a filter of system calls (seccomp) ends a process for {}", names.join(", "));
    let mend = "start uswap outside of this sandbox, or let its filter allow what is named (docker run --security-opt \
         seccomp=PROFILE ...)"
        .to_owned();
    match filtered.needed.is_empty() {
        true => Finding {
            name,
            verdict: Verdict::Limited,
            seen,
            why: "uswap goes without it, as if it were switched off by USWAP_WITHOUT",
            mend: Some(mend),
        },
        false => Finding { name, verdict: Verdict::Missing, seen, why, mend: Some(mend) },
    }
}

fn io_uring(probe: &Probe, surroundings: &Surroundings) -> Finding {
    let mend = if probe.io_uring_disabled.is_some_and(|level| level > 0) {
        Some("sudo sysctl kernel.io_uring_disabled=0".to_owned())
    } else {
        let option = surroundings.container.map(Container::filter_option);
        option.map(|option| format!("{option}, with a profile that allows io_uring"))
    };
    let why = "without it pages are read and written one system call each, which is slower";
    unless_switched_off(
        probe,
        KernelFeature::IoUring,
        wanted("io_uring", probe.io_uring, why, mend.as_deref()),
    )
}

fn huge_pages(probe: &Probe) -> Finding {
    let name = "huge pages";
    let why = "a huge page is split when a part of it goes, which takes time once, and it does not come back as one";
    let word = match probe.huge_pages {
        HugePages::Madvise => "where a program asks for them",
        HugePages::Never => "never",
        HugePages::Unknown => "the kernel does not say",
        HugePages::Always => {
            return Finding {
                name,
                verdict: Verdict::Limited,
                seen: "for all memory".to_owned(),
                why,
                mend: Some("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled".to_owned()),
            };
        }
    };
    works(name, word.to_owned(), why)
}

/// Worth a line only where it is strict.
fn overcommit(probe: &Probe) -> Option<Finding> {
    (probe.overcommit_memory == Some(2)).then(|| Finding {
        name: "overcommit",
        verdict: Verdict::Limited,
        seen: "vm.overcommit_memory is 2".to_owned(),
        why: "the kernel then refuses memory beyond RAM and kernel swap, although uswap would find room for it",
        mend: Some("sudo sysctl vm.overcommit_memory=0".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_os::probe::SwapDirectory;
    use uswap_os::without::Without;

    /// A simulated machine on which everything works.
    fn good() -> Probe {
        Probe {
            uffd: Ok(()),
            pagemap_scan: Ok(()),
            procmap_query: Ok(()),
            drop_ranges: Ok(()),
            populate: Ok(()),
            io_uring: Ok(()),
            memfd: Ok(()),
            io_uring_disabled: Some(0),
            overcommit_memory: Some(0),
            swap_directory: Some(SwapDirectory { file_system: Err(Errno::EIO), swap_file: Ok(true) }),
            huge_pages: HugePages::Madvise,
            kernel_release: uswap_os::text::TextBuffer::format(format_args!("6.18.0")),
            without: Without::NOTHING,
            cpu_count: 2,
            memory_bytes: 1 << 30,
        }
    }

    fn host() -> Surroundings {
        Surroundings {
            swap_dir: "/var/tmp".to_owned(),
            agent: Ok("/a.so".to_owned()),
            container: None,
            ram: Ok(Ram { bytes: 1 << 30, why: None }),
            filtered: None,
        }
    }

    fn finding(probe: &Probe, surroundings: &Surroundings, name: &str) -> Finding {
        all(probe, surroundings).into_iter().find(|finding| finding.name == name).expect(name)
    }

    #[test]
    fn a_good_machine_has_no_complaint() {
        let findings = all(&good(), &host());
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Works && finding.mend.is_none()));
        assert!(findings.len() >= 9);
    }

    #[test]
    fn each_way_to_have_no_userfaultfd_has_its_own_mend() {
        let mend = |system_call: Errno, device: Errno, surroundings: &Surroundings| {
            let probe = Probe { uffd: Err(UffdError::NoWayIn { system_call, device }), ..good() };
            let finding = finding(&probe, surroundings, "userfaultfd");
            assert_eq!(finding.verdict, Verdict::Missing);
            finding.mend.unwrap()
        };
        let of = |container| Surroundings { container: Some(container), ..host() };
        let container = of(Container::Docker);
        assert!(mend(Errno::EPERM, Errno::EACCES, &host()).contains("setfacl"));
        assert!(mend(Errno::EPERM, Errno::EACCES, &container).contains("setfacl"));
        assert!(mend(Errno::EPERM, Errno::ENOENT, &host()).contains("sandbox"));
        assert!(mend(Errno::EPERM, Errno::ENOENT, &container).contains("--device /dev/userfaultfd"));
        assert!(mend(Errno::EPERM, Errno::EPERM, &container).contains("seccomp=PROFILE"));
        assert!(mend(Errno::EPERM, Errno::ENOENT, &of(Container::Kubernetes)).contains("localhostProfile"));
        assert!(mend(Errno::EPERM, Errno::ENOENT, &of(Container::Apptainer)).contains("apptainer exec"));
        assert!(mend(Errno::ENOSYS, Errno::ENOENT, &host()).contains("CONFIG_USERFAULTFD"));
        let old = Probe { uffd: Err(UffdError::Features(Errno::EINVAL)), ..good() };
        assert!(finding(&old, &host(), "userfaultfd").mend.unwrap().contains("Linux 5.11"));
    }

    #[test]
    fn what_is_switched_off_is_told_and_cannot_be_mended() {
        let probe = Probe {
            pagemap_scan: Err(Errno::ENOTTY),
            populate: Err(Errno::EINVAL),
            procmap_query: Err(Errno::ENOTTY),
            without: Without::parse("pagemap_scan,populate").unwrap(),
            ..good()
        };
        for name in ["PAGEMAP_SCAN", "POPULATE_WRITE"] {
            let found = finding(&probe, &host(), name);
            assert_eq!((found.verdict, found.mend), (Verdict::Limited, None), "{name}");
            assert_eq!(found.seen, "switched off by USWAP_WITHOUT", "{name}");
        }
        assert!(finding(&probe, &host(), "PROCMAP_QUERY").mend.is_some());
    }

    #[test]
    fn what_run_needs_is_missing_and_what_it_can_do_without_is_limited() {
        let cases = [
            (Probe { pagemap_scan: Err(Errno::ENOTTY), ..good() }, "PAGEMAP_SCAN", Verdict::Limited),
            (Probe { drop_ranges: Err(Errno::EBADF), ..good() }, "process_madvise", Verdict::Limited),
            (Probe { populate: Err(Errno::EINVAL), ..good() }, "POPULATE_WRITE", Verdict::Limited),
            (Probe { memfd: Err(Errno::ENOSYS), ..good() }, "memfd", Verdict::Missing),
            (Probe { io_uring: Err(Errno::EPERM), ..good() }, "io_uring", Verdict::Limited),
            (Probe { procmap_query: Err(Errno::ENOTTY), ..good() }, "PROCMAP_QUERY", Verdict::Limited),
            (Probe { huge_pages: HugePages::Always, ..good() }, "huge pages", Verdict::Limited),
            (Probe { overcommit_memory: Some(2), ..good() }, "overcommit", Verdict::Limited),
        ];
        for (probe, name, verdict) in cases {
            assert_eq!(finding(&probe, &host(), name).verdict, verdict, "{name}");
            let others = all(&probe, &host()).into_iter().filter(|finding| finding.name != name);
            assert!(others.into_iter().all(|finding| finding.verdict == Verdict::Works), "{name}");
        }
    }

    #[test]
    fn a_filter_is_missing_limited_or_works_by_what_it_ends_a_process_for() {
        let verdict = |needed: &[&'static str], spared: &str| {
            let filtered = Filtered { needed: needed.to_vec(), spared: Without::parse(spared).unwrap() };
            let found = filter(&filtered);
            (found.verdict, found.seen)
        };
        let (missing, seen) = verdict(&["membarrier", "memfd_create"], "io_uring");
        assert_eq!(missing, Verdict::Missing);
        assert!(seen.ends_with("for membarrier, memfd_create"), "{seen}");
        let (limited, seen) = verdict(&[], "io_uring,process_madvise");
        assert_eq!(limited, Verdict::Limited);
        assert!(seen.ends_with("for process_madvise, io_uring"), "{seen}");
        assert_eq!(verdict(&[], "").0, Verdict::Works);
        assert!(all(&good(), &host()).iter().all(|finding| finding.name != "call filter"));
    }

    #[test]
    fn a_swap_directory_in_memory_or_without_rights_is_refused_with_a_way_out() {
        let swap = |swap_file| Probe {
            swap_directory: Some(SwapDirectory { file_system: Err(Errno::EIO), swap_file }),
            ..good()
        };
        for error in [
            SwapFileError::InMemory,
            SwapFileError::Directory(Errno::EACCES),
            SwapFileError::Create(Errno::EROFS),
        ] {
            let finding = finding(&swap(Err(error)), &host(), "swap directory");
            assert_eq!(finding.verdict, Verdict::Missing);
            assert!(finding.mend.unwrap().contains("--swap DIR"));
        }
        assert_eq!(finding(&swap(Ok(false)), &host(), "swap directory").verdict, Verdict::Limited);
    }

    #[test]
    fn a_place_that_allows_too_little_is_told() {
        let place = Surroundings { ram: Err("auto is 5 MiB here, too little".to_owned()), ..host() };
        let found = finding(&good(), &place, "memory limit");
        assert_eq!(
            (found.verdict, found.seen.as_str()),
            (Verdict::Limited, "auto is 5 MiB here, too little")
        );
        let found = finding(&good(), &host(), "memory limit");
        assert_eq!((found.verdict, found.seen.as_str()), (Verdict::Works, "--ram auto is 1 GiB here"));
    }

    #[test]
    fn a_disabled_io_uring_names_the_sysctl() {
        let probe = Probe { io_uring: Err(Errno::EPERM), io_uring_disabled: Some(2), ..good() };
        assert!(finding(&probe, &host(), "io_uring").mend.unwrap().contains("kernel.io_uring_disabled=0"));
    }
}
