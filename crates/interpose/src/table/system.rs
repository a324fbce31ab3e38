//! Rows of the calls about the system and about the process as a whole: options, keys, modules, security, tracing;
//! and of the numbers behind which nothing is.
//!
//! Must hold: numbers behind which nothing is have a row too, without ranges or as [`Kind::Unsupported`], so that each
//! number is known. Called by [`crate::table`], which puts the rows in order.

use super::row::Length::{Arg, Arg32, At, Bytes};
use super::row::{Kind, Row, rows};
use super::system_nested::{
    architecture, descriptors, images_loaded, kernel_log, key_control, landlock_rule, options, reboot,
    seccomp, trace,
};
use linux_raw_sys::general::*;

/// Added by Linux 6.18, after the headers that name the others.
#[allow(non_upper_case_globals)]
const __NR_uprobe: u32 = 336;

pub(super) const ROWS: &[Row] = rows! {
    __NR_prctl.walks(options);
    __NR_arch_prctl.walks(architecture);
    __NR_modify_ldt.walks(descriptors);
    __NR_iopl;
    __NR_ioperm;
    __NR_syslog.walks(kernel_log).consumes();
    __NR_ptrace.walks(trace).applied();
    __NR_seccomp.walks(seccomp);
    __NR_reboot.walks(reboot);
    __NR_memfd_create.text(0, 250);

    __NR_add_key.text(0, 32).text(1, 4096).reads(2, Arg(3));
    __NR_request_key.text(0, 32).text(1, 4096).text(2, 4096);
    __NR_keyctl.walks(key_control);
    __NR_landlock_create_ruleset.reads(0, Arg(1));
    __NR_landlock_add_rule.walks(landlock_rule);
    __NR_landlock_restrict_self;
    __NR_lsm_get_self_attr.writes(1, At(2));
    __NR_lsm_set_self_attr.reads(1, Arg32(2));
    __NR_lsm_list_modules.writes(0, At(1));

    __NR_init_module.reads(0, Arg(1)).path(2);
    __NR_finit_module.path(1);
    __NR_delete_module.text(0, 64);
    __NR_kexec_load.walks(images_loaded);
    __NR_kexec_file_load.reads(3, Arg(2));

    // Only the kernel's own trampolines make these.
    __NR_uretprobe.is(Kind::Unsupported);
    __NR_uprobe.is(Kind::Unsupported);
    // Never written, or gone: ENOSYS.
    __NR__sysctl.reads(0, Bytes(80)).is(Kind::Unsupported);
    __NR_set_thread_area.is(Kind::Unsupported);
    __NR_get_thread_area.is(Kind::Unsupported);
    __NR_epoll_ctl_old.is(Kind::Unsupported);
    __NR_epoll_wait_old.is(Kind::Unsupported);
    __NR_create_module.is(Kind::Unsupported);
    __NR_get_kernel_syms.is(Kind::Unsupported);
    __NR_query_module.is(Kind::Unsupported);
    __NR_nfsservctl.is(Kind::Unsupported);
    __NR_getpmsg.is(Kind::Unsupported);
    __NR_putpmsg.is(Kind::Unsupported);
    __NR_afs_syscall.is(Kind::Unsupported);
    __NR_tuxcall.is(Kind::Unsupported);
    __NR_security.is(Kind::Unsupported);
    __NR_vserver.is(Kind::Unsupported);
};
