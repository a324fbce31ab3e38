//! One fixed random number generator, so that a seed stays valid for ever.

/// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, every seed is good.
#[derive(Clone, Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// Starts the sequence of `seed`.
    pub const fn new(seed: u64) -> Prng {
        Prng { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; `bound` is not 0. The bias of the multiplication is below 2^-32 for the bounds used
    /// here.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_of_a_seed_never_changes() {
        let mut prng = Prng::new(1);
        assert_eq!(prng.next_u64(), 0x910A_2DEC_8902_5CC1);
        assert!((0..1000).all(|_| prng.below(7) < 7));
    }
}
