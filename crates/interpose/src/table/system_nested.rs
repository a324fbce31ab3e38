//! Calls about the system whose memory depends on a command: `prctl`, `ptrace`, `keyctl`, `bpf` and their like.
//!
//! Must hold: an operation that is not listed names nothing; a buffer whose length only the kernel knows is named as
//! long as it can be. Called by [`crate::table::system`] and [`crate::table::events`], whose rows name these functions.

use super::sockets::filter_program;
use super::walk::{Access, Stop, Walk, field, field32};
use linux_raw_sys::prctl::*;
use linux_raw_sys::ptrace::*;

/// `prctl` by option.
pub(super) fn options(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let (first, second) = (walk.arg(1), walk.arg(2));
    match walk.arg32(0) {
        PR_GET_PDEATHSIG
        | PR_GET_UNALIGN
        | PR_GET_FPEMU
        | PR_GET_FPEXC
        | PR_GET_ENDIAN
        | PR_GET_TSC
        | PR_GET_CHILD_SUBREAPER => walk.writes(first, 4),
        PR_SET_NAME => walk.text(first, 16)?,
        PR_GET_NAME => walk.writes(first, 16),
        PR_GET_TID_ADDRESS | PR_GET_SHADOW_STACK_STATUS => walk.writes(first, 8),
        PR_GET_AUXV => walk.writes(first, second),
        // Mode 2 has a program.
        PR_SET_SECCOMP if walk.arg32(1) == 2 => filter_program(walk, second)?,
        PR_SCHED_CORE if walk.arg32(1) == PR_SCHED_CORE_GET => walk.writes(walk.arg(4), 8),
        PR_SET_VMA => walk.text(walk.arg(4), 80)?,
        PR_SET_MM => match walk.arg32(1) {
            PR_SET_MM_AUXV => walk.reads(second, walk.arg(3)),
            PR_SET_MM_MAP => {
                let map = walk.load::<{ size_of::<prctl_mm_map>() }>(second)?;
                walk.reads(field(&map, 88), u64::from(field32(&map, 96)));
            }
            PR_SET_MM_MAP_SIZE => walk.writes(second, 4),
            _ => {}
        },
        _ => {}
    }
    Ok(())
}

/// `arch_prctl` by code: those that ask.
pub(super) fn architecture(walk: &mut Walk<'_>) -> Result<(), Stop> {
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    const GET_EXTENDED_SUPPORTED: u32 = 0x1021;
    const GET_EXTENDED_PERMITTED: u32 = 0x1022;
    const GET_EXTENDED_GUEST: u32 = 0x1024;
    const GET_UNTAG_MASK: u32 = 0x4001;
    const GET_TAG_BITS: u32 = 0x4003;
    const SHADOW_STACK_STATUS: u32 = 0x5005;
    if let GET_FS
    | GET_GS
    | GET_EXTENDED_SUPPORTED
    | GET_EXTENDED_PERMITTED
    | GET_EXTENDED_GUEST
    | GET_UNTAG_MASK
    | GET_TAG_BITS
    | SHADOW_STACK_STATUS = walk.arg32(0)
    {
        walk.writes(walk.arg(1), 8);
    }
    Ok(())
}

/// `modify_ldt`: 0 and 2 ask, 1 and 17 set one descriptor.
pub(super) fn descriptors(walk: &mut Walk<'_>) -> Result<(), Stop> {
    match walk.arg32(0) {
        0 | 2 => walk.writes(walk.arg(1), walk.arg(2)),
        1 | 0x11 => walk.reads(walk.arg(1), 16),
        _ => {}
    }
    Ok(())
}

/// `syslog`: three of its actions read the log.
pub(super) fn kernel_log(walk: &mut Walk<'_>) -> Result<(), Stop> {
    if let 2..=4 = walk.arg32(0) {
        walk.writes(walk.arg(1), u64::from(walk.arg32(2)));
    }
    Ok(())
}

/// `reboot` with a command for whatever comes next.
pub(super) fn reboot(walk: &mut Walk<'_>) -> Result<(), Stop> {
    const RESTART_BY_NAME: u32 = 0xa1b2_c3d4;
    if walk.arg32(2) == RESTART_BY_NAME { walk.text(walk.arg(3), 256) } else { Ok(()) }
}

/// `seccomp` by operation: a filter, a question about an action, one about sizes.
pub(super) fn seccomp(walk: &mut Walk<'_>) -> Result<(), Stop> {
    match walk.arg32(0) {
        1 => filter_program(walk, walk.arg(2))?,
        2 => walk.reads(walk.arg(2), 4),
        3 => walk.writes(walk.arg(2), size_of::<seccomp_notif_sizes>() as u64),
        _ => {}
    }
    Ok(())
}

/// `landlock_add_rule` by type.
pub(super) fn landlock_rule(walk: &mut Walk<'_>) -> Result<(), Stop> {
    match walk.arg32(1) {
        1 => walk.reads(walk.arg(2), 12),
        2 => walk.reads(walk.arg(2), 16),
        _ => {}
    }
    Ok(())
}

/// `kexec_load`: segments, each with a buffer in the program.
pub(super) fn images_loaded(walk: &mut Walk<'_>) -> Result<(), Stop> {
    for index in 0..walk.arg(1).min(16) {
        let segment = walk.load::<32>(walk.arg(2).wrapping_add(index * 32))?;
        walk.reads(field(&segment, 0), field(&segment, 8));
    }
    Ok(())
}

/// `keyctl` by operation.
pub(super) fn key_control(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|argument| walk.arg(argument));
    match walk.arg32(0) {
        // Join a session.
        1 => walk.text(first, 4096)?,
        // Update, instantiate.
        2 | 12 => walk.reads(second, third),
        // Describe, read, security.
        6 | 11 | 17 => walk.writes(second, third),
        // Search; restrict a ring.
        10 | 29 => {
            walk.text(second, 32)?;
            walk.text(third, 4096)?;
        }
        20 => walk.vectors(second, third, Access::Read)?,
        // Diffie-Hellman, with a derivation.
        23 => {
            walk.reads(first, 12);
            walk.writes(second, third);
            if fourth != 0 {
                let derivation = walk.load::<24>(fourth)?;
                walk.text(field(&derivation, 0), 128)?;
                walk.reads(field(&derivation, 8), u64::from(field32(&derivation, 16)));
            }
        }
        // Public keys: ask; encrypt, decrypt, sign; verify.
        24 => {
            walk.text(third, 4096)?;
            walk.writes(fourth, 48);
        }
        25..=28 => {
            let sizes = walk.load::<40>(first)?;
            walk.text(second, 4096)?;
            walk.reads(third, u64::from(field32(&sizes, 4)));
            let access = if walk.arg32(0) == 28 { Access::Read } else { Access::Write };
            walk.touch(fourth, u64::from(field32(&sizes, 8)), access);
        }
        31 => walk.writes(first, second),
        _ => {}
    }
    Ok(())
}

/// Registers of a process, whole, and those of floating point.
const REGISTERS: u64 = 27 * 8;
const FLOATING: u64 = 512;
/// A `siginfo_t`.
const SIGNAL_INFO: u64 = 128;
/// The longest filter: 4096 instructions.
const FILTER_BYTES: u64 = 4096 * 8;

/// `ptrace` by request: what it does to the memory of who traces.
pub(super) fn trace(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let (address, data) = (walk.arg(2), walk.arg(3));
    match walk.arg32(0) {
        PTRACE_PEEKTEXT | PTRACE_PEEKDATA | PTRACE_PEEKUSR | PTRACE_GETEVENTMSG => walk.writes(data, 8),
        PTRACE_GETREGS => walk.writes(data, REGISTERS),
        PTRACE_SETREGS => walk.reads(data, REGISTERS),
        PTRACE_GETFPREGS => walk.writes(data, FLOATING),
        PTRACE_SETFPREGS => walk.reads(data, FLOATING),
        PTRACE_GET_THREAD_AREA => walk.writes(data, 16),
        PTRACE_SET_THREAD_AREA => walk.reads(data, 16),
        PTRACE_GETSIGINFO => walk.writes(data, SIGNAL_INFO),
        PTRACE_SETSIGINFO => walk.reads(data, SIGNAL_INFO),
        PTRACE_GETSIGMASK => walk.writes(data, address),
        PTRACE_SETSIGMASK | PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG | PTRACE_SET_SYSCALL_INFO => {
            walk.reads(data, address);
        }
        PTRACE_GET_SYSCALL_INFO
        | PTRACE_GET_RSEQ_CONFIGURATION
        | PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
        | PTRACE_SECCOMP_GET_METADATA => walk.updates(data, address),
        PTRACE_SECCOMP_GET_FILTER => walk.writes(data, FILTER_BYTES),
        PTRACE_GETREGSET | PTRACE_SETREGSET => {
            let vector = walk.load_as::<16>(data, Access::ReadWrite)?;
            let is_get = walk.arg32(0) == PTRACE_GETREGSET;
            let access = if is_get { Access::Write } else { Access::Read };
            walk.touch(field(&vector, 0), field(&vector, 8), access);
        }
        PTRACE_PEEKSIGINFO => {
            let which = walk.load::<16>(address)?;
            walk.writes(data, u64::from(field32(&which, 12)) * SIGNAL_INFO);
        }
        // Peek and poke of the debugger's own kind reach into the other process.
        _ => {}
    }
    Ok(())
}

/// Longest key of a map; its values have the length that the map was made with, which the kernel alone knows.
const KEY_BYTES: u64 = 512;
const VALUE_BYTES: u64 = 4096;

/// `bpf` by command: what its structure, which was reported, points to.
pub(super) fn bpf(walk: &mut Walk<'_>) -> Result<(), Stop> {
    const ELEMENT_LOOKUP: u32 = 1;
    const ELEMENT_UPDATE: u32 = 2;
    const ELEMENT_DELETE: u32 = 3;
    const NEXT_KEY: u32 = 4;
    const PROGRAM_LOAD: u32 = 5;
    const PIN: u32 = 6;
    const PIN_OPEN: u32 = 7;
    const PROGRAM_RUN: u32 = 10;
    const INFO: u32 = 15;
    const TRACE_POINT: u32 = 17;
    const TYPES_LOAD: u32 = 18;
    const ELEMENT_TAKE: u32 = 21;
    let command = walk.arg32(0);
    let mut attributes = [0_u8; 128];
    let head = u64::from(walk.arg32(2)).min(attributes.len() as u64) / 8;
    for word in 0..head {
        let bytes = walk.load_as::<8>(walk.arg(1).wrapping_add(word * 8), Access::ReadWrite)?;
        attributes[word as usize * 8..][..8].copy_from_slice(&bytes);
    }
    let (at, length) =
        (|offset| field(&attributes, offset), |offset| u64::from(field32(&attributes, offset)));
    match command {
        ELEMENT_LOOKUP | ELEMENT_TAKE | NEXT_KEY => {
            walk.reads(at(8), KEY_BYTES);
            walk.writes(at(16), VALUE_BYTES);
        }
        ELEMENT_UPDATE => {
            walk.reads(at(8), KEY_BYTES);
            walk.reads(at(16), VALUE_BYTES);
        }
        ELEMENT_DELETE => walk.reads(at(8), KEY_BYTES),
        PROGRAM_LOAD => {
            walk.reads(at(8), length(4) * 8);
            walk.text(at(16), 128)?;
            walk.writes(at(32), length(28));
        }
        PIN | PIN_OPEN => walk.text(at(0), 4096)?,
        TRACE_POINT => walk.text(at(0), 128)?,
        PROGRAM_RUN => {
            walk.reads(at(16), length(8));
            walk.writes(at(24), length(12));
        }
        INFO => walk.updates(at(8), length(4)),
        TYPES_LOAD => {
            walk.reads(at(0), length(16));
            walk.writes(at(8), length(20));
        }
        _ => {}
    }
    Ok(())
}
