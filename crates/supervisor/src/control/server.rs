//! The run's side of the control socket: a thread of the supervisor that takes commands.
//!
//! Called by [`crate::commands`], which brings what is to be done. A command that takes long holds up no other: each
//! has a thread, up to [`COMMANDS_MAX`].

use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use uswap_control::{address, read_line, unpoisoned};

use super::command::{Answer, Change, Command, Form};
use crate::files::place::SwapPlace;

/// Commands at once. Each has a thread with a stack of 64 KiB: 256 KiB.
const COMMANDS_MAX: usize = 4;

const STACK_BYTES: usize = 64 * 1024;

/// A client has so long to say what it wants, and to take the answer.
/// Without an end in tests: the end of a run does not depend on it.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 << 30 } else { 2 });

/// What a run can do.
pub trait CommandHandler: Sync {
    /// A descriptor that becomes readable when the run ends, and stays so.
    fn ended(&self) -> BorrowedFd<'_>;
    /// Writes what nobody touches for `age`. What was done, or why not, as a sentence; so with the others.
    fn write_back(&self, age: Duration) -> Result<String, String>;
    /// Adds a swap file.
    fn swap_on(&self, place: SwapPlace) -> Result<String, String>;
    /// Moves what is in the swap file of this directory to the others, and removes it.
    fn swap_off(&self, dir: &Path) -> Result<String, String>;
    /// Says how it goes.
    fn stat(&self, form: Form) -> String;
    /// Says which parts of the memory of a process are where, as JSON.
    fn map(&self, pid: Option<u32>) -> Result<String, String>;
    /// Keeps to something else.
    fn change(&self, change: &Change) -> Result<String, String>;
    /// Brings all memory home, and manages nothing any more.
    fn leave(&self) -> Result<String, String>;
    /// Writes all memory to the swap files, and stops the processes.
    fn freeze(&self) -> Result<String, String>;
    /// Lets them go on.
    fn thaw(&self) -> Result<String, String>;
}

/// Where this process is asked. Who connects waits for [`serve`].
///
/// # Errors
/// No socket can be made: the run goes on without commands.
pub fn listen() -> std::io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers until the run ends.
///
/// # Errors
/// It cannot be waited for clients.
pub fn serve(listener: &UnixListener, run: &impl CommandHandler) -> std::io::Result<()> {
    let clients = Clients::default();
    std::thread::scope(|scope| {
        while wait_for_client(listener, run)? {
            let Ok((stream, _)) = listener.accept() else { continue };
            let Some(place) = clients.enter(&stream) else {
                reply(&stream, &Answer::Error("the run is busy with other commands: try again".to_owned()));
                continue;
            };
            let clients = &clients;
            let thread = std::thread::Builder::new().name("uswap-command".to_owned()).stack_size(STACK_BYTES);
            let started = thread.spawn_scoped(scope, move || {
                reply(&stream, &answer(run, &stream));
                clients.leave(place);
            });
            if started.is_err() {
                clients.leave(place);
            }
        }
        // Who has not said what it wants is not waited for.
        clients.hear_no_more();
        Ok(())
    })
}

/// False: the run has ended.
fn wait_for_client(listener: &UnixListener, run: &impl CommandHandler) -> std::io::Result<bool> {
    let ended = run.ended();
    loop {
        let mut events = [PollFd::new(listener, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut events, None) {
            Ok(_) => return Ok(events[1].revents().is_empty()),
            Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Who is connected, so that the end of the run need not wait for them.
#[derive(Default)]
struct Clients([Mutex<Option<UnixStream>>; COMMANDS_MAX]);

impl Clients {
    /// The number of a place for one more.
    fn enter(&self, stream: &UnixStream) -> Option<usize> {
        let place = (0..COMMANDS_MAX).find(|&place| self.place(place).is_none())?;
        *self.place(place) = Some(stream.try_clone().ok()?);
        Some(place)
    }

    fn leave(&self, place: usize) {
        *self.place(place) = None;
    }

    /// Reading from any of them ends; what they are told still arrives.
    fn hear_no_more(&self) {
        for stream in (0..COMMANDS_MAX).filter_map(|place| self.place(place).take()) {
            let _is_gone = stream.shutdown(Shutdown::Read);
        }
    }

    fn place(&self, place: usize) -> MutexGuard<'_, Option<UnixStream>> {
        unpoisoned(self.0[place].lock())
    }
}

fn answer(run: &impl CommandHandler, stream: &UnixStream) -> Answer {
    let (own, peer) = (rustix::process::geteuid().as_raw(), uswap_os::process::peer_of(stream.as_raw_fd()));
    if peer.is_ok_and(|peer| peer.uid != 0 && peer.uid != own) || peer.is_err() {
        return Answer::Error(format!("only root and user {own}, whose run this is, may do that"));
    }
    let line = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
    match line.and_then(|()| read_line(stream)).ok().as_deref().and_then(Command::parse) {
        Some(command) => {
            let done = match command {
                Command::Writeback(age) => run.write_back(age),
                Command::SwapOn(place) => run.swap_on(place),
                Command::SwapOff(dir) => run.swap_off(&dir),
                Command::Stat(form) => Ok(run.stat(form)),
                Command::Map(pid) => run.map(pid),
                Command::Set(change) => run.change(&change),
                Command::Leave => run.leave(),
                Command::Freeze => run.freeze(),
                Command::Thaw => run.thaw(),
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
