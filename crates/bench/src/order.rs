//! In which order the runs happen: all rivals of a round before the next, mixed anew in each round, so that what
//! changes on the machine meets all of them.

use uswap_units::Prng;

/// Which rival runs on which workload, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn {
    /// Number of the round.
    pub round: u32,
    /// Number of the workload.
    pub workload: usize,
    /// Number of the rival.
    pub rival: usize,
}

/// All turns. Runs of one workload stay together within a round: those are compared with each other.
pub fn order(rounds: u32, workloads: usize, rivals: usize, seed: u64) -> Vec<Turn> {
    let mut random = Prng::new(seed);
    let mut turns = Vec::new();
    for round in 0..rounds {
        for workload in shuffled(workloads, &mut random) {
            for rival in shuffled(rivals, &mut random) {
                turns.push(Turn { round, workload, rival });
            }
        }
    }
    turns
}

fn shuffled(count: usize, random: &mut Prng) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_comes_once_and_the_seed_decides_the_order() {
        let turns = order(3, 4, 5, 7);
        let mut sorted = turns.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 60);
        assert_ne!(turns, sorted);
        assert_eq!(turns, order(3, 4, 5, 7));
        assert_ne!(turns, order(3, 4, 5, 8));
    }

    #[test]
    fn rounds_follow_each_other_and_runs_that_are_compared_are_neighbours() {
        let turns = order(2, 3, 4, 1);
        assert!(turns.windows(2).all(|pair| pair[0].round <= pair[1].round));
        for together in turns.chunks(4) {
            assert!(together.iter().all(|turn| turn.workload == together[0].workload));
        }
    }
}
