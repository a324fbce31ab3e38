//! Bugs that tests under a model checker switch on, to show that it finds them. In every other build each question here
//! is answered with a constant "no".
//!
//! Must hold: a bug is there only for the test that has switched it on, and only until that ends. Called by
//! [`crate::clusters`], [`crate::lending`], [`crate::map_table`], [`crate::mm`],
//! [`crate::page_word`], [`crate::protecting`], [`crate::readahead_buffers`], [`crate::swap_table`] and
//! [`crate::wait_queue`] where a bug may be; tests switch them on.

/// One bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// A weakened memory ordering: `publish` makes an entry visible before its hash and its content.
    PublishRelaxed,
    /// A dropped second look: whoever frees a slot clears its bit, though an audit may have done that, and somebody
    /// else owns the slot by now.
    FreeWithoutLook,
    /// A dropped second look: what was copied out of a readahead buffer may be of another part by then.
    CopyWithoutLook,
    /// A dropped barrier between locking a word and the look whether its page is being protected.
    NoBarrier,
    /// A dropped fence between unlocking a word and the look whether somebody waits for it.
    NoFenceBehindUnlocking,
    /// A dropped fence between giving a thing back and the look whether somebody waits for one.
    NoFenceBehindGivingBack,
    /// A dropped fence between a change of the table of swap files and the look for who lives.
    NoFenceBehindAChangeOfFiles,
    /// A dropped second look: an evictor locks the page that it has isolated, though its word has changed.
    LockedAlthoughChanged,
    /// A dropped second look: a forked child claims the record that was its own, though it may be another's by then.
    ClaimedWithoutNumber,
    /// A dropped second look: what a process has counted for an earlier request gets into the answer to another.
    LatePut,
}

#[cfg(all(test, any(loom, shuttle)))]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<Plant>> = const { core::cell::Cell::new(None) };
}

/// A bug is there as long as this value, for the test on this thread: the model checker runs all threads of a model
/// there.
#[cfg(all(test, any(loom, shuttle)))]
#[must_use]
pub(crate) struct Planted;

#[cfg(all(test, any(loom, shuttle)))]
impl Planted {
    pub(crate) fn new(plant: Plant) -> Planted {
        PLANTED.set(Some(plant));
        Planted
    }
}

#[cfg(all(test, any(loom, shuttle)))]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// True when the bug is switched on.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn is_planted(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}
/// No bug can be switched on in this build.
#[cfg(not(all(test, any(loom, shuttle))))]
pub(crate) const fn is_planted(_: Plant) -> bool {
    false
}
