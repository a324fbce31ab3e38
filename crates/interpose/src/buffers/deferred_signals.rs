//! Signals that arrive while the pages of a call are brought.
//!
//! Without eviction such a signal would find the thread in its call, and end a wait there with EINTR. So the signals
//! of the thread are blocked from the first page that is brought until all are there, and those that waited then are
//! due: their handlers run.
//!
//! Meanwhile the kernel gives a signal that is for the whole process to a thread that has not blocked it, if there is
//! one.
//!
//! Must hold: what was blocked here is open again behind [`DeferredSignals::end`], which says whether a handler of the
//! program ran. The signals that an access raises are never blocked, since bringing a page may raise them. Called by
//! [`crate::buffers::boundary`] and [`crate::buffers::holder`], where pages are brought.

use super::residency::Make;
use crate::Call;
use crate::kernel::cancels;
use linux_raw_sys::general::*;

/// Bytes of a set of signals.
const SET_BYTES: usize = 8;

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// An access of the thread raises them, and the walk over a call's structures is one that may.
const SYNCHRONOUS: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV) | bit(SIGSYS);

/// The signals of the thread while pages of one call are brought.
pub(super) struct DeferredSignals<'m, 'f> {
    make: &'m mut Make<'f>,
    /// What the program has blocked, since ours are.
    mask: Option<u64>,
}

impl<'m, 'f> DeferredSignals<'m, 'f> {
    #[inline]
    pub(super) fn new(make: &'m mut Make<'f>) -> DeferredSignals<'m, 'f> {
        DeferredSignals { make, mask: None }
    }

    /// From now on they wait.
    pub(super) fn block(&mut self) {
        if self.mask.is_none() {
            let (all, mut before) = (!SYNCHRONOUS, 0_u64);
            let arguments =
                [SIG_BLOCK as usize, &raw const all as usize, &raw mut before as usize, SET_BYTES, 0, 0];
            let answer = (self.make)(&Call { number: __NR_rt_sigprocmask as usize, arguments });
            self.mask = (answer == 0).then_some(before);
        }
    }

    /// Their handlers run.
    #[inline]
    pub(super) fn end(self) -> PendingHandlers {
        match self.mask {
            Some(mask) => release(self.make, mask),
            None => PendingHandlers::default(),
        }
    }
}

/// What arrived for which the program has a handler.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct PendingHandlers {
    /// A signal.
    pub(super) is_any: bool,
    /// A signal with a handler that is not to restart calls.
    pub(super) is_interrupting: bool,
}

impl PendingHandlers {
    pub(super) fn or(self, other: PendingHandlers) -> PendingHandlers {
        PendingHandlers {
            is_any: self.is_any | other.is_any,
            is_interrupting: self.is_interrupting | other.is_interrupting,
        }
    }
}

/// Lets the signals come that waited; who has a handler is asked before, as one that is called may be gone then.
#[cold]
fn release(make: &mut Make<'_>, mask: u64) -> PendingHandlers {
    let mut pending = 0_u64;
    let arguments = [&raw mut pending as usize, SET_BYTES, 0, 0, 0, 0];
    make(&Call { number: __NR_rt_sigpending as usize, arguments });
    let mut due = PendingHandlers::default();
    let come = core::hint::black_box(pending) & !mask & !SYNCHRONOUS;
    for signal in (1..=64).filter(|signal| come & bit(*signal) != 0) {
        let mut action = [0_u64; 4];
        let arguments = [signal as usize, 0, action.as_mut_ptr() as usize, SET_BYTES, 0, 0];
        let answer = make(&Call { number: __NR_rt_sigaction as usize, arguments });
        let [handler, flags, ..] = core::hint::black_box(action);
        // 0 and 1: the default, and ignored.
        let has_handler = answer == 0 && handler > 1;
        due.is_any |= has_handler;
        let restarts = flags as u32 & SA_RESTART != 0 && !cancels(signal);
        due.is_interrupting |= has_handler && !restarts;
    }
    let arguments = [SIG_SETMASK as usize, &raw const mask as usize, 0, SET_BYTES, 0, 0];
    make(&Call { number: __NR_rt_sigprocmask as usize, arguments });
    due
}
