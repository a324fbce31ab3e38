//! Random numbers that are the same on every machine for the same seed. Used by all programs here.

/// Generator of 64-bit numbers (splitmix64: a counter that is mixed; any seed is good, also zero).
#[derive(Clone, Debug)]
pub struct Random {
    counter: u64,
}

impl Random {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { counter: seed }
    }

    /// The next number, all 64 bits of it random.
    pub fn next_number(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.counter)
    }

    /// A number in `0..bound`. `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below 2^-32 for every bound used in these programs.
        ((u128::from(self.next_number()) * u128::from(bound)) >> 64) as u64
    }

    /// An index in `0..count`. `count` must not be 0.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// True once in `times` calls on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Mixes 64 bits so that each input bit changes about half of the output bits.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn same_seed_gives_the_same_numbers() {
        let (mut left, mut right) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| left.next_number() == right.next_number()));
    }

    #[test]
    fn below_reaches_each_number_and_nothing_else() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[random.index(5)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}
