//! `uswap metrics`: says how runs go that are under way, once or to all who ask.

use std::fmt::Arguments;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use uswap_control::map::{MemoryMap, map_of};
use uswap_control::stat::RunStat;
use uswap_control::{runs, stat_of};

use crate::address::Address;
use crate::args::MetricsArguments;
use crate::openmetrics::{RunLabel, render_with};
use crate::server::{Limits, MapQuestion, Server, Source};
use crate::socket::Listener;

/// A run that is stopped does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A large process takes longer for a map of its memory.
const MAP_PATIENCE: Duration = Duration::from_secs(5);

/// Prints the metrics, or answers until the end. What is good to know meanwhile goes to `say`.
///
/// # Errors
/// As a sentence.
pub fn metrics(arguments: &MetricsArguments, say: &dyn Fn(Arguments<'_>)) -> Result<(), String> {
    let which = match (arguments.all, arguments.pid) {
        (true, _) => Which::All,
        (false, Some(pid)) => Which::One(pid),
        (false, None) => Which::One(runs::the_only_one()?),
    };
    match &arguments.listen {
        None => print(&render_with(&which.look(say)?, which.label())),
        Some(address) => answer(which, address, say),
    }
}

/// The runs that are meant.
#[derive(Clone, Copy)]
enum Which {
    One(u32),
    All,
}

impl Which {
    fn label(self) -> RunLabel {
        match self {
            Which::One(_) => RunLabel::Without,
            Which::All => RunLabel::With,
        }
    }

    fn look(self, say: &dyn Fn(Arguments<'_>)) -> Result<Vec<RunStat>, String> {
        match self {
            Which::One(pid) => stat_of(pid, Some(PATIENCE)).map(|stat| vec![stat]),
            Which::All => {
                let pids = runs::of_this_user()
                    .map_err(|error| format!("runs cannot be looked for ({error}): is /proc mounted?"))?;
                Ok(pids.into_iter().filter_map(|pid| look_at_one_of_all(pid, say)).collect())
            }
        }
    }
}

/// The map of a process of a run that is shown here.
fn map(which: Which, question: &MapQuestion<'_>) -> Result<MemoryMap, String> {
    match which {
        Which::One(pid) if pid != question.run => Err(format!("run {} is not shown here", question.run)),
        _ => map_of(question.run, question.process, Some(MAP_PATIENCE)),
    }
}

/// It may have ended since it was found.
fn look_at_one_of_all(pid: u32, say: &dyn Fn(Arguments<'_>)) -> Option<RunStat> {
    match stat_of(pid, Some(PATIENCE)) {
        Ok(stat) => Some(stat),
        Err(why) => {
            if std::fs::exists(format!("/proc/{pid}")).unwrap_or(true) {
                say(format_args!("{why}"));
            }
            None
        }
    }
}

fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| format!("the metrics cannot be written ({error})"))
}

fn answer(which: Which, address: &Address, say: &dyn Fn(Arguments<'_>)) -> Result<(), String> {
    // Opened before it is asked: if it answers, this is the run.
    let run = match which {
        Which::One(pid) => Some(open_process(pid)?),
        Which::All => None,
    };
    which.look(say)?;
    let failed = |error: std::io::Error| format!("nobody can be answered ({error})");
    // A signal is no reason to leave the file of a socket behind.
    let (stopped, by_signal) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let end = by_signal.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, end).map_err(failed)?;
    }
    let silently = |_: Arguments<'_>| ();
    let source = Source {
        stats: Arc::new(move || which.look(&silently).unwrap_or_default()),
        map: Arc::new(move |question| map(which, question)),
        label: which.label(),
    };
    let server = Server::start(Listener::bind(address)?, source, Limits::default()).map_err(failed)?;
    say(format_args!("{}", announcement(server.address())));
    let mut events = vec![PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
    events.extend(run.as_ref().map(|run| PollFd::from_borrowed_fd(run.as_fd(), PollFlags::IN)));
    while poll(&mut events, None) == Err(Errno::INTR) {}
    Ok(())
}

fn open_process(pid: u32) -> Result<std::os::fd::OwnedFd, String> {
    let gone = || format!("there is no process {pid}: has the run ended?");
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|_| gone())
}

/// What is said of a server to whoever started it.
pub fn announcement(address: &Address) -> String {
    match address {
        Address::Tcp(_) => format!("how it goes is shown at {address} (for Prometheus: {address}metrics)"),
        Address::Unix(path) => format!(
            "how it goes is shown at {address} (curl --unix-socket '{}' http://localhost/metrics)",
            path.display()
        ),
    }
}
