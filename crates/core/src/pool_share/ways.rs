//! With which codec and with how many copies the pool does best (docs/adr/0025, docs/adr/0026).
//!
//! A page that keeps its copy goes again without being compressed, if nobody has written it; but a pool that holds more
//! than [`COPIES_SIXTEENTHS`] of its limit keeps none. And what the dense codec makes is smaller and dearer. So there
//! are four ways. What is compared is where the pool would come to in the end with each of them: how much would be
//! mapped, how many faults there would be then, and the work for each.
//!
//! Must hold: the codec in use stays as long as too little is known. The dense one is taken only if quick would cost
//! more than 1.1 times as much, and left only if dense costs at least 1.3 times as much. Called by
//! [`crate::pool_share`], for how pages are compressed and for how many copies are kept.

use super::{
    COMPRESS_NS, COPIES_SIXTEENTHS, DENSE_LOAD_NS, DENSE_NS, Division, FAULTS_MIN, LOOKS_MIN, Prices,
    QUICK_SIXTEENTHS, STEPS, Share, TRIED_MIN,
};

/// The dense codec must be so much cheaper to be taken; and quick again, to be taken instead. It is where one begins:
/// what it spares where it is right is more than what it costs where it is not.
const GAIN_DENSE: f64 = 1.1;
const GAIN_QUICK: f64 = 1.3;

/// It is left after so many looks that have seen faults: before, programs still come to where they will be.
const LOOKS_QUICK: u32 = 30;

/// The part of the work of another processor, if there is one, that counts as the program's.
const BESIDE: f64 = 0.75;

/// Faults must cost so much less with copies for which the pool needs a larger limit.
const GAIN_COPIES: f64 = 1.05;

/// What is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Way {
    /// All text is compressed densely.
    is_dense: bool,
    /// There is room for the copies of mapped pages.
    keeps_copies: bool,
}

/// Where a way leads.
struct End {
    /// Bytes that are mapped.
    resident: f64,
    /// Bytes of the pool.
    pool: f64,
    /// The part of the text that is dense.
    dense: f64,
}

fn sixteenths(bytes: u64, count: u64) -> f64 {
    (bytes / 16 * count) as f64
}

impl Division {
    /// The part of the pool that could be made by either of the two codecs, and how much of that is dense.
    fn text(&self) -> (f64, f64) {
        let both = (self.quick + self.dense) as f64;
        (both / (self.pool as f64).max(both).max(1.0), self.dense as f64 / both.max(1.0))
    }

    /// Whether copies are kept with this limit.
    fn keeps_copies(&self, limit: u64) -> bool {
        self.pool <= limit / 16 * COPIES_SIXTEENTHS
    }
}

impl Share {
    /// Whether all that is stored should be compressed densely, when it `is` now and the pool's limit is this and could
    /// be `most`.
    pub fn compresses_densely(&self, now: Division, limit: u64, most: u64, is: bool) -> bool {
        let looks_min = if is { LOOKS_QUICK } else { LOOKS_MIN };
        let knows = self.tried.0 >= TRIED_MIN && self.busy_looks >= looks_min;
        let Some(prices) = self.prices(now).filter(|_| knows) else { return is };
        // What is made by the codec that is not in use fits in what there is.
        let could_be = |is_dense| if is_dense == is { most } else { limit };
        let best = |is_dense| {
            let limits = (limit, could_be(is_dense));
            let ns = |keeps_copies| self.cost(now, &prices, limits, Way { is_dense, keeps_copies });
            [ns(false), ns(true)].into_iter().flatten().fold(f64::INFINITY, f64::min)
        };
        let (dense_ns, quick_ns) = (best(true), best(false));
        if is { dense_ns < quick_ns * GAIN_QUICK } else { dense_ns * GAIN_DENSE < quick_ns }
    }

    /// The limit with which the pool would keep the copies that it does not keep now, in bytes, if that pays; `limit`
    /// is that of now, and could be `most`.
    pub(super) fn limit_for_copies(
        &self,
        now: Division,
        prices: &Prices,
        limit: u64,
        most: u64,
    ) -> Option<u64> {
        let came_back = self.written + self.unchanged + self.moved;
        if now.keeps_copies(limit) || came_back < FAULTS_MIN || self.busy_looks < LOOKS_MIN {
            return None;
        }
        let (_, dense) = now.text();
        let way = |keeps_copies| Way { is_dense: dense > 0.5, keeps_copies };
        let cost = |keeps_copies| self.cost(now, prices, (limit, most), way(keeps_copies));
        let pays = cost(true)? * GAIN_COPIES < cost(false)?;
        let pool = self.end(now, most, way(true))?.pool;
        // What it holds goes up and down by some pages.
        let wanted = pool * 16.0 / COPIES_SIXTEENTHS as f64 + (now.ram / STEPS) as f64;
        pays.then_some((wanted as u64).min(most))
    }

    /// Of the pages that come back, the part that must be compressed when they go again although copies are kept.
    fn written(&self) -> f64 {
        self.written / (self.written + self.unchanged + self.moved).max(1.0)
    }

    /// Where a way leads with a limit of `most`. None: there is no room for it.
    fn end(&self, now: Division, most: u64, way: Way) -> Option<End> {
        let (pool, copies, density) = (now.pool as f64, now.copies as f64, self.density());
        let (quick, dense) = (now.quick as f64, now.dense as f64);
        let all = match way.is_dense {
            true => pool - quick * (1.0 - density),
            false => pool + dense * (1.0 / density - 1.0),
        };
        let scale = all / pool.max(1.0);
        let page = now.stored_bytes as f64 / 4096.0 * scale;
        // What is mapped and the pool share the same room. A page that is not mapped any more takes its part of the
        // pool; one that is, that of its copy.
        let of_mapped = if way.keeps_copies { page * (1.0 - self.written()) } else { 0.0 };
        let room = now.resident as f64 * (1.0 - page) + pool - (pool - copies) * scale;
        let resident = room / (1.0 - page + of_mapped).max(0.1);
        let end =
            End { resident, pool: now.resident as f64 + pool - resident, dense: f64::from(way.is_dense) };
        let bound = sixteenths(most, if way.keeps_copies { COPIES_SIXTEENTHS } else { QUICK_SIXTEENTHS });
        match end.pool <= bound {
            true => Some(end),
            false if way.keeps_copies => None,
            // Part of it is dense then, or in the file.
            false => {
                let (_, dense) = now.text();
                let quick = ((bound - pool) / (all - pool).max(1.0)).clamp(0.0, 1.0);
                let dense = if way.is_dense { 1.0 } else { dense * (1.0 - quick) };
                Some(End { resident: now.resident as f64 + pool - bound, pool: bound, dense })
            }
        }
    }

    /// What faults would cost with this, in ns.
    fn cost(&self, now: Division, prices: &Prices, (limit, most): (u64, u64), way: Way) -> Option<f64> {
        // Copies are what a larger limit is for.
        let end = self.end(now, if way.keeps_copies { most } else { limit }, way)?;
        let seen = prices.below(prices.resident).max(1.0);
        let anew = (self.stored - self.unchanged) / seen;
        let anew = match way.keeps_copies {
            true => anew - self.moved / seen,
            false if now.keeps_copies(limit) => anew + self.unchanged / seen,
            false => anew,
        };
        let (text, dense) = now.text();
        let load_ns = prices.ns.0 + text * (end.dense - dense) * DENSE_LOAD_NS;
        let compress_ns = BESIDE * (COMPRESS_NS + text * end.dense * DENSE_NS);
        let faults = prices.with_room((end.resident - now.resident as f64) * STEPS as f64 / now.ram as f64);
        Some(faults * (load_ns + anew.clamp(0.0, 1.0) * compress_ns))
    }
}
