//! A filter of system calls (seccomp) under which uswap itself was started: does it end a process for a call of uswap?
//!
//! A filter cannot be read, so a child makes the calls one after the other, and says so ahead of each. One that is
//! ended has told which call it was; another child goes on behind it. That costs some milliseconds, and only where
//! there is a filter (in containers, for instance). Filters that answer with an error need no look: what uswap does
//! about such an answer it does anyway.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use uswap_os::own_calls::{self, OwnCall};
use uswap_os::without::{KernelFeature, Without};

/// Name of the hidden command that makes the calls.
pub const COMMAND: &str = "try-calls";

/// Signal of a call that a filter does not let pass.
const SIGSYS: i32 = 31;

/// So long a child may take for its calls, which come back at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a filter does to the calls of uswap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filtered {
    /// Names of the calls for which it ends a process, and that uswap cannot do without.
    pub needed: Vec<&'static str>,
    /// Those that it can do without.
    pub spared: Without,
}

fn all() -> impl Iterator<Item = OwnCall> {
    own_calls::COMMAND.into_iter().chain(own_calls::START).chain(own_calls::MANAGED)
}

/// What can be switched off with this call.
fn feature(call: OwnCall) -> Option<KernelFeature> {
    match call.name() {
        "process_madvise" => Some(KernelFeature::ProcessMadvise),
        "io_uring_setup" | "io_uring_enter" => Some(KernelFeature::IoUring),
        _ => None,
    }
}

impl Filtered {
    /// Tries it. None: there is no filter.
    pub fn look() -> Option<Filtered> {
        own_calls::are_filtered()
            .then(|| Filtered::of(ended_for().into_iter().filter_map(|index| all().nth(index))))
    }

    fn of(calls: impl Iterator<Item = OwnCall>) -> Filtered {
        let mut filtered = Filtered::default();
        for call in calls {
            match feature(call) {
                Some(feature) => filtered.spared = filtered.spared.and(feature),
                None if filtered.needed.contains(&call.name()) => (),
                None => filtered.needed.push(call.name()),
            }
        }
        filtered
    }
}

/// Indices of the calls for which a child was ended. Where no child can be made that says anything, none.
fn ended_for() -> Vec<usize> {
    let mut ended = Vec::new();
    let mut from = 0;
    while from < all().count() {
        let Ok(own_path) = std::env::current_exe() else { break };
        let mut command = Command::new(own_path);
        command.args([COMMAND, &from.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
        // Of a run that is under way it must not become a part.
        command.env_remove(uswap_identity::RUN_VARIABLE).env_remove("LD_PRELOAD");
        let Some((status, begun)) = end_of(&mut command) else { break };
        if status.signal() != Some(SIGSYS) || begun == 0 {
            break;
        }
        ended.push(from + begun - 1);
        from += begun;
    }
    ended
}

/// How a child ended, and how many bytes it wrote. None: it cannot be made, or waits for a supervisor that its filter
/// asks and that does not answer.
fn end_of(command: &mut Command) -> Option<(ExitStatus, usize)> {
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().ok()? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut written = Vec::new();
    child.stdout.take()?.read_to_end(&mut written).ok()?;
    Some((status, written.len()))
}

/// Makes the calls from this one on: a byte on standard output ahead of each.
pub fn try_calls(from: usize) -> i32 {
    let mut output = std::io::stdout();
    for call in all().skip(from) {
        if output.write_all(b".").and_then(|()| output.flush()).is_err() {
            return 1;
        }
        call.try_it();
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_seen_how_a_child_ended_and_how_far_it_came() {
        let (status, written) = end_of(Command::new("/bin/sh").args(["-c", "printf ...; exit 3"])).unwrap();
        assert_eq!((status.code(), written), (Some(3), 3));
        assert!(end_of(&mut Command::new("/no/such/program")).is_none());
    }

    #[test]
    fn what_can_be_done_without_is_told_from_what_is_needed() {
        let named = |names: &[&str]| Filtered::of(all().filter(|call| names.contains(&call.name())));
        let both = named(&["process_madvise", "io_uring_enter"]);
        assert_eq!(
            (both.needed.len(), both.spared),
            (0, Without::parse("process_madvise,io_uring").unwrap())
        );
        // It is in two of the lists.
        assert_eq!(named(&["fcntl"]), Filtered { needed: vec!["fcntl"], spared: Without::NOTHING });
    }
}
