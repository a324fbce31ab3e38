//! Intervals by hand, and whether they claim what is true.

use super::*;

fn near(left: f64, right: f64) -> bool {
    (left / right - 1.0).abs() < 1e-9
}

#[test]
fn order_statistics_claim_what_the_binomial_distribution_says() {
    let expected = [
        (5, 1, 0.9375),
        (6, 1, 0.96875),
        (7, 1, 0.984375),
        (8, 2, 1.0 - 2.0 * 9.0 / 256.0),
        (11, 3, 1.0 - 2.0 * 67.0 / 2048.0),
        (15, 4, 1.0 - 2.0 * 576.0 / 32768.0),
    ];
    for (count, rank, coverage) in expected {
        let (found_rank, found_coverage) = order_statistic_rank(count);
        assert_eq!(found_rank, rank, "of {count}");
        assert!(near(found_coverage, coverage), "of {count}: {found_coverage}");
    }
    let (rank, coverage) = order_statistic_rank(5000);
    assert!(rank > 2400 && rank < 2500 && coverage >= 0.9, "{rank} {coverage}");
}

#[test]
fn five_pairs_give_smallest_to_largest() {
    let ratio = of_pairs(&[1.2, 1.5, 1.1, 1.3, 1.4], 0.0).expect("five ratios");
    assert!(near(ratio.ratio, 1.3) && near(ratio.low, 1.1) && near(ratio.high, 1.5), "{ratio:?}");
    assert_eq!(ratio.count, 5);
    assert!(near(ratio.basis.coverage(), 0.9375));
}

#[test]
fn few_pairs_give_students_interval_and_one_an_assumed_one() {
    // Logarithms ±a around 0: standard deviation a * sqrt(2), half width 6.314 * a * sqrt(2) / sqrt(2).
    let ratio = of_pairs(&[1.1, 1.0 / 1.1], 0.0).expect("two ratios");
    assert!(near(ratio.ratio, 1.0) && near(ratio.high, 1.1_f64.powf(6.314)), "{ratio:?}");
    assert_eq!(ratio.basis, Basis::Student);
    // All the same: no wider than they are.
    let same = of_pairs(&[2.0, 2.0, 2.0], 0.0).expect("three ratios");
    assert!(near(same.low, 2.0) && near(same.high, 2.0), "{same:?}");

    let one = of_pairs(&[3.0], 0.05).expect("one ratio");
    assert!(near(one.low, 2.5) && near(one.high, 3.6), "{one:?}");
    assert_eq!(one.basis.coverage(), 0.0);
    let noisy = of_pairs(&[3.0], 0.5).expect("one ratio");
    assert!(near(noisy.high, 6.0), "{noisy:?}");
}

#[test]
fn the_middle_of_an_even_number_is_between_on_the_scale_of_ratios() {
    let ratio = of_pairs(&[0.5, 2.0, 0.25, 4.0], 0.0).expect("four ratios");
    assert!(near(ratio.ratio, 1.0), "{ratio:?}");
}

#[test]
fn what_has_no_logarithm_does_not_count() {
    assert_eq!(of_pairs(&[], 0.0), None);
    assert_eq!(of_pairs(&[0.0, -1.0, f64::NAN, f64::INFINITY], 0.0), None);
    assert_eq!(of_pairs(&[0.0, 2.0], 0.0).expect("one is left").count, 1);
    assert_eq!(of_sides(&[0.0], &[1.0, 2.0], 0.0), None);
    let extreme = of_pairs(&[f64::MAX, f64::MIN_POSITIVE], 0.0).expect("two ratios");
    assert!(extreme.low.is_finite() && extreme.high.is_finite() && extreme.low > 0.0, "{extreme:?}");
}

#[test]
fn rank_sums_have_the_probabilities_of_the_printed_tables() {
    let distribution = rank_sum_distribution(3, 3);
    assert_eq!(distribution.len(), 10);
    assert!(near(distribution.iter().sum(), 1.0));
    // Of the 20 ways to mix 3 and 3: 1, 1, 2, 3, 3, 3, 3, 2, 1, 1.
    for (found, ways) in distribution.iter().zip([1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 2.0, 1.0, 1.0]) {
        assert!(near(*found, ways / 20.0), "{distribution:?}");
    }
    let (rank, coverage) = rank_sum_rank(3, 3).expect("reachable");
    assert!(rank == 1 && near(coverage, 0.9));
    // For 5 against 5 the table says 4 for one-sided 5 %: 12 of 252 ways.
    let (rank, coverage) = rank_sum_rank(5, 5).expect("reachable");
    assert!(rank == 5 && near(coverage, 1.0 - 24.0 / 252.0), "{rank} {coverage}");
    assert_eq!(rank_sum_rank(2, 2), None);
    assert_eq!(rank_sum_rank(1, 18), None, "the longest side for which Student's table must do");
}

#[test]
fn sides_measured_apart() {
    let first = [20.0, 22.0, 24.0];
    let second = [10.0, 11.0, 12.0];
    let ratio = of_sides(&first, &second, 0.0).expect("three each");
    assert!(near(ratio.ratio, 2.0) && near(ratio.low, 20.0 / 12.0) && near(ratio.high, 2.4), "{ratio:?}");
    assert_eq!(of_sides(&[2.0, 2.0], &[1.0, 1.0], 0.0).expect("two each").basis, Basis::Student);
    assert_eq!(of_sides(&[2.0], &[1.0], 0.0).expect("one each").basis, Basis::Assumed);
}

#[test]
fn swapping_the_sides_mirrors_and_a_factor_moves() {
    let mut prng = uswap_units::Prng::new(7);
    for count in 1..=15 {
        let mut draw = || -> Vec<f64> { (0..count).map(|_| 1.0 + prng.below(900) as f64 / 1000.0).collect() };
        let (first, second) = (draw(), draw());
        let pairs = |left: &[f64], right: &[f64]| -> Vec<f64> {
            left.iter().zip(right).map(|(left, right)| left / right).collect()
        };
        let doubled: Vec<f64> = first.iter().map(|value| value * 2.0).collect();
        for (forth, back, moved) in [
            (
                of_pairs(&pairs(&first, &second), 0.02),
                of_pairs(&pairs(&second, &first), 0.02),
                of_pairs(&pairs(&doubled, &second), 0.02),
            ),
            (
                of_sides(&first, &second, 0.02),
                of_sides(&second, &first, 0.02),
                of_sides(&doubled, &second, 0.02),
            ),
        ] {
            let [forth, back, moved] = [forth, back, moved].map(|ratio| ratio.expect("usable"));
            assert!(near(forth.ratio, 1.0 / back.ratio), "{count}: {forth:?} {back:?}");
            assert!(near(forth.low, 1.0 / back.high) && near(forth.high, 1.0 / back.low));
            assert!(forth.low <= forth.ratio && forth.ratio <= forth.high);
            assert!(near(moved.ratio, 2.0 * forth.ratio) && near(moved.low, 2.0 * forth.low));
        }
    }
}

/// The claim itself: equal sides, many times; the interval must hold 1 about as often as it says.
#[test]
fn intervals_hold_the_truth_as_often_as_they_claim() {
    let mut prng = uswap_units::Prng::new(11);
    // Sum of 12 uniform numbers: close to normal.
    let mut normal = || (0..12).map(|_| prng.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
    for count in [2, 3, 4, 5, 8, 15] {
        let trials = 4000;
        let mut held = 0;
        let mut claimed = 0.0;
        for _ in 0..trials {
            let ratios: Vec<f64> = (0..count).map(|_| (0.1 * normal()).exp()).collect();
            let ratio = of_pairs(&ratios, 0.0).expect("usable");
            held += u32::from(ratio.low <= 1.0 && 1.0 <= ratio.high);
            claimed = ratio.basis.coverage();
        }
        let share = f64::from(held) / f64::from(trials);
        assert!(share > claimed - 0.02, "of {count}: held {share}, claimed {claimed}");
        assert!(share < claimed + 0.06, "of {count}: wider than it need be: held {share}, claimed {claimed}");
    }
}
