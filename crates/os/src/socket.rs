//! Descriptors that go from one process to another over a unix socket.
//!
//! Called by `host`, where it does not reach the supervisor's descriptors through `/proc`, and by the supervisor.
//!
//! Must hold: no call waits longer than the socket was told to, none raises SIGPIPE, and a descriptor that is received
//! is close-on-exec.

use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};
use core::mem::MaybeUninit;

const AF_UNIX: u16 = 1;
const SOCK_STREAM: usize = 1;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SO_RCVTIMEO: usize = 20;
const SO_SNDTIMEO: usize = 21;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;

/// The longest name of [`connect`].
pub const NAME_BYTES_MAX: usize = 107;

/// `struct sockaddr_un`.
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; NAME_BYTES_MAX + 1],
}

/// `struct iovec`.
#[repr(C)]
struct Part {
    start: usize,
    bytes: usize,
}

/// `struct msghdr`.
#[repr(C)]
struct Header {
    name: usize,
    name_bytes: u32,
    parts: usize,
    part_count: usize,
    control: usize,
    control_bytes: usize,
    flags: i32,
}

/// `struct cmsghdr` with one descriptor, and what aligns the next one.
#[repr(C, align(8))]
struct Control {
    bytes: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

/// Bytes of a [`Control`] without what aligns the next one.
const CONTROL_BYTES: usize = size_of::<Control>() - 4;

/// Connects to the socket of an abstract name, which is the same in all mount and pid namespaces. No call on it waits
/// longer than `patience_ns`.
pub fn connect(name: &[u8], patience_ns: u64) -> Result<Fd> {
    let mut address = Address { family: AF_UNIX, path: [0; NAME_BYTES_MAX + 1] };
    let place = address.path.get_mut(1..=name.len()).ok_or(Errno::EINVAL)?;
    place.copy_from_slice(name);
    let flags = SOCK_STREAM | abi::O_CLOEXEC as usize;
    let socket = sys::plain(abi::__NR_socket, AF_UNIX as usize, flags, 0)?;
    let socket = Fd::from_raw(socket as i32);
    let patience = sys::timespec(patience_ns);
    let patience = [patience.tv_sec, patience.tv_nsec / 1000];
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        // SAFETY:
        // 1. The kernel reads one `struct timeval`, two words of 8 bytes, which live through the call.
        unsafe {
            sys::syscall6(
                abi::__NR_setsockopt,
                socket.raw() as usize,
                SOL_SOCKET as usize,
                option,
                patience.as_ptr() as usize,
                size_of_val(&patience),
                0,
            )
        }?;
    }
    let bytes = size_of::<u16>() + 1 + name.len();
    // SAFETY:
    // 1. The kernel reads `bytes` bytes of the address, which are inside it: `place` was.
    unsafe { sys::syscall3(abi::__NR_connect, socket.raw() as usize, &raw const address as usize, bytes) }?;
    Ok(socket)
}

/// Sends bytes. EPIPE and no signal, if the other end is gone.
pub fn send(socket: &Fd, bytes: &[u8]) -> Result<()> {
    // SAFETY:
    // 1. The kernel only reads `bytes`; no address is given.
    let sent = unsafe {
        sys::syscall4(
            abi::__NR_sendto,
            socket.raw() as usize,
            bytes.as_ptr() as usize,
            bytes.len(),
            MSG_NOSIGNAL,
        )
    }?;
    if sent == bytes.len() { Ok(()) } else { Err(Errno::EPIPE) }
}

/// Sends a copy of a descriptor, and one byte that carries it.
pub fn send_descriptor(socket: i32, descriptor: i32) -> Result<()> {
    let byte = 0u8;
    let part = Part { start: &raw const byte as usize, bytes: 1 };
    let control =
        Control { bytes: CONTROL_BYTES, level: SOL_SOCKET, kind: SCM_RIGHTS, descriptor, padding: 0 };
    let header = Header {
        name: 0,
        name_bytes: 0,
        parts: &raw const part as usize,
        part_count: 1,
        control: &raw const control as usize,
        control_bytes: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY:
    // 1. All that the header names lives through the call, with the sizes that it says; the kernel only reads it.
    unsafe { sys::syscall3(abi::__NR_sendmsg, socket as usize, &raw const header as usize, MSG_NOSIGNAL) }
        .map(drop)
}

/// Receives what [`send_descriptor`] sent, close-on-exec. EPIPE: the other end sent none.
pub fn receive_descriptor(socket: &Fd) -> Result<Fd> {
    let mut byte = 0u8;
    let part = Part { start: &raw mut byte as usize, bytes: 1 };
    let mut control = MaybeUninit::<Control>::zeroed();
    let mut header = Header {
        name: 0,
        name_bytes: 0,
        parts: &raw const part as usize,
        part_count: 1,
        control: control.as_mut_ptr() as usize,
        control_bytes: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY:
    // 1. All that the header names is ours alone and lives through the call; the kernel writes no more than the sizes
    //    said.
    unsafe {
        sys::syscall3(abi::__NR_recvmsg, socket.raw() as usize, &raw mut header as usize, MSG_CMSG_CLOEXEC)
    }?;
    // SAFETY:
    // 1. Plain integers, zeroed before and perhaps written by the kernel.
    let control = unsafe { control.assume_init() };
    let came = header.control_bytes >= CONTROL_BYTES
        && (control.bytes, control.level, control.kind) == (CONTROL_BYTES, SOL_SOCKET, SCM_RIGHTS);
    if came { Ok(Fd::from_raw(control.descriptor)) } else { Err(Errno::EPIPE) }
}
