//! The runs that are under way in this pid namespace.
//!
//! The kernel lists the sockets of a network namespace (`/proc/net/unix`), those of other users among them. A container
//! that has a pid namespace of its own sees its own runs.

use std::os::fd::AsRawFd as _;

use crate::{connect, names};

/// Process ids of the supervisors whose runs listen, in rising order.
///
/// # Errors
/// `/proc` is not mounted.
pub fn listening() -> std::io::Result<Vec<u32>> {
    let (sockets, names) = (std::fs::read("/proc/net/unix")?, names()?);
    // A name may be of any bytes.
    Ok(pids_in(&String::from_utf8_lossy(&sockets), &names))
}

/// Those whose runs this user may ask: their own, or all if it is root.
///
/// # Errors
/// As of [`listening`].
pub fn of_this_user() -> std::io::Result<Vec<u32>> {
    let own = rustix::process::geteuid().as_raw();
    let may_ask = |pid: &u32| {
        let peer = connect(*pid).ok().and_then(|stream| uswap_os::process::peer_of(stream.as_raw_fd()).ok());
        peer.is_some_and(|peer| peer.pid == *pid && (own == 0 || peer.uid == own))
    };
    Ok(listening()?.into_iter().filter(may_ask).collect())
}

/// The run that is meant where none is named: the one that this process is in, or the only one that this user may ask.
///
/// # Errors
/// As a sentence: there is none, or more than one.
pub fn the_only_one() -> Result<u32, String> {
    let runs =
        of_this_user().map_err(|error| format!("runs cannot be looked for ({error}): is /proc mounted?"))?;
    if let Some(own) = own_run().filter(|own| runs.contains(own)) {
        return Ok(own);
    }
    match runs[..] {
        [pid] => Ok(pid),
        [] => Err("no run of this user is under way here: start one with 'uswap run', or name another user's by its \
                   process id"
            .to_owned()),
        _ => Err(format!(
            "{} runs are under way, of processes {}: name one of them by its process id ('uswap ps' shows them)",
            runs.len(),
            runs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The supervisor of the run that this process was started in, as its environment names it.
fn own_run() -> Option<u32> {
    let invitation = std::env::var(uswap_identity::RUN_VARIABLE).ok()?;
    invitation.split(':').next()?.parse().ok()
}

/// The process ids behind `names` in a list of sockets. The name is the last word of a line, with `@` for its first
/// byte, which is zero.
fn pids_in(sockets: &str, names: &str) -> Vec<u32> {
    let pid = |line: &str| {
        let (_, name) = line.rsplit_once(" @")?;
        name.strip_prefix(names)?.parse().ok()
    };
    let mut pids: Vec<u32> = sockets.lines().filter_map(pid).collect();
    pids.sort_unstable();
    // A socket that somebody has connected to has its name, too.
    pids.dedup();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn names_are_found_among_other_sockets() {
        let sockets = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21007 @uswap-control-pid:[4026531836]-812
0000000000000000: 00000003 00000000 00000000 0001 03 21009 @uswap-control-pid:[4026531836]-812
0000000000000000: 00000002 00000000 00010000 0001 01 21008 @uswap-control-pid:[4026531836]-7
0000000000000000: 00000002 00000000 00010000 0001 01 21010 @uswap-control-pid:[4026532001]-9
0000000000000000: 00000002 00000000 00010000 0001 01 21011 @uswap-run-00000000deadbeef
0000000000000000: 00000002 00000000 00010000 0001 01 21012 /run/a @uswap-control-pid:[4026531836]-x
0000000000000000: 00000003 00000000 00000000 0001 03 21013
";
        assert_eq!(pids_in(sockets, "uswap-control-pid:[4026531836]-"), [7, 812]);
    }

    #[test]
    fn a_run_is_found_while_it_listens() {
        let address = address(std::process::id()).expect("/proc is mounted");
        let listener = UnixListener::bind_addr(&address).expect("nobody has this name");
        let client = UnixStream::connect_addr(&address).expect("it listens");
        let found = || listening().expect("/proc is mounted").contains(&std::process::id());
        assert!(found());
        drop((listener, client));
        assert!(!found());
    }
}
