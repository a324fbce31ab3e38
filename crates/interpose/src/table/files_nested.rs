//! Calls on files whose memory depends on a command or on a structure.
//!
//! Must hold: a command that is not listed names nothing; one that is names the whole structure, and what that points
//! to. Called by [`crate::table::files`], whose rows name these functions.

use super::walk::{Access, Stop, Walk, field, field32};
use linux_raw_sys::general::{
    AT_HANDLE_MNT_ID_UNIQUE, F_GET_FILE_RW_HINT, F_GET_RW_HINT, F_GETLK, F_GETOWN_EX, F_OFD_GETLK,
    F_OFD_SETLK, F_OFD_SETLKW, F_SET_FILE_RW_HINT, F_SET_RW_HINT, F_SETLK, F_SETLKW, F_SETOWN_EX, f_owner_ex,
    flock,
};

/// `fcntl`: two user identifiers of who is to get the signal.
const F_GETOWNER_UIDS: u32 = 17;

/// `fcntl` by command.
pub(super) fn control(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let pointer = walk.arg(2);
    match walk.arg32(1) {
        F_GETLK | F_OFD_GETLK => walk.updates(pointer, size_of::<flock>() as u64),
        F_SETLK | F_SETLKW | F_OFD_SETLK | F_OFD_SETLKW => walk.reads(pointer, size_of::<flock>() as u64),
        F_GETOWN_EX => walk.writes(pointer, size_of::<f_owner_ex>() as u64),
        F_SETOWN_EX => walk.reads(pointer, size_of::<f_owner_ex>() as u64),
        F_GET_RW_HINT | F_GET_FILE_RW_HINT | F_GETOWNER_UIDS => walk.writes(pointer, 8),
        F_SET_RW_HINT | F_SET_FILE_RW_HINT => walk.reads(pointer, 8),
        _ => {}
    }
    Ok(())
}

/// `setxattrat`: `xattr_args` of so many bytes, and the value it names.
pub(super) fn attribute_set(walk: &mut Walk<'_>) -> Result<(), Stop> {
    attribute(walk, Access::Read)
}

/// `getxattrat`: the same, to be filled.
pub(super) fn attribute_got(walk: &mut Walk<'_>) -> Result<(), Stop> {
    attribute(walk, Access::Write)
}

fn attribute(walk: &mut Walk<'_>, access: Access) -> Result<(), Stop> {
    walk.reads(walk.arg(4), walk.arg(5));
    let arguments = walk.load::<16>(walk.arg(4))?;
    walk.touch(field(&arguments, 0), u64::from(field32(&arguments, 8)), access);
    Ok(())
}

/// Bytes of a `file_handle` in front of the handle.
const HANDLE_HEAD: u64 = 8;

pub(super) fn handle_got(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let is_unique = walk.arg32(4) & AT_HANDLE_MNT_ID_UNIQUE != 0;
    walk.writes(walk.arg(3), if is_unique { 8 } else { 4 });
    let bytes = walk.load_u32(walk.arg(2), Access::ReadWrite)?;
    walk.updates(walk.arg(2), HANDLE_HEAD + u64::from(bytes));
    Ok(())
}

pub(super) fn handle_opened(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let bytes = walk.load_u32(walk.arg(1), Access::Read)?;
    walk.reads(walk.arg(1), HANDLE_HEAD + u64::from(bytes));
    Ok(())
}

/// `sysfs`: the name of a file system to its index, or back.
pub(super) fn sysfs_name(walk: &mut Walk<'_>) -> Result<(), Stop> {
    match walk.arg32(0) {
        1 => walk.text(walk.arg(1), 4096),
        2 => {
            walk.writes(walk.arg(2), 256);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Commands of `fsconfig`.
const SET_STRING: u32 = 1;
const SET_BINARY: u32 = 2;
const SET_PATH: u32 = 3;
const SET_PATH_EMPTY: u32 = 4;

pub(super) fn file_system_option(walk: &mut Walk<'_>) -> Result<(), Stop> {
    match walk.arg32(1) {
        SET_STRING => walk.text(walk.arg(3), 256),
        SET_BINARY => {
            walk.reads(walk.arg(3), u64::from(walk.arg32(4)));
            Ok(())
        }
        SET_PATH | SET_PATH_EMPTY => walk.text(walk.arg(3), 4096),
        _ => Ok(()),
    }
}

/// `mnt_id_req`: its first word is its size.
fn mount_request(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let bytes = walk.load_u32(walk.arg(0), Access::Read)?;
    walk.reads(walk.arg(0), u64::from(bytes).min(4096));
    Ok(())
}

pub(super) fn mount_told(walk: &mut Walk<'_>) -> Result<(), Stop> {
    mount_request(walk)?;
    walk.writes(walk.arg(1), walk.arg(2));
    Ok(())
}

pub(super) fn mounts_listed(walk: &mut Walk<'_>) -> Result<(), Stop> {
    mount_request(walk)?;
    walk.writes(walk.arg(1), walk.arg(2).saturating_mul(8));
    Ok(())
}

pub(super) fn quota(walk: &mut Walk<'_>) -> Result<(), Stop> {
    quota_command(walk, walk.arg32(0), walk.arg(3))
}

pub(super) fn quota_of_file(walk: &mut Walk<'_>) -> Result<(), Stop> {
    quota_command(walk, walk.arg32(1), walk.arg(3))
}

/// Commands of `quotactl`, above the type of quota: the generic ones, then those of XFS.
fn quota_command(walk: &mut Walk<'_>, command: u32, pointer: u64) -> Result<(), Stop> {
    match command >> 8 {
        // Q_QUOTAON: a path.
        0x80_0002 => walk.text(pointer, 4096)?,
        // Q_GETFMT, Q_GETINFO, Q_GETQUOTA, Q_GETNEXTQUOTA.
        0x80_0004 => walk.writes(pointer, 4),
        0x80_0005 => walk.writes(pointer, 24),
        0x80_0007 => walk.writes(pointer, 72),
        0x80_0009 => walk.writes(pointer, 72 + 8),
        // Q_SETINFO, Q_SETQUOTA.
        0x80_0006 => walk.reads(pointer, 24),
        0x80_0008 => walk.reads(pointer, 72),
        // Q_XQUOTAON, Q_XQUOTAOFF, Q_XQUOTARM: flags.
        0x5801 | 0x5802 | 0x5806 => walk.reads(pointer, 4),
        // Q_XGETQUOTA, Q_XGETNEXTQUOTA; Q_XSETQLIM; Q_XGETQSTAT, Q_XGETQSTATV.
        0x5803 | 0x5809 => walk.writes(pointer, 112),
        0x5804 => walk.reads(pointer, 112),
        0x5805 => walk.writes(pointer, 80),
        0x5808 => walk.updates(pointer, 160),
        _ => {}
    }
    Ok(())
}
