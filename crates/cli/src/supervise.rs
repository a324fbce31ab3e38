//! `uswap supervise`: the supervisor of a run that begins with a process which runs already, and has asked for it.
//!
//! The library `uswap` starts it apart from its process, and talks to it through its standard input and output:
//!
//! ```text
//! supervisor   run 71:5:901:9c0..:0:/usr/lib/uswap/libuswap_agent.so      or   error no such directory ...
//! process      joined                                                          (it ends)
//! process      left                                                       (when it has let go of its budget)
//! ```
//!
//! What must hold: whatever the process or the library does, the supervisor ends when nobody of the run needs it; and
//! it stays as long as somebody does.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use uswap_identity::{INVITED, JOINED, LEFT, REFUSED};
use uswap_os::pidfd::Pidfd;
use uswap_supervisor::Supervisor;

use crate::agent_file;
use crate::args::SuperviseArguments;
use crate::filter::Filtered;
use crate::limit::{self, Told};
use crate::message::{Appends, say, write_stdout};
use crate::process::{Ending, StartFailure, survive_file_size_limit};
use crate::report::RunRecord;
use crate::shown::{Quiet, ToShow};

/// Between two looks whether somebody still needs it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Serves the run to its end; the exit code.
pub fn supervise(arguments: &SuperviseArguments) -> i32 {
    match start_and_stay(arguments) {
        Ok(()) => 0,
        Err(failure) => {
            refuse(&failure.message);
            failure.exit_code
        }
    }
}

/// Tells the library why there is no run.
pub fn refuse(why: &str) {
    let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let _nobody_may_listen = write_stdout(&format!("{REFUSED}{line}\n"));
}

/// The same of a mistake in the words, as it is shown to people: what it is about is its first paragraph.
pub fn refuse_words(error: &str) {
    let first = error.split("\n\n").next().unwrap_or(error);
    refuse(first.strip_prefix("error: ").unwrap_or(first));
}

fn start_and_stay(arguments: &SuperviseArguments) -> Result<(), StartFailure> {
    survive_file_size_limit()
        .map_err(|error| StartFailure::own(format!("signal handlers cannot be set ({error})")))?;
    let root = Pidfd::open(arguments.pid)
        .map_err(|errno| StartFailure::own(format!("there is no process {} ({errno})", arguments.pid)))?;
    let _whole_messages = Appends::to_stderr();
    // The process has the same filter, if it has one.
    let filtered = Filtered::look().unwrap_or_default();
    if !filtered.needed.is_empty() {
        return Err(StartFailure::own(format!(
            "a filter of system calls (seccomp) ends a process for {}: let the filter of this sandbox (in a container: \
             its seccomp profile) allow them, or set no budget",
            filtered.needed.join(", ")
        )));
    }
    arguments.limit.without.or(filtered.spared).switch_off();
    let own_path = std::env::current_exe().map_err(|error| {
        StartFailure::own(format!("uswap cannot find its own file ({error}): is /proc mounted?"))
    })?;
    let agent = agent_file::find_and_check(std::env::var_os("USWAP_AGENT").as_deref(), &own_path)?;
    let mut json = limit::create_json(&arguments.limit)?;
    let to_show = ToShow::prepare(&arguments.limit)?;
    // What is said goes to the standard error of somebody's program: only what goes wrong.
    let told = Told {
        program: name_of(arguments.pid),
        root: Some(arguments.pid),
        regions_only: arguments.regions_only,
        quiet: true,
        verbosity: 0,
    };
    let options = limit::options(&arguments.limit, &agent, told)?;
    let mut supervisor =
        Supervisor::start(options, Box::new(say)).map_err(|error| StartFailure::own(error.to_string()))?;
    let shown = to_show.start(&supervisor, Quiet::Yes);
    let [(_, invitation)] = supervisor.environment();
    let mut library = Library::default();
    if library.invite(&invitation) {
        // Not before: what the process has would count as memory that cannot be reclaimed.
        supervisor.attach(arguments.pid);
        stay(&root, &supervisor, &mut library);
    }
    let seen = shown.end();
    let report = supervisor.finish();
    seen.write();
    if let Some((file, path)) = &mut json
        && let Err(error) = RunRecord::new(Vec::new(), Ending::Exited(0), report).write_json(file)
    {
        say(format_args!("the report cannot be written to '{}' ({error})", path.display()));
    }
    Ok(())
}

fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The other end.
#[derive(Default)]
struct Library {
    heard: Vec<u8>,
    /// It says nothing any more: its process has executed another program, or closed all that it had open.
    is_silent: bool,
}

impl Library {
    /// Whether its process has joined the run.
    fn invite(&mut self, invitation: &OsString) -> bool {
        let line = [INVITED.as_bytes(), invitation.as_bytes(), b"\n"].concat();
        let mut output = std::io::stdout();
        if output.write_all(&line).and_then(|()| output.flush()).is_err() {
            return false;
        }
        while !self.has_said(JOINED) {
            if self.is_silent {
                return false;
            }
            self.hear();
        }
        // Nobody listens there from now on.
        if let Ok(null) = File::options().write(true).open("/dev/null") {
            let _nothing_is_said_there = rustix::stdio::dup2_stdout(&null);
        }
        true
    }

    fn has_said(&self, what: &str) -> bool {
        self.heard.windows(what.len()).any(|part| part == what.as_bytes())
    }

    /// Waits until it says something, or has no more to say.
    fn hear(&mut self) {
        let mut buffer = [0; 64];
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Err(Errno::INTR) => (),
            Ok(0) | Err(_) => self.is_silent = true,
            Ok(count) => self.heard.extend(&buffer[..count]),
        }
    }

    /// Waits until it says something, or for so long.
    fn wait(&mut self, time: Duration) {
        if self.is_silent {
            return std::thread::sleep(time);
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let mut entries = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        if poll(&mut entries, Some(&timeout)).is_ok_and(|count| count > 0) {
            self.hear();
        }
    }
}

/// Until nobody needs the run any more.
fn stay(root: &Pidfd, supervisor: &Supervisor, library: &mut Library) {
    let is_root_gone = |library: &Library| root.has_ended() || library.has_said(LEFT);
    while !is_root_gone(library) || supervisor.live_processes() > 0 {
        library.wait(LOOK_EVERY);
    }
}
