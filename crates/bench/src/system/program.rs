//! Starts a program so that it, and what it started, ends when the bench ends.
//!
//! What must hold: from the moment it runs, its process group is in the list of what must be undone. What leaves the
//! process group is still in the cgroup, which kills it.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process_group};

use super::undo::{Scope, Step, Undo};

/// The process group of a program. Dropping it kills the group.
#[must_use = "dropping it kills the program"]
pub struct ProcessGroup {
    scope: Scope,
}

impl ProcessGroup {
    /// To be called when the program was waited for: its number may soon be somebody else's.
    pub fn ended(self) {
        self.scope.forget();
    }
}

/// Starts `command` in a process group of its own.
///
/// # Errors
/// If it cannot be started.
pub fn start(undo: &Undo, command: &mut Command) -> anyhow::Result<(Child, ProcessGroup)> {
    let mut scope = undo.scope();
    command.process_group(0);
    let child = scope.change(|| {
        let child = command
            .spawn()
            .with_context(|| format!("'{}' cannot be started", command.get_program().display()))?;
        let number = child.id();
        Ok((child, Step::new(format!("kill -9 -{number}"), move || kill_group(number))))
    })?;
    Ok((child, ProcessGroup { scope }))
}

fn kill_group(number: u32) -> anyhow::Result<()> {
    let Some(leader) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return Ok(()) };
    match kill_process_group(leader, Signal::KILL) {
        // Nobody is left in it.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        result => result.with_context(|| format!("process group {number} cannot be killed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_kills_children_too_and_ended_kills_nobody() {
        let undo = Undo::new();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let (mut child, group) = start(&undo, &mut command).unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        assert!(uswap_os::process::is_alive(sleeper));
        drop(group);
        assert!(!child.wait().unwrap().success());
        // The pipe closes when its last holder, the sleeper, is gone.
        assert_eq!(std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap(), 0);

        let (mut child, group) =
            start(&undo, Command::new("/bin/sh").args(["-c", "sleep 0.2; exit 7"])).unwrap();
        group.ended();
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }
}
