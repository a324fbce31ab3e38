//! What newer kernels can do, and which of it this process goes without on purpose.
//!
//! uswap needs Linux 5.11. What came later is tried where it is used, and has a way without. Each such feature
//! can be switched off by name (`USWAP_WITHOUT`), so that the way without it is tested on a new kernel. A feature that
//! is switched off answers as a kernel that does not know it.
//!
//! This is a static and not a value that is passed, as what a kernel lacks is the same for all of a process. It is set
//! once, at the start, before anything is tried.
//!
//! Must hold: what is switched off answers as on a kernel that does not know it, wherever it is asked for. Called by
//! [`crate::maps`], [`crate::memory`], [`crate::pagemap`], [`crate::probe`] and [`crate::ring`], where they would use
//! one, and by `agent`, the supervisor and `cli`, which switch off.

use core::sync::atomic::{AtomicU32, Ordering};

/// A feature of the kernel that can be done without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum KernelFeature {
    /// `process_madvise(MADV_DONTNEED)` of this process, for many ranges.
    ProcessMadvise,
    /// The ioctl `PAGEMAP_SCAN`.
    PagemapScan,
    /// The ioctl `PROCMAP_QUERY`.
    ProcmapQuery,
    /// `MADV_POPULATE_WRITE`.
    Populate,
    /// io_uring.
    IoUring,
}

impl KernelFeature {
    /// All of them, with the newest first.
    pub const ALL: [KernelFeature; 5] = [
        KernelFeature::ProcessMadvise,
        KernelFeature::ProcmapQuery,
        KernelFeature::PagemapScan,
        KernelFeature::Populate,
        KernelFeature::IoUring,
    ];

    /// As in `USWAP_WITHOUT`.
    pub const fn name(self) -> &'static str {
        match self {
            KernelFeature::ProcessMadvise => "process_madvise",
            KernelFeature::PagemapScan => "pagemap_scan",
            KernelFeature::ProcmapQuery => "procmap_query",
            KernelFeature::Populate => "populate",
            KernelFeature::IoUring => "io_uring",
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Features that are switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Without(u32);

impl Without {
    /// Nothing is switched off.
    pub const NOTHING: Without = Without(0);

    /// Reads names with commas between them; `all` is all of them. The name that is unknown, if there is one.
    pub fn parse(list: &str) -> Result<Without, &str> {
        let mut without = Without::NOTHING;
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let named = |feature: &&KernelFeature| name == "all" || name == feature.name();
            let bits = KernelFeature::ALL.iter().filter(named).fold(0, |bits, feature| bits | feature.bit());
            if bits == 0 {
                return Err(name);
            }
            without.0 |= bits;
        }
        Ok(without)
    }

    /// As a number, for processes of the run.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From the number. Bits that mean nothing have no effect.
    pub const fn from_bits(bits: u32) -> Without {
        Without(bits)
    }

    /// Whether the feature is switched off.
    pub const fn has(self, feature: KernelFeature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// With this one switched off too.
    #[must_use]
    pub const fn and(self, feature: KernelFeature) -> Without {
        Without(self.0 | feature.bit())
    }

    /// All that either has switched off.
    #[must_use]
    pub const fn or(self, other: Without) -> Without {
        Without(self.0 | other.0)
    }

    /// Names of the features that are switched off.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        KernelFeature::ALL.into_iter().filter(move |&feature| self.has(feature)).map(KernelFeature::name)
    }

    /// From now on this process goes without.
    pub fn switch_off(self) {
        SWITCHED_OFF.store(self.0, Ordering::Relaxed);
    }

    /// What this process goes without.
    pub fn of_this_process() -> Without {
        Without(SWITCHED_OFF.load(Ordering::Relaxed))
    }
}

static SWITCHED_OFF: AtomicU32 = AtomicU32::new(0);

/// Whether this process goes without the feature on purpose.
#[inline]
pub fn is_switched_off(feature: KernelFeature) -> bool {
    Without::of_this_process().has(feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_an_unknown_one_is_told() {
        let two = Without::parse("pagemap_scan, populate,").expect("both are known");
        for feature in KernelFeature::ALL {
            let wanted = matches!(feature, KernelFeature::PagemapScan | KernelFeature::Populate);
            assert_eq!(two.has(feature), wanted, "{feature:?}");
            assert!(Without::parse(feature.name()).is_ok_and(|one| one.has(feature)));
            assert!(Without::parse("all").is_ok_and(|all| all.has(feature)));
        }
        assert_eq!(Without::parse("populate,pagemap-scan"), Err("pagemap-scan"));
        assert_eq!(
            Without::parse("populate,populate").map(Without::bits),
            Without::parse("populate").map(Without::bits)
        );
        assert_eq!(Without::parse(""), Ok(Without::NOTHING));
        assert_eq!(Without::from_bits(two.bits()), two);
    }
}
