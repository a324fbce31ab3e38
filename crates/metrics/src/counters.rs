//! What each counter of a run is called in OpenMetrics, and in which unit it is said there.
//!
//! What must hold: no counter is without a name; a new one in `uswap_core::counters` does not compile before it has one
//! here. A name that somebody may have put into a dashboard stays.

use uswap_core::counters::{COUNTERS, Counter, Description};
use uswap_units::PAGE_BYTES;

use crate::family::{Family, Number, Unit};

/// From the unit of a counter to that of its metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    /// Bytes.
    Bytes,
    /// Pages, as their bytes.
    PagesAsBytes,
    /// Pages.
    Pages,
    /// Nanoseconds, as seconds.
    NsAsSeconds,
    /// Whatever the name says.
    Number,
}

/// A counter as a metric.
#[derive(Clone, Copy, Debug)]
pub struct CounterMetric {
    /// What the metric is.
    pub family: Family,
    said: Said,
}

impl CounterMetric {
    /// What it says of a value of the counter.
    pub fn number(&self, value: u64) -> Number {
        match self.said {
            Said::PagesAsBytes => Number::Whole(value.saturating_mul(PAGE_BYTES as u64)),
            Said::NsAsSeconds => Number::Parts(value as f64 / 1e9),
            Said::Bytes | Said::Pages | Said::Number => Number::Whole(value),
        }
    }
}

/// Every counter and its metric, in the order of their declaration.
pub fn counter_metrics() -> impl Iterator<Item = (&'static Description, CounterMetric)> {
    COUNTERS.iter().map(|described| (described, metric_of(described)))
}

fn metric_of(described: &Description) -> CounterMetric {
    let (base, said) = name_of(described.counter);
    let unit = match said {
        Said::Bytes | Said::PagesAsBytes => Unit::Bytes,
        Said::Pages => Unit::Pages,
        Said::NsAsSeconds => Unit::Seconds,
        Said::Number => Unit::Number,
    };
    CounterMetric { family: Family::counter(base, unit, described.text), said }
}

/// The table. The unit and `_total` come behind the name.
fn name_of(counter: Counter) -> (&'static str, Said) {
    match counter {
        Counter::Compressed => ("uswap_pool_stored", Said::Pages),
        Counter::CompressedBytesIn => ("uswap_compressed_in", Said::Bytes),
        Counter::CompressedBytesOut => ("uswap_compressed_out", Said::Bytes),
        Counter::SameFilled => ("uswap_same_filled", Said::Pages),
        Counter::Unchanged => ("uswap_unchanged", Said::Pages),
        Counter::DroppedBehind => ("uswap_dropped_behind", Said::Pages),
        Counter::Promoted => ("uswap_promoted", Said::Pages),
        Counter::Incompressible => ("uswap_incompressible", Said::Pages),
        Counter::Discarded => ("uswap_copies_discarded", Said::Pages),
        Counter::CopyWritten => ("uswap_copies_written", Said::Pages),
        Counter::CopyExpected => ("uswap_copies_expected", Said::Pages),
        Counter::CopyMoved => ("uswap_copies_moved", Said::Pages),
        Counter::Recompressed => ("uswap_recompressed", Said::Pages),
        Counter::TrialQuickBytes => ("uswap_trial_quick", Said::Bytes),
        Counter::TrialDenseBytes => ("uswap_trial_dense", Said::Bytes),
        Counter::CompactedBytes => ("uswap_pool_compacted", Said::Bytes),
        Counter::WrittenPages => ("uswap_writeback", Said::PagesAsBytes),
        Counter::WrittenBytes => ("uswap_swap_written", Said::Bytes),
        Counter::WriteErrors => ("uswap_swap_write_errors", Said::Number),
        Counter::ReadPages => ("uswap_swap_read", Said::Pages),
        Counter::ReadBytes => ("uswap_swap_read", Said::Bytes),
        Counter::ReadErrors => ("uswap_swap_read_errors", Said::Number),
        Counter::LostPages => ("uswap_lost", Said::Pages),
        Counter::ZeroFilled => ("uswap_zero_filled", Said::Pages),
        Counter::ReadAhead => ("uswap_readahead", Said::Pages),
        Counter::ReadaheadReads => ("uswap_readahead_reads", Said::Number),
        Counter::ReadaheadHits => ("uswap_readahead_hits", Said::Number),
        Counter::DirectReclaim => ("uswap_direct_reclaim_rounds", Said::Number),
        Counter::ProtectedReclaimed => ("uswap_protected_reclaimed", Said::Pages),
        Counter::WaitedForOthers => ("uswap_waited_for_others", Said::Number),
        Counter::KswapdWakes => ("uswap_kswapd_wakes", Said::Number),
        Counter::StallNs => ("uswap_fault_stall", Said::NsAsSeconds),
        Counter::ForcedOver => ("uswap_over_budget_faults", Said::Number),
        Counter::WaitedInVain => ("uswap_waited_in_vain_faults", Said::Number),
        Counter::Registered => ("uswap_registered", Said::Pages),
        Counter::ReapedMms => ("uswap_reaped_processes", Said::Number),
        Counter::ReapedEntries => ("uswap_reaped_entries", Said::Number),
        Counter::EngineCpuNs => ("uswap_engine_cpu", Said::NsAsSeconds),
        Counter::LockedBytes => ("uswap_mlocked", Said::Bytes),
        Counter::Left => ("uswap_left_processes", Said::Number),
        Counter::Joined => ("uswap_joined_processes", Said::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_has_one_name_of_its_own_in_a_unit_that_fits() {
        let names: BTreeSet<String> = counter_metrics().map(|(_, metric)| metric.family.name()).collect();
        assert_eq!(names.len(), COUNTERS.len());
        for (described, metric) in counter_metrics() {
            let name = metric.family.name();
            let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(plain && name.starts_with("uswap_") && name.ends_with("_total"), "{name}");
            let fitting: &[Said] = match described.unit {
                "bytes" => &[Said::Bytes],
                "pages" => &[Said::Pages, Said::PagesAsBytes],
                "ns" => &[Said::NsAsSeconds],
                _ => &[Said::Number],
            };
            assert!(fitting.contains(&metric.said), "{name} is of {}", described.unit);
        }
    }

    #[test]
    fn pages_and_nanoseconds_become_base_units() {
        let metric =
            |counter| metric_of(COUNTERS.iter().find(|described| described.counter == counter).unwrap());
        assert_eq!(metric(Counter::WrittenPages).number(3), Number::Whole(12_288));
        assert_eq!(metric(Counter::StallNs).number(1_500_000_000), Number::Parts(1.5));
        assert_eq!(metric(Counter::Compressed).number(3), Number::Whole(3));
    }
}
