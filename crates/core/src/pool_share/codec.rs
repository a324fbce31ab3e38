//! Whether all that is stored should be compressed densely (docs/adr/0025).

use super::{
    COMPRESS_NS, COPIES_SIXTEENTHS, DENSE_LOAD_NS, DENSE_NS, Division, Prices, QUICK_SIXTEENTHS, STEPS,
    Share, TRIED_MIN,
};

/// What is compressed otherwise must be so much cheaper.
const GAIN_CODEC: f64 = 1.1;

/// While a program fills its memory, what comes back says little about what will: so many looks are waited for.
const LOOKS_MIN: u32 = 10;

/// Part of its limit that the pool holds.
fn sixteenths(limit: u64, count: u64) -> f64 {
    (limit / 16 * count) as f64
}

impl Division {
    /// The part of the pool that could be made by either of the two codecs, and how much of that is dense.
    fn text(&self) -> (f64, f64) {
        let both = (self.quick + self.dense) as f64;
        (both / (self.pool as f64).max(both).max(1.0), self.dense as f64 / both.max(1.0))
    }
}

impl Share {
    /// Whether all that is stored should be compressed densely, when it `is` now and the pool's limit is this. What is
    /// compared is where the pool would come to in the end with the one codec and with the other.
    pub fn compresses_densely(&self, now: Division, limit: u64, is: bool) -> bool {
        let knows = self.tried.0 >= TRIED_MIN && self.busy_looks >= LOOKS_MIN;
        let Some(prices) = self.prices(now).filter(|_| knows) else { return is };
        let faults = prices.below(prices.resident).max(1.0);
        let anew = ((self.stored - self.unchanged) / faults).clamp(0.0, 1.0);
        let dense_ns = self.dense_ns(now, &prices, limit, anew);
        // How many would have to be compressed without copies is not seen while they are kept: all, at most.
        let quick_ns = self.quick_ns(now, &prices, limit, if is { 1.0 } else { anew });
        if is { dense_ns < quick_ns * GAIN_CODEC } else { dense_ns * GAIN_CODEC < quick_ns }
    }

    /// Of the pages that come back, the part that must be compressed when they go again although copies are kept.
    fn written(&self) -> f64 {
        self.written / (self.written + self.unchanged).max(1.0)
    }

    /// What faults would cost if all that can be were compressed densely; without copies this part of the pages that go
    /// is compressed.
    fn dense_ns(&self, now: Division, prices: &Prices, limit: u64, anew: f64) -> f64 {
        let (text, dense) = now.text();
        let saves = now.quick as f64 * (1.0 - self.density());
        let page = now.stored_bytes as f64 / 4096.0 * (1.0 - text * (1.0 - dense) * (1.0 - self.density()));
        let more_copies = (now.resident as f64 * (1.0 - self.written()) * page - now.copies as f64).max(0.0);
        let pool = now.pool as f64 - saves;
        let keeps = pool + more_copies < sixteenths(limit, COPIES_SIXTEENTHS);
        let (room, anew) =
            if keeps { (saves - more_copies, self.written().min(anew)) } else { (saves, anew) };
        let load_ns = prices.ns.0 + text * (1.0 - dense) * DENSE_LOAD_NS;
        let faults = prices.with_room(room * STEPS as f64 / now.ram as f64);
        faults * (load_ns + anew * (COMPRESS_NS + text * DENSE_NS))
    }

    /// The same if all were compressed quickly, as far as the pool has room for that.
    fn quick_ns(&self, now: Division, prices: &Prices, limit: u64, anew: f64) -> f64 {
        let (text, dense) = now.text();
        let grows = now.dense as f64 * (1.0 / self.density() - 1.0);
        let has_room = (sixteenths(limit, QUICK_SIXTEENTHS) - now.pool as f64).clamp(0.0, grows);
        let dense_then = dense * (1.0 - has_room / grows.max(1.0));
        let keeps = now.pool as f64 + has_room < sixteenths(limit, COPIES_SIXTEENTHS);
        let anew = if keeps { self.written().min(anew) } else { anew };
        let load_ns = prices.ns.0 - text * (dense - dense_then) * DENSE_LOAD_NS;
        let faults = prices.with_room(-has_room * STEPS as f64 / now.ram as f64);
        faults * (load_ns + anew * (COMPRESS_NS + text * dense_then * DENSE_NS))
    }
}
