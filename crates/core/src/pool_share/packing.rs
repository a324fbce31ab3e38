//! Whether all that is stored should be compressed densely (docs/adr/0025).

use super::{COMPRESS_NS, DENSE_LOAD_NS, DENSE_NS, Division, Prices, STEPS, Share, TRIED_MIN};

/// What is compressed otherwise must be so much cheaper.
const GAIN_CODEC: f64 = 1.1;

/// While a program fills its memory, what comes back says little about what will: so many looks are waited for.
const LOOKS_MIN: u32 = 10;

/// Copies are kept while the pool holds less of its limit.
const KEEPS_COPIES: f64 = 14.0 / 16.0;

/// While it holds more of it, all is compressed densely anyway.
const QUICK_UP_TO: f64 = 15.0 / 16.0;

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
    pub fn packs_densely(&self, now: Division, limit: u64, is: bool) -> bool {
        let knows = self.tried.0 >= TRIED_MIN && self.busy_looks >= LOOKS_MIN;
        let Some(prices) = self.prices(now).filter(|_| knows) else { return is };
        let faults = prices.below(prices.resident).max(1.0);
        let anew = ((self.stored - self.unchanged) / faults).clamp(0.0, 1.0);
        let dense_ns = self.dense_ns(now, &prices, limit, anew);
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
        let (text, packed) = now.text();
        let saves = now.quick as f64 * (1.0 - self.density());
        let page = now.stored_bytes as f64 / 4096.0 * (1.0 - text * (1.0 - packed) * (1.0 - self.density()));
        let more_copies = (now.resident as f64 * (1.0 - self.written()) * page - now.copies as f64).max(0.0);
        let pool = now.pool as f64 - saves;
        let keeps = pool + more_copies < limit as f64 * KEEPS_COPIES;
        let (room, anew) =
            if keeps { (saves - more_copies, self.written().min(anew)) } else { (saves, anew) };
        let load_ns = prices.ns.0 + text * (1.0 - packed) * DENSE_LOAD_NS;
        let faults = prices.with_room(room * STEPS as f64 / now.ram as f64);
        faults * (load_ns + anew * (COMPRESS_NS + text * DENSE_NS))
    }

    /// The same if it were compressed quickly, as far as the pool has room for that.
    fn quick_ns(&self, now: Division, prices: &Prices, limit: u64, anew: f64) -> f64 {
        let (text, packed) = now.text();
        let grows = now.dense as f64 * (1.0 / self.density() - 1.0);
        let has_room = (limit as f64 * QUICK_UP_TO - now.pool as f64).clamp(0.0, grows);
        let packed_then = packed * (1.0 - has_room / grows.max(1.0));
        let keeps = now.pool as f64 + has_room < limit as f64 * KEEPS_COPIES;
        let anew = if keeps { self.written().min(anew) } else { anew };
        let load_ns = prices.ns.0 - text * (packed - packed_then) * DENSE_LOAD_NS;
        let faults = prices.with_room(-has_room * STEPS as f64 / now.ram as f64);
        faults * (load_ns + anew * (COMPRESS_NS + text * packed_then * DENSE_NS))
    }
}
