//! Why a process has no engine, as far as `/proc` shows it.
//!
//! Called for a process below the supervisor that has no record; the caller makes sure that it was one process all the
//! time.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use uswap_os::process::StatmFile;
use uswap_units::PAGE_BYTES;

use crate::human;
use crate::program::{AgentSupport, agent_support_of};
use crate::shared::Shared;

/// A reason, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reason {
    /// A clause: "it is statically linked, so ...".
    pub clause: String,
    /// A sentence.
    pub advice: &'static str,
}

/// What the reason rests on.
#[derive(Debug, PartialEq, Eq)]
pub enum Why {
    /// The file that it executes.
    Program(Reason),
    /// Its user.
    User(Reason),
    /// Its environment or its limits, which are those of its parent until it executes a program of its own.
    Environment(Reason),
    /// Nothing of that: it may still join.
    Unknown(Reason),
}

/// Why process `pid` has no engine.
pub fn why_unmanaged(shared: &Shared, pid: u32) -> Why {
    if let Some(AgentSupport::Unmanageable(clause)) = agent_support_of(Path::new(&format!("/proc/{pid}/exe")))
    {
        let advice = "A dynamically linked build without special rights would be managed";
        return Why::Program(Reason { clause, advice });
    }
    let options = &shared.options;
    if let Some(user) = effective_user(pid)
        && user != rustix::process::geteuid().as_raw()
        && !options.keep_after_setuid
    {
        let clause =
            format!("it runs as user {user}, who may not read through uswap what other processes have");
        return Why::User(Reason { clause, advice: "--keep-after-setuid keeps such processes managed" });
    }
    match std::fs::read(environment_file(pid)) {
        Ok(environment) => {
            let agent = options.agent.as_os_str().as_bytes();
            // Or its memory goes away already, or is that of a program which is just being executed.
            let is_there = !environment.is_empty() || has_words(pid);
            // What asked for the run while it ran was started without; so was what it forks.
            let is_of_root =
                shared.options.root.is_some_and(|root| environment_of(root).as_ref() == Some(&environment));
            if is_there
                && !is_of_root
                && !is_overwritten(&environment, || has_mapped(pid, &options.agent))
                && let Some(reason) = of_environment(&environment, shared.invitation().as_bytes(), agent)
            {
                return Why::Environment(reason);
            }
        }
        Err(error) => {
            let clause = format!("its environment cannot be read ({error}): it has other rights than uswap");
            let advice = "Run uswap with the same rights, inside of what changes them (sudo uswap run ...)";
            return Why::Unknown(Reason { clause, advice });
        }
    }
    if let Some(reason) = of_address_space(pid, shared.segment.layout().total_words() as u64 * 8) {
        return Why::Environment(reason);
    }
    Why::Unknown(Reason {
        clause: "it was asked to join by its environment and did not: its loader has not loaded the agent, it has \
                 left the run (non-dumpable), its sandbox keeps it from uswap's memory (system calls, network \
                 namespace), it may open no more files at this moment (ulimit -n), or another library that is \
                 preloaded starts a thread before uswap is loaded"
            .to_owned(),
        advice: "With -v the agent says more",
    })
}

fn environment_file(pid: u32) -> String {
    format!("/proc/{pid}/environ")
}

fn environment_of(pid: u32) -> Option<Vec<u8>> {
    std::fs::read(environment_file(pid)).ok()
}

/// Whether a program that has the agent has written something else over its environment, where the kernel shows it:
/// some put a title there.
fn is_overwritten(environment: &[u8], has_agent: impl Fn() -> bool) -> bool {
    let mut entries = environment.split(|&byte| byte == 0);
    // A title begins at its beginning, and may end anywhere.
    let begins_otherwise = entries.next().is_some_and(|first| !first.contains(&b'='));
    (begins_otherwise || !entries.any(|entry| entry.starts_with(b"LD_PRELOAD="))) && has_agent()
}

fn has_mapped(pid: u32, file: &Path) -> bool {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split(|&byte| byte == b'\n').any(|line| line.ends_with(file.as_os_str().as_bytes()))
}

/// The effective user of a process.
fn effective_user(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok())
}

/// What is wrong with the environment that a process was started with.
fn of_environment(environment: &[u8], invitation: &[u8], agent: &[u8]) -> Option<Reason> {
    let value = |name: &[u8]| environment.split(|&byte| byte == 0).find_map(|entry| entry.strip_prefix(name));
    if environment.split(|&byte| byte == 0).any(|entry| entry == uswap_identity::FILTERED.to_bytes()) {
        return Some(Reason {
            clause:
                "it has inherited a filter of system calls (seccomp) that would end it for calls of uswap"
                    .to_owned(),
            advice: "Let the filter answer such calls with EPERM instead, or allow them",
        });
    }
    if value(uswap_identity::RUN_ENTRY.as_bytes()) != Some(invitation) {
        return Some(Reason {
            clause: "USWAP_RUN is not in its environment, which 'env -i', sudo and the like clear".to_owned(),
            advice: "Let it keep USWAP_RUN and LD_PRELOAD, or run uswap inside of what clears them",
        });
    }
    let preloaded = value(b"LD_PRELOAD=").unwrap_or_default();
    let has_agent = preloaded.split(|byte| b": \t".contains(byte)).any(|library| library == agent);
    (!has_agent).then(|| Reason {
        clause: format!(
            "LD_PRELOAD in its environment is '{}', without the agent",
            String::from_utf8_lossy(preloaded)
        ),
        advice: "Put the agent that it had before the new library, with a colon between them",
    })
}

/// Whether the limit of its address space leaves no room for the segment.
fn of_address_space(pid: u32, segment_bytes: u64) -> Option<Reason> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    let taken = total_bytes(pid)?;
    (taken.saturating_add(segment_bytes) > limit).then(|| Reason {
        clause: format!(
            "its address space is limited to {} (ulimit -v), and uswap needs {} of it",
            human::bytes(limit),
            human::bytes(segment_bytes)
        ),
        advice: "Set no such limit: --ram limits what is really used",
    })
}

/// Whether a process has words on its command line, as each program has that runs. The environment comes with them.
fn has_words(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty())
}

/// Address space of a process.
fn total_bytes(pid: u32) -> Option<u64> {
    let sizes = StatmFile::open(Some(pid)).and_then(|sizes| sizes.read()).ok()?;
    Some(sizes.total_pages * PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clause(environment: &[u8]) -> Option<String> {
        of_environment(environment, b"7:5:9:ab:0:/lib/agent.so", b"/lib/agent.so").map(|reason| reason.clause)
    }

    #[test]
    fn an_environment_has_the_invitation_and_the_agent() {
        let good = b"HOME=/\0LD_PRELOAD=/lib/agent.so:/x.so\0USWAP_RUN=7:5:9:ab:0:/lib/agent.so\0";
        assert_eq!(clause(good), None);
        for without in
            [&b""[..], b"HOME=/\0", b"USWAP_RUN=8:5:9:ab:0:/lib/agent.so\0LD_PRELOAD=/lib/agent.so\0"]
        {
            assert!(clause(without).is_some_and(|clause| clause.contains("USWAP_RUN")));
        }
        let filtered = b"HOME=/\0USWAP_RUN=filtered\0LD_PRELOAD=/lib/agent.so\0";
        assert!(clause(filtered).is_some_and(|clause| clause.contains("seccomp")));
        for other in ["LD_PRELOAD=/x.so", "LD_PRELOAD=/lib/agent.so.1", "HOME=/"] {
            let environment = format!("USWAP_RUN=7:5:9:ab:0:/lib/agent.so\0{other}\0");
            assert!(clause(environment.as_bytes()).is_some_and(|clause| clause.contains("LD_PRELOAD")));
        }
    }

    #[test]
    fn what_is_written_over_an_environment_says_nothing_about_it() {
        let title = b"server: idle\0\0\0\0";
        assert!(is_overwritten(title, || true) && !is_overwritten(title, || false));
        assert!(is_overwritten(b"idle\0LD_PRELOAD=/lib/agent.so\0", || true));
        assert!(!is_overwritten(b"A=1\0LD_PRELOAD=/lib/agent.so\0", || true), "it has lost USWAP_RUN");
        let own = std::env::current_exe().expect("it has a path");
        assert!(
            has_mapped(std::process::id(), &own) && !has_mapped(std::process::id(), Path::new("/no/such"))
        );
    }

    #[test]
    fn who_has_no_memory_any_more_has_no_words_either() {
        assert!(has_words(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().expect("true is there");
        // It has ended, and is not waited for yet.
        let state = || uswap_os::process::stat(child.id()).map(|stat| stat.state);
        while state() != Ok(b'Z') {
            std::thread::yield_now();
        }
        assert!(!has_words(child.id()));
        child.wait().expect("it is our child");
    }

    #[test]
    fn limits_of_this_process_leave_room_for_nothing_too_large() {
        let own = std::process::id();
        assert_eq!(effective_user(own), Some(rustix::process::geteuid().as_raw()));
        let limits = std::fs::read_to_string("/proc/self/limits").expect("they are there");
        let is_limited = !limits.contains("Max address space         unlimited");
        assert_eq!(of_address_space(own, u64::MAX).is_some(), is_limited);
    }
}
