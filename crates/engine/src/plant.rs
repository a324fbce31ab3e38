//! Bugs that the tests of the simulator switch on, to show that its seeds find them. Without the feature `plant` every
//! question here is answered with a constant "no", and nothing is left of it in the code.

/// One bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Plant {
    /// A page with a stored copy is taken for unchanged without comparing hashes.
    LostDirty = 1,
    /// Write-back frees the cells before the swap words name the slots.
    EarlyFree = 2,
    /// A fault that must be tried again is forgotten.
    LostWakeup = 3,
    /// What was decoded ahead is taken for the content of whatever page is there.
    StaleAhead = 4,
    /// What a frame holds is taken for the page that was to be moved there, also when the kernel did not move it.
    AnyFrame = 5,
    /// What a stored page named before is given back also while the table is copied for a child.
    GiveBackDuringCopy = 6,
    /// A page is taken for moved only if the kernel counted it.
    CountedOnly = 7,
    /// A huge page is taken to have come back whole, also when the kernel moved part of it.
    HugeCameWhole = 8,
    /// An event that does not come is waited for 3 ms only.
    Impatient = 9,
}

#[cfg(feature = "plant")]
impl Plant {
    /// All of them.
    pub const ALL: [Plant; 9] = [
        Plant::LostDirty,
        Plant::EarlyFree,
        Plant::LostWakeup,
        Plant::StaleAhead,
        Plant::AnyFrame,
        Plant::GiveBackDuringCopy,
        Plant::CountedOnly,
        Plant::HugeCameWhole,
        Plant::Impatient,
    ];
}

#[cfg(feature = "plant")]
static PLANTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Switches a bug on in this process, or all off.
#[cfg(feature = "plant")]
pub fn set(plant: Option<Plant>) {
    PLANTED.store(plant.map_or(0, |plant| plant as u32), core::sync::atomic::Ordering::Relaxed);
}

/// True when the bug is switched on.
#[cfg(feature = "plant")]
pub(crate) fn is_planted(plant: Plant) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == plant as u32
}
/// No bug can be switched on in this build.
#[cfg(not(feature = "plant"))]
pub(crate) const fn is_planted(_: Plant) -> bool {
    false
}
