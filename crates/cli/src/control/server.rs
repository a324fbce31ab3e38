//! The end of the run: a thread of the supervisor that takes commands.
//!
//! Called by [`crate::supervisor`], which brings what is to be done. A command that takes long holds up no other: each has a thread, up to [`COMMANDS_MAX`].

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::order::{Answer, Form, Order};
use super::{address, read_line};
use crate::swap_place::SwapPlace;

/// Commands at once. Each has a thread with a stack of 64 KiB: 256 KiB.
const COMMANDS_MAX: usize = 4;

const STACK_BYTES: usize = 64 * 1024;

/// So often is looked for a command.
const IDLE: Duration = Duration::from_millis(200);

/// A client has so long to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a run can do.
pub trait Obey: Sync {
    /// The run ends.
    fn is_stopping(&self) -> bool;
    /// Writes what nobody touches for `age`. What was done, or why not, as a sentence; so with the others.
    fn write_back(&self, age: Duration) -> Result<String, String>;
    /// Adds a swap file.
    fn swap_on(&self, place: SwapPlace) -> Result<String, String>;
    /// Moves what is in the swap file of this directory to the others, and removes it.
    fn swap_off(&self, dir: &Path) -> Result<String, String>;
    /// Says how it goes.
    fn stat(&self, form: Form) -> String;
}

/// Listens until the run ends.
///
/// # Errors
/// No socket can be made: the run goes on without commands.
pub fn serve(run: &impl Obey) -> std::io::Result<()> {
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    listener.set_nonblocking(true)?;
    let commands = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !run.is_stopping() {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::park_timeout(IDLE);
                continue;
            };
            if commands.fetch_add(1, Ordering::Relaxed) >= COMMANDS_MAX {
                commands.fetch_sub(1, Ordering::Relaxed);
                reply(&stream, &Answer::Error("the run is busy with other commands: try again".to_owned()));
                continue;
            }
            let commands = &commands;
            let thread = std::thread::Builder::new().name("uswap-command".to_owned()).stack_size(STACK_BYTES);
            let started = thread.spawn_scoped(scope, move || {
                reply(&stream, &answer(run, &stream));
                commands.fetch_sub(1, Ordering::Relaxed);
            });
            if started.is_err() {
                commands.fetch_sub(1, Ordering::Relaxed);
            }
        }
    });
    Ok(())
}

fn answer(run: &impl Obey, stream: &UnixStream) -> Answer {
    let (own, peer) = (rustix::process::geteuid().as_raw(), uswap_os::process::peer_of(stream.as_raw_fd()));
    if peer.is_ok_and(|peer| peer.uid != 0 && peer.uid != own) || peer.is_err() {
        return Answer::Error(format!("only root and user {own}, whose run this is, may do that"));
    }
    let line = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
    match line.and_then(|()| read_line(stream)).ok().as_deref().and_then(Order::parse) {
        Some(order) => {
            let done = match order {
                Order::Writeback(age) => run.write_back(age),
                Order::SwapOn(place) => run.swap_on(place),
                Order::SwapOff(dir) => run.swap_off(&dir),
                Order::Stat(form) => Ok(run.stat(form)),
            };
            done.map_or_else(Answer::Error, Answer::Done)
        }
        None => Answer::Error("the run does not know this command: is it of another version?".to_owned()),
    }
}

fn reply(mut stream: &UnixStream, answer: &Answer) {
    let ready = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    // Whoever has asked may be gone.
    let _nobody_waits = ready.and_then(|()| stream.write_all(answer.line().as_bytes()));
}
