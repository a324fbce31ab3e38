//! How much of the budget the pool may take: between a tenth and [`PoolSize::most`], as the program needs it.
//!
//! A byte more for the pool spares faults that are served from the file; a byte more for pages as they are spares some
//! that are served from the pool. What is best follows from the reuse distances of the faults:
//! [`uswap_core::pool_share`].

use std::time::{Duration, Instant};

use uswap_codec::Codec;
use uswap_core::counters::{Counter, Counters, FaultSource};
use uswap_core::histogram::BUCKETS;
use uswap_core::pool::Pool;
use uswap_core::pool_share::{Division, Faults, Returns, Share};
use uswap_core::reuse::RefaultKind;
use uswap_core::segment::Segment;
use uswap_core::swap_word::{Content, SwapWord};
use uswap_units::{PAGE_BYTES, SwapId};

use crate::options::PoolSize;
use crate::shared::Shared;

/// How often the pool's limit may move.
const LOOK: Duration = Duration::from_millis(100);

/// What is not measured of a fault: the signal, and the way back.
const SIGNAL_NS: u64 = 3_000;

/// What it took to write a page that a fault gets from the file: sealing it, and its part of the system calls. Most are
/// stored anew and written again.
const WRITE_NS: u64 = 30_000;

/// Entries of the swap table that one look reads, some 20 us.
const SAMPLE: u32 = 1024;

/// What a fault from the file is taken to cost before so many were seen.
const FILE_NS: u64 = 200_000;
const KNOWN: u64 = 64;

/// What of a process is resident whatever is reclaimed: its agent's threads and tables, its stacks, what libc wrote to.
const KEPT_BYTES: u64 = 512 << 10;

/// One part in so many of the budget is for the pages of the program, however dear the file is: with less they only
/// make room for each other.
const PAGES_PART: u64 = 8;

/// Faults that waited for room in vain, within a second: what is resident is less than what the program needs at once,
/// and the pool must give way. What a process keeps is only estimated.
const IN_VAIN_MAX: u64 = 2;
const IN_VAIN_WITHIN: Duration = Duration::from_secs(1);

/// Then it gives so many parts of the budget away at once.
const YIELD_PART: u64 = 16;

/// So long the pool stays below the size at which it gave way.
const YIELDED: Duration = Duration::from_secs(60);

/// Counts of the last look.
pub struct PoolShare {
    looked: Instant,
    from_file: u64,
    stored: u64,
    unchanged: u64,
    written: u64,
    moved: u64,
    tried: (u64, u64),
    /// The entry at which the next sample of the swap table begins.
    sampled: u32,
    /// Of both kinds, by buckets.
    distances: [Vec<u64>; 2],
    share: Share,
    in_vain: InVain,
}

/// Watches for faults that waited in vain.
struct InVain {
    since: Instant,
    count: u64,
    /// The largest limit, and since when.
    ceiling: Option<(u64, Instant)>,
}

impl InVain {
    /// Whether the pool must give way at `now`, when `count` faults have waited in vain in all.
    fn is_too_often(&mut self, count: u64, now: Instant) -> bool {
        let is_too_often = count - self.count >= IN_VAIN_MAX;
        if is_too_often || now - self.since > IN_VAIN_WITHIN {
            (self.since, self.count) = (now, count);
        }
        is_too_often
    }

    fn ceiling(&self, now: Instant) -> Option<u64> {
        self.ceiling.filter(|(_, since)| now - *since < YIELDED).map(|(limit, _)| limit)
    }
}

/// The largest limit that leaves room for pages of the program, between a quarter of the budget and `most`.
fn with_room_for_pages(most: u64, ram: u64, engine_bytes: u64, processes: u64) -> u64 {
    let others = engine_bytes + processes * KEPT_BYTES + ram / PAGES_PART;
    ram.saturating_sub(others).max(ram / 4).min(most)
}

/// What is in the pool, in bytes, scaled up from a sample.
#[derive(Default)]
struct Held {
    all: u64,
    /// Copies that may be given up.
    copies: u64,
    /// What LZ4 made, and what did not get smaller.
    quick: u64,
    dense: u64,
}

impl Held {
    fn note(&mut self, pool: Pool<'_>, word: SwapWord) {
        let Content::Blob { blob, length } = word.content() else { return };
        let bytes = u64::from(length);
        self.all += bytes;
        self.copies += if word.is_retained() { bytes } else { 0 };
        let mut first = [0];
        // Who frees it meanwhile makes this sample a little wrong.
        let is_read = pool.read(blob, 1, &mut first);
        match Codec::of(&first).filter(|_| is_read && length as usize != PAGE_BYTES) {
            Some(Codec::Dense) => self.dense += bytes,
            Some(Codec::Words) => (),
            Some(Codec::Lz4) | None => self.quick += bytes,
        }
    }

    fn scaled_to(self, bytes: u64) -> Held {
        let scaled = |part: u64| (part as f64 / self.all.max(1) as f64 * bytes as f64) as u64;
        let (copies, quick, dense) = (scaled(self.copies), scaled(self.quick), scaled(self.dense));
        Held { all: bytes, copies, quick, dense }
    }
}

/// What a page takes in the pool.
fn stored_bytes(counters: Counters<'_>) -> u64 {
    let compressed = counters.get(Counter::Compressed);
    match compressed {
        0 => PAGE_BYTES as u64,
        _ => counters.get(Counter::CompressedBytesOut) / compressed,
    }
}

impl PoolShare {
    pub fn new() -> PoolShare {
        let now = Instant::now();
        let in_vain = InVain { since: now, count: 0, ceiling: None };
        PoolShare {
            looked: now,
            from_file: 0,
            stored: 0,
            unchanged: 0,
            written: 0,
            moved: 0,
            tried: (0, 0),
            sampled: 0,
            distances: [const { Vec::new() }; 2],
            share: Share::default(),
            in_vain,
        }
    }

    /// Chooses the codec and moves the limit of the pool, if it is time; the limit only if the user has not fixed it.
    /// `engine_bytes` is what uswap has beside the pool.
    pub fn follow(&mut self, shared: &Shared, engine_bytes: u64) {
        let elapsed = self.looked.elapsed();
        if elapsed < LOOK {
            return;
        }
        let now = Instant::now();
        self.looked = now;
        let segment = &shared.segment;
        let ram = segment.budget().ram().bytes();
        let (pool, counters) = (segment.pool(), segment.counters());
        let (limit, file) = (pool.limit_bytes(), segment.slots());
        let file_is_nearly_full = file.used() > file.capacity() / 8 * 7;
        let division = self.look(shared);
        let (least, bound) = shared.pool_bounds().into_inner();
        let is_fixed = shared.limits().pool != PoolSize::Auto;
        let beside = with_room_for_pages(bound, ram, engine_bytes, segment.mms().in_use().count() as u64);
        let most = self.in_vain.ceiling(now).map_or(beside, |ceiling| ceiling.min(beside));
        let could_be = if is_fixed { limit } else { most };
        let is_dense = pool.compresses_densely();
        pool.set_compresses_densely(self.share.compresses_densely(division, limit, could_be, is_dense));
        if is_fixed {
            return;
        }
        let must_give_way = self.in_vain.is_too_often(counters.get(Counter::WaitedInVain), now);
        if must_give_way && least < bound && !file_is_nearly_full {
            let less = limit.saturating_sub(ram / YIELD_PART).max((ram / 4).min(bound)).min(limit);
            self.in_vain.ceiling = Some((less, now));
            pool.set_limit_bytes(less);
            return;
        }
        // Beyond: --on-full grow has given it more, since the file is full.
        if limit > bound + ram / YIELD_PART {
            return;
        }
        let wanted = match file_is_nearly_full {
            // It gets nothing more.
            true => (limit + ram / YIELD_PART / 4).min(most).max(limit),
            false => {
                let limit = limit.min(most);
                self.share.limit(division, limit, least.min(most)..=most).unwrap_or(limit)
            }
        };
        // The shrinker may have given it more since.
        if wanted != limit {
            pool.set_limit_bytes(wanted);
        }
    }

    /// What is in the pool, from a sample of the swap table.
    fn held(&mut self, segment: &Segment<'_>) -> Held {
        let (table, pool) = (segment.swap_table(), segment.pool());
        let end = table.touched_entries().max(2);
        let step = (end / SAMPLE).max(1);
        let mut held = Held::default();
        for id in (1 + self.sampled % step..end).step_by(step as usize) {
            held.note(pool, table.load(SwapId::new(id)));
        }
        self.sampled = self.sampled.wrapping_add(1);
        held.scaled_to(pool.resident_bytes())
    }

    /// Counts what happened since the last look.
    fn look(&mut self, shared: &Shared) -> Division {
        let segment = &shared.segment;
        let counters = segment.counters();
        let latency = |source| counters.latency(source);
        let resident_pages = segment.mms().resident_pages();
        // Not the mean: some have waited for room, and the pool must not seem dear because it has none.
        let cost_ns = |source| latency(source).quantile(1, 2) + SIGNAL_NS;
        let held = self.held(segment);
        let division = Division {
            ram: segment.budget().ram().bytes(),
            resident: resident_pages * PAGE_BYTES as u64,
            pool: held.all,
            pool_ns: cost_ns(FaultSource::Pool),
            file_ns: if latency(FaultSource::File).count() < KNOWN {
                FILE_NS
            } else {
                cost_ns(FaultSource::File) + WRITE_NS
            },
            write_ns: WRITE_NS,
            stored_bytes: stored_bytes(counters),
            copies: held.copies,
            quick: held.quick,
            dense: held.dense,
        };
        let since = |before: &mut u64, now: u64| now - core::mem::replace(before, now);
        let faults = Faults {
            from_file: since(&mut self.from_file, latency(FaultSource::File).count()),
            stored: since(&mut self.stored, segment.reuse().stored()),
            unchanged: since(&mut self.unchanged, counters.get(Counter::Unchanged)),
            written: since(
                &mut self.written,
                counters.get(Counter::CopyWritten) + counters.get(Counter::CopyExpected),
            ),
            moved: since(&mut self.moved, counters.get(Counter::CopyMoved)),
            tried: (
                since(&mut self.tried.0, counters.get(Counter::TrialQuickBytes)),
                since(&mut self.tried.1, counters.get(Counter::TrialDenseBytes)),
            ),
        };
        let reuse = segment.reuse();
        let mut counts = |kind: RefaultKind| -> Vec<_> {
            let before = &mut self.distances[kind as usize];
            let counts = reuse.distances(kind).counts();
            before.resize(BUCKETS, 0);
            counts.zip(before).map(|((distances, now), before)| (distances, since(before, now))).collect()
        };
        let both = counts(RefaultKind::Demanded).into_iter().zip(counts(RefaultKind::Prefetched));
        let returns = both.map(|((distances, faults), (_, along))| Returns { distances, faults, along });
        self.share.note(division, faults, returns);
        division
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_some_room_in_a_small_budget() {
        let most = |ram_mib: u64, processes| {
            let ram = ram_mib << 20;
            with_room_for_pages(ram / 10 * 8, ram, 2 << 20, processes)
        };
        assert_eq!(most(64, 1), (64 << 20) / 10 * 8);
        // A pipe of four in 12 MiB: 2 for uswap, 2 for what they keep, 1.5 for their pages.
        assert_eq!(most(12, 4), 13 << 19);
        assert_eq!(most(12, 100), 3 << 20);
    }

    #[test]
    fn faults_that_wait_in_vain_are_noticed_within_a_second() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut in_vain = InVain { since: start, count: 5, ceiling: None };
        assert!(!in_vain.is_too_often(6, at(100)));
        assert!(in_vain.is_too_often(7, at(900)));
        assert!(!in_vain.is_too_often(8, at(1000)));
        assert!(!in_vain.is_too_often(8, at(2000)));
        assert!(!in_vain.is_too_often(9, at(2100)), "one a second is no sign");
        assert!(in_vain.is_too_often(10, at(2200)));
        in_vain.ceiling = Some((7, at(2200)));
        assert_eq!((in_vain.ceiling(at(2300)), in_vain.ceiling(at(70_000))), (Some(7), None));
    }
}
