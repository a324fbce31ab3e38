//! Rows of the calls that name files: paths, attributes, links, mounts, watches.
//!
//! Must hold: each path is named to its end, and each structure whole; none of these calls takes something out of the
//! kernel that a second one would not find. Called by [`crate::table`], which puts the rows in order.

use super::files_nested::{
    attribute_got, attribute_set, control, file_system_option, handle_got, handle_opened, mount_told,
    mounts_listed, quota, quota_of_file, sysfs_name,
};
use super::row::Length::{Arg, Arg32, Bytes};
use super::row::{Kind, Row, rows, sized};
use linux_raw_sys::general::*;

/// Longest name of an extended attribute, with its zero.
const NAME: u32 = 256;

pub(super) const ROWS: &[Row] = rows! {
    __NR_open.path(0);
    __NR_openat.path(1);
    __NR_openat2.path(1).reads(2, Arg(3));
    __NR_creat.path(0);
    __NR_close;
    __NR_close_range;
    __NR_pipe.writes(0, Bytes(8));
    __NR_pipe2.writes(0, Bytes(8));
    __NR_dup;
    __NR_dup2;
    __NR_dup3;
    __NR_fcntl.walks(control);
    __NR_flock;
    __NR_umask;

    __NR_stat.path(0).writes(1, sized::<stat>());
    __NR_lstat.path(0).writes(1, sized::<stat>());
    __NR_fstat.writes(1, sized::<stat>());
    __NR_newfstatat.path(1).writes(2, sized::<stat>());
    __NR_statx.path(1).writes(4, sized::<statx>());
    __NR_statfs.path(0).writes(1, sized::<statfs64>());
    __NR_fstatfs.writes(1, sized::<statfs64>());
    __NR_ustat.writes(1, Bytes(32));
    __NR_sysfs.walks(sysfs_name);
    __NR_cachestat.reads(1, sized::<cachestat_range>()).writes(2, sized::<cachestat>());
    __NR_file_getattr.path(1).writes(2, Arg(3));
    __NR_file_setattr.path(1).reads(2, Arg(3));

    __NR_access.path(0);
    __NR_faccessat.path(1);
    __NR_faccessat2.path(1);
    __NR_truncate.path(0);
    __NR_getcwd.writes(0, Arg(1));
    __NR_chdir.path(0);
    __NR_fchdir;
    __NR_chroot.path(0);
    __NR_pivot_root.path(0).path(1);
    __NR_rename.path(0).path(1);
    __NR_renameat.path(1).path(3);
    __NR_renameat2.path(1).path(3);
    __NR_mkdir.path(0);
    __NR_mkdirat.path(1);
    __NR_rmdir.path(0);
    __NR_link.path(0).path(1);
    __NR_linkat.path(1).path(3);
    __NR_unlink.path(0);
    __NR_unlinkat.path(1);
    __NR_symlink.path(0).path(1);
    __NR_symlinkat.path(0).path(2);
    __NR_readlink.path(0).writes(1, Arg32(2));
    __NR_readlinkat.path(1).writes(2, Arg32(3));
    __NR_mknod.path(0);
    __NR_mknodat.path(1);
    __NR_chmod.path(0);
    __NR_fchmod;
    __NR_fchmodat.path(1);
    __NR_fchmodat2.path(1);
    __NR_chown.path(0);
    __NR_fchown;
    __NR_lchown.path(0);
    __NR_fchownat.path(1);
    __NR_utime.path(0).reads(1, Bytes(16));
    __NR_utimes.path(0).reads(1, Bytes(32));
    __NR_futimesat.path(1).reads(2, Bytes(32));
    __NR_utimensat.path(1).reads(2, Bytes(32));

    __NR_setxattr.path(0).text(1, NAME).reads(2, Arg(3));
    __NR_lsetxattr.path(0).text(1, NAME).reads(2, Arg(3));
    __NR_fsetxattr.text(1, NAME).reads(2, Arg(3));
    __NR_setxattrat.path(1).text(3, NAME).walks(attribute_set);
    __NR_getxattr.path(0).text(1, NAME).writes(2, Arg(3));
    __NR_lgetxattr.path(0).text(1, NAME).writes(2, Arg(3));
    __NR_fgetxattr.text(1, NAME).writes(2, Arg(3));
    __NR_getxattrat.path(1).text(3, NAME).walks(attribute_got);
    __NR_listxattr.path(0).writes(1, Arg(2));
    __NR_llistxattr.path(0).writes(1, Arg(2));
    __NR_flistxattr.writes(1, Arg(2));
    __NR_listxattrat.path(1).writes(3, Arg(4));
    __NR_removexattr.path(0).text(1, NAME);
    __NR_lremovexattr.path(0).text(1, NAME);
    __NR_fremovexattr.text(1, NAME);
    __NR_removexattrat.path(1).text(3, NAME);

    __NR_name_to_handle_at.path(1).walks(handle_got);
    __NR_open_by_handle_at.walks(handle_opened);
    __NR_inotify_init;
    __NR_inotify_init1;
    __NR_inotify_add_watch.path(1);
    __NR_inotify_rm_watch;
    __NR_fanotify_init;
    __NR_fanotify_mark.path(4);

    // Options of a mount: up to a page is copied, and what is missing of it is taken as not given.
    __NR_mount.path(0).path(1).path(2).reads(4, Bytes(4096)).short();
    __NR_umount2.path(0);
    __NR_open_tree.path(1);
    __NR_open_tree_attr.path(1).reads(3, Arg(4));
    __NR_move_mount.path(1).path(3);
    __NR_fsopen.path(0);
    __NR_fsconfig.text(2, NAME).walks(file_system_option);
    __NR_fsmount;
    __NR_fspick.path(1);
    __NR_mount_setattr.path(1).reads(3, Arg(4));
    __NR_statmount.walks(mount_told);
    __NR_listmount.walks(mounts_listed);
    __NR_quotactl.path(1).walks(quota);
    __NR_quotactl_fd.walks(quota_of_file);
    __NR_swapon.path(0);
    __NR_swapoff.path(0);
    __NR_acct.path(0);
    __NR_uselib.path(0).is(Kind::Unsupported);
    __NR_lookup_dcookie.writes(1, Arg(2)).is(Kind::Unsupported);
    __NR_vhangup;
};
