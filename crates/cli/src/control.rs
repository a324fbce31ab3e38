//! Commands to a run that is under way: `uswap stat`, `uswap writeback`, `uswap swapon` and `uswap swapoff`.
//!
//! What must hold: a command is given only to the process that was named. What is said, and where the run listens, is
//! [`uswap_supervisor::control`].

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use uswap_supervisor::control::order::{Answer, Form, Order};
use uswap_supervisor::control::{connect, read_line};
use uswap_supervisor::files::place::SwapPlace;

use crate::args::{StatArguments, SwapoffArguments, SwaponArguments, WritebackArguments};
use crate::message::{say, write_stdout};

/// `uswap writeback`; the exit code.
pub fn writeback(arguments: &WritebackArguments) -> i32 {
    tell(arguments.pid, &Order::Writeback(arguments.older_than))
}

/// `uswap swapon`; the exit code.
pub fn swapon(arguments: &SwaponArguments) -> i32 {
    // The run may be somewhere else.
    let dir = std::path::absolute(&arguments.swap.dir).unwrap_or_else(|_| arguments.swap.dir.clone());
    tell(arguments.pid, &Order::SwapOn(SwapPlace { dir, ..arguments.swap.clone() }))
}

/// `uswap swapoff`; the exit code.
pub fn swapoff(arguments: &SwapoffArguments) -> i32 {
    let dir = std::path::absolute(&arguments.dir).unwrap_or_else(|_| arguments.dir.clone());
    tell(arguments.pid, &Order::SwapOff(dir))
}

/// `uswap stat`; the exit code.
pub fn stat(arguments: &StatArguments) -> i32 {
    let form = if arguments.json { Form::Json } else { Form::Text };
    tell(arguments.pid, &Order::Stat(form))
}

fn tell(pid: u32, order: &Order) -> i32 {
    match ask(pid, order) {
        Ok(Answer::Done(what)) => i32::from(!write_stdout(&format!("{what}\n"))),
        Ok(Answer::Error(why)) | Err(why) => {
            say(format_args!("{why}"));
            1
        }
    }
}

fn ask(pid: u32, order: &Order) -> Result<Answer, String> {
    let nobody = |error| {
        if std::fs::exists(format!("/proc/{pid}")).is_ok_and(|exists| !exists) {
            return format!("there is no process {pid}: has the run ended?");
        }
        format!(
            "no run listens as process {pid} ({error}): give the process id of 'uswap run' itself, and start it and \
             this in the same container, or in none"
        )
    };
    let line = order.line()?;
    let stream = connect(pid).map_err(nobody)?;
    let peer = uswap_os::process::peer_of(stream.as_raw_fd())
        .map_err(|errno| format!("who listens as process {pid} cannot be found out ({errno})"))?;
    if peer.pid != pid {
        return Err(format!(
            "process {} listens in the name of process {pid}: nothing was asked of it",
            peer.pid
        ));
    }
    let failed = |error| format!("the run of process {pid} does not answer ({error}): has it ended?");
    let line = exchange(&stream, &line).map_err(failed)?;
    Answer::parse(&line).ok_or_else(|| format!("the run of process {pid} ended before it had answered"))
}

/// Says something, and hears the answer. Who may not ask is told so before it is heard: then nobody takes what it says,
/// and the answer is there all the same.
fn exchange(stream: &UnixStream, line: &str) -> std::io::Result<String> {
    let mut writer = stream;
    let said = writer.write_all(line.as_bytes());
    let answer = read_line(stream)?;
    if answer.is_empty() { said.map(|()| answer) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_answer_arrives_that_was_given_without_hearing() {
        let (own, other) = UnixStream::pair().expect("two sockets");
        (&other).write_all(b"no\n").expect("it has room");
        drop(other);
        assert_eq!(exchange(&own, "do it\n").expect("there is an answer").trim_end(), "no");
        let (own, other) = UnixStream::pair().expect("two sockets");
        drop(other);
        assert_eq!(exchange(&own, "do it\n").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_process_that_is_no_run_is_named() {
        let error = ask(std::process::id(), &Order::Writeback(Duration::ZERO)).unwrap_err();
        assert!(error.contains("no run listens") && error.contains("uswap run"), "{error}");
        let error = ask(u32::MAX, &Order::Writeback(Duration::ZERO)).unwrap_err();
        assert_eq!(error, "there is no process 4294967295: has the run ended?");
    }
}
