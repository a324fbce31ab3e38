//! What can be asked of a run that is under way, and the socket by which it is asked.
//!
//! A run listens on an abstract socket that is named after its process id and the namespace of that; there is no file
//! to leave behind. What must hold: only root and the user of the run are obeyed. One line each way ([`order`]):
//! ```text
//! -> writeback MILLISECONDS     or     swapon SIZE PRIORITY KIND DIR     or     swapoff DIR     or     stat 1
//! <- ok WHAT WAS DONE           or     error WHY
//! ```

pub mod order;
pub mod server;

use std::io::{BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

/// Longest line of a command or an answer: the name of a directory may have 4,096 bytes, and `uswap stat` says some 600
/// bytes of each of 20 processes.
const LINE_BYTES_MAX: u64 = 32 << 10;

/// Pages are watched for so long at most: a day.
pub const AGE_MAX: Duration = Duration::from_secs(86_400);

/// Where the run of a process of this pid namespace listens. Containers may share a network namespace, in which these
/// names are, and have the same process ids.
fn address(pid: u32) -> std::io::Result<SocketAddr> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    SocketAddr::from_abstract_name(format!("uswap-control-{}-{pid}", namespace.display()))
}

/// The run of a process.
///
/// # Errors
/// Nobody listens as that process.
pub fn connect(pid: u32) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&address(pid)?)
}

/// A line that the other end says.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn read_line(stream: &UnixStream) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(std::io::Read::take(stream, LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}
