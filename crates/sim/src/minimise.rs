//! Looks for a smaller run that still fails: takes parts of a run away, one after the other, lowers its numbers, and
//! begins again until nothing more can be taken away.
//!
//! Whatever is taken away changes who runs when, and a bug may need one order of many. So each smaller run is tried in
//! some more orders.
//!
//! What must hold: what is said to fail was played as it is said, and failed. It need not fail in the same way as the
//! first; what failed is told each time.

use crate::case::Case;
use crate::options::Mix;
use crate::reduction::{NUMBERS, Number, Part};
use anyhow::{Result, bail};
use clap::ValueEnum as _;

/// A smaller run is tried in so many orders beside the one of the last that failed.
const OTHER_SCHEDULES: u64 = 3;

/// A run that fails, and is smaller than the one before.
pub struct Smaller<'s> {
    /// Runs that were played until then.
    pub runs: u64,
    /// What was taken away.
    pub what: &'s str,
    /// What failed.
    pub failure: &'s str,
}

/// The smallest run that was found.
#[derive(Debug)]
pub struct Smallest {
    /// It.
    pub case: Case,
    /// What failed.
    pub failure: String,
    /// Runs that were played.
    pub runs: u64,
    /// Nothing more can be taken away from it. If not, the runs were used up.
    pub is_complete: bool,
}

/// Looks for a smaller run than `case` that fails, and plays `runs_max` at most. `play` says what failed, if anything
/// did; `tell` gets each success. An error if `case` does not fail.
pub fn minimise(
    case: Case,
    runs_max: u64,
    play: impl FnMut(&Case) -> Result<Option<String>>,
    tell: impl FnMut(Smaller<'_>),
) -> Result<Smallest> {
    let mut search =
        Search { case, failure: String::new(), runs: 1, runs_max, is_cut_short: false, play, tell };
    let Some(failure) = (search.play)(&search.case)? else {
        bail!(
            "seed {} does not fail with these options, so there is nothing to minimise: give the options with which \
             it failed, and use the same build",
            search.case.seed
        );
    };
    search.failure = failure;
    let ways = all_ways();
    let mut fruitless = 0;
    for way in ways.iter().cycle() {
        if fruitless == ways.len() || search.is_cut_short {
            break;
        }
        fruitless = if search.reduce(way)? { 0 } else { fruitless + 1 };
    }
    let Search { case, failure, runs, is_cut_short, .. } = search;
    Ok(Smallest { case, failure, runs, is_complete: !is_cut_short })
}

/// A way to make a run smaller.
enum Way {
    Without(Part),
    Lower(&'static Number),
    FewerHours,
}

fn all_ways() -> Vec<Way> {
    let without = Part::value_variants().iter().map(|part| Way::Without(*part));
    let lower = NUMBERS.iter().map(Way::Lower);
    without.chain(lower).chain([Way::FewerHours]).collect()
}

/// The smallest run so far, and how to go on.
struct Search<P, T> {
    case: Case,
    failure: String,
    runs: u64,
    runs_max: u64,
    /// Something was not tried, because there were no runs left for it.
    is_cut_short: bool,
    play: P,
    tell: T,
}

impl<P: FnMut(&Case) -> Result<Option<String>>, T: FnMut(Smaller<'_>)> Search<P, T> {
    /// Whether this way made the run smaller.
    fn reduce(&mut self, way: &Way) -> Result<bool> {
        match way {
            Way::Without(part) => {
                let smaller = Case { reduction: self.case.reduction.and_without(*part), ..self.case.clone() };
                self.try_smaller(smaller, &format!("without {}", part.name()))
            }
            Way::Lower(number) => {
                let now = (number.of)(&self.case.options());
                self.lower(now, number.least, |case, to| {
                    let reduction = case.reduction.and_at_most(number, to);
                    (Case { reduction, ..case.clone() }, format!("{} {now} -> {to}", number.name))
                })
            }
            Way::FewerHours => {
                let Mix::Soak { hours: now } = self.case.mix else { return Ok(false) };
                self.lower(now, 1, |case, to| {
                    (Case { mix: Mix::Soak { hours: to }, ..case.clone() }, format!("hours {now} -> {to}"))
                })
            }
        }
    }

    /// Lowers a number: at first to the least, then by half of what there is, and so on down to one.
    fn lower(
        &mut self,
        now: u64,
        least: u64,
        smaller: impl Fn(&Case, u64) -> (Case, String),
    ) -> Result<bool> {
        let mut lowest = now;
        let mut step = now.saturating_sub(least);
        while step > 0 {
            let (case, what) = smaller(&self.case, lowest - step);
            if self.try_smaller(case, &what)? {
                lowest -= step;
                step = step.min(lowest - least);
            } else {
                step /= 2;
            }
        }
        Ok(lowest < now)
    }

    /// Whether a smaller run fails: then it is the one to go on with.
    fn try_smaller(&mut self, smaller: Case, what: &str) -> Result<bool> {
        if smaller.options() == self.case.options() {
            return Ok(false);
        }
        let last = self.case.schedule;
        let others = (0..OTHER_SCHEDULES).map(Some).filter(|other| *other != last);
        for schedule in core::iter::once(last).chain(others) {
            if self.runs >= self.runs_max {
                self.is_cut_short = true;
                return Ok(false);
            }
            self.runs += 1;
            let case = Case { schedule, ..smaller.clone() };
            if let Some(failure) = (self.play)(&case)? {
                (self.tell)(Smaller { runs: self.runs, what, failure: &failure });
                (self.case, self.failure) = (case, failure);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    /// Minimises a run that fails whenever `fails` says so of its options.
    fn search(
        case: &Case,
        runs_max: u64,
        fails: impl Fn(&Options) -> bool,
    ) -> Result<(Smallest, Vec<String>)> {
        let (mut played, mut told) = (0, Vec::new());
        let play = |case: &Case| {
            played += 1;
            Ok(fails(&case.options()).then(|| "as planned".to_owned()))
        };
        let smallest = minimise(case.clone(), runs_max, play, |smaller| told.push(smaller.what.to_owned()))?;
        assert_eq!(smallest.runs, played);
        assert!(played <= runs_max);
        assert!(fails(&smallest.case.options()), "what is given out fails");
        Ok((smallest, told))
    }

    fn a_case(mix: Mix, has: impl Fn(&Options) -> bool) -> Case {
        let mut cases = (0..).map(|seed| Case::of_seed(seed, mix));
        cases.find(|case| has(&case.options())).expect("there is no end of seeds")
    }

    #[test]
    fn what_does_not_matter_is_taken_away_and_what_does_stays() {
        let fails =
            |options: &Options| options.weights.fork > 0 && options.threads >= 2 && options.operations >= 37;
        let case = a_case(Mix::Files, |options| fails(options) && options.kills > 0 && options.processes > 1);
        let (smallest, told) = search(&case, 1000, fails).expect("it fails");
        let options = smallest.case.options();
        assert!(smallest.is_complete);
        assert_eq!((options.threads, options.operations, options.processes), (2, 37, 1));
        assert_eq!((options.kills, options.file_changes, options.files().count()), (0, 0, 1));
        let weights = options.weights;
        assert_eq!(weights, crate::options::Weights { fork: weights.fork, ..Default::default() });
        assert!(told.contains(&"without map".to_owned()) && !told.contains(&"without fork".to_owned()));
    }

    /// What is needed only as long as something else is there goes in a later round.
    #[test]
    fn it_begins_again_until_nothing_more_can_be_taken_away() {
        let fails = |options: &Options| options.threads == 1 || options.weights.map > 0;
        let case = a_case(Mix::All, |options| options.threads > 1);
        let (smallest, _) = search(&case, 1000, fails).expect("it fails");
        assert_eq!((smallest.case.options().threads, smallest.case.options().weights.map), (1, 0));
    }

    #[test]
    fn a_smaller_run_that_fails_in_another_order_only_is_found() {
        let case = a_case(Mix::All, |options| options.threads > 1);
        let play = |case: &Case| {
            let schedule = if case.options().threads > 1 { None } else { Some(1) };
            Ok((case.schedule == schedule).then(|| "as planned".to_owned()))
        };
        let smallest = minimise(case, 1000, play, |_| ()).expect("it fails");
        assert_eq!((smallest.case.options().threads, smallest.case.schedule), (1, Some(1)));
        let arguments = smallest.case.arguments();
        assert!(arguments.ends_with(&["--schedule".to_owned(), "1".to_owned()]), "{arguments:?}");
    }

    #[test]
    fn a_run_of_hours_gets_fewer() {
        let hours = |options: &Options| options.soak.map_or(0, |soak| soak.until_ns / 3_600_000_000_000);
        let case = Case::of_seed(1, Mix::Soak { hours: 24 });
        let (smallest, told) = search(&case, 1000, |options| hours(options) >= 5).expect("it fails");
        assert_eq!(smallest.case.mix, Mix::Soak { hours: 5 });
        assert!(!told.iter().any(|what| what.starts_with("operations")), "nobody counts them: {told:?}");
    }

    #[test]
    fn no_more_is_played_than_was_allowed() {
        let case = Case::of_seed(3, Mix::All);
        for runs_max in 1..20 {
            let (smallest, _) = search(&case, runs_max, |_| true).expect("it fails");
            assert!(smallest.runs == runs_max && !smallest.is_complete);
        }
    }

    #[test]
    fn a_run_that_passes_is_refused() {
        let refused = search(&Case::of_seed(3, Mix::All), 10, |_| false).expect_err("it passes");
        assert!(refused.to_string().contains("seed 3 does not fail"), "{refused}");
    }

    #[test]
    fn who_cannot_play_ends_the_search() {
        let play = |_: &Case| bail!("no more processes");
        assert!(minimise(Case::of_seed(3, Mix::All), 10, play, |_| ()).is_err());
    }
}
