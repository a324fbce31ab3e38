//! Rows of the calls that wait for several things at once, and of asynchronous input and output.
//!
//! Must hold: an array of events is named as long as the program says that it is, however few the kernel fills. What
//! the kernel may use after the call has come back is [`Kind::Asynchronous`]. Called by [`crate::table`], which puts
//! the rows in order.

use super::row::Length::{Arg, Arg32, Bits, Bytes, Elements, Elements64};
use super::row::{Kind, Row, rows, sized};
use super::walk::{Access, Stop, Walk, field, field32};
use linux_raw_sys::general::*;

const TIME: super::row::Length = Bytes(16);
/// An `epoll_event` is packed on x86-64.
const EVENT: u32 = 12;

pub(super) const ROWS: &[Row] = rows! {
    __NR_poll.updates(0, Elements(1, 8));
    __NR_ppoll.updates(0, Elements(1, 8)).updates(2, TIME).reads(3, Arg(4));
    // The first set is overwritten before the last is known to be there.
    __NR_select.updates(1, Bits(0)).updates(2, Bits(0)).updates(3, Bits(0)).updates(4, TIME).applied();
    __NR_pselect6.updates(1, Bits(0)).updates(2, Bits(0)).updates(3, Bits(0)).updates(4, TIME)
        .walks(mask_of_select).applied();
    __NR_epoll_create;
    __NR_epoll_create1;
    __NR_epoll_ctl.walks(interest);
    __NR_epoll_wait.writes(1, Elements(2, EVENT)).short();
    __NR_epoll_pwait.writes(1, Elements(2, EVENT)).reads(4, Arg(5)).short();
    __NR_epoll_pwait2.writes(1, Elements(2, EVENT)).reads(3, TIME).reads(4, Arg(5)).short();
    __NR_eventfd;
    __NR_eventfd2;

    __NR_io_setup.updates(1, Bytes(8)).is(Kind::Asynchronous);
    __NR_io_destroy.is(Kind::Asynchronous);
    __NR_io_submit.walks(submitted).is(Kind::Asynchronous).short();
    __NR_io_cancel.reads(1, Bytes(64)).writes(2, Bytes(32)).is(Kind::Asynchronous);
    __NR_io_getevents.writes(3, Elements64(2, 32)).reads(4, TIME).short();
    __NR_io_pgetevents.writes(3, Elements64(2, 32)).reads(4, TIME).walks(mask_of_events).short();
    __NR_io_uring_setup.updates(1, sized::<linux_raw_sys::io_uring::io_uring_params>()).is(Kind::Asynchronous);
    __NR_io_uring_enter.walks(ring_entered).is(Kind::Asynchronous);
    __NR_io_uring_register.walks(ring_registered).is(Kind::Asynchronous).applied();

    __NR_perf_event_open.walks(performance);
    __NR_bpf.updates(1, Arg32(2)).walks(super::system_nested::bpf).applied();
};

/// `pselect6`: its last argument is a pointer and a size.
fn mask_of_select(walk: &mut Walk<'_>) -> Result<(), Stop> {
    mask(walk, walk.arg(5))
}

fn mask_of_events(walk: &mut Walk<'_>) -> Result<(), Stop> {
    mask(walk, walk.arg(5))
}

fn mask(walk: &mut Walk<'_>, start: u64) -> Result<(), Stop> {
    let mask = walk.load::<16>(start)?;
    walk.reads(field(&mask, 0), field(&mask, 8));
    Ok(())
}

/// `epoll_ctl`: taking a file out looks at no event.
fn interest(walk: &mut Walk<'_>) -> Result<(), Stop> {
    if walk.arg32(1) != EPOLL_CTL_DEL {
        walk.reads(walk.arg(3), u64::from(EVENT));
    }
    Ok(())
}

/// Operations of an `iocb`.
const READ: u16 = 0;
const WRITE: u16 = 1;
const READ_VECTORS: u16 = 7;
const WRITE_VECTORS: u16 = 8;

/// `io_submit`: an array of pointers to `iocb`, each of which names a buffer. The key is written into it.
fn submitted(walk: &mut Walk<'_>) -> Result<(), Stop> {
    for index in 0..walk.arg(1).min(REQUESTS_MAX) {
        let request = walk.load_u64(walk.arg(2).wrapping_add(index * 8), Access::Read)?;
        let block = walk.load_as::<64>(request, Access::ReadWrite)?;
        let (start, bytes) = (field(&block, 24), field(&block, 32));
        match field32(&block, 16) as u16 {
            READ => walk.writes(start, bytes),
            WRITE => walk.reads(start, bytes),
            READ_VECTORS => walk.vectors(start, bytes, Access::Write)?,
            WRITE_VECTORS => walk.vectors(start, bytes, Access::Read)?,
            _ => {}
        }
    }
    Ok(())
}

/// Most requests of one `io_submit` that are looked at.
const REQUESTS_MAX: u64 = 65_536;

/// `io_uring_enter`: a mask of signals, or a structure with a mask, its size and a time.
fn ring_entered(walk: &mut Walk<'_>) -> Result<(), Stop> {
    const EXTENDED: u32 = 1 << 3;
    if walk.arg32(3) & EXTENDED == 0 {
        walk.reads(walk.arg(4), walk.arg(5));
        return Ok(());
    }
    let extended = walk.load::<24>(walk.arg(4))?;
    walk.reads(field(&extended, 0), u64::from(field32(&extended, 8)));
    walk.reads(field(&extended, 16), 16);
    Ok(())
}

/// `io_uring_register` by operation. What is registered is memory that the kernel holds from then on.
fn ring_registered(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let (start, count) = (walk.arg(2), u64::from(walk.arg32(3)));
    match walk.arg32(1) & !(1 << 31) {
        // Buffers: each an `iovec`; the memory is pinned, written by reads and read by writes.
        0 => walk.vectors(start, count, Access::ReadWrite)?,
        // Files, and events.
        2 => walk.reads(start, count * 4),
        4 | 7 => walk.reads(start, 4),
        // An update: offset, and a pointer to files, which are answered.
        6 => {
            let update = walk.load::<16>(start)?;
            walk.updates(field(&update, 8), count * 4);
        }
        // A probe: 16 bytes and 8 for each operation.
        8 => walk.updates(start, 16 + count * 8),
        11 => walk.reads(start, count * 16),
        // Resources with tags: count, flags, pointers to data and tags; the size is the last argument.
        13..=16 => {
            let resources = walk.load::<32>(start)?;
            let number = u64::from(field32(&resources, if walk.arg32(1) & 1 == 1 { 0 } else { 24 }));
            let data = field(&resources, if walk.arg32(1) & 1 == 1 { 16 } else { 8 });
            let tags = field(&resources, if walk.arg32(1) & 1 == 1 { 24 } else { 16 });
            walk.reads(data, number * 16);
            walk.reads(tags, number * 8);
        }
        17 => walk.reads(start, count),
        19 => walk.updates(start, 8),
        // Rings of the process, of buffers, cancel, ranges of files, status, and all later ones: small structures.
        20 | 21 => walk.updates(start, count * 16),
        _ => walk.updates(start, 256),
    }
    Ok(())
}

/// `perf_event_attr` says its own size, four bytes in; zero is the first form, 64 bytes.
fn performance(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let head = walk.load_as::<8>(walk.arg(0), Access::ReadWrite)?;
    let bytes = u64::from(field32(&head, 4));
    walk.reads(walk.arg(0), if bytes == 0 { 64 } else { bytes.min(4096) });
    Ok(())
}
