//! The sockets of [`Address`]: one way to listen, accept, read and write for both kinds.
//!
//! What must hold: a socket that is a file is for its owner only, from the moment at which it is there; it is removed
//! at the end if it is still the same, and what is there already is not removed unless it is a socket on which nobody
//! listens. No program that the run starts inherits any of them.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::address::Address;

/// Clients that have connected and are not accepted yet.
const BACKLOG: i32 = 64;

/// A socket on which clients connect.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
    /// Removed when this is dropped.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens. Accepting does not wait.
    ///
    /// # Errors
    /// As a sentence: it is in use, or the socket cannot be made.
    pub fn bind(address: &Address) -> Result<Listener, String> {
        match address {
            Address::Unix(path) => Listener::bind_unix(path),
            Address::Tcp(wanted) => {
                let failed =
                    |error| format!("cannot listen on {wanted} ({error}): take another port, or 0 for any");
                let socket = TcpListener::bind(wanted).map_err(failed)?;
                socket.set_nonblocking(true).map_err(failed)?;
                let address = Address::Tcp(socket.local_addr().map_err(failed)?);
                Ok(Listener { socket: Socket::Tcp(socket), address, _file: None })
            }
        }
    }

    fn bind_unix(path: &Path) -> Result<Listener, String> {
        let shown = path.display();
        make_room(path)?;
        let failed = |error| {
            format!("cannot listen on '{shown}' ({error}): check the directory, or name another file")
        };
        let path = std::path::absolute(path).map_err(failed)?;
        let (socket, file) = listen_on_file(&path).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Listener { socket: Socket::Unix(socket), address: Address::Unix(path), _file: Some(file) })
    }

    /// Where it listens, with the port that was found if any was wanted.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next client.
    ///
    /// # Errors
    /// Nobody waits, or there is no descriptor left.
    pub fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(socket) => socket.accept().map(|(stream, _)| {
                // Small parts are sent at once; without, they only come later.
                let _is_slower = stream.set_nodelay(true);
                Stream::Tcp(stream)
            }),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }
}

/// What is at the path is out of the way, or the reason why not.
fn make_room(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(format!("'{shown}' is there already, and is no socket: name another file"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(format!("another process listens on '{shown}': name another file")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| {
                format!("the socket '{shown}' of a process that is gone cannot be removed ({error})")
            })
        }
        Err(error) => Err(format!("'{shown}' is there already ({error}): name another file")),
    }
}

fn listen_on_file(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets these rights when it is made; later there would be a moment with others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let made = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.to_owned(), device: made.dev(), inode: made.ino() };
    listen(&socket, BACKLOG)?;
    Ok((socket.into(), file))
}

/// The file of a socket. It is removed with this, unless somebody else has put another one there.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = |found: fs::Metadata| (found.dev(), found.ino()) == (self.device, self.inode);
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _somebody_else_did = fs::remove_file(&self.path);
        }
    }
}

/// A client.
#[derive(Debug)]
pub enum Stream {
    /// By a file.
    Unix(UnixStream),
    /// By a port.
    Tcp(TcpStream),
}

impl Stream {
    /// Another handle of it.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
        }
    }

    /// Ends reading, writing or both, for whoever waits in it too.
    pub fn shut_down(&self, what: Shutdown) {
        let _is_gone = match self {
            Stream::Unix(stream) => stream.shutdown(what),
            Stream::Tcp(stream) => stream.shutdown(what),
        };
    }

    /// How long one read may take.
    ///
    /// # Errors
    /// It is zero.
    pub fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

    /// How long one write may take.
    ///
    /// # Errors
    /// It is zero.
    pub fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(Some(time)),
            Stream::Tcp(stream) => stream.set_write_timeout(Some(time)),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => Read::read(&mut &*stream, buffer),
            Stream::Tcp(stream) => Read::read(&mut &*stream, buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => Write::write(&mut &*stream, bytes),
            Stream::Tcp(stream) => Write::write(&mut &*stream, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("uswap-metrics-socket-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_socket_file_is_for_its_owner_and_goes_with_the_listener() {
        let path = scratch("own");
        let listener = Listener::bind(&Address::Unix(path.clone())).unwrap();
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn only_a_socket_on_which_nobody_listens_is_replaced() {
        let path = scratch("there");
        let address = Address::Unix(path.clone());
        fs::write(&path, "precious").unwrap();
        assert!(Listener::bind(&address).unwrap_err().contains("is no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        let listener = Listener::bind(&address).unwrap();
        assert!(Listener::bind(&address).unwrap_err().contains("another process listens"));
        drop(listener);
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves it behind");
        drop(Listener::bind(&address).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn the_file_of_somebody_else_stays() {
        let path = scratch("other");
        let listener = Listener::bind(&Address::Unix(path.clone())).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of somebody else").unwrap();
        drop(listener);
        assert_eq!(fs::read_to_string(&path).unwrap(), "of somebody else");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_port_that_is_in_use_is_named_and_any_is_found() {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let Address::Tcp(address) = listener.address() else { panic!("{listener:?}") };
        assert!(address.port() > 0);
        let error = Listener::bind(listener.address()).unwrap_err();
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
