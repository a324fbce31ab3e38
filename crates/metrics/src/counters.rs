//! What each counter of a run is called in OpenMetrics, and in which unit it is said there.
//!
//! What must hold: no counter is without a name; a new one in `uswap_core::counters` does not compile before it has one
//! here. A name that somebody may have put into a dashboard stays.

use uswap_core::counters::{COUNTERS, Counter, Description};
use uswap_units::PAGE_BYTES;

use crate::family::{Family, Number, Unit};

/// From the unit of a counter to that of its metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Conversion {
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
    said: Conversion,
}

impl CounterMetric {
    /// What it says of a value of the counter.
    pub fn number(&self, value: u64) -> Number {
        match self.said {
            Conversion::PagesAsBytes => Number::Whole(value.saturating_mul(PAGE_BYTES as u64)),
            Conversion::NsAsSeconds => Number::Parts(value as f64 / 1e9),
            Conversion::Bytes | Conversion::Pages | Conversion::Number => Number::Whole(value),
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
        Conversion::Bytes | Conversion::PagesAsBytes => Unit::Bytes,
        Conversion::Pages => Unit::Pages,
        Conversion::NsAsSeconds => Unit::Seconds,
        Conversion::Number => Unit::Number,
    };
    CounterMetric { family: Family::counter(base, unit, described.text), said }
}

/// The table. The unit and `_total` come behind the name.
fn name_of(counter: Counter) -> (&'static str, Conversion) {
    match counter {
        Counter::Compressed => ("uswap_pool_stored", Conversion::Pages),
        Counter::CompressedBytesIn => ("uswap_compressed_in", Conversion::Bytes),
        Counter::CompressedBytesOut => ("uswap_compressed_out", Conversion::Bytes),
        Counter::SameFilled => ("uswap_same_filled", Conversion::Pages),
        Counter::Unchanged => ("uswap_unchanged", Conversion::Pages),
        Counter::DroppedBehind => ("uswap_dropped_behind", Conversion::Pages),
        Counter::Promoted => ("uswap_promoted", Conversion::Pages),
        Counter::Incompressible => ("uswap_incompressible", Conversion::Pages),
        Counter::Discarded => ("uswap_copies_discarded", Conversion::Pages),
        Counter::CopyWritten => ("uswap_copies_written", Conversion::Pages),
        Counter::CopyExpected => ("uswap_copies_expected", Conversion::Pages),
        Counter::CopyMoved => ("uswap_copies_moved", Conversion::Pages),
        Counter::Recompressed => ("uswap_recompressed", Conversion::Pages),
        Counter::TrialQuickBytes => ("uswap_trial_quick", Conversion::Bytes),
        Counter::TrialDenseBytes => ("uswap_trial_dense", Conversion::Bytes),
        Counter::CompactedBytes => ("uswap_pool_compacted", Conversion::Bytes),
        Counter::WrittenPages => ("uswap_writeback", Conversion::PagesAsBytes),
        Counter::WrittenBytes => ("uswap_swap_written", Conversion::Bytes),
        Counter::WriteErrors => ("uswap_swap_write_errors", Conversion::Number),
        Counter::ReadPages => ("uswap_swap_read", Conversion::Pages),
        Counter::ReadBytes => ("uswap_swap_read", Conversion::Bytes),
        Counter::ReadErrors => ("uswap_swap_read_errors", Conversion::Number),
        Counter::LostPages => ("uswap_lost", Conversion::Pages),
        Counter::ZeroFilled => ("uswap_zero_filled", Conversion::Pages),
        Counter::ReadAhead => ("uswap_readahead", Conversion::Pages),
        Counter::ReadaheadReads => ("uswap_readahead_reads", Conversion::Number),
        Counter::ReadaheadHits => ("uswap_readahead_hits", Conversion::Number),
        Counter::DirectReclaim => ("uswap_direct_reclaim_rounds", Conversion::Number),
        Counter::ProtectedReclaimed => ("uswap_protected_reclaimed", Conversion::Pages),
        Counter::WaitedForOthers => ("uswap_waited_for_others", Conversion::Number),
        Counter::KswapdWakes => ("uswap_kswapd_wakes", Conversion::Number),
        Counter::StallNs => ("uswap_fault_stall", Conversion::NsAsSeconds),
        Counter::ForcedOver => ("uswap_over_budget_faults", Conversion::Number),
        Counter::WaitedInVain => ("uswap_waited_in_vain_faults", Conversion::Number),
        Counter::Registered => ("uswap_registered", Conversion::Pages),
        Counter::ReapedMms => ("uswap_reaped_processes", Conversion::Number),
        Counter::ReapedEntries => ("uswap_reaped_entries", Conversion::Number),
        Counter::EngineCpuNs => ("uswap_engine_cpu", Conversion::NsAsSeconds),
        Counter::LockedBytes => ("uswap_mlocked", Conversion::Bytes),
        Counter::Left => ("uswap_left_processes", Conversion::Number),
        Counter::Joined => ("uswap_joined_processes", Conversion::Number),
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
            let fitting: &[Conversion] = match described.unit {
                "bytes" => &[Conversion::Bytes],
                "pages" => &[Conversion::Pages, Conversion::PagesAsBytes],
                "ns" => &[Conversion::NsAsSeconds],
                _ => &[Conversion::Number],
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
