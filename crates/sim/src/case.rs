//! What is played: a seed, and what was taken away from its run.
//!
//! What must hold: the arguments of a case play it, and nothing else; the same case is the same run each time.

use crate::options::{Mix, Options};
use crate::reduction::Reduction;
use clap::ValueEnum as _;
use uswap_units::Prng;

/// One run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// What decides everything.
    pub seed: u64,
    /// What programs mostly do.
    pub mix: Mix,
    /// What of it is left out.
    pub reduction: Reduction,
    /// None: the chance that has drawn the options goes on as it is. Or another one, by its number: other tasks run
    /// first, and other things go wrong.
    pub schedule: Option<u64>,
}

impl Case {
    /// The whole run of a seed.
    pub fn of_seed(seed: u64, mix: Mix) -> Case {
        Case { seed, mix, reduction: Reduction::default(), schedule: None }
    }

    /// What it plays, and chance as it goes on from there. What is left out changes nothing in the rest.
    pub fn start(&self) -> (Options, Prng) {
        let mut prng = Prng::new(self.seed ^ 0x5EED_5EED_5EED_5EED);
        let options = Options::of_seed(&mut prng, self.mix);
        let prng = match self.schedule {
            None => prng,
            // Far apart: neighbours have nothing in common.
            Some(number) => Prng::new(self.seed ^ (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        };
        (self.reduction.of(options), prng)
    }

    /// What it plays.
    pub fn options(&self) -> Options {
        self.start().0
    }

    /// The arguments with which `uswap-sim` plays it.
    pub fn arguments(&self) -> Vec<String> {
        let seed = self.seed.to_string();
        let mut arguments = match self.mix {
            Mix::Soak { hours } => {
                ["soak", "--hours", &hours.to_string(), "--from", &seed].map(str::to_owned).to_vec()
            }
            _ => ["replay", "--seed", &seed].map(str::to_owned).to_vec(),
        };
        let name = self.mix.to_possible_value().filter(|_| self.mix != Mix::All);
        arguments.extend(name.iter().flat_map(|name| ["--mix".to_owned(), name.get_name().to_owned()]));
        arguments.extend(self.reduction.arguments());
        let schedule = self.schedule.iter().flat_map(|number| ["--schedule".to_owned(), number.to_string()]);
        arguments.extend(schedule);
        arguments
    }
}
