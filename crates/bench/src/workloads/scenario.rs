//! Which workloads and rivals are compared, how large, how often: a file of TOML, or one of those that come with uswap.
//!
//! What must hold: a scenario that was read is complete and makes sense; a wrong one is refused with the name of the
//! field and an example. Whether there are rivals and workloads of the names in it is the caller's to say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Deserializer};

use super::size::parse_size;
use super::spec::Parameters;

/// The scenarios that come with uswap, and their texts.
const BUILT_IN: [(&str, &str); 4] = [
    ("full", include_str!("../../../../bench/scenarios/full.toml")),
    ("table", include_str!("../../../../bench/scenarios/table.toml")),
    ("short", include_str!("../../../../bench/scenarios/short.toml")),
    ("random", include_str!("../../../../bench/scenarios/random.toml")),
];

/// Smallest budget: below it neither a program nor uswap itself fits.
pub const BUDGET_BYTES_MIN: u64 = 16 << 20;

/// What is compared.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, from where it was found.
    #[serde(skip)]
    pub name: String,
    /// What it is for, one line.
    pub title: String,
    /// True RAM of every rival, `budget = "256M"`.
    #[serde(rename = "budget", deserialize_with = "size")]
    pub budget_bytes: u64,
    /// Working sets are so many times the budget.
    pub factor: f64,
    /// Runs of each rival on each workload.
    pub rounds: u32,
    /// Seed of contents, accesses and the order of runs.
    pub seed: u64,
    /// How long timed workloads run.
    pub seconds: u32,
    /// Names of the rivals, in the order of the tables.
    pub rivals: Vec<String>,
    /// Names of the workloads, in the order of the tables.
    pub workloads: Vec<String>,
    /// A run that takes longer is stopped.
    pub timeout_s: u64,
    /// What is different for single workloads, by their names: `[of.build]`.
    #[serde(default)]
    pub of: BTreeMap<String, OfOne>,
}

/// Values for one workload, in place of the scenario's; what is not given is as in the scenario.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfOne {
    /// [`Scenario::budget_bytes`].
    #[serde(default, rename = "budget", deserialize_with = "size_if_given")]
    pub budget_bytes: Option<u64>,
    /// [`Scenario::factor`].
    pub factor: Option<f64>,
    /// [`Scenario::seconds`].
    pub seconds: Option<u32>,
    /// [`Scenario::timeout_s`].
    pub timeout_s: Option<u64>,
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parse_size(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

fn size_if_given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

impl Scenario {
    /// Names of the scenarios that come with uswap.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The scenario that comes with uswap under this name, or the one in the file of this name.
    pub fn by_name_or_path(name: &str) -> anyhow::Result<Scenario> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Scenario::parse(name, text);
        }
        let names = Scenario::names().collect::<Vec<_>>().join(", ");
        if !name.contains(['/', '.']) && !Path::new(name).exists() {
            bail!("there is no scenario '{name}': there are {names}, or give the path of a .toml file");
        }
        let text = fs::read_to_string(name).with_context(|| {
            format!("the scenario {name} cannot be read: give a .toml file, or one of {names}")
        })?;
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Scenario::parse(&stem, &text).with_context(|| format!("the scenario {name} cannot be used"))
    }

    /// Reads the text of a scenario.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Scenario> {
        let mut scenario: Scenario = toml::from_str(text)?;
        scenario.name = name.to_string();
        scenario.check()?;
        Ok(scenario)
    }

    /// Looks whether the values make sense; for callers that change some of them.
    pub fn check(&self) -> anyhow::Result<()> {
        check_values("", &self.values())?;
        for (name, own) in &self.of {
            check_values(&format!("[of.{name}] "), own)?;
        }
        let rounds = self.rounds;
        ensure!((1..=100).contains(&rounds), "rounds = {rounds} makes no sense: give a number from 1 to 100");
        for (field, names) in [("rivals", &self.rivals), ("workloads", &self.workloads)] {
            ensure!(!names.is_empty(), "{field} is empty: name at least one");
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
                bail!("{field} has '{twice}' twice: name each once");
            }
        }
        Ok(())
    }

    /// The values that hold for a workload of which nothing special is said.
    fn values(&self) -> OfOne {
        OfOne {
            budget_bytes: Some(self.budget_bytes),
            factor: Some(self.factor),
            seconds: Some(self.seconds),
            timeout_s: Some(self.timeout_s),
        }
    }

    /// What is said of this workload alone.
    fn own(&self, workload: &str) -> OfOne {
        self.of.get(workload).copied().unwrap_or_default()
    }

    /// What size and time of a workload follow from.
    pub fn parameters(&self, workload: &str) -> Parameters {
        let own = self.own(workload);
        Parameters {
            budget_bytes: own.budget_bytes.unwrap_or(self.budget_bytes),
            factor: self.factor,
            own_factor: own.factor,
            seconds: own.seconds.unwrap_or(self.seconds),
            seed: self.seed,
        }
    }

    /// A run of this workload that takes longer is stopped.
    pub fn timeout_s(&self, workload: &str) -> u64 {
        self.own(workload).timeout_s.unwrap_or(self.timeout_s)
    }

    /// Forgets what is said of workloads that are not run, and tables that say nothing.
    pub fn tidy(&mut self) {
        let workloads = &self.workloads;
        self.of.retain(|name, own| workloads.contains(name) && *own != OfOne::default());
    }
}

/// `place` stands before the name of the field.
fn check_values(place: &str, values: &OfOne) -> anyhow::Result<()> {
    if let Some(bytes) = values.budget_bytes {
        ensure!(
            bytes >= BUDGET_BYTES_MIN,
            "{place}budget = {bytes} bytes is too small to run anything: give at least \"16M\""
        );
    }
    if let Some(factor) = values.factor {
        ensure!(
            (0.1..=16.0).contains(&factor),
            "{place}factor = {factor} makes no sense: give a number from 0.1 to 16, for example 2"
        );
    }
    let seconds = values.seconds.map(|value| ("seconds", value.into(), 3600));
    let timeout = values.timeout_s.map(|value| ("timeout_s", value, 86_400));
    for (field, value, most) in seconds.into_iter().chain(timeout) {
        ensure!(
            (1..=most).contains(&value),
            "{place}{field} = {value} makes no sense: give a number from 1 to {most}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::spec;

    #[test]
    fn built_in_scenarios_name_what_there_is() {
        let rivals = "none zram-lz4 zram-lzo-rle zram-lz4+bg zswap zswap+shrinker swapfile mapped-file uswap";
        let known: Vec<&str> = rivals.split(' ').collect();
        for name in Scenario::names() {
            let scenario = Scenario::by_name_or_path(name).unwrap();
            assert_eq!(scenario.name, name);
            for workload in &scenario.workloads {
                assert!(
                    spec::by_name(workload, &scenario.parameters(workload)).is_some(),
                    "{name}: {workload}"
                );
            }
            assert!(
                scenario.rivals.iter().all(|rival| known.contains(&rival.as_str())),
                "{name}: {:?}",
                scenario.rivals
            );
        }
        let full = Scenario::by_name_or_path("full").unwrap();
        assert_eq!(full.rivals, known);
        assert_eq!(full.workloads, spec::names());
        assert_eq!((full.budget_bytes, full.factor, full.rounds), (256 << 20, 2.0, 5));
    }

    const GOOD: &str = "title = 'a test'\nbudget = '64M'\nfactor = 2\nrounds = 3\nseed = 1\nseconds = 4\ntimeout_s = \
        60\n\
                        rivals = ['none', 'uswap']\nworkloads = ['seqscan']\n";

    #[test]
    fn wrong_fields_are_named() {
        assert_eq!(Scenario::parse("good", GOOD).unwrap().budget_bytes, 64 << 20);
        for (from, to, said) in [
            ("budget = '64M'", "budget = '64Q'", "is not a size"),
            ("budget = '64M'", "budget = '1M'", "at least \"16M\""),
            ("factor = 2", "factor = 0", "factor = 0"),
            ("factor = 2", "factor = nan", "factor = NaN"),
            ("rounds = 3", "rounds = 0", "rounds = 0"),
            ("rounds = 3", "round = 3", "unknown field `round`"),
            ("seed = 1\n", "", "missing field `seed`"),
            ("['seqscan']", "[]", "workloads is empty"),
            ("['seqscan']\n", "['seqscan']\n[of.sort]\nbudget = '1M'\n", "[of.sort] budget = 1048576"),
            ("['seqscan']\n", "['seqscan']\n[of.sort]\nbudget = 1\n", "expected a string"),
            ("['seqscan']\n", "['seqscan']\n[of.sort]\nfactor = 20\n", "[of.sort] factor = 20"),
            ("['seqscan']\n", "['seqscan']\n[of.sort]\nseconds = 0\n", "[of.sort] seconds = 0"),
            ("['seqscan']\n", "['seqscan']\n[of.sort]\ntimeout_s = 0\n", "[of.sort] timeout_s = 0"),
            ("['seqscan']\n", "['seqscan']\n[of.sort]\nrounds = 2\n", "unknown field `rounds`"),
            ("'none', 'uswap'", "'none', 'none'", "rivals has 'none' twice"),
        ] {
            assert!(GOOD.contains(from));
            let error = format!("{:#}", Scenario::parse("bad", &GOOD.replace(from, to)).unwrap_err());
            assert!(error.contains(said), "{to}: {error}");
        }
    }

    #[test]
    fn what_is_said_of_one_workload_holds_for_it_alone() {
        let text = GOOD.replace("['seqscan']\n", "['seqscan', 'sort', 'objects']\n")
            + "[of.sort]\nbudget = '32M'\nfactor = 1.5\nseconds = 7\ntimeout_s = 9\n[of.redis]\nseconds = 2\n";
        let mut scenario = Scenario::parse("good", &text).unwrap();
        let plain = Parameters { budget_bytes: 64 << 20, factor: 2.0, own_factor: None, seconds: 4, seed: 1 };
        assert_eq!(scenario.parameters("seqscan"), plain);
        assert_eq!(
            scenario.parameters("sort"),
            Parameters { budget_bytes: 32 << 20, own_factor: Some(1.5), seconds: 7, ..plain }
        );
        assert_eq!((scenario.timeout_s("sort"), scenario.timeout_s("redis")), (9, 60));
        scenario.tidy();
        assert_eq!(scenario.of.keys().collect::<Vec<_>>(), ["sort"], "redis is not run");
    }

    #[test]
    fn a_file_is_read_and_a_wrong_name_is_explained() {
        let path = std::env::temp_dir().join(format!("uswap-scenario-{}.toml", std::process::id()));
        fs::write(&path, GOOD).unwrap();
        let scenario = Scenario::by_name_or_path(path.to_str().unwrap()).unwrap();
        assert!(scenario.name.starts_with("uswap-scenario-"));
        fs::remove_file(&path).unwrap();
        for (name, said) in
            [("fulll", "there are full, table, short, random"), ("./nowhere.toml", "cannot be read")]
        {
            let error = format!("{:#}", Scenario::by_name_or_path(name).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
