//! Every counter of a run, declared once with its unit and meaning. Linux's names are kept where the thing is the same.
//!
//! Must hold: a counter only grows. Each is read for itself: two that are read together need not be of one moment.
//! Called by [`crate::swap_table`], `engine`, `host` and `sim`, which count, by the supervisor, which reads, and by
//! `metrics`, which makes a metric of each.

use crate::histogram::{BUCKETS, Histogram};
use crate::latency::{LATENCY_WORDS, Latency};
use uswap_sync::{AtomicU64, Ordering};

macro_rules! counters {
    ($($variant:ident $name:literal $unit:literal $text:literal;)*) => {
        /// One counter.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $text] $variant,)* }

        /// What is known of a counter: name, unit, meaning.
        pub struct Description {
            /// The counter.
            pub counter: Counter,
            /// Its name in reports.
            pub name: &'static str,
            /// Unit of the value.
            pub unit: &'static str,
            /// What it counts.
            pub text: &'static str,
        }

        /// All counters.
        pub const COUNTERS: &[Description] = &[
            $(Description { counter: Counter::$variant, name: $name, unit: $unit, text: $text },)*
        ];
    };
}

counters! {
    Compressed "zswpout" "pages" "Compressed into the pool.";
    CompressedBytesIn "compressed_bytes_in" "bytes" "Content that was compressed.";
    CompressedBytesOut "compressed_bytes_out" "bytes" "Room that it took.";
    SameFilled "swpout_same" "pages" "Noted as one repeated value.";
    Unchanged "swpout_unchanged" "pages" "Dropped, because a stored copy was still good.";
    DroppedBehind "drop_behind" "pages" "Evicted because the program had just gone past them in order.";
    Promoted "promoted" "pages" "Came from the file, stayed unchanged, and went into the pool instead.";
    Incompressible "zswp_reject_compress_poor" "pages" "Did not get smaller, and were queued for the file as they are.";
    Discarded "retained_discarded" "pages" "Clean copies given up for room.";
    CopyWritten "copy_written" "pages" "Came back for a thread that writes: no copy is kept.";
    CopyExpected "copy_expected" "pages" "Came back for a thread that reads, and were filled writable without a copy, \
        since they were written the last time.";
    CopyMoved "copy_moved" "pages" "Came back from a pool that is short of room: no copy is kept.";
    Recompressed "recompressed" "pages" "Unchanged, but compressed again when they went, densely instead of quickly.";
    TrialQuickBytes "trial_quick_bytes" "bytes" "What LZ4 made of pages that were compressed by it and densely, to \
        know what that saves.";
    TrialDenseBytes "trial_dense_bytes" "bytes" "What the dense codec made of the same pages.";
    CompactedBytes "compacted_bytes" "bytes" "Memory of the pool that was freed by moving blobs together.";
    WrittenPages "zswpwb" "pages" "Written to the swap file.";
    WrittenBytes "written_bytes" "bytes" "Bytes written to the swap file, padding included.";
    WriteErrors "write_errors" "batches" "Batches that could not be written; their pages stayed in the pool.";
    ReadPages "pswpin" "pages" "Read from the swap file.";
    ReadBytes "read_bytes" "bytes" "Bytes read from the swap file.";
    ReadErrors "read_errors" "reads" "Reads that failed or did not verify, before the next attempt.";
    LostPages "lost_pages" "pages" "Given up: no attempt gave the right content. The program got SIGBUS.";
    ZeroFilled "fault_zero" "pages" "First touches that got a page of zeros.";
    ReadAhead "swap_ra" "pages" "Loaded before they were asked for, because the program goes through its memory in \
        order.";
    ReadaheadReads "swap_ra_reads" "reads" "Reads of the swap file that the supervisor made ahead of faults.";
    ReadaheadHits "swap_ra_read_hits" "reads" "Reads that a fault had no need to make, because the supervisor had \
        made them.";
    DirectReclaim "allocstall" "rounds" "Rounds of reclaim in a fault, because memory was above the min watermark.";
    ProtectedReclaimed "low" "pages" "Reclaimed from protected memory, because no other was left.";
    WaitedForOthers "waited_for_others" "times" "A fault waited for reclaim from other processes, whose turn it was.";
    KswapdWakes "kswapd_wake" "times" "A kswapd woke up because of pressure.";
    StallNs "stall_ns" "ns" "Time that program threads took for their faults, but for those on a page that another \
        thread was bringing.";
    ForcedOver "over_budget" "faults" "Faults served above the budget, because nothing could be reclaimed.";
    WaitedInVain "waited_in_vain" "faults" "Faults that were served after all rounds of direct reclaim, none of which \
        took a page.";
    Registered "registered_pages" "pages" "Pages of address space that were taken under management.";
    ReapedMms "reaped_mms" "processes" "Ended processes that were cleaned up after.";
    ReapedEntries "reaped_entries" "entries" "Swap entries that a killed process had reserved.";
    EngineCpuNs "engine_cpu_ns" "ns" "CPU time of the background evictors of all processes.";
    LockedBytes "mlocked_bytes" "bytes" "Locked in RAM by the processes of the run (mlock, mlockall), each at its \
        most.";
    Left "left" "processes" "Processes that left management: their pages came home.";
    Joined "joined" "processes" "Processes that joined the run, forked ones among them.";
}

/// Where a fault found the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum FaultSource {
    /// A page of zeros.
    Zero,
    /// One repeated value.
    Same,
    /// The pool.
    Pool,
    /// The swap file.
    File,
    /// Someone else had filled it.
    Woken,
}

/// All sources with their names.
pub const FAULT_SOURCES: [(FaultSource, &str); 5] = [
    (FaultSource::Zero, "zero"),
    (FaultSource::Same, "same-filled"),
    (FaultSource::Pool, "pool"),
    (FaultSource::File, "file"),
    (FaultSource::Woken, "woken"),
];

/// Words of the counters and histograms in the segment.
pub const COUNTER_WORDS: usize = 64;
const _: () = assert!(COUNTERS.len() <= COUNTER_WORDS);
/// One of latencies for each source, and two of reuse distances.
pub(crate) const HISTOGRAM_WORDS: usize = DISTANCES_START + 2 * BUCKETS;
const DISTANCES_START: usize = LATENCY_WORDS * FAULT_SOURCES.len();

/// View of the counters.
#[derive(Clone, Copy)]
pub struct Counters<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) histograms: &'a [AtomicU64],
}

impl<'a> Counters<'a> {
    /// Adds to a counter. [`Counter::StallNs`] is not added to: it is made of the latencies.
    pub fn add(&self, counter: Counter, amount: u64) {
        debug_assert!(counter != Counter::StallNs, "its word is not read");
        self.words[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }
    /// Value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        if counter == Counter::StallNs {
            return self.stall_ns();
        }
        self.words[counter as usize].load(Ordering::Relaxed)
    }
    /// Whoever waits for another thread is not counted: that one is.
    fn stall_ns(&self) -> u64 {
        let counted = FAULT_SOURCES.iter().filter(|(source, _)| *source != FaultSource::Woken);
        counted.map(|&(source, _)| self.latency(source).total_ns()).sum()
    }
    /// Latencies of the faults from one source.
    pub fn latency(&self, source: FaultSource) -> Latency<'a> {
        Latency::new(&self.histograms[source as usize * LATENCY_WORDS..][..LATENCY_WORDS])
    }
    /// Distances of the faults on stored pages, and of pages that came along: see [`crate::reuse`].
    pub(crate) fn reuse_distances(&self) -> [Histogram<'a>; 2] {
        [0, 1]
            .map(|number| DISTANCES_START + number * BUCKETS)
            .map(|start| Histogram { buckets: &self.histograms[start..][..BUCKETS] })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn time_of_faults_is_counted_once_and_apart_from_all_else() {
        let words: Vec<AtomicU64> = (0..COUNTER_WORDS + HISTOGRAM_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (words, histograms) = words.split_at(COUNTER_WORDS);
        let counters = Counters { words, histograms };
        for (index, (source, _)) in FAULT_SOURCES.into_iter().enumerate() {
            counters.latency(source).record(10_u64.pow(index as u32));
        }
        counters.reuse_distances().iter().for_each(|distances| distances.record(u64::MAX));
        let totals = FAULT_SOURCES.map(|(source, _)| counters.latency(source).total_ns());
        assert_eq!(totals, [1, 10, 100, 1000, 10_000]);
        assert!(FAULT_SOURCES.iter().all(|(source, _)| counters.latency(*source).count() == 1));
        assert_eq!(counters.get(Counter::StallNs), 1111, "who was woken waited for another");
    }
}
