//! Bugs that tests under shuttle switch on, to show that it finds them. In every other build each question here is
//! answered with a constant "no".

/// One bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plant {
    /// A dropped second look: who falls asleep looks for requests and then notes that it sleeps, in two steps.
    SleepWithoutLook,
    /// A dropped second look: who fetches what a ticket brought does not see that it has become void meanwhile.
    FetchByStore,
}

#[cfg(all(test, shuttle))]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<Plant>> = const { core::cell::Cell::new(None) };
}

/// A bug is there as long as this value, for the test on this thread: shuttle runs all threads of a model there.
#[cfg(all(test, shuttle))]
#[must_use]
pub(crate) struct Planted;

#[cfg(all(test, shuttle))]
impl Planted {
    pub(crate) fn new(plant: Plant) -> Planted {
        PLANTED.set(Some(plant));
        Planted
    }
}

#[cfg(all(test, shuttle))]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// True when the bug is switched on.
#[cfg(all(test, shuttle))]
pub(crate) fn is_planted(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}
/// No bug can be switched on in this build.
#[cfg(not(all(test, shuttle)))]
pub(crate) const fn is_planted(_: Plant) -> bool {
    false
}
