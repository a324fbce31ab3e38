//! Where an environment is made: mappings that are kept, for an armed thread its own.
//!
//! Must hold: a mapping is used by one `execve` at a time. A handler of a signal may execute a program while its thread
//! is on the way to another `execve`: it gets another one. A spare one changes hands when it was given back, or when
//! its owner does not share this memory any more. Called by [`crate::environment`].

use crate::{owner, thread_words};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use uswap_interpose::thread::Slot;
use uswap_os::memory::{self, Access, Mapping};

/// Start and length of a mapping, which grows.
pub(super) struct Room<'a> {
    start: &'a AtomicUsize,
    bytes: &'a AtomicUsize,
}

impl<'a> Room<'a> {
    /// That of an armed thread.
    pub(super) fn of(slot: &'a Slot) -> Room<'a> {
        Room {
            start: &slot.user[thread_words::ENVIRONMENT],
            bytes: &slot.user[thread_words::ENVIRONMENT_BYTES],
        }
    }
}

impl Room<'_> {
    /// A mapping of at least so many bytes, which is kept.
    pub(super) fn with_bytes(&self, bytes: usize) -> Option<usize> {
        if self.bytes.load(Ordering::Relaxed) < bytes {
            let mapping = Mapping::anonymous(bytes, 1, Access::ReadWrite).ok()?;
            self.release();
            self.bytes.store(mapping.bytes(), Ordering::Relaxed);
            self.start.store(mapping.leak(), Ordering::Relaxed);
        }
        Some(self.start.load(Ordering::Relaxed))
    }

    pub(super) fn release(&self) {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            // SAFETY:
            // 1. Its thread made the mapping for itself, and nobody uses it: no `execve` of it is under way.
            let _unmapped = unsafe { memory::unmap(self.start.swap(0, Ordering::Relaxed), bytes) };
        }
    }
}

/// The same for threads that have no slot, for the children that share their memory, and for handlers. Who has one
/// gives it back when its call fails; else it is nobody's when its owner executes the new program.
pub(super) struct SpareRoom {
    owner: AtomicU32,
    start: AtomicUsize,
    bytes: AtomicUsize,
}

/// Who finds none leaves the environment as it is.
const SPARE_MAX: usize = 4;
static SPARE: [SpareRoom; SPARE_MAX] = [const {
    SpareRoom { owner: AtomicU32::new(0), start: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
}; SPARE_MAX];

impl SpareRoom {
    /// One for the calling thread. None: all are in use.
    pub(super) fn take() -> Option<&'static SpareRoom> {
        SPARE.iter().find(|room| room.claim())
    }

    /// That in which the environment at `start` was made.
    pub(super) fn of(start: usize) -> Option<&'static SpareRoom> {
        SPARE.iter().find(|room| room.start.load(Ordering::Relaxed) == start)
    }

    /// Its call has failed.
    pub(super) fn give_back(&self) {
        // Release pairs with the Acquire of `claim`: the next owner finds the mapping that it has.
        self.owner.store(0, Ordering::Release);
    }

    pub(super) fn room(&self) -> Room<'_> {
        Room { start: &self.start, bytes: &self.bytes }
    }

    fn claim(&self) -> bool {
        let own = uswap_os::thread::thread_id();
        // Acquire, here and below, pairs with the Release of `give_back`. An owner that does not share this memory any
        // more has changed nothing since the kernel took it away.
        let last = self.owner.load(Ordering::Acquire);
        let is_free = last == 0 || last != own && !owner::shares_memory(last);
        is_free && self.owner.compare_exchange(last, own, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
