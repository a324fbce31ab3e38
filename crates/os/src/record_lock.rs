//! Locks of single bytes of a file (record locks of `fcntl`), by which a process shows that it lives.
//!
//! The kernel takes such a lock away when the descriptor table that it was made through is gone: at the end of the
//! process, however it comes, and at exec, if the table is that of threads alone which exec ends. And it names the
//! process that has the lock, in the pid namespace of who asks: a process cannot be taken for another, and needs no
//! `/proc`.
//!
//! What must hold for the callers: a descriptor table in which such a lock was made closes no other descriptor of the
//! same file, since that takes the lock away too. All threads of one table are one holder: they do not exclude each
//! other.
//!
//! Called by `host` in the thread that evicts, which has a descriptor table of its own, and by the supervisor.

use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};

const SEEK_SET: i16 = 0;

fn of_byte(kind: u32, byte: u64) -> abi::flock {
    abi::flock { l_type: kind as i16, l_whence: SEEK_SET, l_start: byte as i64, l_len: 1, l_pid: 0 }
}

fn call(file: &Fd, command: u32, lock: &mut abi::flock) -> Result<()> {
    // SAFETY:
    // 1. The kernel reads one `struct flock`, and for F_GETLK writes it; it is ours alone.
    unsafe { sys::syscall3(abi::__NR_fcntl, file.raw() as usize, command as usize, &raw mut *lock as usize) }
        .map(drop)
}

/// Takes the lock of a byte, which may lie beyond the end of the file. False: another has it.
pub fn try_lock(file: &Fd, byte: u64) -> Result<bool> {
    match call(file, abi::F_SETLK, &mut of_byte(abi::F_WRLCK, byte)) {
        Ok(()) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Takes the lock of a byte, and waits while another has it.
pub fn lock(file: &Fd, byte: u64) -> Result<()> {
    loop {
        match call(file, abi::F_SETLKW, &mut of_byte(abi::F_WRLCK, byte)) {
            Err(Errno::EINTR) => (),
            answer => return answer,
        }
    }
}

/// Gives up the lock of a byte.
pub fn unlock(file: &Fd, byte: u64) -> Result<()> {
    call(file, abi::F_SETLK, &mut of_byte(abi::F_UNLCK, byte))
}

/// The process that has the lock of a byte; 0 where it has no name in this pid namespace. None: nobody has it, or the
/// caller itself.
pub fn holder(file: &Fd, byte: u64) -> Result<Option<u32>> {
    let mut lock = of_byte(abi::F_WRLCK, byte);
    call(file, abi::F_GETLK, &mut lock)?;
    Ok((lock.l_type != abi::F_UNLCK as i16).then_some(lock.l_pid.max(0) as u32))
}
