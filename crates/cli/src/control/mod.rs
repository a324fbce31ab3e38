//! Commands to a run that is under way: `uswap stat`, `uswap writeback`, `uswap swapon` and `uswap swapoff`.
//!
//! A run listens on an abstract socket that is named after its process id and the namespace of that; there is no file
//! to leave behind. What must hold: only root and the user of the run are obeyed, and a command is given only to the
//! process that was named. One line each way ([`order`]):
//! ```text
//! -> writeback MILLISECONDS     or     swapon SIZE PRIORITY KIND DIR     or     swapoff DIR     or     stat 1
//! <- ok WHAT WAS DONE           or     error WHY
//! ```

pub mod order;
pub mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::args::{StatArguments, SwapoffArguments, SwaponArguments, WritebackArguments};
use crate::message::{say, write_stdout};
use crate::swap_place::SwapPlace;
use order::{Answer, Form, Order};

/// Longest line of a command or an answer: the name of a directory may have 4,096 bytes, and `uswap stat` says some 600
/// bytes of each of 20 processes.
const LINE_BYTES_MAX: u64 = 32 << 10;

/// Longest time that `--older-than` may say: a day.
const AGE_MAX: Duration = Duration::from_secs(86_400);

/// Where the run of a process of this pid namespace listens. Containers may share a network namespace, in which these
/// names are, and have the same process ids.
fn address(pid: u32) -> std::io::Result<SocketAddr> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    SocketAddr::from_abstract_name(format!("uswap-control-{}-{pid}", namespace.display()))
}

/// The run of a process.
pub fn connect(pid: u32) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&address(pid)?)
}

fn read_line(stream: &UnixStream) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(std::io::Read::take(stream, LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}

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

/// Reads `--older-than`: a number with s, m or h.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let malformed = || format!("'{text}' is not a time: write it like 60s, 5m or 1h");
    let unit_start = text.len() - text.chars().last().map_or(0, char::len_utf8);
    let unit_seconds = match &text[unit_start..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(malformed()),
    };
    let number: u64 = text[..unit_start].parse().map_err(|_| malformed())?;
    let age = Duration::from_secs(number.saturating_mul(unit_seconds));
    if age > AGE_MAX {
        return Err(format!("'{text}' is more than a day: that long nobody is watched"));
    }
    Ok(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(parse_age("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_age("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_age("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_age("24h"), Ok(Duration::from_secs(86_400)));
        for text in ["", "60", "s", "-1s", "1.5s", "1d", "25h", "5µ", "99999999999999999999s"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
    }

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
