//! What will be run: the scenario, with the points that the command line changes.

use anyhow::{Context as _, ensure};

use crate::args::BenchArguments;
use crate::rivals::Rival;
use crate::workloads::choice::Place;
use crate::workloads::scenario::Scenario;
use crate::workloads::size::size_text;
use crate::workloads::{WorkloadSpec, by_name, spec};

const BUDGET: Place<u64> =
    Place { all: |scenario| &mut scenario.budget_bytes, one: |own| &mut own.budget_bytes };
const FACTOR: Place<f64> = Place { all: |scenario| &mut scenario.factor, one: |own| &mut own.factor };
const SECONDS: Place<u32> = Place { all: |scenario| &mut scenario.seconds, one: |own| &mut own.seconds };

/// Everything that is decided before the first run.
#[derive(Debug)]
pub struct Plan {
    /// Sizes, rounds, times.
    pub scenario: Scenario,
    /// The rivals that it names.
    pub rivals: Vec<Rival>,
    /// The workloads that it names.
    pub workloads: Vec<WorkloadSpec>,
}

impl Plan {
    /// Reads the scenario and applies the options.
    ///
    /// # Errors
    /// A scenario that cannot be read, a name that nobody has, a number that makes no sense.
    pub fn new(arguments: &BenchArguments) -> anyhow::Result<Plan> {
        let mut scenario = Scenario::by_name_or_path(&arguments.scenario)?;
        BUDGET.set(&mut scenario, &arguments.budget);
        FACTOR.set(&mut scenario, &arguments.factor);
        SECONDS.set(&mut scenario, &arguments.seconds);
        scenario.rounds = arguments.rounds.unwrap_or(scenario.rounds);
        scenario.seed = arguments.seed.unwrap_or(scenario.seed);
        for (names, given) in
            [(&mut scenario.rivals, &arguments.rivals), (&mut scenario.workloads, &arguments.workloads)]
        {
            if !given.is_empty() {
                names.clone_from(given);
            }
        }
        scenario.check()?;
        let mut rivals = Vec::new();
        for name in scenario.rivals.iter().chain(&arguments.rival) {
            let rival = Rival::parse(name).with_context(|| format!("rival '{name}'"))?;
            ensure!(!rivals.contains(&rival), "rival '{}' is named twice", rival.name());
            rivals.push(rival);
        }
        for name in scenario.workloads.iter().chain(scenario.of.keys()) {
            let names = spec::names();
            ensure!(
                names.contains(&name.as_str()),
                "no workload is called '{name}'; there are: {}",
                names.join(", ")
            );
        }
        scenario.tidy();
        let workloads = scenario.workloads.iter().map(|name| {
            by_name(name, &scenario.parameters(name)).expect("every name was just found in the list")
        });
        let workloads = workloads.collect();
        Ok(Plan { scenario, rivals, workloads })
    }

    /// The command line that does the same again.
    pub fn command(&self, arguments: &BenchArguments) -> String {
        let scenario = &self.scenario;
        let mut command = format!(
            "uswap bench --scenario {} --budget {} --factor {} --rounds {} --seconds {} --seed {} --workloads {} \
             --rivals {}",
            arguments.scenario,
            BUDGET.words(scenario, size_text),
            FACTOR.words(scenario, |factor| factor.to_string()),
            scenario.rounds,
            SECONDS.words(scenario, |seconds| seconds.to_string()),
            scenario.seed,
            scenario.workloads.join(","),
            scenario.rivals.join(","),
        );
        for template in &arguments.rival {
            command += &format!(" --rival '{}'", template.replace('\'', "'\\''"));
        }
        if arguments.raw {
            command += " --raw";
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: BenchArguments,
    }

    fn plan(words: &[&str]) -> anyhow::Result<(Plan, BenchArguments)> {
        let words = ["bench"].iter().chain(words);
        let arguments = Line::try_parse_from(words)?.arguments;
        Plan::new(&arguments).map(|plan| (plan, arguments))
    }

    #[test]
    fn every_scenario_that_comes_with_uswap_can_be_run() {
        for name in Scenario::names() {
            let (plan, _) = plan(&["--scenario", name]).unwrap();
            assert!(!plan.rivals.is_empty() && !plan.workloads.is_empty());
        }
    }

    #[test]
    fn options_change_points_of_the_scenario_and_the_printed_command_gives_the_same_plan() {
        let words = [
            "--scenario",
            "short",
            "--budget",
            "64M",
            "--factor",
            "1.5",
            "--rounds",
            "7",
            "--seconds",
            "3",
            "--seed",
            "9",
            "--workloads",
            "seqscan,redis",
            "--rivals",
            "zram-lz4+bg,uswap",
            "--rival",
            "other=it's {program} {budget}",
        ];
        let (first, arguments) = plan(&words).unwrap();
        assert_eq!((first.scenario.budget_bytes, first.scenario.rounds), (64 << 20, 7));
        assert_eq!(first.workloads[0].bytes, 96 << 20);
        let names: Vec<String> = first.rivals.iter().map(Rival::name).collect();
        assert_eq!(names, ["zram-lz4+bg", "uswap", "other"]);
        let command = first.command(&arguments);
        let plain = command.split(" --rival '").next().unwrap();
        let words: Vec<&str> = plain.split(' ').skip(2).collect();
        let (second, _) = plan(&words).unwrap();
        assert_eq!(second.scenario, first.scenario);
        assert!(command.ends_with("--rival 'other=it'\\''s {program} {budget}'"), "{command}");
    }

    #[test]
    fn values_of_one_workload_are_printed_and_a_value_for_all_replaces_them() {
        let again = |first: &Plan, arguments: &BenchArguments| {
            let command = first.command(arguments);
            let words: Vec<&str> = command.split(' ').skip(2).collect();
            let (second, _) = plan(&words).unwrap();
            assert_eq!(second.scenario, first.scenario, "{command}");
            assert_eq!(second.workloads, first.workloads, "{command}");
            command
        };
        let budgets =
            |plan: &Plan| plan.workloads.iter().map(|spec| spec.budget_bytes >> 20).collect::<Vec<_>>();

        let (table, arguments) = plan(&["--scenario", "table"]).unwrap();
        again(&table, &arguments);
        let few = ["--scenario", "table", "--workloads", "seqscan,sort,build"];
        let (few_plan, arguments) = plan(&few).unwrap();
        assert_eq!(budgets(&few_plan)[0], few_plan.scenario.budget_bytes >> 20);
        assert_ne!(budgets(&few_plan)[1], budgets(&few_plan)[0], "the scenario has a budget for sort");
        assert!(again(&few_plan, &arguments).contains(&format!("sort={}M", budgets(&few_plan)[1])));

        let (all, arguments) = plan(&[&few[..], &["--budget", "100M", "--seconds", "9"]].concat()).unwrap();
        assert_eq!(budgets(&all), [100, 100, 100]);
        assert!(all.workloads.iter().all(|spec| spec.seconds == 9));
        again(&all, &arguments);
        // A value for all may stand behind: it is no stronger there.
        let (mixed, arguments) =
            plan(&[&few[..], &["--budget", "sort=50M,100M", "--factor", "build=3"]].concat()).unwrap();
        assert_eq!(budgets(&mixed), [100, 50, 100]);
        assert_eq!(mixed.workloads[2].bytes, 300 << 20);
        let command = again(&mixed, &arguments);
        assert!(command.contains("--budget 100M,sort=50M --factor 2,build=3 "), "{command}");
    }

    #[test]
    fn names_that_nobody_has_and_numbers_that_make_no_sense_are_refused() {
        for words in [
            ["--scenario", "nothing"],
            ["--workloads", "seqscan,tetris"],
            ["--rivals", "zram-lz4,floppy"],
            ["--rivals", "uswap,uswap"],
            ["--factor", "0"],
            ["--budget", "1M"],
            ["--budget", "64M,sort=1M"],
            ["--budget", "64M,tetris=32M"],
            ["--budget", "=32M"],
            ["--seconds", "0"],
            ["--seconds", "sort=x"],
            ["--rounds", "0"],
        ] {
            assert!(plan(&words).is_err(), "{words:?}");
        }
    }
}
