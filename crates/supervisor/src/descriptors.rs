//! Hands descriptors to processes of the run that do not reach them through `/proc`: another user, or a mount or
//! pid namespace of its own.
//!
//! What must hold: only a process of the run gets anything, and one of another user only with
//! `--keep-after-setuid`, since the segment has the memory of all. Who asks is known by what the kernel noted when it
//! connected. There is nothing else to ask for than the segment, the swap files, and the place for messages.

use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use uswap_os::fd::{PollEntry, Timeout, poll};
use uswap_os::{process, socket};

use crate::processes::Root;
use crate::shared::Shared;

/// Messages of the engines go there.
const STDERR: i32 = 2;
/// Who connects has so long to say what it wants.
const PATIENCE: Duration = Duration::from_millis(500);
/// More generations than this are not between a process of the run and the supervisor.
const GENERATIONS_MAX: u32 = 4096;

/// Answers until the run ends.
pub fn run(shared: &Shared) {
    let listener = match &shared.socket {
        Ok(listener) => listener,
        Err(error) => {
            if shared.options.verbosity > 0 {
                shared.warn(&format!(
                    "processes in namespaces of their own cannot join this run: no socket ({error}). Allow it a \
                     unix socket"
                ));
            }
            return;
        }
    };
    let ends = [
        PollEntry::readable_raw(listener.as_raw_fd()),
        PollEntry::readable_raw(shared.stop.as_fd().as_raw_fd()),
    ];
    while !shared.is_stopping() {
        let mut entries = ends;
        if poll(&mut entries, Timeout::Forever).is_ok()
            && entries[0].is_readable()
            && let Ok((stream, _)) = listener.accept()
        {
            serve(shared, &stream);
        }
    }
}

fn serve(shared: &Shared, stream: &UnixStream) {
    let Ok(peer) = process::peer_of(stream.as_raw_fd()) else { return };
    let own = rustix::process::geteuid().as_raw();
    if !is_of_run(shared.root(), peer.pid) || (peer.uid != own && !shared.options.keep_after_setuid) {
        return;
    }
    let mut number = [0; 4];
    let asked = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| {
        let mut stream = stream;
        stream.read_exact(&mut number)
    });
    if asked.is_err() {
        return;
    }
    let number = i32::from_le_bytes(number);
    if may_have(shared, number) {
        let _who_asked_may_be_gone = socket::send_descriptor(stream.as_raw_fd(), number);
    }
}

fn may_have(shared: &Shared, number: i32) -> bool {
    number == STDERR
        || number == shared.memfd.raw()
        || shared.files.specs().any(|spec| spec.descriptor == number)
}

/// Whether a process is of the run that begins with `root`. It waits for the answer, so it keeps its number meanwhile;
/// if it ends and another gets the number, nobody has the other end of the socket.
fn is_of_run(root: Root, pid: u32) -> bool {
    let parent = |pid: &u32| process::stat(*pid).ok().map(|stat| stat.parent).filter(|&parent| parent != 0);
    let first = if root.is_member() { Some(pid) } else { parent(&pid) };
    std::iter::successors(first, parent).take(GENERATIONS_MAX as usize).any(|pid| pid == root.pid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_of_the_run_and_others_are_not() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep is there");
        let own = process::process_id();
        let seen = |root| [child.id(), own, 1, 0].map(|pid| is_of_run(root, pid));
        let (started, joined, of_child) =
            (seen(Root::Supervisor), seen(Root::Member(own)), seen(Root::Member(child.id())));
        child.kill().and_then(|()| child.wait()).expect("it is our child");
        assert_eq!(started, [true, false, false, false]);
        assert_eq!(joined, [true, true, false, false]);
        assert_eq!(of_child, [true, false, false, false]);
    }
}
