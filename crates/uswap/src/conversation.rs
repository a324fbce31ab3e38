//! How a supervisor is started and spoken to. It is nobody's child: a program that waits for all of its children does
//! not meet it.
//!
//! Must hold: a supervisor that is not joined hears the end of its pipe, and ends; no descriptor of the talk but the
//! pipe that the agent keeps is left in the process. Called by [`mod@crate::limit`].

use std::ffi::{CString, OsString};
use std::io::{BufRead as _, BufReader, PipeReader};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use uswap_identity::{INVITED, JOINED, REFUSED};
use uswap_os::Fd;
use uswap_os::detached::{Program, Word, spawn_detached};
use uswap_os::message::write_without_signal;

use crate::Error;
use crate::agent::Agent;

/// Longest answer, in bytes.
const LINE_BYTES_MAX: u64 = 16 * 1024;

/// Starts a supervisor with these options, and enters its run. The agent, and the number of the supervisor.
pub fn begin(command: &Path, options: &[OsString]) -> Result<(Agent, u32), Error> {
    let failed = |error| Error::NotStarted { path: command.to_owned(), error };
    let (input, to_supervisor) = std::io::pipe().map_err(failed)?;
    let (from_supervisor, output) = std::io::pipe().map_err(failed)?;
    let (input, output) = (Fd::from_raw(input.into_raw_fd()), Fd::from_raw(output.into_raw_fd()));
    start(command, options, &input, &output).map_err(failed)?;
    drop((input, output));
    let invitation = listen(command, from_supervisor)?;
    let supervisor = supervisor_of(&invitation).ok_or_else(|| Error::Strange {
        path: command.to_owned(),
        what: "has sent an invitation without a number".to_owned(),
    })?;
    let agent = Agent::load(&agent_of(&invitation))?;
    // One end is the agent's from here on. While there is another the supervisor knows that it is waited for.
    let of_agent = to_supervisor.try_clone().map_err(failed)?;
    agent.attach(&invitation, of_agent.into_raw_fd()).map_err(Error::Unmanageable)?;
    let _it_may_be_gone = write_without_signal(to_supervisor.as_raw_fd(), JOINED.as_bytes());
    Ok((agent, supervisor))
}

fn start(command: &Path, options: &[OsString], input: &Fd, output: &Fd) -> std::io::Result<()> {
    let with_zero = |text: Vec<u8>| CString::new(text).map_err(|_| std::io::ErrorKind::InvalidInput.into());
    let path = with_zero(command.as_os_str().as_bytes().to_vec())?;
    let pid = std::process::id().to_string();
    let words = ["uswap", "supervise", "--pid", &pid].map(OsString::from);
    let arguments = words.iter().chain(options).map(|word| with_zero(word.as_bytes().to_vec()));
    let arguments = arguments.collect::<std::io::Result<Vec<CString>>>()?;
    // What is preloaded into this program is not meant for the supervisor.
    let variables = std::env::vars_os().filter(|(name, _)| name != "LD_PRELOAD");
    let environment =
        variables.map(|(name, value)| with_zero([name.into_vec(), b"=".to_vec(), value.into_vec()].concat()));
    let environment = environment.collect::<std::io::Result<Vec<CString>>>()?;
    let program = Program {
        path: &path,
        arguments: &list(&arguments),
        environment: &list(&environment),
        input,
        output,
    };
    spawn_detached(&program).map_err(|errno| std::io::Error::from_raw_os_error(errno.number()))
}

/// As `execve` takes them.
fn list(texts: &[CString]) -> Vec<Word<'_>> {
    texts.iter().map(|text| Word::from(text.as_c_str())).chain([Word::END]).collect()
}

/// The invitation that the supervisor writes.
fn listen(command: &Path, from: PipeReader) -> Result<Vec<u8>, Error> {
    let strange = |what: String| Error::Strange { path: command.to_owned(), what };
    let mut line = Vec::new();
    let mut from = BufReader::new(std::io::Read::take(from, LINE_BYTES_MAX));
    from.read_until(b'\n', &mut line).map_err(|error| strange(format!("cannot be heard ({error})")))?;
    if line.pop() != Some(b'\n') {
        return Err(strange("ended without an answer".to_owned()));
    }
    if let Some(why) = line.strip_prefix(REFUSED.as_bytes()) {
        return Err(Error::Refused(String::from_utf8_lossy(why).into_owned()));
    }
    match line.strip_prefix(INVITED.as_bytes()) {
        Some(invitation) => Ok(invitation.to_vec()),
        None => Err(strange(format!("said '{}'", String::from_utf8_lossy(&line)))),
    }
}

/// The process id of the supervisor: what is in front of the first colon.
fn supervisor_of(invitation: &[u8]) -> Option<u32> {
    let number = invitation.split(|byte| *byte == b':').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The path of the agent: what is behind the sixth colon.
fn agent_of(invitation: &[u8]) -> PathBuf {
    let path = invitation.splitn(7, |byte| *byte == b':').nth(6).unwrap_or_default();
    OsString::from_vec(path.to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invitation_names_supervisor_and_agent() {
        assert_eq!(supervisor_of(b"71:5:901:9c0f:0:ab01:/usr/lib/a.so"), Some(71));
        assert_eq!(supervisor_of(b"x:5"), None);
        assert_eq!(agent_of(b"71:5:901:9c0f:0::/usr/lib/a:b.so"), Path::new("/usr/lib/a:b.so"));
        assert_eq!(agent_of(b"71:5"), Path::new(""));
    }

    #[test]
    fn a_command_that_is_another_one_is_noticed() {
        let said = begin(Path::new("/bin/true"), &[]).err().expect("it says nothing").to_string();
        assert!(said.contains("without an answer") && said.contains("same version"), "{said}");
        let said = begin(Path::new("/bin/echo"), &[]).err().expect("it says its words").to_string();
        assert!(said.contains("said 'supervise --pid"), "{said}");
        let error = begin(Path::new("/no/such/program"), &[]).err().expect("there is none");
        assert!(matches!(error, Error::NotStarted { .. }), "{error}");
    }
}
