//! How many frames of a zone are kept free: watermarks, what is kept for requests that can use no other zone, and the
//! boost.
//!
//! Pure functions of numbers; `Zone` keeps what they return. As Linux 6.18: `min`, `low` and `high` are of free frames,
//! so `high` is the largest.

use super::ZONES_MAX;

/// Frames that should be free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Below it a request that may wait reclaims for itself.
    pub min: u64,
    /// Below it kswapd is woken.
    pub low: u64,
    /// Above it kswapd sleeps.
    pub high: u64,
}

/// Which level is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// See [`Marks::min`].
    Min,
    /// See [`Marks::low`].
    Low,
    /// See [`Marks::high`].
    High,
}

impl Marks {
    /// One of them.
    pub const fn of(self, mark: Mark) -> u64 {
        match mark {
            Mark::Min => self.min,
            Mark::Low => self.low,
            Mark::High => self.high,
        }
    }
}

/// Steps from `min` to `low` and on to `high`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// A quarter of `min`, and at least a thousandth of the zone: Linux since 4.6.
    Now,
    /// A quarter of `min`: Linux 4.4.
    Before,
}

/// KiB kept free of so many KiB: the square root of 16 times that, from 128 to 262144.
pub fn min_free_kib(total_kib: u64) -> u64 {
    (total_kib * 16).isqrt().clamp(128, 262_144)
}

/// Marks of a zone with so many frames, of which `min` are to be kept free.
pub fn marks(frames: u64, min: u64, spacing: Spacing) -> Marks {
    let step = match spacing {
        Spacing::Now => (min / 4).max(frames / 1000),
        Spacing::Before => min / 4,
    };
    Marks { min, low: min + step, high: min + 2 * step }
}

/// Frames of each zone that requests keep away from if they could use a higher zone: of those zones' frames one in 256,
/// and one in 32 for the third zone.
pub fn kept_for_lower(zone_frames: &[u64], zone: usize) -> [u64; ZONES_MAX] {
    const RATIOS: [u64; ZONES_MAX] = [256, 256, 32, 1];
    let kept = |class: usize| match zone_frames.get(zone + 1..=class) {
        Some(higher) => higher.iter().sum::<u64>() / RATIOS[zone],
        None => 0,
    };
    core::array::from_fn(kept)
}

/// Frames that moving takes on top of what is kept free: twice the run, since holes are taken before frames become
/// free.
pub const fn gap(order: u32) -> u64 {
    2 << order
}

/// How far a request may go below a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Not at all.
    Mark,
    /// To a half.
    Half,
    /// To three eighths: it is urgent and cannot wait.
    ThreeEighths,
    /// To the last frame: who reclaims.
    Nothing,
}

impl Reach {
    /// What is left of `mark`.
    pub const fn lowered(self, mark: u64) -> u64 {
        let half = mark - mark / 2;
        match self {
            Reach::Mark => mark,
            Reach::Half => half,
            Reach::ThreeEighths => half - half / 4,
            Reach::Nothing => 0,
        }
    }
}

/// How a kind behaves that has no free run left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mixing {
    /// It goes first where kinds are mixed already; and if it has to mix them, the marks rise for a time, so that more
    /// room is made.
    Sparing,
    /// It takes the largest run, and nothing follows from that: Linux before 5.0.
    Careless,
}

/// Frames that the high mark rises by when kinds are mixed in a block.
pub const BOOST_STEP: u64 = 512;
/// A zone with fewer blocks is not boosted.
const BOOST_BLOCKS_MIN: u64 = 4;

/// The boost after one more block was mixed: at most half as much again as the high mark, or one block.
pub fn boosted(boost: u64, high: u64, blocks: u64) -> u64 {
    if blocks < BOOST_BLOCKS_MIN { 0 } else { (boost + BOOST_STEP).min((high * 3 / 2).max(BOOST_STEP)) }
}
