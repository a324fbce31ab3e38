//! Row of `ioctl`: the number says direction and size, if it is younger than that rule and keeps to it.
//!
//! The others are listed: terminals, sockets, block devices, loops, file systems. A number that is neither has no
//! ranges. Where a number passes a small value instead of a pointer, as FICLONE does, the range that comes of it
//! lies where no program has memory.
//!
//! Must hold: a number that is listed goes before what its bits say, and no number names less than the kernel touches,
//! but for those of drivers that nobody lists. Called by [`crate::table`], which puts the rows in order.

use super::row::{Row, rows};
use super::sockets::filter_program;
use super::walk::{Access, Stop, Walk, field, field32};
use linux_raw_sys::general::__NR_ioctl;

pub(super) const ROWS: &[Row] = rows! {
    __NR_ioctl.walks(control).applied();
};

fn control(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let (request, pointer) = (walk.arg32(1), walk.arg(2));
    if let Some(done) = nested(walk, request, pointer) {
        return done;
    }
    let (access, bytes) = flat(request).unwrap_or_else(|| by_number(request));
    walk.touch(pointer, u64::from(bytes), access);
    Ok(())
}

/// `_IOC`: number, type, size in 14 bits, direction in two. Write is the kernel's read; but some drivers answer there
/// (USBDEVFS_REAPURB), so it is made ready for both. That memory may be for reading only: then it is only there.
fn by_number(request: u32) -> (Access, u32) {
    let bytes = request >> 16 & 0x3fff;
    match request >> 30 {
        2 => (Access::Write, bytes),
        1 | 3 => (Access::ReadWrite, bytes),
        _ => (Access::Read, 0),
    }
}

const READ: Access = Access::Read;
const WRITE: Access = Access::Write;
const UPDATE: Access = Access::ReadWrite;

/// Bytes of an `ifreq`, of a `termios` as the kernel has it, of a `termio`.
const INTERFACE: u32 = 40;
const TERMINAL: u32 = 36;
const OLD_TERMINAL: u32 = 18;

/// Numbers without a size, or with a wrong one: one structure, which names nothing further.
fn flat(request: u32) -> Option<(Access, u32)> {
    let range = match request {
        // Terminals, beginning with TCGETS.
        0x5401 | 0x5456 => (WRITE, TERMINAL),
        0x5402..=0x5404 | 0x5457 => (READ, TERMINAL),
        0x5405 => (WRITE, OLD_TERMINAL),
        0x5406..=0x5408 => (READ, OLD_TERMINAL),
        // TIOCGPGRP, TIOCOUTQ, TIOCMGET, TIOCGSOFTCAR, FIONREAD, TIOCGETD, TIOCGSID, TIOCSERGETLSR.
        0x540f | 0x5411 | 0x5415 | 0x5419 | 0x541b | 0x5424 | 0x5429 | 0x5459 => (WRITE, 4),
        // TIOCSPGRP, TIOCMBIS to TIOCMSET, TIOCSSOFTCAR, TIOCPKT, FIONBIO, TIOCSETD, FIOASYNC.
        0x5410 | 0x5416..=0x5418 | 0x541a | 0x5420 | 0x5421 | 0x5423 | 0x5452 => (READ, 4),
        // TIOCSTI; window sizes; TIOCLINUX; serial lines; counts; FIOQSIZE.
        0x5412 => (READ, 1),
        // TIOCSPTLCK.
        0x4004_5431 => (READ, 4),
        0x5413 => (WRITE, 8),
        0x5414 => (READ, 8),
        0x541c => (UPDATE, 64),
        0x541e => (WRITE, 72),
        0x541f => (READ, 72),
        0x542e => (WRITE, 32),
        0x542f => (UPDATE, 32),
        0x545d => (WRITE, 80),
        0x5460 => (WRITE, 8),
        // Consoles.
        0x4b33 => (WRITE, 1),
        0x4b3b | 0x4b44 | 0x4b64 | 0x5600 => (WRITE, 4),
        0x4b31 => (WRITE, 1),
        0x5601 => (WRITE, 8),
        0x5602 => (READ, 8),
        0x5603 => (WRITE, 6),
        // Files: FIBMAP, FIGETBSZ; FICLONE passes a file.
        1 => (UPDATE, 4),
        2 => (WRITE, 4),
        0x4004_9409 => (READ, 0),
        // Block devices, beginning with BLKROSET.
        0x125d => (READ, 4),
        0x125e | 0x1268 | 0x1278..=0x127c => (WRITE, 4),
        0x1260 | 0x1263 | 0x1265 => (WRITE, 8),
        0x1267 | 0x127e => (WRITE, 2),
        0x1277 | 0x127d | 0x127f => (READ, 16),
        0x0301 => (WRITE, 16),
        // Loops: status, in two forms, and the call that does all.
        0x4c02 => (READ, 168),
        0x4c03 => (WRITE, 168),
        0x4c04 => (READ, 232),
        0x4c05 => (WRITE, 232),
        0x4c0a => (READ, 304),
        // Sockets: owner, mark, times; routes; addresses of neighbours; interfaces.
        0x8901 | 0x8902 => (READ, 4),
        0x8903..=0x8905 => (WRITE, 4),
        0x8906 | 0x8907 => (WRITE, 16),
        0x890b | 0x890c => (READ, 120),
        0x8953..=0x8955 | 0x8960..=0x8962 => (UPDATE, 68),
        0x8910..=0x89ff => (UPDATE, INTERFACE),
        // Network taps: TUNSETIFF and TUNGETIFF say four bytes and mean an `ifreq`.
        0x4004_54ca => (UPDATE, INTERFACE),
        0x8004_54d2 => (WRITE, INTERFACE),
        // A namespace's owner.
        0xb704 => (WRITE, 4),
        _ => return None,
    };
    Some(range)
}

/// What the structure of a driver's request holds that is no size at all: a page of it is made present.
const UNKNOWN_BYTES: u64 = 4096;

/// Numbers whose structures name further memory, or have an array behind them.
fn nested(walk: &mut Walk<'_>, request: u32, pointer: u64) -> Option<Result<(), Stop>> {
    let walked = match request {
        SIOCGIFCONF => interfaces(walk, pointer),
        SIOCETHTOOL => ethernet(walk, pointer),
        SIOCIWFIRST..=SIOCIWLAST => wireless(walk, pointer),
        TUNATTACHFILTER => filter_program(walk, pointer),
        FS_IOC_FIEMAP => array_behind(walk, pointer, 32, 24, 56),
        FIDEDUPERANGE => array_behind(walk, pointer, 24, 16, 32),
        GETFSMAP => array_behind(walk, pointer, 192, 8, 64),
        PERF_QUERY_BPF => array_behind(walk, pointer, 8, 0, 4),
        PERF_SET_FILTER => walk.text(pointer, 4096),
        PAGEMAP_SCAN => pages_scanned(walk, pointer),
        PROCMAP_QUERY => mapping_asked(walk, pointer),
        BLKPG => partition(walk, pointer),
        SG_IO => generic_device(walk, pointer),
        BINDER_WRITE_READ => binder(walk, pointer),
        UFFDIO_COPY => page_copied(walk, pointer),
        _ => return None,
    };
    Some(walked)
}

const SIOCGIFCONF: u32 = 0x8912;
const SIOCETHTOOL: u32 = 0x8946;
const SIOCIWFIRST: u32 = 0x8b00;
const SIOCIWLAST: u32 = 0x8bff;
const TUNATTACHFILTER: u32 = 0x4010_54d5;
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const FIDEDUPERANGE: u32 = 0xc018_9436;
const GETFSMAP: u32 = 0xc0c0_583b;
const PERF_QUERY_BPF: u32 = 0xc008_240a;
const PERF_SET_FILTER: u32 = 0x4008_2406;
const PAGEMAP_SCAN: u32 = 0xc060_6610;
const PROCMAP_QUERY: u32 = 0xc068_6611;
const BLKPG: u32 = 0x1269;
const SG_IO: u32 = 0x2285;
const BINDER_WRITE_READ: u32 = 0xc030_6201;
const UFFDIO_COPY: u32 = 0xc028_aa03;

/// An `ifconf`: length and buffer.
fn interfaces(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let list = walk.load_as::<16>(pointer, Access::ReadWrite)?;
    walk.writes(field(&list, 8), u64::from(field32(&list, 0)));
    Ok(())
}

/// The data of an `ifreq` is a structure that its first word tells apart.
fn ethernet(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let interface = walk.load_as::<{ INTERFACE as usize }>(pointer, Access::ReadWrite)?;
    walk.updates(field(&interface, 16), UNKNOWN_BYTES);
    Ok(())
}

/// An `iwreq`: a value, or a pointer with a length of 16 bits.
fn wireless(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let interface = walk.load_as::<32>(pointer, Access::ReadWrite)?;
    walk.updates(field(&interface, 16), u64::from(field32(&interface, 24) & 0xffff));
    Ok(())
}

/// A structure of `head` bytes with a count in it and so many elements behind it.
fn array_behind(
    walk: &mut Walk<'_>,
    pointer: u64,
    head: u64,
    count_at: u64,
    element: u64,
) -> Result<(), Stop> {
    let count = walk.load_u32(pointer.wrapping_add(count_at), Access::ReadWrite)?;
    walk.updates(pointer, head + u64::from(count & if head == 24 { 0xffff } else { u32::MAX }) * element);
    Ok(())
}

fn pages_scanned(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let scan = walk.load_as::<96>(pointer, Access::ReadWrite)?;
    walk.writes(field(&scan, 40), field(&scan, 48).saturating_mul(24));
    Ok(())
}

fn mapping_asked(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let query = walk.load_as::<104>(pointer, Access::ReadWrite)?;
    walk.writes(field(&query, 88), u64::from(field32(&query, 80)));
    walk.writes(field(&query, 96), u64::from(field32(&query, 84)));
    Ok(())
}

fn partition(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let argument = walk.load::<24>(pointer)?;
    walk.reads(field(&argument, 16), u64::from(field32(&argument, 8)));
    Ok(())
}

/// A `sg_io_hdr`: command, data in either direction or an array of `iovec`, and what went wrong.
fn generic_device(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let header = walk.load_as::<88>(pointer, Access::ReadWrite)?;
    walk.reads(field(&header, 24), u64::from(header[8]));
    walk.writes(field(&header, 32), u64::from(header[9]));
    let vector_count = u64::from(field32(&header, 8) >> 16);
    if vector_count == 0 {
        walk.updates(field(&header, 16), u64::from(field32(&header, 12)));
        return Ok(());
    }
    walk.vectors(field(&header, 16), vector_count, Access::ReadWrite)
}

/// Commands to write and room to read into, each with a size, how much is used, and a buffer.
fn binder(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let both = walk.load_as::<48>(pointer, Access::ReadWrite)?;
    walk.reads(field(&both, 16), field(&both, 0));
    walk.writes(field(&both, 40), field(&both, 24));
    Ok(())
}

/// A `uffdio_copy`: what it fills is registered with the program's userfaultfd.
fn page_copied(walk: &mut Walk<'_>, pointer: u64) -> Result<(), Stop> {
    let copy = walk.load_as::<40>(pointer, Access::ReadWrite)?;
    walk.reads(field(&copy, 8), field(&copy, 16));
    Ok(())
}
