//! The socket by which a run that is under way is asked.
//!
//! A run listens on an abstract socket that is named after the process id of its supervisor and the namespace of that;
//! there is no file to leave behind. One line each way. What can be asked is the business of the supervisor
//! (`uswap_supervisor::control`), but for [`STAT`], which libraries ask too ([`stat`] is what is answered), and for
//! [`map`], which browsers ask. [`runs`] finds the runs that there are, and [`human`] and [`users`] are how sizes,
//! times and users are written for people. [`unpoisoned()`] is for the locks of all programs that ask or answer.
#![forbid(unsafe_code)]

pub mod human;
pub mod map;
pub mod runs;
pub mod stat;
mod unpoisoned;
pub mod users;

pub use unpoisoned::unpoisoned;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use serde::de::DeserializeOwned;
use stat::RunStat;

/// Longest line of a command or an answer: a run says some 600 bytes of each of 1,024 processes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// How the run goes, as JSON ([`stat::RunStat`]).
pub const STAT: &str = "stat json\n";
/// An answer begins so, if what was asked for was done; the rest says what.
pub const DONE: &str = "ok ";
/// And so if not; the rest says why.
pub const FAILED: &str = "error ";

/// Where the run of a process of this pid namespace listens. Containers may share a network namespace, in which these
/// names are, and have the same process ids.
///
/// # Errors
/// `/proc` is not mounted.
pub fn address(pid: u32) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{}{pid}", names()?))
}

/// With what the names begin of the sockets of this pid namespace; the process id follows.
fn names() -> std::io::Result<String> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(format!("uswap-control-{}-", namespace.display()))
}

/// The run of a process.
///
/// # Errors
/// Nobody listens as that process.
pub fn connect(pid: u32) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&address(pid)?)
}

/// How the run of a supervisor goes. As of [`ask`].
///
/// # Errors
/// As a sentence.
pub fn stat_of(pid: u32, patience: Option<Duration>) -> Result<RunStat, String> {
    answer_in(pid, STAT, patience)
}

/// What a run answers in JSON.
fn answer_in<T: DeserializeOwned>(pid: u32, line: &str, patience: Option<Duration>) -> Result<T, String> {
    let answer = ask(pid, line, patience)?;
    let answer = answer.trim_end();
    match (answer.strip_prefix(DONE), answer.strip_prefix(FAILED)) {
        (Some(json), _) => serde_json::from_str(json)
            .map_err(|error| format!("what the run of process {pid} says is not understood ({error})")),
        (_, Some(why)) => Err(why.to_owned()),
        _ => Err(format!("the run of process {pid} answers '{answer}': is it of another version?")),
    }
}

/// Asks the run of a supervisor, with a line and its newline; the line that it answers. It may take so long for each
/// part of that; `None`: as long as it likes.
///
/// # Errors
/// As a sentence: nobody listens as that process, or another process does, or it does not answer.
pub fn ask(pid: u32, line: &str, patience: Option<Duration>) -> Result<String, String> {
    let nobody = |error| {
        if std::fs::exists(format!("/proc/{pid}")).is_ok_and(|exists| !exists) {
            return format!("there is no process {pid}: has the run ended?");
        }
        format!(
            "no run listens as process {pid} ({error}): give the process id of 'uswap run' itself, and start it and \
             this in the same container, or in none"
        )
    };
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
    stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience)).map_err(failed)?;
    match exchange(&stream, line).map_err(failed)? {
        answer if answer.is_empty() => Err(format!("the run of process {pid} ended before it had answered")),
        answer => Ok(answer),
    }
}

/// A line that the other end says.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn read_line(stream: &UnixStream) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(std::io::Read::take(stream, LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
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
        let error = ask(std::process::id(), STAT, None).unwrap_err();
        assert!(error.contains("no run listens") && error.contains("uswap run"), "{error}");
        let error = ask(u32::MAX, STAT, None).unwrap_err();
        assert_eq!(error, "there is no process 4294967295: has the run ended?");
    }
}
