//! Rows of the calls that change the address space or ask about it.
//!
//! Must hold: each call that may change which pages are mapped, or what the kernel may do with them, is
//! [`Kind::Mapping`]: the interposer takes the gate for these. Called by [`crate::table`], which puts the rows in
//! order.

use super::row::Length::{Bits, Bytes, Elements64};
use super::row::{Kind, Row, rows};
use super::walk::{Stop, Walk};
use linux_raw_sys::general::*;
use uswap_units::PAGE_BYTES;

pub(super) const ROWS: &[Row] = rows! {
    __NR_mmap.is(Kind::Mapping);
    __NR_munmap.is(Kind::Mapping);
    __NR_mremap.is(Kind::Mapping);
    __NR_mprotect.is(Kind::Mapping);
    __NR_pkey_mprotect.is(Kind::Mapping);
    __NR_pkey_alloc;
    __NR_pkey_free;
    __NR_brk.is(Kind::Mapping);
    __NR_madvise.is(Kind::Mapping);
    __NR_process_madvise.reads(1, Elements64(2, 16)).is(Kind::Mapping);
    __NR_process_mrelease;
    __NR_mseal.is(Kind::Mapping);
    __NR_map_shadow_stack.is(Kind::Mapping);
    __NR_remap_file_pages.is(Kind::Mapping);
    __NR_mlock.is(Kind::Mapping);
    __NR_mlock2.is(Kind::Mapping);
    __NR_munlock.is(Kind::Mapping);
    __NR_mlockall.is(Kind::Mapping);
    __NR_munlockall.is(Kind::Mapping);
    __NR_msync.is(Kind::Mapping);
    __NR_mincore.walks(residency).is(Kind::Mapping);
    __NR_shmat.is(Kind::Mapping);
    __NR_shmdt.is(Kind::Mapping);
    __NR_memfd_secret;
    __NR_userfaultfd;
    __NR_membarrier;

    __NR_mbind.reads(3, Bits(4)).is(Kind::Mapping);
    __NR_set_mempolicy.reads(1, Bits(2));
    __NR_get_mempolicy.writes(0, Bytes(4)).writes(1, Bits(2));
    __NR_set_mempolicy_home_node.is(Kind::Mapping);
    __NR_migrate_pages.reads(2, Bits(1)).reads(3, Bits(1)).is(Kind::Mapping);
    __NR_move_pages.reads(2, Elements64(1, 8)).reads(3, Elements64(1, 4)).writes(4, Elements64(1, 4)).is(Kind::Mapping);
};

/// `mincore`: a byte a page.
fn residency(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.writes(walk.arg(2), walk.arg(1).div_ceil(PAGE_BYTES as u64));
    Ok(())
}
