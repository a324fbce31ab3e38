//! Starts the program and stays with it: the main thread of `uswap run`.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, kill_process};

use super::ending::{Ending, StartFailure};
use super::family;
use super::signals::{Received, Watched, named};
use crate::human;
use crate::message::say;

/// After the program has ended: how often to look whether managed processes live.
const AFTER_POLL_MIN: Duration = Duration::from_millis(2);
const AFTER_POLL_MAX: Duration = Duration::from_millis(100);
/// A process that is just ending is counted for a moment longer: say nothing about it.
const AFTER_NOTICE_DELAY: Duration = Duration::from_millis(500);

/// The engine's side of a run, as far as process handling needs it.
pub trait Manager {
    /// The program is `pid` and runs already. Called once.
    fn attach(&mut self, pid: u32);
    /// How many processes of the run need their supervisor now.
    fn live_processes(&self) -> usize;
    /// uswap leaves processes of the run behind, and has said so.
    fn leave_behind(&self);
    /// The program is stopped because somebody has asked for that, and uswap is to go on.
    fn is_frozen(&self) -> bool;
}

/// What to say while the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notices {
    /// Nothing.
    Quiet,
    /// What the user could not understand otherwise.
    Few,
    /// Also what is only good to know.
    Many,
}

/// Starts `command`, hands its pid to `manager`, and returns when it has ended and no managed process is left.
///
/// The caller has given `command` its arguments and environment; standard streams and process group are left alone.
///
/// # Errors
/// If the program cannot be started; then nothing has been attached.
pub fn watch<M: Manager>(
    command: &mut Command,
    manager: &mut M,
    notices: Notices,
) -> Result<Ending, StartFailure> {
    let mut signals = Watched::take().map_err(|error| {
        StartFailure::own(format!(
            "signal handlers cannot be set ({error}), so signals would not reach the program"
        ))
    })?;
    // Orphans of the program come to uswap and not to init, so that the tree stays one.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| {
        StartFailure::own(format!("uswap cannot become the reaper of the program's orphans ({error})"))
    })?;
    let program = spawn(command)?;
    signals.set_program(program);
    manager.attach(program.as_raw_nonzero().get().unsigned_abs());
    let ending = stay_with(program, manager, &mut signals);
    stay_with_the_rest(manager, &mut signals, notices);
    Ok(ending)
}

fn spawn(command: &mut Command) -> Result<Pid, StartFailure> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().map_err(|error| {
        let message = format!("'{shown}' cannot be started ({error})");
        match error.kind() {
            io::ErrorKind::NotFound => StartFailure::not_found(message),
            io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => StartFailure::own(message),
            _ => StartFailure::not_executable(message),
        }
    })?;
    // From here on the pid is waited for together with all others, never through `child`.
    Ok(Pid::from_raw(child.id().cast_signed()).expect("a started process has a pid above 0"))
}

/// Until the program itself has ended.
fn stay_with<M: Manager>(program: Pid, manager: &M, signals: &mut Watched) -> Ending {
    loop {
        // Look first: it may have ended before the handler for SIGCHLD saw anything.
        if let Some(ending) = reap(Some(program), manager, signals) {
            return ending;
        }
        for received in signals.wait() {
            match received {
                Received::SendOn(number) => send(program, number),
                Received::Continued if family::is_stopped(program) && !manager.is_frozen() => {
                    send(program, signal_hook::consts::SIGCONT)
                }
                Received::Continued | Received::ChildChanged | Received::FromTerminal(_) => {}
            }
        }
    }
}

/// What a tracer is told of a stop is above these bits of a status.
const EVENT_SHIFT: u32 = 16;

/// Waits for whatever changed without blocking; returns how `program` ended if it did. Follows it into a stop.
fn reap<M: Manager>(program: Option<Pid>, manager: &M, signals: &mut Watched) -> Option<Ending> {
    let mut ending = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        if status.stopped() && status.as_raw() >> EVENT_SHIFT != 0 {
            // The supervisor traces it for a moment.
            continue;
        }
        if Some(pid) == program {
            if status.stopped() && !manager.is_frozen() {
                stop_with(pid);
            }
            ending = ending.or(Ending::from_status(status));
        } else {
            signals.note_reaped(pid);
        }
    }
    ending
}

/// The program stopped: stop too, so that the shell takes the terminal back. Returns when uswap was continued.
fn stop_with(program: Pid) {
    // It may have been continued meanwhile; then nobody would continue uswap.
    if !family::is_stopped(program) {
        return;
    }
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
    // A shell continues the whole group; `kill -CONT` to uswap alone does not.
    if family::is_stopped(program) {
        send(program, signal_hook::consts::SIGCONT);
    }
}

fn send_to_orphans(received: Received) {
    let (number, has_it_already) = match received {
        Received::SendOn(number) => (number, false),
        Received::FromTerminal(number) => (number, true),
        Received::Continued => (signal_hook::consts::SIGCONT, false),
        Received::ChildChanged => return,
    };
    for orphan in family::orphans() {
        if !(has_it_already && orphan.in_own_group) {
            send(orphan.pid, number);
        }
    }
}

/// A signal to a process that has just ended is not an error.
fn send(pid: Pid, number: i32) {
    let _ = kill_process(pid, named(number));
}

/// The program has ended. What it left running still needs its supervisor, so stay until that is gone.
///
/// A request to end (SIGTERM, SIGHUP, SIGINT, SIGQUIT) is sent to what is left; a second one makes uswap leave.
fn stay_with_the_rest<M: Manager>(manager: &M, signals: &mut Watched, notices: Notices) {
    let since = Instant::now();
    let mut pause = AFTER_POLL_MIN;
    let mut said = notices == Notices::Quiet;
    let mut asked_before = false;
    loop {
        let _ = reap(None, manager, signals);
        let live = manager.live_processes();
        if live == 0 {
            return;
        }
        let patience = if notices == Notices::Many { AFTER_NOTICE_DELAY } else { AFTER_NOTICE_DELAY * 6 };
        if !said && since.elapsed() >= patience {
            said = true;
            say(format_args!(
                "the program has ended, {live} process(es) that it started run on and need uswap: waiting for them \
                 (Ctrl-C asks them to end, a second Ctrl-C leaves them without uswap)"
            ));
        }
        // An orphan that ends comes to uswap as SIGCHLD: the pause is for managed processes whose parent still lives.
        for received in signals.wait_for(pause) {
            if let Some(number) = received.asks_to_end() {
                if asked_before {
                    say(format_args!(
                        "leaving {live} process(es) on {}: their budget is not kept from now on",
                        human::signal(number)
                    ));
                    manager.leave_behind();
                    return;
                }
                asked_before = true;
            }
            send_to_orphans(received);
        }
        pause = (pause * 2).min(AFTER_POLL_MAX);
    }
}
