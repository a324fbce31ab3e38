//! A program that is started apart from this process: its parent is init, it has a session of its own, and this
//! process hears nothing of its end, nor of that of whoever has started it. So a library may start it in any program.
//!
//! ```text
//!   caller ──clone──> launcher ──clone, vfork──> child ──execve──> the program
//!          waits      waits for execve, ends               its parent has ended
//! ```
//!
//! Launcher and child share the memory of the caller, which is not copied. What must hold in both: all signals are
//! blocked until no handler of the caller is left; no libc, no lock, no allocation.
//!
//! Called by `uswap`, to start a supervisor beside a program.

use core::ffi::{CStr, c_char};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::fd::{Fd, Timeout};
use crate::sys::{self, Errno, Result, abi};
use crate::thread::{StackArea, reap, signal_mask, spawn_as};

static LAUNCHER: StackArea = StackArea::new(16 * 1024);
static CHILD: StackArea = StackArea::new(16 * 1024);

const SIGNALS: u32 = 64;
/// Of the kernel's `sigaction`: handler, flags, restorer, mask.
const DEFAULT_ACTION: [usize; 4] = [0; 4];

/// An element of the lists that `execve` takes.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Word<'a>(*const c_char, PhantomData<&'a CStr>);

impl Word<'_> {
    /// What ends a list.
    pub const END: Word<'static> = Word(core::ptr::null(), PhantomData);
}

impl<'a> From<&'a CStr> for Word<'a> {
    fn from(text: &'a CStr) -> Word<'a> {
        Word(text.as_ptr(), PhantomData)
    }
}

/// What is to be started.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file.
    pub path: &'a CStr,
    /// Its name and its arguments, ended by [`Word::END`].
    pub arguments: &'a [Word<'a>],
    /// Its environment, ended by [`Word::END`].
    pub environment: &'a [Word<'a>],
    /// Its standard input. Standard error is that of the caller; nothing else is open in it.
    pub input: &'a Fd,
    /// Its standard output.
    pub output: &'a Fd,
}

struct Launch<'a> {
    program: &'a Program<'a>,
    /// Of what failed; 0: it was started.
    errno: AtomicU32,
}

/// Starts a program; what `execve` says if it cannot be. EBUSY: another thread is at it. EINVAL: a list has no end.
pub fn spawn_detached(program: &Program<'_>) -> Result<()> {
    let is_ended = |list: &[Word<'_>]| list.last().is_some_and(|word| word.0.is_null());
    if !is_ended(program.arguments) || !is_ended(program.environment) {
        return Err(Errno::EINVAL);
    }
    let launch = Launch { program, errno: AtomicU32::new(0) };
    let launcher = spawn_as(&LAUNCHER, launch_child, &raw const launch as usize, abi::CLONE_UNTRACED)?;
    LAUNCHER.join(Timeout::Forever);
    reap(launcher);
    // Acquire pairs with the Release of `launch_child` and `execute`.
    match launch.errno.load(Ordering::Acquire) {
        0 => Ok(()),
        errno => Err(Errno::from_number(errno)),
    }
}

/// # Panics
/// Never: what it is given is what `spawn_detached` has given.
fn launch_at(argument: usize) -> &'static Launch<'static> {
    // SAFETY:
    // 1. `spawn_detached` waits for the launcher, and that for the child's `execve` or end: until then it is there.
    unsafe { &*(argument as *const Launch<'static>) }
}

extern "C" fn launch_child(argument: usize) {
    let flags = abi::CLONE_UNTRACED | abi::CLONE_VFORK;
    if let Err(errno) = spawn_as(&CHILD, execute, argument, flags) {
        // Release pairs with the Acquire of `spawn_detached`.
        launch_at(argument).errno.store(errno.number() as u32, Ordering::Release);
    }
}

extern "C" fn execute(argument: usize) {
    let launch = launch_at(argument);
    let Err(errno) = begin(launch.program);
    // Release pairs with the Acquire of `spawn_detached`.
    launch.errno.store(errno.number() as u32, Ordering::Release);
}

/// In the child: comes back only if it fails.
fn begin(program: &Program<'_>) -> Result<core::convert::Infallible> {
    sys::plain(abi::__NR_setsid, 0, 0, 0)?;
    // Beyond the standard streams first: one of the two may be among them.
    let input = program.input.duplicate(3)?;
    let output = program.output.duplicate(3)?;
    sys::plain(abi::__NR_dup3, input.raw() as usize, 0, 0)?;
    sys::plain(abi::__NR_dup3, output.raw() as usize, 1, 0)?;
    close_from(3);
    for signal in 1..=SIGNALS {
        // SAFETY:
        // 1. The kernel reads four words, and the mask in the last one is of the size that is given.
        let _not_of_kill_and_stop = unsafe {
            let action = DEFAULT_ACTION.as_ptr() as usize;
            sys::syscall4(abi::__NR_rt_sigaction, signal as usize, action, 0, 8)
        };
    }
    signal_mask(abi::SIG_SETMASK, 0)?;
    let Program { path, arguments, environment, .. } = program;
    // SAFETY:
    // 1. The path ends with a zero byte, and so do all texts of the two lists, which end with null (`spawn_detached`).
    // 2. All of it lives until the call has succeeded or come back.
    let started = unsafe {
        let (path, list) = (path.as_ptr() as usize, arguments.as_ptr() as usize);
        sys::syscall3(abi::__NR_execve, path, list, environment.as_ptr() as usize)
    };
    Err(started.err().unwrap_or(Errno::EIO))
}

/// Closes this number and all above it.
fn close_from(first: usize) {
    if sys::plain(abi::__NR_close_range, first, u32::MAX as usize, 0).is_err() {
        // Before Linux 5.9, or forbidden: up to a usual limit.
        for number in first..65_536 {
            let _is_none = sys::plain(abi::__NR_close, number, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::IntoRawFd as _;
    use std::string::String;

    /// What a shell of its own says.
    fn say(text: &CStr) -> Result<String> {
        let (mut from, to) = std::io::pipe().expect("a pipe");
        let null = std::fs::File::open("/dev/null").expect("it is there").into_raw_fd();
        let (input, output) = (Fd::from_raw(null), Fd::from_raw(to.into_raw_fd()));
        let arguments = [c"sh".into(), c"-c".into(), text.into(), Word::END];
        let environment = [c"GREETING=hello".into(), Word::END];
        let program = Program {
            path: c"/bin/sh",
            arguments: &arguments,
            environment: &environment,
            input: &input,
            output: &output,
        };
        spawn_detached(&program)?;
        drop(output);
        let mut said = String::new();
        from.read_to_string(&mut said).expect("the pipe is open");
        Ok(said)
    }

    /// One test: the places of launcher and child are the process's.
    #[test]
    fn a_detached_program_is_nobodys_child() {
        let said = say(c"echo $GREETING; cut -d' ' -f4,6 /proc/$$/stat; ls /proc/self/fd | tr '\\n' ' '");
        let said = said.expect("there is a shell");
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some("hello"));
        let ids: std::vec::Vec<u32> =
            lines.next().expect("two numbers").split(' ').map(|id| id.parse().expect("a number")).collect();
        let own = crate::process::process_id();
        let own_session = sys::plain(abi::__NR_getsid, 0, 0, 0).expect("it has one") as u32;
        assert!(ids[0] != own && ids[1] != own_session, "parent and session: {ids:?}");
        // Standard streams, and the directory that is listed.
        assert_eq!(lines.next().map(str::trim_end), Some("0 1 2 3"));

        let null = std::fs::File::open("/dev/null").expect("it is there").into_raw_fd();
        let null = Fd::from_raw(null);
        let end = [Word::END];
        let missing = Program {
            path: c"/no/such/file",
            arguments: &end,
            environment: &end,
            input: &null,
            output: &null,
        };
        assert_eq!(spawn_detached(&missing), Err(Errno::ENOENT));
        assert_eq!(spawn_detached(&Program { arguments: &[], ..missing }), Err(Errno::EINVAL));
    }
}
