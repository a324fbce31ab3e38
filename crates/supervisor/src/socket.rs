//! The socket by which the processes of a run reach its supervisor.
//!
//! It is there from before the program starts until the run ends, so it also says whether a run is under way.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

fn address(token: &str) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("uswap-run-{token}"))
}

/// Whether a run with this token (part of `USWAP_RUN`) listens.
pub fn is_under_way(token: &str) -> bool {
    address(token).and_then(|address| UnixStream::connect_addr(&address)).is_ok()
}

/// The socket of a run with this token: it is there before the program is, which may ask at once.
pub fn listen(token: u64) -> std::io::Result<UnixListener> {
    address(&format!("{token:016x}")).and_then(|address| UnixListener::bind_addr(&address))
}
