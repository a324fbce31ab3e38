//! How much of the budget the pool should have, from what faults were seen to cost.
//!
//! All pages are one stack, the latest used on top: those that are mapped, then what is in the pool, then what is in
//! the file. A fault comes from a *depth*: the pages that are mapped, and those that were stored after it and are not
//! back. With another division the same fault would have come from the same depth; so for each size of the pool one can
//! say how many faults there would not have been, and how many would have come from the pool and from the file.
//! (Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", 1970.)
//!
//! What is known of a fault is its reuse distance: how many pages were stored after it, those included that came back
//! and were stored again. How many of the last so many are still out follows from how soon pages come back (as Denning
//! and Schwartz reckon the size of a working set, 1972).
//!
//! A pool that is not yet packed as tightly as it can be has something to give before anything goes to the file:
//! copies of mapped pages, which have to be compressed again then, and what the dense codec would save. Both cost a
//! little work for each page, where the file costs a read for some.
//!
//! The same is asked of the dense codec and of the copies of mapped pages (`ways`): where a little more room spares
//! many faults it pays to compress all that is stored densely, however much room there is; and where most pages go
//! unchanged it pays to have room for their copies.
//!
//! What is not used in that order makes this an estimate; what was seen counts half after two seconds, and the limit
//! goes in small steps.
//!
//! Must hold: at one look the limit goes up by at most two 64ths of the budget, and nothing is said while fewer than 64
//! faults are remembered. Called by the supervisor, which measures and sets the limit, and by `engine`, which goes by
//! the sixteenths that are named here.

mod ways;

use crate::histogram::BUCKETS;
use crate::reuse::BUDGET_PARTS;
use core::cmp::Ordering;
use core::ops::RangeInclusive;

/// Depths are told apart by 64ths of the budget, up to sixteen budgets.
const STEPS: u64 = 64;
const DEPTHS: usize = 16 * STEPS as usize;

/// Of what was seen, so much is left at the next look: half after two seconds of ten looks each.
const LEFT: f64 = 0.966;

/// How much less a better size must cost, for one step; and for two.
const GAIN_MIN: f64 = 1.03;
const GAIN_FAST: f64 = 1.2;

/// A pool of less than half the budget must be so much cheaper, to get there and to stay there: what is written must be
/// read again if this was wrong, and programs have phases.
const MARGIN_SMALL: f64 = 1.3;
const MARGIN_STAY: f64 = 1.15;

/// What it costs to compress a page again, or densely instead of quickly, and to load what is dense: on a processor
/// that is needed otherwise.
const COMPRESS_NS: f64 = 10_000.0;
const DENSE_NS: f64 = 7_000.0;
const DENSE_LOAD_NS: f64 = 3_500.0;

/// Copies of mapped pages are kept while the pool holds no more sixteenths of its limit, and what is stored is
/// compressed quickly while it holds no more than the second number.
pub const COPIES_SIXTEENTHS: u64 = 14;
/// See [`COPIES_SIXTEENTHS`].
pub const QUICK_SIXTEENTHS: u64 = 15;

/// What it makes of a byte of LZ4's (docs/adr/0006).
const DENSITY: f64 = 0.75;

/// With less than so many bytes tried nothing is known of what the dense codec makes.
const TRIED_MIN: f64 = 16.0 * 4096.0;

/// While a program fills its memory, what comes back says little about what will: so many looks with faults are waited
/// for until the room for copies is chosen.
const LOOKS_MIN: u32 = 10;

/// With fewer faults nothing is said.
const FAULTS_MIN: f64 = 64.0;

/// What is seen at one look.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// The budget.
    pub ram: u64,
    /// Bytes that are mapped.
    pub resident: u64,
    /// Bytes of the pool.
    pub pool: u64,
    /// What a fault from the pool costs, in ns, and one from the file.
    pub pool_ns: u64,
    /// See `pool_ns`.
    pub file_ns: u64,
    /// What it costs to write a page, in ns.
    pub write_ns: u64,
    /// Bytes that a page takes in the pool.
    pub stored_bytes: u64,
    /// Bytes of the pool with copies of mapped pages, which may be given up.
    pub copies: u64,
    /// Bytes of the pool that LZ4 or nothing made, and those that the dense codec made.
    pub quick: u64,
    /// See `quick`.
    pub dense: u64,
}

/// Faults since the look before.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// From the file.
    pub from_file: u64,
    /// Pages that were stored.
    pub stored: u64,
    /// Of them, those that went with the copy that they had.
    pub unchanged: u64,
    /// Pages that came back, and were written or are expected to be.
    pub written: u64,
    /// Pages that came back, and whose copies were given up since the pool was short of room.
    pub moved: u64,
    /// What LZ4 and the dense codec made of the same pages, in bytes.
    pub tried: (u64, u64),
}

/// Stored pages that came back from distances of one bucket since the look before.
#[derive(Clone, Debug)]
pub struct Returns {
    /// The distances, in [`BUDGET_PARTS`].
    pub distances: RangeInclusive<u64>,
    /// Pages that came by a fault of their own.
    pub faults: u64,
    /// Pages that came along with others.
    pub along: u64,
}

/// What was seen, the older the less.
pub struct Share {
    /// Faults on stored pages by their depth, in steps.
    depths: [f64; DEPTHS],
    from_file: f64,
    /// Pages that were stored, and those that came back by the buckets of their distances.
    stored: f64,
    unchanged: f64,
    written: f64,
    moved: f64,
    tried: (f64, f64),
    /// Looks at which enough faults had come since the one before.
    busy_looks: u32,
    returns: [f64; BUCKETS],
    /// Bytes of the pool at the last look, and whether it had grown since the one before by more than a step.
    pool: u64,
    grows: bool,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            depths: [0.0; DEPTHS],
            from_file: 0.0,
            stored: 0.0,
            unchanged: 0.0,
            written: 0.0,
            moved: 0.0,
            tried: (0.0, 0.0),
            busy_looks: 0,
            returns: [0.0; BUCKETS],
            pool: 0,
            grows: true,
        }
    }
}

impl Share {
    /// Counts what was seen since the look before; `returns` in the order of their distances, a bucket of the histogram
    /// each.
    pub fn note(&mut self, now: Division, faults: Faults, returns: impl Iterator<Item = Returns>) {
        self.grows = now.pool > self.pool + now.ram / STEPS;
        self.pool = now.pool;
        self.depths.iter_mut().for_each(|count| *count *= LEFT);
        let older = |before: f64, new: u64| before * LEFT + new as f64;
        self.from_file = older(self.from_file, faults.from_file);
        self.stored = older(self.stored, faults.stored);
        self.unchanged = older(self.unchanged, faults.unchanged);
        self.written = older(self.written, faults.written);
        self.moved = older(self.moved, faults.moved);
        self.tried = (older(self.tried.0, faults.tried.0), older(self.tried.1, faults.tried.1));
        let steps_a_part = STEPS as f64 / BUDGET_PARTS as f64;
        let mut depth = now.resident as f64 * STEPS as f64 / now.ram as f64;
        let mut came_back = 0.0;
        let mut all = 0;
        for (Returns { distances, faults, along }, before) in returns.zip(&mut self.returns) {
            *before = older(*before, faults + along);
            all += faults;
            let end = came_back + *before;
            // Half of those that come back from here are back before the middle.
            let still_out = (1.0 - (came_back + end) / 2.0 / self.stored.max(end).max(1.0)).max(0.0);
            let deeper = depth + distances.count() as f64 * steps_a_part * still_out;
            spread(&mut self.depths, faults, depth, deeper);
            (came_back, depth) = (end, deeper);
        }
        self.busy_looks = self.busy_looks.saturating_add(u32::from(all as f64 >= FAULTS_MIN));
    }

    /// What there is to choose from. None: too little was seen.
    fn prices(&self, now: Division) -> Option<Prices> {
        let mut below = [0.0; DEPTHS + 1];
        for depth in (0..DEPTHS).rev() {
            below[depth] = below[depth + 1] + self.depths[depth];
        }
        if below[0] < FAULTS_MIN {
            return None;
        }
        let steps = |bytes: u64| bytes as f64 * STEPS as f64 / now.ram as f64;
        let (resident, pool) = (steps(now.resident), steps(now.pool).max(1.0));
        let reaches = (depth_of(&below, self.from_file) - resident).max(0.0);
        let copies = steps(now.copies).min(pool / 2.0);
        let dense = steps(self.dense_saves(now)).min(pool / 4.0);
        let again_ns = self.unchanged.min(self.stored) * COMPRESS_NS;
        let dense_ns = (self.stored - self.unchanged).max(0.0) * DENSE_NS + below[0] * DENSE_LOAD_NS;
        Some(Prices {
            below,
            resident,
            pool,
            gives: [(copies, again_ns), (dense, dense_ns)],
            reaches,
            ns: (now.pool_ns as f64, now.file_ns as f64),
        })
    }

    /// What the dense codec makes of a byte of what it would be used for. Before that is known, what it makes of most.
    fn density(&self) -> f64 {
        let (quick, dense) = self.tried;
        if quick < TRIED_MIN { DENSITY } else { (dense / quick).clamp(0.1, 1.0) }
    }

    /// Bytes of the pool that the dense codec would save, of what cannot be given up otherwise.
    fn dense_saves(&self, now: Division) -> u64 {
        let kept = 1.0 - now.copies as f64 / now.pool.max(now.copies).max(1) as f64;
        (now.quick as f64 * kept * (1.0 - self.density())) as u64
    }

    /// What it costs to make the pool so much smaller by writing, beyond what it can give otherwise.
    fn writing_ns(&self, now: Division, bytes: u64) -> f64 {
        let written = bytes.saturating_sub(now.copies + self.dense_saves(now));
        written as f64 / now.stored_bytes.max(1) as f64 * now.write_ns as f64
    }

    /// The limit of the pool for the next look, in bytes; `limit` is that of now. None: there is nothing to say.
    pub fn limit(&self, now: Division, limit: u64, bounds: RangeInclusive<u64>) -> Option<u64> {
        let prices = self.prices(now)?;
        let step = now.ram / STEPS;
        let sizes = bounds.start().div_ceil(step).max(1)..=bounds.end() / step;
        let size = limit.min(now.pool) / step;
        let (cost, at_all) = prices.cheapest(sizes.clone())?;
        let large = prices.cheapest((*sizes.start()).max(STEPS / 2)..=*sizes.end());
        let margin = if size < STEPS / 2 { MARGIN_STAY } else { MARGIN_SMALL };
        let (cost, best) = large.filter(|(large, _)| *large <= margin * cost).unwrap_or((cost, at_all));
        let cost_now = prices.cost(size);
        let gain = cost_now / cost.max(1.0);
        let steps = if gain > GAIN_FAST { 2 } else { u64::from(gain > GAIN_MIN) };
        if let Some(wanted) = self.limit_for_copies(now, &prices, limit, *bounds.end()) {
            return Some(limit.max((limit + 2 * step).min(wanted)));
        }
        // A pool that does not use what it has needs no more. From seven eighths on copies are
        // given up for its sake.
        let at_its_limit = now.pool > limit / 4 * 3;
        Some(match best.cmp(&size) {
            Ordering::Greater if at_its_limit => limit.max((limit + steps * step).min(best * step)),
            // What must be written for it must be worth that.
            Ordering::Less if cost_now - cost > self.writing_ns(now, steps * step) => {
                // A pool that is being filled will need its limit soon; another one never.
                let from = if self.grows { limit } else { size * step };
                from.saturating_sub(steps * step).max(best * step).min(limit)
            }
            _ => limit,
        })
    }
}

/// What the faults that were seen would have cost with pools of other sizes. All sizes and depths in steps.
struct Prices {
    /// Faults from each depth and below it.
    below: [f64; DEPTHS + 1],
    resident: f64,
    pool: f64,
    /// What can be given before anything goes to the file, in this order, and what the work for it costs with as many
    /// faults as there are.
    gives: [(f64, f64); 2],
    /// How far behind what is mapped the pool reaches.
    reaches: f64,
    /// Of a fault from the pool, and from the file.
    ns: (f64, f64),
}

impl Prices {
    /// Faults from below a depth, which may lie in a step.
    fn below(&self, depth: f64) -> f64 {
        let whole = (depth.max(0.0) as usize).min(DEPTHS);
        let next = (whole + 1).min(DEPTHS);
        self.below[whole] - (self.below[whole] - self.below[next]) * (depth.max(0.0) - whole as f64).min(1.0)
    }

    /// Faults with room for so many steps of mapped pages more. What is mapped may be missed by as many faults as so
    /// much room spares behind it.
    fn with_room(&self, steps: f64) -> f64 {
        let now = self.below(self.resident);
        match steps < 0.0 {
            true => now + (now - self.below(self.resident - steps)),
            false => self.below(self.resident + steps),
        }
    }

    /// With a pool of so many steps, in ns.
    fn cost(&self, pool: u64) -> f64 {
        let more = self.pool - pool as f64;
        let mut left = more.max(0.0);
        let mut work_ns = 0.0;
        for (gives, ns) in self.gives {
            let given = left.min(gives);
            work_ns += if gives > 0.0 { ns * given / gives } else { 0.0 };
            left -= given;
        }
        // What the pool holds shrinks with what could not be given otherwise.
        let packed = (self.pool - self.gives[0].0 - self.gives[1].0).max(1.0);
        let part = if more > 0.0 { 1.0 - left / packed } else { pool as f64 / self.pool };
        let (mapped, held) = (self.resident + more, self.reaches * part.max(0.0));
        let from_file = self.below(mapped + held);
        let faults = self.below(mapped.max(self.resident));
        let work_ns = work_ns * faults / self.below(self.resident).max(1.0);
        self.ns.0 * (faults - from_file) + self.ns.1 * from_file + work_ns
    }

    /// The least cost, and the smallest size that has it.
    fn cheapest(&self, sizes: RangeInclusive<u64>) -> Option<(f64, u64)> {
        let priced = sizes.map(|size| (self.cost(size), size));
        priced.min_by(|(a, _), (b, _)| a.total_cmp(b))
    }
}

/// The depth in steps below which so many faults came from.
fn depth_of(below: &[f64; DEPTHS + 1], faults: f64) -> f64 {
    below.partition_point(|&count| count > faults) as f64
}

/// Counts faults alike over the depths from one to another, in steps.
fn spread(depths: &mut [f64; DEPTHS], faults: u64, from: f64, to: f64) {
    if faults == 0 {
        return;
    }
    let step = |depth: f64| (depth as usize).min(DEPTHS - 1);
    let among = step(from)..=step(to);
    let each = faults as f64 / among.clone().count() as f64;
    depths[among].iter_mut().for_each(|count| *count += each);
}

#[cfg(all(test, not(loom)))]
mod tests;
