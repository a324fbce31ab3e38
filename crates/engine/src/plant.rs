//! Bugs that the tests of the simulator switch on, to show that its seeds find them.
//!
//! Must hold: without the feature `plant` every question here is answered with a constant "no", and nothing is left of
//! it in the code; with it, one bug is on at most. Called by [`crate::evict`], [`crate::fault`], [`crate::filled`],
//! [`crate::fork`], [`crate::mapping`], [`crate::space`] and [`crate::writeback`], each where its bug would be, and by
//! `sim`, which switches one on.

/// One bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Plant {
    /// A page that comes back to be written keeps its copy: once written, it is taken for unchanged.
    LostDirty = 1,
    /// Write-back frees the cells before the swap words name the slots.
    EarlyFree,
    /// The first write to a protected page does not give its copy up.
    StaleCleanCopy,
    /// A page is dropped though somebody has touched its word since it was isolated.
    DroppedAlthoughWritten,
    /// Pages are dropped though a system call under way names them.
    HazardIgnored,
    /// Pages are protected though a system call under way names them.
    ProtectedUnderCall,
    /// The words of a batch say that its pages are stored, and are unlocked, before the pages are dropped.
    UnlockedBeforeDrop,
    /// Pages that the kernel refuses to drop are taken to be gone.
    RefusedDropForgotten,
    /// What a protecting call did before it was refused is forgotten.
    RefusedProtectForgotten,
    /// Whoever fills a page does not look whether an evictor is protecting what lies around it.
    UnseenProtection,
    /// Memory that was written between its filling with the page of zeros and its protection is taken for zeros still.
    WrittenTakenForZeros,
    /// A page goes with its copy, though that was discarded.
    DiscardedCopyTrusted,
    /// The word of a page that is stored does not name the copy before the page is dropped.
    CopyUnnamed,
    /// Whoever unlocks a word wakes nobody.
    LostWakeup,
    /// Stored pages survive MADV_DONTNEED.
    DropForgotten,
    /// Pages that mremap has moved are taken for protected still.
    CarriedClean,
    /// A forked child refers to entries that do not count it.
    ForkWithoutCount,
    /// A forked child does not protect its clean pages again.
    ForkWithoutProtection,
    /// Zeros that the kernel has put where pages are missing are taken for their content.
    FilledByTheKernel,
}

#[cfg(feature = "plant")]
impl Plant {
    /// All of them.
    pub const ALL: [Plant; 19] = [
        Plant::LostDirty,
        Plant::EarlyFree,
        Plant::StaleCleanCopy,
        Plant::DroppedAlthoughWritten,
        Plant::HazardIgnored,
        Plant::ProtectedUnderCall,
        Plant::UnlockedBeforeDrop,
        Plant::RefusedDropForgotten,
        Plant::RefusedProtectForgotten,
        Plant::UnseenProtection,
        Plant::WrittenTakenForZeros,
        Plant::DiscardedCopyTrusted,
        Plant::CopyUnnamed,
        Plant::LostWakeup,
        Plant::DropForgotten,
        Plant::CarriedClean,
        Plant::ForkWithoutCount,
        Plant::ForkWithoutProtection,
        Plant::FilledByTheKernel,
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
