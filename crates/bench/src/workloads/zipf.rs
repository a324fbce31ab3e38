//! Places of pages that are drawn unevenly: the most popular page often, the rest ever more rarely.
//!
//! What must hold: rank `r` of `n` is drawn with the probability `r^-s / sum(i^-s, i = 1..=n)`, exactly, not nearly;
//! each rank has a page of its own, and ranks that follow each other lie far apart, so that no page profits from its
//! neighbours.

use uswap_units::Prng;

/// Draws ranks by Zipf's law: rejection-inversion (Hörmann and Derflinger, 1996). It needs no table and few draws,
/// whatever the number of ranks.
///
/// The area below `x^-s` is cut at the halves, one piece for each rank. A point of that area drawn evenly falls into
/// the piece of rank `k`; it is kept with the probability (value at `k`) / (area of the piece), tested without drawing
/// again.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    /// Area left of the piece of rank 1, shortened so that rank 1 is always kept.
    area_first: f64,
    /// Area up to the end of the last piece.
    area_end: f64,
    /// Points so near to the rank's own place are kept without calculation.
    surely_kept: f64,
}

impl Zipf {
    /// `ranks` is at least 1; `exponent` is above 0.
    pub fn new(ranks: u64, exponent: f64) -> Zipf {
        assert!(ranks >= 1);
        assert!(exponent > 0.0);
        let mut zipf =
            Zipf { ranks: ranks as f64, exponent, area_first: 0.0, area_end: 0.0, surely_kept: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_end = zipf.area(zipf.ranks + 0.5);
        zipf.surely_kept = 2.0 - zipf.place_of_area(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// The next rank, from 0.
    pub fn draw(&self, random: &mut Prng) -> u64 {
        loop {
            // 53 random bits: a number in 0.0..1.0.
            let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let area = self.area_end + share * (self.area_first - self.area_end);
            let place = self.place_of_area(area);
            let rank = place.round().clamp(1.0, self.ranks);
            if rank - place <= self.surely_kept || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn height(&self, place: f64) -> f64 {
        (-self.exponent * place.ln()).exp()
    }

    /// The integral of the height from 1 to `place`.
    fn area(&self, place: f64) -> f64 {
        let log = place.ln();
        let power = (1.0 - self.exponent) * log;
        // (e^p - 1) / p * log, also where the exponent is 1 and p is 0.
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { power.exp_m1() / power * log }
    }

    /// Where [`Zipf::area`] is `area`.
    fn place_of_area(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let log = if power.abs() < 1e-8 { area * (1.0 - power / 2.0) } else { power.ln_1p() / power * area };
        log.exp()
    }
}

/// A fixed order of `0..count`: each number has one place, near numbers have far places.
#[derive(Clone, Debug)]
pub struct Scatter {
    count: u64,
    bits: u32,
}

impl Scatter {
    /// `count` is at least 1 and below 2^63.
    pub fn new(count: u64) -> Scatter {
        assert!(count >= 1);
        Scatter { count, bits: count.next_power_of_two().ilog2().max(2) }
    }

    /// The place of `number`, which is less than `count`.
    pub fn place(&self, number: u64) -> u64 {
        debug_assert!(number < self.count);
        let mask = (1u64 << self.bits) - 1;
        let mut place = number;
        // Each step can be undone, so no two numbers meet; places behind the end are mixed again, and a cycle always
        // comes back below it.
        loop {
            for factor in [0x9E37_79B9_7F4A_7C15u64, 0xBF58_476D_1CE4_E5B9] {
                place ^= place >> (self.bits / 2);
                place = place.wrapping_mul(factor).wrapping_add(factor >> 32) & mask;
            }
            place ^= place >> (self.bits / 2);
            if place < self.count {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far the counts of draws are from what the law says, as chi-square over the degrees of freedom: near 1 if the
    /// law holds.
    fn misfit(ranks: u64, exponent: f64, draws: u64) -> f64 {
        let zipf = Zipf::new(ranks, exponent);
        let mut random = Prng::new(ranks ^ 42);
        let mut counts = vec![0u64; ranks as usize];
        (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        let whole: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
        // Neighbouring ranks are joined until 50 draws are expected, as the test wants it.
        let (mut sum, mut cells, mut expected, mut found) = (0.0, 0, 0.0, 0);
        for (rank, count) in (1..).zip(counts) {
            expected += draws as f64 * f64::powf(rank as f64, -exponent) / whole;
            found += count;
            if expected >= 50.0 {
                sum += (found as f64 - expected).powi(2) / expected;
                (cells, expected, found) = (cells + 1, 0.0, 0);
            }
        }
        sum / f64::from((cells - 1).max(1))
    }

    #[test]
    fn draws_follow_the_law() {
        for (ranks, exponent) in
            [(2, 0.99), (10, 0.99), (1000, 0.99), (100_000, 0.99), (1000, 1.0), (1000, 1.5), (1000, 0.5)]
        {
            let misfit = misfit(ranks, exponent, 2_000_000);
            // With one degree of freedom chi-square is above 6.6 in one of 100 cases; with many it stays near 1.
            let most = if ranks <= 10 { 4.0 } else { 1.25 };
            assert!(misfit < most, "{ranks} ranks, exponent {exponent}: {misfit}");
        }
    }

    #[test]
    fn the_test_of_the_law_sees_another_exponent() {
        let (right, wrong) = (Zipf::new(1000, 0.99), Zipf::new(1000, 0.95));
        let share = |zipf: &Zipf| {
            let mut random = Prng::new(7);
            (0..1_000_000).filter(|_| zipf.draw(&mut random) == 0).count() as f64 / 1e6
        };
        let whole: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        assert!((share(&right) - 1.0 / whole).abs() < 0.0015);
        assert!((share(&wrong) - 1.0 / whole).abs() > 0.005);
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let (zipf, mut random) = (Zipf::new(1, 0.99), Prng::new(1));
        assert!((0..1000).all(|_| zipf.draw(&mut random) == 0));
    }

    #[test]
    fn scatter_is_an_order_of_all_places() {
        for count in [1, 2, 3, 5, 64, 1000, 4096, 4097, 131_072] {
            let scatter = Scatter::new(count);
            let mut seen = vec![false; count as usize];
            (0..count).for_each(|number| {
                let place = scatter.place(number) as usize;
                assert!(!std::mem::replace(&mut seen[place], true), "{place} of {count} twice");
            });
        }
    }

    #[test]
    fn hot_pages_are_not_neighbours() {
        let scatter = Scatter::new(131_072);
        let mut hot: Vec<u64> = (0..1000).map(|rank| scatter.place(rank)).collect();
        hot.sort_unstable();
        // Even places of 1000 in 131072: gaps of 131; pairs within 8 pages are about one in 17 by chance.
        let near = hot.windows(2).filter(|pair| pair[1] - pair[0] <= 8).count();
        assert!(near < 120, "{near} of 1000 hot pages have a hot neighbour");
    }
}
