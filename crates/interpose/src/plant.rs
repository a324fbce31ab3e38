//! Bugs that the tests under the model checker switch on, to show that it finds them. In every other build the
//! answer is a constant "no".
//!
//! Must hold: one bug is on at most, for the models of one thread; elsewhere nothing of the questions is left in the
//! code. Called by [`crate::buffers`] and [`crate::signals::shared_action`], each where its bug would be.

/// One bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// The evictor reads the hazards without a barrier.
    NoHeavyFence,
    /// The thread reads the page words without a barrier.
    NoLightFence,
    /// The hazard is published after the page words were read.
    PublishedLate,
    /// The hazard is cleared before the call has ended.
    ClearedEarly,
    /// What is kept of a signal is written without a fence behind the odd version.
    NoFenceBehindOddVersion,
}

#[cfg(all(test, loom))]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<Plant>> = const { core::cell::Cell::new(None) };
}

/// The bug is there as long as this value, for the models that this thread runs.
#[cfg(all(test, loom))]
#[must_use]
pub(crate) struct Planted;

#[cfg(all(test, loom))]
impl Planted {
    pub(crate) fn new(plant: Plant) -> Planted {
        PLANTED.set(Some(plant));
        Planted
    }
}

#[cfg(all(test, loom))]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// True when the bug is switched on.
#[cfg(all(test, loom))]
pub(crate) fn is_planted(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}

/// No bug can be switched on in this build.
#[cfg(not(all(test, loom)))]
pub(crate) const fn is_planted(_: Plant) -> bool {
    false
}
