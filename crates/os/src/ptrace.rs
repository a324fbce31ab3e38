//! Threads of another process, stopped and looked into (`ptrace`).
//!
//! A thread that is seized and interrupted stops at its way out of the kernel, wherever it was; a system call under way
//! ends or is to be restarted, as its registers say.
//!
//! Must hold: a thread is looked into and changed only while it stands still. When its tracer ends it goes on by
//! itself. Called by `interpose`, in the child that arms the threads of its parent, and by the supervisor, which lets a
//! process arm itself.

use linux_raw_sys::ptrace as abi_ptrace;

use crate::sys::prctl::PR_SET_PTRACER;
use crate::sys::{self, Errno, Result, abi};
use crate::{clock, process};

/// Between two looks whether a thread has stopped.
const LOOK_NS: u64 = 50_000;
const SIGNAL_SET_BYTES: usize = 8;

/// The kernel's `user_regs_struct`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the names of registers")]
pub struct Registers {
    pub r15: usize,
    pub r14: usize,
    pub r13: usize,
    pub r12: usize,
    pub rbp: usize,
    pub rbx: usize,
    pub r11: usize,
    pub r10: usize,
    pub r9: usize,
    pub r8: usize,
    /// The answer of a call, or the number of the one that is to be made.
    pub rax: usize,
    pub rcx: usize,
    pub rdx: usize,
    pub rsi: usize,
    pub rdi: usize,
    /// The number of the call under way; all ones: there is none.
    pub orig_rax: usize,
    pub rip: usize,
    pub cs: usize,
    pub eflags: usize,
    pub rsp: usize,
    pub ss: usize,
    pub fs_base: usize,
    pub gs_base: usize,
    pub ds: usize,
    pub es: usize,
    pub fs: usize,
    pub gs: usize,
}

const _: () = assert!(size_of::<Registers>() == 27 * 8);

/// Why a thread stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It was interrupted, or has made the one step that it was to make.
    Trap,
    /// This signal is about to be delivered to it.
    Signal(u32),
    /// It stands still with its process (SIGSTOP).
    Group,
    /// It has ended.
    Gone,
}

/// A thread that the caller traces.
#[derive(Debug)]
pub struct Tracee {
    thread_id: u32,
}

fn ptrace(request: u32, thread_id: u32, address: usize, data: usize) -> Result<usize> {
    // SAFETY:
    // 1. Who calls this gives addresses of its own live variables, where the request takes any.
    unsafe { sys::syscall4(abi::__NR_ptrace, request as usize, thread_id as usize, address, data) }
}

impl Tracee {
    /// Traces a thread, and asks it to stop. EPERM: it is traced already, or the caller may not (Yama, seccomp).
    pub fn seize(thread_id: u32) -> Result<Tracee> {
        ptrace(abi_ptrace::PTRACE_SEIZE, thread_id, 0, 0)?;
        let tracee = Tracee { thread_id };
        tracee.interrupt()?;
        Ok(tracee)
    }

    /// One that was seized before.
    pub fn of_seized(thread_id: u32) -> Tracee {
        Tracee { thread_id }
    }

    /// Asks it to stop.
    pub fn interrupt(&self) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_INTERRUPT, self.thread_id, 0, 0).map(drop)
    }

    /// Waits until it stands still. None: not until `deadline_ns`.
    pub fn wait(&self, deadline_ns: u64) -> Option<Stop> {
        loop {
            if let Some(stop) = self.look(abi::WNOHANG) {
                return Some(stop);
            }
            if clock::now_ns() >= deadline_ns {
                return None;
            }
            clock::sleep_ns(LOOK_NS);
        }
    }

    /// Waits until it stands still, however long it takes.
    pub fn wait_stopped(&self) -> Stop {
        loop {
            if let Some(stop) = self.look(0) {
                return stop;
            }
        }
    }

    /// As [`wait`](Tracee::wait), by what `/proc` and the kernel say of the thread: where another thread of the tracer
    /// waits for the same child, that may be told of the stop.
    pub fn wait_seen(&self, deadline_ns: u64) -> Option<Stop> {
        loop {
            match process::stat(self.thread_id) {
                Ok(stat) if stat.state == b't' => return Some(self.kind_of_stop().unwrap_or(Stop::Gone)),
                Ok(stat) if !matches!(stat.state, b'Z' | b'X') => (),
                _ => return Some(Stop::Gone),
            }
            if clock::now_ns() >= deadline_ns {
                return None;
            }
            clock::sleep_ns(LOOK_NS);
        }
    }

    fn kind_of_stop(&self) -> Result<Stop> {
        const BY_EVENT: i32 = (abi::SIGTRAP | abi_ptrace::PTRACE_EVENT_STOP << 8) as i32;
        // `siginfo_t`: number, error, code.
        let mut words = [0i32; 32];
        ptrace(abi_ptrace::PTRACE_GETSIGINFO, self.thread_id, 0, words.as_mut_ptr() as usize)?;
        let [signal, _, code, ..] = core::hint::black_box(words);
        Ok(match code {
            BY_EVENT if signal == abi::SIGTRAP as i32 => Stop::Trap,
            BY_EVENT => Stop::Group,
            _ => Stop::Signal(signal as u32),
        })
    }

    fn look(&self, flags: u32) -> Option<Stop> {
        let mut status = 0u32;
        // SAFETY:
        // 1. The kernel writes one word, to `status`.
        let waited = unsafe {
            let at = &raw mut status as usize;
            sys::syscall4(abi::__NR_wait4, self.thread_id as usize, at, (flags | abi::__WALL) as usize, 0)
        };
        match waited {
            Ok(0) | Err(Errno::EINTR) => None,
            Ok(_) => Some(stop_of(core::hint::black_box(status))),
            Err(_) => Some(Stop::Gone),
        }
    }

    /// Its registers.
    pub fn registers(&self) -> Result<Registers> {
        let mut registers = Registers::default();
        ptrace(abi_ptrace::PTRACE_GETREGS, self.thread_id, 0, &raw mut registers as usize)?;
        Ok(core::hint::black_box(registers))
    }

    /// Sets them.
    pub fn set_registers(&self, registers: &Registers) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_SETREGS, self.thread_id, 0, registers as *const Registers as usize)
            .map(drop)
    }

    /// A word of its memory.
    pub fn word(&self, address: usize) -> Result<usize> {
        let mut word = 0usize;
        ptrace(abi_ptrace::PTRACE_PEEKDATA, self.thread_id, address, &raw mut word as usize)?;
        Ok(core::hint::black_box(word))
    }

    /// Writes a word of its memory.
    pub fn set_word(&self, address: usize, word: usize) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_POKEDATA, self.thread_id, address, word).map(drop)
    }

    /// The signals that it has blocked; bit `n - 1` is signal `n`.
    pub fn signal_mask(&self) -> Result<u64> {
        let mut mask = 0u64;
        ptrace(abi_ptrace::PTRACE_GETSIGMASK, self.thread_id, SIGNAL_SET_BYTES, &raw mut mask as usize)?;
        Ok(core::hint::black_box(mask))
    }

    /// Sets them.
    pub fn set_signal_mask(&self, mask: u64) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_SETSIGMASK, self.thread_id, SIGNAL_SET_BYTES, &raw const mask as usize)
            .map(drop)
    }

    /// The area of restartable sequences that it has told the kernel; 0: none, or Linux before 5.13.
    pub fn rseq_area(&self) -> usize {
        let mut area = [0u64; 4];
        let bytes = size_of_val(&area);
        let told = ptrace(
            abi_ptrace::PTRACE_GET_RSEQ_CONFIGURATION,
            self.thread_id,
            bytes,
            area.as_mut_ptr() as usize,
        );
        if told.is_ok() { core::hint::black_box(area)[0] as usize } else { 0 }
    }

    /// Lets it go on, with this signal if it is not 0.
    pub fn go_on(&self, signal: u32) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_CONT, self.thread_id, 0, signal as usize).map(drop)
    }

    /// Lets it run one instruction; it stands still again behind it.
    pub fn step(&self) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_SINGLESTEP, self.thread_id, 0, 0).map(drop)
    }

    /// Lets it go for good.
    pub fn detach(self) -> Result<()> {
        ptrace(abi_ptrace::PTRACE_DETACH, self.thread_id, 0, 0).map(drop)
    }
}

/// What a status of `wait4` says of a thread.
fn stop_of(status: u32) -> Stop {
    const STOPPED: u32 = 0x7F;
    if status & 0xFF != STOPPED {
        return Stop::Gone;
    }
    let (signal, event) = (status >> 8 & 0xFF, status >> 16);
    match (event, signal) {
        (abi_ptrace::PTRACE_EVENT_STOP, abi::SIGTRAP) | (0, abi::SIGTRAP) => Stop::Trap,
        (abi_ptrace::PTRACE_EVENT_STOP, _) => Stop::Group,
        (_, signal) => Stop::Signal(signal),
    }
}

/// Lets `tracer` trace this process, where Yama asks for that; 0: nobody but its ancestors.
pub fn allow_tracer(tracer: u32) {
    let _there_may_be_no_yama = sys::plain(abi::__NR_prctl, PR_SET_PTRACER as usize, tracer as usize, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_apart() {
        assert_eq!(stop_of(0x0080_057F), Stop::Trap);
        assert_eq!(stop_of(0x057F), Stop::Trap);
        assert_eq!(stop_of(0x0080_137F), Stop::Group);
        assert_eq!(stop_of(0x0A7F), Stop::Signal(10));
        assert_eq!(stop_of(0), Stop::Gone);
        assert_eq!(stop_of(9), Stop::Gone);
    }
}
