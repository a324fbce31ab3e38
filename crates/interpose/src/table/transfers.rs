//! Rows of the calls that move bytes between files and memory, and of those that only move a file position.
//!
//! Must hold: each call that may come back short for a missing page is marked so, and only those whose bytes may be
//! moved one part after the other are allowed to go in parts. Called by [`crate::table`], which puts the rows in order.

use super::row::Length::{Arg, Bytes};
use super::row::Parts::{self, Vectors};
use super::row::{AfterFault, Kind, Row, rows};
use super::walk::{Access, Stop, Walk};
use linux_raw_sys::general::*;

const READ: Parts = Parts::Bytes { address: 1, bytes: 2, position: None };
const READ_AT: Parts = Parts::Bytes { address: 1, bytes: 2, position: Some(3) };
const VECTORS: Parts = Vectors { address: 1, count: 2, position: None };
const VECTORS_AT: Parts = Vectors { address: 1, count: 2, position: Some(3) };

pub(super) const ROWS: &[Row] = rows! {
    __NR_read.writes(1, Arg(2)).is(Kind::Consuming).after(AfterFault::ByFile).short().in_parts(READ);
    __NR_write.reads(1, Arg(2)).short().in_parts(READ);
    __NR_pread64.writes(1, Arg(2)).short().in_parts(READ_AT);
    __NR_pwrite64.reads(1, Arg(2)).short().in_parts(READ_AT);
    __NR_readv.walks(vectors_written).is(Kind::Consuming).after(AfterFault::ByFile).short().in_parts(VECTORS);
    __NR_writev.walks(vectors_read).short().in_parts(VECTORS);
    __NR_preadv.walks(vectors_written).short().in_parts(VECTORS_AT);
    __NR_pwritev.walks(vectors_read).short().in_parts(VECTORS_AT);
    __NR_preadv2.walks(vectors_written).is(Kind::Consuming).after(AfterFault::ByFile).short().in_parts(VECTORS_AT);
    __NR_pwritev2.walks(vectors_read).short().in_parts(VECTORS_AT);
    __NR_process_vm_readv.walks(copied_from_process).short();
    __NR_process_vm_writev.walks(copied_to_process).short();

    __NR_sendfile.updates(2, Bytes(8)).applied();
    __NR_copy_file_range.updates(1, Bytes(8)).updates(3, Bytes(8)).applied();
    __NR_splice.updates(1, Bytes(8)).updates(3, Bytes(8)).is(Kind::Consuming).applied();
    __NR_tee;
    __NR_vmsplice.walks(spliced).is(Kind::Asynchronous).short();

    // The position in the directory moves before the last offset is written.
    __NR_getdents.writes(1, Arg(2)).short().applied();
    __NR_getdents64.writes(1, Arg(2)).short().applied();

    __NR_lseek;
    __NR_readahead;
    __NR_fadvise64;
    __NR_fallocate;
    __NR_ftruncate;
    __NR_sync;
    __NR_syncfs;
    __NR_fsync;
    __NR_fdatasync;
    __NR_sync_file_range;
};

fn vectors_written(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.vectors(walk.arg(1), walk.arg(2), Access::Write)
}

fn vectors_read(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.vectors(walk.arg(1), walk.arg(2), Access::Read)
}

/// The end of the pipe says the direction: one can be read, into the program's memory, and the other written.
fn spliced(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.vectors(walk.arg(1), walk.arg(2), Access::ReadWrite)
}

/// The other process may be the caller itself.
fn copied_from_process(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.vectors(walk.arg(1), walk.arg(2), Access::Write)?;
    walk.vectors(walk.arg(3), walk.arg(4), Access::Read)
}

fn copied_to_process(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.vectors(walk.arg(1), walk.arg(2), Access::Read)?;
    walk.vectors(walk.arg(3), walk.arg(4), Access::Write)
}
