//! What the program has locked in RAM.
//!
//! Must hold: while something is locked, [`Locks::has_any`] is true, from before the kernel was told on: who makes
//! words active with the gate exclusive asks then, and leaves those of locked mappings as they are. So no page of a
//! locked mapping is evicted.
//!
//! Called by [`crate::process`], which holds them, by [`crate::lock_calls`], by [`crate::attach`] and [`crate::fork`]
//! where a process begins, and by [`crate::managed_ranges`] and [`crate::background`], which only ask.
//!
//! Memory order: the word stands for itself; what it is about is the kernel's, and nothing else is read by it. The
//! Acquire of who looks pairs with the Release of who changes it, which is no more than that. That whoever locks and
//! whoever makes words active do not miss each other comes from the calls between their steps: `note` is ahead of the
//! call that locks, and the phase is looked at again behind it; `activate` asks behind the heavy fence of `membarrier`.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uswap_os::mlock::{FUTURE, ON_FAULT, Presence};

/// In the state beside FUTURE and ON_FAULT, which are about future mappings: something is, or may be, locked.
const ANY: u32 = 1 << 8;
/// And something was locked with MLOCK_ONFAULT: it is not filled when it grows.
const ANY_ON_FAULT: u32 = 1 << 9;

/// What a process has locked.
pub(crate) struct Locks {
    state: AtomicU32,
    /// The most that was locked so far.
    most_bytes: AtomicU64,
}

impl Locks {
    pub(crate) const fn new() -> Locks {
        Locks { state: AtomicU32::new(0), most_bytes: AtomicU64::new(0) }
    }

    /// Whether something may be locked.
    pub(crate) fn has_any(&self) -> bool {
        self.state.load(Ordering::Acquire) & ANY != 0
    }

    /// How new mappings are locked, if they are.
    pub(crate) fn future(&self) -> Option<Presence> {
        let state = self.state.load(Ordering::Acquire);
        (state & FUTURE != 0).then_some(match state & ON_FAULT {
            0 => Presence::Now,
            _ => Presence::OnFault,
        })
    }

    pub(crate) fn note(&self, presence: Presence) {
        let on_fault = if presence == Presence::OnFault { ANY_ON_FAULT } else { 0 };
        self.state.fetch_or(ANY | on_fault, Ordering::AcqRel);
    }

    /// In a forked child, which inherits no locks; whether its parent may have had some.
    pub(crate) fn reset(&self) -> bool {
        self.most_bytes.store(0, Ordering::Relaxed);
        self.state.swap(0, Ordering::AcqRel) & ANY != 0
    }

    /// `mlockall`: how mappings that are made from now on are locked, by its flags.
    pub(crate) fn set_future(&self, flags: u32) {
        let of_future = match flags & (FUTURE | ON_FAULT) {
            FUTURE => FUTURE | ANY,
            both if both & FUTURE != 0 => both | ANY | ANY_ON_FAULT,
            _ => 0,
        };
        let changed = |state| Some(state & !(FUTURE | ON_FAULT) | of_future);
        let _always = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, changed);
    }

    /// `munlockall`: nothing is locked, now or when it is made.
    pub(crate) fn clear(&self) {
        self.state.store(0, Ordering::Release);
    }

    /// Whether something may be locked, and all that is was to be filled at once.
    pub(crate) fn are_all_filled(&self) -> bool {
        self.state.load(Ordering::Acquire) & (ANY | ANY_ON_FAULT) == ANY
    }

    /// Notes how much is locked; by how much that is more than ever.
    pub(crate) fn raise_most(&self, locked_bytes: u64) -> u64 {
        locked_bytes.saturating_sub(self.most_bytes.fetch_max(locked_bytes, Ordering::Relaxed))
    }
}
