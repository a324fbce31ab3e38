//! What the program wants to be done at one signal: an action that changes while other threads take it.
//!
//! Must hold: one thread at a time writes it. Who reads it reads all of it, or again; a model checker goes through all
//! orders in which a thread is interrupted three times at most (`signals::loom_tests`). Called by
//! [`crate::signals::actions`].
//!
//! Memory order: actions are read and written under their version, as behind a sequence lock. The Release fence of
//! `store` pairs with the Acquire fence of `load_both`: who has read a new word finds another version. The Release of
//! the even version pairs with the Acquire of `load_both`: who finds it finds all words. One writer goes on from what
//! the last one wrote: that is the order of its callers. `end_of_a_store` runs in the only thread of a child.

use uswap_sync::{AtomicU32, AtomicU64, Ordering, fence, spin_loop};

use crate::kernel::Action;
use crate::plant::{Plant, is_planted};

/// `SIG_DFL`.
pub const DEFAULT: usize = 0;
/// `SIG_IGN`.
pub const IGNORE: usize = 1;

struct Words {
    handler: AtomicU64,
    flags: AtomicU64,
    restorer: AtomicU64,
    mask: AtomicU64,
}

pub(crate) struct SharedAction {
    /// Odd while it is written.
    version: AtomicU32,
    now: Words,
    /// The handler that was there before the program wanted none.
    former: Words,
}

impl Words {
    /// The default action.
    #[cfg(not(loom))]
    const fn new() -> Words {
        Words {
            handler: AtomicU64::new(0),
            flags: AtomicU64::new(0),
            restorer: AtomicU64::new(0),
            mask: AtomicU64::new(0),
        }
    }

    /// The default action. Atomics of the model checker are not made for statics.
    #[cfg(loom)]
    fn new() -> Words {
        let [handler, flags, restorer, mask] = core::array::from_fn(|_| AtomicU64::new(0));
        Words { handler, flags, restorer, mask }
    }

    fn load(&self) -> Action {
        Action {
            handler: self.handler.load(Ordering::Relaxed) as usize,
            flags: self.flags.load(Ordering::Relaxed) as usize,
            restorer: self.restorer.load(Ordering::Relaxed) as usize,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    fn store(&self, action: &Action) {
        self.handler.store(action.handler as u64, Ordering::Relaxed);
        self.flags.store(action.flags as u64, Ordering::Relaxed);
        self.restorer.store(action.restorer as u64, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
    }
}

pub(super) fn has_handler(action: &Action) -> bool {
    action.handler != DEFAULT && action.handler != IGNORE
}

impl SharedAction {
    #[cfg(not(loom))]
    pub(super) const fn new() -> SharedAction {
        SharedAction { version: AtomicU32::new(0), now: Words::new(), former: Words::new() }
    }

    #[cfg(loom)]
    pub(super) fn new() -> SharedAction {
        SharedAction { version: AtomicU32::new(0), now: Words::new(), former: Words::new() }
    }

    pub(super) fn load(&self) -> Action {
        self.load_both().0
    }

    /// What is in force, and the handler before it.
    pub(super) fn load_both(&self) -> (Action, Action) {
        loop {
            // Acquire: what is read below is of this version, or of a later one.
            let version = self.version.load(Ordering::Acquire);
            let both = (self.now.load(), self.former.load());
            fence(Ordering::Acquire);
            if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                return both;
            }
            spin_loop();
        }
    }

    pub(super) fn store(&self, action: &Action) {
        let before = self.version.load(Ordering::Relaxed);
        self.version.store(before.wrapping_add(1), Ordering::Relaxed);
        if !is_planted(Plant::NoFenceBehindOddVersion) {
            // Nobody sees what follows without the odd version.
            fence(Ordering::Release);
        }
        let old = self.now.load();
        if has_handler(&old) {
            self.former.store(&old);
        }
        self.now.store(action);
        self.version.store(before.wrapping_add(2), Ordering::Release);
    }

    /// Nobody goes on with one that was under way.
    pub(super) fn end_of_a_store(&self) {
        let version = self.version.load(Ordering::Relaxed);
        // A write copies the page.
        if version & 1 != 0 {
            self.version.store(version.wrapping_add(1), Ordering::Release);
        }
    }
}
