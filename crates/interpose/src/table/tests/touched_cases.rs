//! The calls that are compared with the real kernel, each with everything it names in regions of its own.

use super::support::{make, six};
use super::touched::Arena;
use libc::*;
use std::vec;
use std::vec::Vec;

/// One call.
pub struct Case {
    pub name: &'static str,
    /// Makes what the call needs; answers its number and arguments.
    pub prepare: fn(&mut Arena) -> (i64, [u64; 6]),
    /// Regions that the table names though the kernel does not always look there.
    pub quiet: &'static [u64],
    /// Regions that the kernel writes sometimes, or of which it does not say that it could not.
    pub lax: &'static [u64],
    pub row_is_short: bool,
}

fn case(name: &'static str, prepare: fn(&mut Arena) -> (i64, [u64; 6])) -> Case {
    Case { name, prepare, quiet: &[], lax: &[], row_is_short: false }
}

fn quiet(name: &'static str, quiet: &'static [u64], prepare: fn(&mut Arena) -> (i64, [u64; 6])) -> Case {
    Case { name, prepare, quiet, lax: &[], row_is_short: false }
}

fn lax(name: &'static str, lax: &'static [u64], prepare: fn(&mut Arena) -> (i64, [u64; 6])) -> Case {
    Case { name, prepare, quiet: &[], lax, row_is_short: false }
}

const AT: u64 = AT_FDCWD as u64;
const DATA: &[u8] = b"hello, world";
const LENGTH: u64 = DATA.len() as u64;

fn two(number: i64, given: [u64; 5], place: usize) -> [u64; 2] {
    let ends = [0_i32; 2];
    let mut arguments = six(given);
    arguments[place] = ends.as_ptr() as u64;
    assert_eq!(super::support::raw(number, arguments), 0);
    // The kernel has written them behind the compiler's back.
    let ends = core::hint::black_box(&ends);
    ends.map(|end| end as u64)
}

/// The ends of a pipe that holds some bytes.
fn pipe() -> [u64; 2] {
    let ends = two(SYS_pipe2, [0, O_NONBLOCK as u64, 0, 0, 0], 0);
    make(SYS_write, [ends[1], DATA.as_ptr() as u64, LENGTH]);
    ends
}

/// A pair of sockets; the first has some bytes to read.
pub fn pair(kind: i32) -> [u64; 2] {
    let ends = two(SYS_socketpair, [AF_UNIX as u64, (kind | SOCK_NONBLOCK) as u64, 0, 0, 0], 3);
    make(SYS_write, [ends[1], DATA.as_ptr() as u64, LENGTH]);
    ends
}

/// A file with some bytes, at its beginning.
fn file() -> u64 {
    let file = make(SYS_memfd_create, [c"case".as_ptr() as u64, 0]) as u64;
    make(SYS_pwrite64, [file, DATA.as_ptr() as u64, LENGTH, 0]);
    file
}

pub fn open(path: &core::ffi::CStr) -> u64 {
    make(SYS_openat, [AT, path.as_ptr() as u64, 0, 0]) as u64
}

/// The number of the mount of the root.
fn mount() -> u64 {
    let told = [0_u64; 32];
    make(SYS_statx, [AT, c"/".as_ptr() as u64, 0, 0x4000, told.as_ptr() as u64]);
    core::hint::black_box(&told)[18]
}

pub fn listening() -> [u64; 2] {
    let address: [u16; 8] = [AF_INET as u16, 0, 0x007f, 0x0100, 0, 0, 0, 0];
    let server = make(SYS_socket, [AF_INET as u64, (SOCK_STREAM | SOCK_NONBLOCK) as u64, 0]) as u64;
    assert_eq!(make(SYS_bind, [server, address.as_ptr() as u64, 16]), 0);
    make(SYS_listen, [server, 4]);
    let (bound, length) = ([0_u16; 8], [16_u32]);
    make(SYS_getsockname, [server, bound.as_ptr() as u64, length.as_ptr() as u64]);
    let client = make(SYS_socket, [AF_INET as u64, SOCK_STREAM as u64, 0]) as u64;
    assert_eq!(make(SYS_connect, [client, core::hint::black_box(&bound).as_ptr() as u64, 16]), 0);
    [server, client]
}

/// A datagram from an address that has a name.
pub fn datagram() -> u64 {
    let [first, second] =
        [0, 1].map(|_| make(SYS_socket, [AF_INET as u64, (SOCK_DGRAM | SOCK_NONBLOCK) as u64, 0]) as u64);
    let address: [u16; 8] = [AF_INET as u16, 0, 0x007f, 0x0100, 0, 0, 0, 0];
    assert_eq!(make(SYS_bind, [first, address.as_ptr() as u64, 16]), 0);
    let (bound, length) = ([0_u16; 8], [16_u32]);
    make(SYS_getsockname, [first, bound.as_ptr() as u64, length.as_ptr() as u64]);
    let to = core::hint::black_box(&bound).as_ptr() as u64;
    assert_eq!(make(SYS_sendto, [second, DATA.as_ptr() as u64, LENGTH, 0, to, 16]), LENGTH as i64);
    first
}

pub fn exited_child() {
    let child = make(SYS_fork, []);
    if child == 0 {
        make(SYS_exit_group, [7]);
    }
    let info = [0_u64; 16];
    make(SYS_waitid, [P_PID as u64, child as u64, info.as_ptr() as u64, (WEXITED | WNOWAIT) as u64, 0]);
}

fn vectors(arena: &mut Arena) -> u64 {
    let (first, second) = (arena.room(), arena.room());
    arena.words(&[first, 5, second, 7])
}

fn message(arena: &mut Arena, with_name: bool) -> u64 {
    let vectors = vectors(arena);
    let name = if with_name { arena.room() } else { 0 };
    arena.words(&[name, 16 * u64::from(with_name), vectors, 2, 0, 0, 0])
}

pub fn cases() -> Vec<Case> {
    let mut all = transfers();
    all.extend(files());
    all.extend(sockets());
    all.extend(devices_and_keys());
    all.extend(processes());
    all.extend(signals_and_time());
    all.extend(events_and_messages());
    all
}

fn transfers() -> Vec<Case> {
    vec![
        case("read of a pipe", |a| (SYS_read, six([pipe()[0], a.room(), LENGTH]))),
        case("read of a file", |a| (SYS_read, six([file(), a.room(), LENGTH]))),
        case("read of a datagram", |a| (SYS_read, six([pair(SOCK_DGRAM)[0], a.room(), LENGTH]))),
        case("write of a pipe", |a| (SYS_write, six([pipe()[1], a.put(DATA), LENGTH]))),
        case("write of a file", |a| (SYS_write, six([file(), a.put(DATA), LENGTH]))),
        case("pread64", |a| (SYS_pread64, six([file(), a.room(), LENGTH, 0]))),
        case("pwrite64", |a| (SYS_pwrite64, six([file(), a.put(DATA), LENGTH, 0]))),
        case("readv", |a| (SYS_readv, six([file(), vectors(a), 2]))),
        case("writev", |a| (SYS_writev, six([file(), vectors(a), 2]))),
        case("preadv", |a| (SYS_preadv, six([file(), vectors(a), 2, 0, 0]))),
        case("pwritev", |a| (SYS_pwritev, six([file(), vectors(a), 2, 0, 0]))),
        case("preadv2", |a| (SYS_preadv2, six([file(), vectors(a), 2, u64::MAX, 0, 0]))),
        case("pwritev2", |a| (SYS_pwritev2, six([file(), vectors(a), 2, 0, 0, 0]))),
        lax("vmsplice into a pipe", &[0], |a| {
            let ends = two(SYS_pipe2, [0; 5], 0);
            let page = a.put(DATA);
            let vector = [page, LENGTH];
            let vectors = a.words(&vector);
            (SYS_vmsplice, six([ends[1], vectors, 1, 0]))
        }),
        case("sendfile", |a| (SYS_sendfile, six([pipe()[1], file(), a.words(&[0]), LENGTH]))),
        case("copy_file_range", |a| {
            let (from, to) = (a.words(&[0]), a.words(&[0]));
            (SYS_copy_file_range, six([file(), from, file(), to, LENGTH, 0]))
        }),
        case("splice", |a| (SYS_splice, six([pipe()[0], 0, file(), a.words(&[0]), LENGTH, 0]))),
        case("getdents64", |a| (SYS_getdents64, six([open(c"/"), a.room(), 4096]))),
        case("getrandom", |a| (SYS_getrandom, six([a.room(), 64, 0]))),
        case("process_vm_readv", |a| {
            let (local, remote) = (a.room(), a.put(DATA));
            let (from, to) = (a.words(&[local, LENGTH]), a.words(&[remote, LENGTH]));
            (SYS_process_vm_readv, six([make(SYS_getpid, []) as u64, from, 1, to, 1, 0]))
        }),
    ]
}

fn files() -> Vec<Case> {
    vec![
        case("open", |a| (SYS_open, six([a.text("/"), 0, 0]))),
        case("openat", |a| (SYS_openat, six([AT, a.text("/"), 0, 0]))),
        case("openat2", |a| (SYS_openat2, six([AT, a.text("/"), a.words(&[0, 0, 0]), 24]))),
        case("stat", |a| (SYS_stat, six([a.text("/"), a.room()]))),
        case("lstat", |a| (SYS_lstat, six([a.text("/"), a.room()]))),
        case("fstat", |a| (SYS_fstat, six([file(), a.room()]))),
        case("newfstatat", |a| (SYS_newfstatat, six([AT, a.text("/"), a.room(), 0]))),
        case("statx", |a| (SYS_statx, six([AT, a.text("/"), 0, 0x7ff, a.room()]))),
        case("statfs", |a| (SYS_statfs, six([a.text("/"), a.room()]))),
        case("fstatfs", |a| (SYS_fstatfs, six([file(), a.room()]))),
        case("sysfs", |a| (SYS_sysfs, six([2, 0, a.room()]))),
        case("cachestat", |a| (451, six([file(), a.words(&[0, 0]), a.room(), 0]))),
        case("access", |a| (SYS_access, six([a.text("/"), 0]))),
        case("faccessat", |a| (SYS_faccessat, six([AT, a.text("/"), 0]))),
        case("faccessat2", |a| (SYS_faccessat2, six([AT, a.text("/"), 0, 0]))),
        case("truncate", |a| (SYS_truncate, six([a.text("/nothing/there"), 0]))),
        case("getcwd", |a| (SYS_getcwd, six([a.room(), 4096]))),
        case("chdir", |a| (SYS_chdir, six([a.text("/")]))),
        quiet("rename", &[1], |a| (SYS_rename, six([a.text("/nothing/a"), a.text("/nothing/b")]))),
        quiet("renameat2", &[1], |a| {
            (SYS_renameat2, six([AT, a.text("/nothing/a"), AT, a.text("/nothing/b"), 0]))
        }),
        case("mkdir", |a| (SYS_mkdir, six([a.text("/nothing/there"), 0]))),
        case("rmdir", |a| (SYS_rmdir, six([a.text("/nothing/there")]))),
        quiet("link", &[1], |a| (SYS_link, six([a.text("/nothing/a"), a.text("/nothing/b")]))),
        case("unlink", |a| (SYS_unlink, six([a.text("/nothing/there")]))),
        case("symlink", |a| (SYS_symlink, six([a.text("target"), a.text("/nothing/b")]))),
        case("readlink", |a| (SYS_readlink, six([a.text("/proc/self/exe"), a.room(), 4096]))),
        case("readlinkat", |a| (SYS_readlinkat, six([AT, a.text("/proc/self/exe"), a.room(), 4096]))),
        case("chmod", |a| (SYS_chmod, six([a.text("/nothing/there"), 0]))),
        case("chown", |a| (SYS_chown, six([a.text("/nothing/there"), 0, 0]))),
        case("utimensat", |a| (SYS_utimensat, six([AT, a.text("/nothing/there"), a.words(&[0; 4]), 0]))),
        case("utimes", |a| (SYS_utimes, six([a.text("/nothing/there"), a.words(&[0; 4])]))),
        case("futimesat", |a| (SYS_futimesat, six([AT, a.text("/nothing/there"), a.words(&[0; 4])]))),
        case("utime", |a| (SYS_utime, six([a.text("/nothing/there"), a.words(&[0; 2])]))),
        case("fsetxattr", |a| (SYS_fsetxattr, six([file(), a.text("user.a"), a.put(DATA), LENGTH, 0]))),
        quiet("fgetxattr", &[1], |a| (SYS_fgetxattr, six([file(), a.text("user.a"), a.room(), 64]))),
        case("removexattr", |a| (SYS_removexattr, six([a.text("/nothing/there"), a.text("user.a")]))),
        case("setxattrat", |a| {
            let value = a.put(DATA);
            let arguments = a.words(&[value, LENGTH]);
            (463, six([file(), a.text(""), AT_EMPTY_PATH as u64, a.text("user.a"), arguments, 16]))
        }),
        case("name_to_handle_at", |a| {
            (SYS_name_to_handle_at, six([AT, a.text("/"), a.halves(&[128, 0]), a.room(), 0]))
        }),
        case("inotify_add_watch", |a| {
            (SYS_inotify_add_watch, six([make(SYS_inotify_init1, [0]) as u64, a.text("/"), IN_CREATE as u64]))
        }),
        case("fsopen", |a| (SYS_fsopen, six([a.text("tmpfs"), 0]))),
        case("statmount", |a| (457, six([a.words(&[24, mount(), 2]), a.room(), 4096, 0]))),
        case("listmount", |a| (458, six([a.words(&[24, u64::MAX, 0]), a.room(), 16, 0]))),
        case("F_GETLK", |a| (SYS_fcntl, six([file(), F_GETLK as u64, a.room()]))),
        case("F_SETLK", |a| (SYS_fcntl, six([file(), F_SETLK as u64, a.room()]))),
        case("F_OFD_SETLK", |a| (SYS_fcntl, six([file(), F_OFD_SETLK as u64, a.room()]))),
        case("F_GETOWN_EX", |a| (SYS_fcntl, six([pipe()[0], 16, a.room()]))),
        case("F_SETOWN_EX", |a| (SYS_fcntl, six([pipe()[0], 15, a.halves(&[1, 0])]))),
        case("F_GETFD", |a| (SYS_fcntl, six([file(), F_GETFD as u64, a.room()]))),
        case("F_GET_RW_HINT", |a| (SYS_fcntl, six([file(), 1035, a.room()]))),
        case("FIONREAD", |a| (SYS_ioctl, six([pipe()[0], FIONREAD, a.room()]))),
        case("FIONBIO", |a| (SYS_ioctl, six([pipe()[0], FIONBIO, a.room()]))),
        case("FIOCLEX", |a| (SYS_ioctl, six([pipe()[0], FIOCLEX, a.room()]))),
        case("FIGETBSZ", |a| (SYS_ioctl, six([file(), 2, a.room()]))),
        case("TCGETS", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), TCGETS, a.room()]))),
        case("TIOCGWINSZ", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), TIOCGWINSZ, a.room()]))),
        case("TIOCSWINSZ", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), TIOCSWINSZ, a.room()]))),
        case("TIOCGPTN", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), 0x8004_5430, a.room()]))),
        case("FS_IOC_FIEMAP", |a| {
            (SYS_ioctl, six([open(c"/proc/self/exe"), 0xc020_660b, a.words(&[0, u64::MAX, 0, 8 << 32])]))
        }),
        case("PAGEMAP_SCAN", |a| {
            // This stack is in use: something is found there.
            let here = 0_u8;
            let (found, start) = (a.room(), &raw const here as u64 & !4095);
            let end = start + 4096;
            let scan = [96, 0, start, end, 0, found, 4, 0, 0, 0, 0x7f, 0x7f];
            (SYS_ioctl, six([open(c"/proc/self/pagemap"), 0xc060_6610, a.words(&scan)]))
        }),
        case("memfd_create", |a| (SYS_memfd_create, six([a.text("name"), 0]))),
        case("pipe", |a| (SYS_pipe, six([a.room()]))),
        case("pipe2", |a| (SYS_pipe2, six([a.room(), 0]))),
        case("mincore", |a| (SYS_mincore, six([a.room(), 8192, a.room()]))),
        case("get_mempolicy", |a| (SYS_get_mempolicy, six([a.room(), a.room(), 1024, 0, 0]))),
        case("set_mempolicy", |a| (SYS_set_mempolicy, six([MPOL_DEFAULT as u64, a.room(), 64]))),
        case("move_pages", |a| {
            let page = a.put(DATA);
            let pages = a.words(&[page]);
            (SYS_move_pages, six([0, 1, pages, 0, a.room(), 0]))
        }),
    ]
}

fn sockets() -> Vec<Case> {
    vec![
        case("socketpair", |a| (SYS_socketpair, six([AF_UNIX as u64, SOCK_STREAM as u64, 0, a.room()]))),
        case("accept", |a| (SYS_accept, six([listening()[0], a.room(), a.halves(&[16])]))),
        case("accept4", |a| (SYS_accept4, six([listening()[0], a.room(), a.halves(&[16]), 0]))),
        case("getsockname", |a| (SYS_getsockname, six([listening()[0], a.room(), a.halves(&[16])]))),
        case("getpeername", |a| (SYS_getpeername, six([listening()[1], a.room(), a.halves(&[16])]))),
        case("bind", |a| {
            let socket = make(SYS_socket, [AF_INET as u64, SOCK_STREAM as u64, 0]) as u64;
            (SYS_bind, six([socket, a.halves(&[AF_INET as u32, 0x0100_007f, 0, 0]), 16]))
        }),
        case("connect", |a| {
            let socket = make(SYS_socket, [AF_INET as u64, SOCK_DGRAM as u64, 0]) as u64;
            (SYS_connect, six([socket, a.halves(&[0x0900_0000 | AF_INET as u32, 0x0100_007f, 0, 0]), 16]))
        }),
        case("SO_ERROR", |a| {
            let (socket, level) = (pair(SOCK_STREAM)[0], SOL_SOCKET as u64);
            (SYS_getsockopt, six([socket, level, SO_ERROR as u64, a.room(), a.halves(&[4])]))
        }),
        case("SO_RCVBUF", |a| {
            let (socket, level) = (pair(SOCK_STREAM)[0], SOL_SOCKET as u64);
            (SYS_setsockopt, six([socket, level, SO_RCVBUF as u64, a.halves(&[8192]), 4]))
        }),
        case("SO_ATTACH_FILTER", |a| {
            let code = a.words(&[0xffff_0000_0006]);
            let program = a.words(&[1, code]);
            let (socket, level) = (pair(SOCK_DGRAM)[0], SOL_SOCKET as u64);
            (SYS_setsockopt, six([socket, level, 26, program, 16]))
        }),
        case("sendto", |a| (SYS_sendto, six([pair(SOCK_DGRAM)[0], a.put(DATA), LENGTH, 0, 0, 0]))),
        case("recvfrom of a datagram", |a| {
            (SYS_recvfrom, six([datagram(), a.room(), LENGTH, 0, a.room(), a.halves(&[16])]))
        }),
        case("sendmsg", |a| (SYS_sendmsg, six([pair(SOCK_STREAM)[0], message(a, false), 0]))),
        case("recvmsg", |a| (SYS_recvmsg, six([pair(SOCK_STREAM)[0], message(a, false), 0]))),
        case("recvmsg of a datagram", |a| (SYS_recvmsg, six([datagram(), message(a, true), 0]))),
        case("sendmmsg", |a| (SYS_sendmmsg, six([pair(SOCK_DGRAM)[0], message(a, false), 1, 0]))),
        case("recvmmsg", |a| (SYS_recvmmsg, six([datagram(), message(a, true), 1, 0, a.words(&[1, 0])]))),
    ]
}

fn stream() -> u64 {
    make(SYS_socket, [AF_INET as u64, SOCK_STREAM as u64, 0]) as u64
}

/// `bpf` of a map: its descriptor, a key, a value, flags.
fn map_element(arena: &mut Arena, command: u64) -> (i64, [u64; 6]) {
    // An array of two values of eight bytes.
    let attributes = [2_u32, 4, 8, 2, 0, 0, 0, 0];
    let map = make(SYS_bpf, [0, attributes.as_ptr() as u64, 32]);
    let (key, value) = (arena.room(), arena.room());
    (SYS_bpf, six([command, arena.words(&[map as u64, key, value, 0]), 32]))
}

fn devices_and_keys() -> Vec<Case> {
    vec![
        case("SIOCGIFCONF", |a| {
            let list = a.room();
            (SYS_ioctl, six([stream(), 0x8912, a.words(&[4000, list])]))
        }),
        case("SIOCGIFFLAGS", |a| (SYS_ioctl, six([stream(), 0x8913, a.text("lo")]))),
        case("SIOCGIFINDEX", |a| (SYS_ioctl, six([stream(), 0x8933, a.text("lo")]))),
        case("SIOCATMARK", |a| (SYS_ioctl, six([listening()[1], 0x8905, a.room()]))),
        case("SIOCGPGRP", |a| (SYS_ioctl, six([stream(), 0x8904, a.room()]))),
        case("FIOASYNC", |a| (SYS_ioctl, six([pipe()[0], 0x5452, a.room()]))),
        case("TIOCSPTLCK", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), 0x4004_5431, a.room()]))),
        case("TCGETS2", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), 0x802c_542a, a.room()]))),
        case("TIOCGETD", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), 0x5424, a.room()]))),
        case("TIOCGEXCL", |a| (SYS_ioctl, six([open(c"/dev/ptmx"), 0x8004_5440, a.room()]))),
        case("FS_IOC_GETFLAGS", |a| (SYS_ioctl, six([open(c"/"), 0x8008_6601, a.room()]))),
        case("PROCMAP_QUERY", |a| {
            // An address in the C library, whose path is short wherever this test is built.
            let (name, there) = (a.room(), libc::getpid as *const () as u64);
            let query = [104, 0, there, 0, 0, 0, 0, 0, 0, 0, 64, name, 0];
            (SYS_ioctl, six([open(c"/proc/self/maps"), 0xc068_6611, a.words(&query)]))
        }),
        case("UFFDIO_API", |a| {
            let file = make(SYS_userfaultfd, [1]) as u64;
            (SYS_ioctl, six([file, 0xc018_aa3f, a.words(&[0xaa, 0, 0])]))
        }),
        case("NS_GET_OWNER_UID", |a| (SYS_ioctl, six([open(c"/proc/self/ns/user"), 0xb704, a.room()]))),
        case("TCP_INFO", |a| (SYS_getsockopt, six([listening()[1], 6, 11, a.room(), a.halves(&[104])]))),
        case("SO_PEERCRED", |a| {
            (SYS_getsockopt, six([pair(SOCK_STREAM)[0], SOL_SOCKET as u64, 17, a.room(), a.halves(&[12])]))
        }),
        case("KEYCTL_DESCRIBE", |a| (SYS_keyctl, six([6, u64::MAX - 3, a.room(), 256]))),
        case("KEYCTL_CAPABILITIES", |a| (SYS_keyctl, six([31, a.room(), 2]))),
        case("KEYCTL_JOIN_SESSION_KEYRING", |a| (SYS_keyctl, six([1, a.text("ring")]))),
        lax("BPF_MAP_UPDATE_ELEM", &[2], |a| map_element(a, 2)),
        lax("BPF_MAP_LOOKUP_ELEM", &[2], |a| map_element(a, 1)),
        case("io_uring_register, a probe", |a| {
            let parameters = [0_u64; 15];
            let ring = make(SYS_io_uring_setup, [4, parameters.as_ptr() as u64]) as u64;
            (SYS_io_uring_register, six([ring, 8, a.room(), 4]))
        }),
        case("io_uring_register, buffers", |a| {
            let parameters = [0_u64; 15];
            let ring = make(SYS_io_uring_setup, [4, parameters.as_ptr() as u64]) as u64;
            let buffer = a.room();
            (SYS_io_uring_register, six([ring, 0, a.words(&[buffer, 4096]), 1]))
        }),
        case("personality", |a| (SYS_personality, six([0xffff_ffff, a.room()]))),
        case("getpgid", |a| (SYS_getpgid, six([0, a.room()]))),
        case("quotactl of nothing", |a| {
            (SYS_quotactl, six([0x80_0001_u64 << 8, a.text("/nothing"), 0, a.room()]))
        }),
        quiet("modify_ldt", &[0], |a| (SYS_modify_ldt, six([0, a.room(), 64]))),
        case("syslog sizes", |a| (SYS_syslog, six([10, a.room(), 64]))),
        quiet("syslog all", &[0], |a| (SYS_syslog, six([3, a.room(), 64]))),
        case("mbind", |a| {
            let page = a.room();
            (SYS_mbind, six([page, 4096, 0, 0, 0, 0]))
        }),
        case("process_madvise", |a| {
            let page = a.room();
            let file = make(SYS_pidfd_open, [make(SYS_getpid, []) as u64, 0]) as u64;
            (SYS_process_madvise, six([file, a.words(&[page, 4096]), 1, MADV_COLD as u64, 0]))
        }),
    ]
}

fn processes() -> Vec<Case> {
    vec![
        case("wait4", |a| {
            exited_child();
            (SYS_wait4, six([u64::MAX, a.room(), 0, a.room()]))
        }),
        case("waitid", |a| {
            exited_child();
            (SYS_waitid, six([P_ALL as u64, 0, a.room(), WEXITED as u64, a.room()]))
        }),
        case("execve of a file that is no program", |a| {
            let word = a.text("word");
            let (arguments, environment) = (a.words(&[word, 0]), a.words(&[0]));
            let file = make(SYS_dup3, [file(), 9, 0]);
            assert_eq!(file, 9);
            (SYS_execve, six([a.text("/proc/self/fd/9"), arguments, environment]))
        }),
        case("getresuid", |a| (SYS_getresuid, six([a.room(), a.room(), a.room()]))),
        case("getresgid", |a| (SYS_getresgid, six([a.room(), a.room(), a.room()]))),
        case("getrlimit", |a| (SYS_getrlimit, six([RLIMIT_CORE as u64, a.room()]))),
        case("setrlimit", |a| (SYS_setrlimit, six([RLIMIT_CORE as u64, a.words(&[0, 0])]))),
        case("prlimit64", |a| (SYS_prlimit64, six([0, RLIMIT_CORE as u64, a.words(&[0, 0]), a.room()]))),
        case("getrusage", |a| (SYS_getrusage, six([0, a.room()]))),
        case("times", |a| (SYS_times, six([a.room()]))),
        case("sysinfo", |a| (SYS_sysinfo, six([a.room()]))),
        case("uname", |a| (SYS_uname, six([a.room()]))),
        case("getcpu", |a| (SYS_getcpu, six([a.room(), a.room(), 0]))),
        lax("capget", &[0], |a| (SYS_capget, six([a.halves(&[0x2008_0522, 0]), a.room()]))),
        case("sched_getparam", |a| (SYS_sched_getparam, six([0, a.room()]))),
        case("sched_setparam", |a| (SYS_sched_setparam, six([0, a.room()]))),
        case("sched_setscheduler", |a| (SYS_sched_setscheduler, six([0, 0, a.room()]))),
        case("sched_rr_get_interval", |a| (SYS_sched_rr_get_interval, six([0, a.room()]))),
        case("sched_getaffinity", |a| (SYS_sched_getaffinity, six([0, 128, a.room()]))),
        case("sched_setaffinity", |a| (SYS_sched_setaffinity, six([0, 8, a.words(&[u64::MAX])]))),
        lax("sched_setattr", &[0], |a| (SYS_sched_setattr, six([0, a.words(&[48, 0, 0, 0, 0, 0]), 0]))),
        case("sched_getattr", |a| (SYS_sched_getattr, six([0, a.room(), 48, 0]))),
        case("get_robust_list", |a| (SYS_get_robust_list, six([0, a.room(), a.room()]))),
        case("PR_GET_NAME", |a| (SYS_prctl, six([PR_GET_NAME as u64, a.room()]))),
        case("PR_SET_NAME", |a| (SYS_prctl, six([PR_SET_NAME as u64, a.text("name")]))),
        case("PR_GET_PDEATHSIG", |a| (SYS_prctl, six([PR_GET_PDEATHSIG as u64, a.room()]))),
        case("PR_GET_AUXV", |a| (SYS_prctl, six([0x4155_5856, a.room(), 64, 0, 0]))),
        quiet("PR_SET_VMA", &[1], |a| {
            (SYS_prctl, six([PR_SET_VMA as u64, 0, a.room(), 4096, a.text("name")]))
        }),
        case("PR_GET_DUMPABLE", |a| (SYS_prctl, six([PR_GET_DUMPABLE as u64, a.room()]))),
        case("ARCH_GET_FS", |a| (SYS_arch_prctl, six([0x1003, a.room()]))),
        case("seccomp sizes", |a| (SYS_seccomp, six([3, 0, a.room()]))),
        case("landlock_create_ruleset", |a| (SYS_landlock_create_ruleset, six([a.words(&[1]), 8, 0]))),
        case("add_key", |a| {
            (SYS_add_key, six([a.text("user"), a.text("name"), a.put(DATA), LENGTH, u64::MAX - 2]))
        }),
        case("lsm_list_modules", |a| (461, six([a.room(), a.halves(&[4096]), 0]))),
        case("ptrace of nobody", |a| (SYS_ptrace, six([PTRACE_TRACEME as u64, 0, 0, a.room()]))),
        lax("perf_event_open", &[0], |a| {
            (
                SYS_perf_event_open,
                six([a.words(&[128 << 32 | 1, 0, 0, 0, 0, 0x60]), 0, u64::MAX, u64::MAX, 0]),
            )
        }),
    ]
}

fn signals_and_time() -> Vec<Case> {
    vec![
        case("rt_sigaction", |a| (SYS_rt_sigaction, six([SIGUSR1 as u64, a.words(&[0; 4]), a.room(), 8]))),
        case("rt_sigprocmask", |a| (SYS_rt_sigprocmask, six([0, a.words(&[0]), a.room(), 8]))),
        case("rt_sigpending", |a| (SYS_rt_sigpending, six([a.room(), 8]))),
        case("rt_sigtimedwait", |a| {
            let (set, info, time) = (a.words(&[1 << (SIGUSR1 - 1)]), a.room(), a.words(&[0, 0]));
            make(SYS_rt_sigprocmask, [0, [1_u64 << (SIGUSR1 - 1)].as_ptr() as u64, 0, 8]);
            make(SYS_kill, [make(SYS_getpid, []) as u64, SIGUSR1 as u64]);
            (SYS_rt_sigtimedwait, six([set, info, time, 8]))
        }),
        case("rt_sigqueueinfo", |a| {
            let (process, info) =
                (make(SYS_getpid, []) as u64, a.halves(&[SIGCHLD as u32, 0, -1_i32 as u32]));
            (SYS_rt_sigqueueinfo, six([process, SIGCHLD as u64, info]))
        }),
        case("sigaltstack", |a| (SYS_sigaltstack, six([a.words(&[0, 2, 0]), a.room()]))),
        case("signalfd4", |a| (SYS_signalfd4, six([u64::MAX, a.words(&[1]), 8, 0]))),
        case("time", |a| (SYS_time, six([a.room()]))),
        case("gettimeofday", |a| (SYS_gettimeofday, six([a.room(), a.room()]))),
        case("clock_gettime", |a| (SYS_clock_gettime, six([1, a.room()]))),
        case("clock_getres", |a| (SYS_clock_getres, six([1, a.room()]))),
        case("adjtimex", |a| (SYS_adjtimex, six([a.room()]))),
        case("clock_adjtime", |a| (SYS_clock_adjtime, six([0, a.room()]))),
        case("nanosleep", |a| (SYS_nanosleep, six([a.words(&[0, 1])]))),
        quiet("clock_nanosleep", &[1], |a| (SYS_clock_nanosleep, six([1, 0, a.words(&[0, 1]), a.room()]))),
        case("getitimer", |a| (SYS_getitimer, six([0, a.room()]))),
        case("setitimer", |a| (SYS_setitimer, six([0, a.words(&[0; 4]), a.room()]))),
        case("timer_create", |a| (SYS_timer_create, six([1, a.halves(&[0, 0, 0, 1]), a.room()]))),
        case("timer_settime", |a| (SYS_timer_settime, six([timer(), 0, a.words(&[0, 0, 9, 0]), a.room()]))),
        case("timer_gettime", |a| (SYS_timer_gettime, six([timer(), a.room()]))),
        case("timerfd_settime", |a| {
            (SYS_timerfd_settime, six([timer_file(), 0, a.words(&[0, 0, 9, 0]), a.room()]))
        }),
        case("timerfd_gettime", |a| (SYS_timerfd_gettime, six([timer_file(), a.room()]))),
    ]
}

fn timer() -> u64 {
    let timer = [0_u32; 2];
    make(SYS_timer_create, [1, 0, timer.as_ptr() as u64]);
    u64::from(core::hint::black_box(&timer)[0])
}

pub fn timer_file() -> u64 {
    make(SYS_timerfd_create, [1, TFD_NONBLOCK as u64]) as u64
}

/// An epoll with a file that can be read.
fn watched() -> u64 {
    let epoll = make(SYS_epoll_create1, [0]) as u64;
    let event = [EPOLLIN as u32, 0, 0];
    assert_eq!(make(SYS_epoll_ctl, [epoll, EPOLL_CTL_ADD as u64, pipe()[0], event.as_ptr() as u64]), 0);
    epoll
}

pub fn queue() -> u64 {
    let queue = make(SYS_msgget, [IPC_PRIVATE as u64, 0o600]) as u64;
    let message = [1_u64, 2];
    make(SYS_msgsnd, [queue, message.as_ptr() as u64, 8, IPC_NOWAIT as u64]);
    queue
}

fn events_and_messages() -> Vec<Case> {
    vec![
        case("poll", |a| (SYS_poll, six([a.halves(&[pipe()[0] as u32, POLLIN as u32]), 1, 0]))),
        lax("ppoll", &[1], |a| {
            let (files, time) = (a.halves(&[pipe()[0] as u32, POLLIN as u32]), a.words(&[1, 0]));
            (SYS_ppoll, six([files, 1, time, a.words(&[0]), 8]))
        }),
        lax("select", &[3], |a| (SYS_select, six([1, a.room(), a.room(), a.room(), a.words(&[0, 0])]))),
        lax("pselect6", &[5], |a| {
            let mask = a.words(&[0]);
            let last = a.words(&[mask, 8]);
            (SYS_pselect6, six([1, a.room(), a.room(), a.room(), a.words(&[0, 0]), last]))
        }),
        case("epoll_ctl", |a| {
            let (epoll, pipe) = (make(SYS_epoll_create1, [0]) as u64, pipe()[0]);
            (SYS_epoll_ctl, six([epoll, EPOLL_CTL_ADD as u64, pipe, a.halves(&[1, 0, 0])]))
        }),
        case("epoll_ctl out", |a| {
            (SYS_epoll_ctl, six([watched(), EPOLL_CTL_DEL as u64, pipe()[0], a.room()]))
        }),
        case("epoll_wait", |a| (SYS_epoll_wait, six([watched(), a.room(), 4, 0]))),
        case("epoll_pwait", |a| (SYS_epoll_pwait, six([watched(), a.room(), 4, 0, a.words(&[0]), 8]))),
        case("epoll_pwait2", |a| {
            let (events, time) = (a.room(), a.words(&[0, 0]));
            (SYS_epoll_pwait2, six([watched(), events, 4, time, a.words(&[0]), 8]))
        }),
        case("io_setup", |a| (SYS_io_setup, six([4, a.words(&[0])]))),
        quiet("io_submit", &[0], |a| {
            let context = [0_u64; 1];
            make(SYS_io_setup, [4, context.as_ptr() as u64]);
            let data = a.put(DATA);
            let block = a.words(&[0, 0, 1 | file() << 32, data, LENGTH, 0, 0, 0]);
            let blocks = a.words(&[block]);
            (SYS_io_submit, six([core::hint::black_box(&context)[0], 1, blocks]))
        }),
        case("io_uring_setup", |a| (SYS_io_uring_setup, six([4, a.room()]))),
        case("msgsnd", |a| (SYS_msgsnd, six([queue(), a.words(&[1, 2]), 8, IPC_NOWAIT as u64]))),
        case("msgrcv", |a| (SYS_msgrcv, six([queue(), a.room(), 8, 0, IPC_NOWAIT as u64]))),
        case("msgctl", |a| (SYS_msgctl, six([queue(), IPC_STAT as u64, a.room()]))),
        case("IPC_INFO of messages", |a| (SYS_msgctl, six([0, IPC_INFO as u64, a.room()]))),
        case("IPC_INFO of memory", |a| (SYS_shmctl, six([0, IPC_INFO as u64, a.room()]))),
        case("IPC_INFO of semaphores", |a| (SYS_semctl, six([0, 0, IPC_INFO as u64, a.room()]))),
        case("shmctl", |a| {
            let segment = make(SYS_shmget, [IPC_PRIVATE as u64, 4096, 0o600]) as u64;
            (SYS_shmctl, six([segment, IPC_STAT as u64, a.room()]))
        }),
        case("semctl", |a| {
            let set = make(SYS_semget, [IPC_PRIVATE as u64, 2, 0o600]) as u64;
            (SYS_semctl, six([set, 0, 17, a.room()]))
        }),
        case("semop", |a| {
            let set = make(SYS_semget, [IPC_PRIVATE as u64, 2, 0o600]) as u64;
            (SYS_semtimedop, six([set, a.halves(&[1 << 16, 0]), 1, a.words(&[1, 0])]))
        }),
        case("mq_open", |a| (SYS_mq_open, six([a.text("nothing-there"), 0, 0, 0]))),
        case("mq_timedreceive", |a| {
            let queue = posix_queue();
            (SYS_mq_timedreceive, six([queue, a.room(), 64, a.room(), a.words(&[1, 0])]))
        }),
        case("mq_timedsend", |a| {
            (SYS_mq_timedsend, six([posix_queue(), a.put(DATA), 8, 0, a.words(&[1, 0])]))
        }),
        case("mq_getsetattr", |a| (SYS_mq_getsetattr, six([posix_queue(), a.words(&[0; 8]), a.room()]))),
        case("FUTEX_WAIT", |a| (SYS_futex, six([a.words(&[1]), 128, 0, a.words(&[0, 1])]))),
        case("FUTEX_WAIT, shared", |a| (SYS_futex, six([a.words(&[1]), 0, 0, a.words(&[0, 1])]))),
        case("FUTEX_WAKE, private", |a| (SYS_futex, six([a.room(), 1 | 128, 1]))),
        case("FUTEX_WAKE, shared", |a| (SYS_futex, six([a.room(), 1, 1]))),
        case("FUTEX_WAKE_OP", |a| (SYS_futex, six([a.room(), 5 | 128, 1, 1, a.room(), 0]))),
        case("FUTEX_CMP_REQUEUE", |a| (SYS_futex, six([a.room(), 4 | 128, 1, 1, a.room(), 0]))),
        case("FUTEX_REQUEUE", |a| (SYS_futex, six([a.room(), 3 | 128, 1, 1, a.room()]))),
        case("FUTEX_LOCK_PI", |a| (SYS_futex, six([a.room(), 6 | 128, 0, 0]))),
        case("FUTEX_TRYLOCK_PI", |a| (SYS_futex, six([a.room(), 8 | 128, 0, 0]))),
        case("futex_waitv", |a| {
            let word = a.words(&[1]);
            let waiters = a.words(&[0, word, 2 | 128]);
            (SYS_futex_waitv, six([waiters, 1, 0, a.words(&[0, 1]), 1]))
        }),
        case("futex_wait", |a| (455, six([a.words(&[1]), 0, u32::MAX.into(), 2 | 128, a.words(&[0, 1]), 1]))),
        case("futex_wake, private", |a| (454, six([a.room(), u32::MAX.into(), 1, 2 | 128]))),
        case("futex_wake, shared", |a| (454, six([a.room(), u32::MAX.into(), 1, 2]))),
    ]
}

/// A queue of this process with one message. Its name is gone at once.
pub fn posix_queue() -> u64 {
    let name = c"uswap-test-of-the-table".as_ptr() as u64;
    let attributes = [0_u64, 4, 64, 0, 0, 0, 0, 0];
    let flags = (O_RDWR | O_CREAT | O_NONBLOCK) as u64;
    let queue = make(SYS_mq_open, [name, flags, 0o600, attributes.as_ptr() as u64]) as u64;
    make(SYS_mq_unlink, [name]);
    make(SYS_mq_timedsend, [queue, DATA.as_ptr() as u64, 8, 0, 0]);
    queue
}
