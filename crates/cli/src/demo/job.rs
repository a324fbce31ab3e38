//! Runs one step of the demo as a child, shows that time passes, and ends it when the user wants to stop.

use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::workshop::Interrupt;
use crate::human;
use crate::message::write_stderr;

const POLL: Duration = Duration::from_millis(20);
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// How long a step may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// A step that ran to its end.
pub struct Done {
    /// How it ended.
    pub status: ExitStatus,
    /// How long it took.
    pub elapsed: Duration,
}

impl Done {
    /// How it ended, in words: "exit code 2", "killed by SIGKILL".
    pub fn describe(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(number)) => format!("killed by {}", human::signal(number)),
            (None, None) => "an unknown end".to_owned(),
        }
    }
}

/// Runs `command` to its end; `None` if the user stopped it.
///
/// # Errors
/// If it cannot be started.
pub fn run(command: &mut Command, interrupt: &Interrupt) -> io::Result<Option<Done>> {
    let since = Instant::now();
    let mut child = command.spawn()?;
    let show = io::stderr().is_terminal();
    let mut shown_at = since;
    loop {
        if let Some(status) = child.try_wait()? {
            if show {
                write_stderr("\r\x1b[K");
            }
            return Ok(Some(Done { status, elapsed: since.elapsed() }));
        }
        if interrupt.signal().is_some() {
            end(&mut child)?;
            return Ok(None);
        }
        if show && shown_at.elapsed() >= SHOW_EVERY {
            shown_at = Instant::now();
            write_stderr(&format!("\r      {} s", since.elapsed().as_secs()));
        }
        std::thread::sleep(POLL);
    }
}

fn end(child: &mut Child) -> io::Result<()> {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child's pid is above 0");
    // It may have ended by the same Ctrl-C already.
    let _ = kill_process(pid, Signal::TERM);
    let since = Instant::now();
    while child.try_wait()?.is_none() {
        if since.elapsed() >= PATIENCE {
            child.kill()?;
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
