//! What newer kernels have and uswap can do without: what is lost where it is missing.
//!
//! Figures are those of docs/adr/0024-older-kernels.md.

use uswap_os::probe::Probe;
use uswap_os::without::KernelFeature;

use super::finding::{Finding, unless_switched_off, wanted};

/// One finding for each of them, but for io_uring, which older kernels have too.
pub fn newer(probe: &Probe) -> [Finding; 4] {
    [
        (
            KernelFeature::ProcessMadvise,
            "process_madvise",
            probe.drop_ranges,
            "without it pages that are evicted are dropped one call a run of neighbours, and not 256 at once",
            "use Linux 6.14 or newer",
        ),
        (
            KernelFeature::ProcmapQuery,
            "PROCMAP_QUERY",
            probe.procmap_query,
            "without it the program's mappings are read as text, which takes longer when there are many",
            "use Linux 6.11 or newer",
        ),
        (
            KernelFeature::PagemapScan,
            "PAGEMAP_SCAN",
            probe.pagemap_scan,
            "without it what is present is read from /proc/self/pagemap, 8 bytes a page; little is lost",
            "use Linux 6.7 or newer",
        ),
        (
            KernelFeature::Populate,
            "POPULATE_WRITE",
            probe.populate,
            "without it stacks are made ready one call a page, when a program is taken under management",
            "use Linux 5.14 or newer",
        ),
    ]
    .map(|(feature, name, answer, why, mend)| {
        unless_switched_off(probe, feature, wanted(name, answer, why, Some(mend)))
    })
}
