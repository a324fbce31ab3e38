//! What will be run: the scenario, with the points that the command line changes.

use anyhow::{Context as _, bail, ensure};

use crate::args::BenchArguments;
use crate::rivals::Rival;
use crate::workloads::scenario::Scenario;
use crate::workloads::{WorkloadSpec, all, by_name};

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
        scenario.budget_bytes = arguments.budget.unwrap_or(scenario.budget_bytes);
        scenario.factor = arguments.factor.unwrap_or(scenario.factor);
        scenario.rounds = arguments.rounds.unwrap_or(scenario.rounds);
        scenario.seconds = arguments.seconds.unwrap_or(scenario.seconds);
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
        let parameters = scenario.parameters();
        let mut workloads = Vec::new();
        for name in &scenario.workloads {
            let Some(spec) = by_name(name, &parameters) else {
                let names: Vec<&str> = all(&parameters).iter().map(|spec| spec.name).collect();
                bail!("no workload is called '{name}'; there are: {}", names.join(", "));
            };
            workloads.push(spec);
        }
        Ok(Plan { scenario, rivals, workloads })
    }

    /// The command line that does the same again.
    pub fn command(&self, arguments: &BenchArguments) -> String {
        let scenario = &self.scenario;
        let mut command = format!(
            "uswap bench --scenario {} --budget {} --factor {} --rounds {} --seconds {} --seed {} --workloads {} --rivals {}",
            arguments.scenario,
            scenario.budget_bytes,
            scenario.factor,
            scenario.rounds,
            scenario.seconds,
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
    fn names_that_nobody_has_and_numbers_that_make_no_sense_are_refused() {
        for words in [
            ["--scenario", "nothing"],
            ["--workloads", "seqscan,tetris"],
            ["--rivals", "zram-lz4,floppy"],
            ["--rivals", "uswap,uswap"],
            ["--factor", "0"],
            ["--budget", "1M"],
            ["--rounds", "0"],
        ] {
            assert!(plan(&words).is_err(), "{words:?}");
        }
    }
}
