//! One system call as the user of this crate sees it, and the trait that the user implements.
//!
//! `Call` and `Context` lie on the stack of the thread that makes the call. Called by [`mod@crate::entry`] and
//! [`crate::serve`], which are generic over the trait, so that the hot path has one indirect call and no table of
//! functions; `host` implements it, and `fuzz` makes calls.
//!
//! Must hold: `Call` and `Context` are those of one call of one thread, and end with it: nobody keeps a reference to
//! them.

use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::sys::Errno;

use crate::thread::Slot;

/// A system call: its number and its six registers, used or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// The number, as in `rax`.
    pub number: usize,
    /// `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
    pub arguments: [usize; 6],
}

/// By which way a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Its instruction has been replaced by a jump.
    Patched,
    /// The kernel sent SIGSYS.
    Dispatched,
}

/// Where a call came from.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    pub(crate) stack_pointer: usize,
    pub(crate) instruction_pointer: usize,
    pub(crate) is_dispatched: usize,
}

impl Context {
    /// The program's stack pointer at the call. The 128 bytes below it are the program's too.
    #[inline]
    pub fn stack_pointer(&self) -> usize {
        self.stack_pointer
    }

    /// Where the program goes on: the address behind its `syscall` instruction.
    #[inline]
    pub fn instruction_pointer(&self) -> usize {
        self.instruction_pointer
    }

    /// By which way the call came.
    #[inline]
    pub fn origin(&self) -> Origin {
        if self.is_dispatched != 0 { Origin::Dispatched } else { Origin::Patched }
    }

    /// What is kept for the thread that makes the call.
    ///
    /// A child that shares the memory of its parent (vfork, posix_spawn) uses its parent's slot: the
    /// parent sleeps until the child has left the memory.
    #[inline]
    pub fn slot(&self) -> &'static Slot {
        crate::thread::current()
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// The kernel gets it as the program made it, and nobody asks for the answer. The fastest: changes of the
    /// call are not looked at.
    Pass,
    /// The kernel gets it as it now stands; its answer goes through [`Interposer::after`].
    PassThenAfter,
    /// The kernel does not get it: this is the answer, a negated error number included.
    Answer(isize),
}

/// What becomes of a signal that the kernel sent because of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The access may be repeated.
    Handled,
    /// The program gets the signal.
    NotOurs,
}

/// A child process that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewProcess {
    /// It has a copy of the memory, and one thread: this one. Everything else of its parent is gone.
    Copied,
    /// It shares the memory, until it calls exec or exits (vfork, posix_spawn). Statics are its parent's.
    SharesMemory,
}

/// What stands between a program and the kernel.
///
/// All of it runs on the stack of the program except for [`fault`](Interposer::fault). The code may use the sixteen
/// `xmm` registers, as all Rust code compiled for plain x86-64 does: they are saved. It may not use wider ones (AVX),
/// nor the x87 registers, outside of [`with_vectors`](crate::with_vectors).
///
/// A signal handler of the program may interrupt any of it, make calls itself, and leave by a jump
/// (`siglongjmp`): then what was begun for the call below never ends. Who keeps something for a call
/// keeps the stack pointer with it; what was kept at or below the stack pointer of a later call of the
/// same thread is abandoned. On alternate stacks that comparison holds within one stack only.
pub trait Interposer: Sync + 'static {
    /// A thread is about to make a call. The call may be changed.
    ///
    /// It sees calls as the program made them; what this crate does to keep its signals happens later.
    fn before(&self, call: &mut Call, context: &Context) -> Before;

    /// The kernel has answered; what the program gets is what this gives back.
    ///
    /// `call` is as `before` left it. Not called for a call that never comes back: `exit`, an `execve`
    /// that succeeds, `rt_sigreturn`. For a fork it is called in the parent.
    fn after(&self, call: &Call, answer: isize, context: &Context) -> isize {
        let _ = (call, context);
        answer
    }

    /// A new thread begins: its slot is made, it is armed, no code of the program has run in it.
    ///
    /// `context` tells where the program's code will start. All signals are blocked.
    fn thread_begins(&self, context: &Context) {
        let _ = context;
    }

    /// This thread has called `exit`; signals are blocked. Its slot is given to somebody else after this.
    fn thread_ends(&self, context: &Context) {
        let _ = context;
    }

    /// A child with a copy of the memory is about to be made by this thread. All signals are blocked until
    /// [`copy_ends`](Interposer::copy_ends), in the parent, or the end of `process_begins`, in the child. An error
    /// is the answer to the call.
    fn copy_begins(&self, context: &Context) -> Result<(), Errno> {
        let _ = context;
        Ok(())
    }

    /// In the parent: the child has been made, or could not be; `answer` is the kernel's.
    fn copy_ends(&self, answer: isize, context: &Context) {
        let _ = (answer, context);
    }

    /// A child process begins: it is armed, no code of the program has run in it.
    fn process_begins(&self, kind: NewProcess, context: &Context) {
        let _ = (kind, context);
    }

    /// A signal of `Options::faults`, or SIGSEGV, came from an access of this thread. Runs on the alternate stack
    /// of the thread, 64 KiB; `info` is the kernel's `siginfo_t`, `context` its `ucontext_t`.
    ///
    /// All vector registers are saved here already (the kernel's frame has them).
    fn fault(&self, signal: u32, info: *const c_void, context: *mut c_void) -> Fault {
        let _ = (signal, info, context);
        Fault::NotOurs
    }
}

/// Address of the interposer; its type is that of the hooks.
static INTERPOSER: AtomicUsize = AtomicUsize::new(0);

/// Makes it the interposer, before the hooks are known.
pub(crate) fn set_interposer<I: Interposer>(interposer: &'static I) {
    // It has no Acquire to pair with, and needs none: who loads it has come by a hook, and a call of the kernel, or the
    // text that was patched, has made that known behind this.
    INTERPOSER.store(interposer as *const I as usize, Ordering::Release);
}

#[inline]
pub(crate) fn interposer<I: Interposer>() -> &'static I {
    // SAFETY:
    // 1. `set_interposer` has stored a `&'static I` before the hooks were made known, and only hooks of the same `I`
    //    call this.
    unsafe { &*(INTERPOSER.load(Ordering::Relaxed) as *const I) }
}
