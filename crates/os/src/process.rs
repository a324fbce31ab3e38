//! Processes seen from outside: size, threads, children, life.
//!
//! What is read is old at once, and the number may be another process's by then: whoever must be sure asks a
//! [`crate::pidfd`].
//!
//! Must hold: of a process that is gone, or that may not be looked at, nothing is said but that. Called by
//! [`crate::mlock`] and [`crate::ptrace`], by the supervisor, `control` and `bench` (other
//! processes), and by `host`, `interpose` and `agent` (their own).

use core::ffi::CStr;

use crate::PAGE_BYTES;
use crate::fd::{Fd, read_file};
use crate::sys::prctl::PR_GET_AUXV;
use crate::sys::{self, Errno, Result, abi};
use crate::text::{TextBuffer, skip_spaces, take_number};

/// Path below /proc of a process; `None` is the calling one.
fn path(process_id: Option<u32>, rest: &str) -> TextBuffer<64> {
    match process_id {
        Some(process_id) => TextBuffer::format(format_args!("/proc/{process_id}/{rest}")),
        None => TextBuffer::format(format_args!("/proc/self/{rest}")),
    }
}

/// What this process may use of a resource (`RLIMIT_NOFILE`, for example), as `ulimit -S` shows it. None: there is no
/// limit.
pub fn limit(resource: u32) -> Result<Option<u64>> {
    let mut limit = abi::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY:
    // 1. The kernel writes one structure into a live one, and reads none.
    unsafe { sys::syscall4(abi::__NR_prlimit64, 0, resource as usize, 0, &raw mut limit as usize) }?;
    Ok((limit.rlim_cur != u64::MAX).then_some(limit.rlim_cur))
}

/// Value of an entry of the auxiliary vector of this process.
pub fn auxiliary(wanted: u64) -> Option<u64> {
    let mut buffer = [0; 1024];
    // SAFETY:
    // 1. The kernel writes at most the size of the exclusive buffer.
    let told = unsafe {
        let (start, bytes) = (buffer.as_mut_ptr() as usize, buffer.len());
        sys::syscall6(abi::__NR_prctl, PR_GET_AUXV as usize, start, bytes, 0, 0, 0)
    };
    let bytes = match told {
        Ok(bytes) => buffer.get(..bytes)?,
        // Linux before 6.4.
        Err(_) => read_file(c"/proc/self/auxv", &mut buffer).ok()?,
    };
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes make a word"));
    bytes.as_chunks::<16>().0.iter().find(|pair| word(&pair[..8]) == wanted).map(|pair| word(&pair[8..]))
}

/// Memory for data that the program of this process was loaded with, without that of its libraries, in bytes.
pub fn data_bytes_of_program() -> Option<u64> {
    const AT_PHDR: u64 = 3;
    const AT_PHNUM: u64 = 5;
    const LOADED: u32 = 1;
    const WRITABLE: u32 = 2;
    let (start, count) = (auxiliary(AT_PHDR)? as usize, auxiliary(AT_PHNUM)? as usize);
    // SAFETY:
    // 1. The kernel says where the program headers lie in memory, and that they are so many. They are part of the
    //    program, which is loaded, and nobody writes them.
    let headers = unsafe { core::slice::from_raw_parts(start as *const ProgramHeader, count) };
    let writable = headers.iter().filter(|header| header.kind == LOADED && header.flags & WRITABLE != 0);
    Some(writable.map(|header| header.memory_bytes).sum())
}

/// As in ELF files of 64 bits.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    _addresses: [u64; 3],
    _file_bytes: u64,
    memory_bytes: u64,
    _alignment: u64,
}

/// Path by which another process opens descriptor `number` of process `process_id`.
pub fn descriptor_path(process_id: u32, number: i32) -> TextBuffer<64> {
    TextBuffer::format(format_args!("/proc/{process_id}/fd/{number}"))
}

/// Who is at the other end of a socket, or was when it was connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// 0 where this pid namespace has no name for it.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// The peer of a connected unix socket. The kernel noted it: nobody can say that he is somebody else.
pub fn peer_of(socket: i32) -> Result<Peer> {
    const SOL_SOCKET: usize = 1;
    const SO_PEERCRED: usize = 17;
    // pid, user, group.
    let mut credentials = [0_u32; 3];
    let mut bytes = size_of_val(&credentials) as u32;
    // SAFETY:
    // 1. The kernel writes at most `bytes` bytes to `credentials`, and the length to `bytes`; both are ours.
    unsafe {
        sys::syscall6(
            abi::__NR_getsockopt,
            socket as usize,
            SOL_SOCKET,
            SO_PEERCRED,
            credentials.as_mut_ptr() as usize,
            &raw mut bytes as usize,
            0,
        )
    }?;
    Ok(Peer { pid: credentials[0], uid: credentials[1] })
}

/// Sizes in pages, as `/proc/PID/statm` has them. The kernel updates them in steps of some dozens of pages a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statm {
    /// Address space.
    pub total_pages: u64,
    /// In RAM.
    pub resident_pages: u64,
    /// In RAM and of a file or shared memory.
    pub shared_pages: u64,
    /// Address space that is private and may be written, stacks too.
    pub data_pages: u64,
}

impl Statm {
    /// In RAM and private anonymous: what counts against a budget.
    pub fn anonymous_pages(&self) -> u64 {
        self.resident_pages.saturating_sub(self.shared_pages)
    }

    /// [`Statm::anonymous_pages`] in bytes.
    pub fn anonymous_bytes(&self) -> u64 {
        self.anonymous_pages() * PAGE_BYTES as u64
    }

    /// [`Statm::data_pages`] in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.data_pages * PAGE_BYTES as u64
    }
}

/// An open `/proc/PID/statm`: reading it again costs one system call.
#[derive(Debug)]
pub struct StatmFile(Fd);

impl StatmFile {
    /// Opens it for a process, or this one.
    pub fn open(process_id: Option<u32>) -> Result<StatmFile> {
        Fd::open(path(process_id, "statm").as_c_str(), abi::O_RDONLY, 0).map(StatmFile)
    }

    /// An open one.
    pub fn from_fd(file: Fd) -> StatmFile {
        StatmFile(file)
    }

    /// The open file.
    pub fn into_fd(self) -> Fd {
        self.0
    }

    /// The sizes now. ESRCH when the process is gone.
    pub fn read(&self) -> Result<Statm> {
        let mut buffer = [0u8; 128];
        let bytes = self.0.pread(&mut buffer, 0)?;
        parse_statm(&buffer[..bytes]).ok_or(Errno::ESRCH)
    }
}

/// Who lives of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadsLeft {
    /// Its first thread, or more than one other.
    Threads,
    /// A single thread, and the first one has ended.
    OneBesideTheFirst {
        /// Wait status of the first one.
        status_of_first: u32,
    },
}

/// An open `/proc/self/stat`.
#[derive(Debug)]
pub struct StatFile(Fd);

impl StatFile {
    /// Opens that of the calling process.
    pub fn open_own() -> Result<StatFile> {
        Fd::open(path(None, "stat").as_c_str(), abi::O_RDONLY, 0).map(StatFile)
    }

    /// An open one.
    pub fn from_fd(file: Fd) -> StatFile {
        StatFile(file)
    }

    /// The open file.
    pub fn into_fd(self) -> Fd {
        self.0
    }

    /// Who lives of it now. A thread that is just ending counts for a moment longer.
    pub fn threads_left(&self) -> Result<ThreadsLeft> {
        let mut buffer = [0u8; 1024];
        let bytes = self.0.pread(&mut buffer, 0)?;
        parse_lives_on(&buffer[..bytes]).ok_or(Errno::ESRCH)
    }
}

fn parse_lives_on(text: &[u8]) -> Option<ThreadsLeft> {
    let mut fields = stat_fields(text)?;
    let is_first_gone = matches!(fields.next()?, b"Z" | b"X");
    // Fields 20 and 52 of the file; state is field 3. The first thread is counted until its process has ended.
    let (threads, _) = take_number(fields.nth(16)?, 10)?;
    let (status, _) = take_number(fields.nth(31)?.trim_ascii_end(), 10)?;
    Some(match (is_first_gone, threads) {
        (true, ..=2) => ThreadsLeft::OneBesideTheFirst { status_of_first: status as u32 },
        _ => ThreadsLeft::Threads,
    })
}

fn parse_statm(text: &[u8]) -> Option<Statm> {
    let (total_pages, rest) = take_number(text, 10)?;
    let (resident_pages, rest) = take_number(skip_spaces(rest), 10)?;
    let (shared_pages, rest) = take_number(skip_spaces(rest), 10)?;
    let (_text, rest) = take_number(skip_spaces(rest), 10)?;
    let (_always_zero, rest) = take_number(skip_spaces(rest), 10)?;
    let (data_pages, _) = take_number(skip_spaces(rest), 10)?;
    Some(Statm { total_pages, resident_pages, shared_pages, data_pages })
}

/// Threads of this process: what the links of its directory of tasks say (two more), or their names where a `/proc`
/// counts otherwise.
pub fn count_threads() -> Result<u32> {
    let directory = Fd::open(c"/proc/self/task", abi::O_PATH | abi::O_DIRECTORY, 0)?;
    if let Some(count @ 1..) = directory.status()?.link_count.checked_sub(2) {
        return Ok(count as u32);
    }
    let mut count = 0;
    for_each_thread(None, |_| count += 1)?;
    Ok(count)
}

/// Calls `visit` with the id of each thread of a process (`None`: the calling one). Threads that come meanwhile may be
/// missed.
pub fn for_each_thread(process_id: Option<u32>, mut visit: impl FnMut(u32)) -> Result<()> {
    let directory = Fd::open(path(process_id, "task").as_c_str(), abi::O_RDONLY | abi::O_DIRECTORY, 0)?;
    for_each_number(&directory, |thread_id| visit(thread_id as u32))
}

/// Calls `visit` with what is open in this process: the number of the descriptor, and what `/proc` calls it, cut after
/// 64 bytes: the path of a file, or such as `anon_inode:[eventpoll]`.
pub fn for_each_open_file(mut visit: impl FnMut(i32, &[u8])) -> Result<()> {
    let directory = Fd::open(c"/proc/self/fd", abi::O_RDONLY | abi::O_DIRECTORY | abi::O_CLOEXEC, 0)?;
    for_each_number(&directory, |number| {
        let path = TextBuffer::<64>::format(format_args!("/proc/self/fd/{number}"));
        let mut target = [0u8; 64];
        if number as i32 != directory.raw()
            && let Ok(bytes) = read_link(path.as_c_str(), &mut target)
        {
            visit(number as i32, &target[..bytes]);
        }
    })
}

/// Where a symbolic link leads; how many bytes of it fit.
fn read_link(path: &CStr, target: &mut [u8]) -> Result<usize> {
    // SAFETY:
    // 1. The name ends with a zero byte and lives through the call.
    // 2. The kernel writes at most the size of the exclusive buffer.
    unsafe {
        sys::syscall4(
            abi::__NR_readlinkat,
            abi::AT_FDCWD as usize,
            path.as_ptr() as usize,
            target.as_mut_ptr() as usize,
            target.len(),
        )
    }
}

/// Calls `visit` with each name in a directory that is a number.
fn for_each_number(directory: &Fd, mut visit: impl FnMut(u64)) -> Result<()> {
    let mut buffer = [0u8; 2048];
    loop {
        // SAFETY:
        // 1. The kernel writes at most the size of the exclusive buffer.
        let bytes = unsafe {
            sys::syscall3(
                abi::__NR_getdents64,
                directory.raw() as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
            )
        }?;
        if bytes == 0 {
            return Ok(());
        }
        // An entry: inode 8 bytes, offset 8, length of the entry 2, type 1, name with a zero byte.
        let mut rest = &buffer[..bytes];
        while rest.len() > 19 {
            let length = u16::from_ne_bytes([rest[16], rest[17]]) as usize;
            if length <= 19 || length > rest.len() {
                break;
            }
            if let Some((number, _)) = take_number(&rest[19..length], 10) {
                visit(number);
            }
            rest = &rest[length..];
        }
    }
}

/// Address of a thread's list of robust futexes, which lies in its thread-local storage; 0 when it has none.
///
/// A range that contains one must not be registered carelessly: the kernel walks it when the thread exits.
pub fn robust_list(thread_id: u32) -> Result<usize> {
    let (mut head, mut bytes) = (0usize, 0usize);
    // SAFETY:
    // 1. The kernel writes one pointer and one size into live words.
    unsafe {
        sys::syscall3(
            abi::__NR_get_robust_list,
            thread_id as usize,
            &raw mut head as usize,
            &raw mut bytes as usize,
        )
    }?;
    Ok(head)
}

/// Whether two processes have one address space, as after vfork. ENOSYS where the kernel does not compare, EPERM for
/// processes of others.
pub fn have_same_memory(one: u32, other: u32) -> Result<bool> {
    const KCMP_VM: usize = 1;
    let (one, other) = (one as usize, other as usize);
    // SAFETY:
    // 1. All arguments are numbers; the last two mean nothing for this kind.
    unsafe { sys::syscall4(abi::__NR_kcmp, one, other, KCMP_VM, 0) }.map(|order| order == 0)
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `T`, `t`, `Z`, `X`.
    pub state: u8,
    /// Its parent.
    pub parent: u32,
    /// When it started, in clock ticks since boot: with the id, a name that is not used twice.
    pub start_ticks: u64,
    /// The CPU that its first thread ran on last.
    pub processor: u32,
}

/// Reads the state of a process; ENOENT or ESRCH when there is none.
pub fn stat(process_id: u32) -> Result<Stat> {
    let mut buffer = [0u8; 1024];
    let text = read_file(path(Some(process_id), "stat").as_c_str(), &mut buffer)?;
    parse_stat(text).ok_or(Errno::ESRCH)
}

/// The fields of `pid (name) state parent ...` from `state` on. The name may contain anything, so they count from the
/// last parenthesis.
fn stat_fields(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    Some(text.get(end + 1..)?.split(|byte| *byte == b' ').filter(|field| !field.is_empty()))
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    let mut fields = stat_fields(text)?;
    let state = *fields.next()?.first()?;
    let (parent, _) = take_number(fields.next()?, 10)?;
    // Fields 22 and 39 of the file; state is field 3, parent field 4.
    let (start_ticks, _) = take_number(fields.nth(17)?, 10)?;
    let (processor, _) = take_number(fields.nth(16)?, 10)?;
    Some(Stat { state, parent: parent as u32, start_ticks, processor: processor as u32 })
}

/// Calls `visit` with each child of each thread of a process.
pub fn for_each_child(process_id: u32, mut visit: impl FnMut(u32)) -> Result<()> {
    let mut answer = Ok(());
    for_each_thread(Some(process_id), |thread_id| {
        let path = TextBuffer::<64>::format(format_args!("/proc/{process_id}/task/{thread_id}/children"));
        if let Err(error) = read_numbers(&path, &mut visit) {
            // A thread that ended meanwhile has given its children to another.
            if !matches!(error, Errno::ENOENT | Errno::ESRCH) {
                answer = Err(error);
            }
        }
    })?;
    answer
}

/// Numbers divided by spaces, through a small buffer: the part of a number at its end is kept for the next read.
fn read_numbers(path: &TextBuffer<64>, visit: &mut impl FnMut(u32)) -> Result<()> {
    let file = Fd::open(path.as_c_str(), abi::O_RDONLY, 0)?;
    let mut buffer = [0u8; 512];
    let mut value: Option<u32> = None;
    loop {
        let bytes = match file.read(&mut buffer) {
            Ok(bytes) => bytes,
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error),
        };
        for byte in &buffer[..bytes] {
            if byte.is_ascii_digit() {
                value = Some(value.unwrap_or(0).wrapping_mul(10).wrapping_add((byte - b'0') as u32));
            } else if let Some(number) = value.take() {
                visit(number);
            }
        }
        if bytes == 0 {
            if let Some(number) = value {
                visit(number);
            }
            return Ok(());
        }
    }
}

/// Reads memory of another process, whose maps may change meanwhile; how many bytes. What is mapped and was never
/// touched reads as zeros, and has a page of zeros afterwards.
pub fn read_memory(process_id: u32, address: u64, buffer: &mut [u8]) -> Result<usize> {
    let local = [buffer.as_mut_ptr() as usize, buffer.len()];
    let remote = [address as usize, buffer.len()];
    // SAFETY:
    // 1. Each list has one element, an address and a size, and lives through the call.
    // 2. The kernel writes at most the size of the exclusive buffer.
    unsafe {
        sys::syscall6(
            abi::__NR_process_vm_readv,
            process_id as usize,
            local.as_ptr() as usize,
            1,
            remote.as_ptr() as usize,
            1,
            0,
        )
    }
}

/// The short name of a process.
pub fn command_name(process_id: u32) -> Result<TextBuffer<20>> {
    command_name_at(&path(Some(process_id), "comm"))
}

fn command_name_at(path: &TextBuffer<64>) -> Result<TextBuffer<20>> {
    let mut buffer = [0u8; 20];
    let text = read_file(path.as_c_str(), &mut buffer)?;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    Ok(TextBuffer::format(format_args!("{text}")))
}

/// The short name of the calling process: of its first thread.
pub fn own_command_name() -> Result<TextBuffer<20>> {
    command_name_at(&path(None, "comm"))
}

/// Whether there is a process with this id, a zombie too. The id may be one that `/proc` shows, of another pid
/// namespace.
pub fn is_alive(process_id: u32) -> bool {
    !matches!(kill(process_id, 0), Err(Errno::ESRCH))
        || Fd::open(path(Some(process_id), "stat").as_c_str(), abi::O_RDONLY, 0).is_ok()
}

/// Sends a signal to a process; 0 only asks whether it could be sent.
pub fn kill(process_id: u32, signal: u32) -> Result<()> {
    sys::plain(abi::__NR_kill, process_id as usize, signal as usize, 0).map(drop)
}

/// Id of the calling process.
pub fn process_id() -> u32 {
    sys::plain(abi::__NR_getpid, 0, 0, 0).unwrap_or(0) as u32
}

/// The kernel's id of the parent; 0 if that is in another pid namespace.
pub fn parent_id() -> u32 {
    sys::plain(abi::__NR_getppid, 0, 0, 0).unwrap_or(0) as u32
}

/// A process and one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// Of the process.
    pub process: u32,
    /// Of the thread.
    pub thread: u32,
}

/// The calling thread as those know it who mounted `/proc`: in another pid namespace than theirs it has other ids for
/// itself. Its own ids where there is no `/proc`.
pub fn ids_in_proc() -> Ids {
    let mut target = [0u8; 48];
    let bytes = read_link(c"/proc/thread-self", &mut target);
    let shown = bytes.ok().and_then(|bytes| parse_ids(&target[..bytes]));
    shown.unwrap_or_else(|| Ids { process: process_id(), thread: crate::thread::thread_id() })
}

/// Of `1234/task/1240`.
fn parse_ids(text: &[u8]) -> Option<Ids> {
    let (process, rest) = take_number(text, 10)?;
    let (thread, rest) = take_number(rest.strip_prefix(b"/task/")?, 10)?;
    rest.is_empty().then_some(Ids { process: process as u32, thread: thread as u32 })
}

/// Ends the whole process as that signal does, whose default is to end it: no handler runs. For a thread that has
/// blocked all signals.
pub fn die_of(signal: u32) -> ! {
    // As the kernel has it: no handler, no flags, an empty mask.
    let default_action = [0usize; 4];
    let only_this = 1u64 << (signal - 1);
    // SAFETY:
    // 1. The kernel reads an action of 32 bytes, and sets the default one: nothing of the program is called.
    // 2. It reads a set of 8 bytes, the size that is given.
    unsafe {
        let action = default_action.as_ptr() as usize;
        let _kill_has_no_other =
            sys::syscall4(abi::__NR_rt_sigaction, signal as usize, action, 0, size_of::<u64>());
        let (how, set) = (abi::SIG_UNBLOCK as usize, &raw const only_this as usize);
        let _same_set = sys::syscall4(abi::__NR_rt_sigprocmask, how, set, 0, size_of::<u64>());
    }
    let _sent = crate::thread::send_signal(process_id(), crate::thread::thread_id(), signal);
    exit_process(128 + signal as u8)
}

/// Ends the whole process at once: no handler runs, no buffer is flushed.
pub fn exit_process(code: u8) -> ! {
    loop {
        let _ = sys::plain(abi::__NR_exit_group, code as usize, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU8, Ordering};

    #[test]
    fn the_data_of_the_program_are_counted() {
        static DATA: [AtomicU8; 3 << 20] = [const { AtomicU8::new(0) }; 3 << 20];
        core::hint::black_box(&DATA)[7].store(1, Ordering::Relaxed);
        let bytes = data_bytes_of_program().expect("the kernel tells where the program headers are");
        assert!((3 << 20..8 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_is_open_is_told_by_name() {
        let file = Fd::open(c"/dev/null", abi::O_RDONLY | abi::O_CLOEXEC, 0).expect("it is there");
        let event = crate::fd::Event::new().expect("Linux 2.6");
        let (mut of_file, mut of_event) = (false, false);
        for_each_open_file(|number, name| {
            of_file |= number == file.raw() && name == b"/dev/null";
            of_event |= number == event.fd().raw() && name == b"anon_inode:[eventfd]";
        })
        .expect("the directory is there");
        assert!(of_file && of_event);
    }

    #[test]
    fn a_thread_has_its_own_ids_in_its_own_namespace() {
        let own = Ids { process: process_id(), thread: crate::thread::thread_id() };
        assert_eq!(ids_in_proc(), own);
        assert_eq!(parse_ids(b"1234/task/1240"), Some(Ids { process: 1234, thread: 1240 }));
        assert_eq!(parse_ids(b"1234/task/1240x"), None);
        assert_eq!(parse_ids(b"1234/1240"), None);
    }

    #[test]
    fn the_name_of_a_process_may_contain_anything() {
        let text = b"7 (a) b (c) R 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5521 \
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 17 61 0";
        assert_eq!(parse_stat(text), Some(Stat { state: b'R', parent: 3, start_ticks: 5521, processor: 61 }));
        assert_eq!(parse_stat(b"7 (a"), None);
    }

    #[test]
    fn it_is_seen_that_the_first_thread_has_ended_and_one_lives() {
        let text = |state: char, threads: u32, status: u32| {
            std::format!(
                "7 (a) b) {state} 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 5521 1 2 3 4 5 6 7 8 9 10 11 12 \
                 13 14 15 17 61 0 0 0 0 0 1 2 3 4 5 6 7 {status}\n"
            )
        };
        let parsed = |state, threads, status| parse_lives_on(text(state, threads, status).as_bytes());
        assert_eq!(parsed('Z', 2, 31), Some(ThreadsLeft::OneBesideTheFirst { status_of_first: 31 }));
        assert_eq!(parsed('Z', 3, 31), Some(ThreadsLeft::Threads));
        assert_eq!(parsed('S', 2, 0), Some(ThreadsLeft::Threads));
        assert_eq!(StatFile::open_own().and_then(|file| file.threads_left()), Ok(ThreadsLeft::Threads));
    }
}
