//! Commands of the system: `mkswap`, `swapon`, `swapoff`.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Runs a command to its end.
///
/// It gets a process group of its own, so that a second Ctrl-C does not end a `swapoff` that is at work.
///
/// # Errors
/// With what the command said.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().display().to_string();
    let output = command.process_group(0).stdin(Stdio::null()).output().with_context(|| {
        format!("'{name}' cannot be run: it belongs to util-linux; is /usr/sbin in PATH?")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{name} failed ({}): {}", output.status, said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_said_is_in_the_error() {
        run(Command::new("true").arg("x")).unwrap();
        let error =
            run(Command::new("/bin/sh").args(["-c", "echo no room >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("no room") && error.contains('3'), "{error}");
        assert!(run(&mut Command::new("/nonexistent/command")).is_err());
    }
}
