//! Rows of the calls on sockets, and the structures of messages.
//!
//! Must hold: lengths that the kernel takes as 32 bits are read as 32 bits. What receives is marked as consuming: a
//! datagram that was taken out is gone. Called by [`crate::table`], and by [`crate::table::ioctl`] and
//! [`crate::table::system_nested`] for structures that they share.

use super::row::Length::{Arg, Arg32, At, Bytes};
use super::row::{AfterFault, Kind, Parts, Row, rows};
use super::walk::{Access, Stop, Walk, field, field32};
use linux_raw_sys::general::*;

const TO: Parts = Parts::Bytes { address: 1, bytes: 2, position: None };

pub(super) const ROWS: &[Row] = rows! {
    __NR_socket;
    __NR_socketpair.writes(3, Bytes(8));
    __NR_bind.reads(1, Arg32(2));
    __NR_connect.reads(1, Arg32(2));
    __NR_listen;
    __NR_shutdown;
    __NR_accept.writes(1, At(2)).consumes();
    __NR_accept4.writes(1, At(2)).consumes();
    __NR_getsockname.writes(1, At(2));
    __NR_getpeername.writes(1, At(2));
    // SO_ERROR is forgotten once it was told.
    __NR_getsockopt.walks(option_got).consumes();
    __NR_setsockopt.reads(3, Arg32(4)).walks(option_set);

    __NR_sendto.reads(1, Arg(2)).reads(4, Arg32(5)).short().in_parts(TO);
    __NR_recvfrom.writes(1, Arg(2)).writes(4, At(5)).is(Kind::Consuming).short().in_parts(TO)
        .after(AfterFault::ByFileUnless(4));
    __NR_sendmsg.walks(message_sent).short().in_parts(Parts::Message(1));
    __NR_recvmsg.walks(message_received).consumes().short();
    // The count of each message that was sent is written; a fault there ends the call with the number before it.
    __NR_sendmmsg.walks(messages_sent).applied().short();
    __NR_recvmmsg.updates(4, Bytes(16)).walks(messages_received).consumes().short();
};

/// Bytes of a `msghdr`, and of a `mmsghdr`, which has a count behind it.
const MESSAGE_BYTES: u64 = 56;
const MESSAGES_BYTES: u64 = 64;

/// Fields of a `msghdr`.
const NAME: usize = 0;
const NAME_BYTES: usize = 8;
const VECTORS: usize = 16;
const VECTOR_COUNT: usize = 24;
const CONTROL: usize = 32;
const CONTROL_BYTES: usize = 40;

fn message_sent(walk: &mut Walk<'_>) -> Result<(), Stop> {
    message(walk, walk.arg(1), Access::Read)
}

/// The kernel writes the lengths and the flags into the structure itself.
fn message_received(walk: &mut Walk<'_>) -> Result<(), Stop> {
    message(walk, walk.arg(1), Access::Write)
}

/// `access`: what the kernel does with the data.
fn message(walk: &mut Walk<'_>, start: u64, access: Access) -> Result<(), Stop> {
    let structure = if access.writes() { Access::ReadWrite } else { Access::Read };
    let header = walk.load_as::<{ MESSAGE_BYTES as usize }>(start, structure)?;
    walk.touch(field(&header, NAME), u64::from(field32(&header, NAME_BYTES)), access);
    walk.touch(field(&header, CONTROL), field(&header, CONTROL_BYTES), access);
    walk.vectors(field(&header, VECTORS), field(&header, VECTOR_COUNT), access)
}

fn messages_sent(walk: &mut Walk<'_>) -> Result<(), Stop> {
    messages(walk, Access::Read)
}

fn messages_received(walk: &mut Walk<'_>) -> Result<(), Stop> {
    messages(walk, Access::Write)
}

fn messages(walk: &mut Walk<'_>, access: Access) -> Result<(), Stop> {
    for index in 0..u64::from(walk.arg32(2)).min(super::walk::VECTORS_MAX) {
        let start = walk.arg(1).wrapping_add(index * MESSAGES_BYTES);
        walk.updates(start, MESSAGES_BYTES);
        message(walk, start, access)?;
    }
    Ok(())
}

/// Options of level SOL_SOCKET that hold a program for packets: a length and a pointer.
const SOL_SOCKET: u32 = 1;
const SO_ATTACH_FILTER: u32 = 26;
const SO_ATTACH_REUSEPORT_CBPF: u32 = 51;
const SOL_TCP: u32 = 6;
const TCP_ZEROCOPY_RECEIVE: u32 = 35;

fn option_set(walk: &mut Walk<'_>) -> Result<(), Stop> {
    match (walk.arg32(1), walk.arg32(2)) {
        (SOL_SOCKET, SO_ATTACH_FILTER | SO_ATTACH_REUSEPORT_CBPF) => filter_program(walk, walk.arg(3)),
        _ => Ok(()),
    }
}

/// Some options are read before they are answered, or name further memory.
fn option_got(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let bytes = u64::from(walk.load_u32(walk.arg(4), Access::ReadWrite)?);
    walk.updates(walk.arg(3), bytes);
    if (walk.arg32(1), walk.arg32(2)) == (SOL_TCP, TCP_ZEROCOPY_RECEIVE) && bytes >= 40 {
        let receive = walk.load_as::<40>(walk.arg(3), Access::ReadWrite)?;
        walk.writes(field(&receive, 24), u64::from(field32(&receive, 32)));
    }
    if (walk.arg32(1), walk.arg32(2)) == (SOL_SOCKET, SO_ATTACH_FILTER) {
        // SO_GET_FILTER has the same number: the length counts instructions of eight bytes.
        walk.writes(walk.arg(3), bytes.saturating_mul(8));
    }
    Ok(())
}

/// A `sock_fprog`: a count of instructions of eight bytes and a pointer to them.
pub(super) fn filter_program(walk: &mut Walk<'_>, start: u64) -> Result<(), Stop> {
    let program = walk.load::<16>(start)?;
    walk.reads(field(&program, 8), u64::from(field32(&program, 0) & 0xffff) * 8);
    Ok(())
}
