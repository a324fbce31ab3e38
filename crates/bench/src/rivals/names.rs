//! Names of rivals, as on the command line and in results.
//!
//! What must hold: every name is read back as the rival that has it.

use anyhow::Context as _;

use super::Rival;

/// What stands for the program in the command of a template.
pub(super) const PROGRAM: &str = "{program}";
/// What stands for the budget in bytes.
pub(super) const BUDGET: &str = "{budget}";

impl Rival {
    /// All but templates, in the order of the tables.
    pub fn all() -> Vec<Self> {
        let zram = |algorithm, background| Self::Zram { algorithm, background };
        vec![
            Self::None,
            zram("lz4", false),
            zram("lzo-rle", false),
            zram("lz4", true),
            zram("lzo-rle", true),
            Self::Zswap { shrinker: false },
            Self::Zswap { shrinker: true },
            Self::SwapFile,
            Self::MappedFile,
            Self::Uswap,
        ]
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Zram { algorithm, background: false } => format!("zram-{algorithm}"),
            Self::Zram { algorithm, background: true } => format!("zram-{algorithm}+bg"),
            Self::Zswap { shrinker: false } => "zswap".to_owned(),
            Self::Zswap { shrinker: true } => "zswap+shrinker".to_owned(),
            Self::SwapFile => "swapfile".to_owned(),
            Self::MappedFile => "mapped-file".to_owned(),
            Self::Uswap => "uswap".to_owned(),
            Self::Template { name, .. } => name.clone(),
        }
    }

    /// How it is set up, one line.
    pub fn title(&self) -> String {
        match self {
            Self::None => "no limit, no swap".to_owned(),
            Self::Zram { algorithm, background } => {
                let beside = if *background { ", with a reclaimer beside the program" } else { "" };
                format!("swap on zram ({algorithm}), memory cgroup{beside}")
            }
            Self::Zswap { shrinker } => {
                let state = if *shrinker { "on" } else { "off" };
                format!(
                    "zswap (lz4 if the kernel has it, shrinker {state}) before a swap file, page-cluster 0, memory \
                     cgroup"
                )
            }
            Self::SwapFile => "a swap file, zswap off, memory cgroup".to_owned(),
            Self::MappedFile => "the data in a mapped file, memory cgroup".to_owned(),
            Self::Uswap => "uswap run with the budget as --ram".to_owned(),
            Self::Template { words, .. } => words.join(" "),
        }
    }

    /// Whether the kernel swaps, or drops pages, by the limit of a memory cgroup.
    pub fn is_of_the_kernel(&self) -> bool {
        match self {
            Self::Zram { .. } | Self::Zswap { .. } | Self::SwapFile | Self::MappedFile => true,
            Self::None | Self::Uswap | Self::Template { .. } => false,
        }
    }

    /// Limit of the memory cgroup with which the search for the right one begins; none for a rival without. It is the
    /// limit for data that compress 2.2 to 1: 0.58 of the budget for 1.5 times as much data, 0.17 for twice as much;
    /// not less than a tenth and not more than nine.
    pub fn first_limit(&self, budget_bytes: u64, data_bytes: u64) -> Option<u64> {
        match self {
            Self::Zram { .. } | Self::Zswap { .. } => {
                // limit + (data - limit) / 2.2 = budget
                let limit_bytes = (budget_bytes * 22).saturating_sub(data_bytes * 10) / 12;
                Some(limit_bytes.clamp(budget_bytes / 10, budget_bytes / 10 * 9))
            }
            Self::SwapFile | Self::MappedFile => Some(budget_bytes),
            Self::None | Self::Uswap | Self::Template { .. } => None,
        }
    }

    /// Reads a name, or `NAME=COMMAND` with `{program}` in the command. Words of the command are parted by blanks; what
    /// needs a shell belongs into a script.
    ///
    /// # Errors
    /// If there is no such rival, or the command cannot work.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let Some((name, command)) = text.split_once('=') else {
            return Self::named(text).with_context(|| {
                let names: Vec<String> = Self::all().iter().map(Self::name).collect();
                format!("there is no rival '{text}'; there are {}, or NAME=COMMAND", names.join(", "))
            });
        };
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "-+._".contains(character);
        anyhow::ensure!(
            !name.is_empty() && name.chars().all(is_plain),
            "the name '{name}' of a rival may only have letters, digits and -+._"
        );
        anyhow::ensure!(
            Self::named(name).is_none(),
            "'{name}' is a rival already: name the command otherwise"
        );
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        anyhow::ensure!(
            words.iter().skip(1).any(|word| word == PROGRAM),
            "the command of '{name}' needs the word {PROGRAM} behind the engine: that is where the program goes; \
             {BUDGET} becomes the budget in bytes"
        );
        anyhow::ensure!(
            words.iter().all(|word| word == PROGRAM || !word.contains(PROGRAM)),
            "in the command of '{name}' {PROGRAM} is part of a longer word, but it becomes several words"
        );
        Ok(Self::Template { name: name.to_owned(), words })
    }

    fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|rival| rival.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        let names: Vec<String> = Rival::all().iter().map(Rival::name).collect();
        let expected = [
            "none",
            "zram-lz4",
            "zram-lzo-rle",
            "zram-lz4+bg",
            "zram-lzo-rle+bg",
            "zswap",
            "zswap+shrinker",
            "swapfile",
            "mapped-file",
            "uswap",
        ];
        assert_eq!(names, expected);
        for rival in Rival::all() {
            assert_eq!(Rival::parse(&rival.name()).unwrap(), rival);
            assert!(!rival.title().is_empty());
        }
        let error = Rival::parse("zram").unwrap_err().to_string();
        assert!(error.contains("zram-lz4"), "{error}");
    }

    #[test]
    fn the_search_begins_near_the_limit_of_data_that_compress_as_usual() {
        let zram = Rival::parse("zram-lz4").unwrap();
        for (data, limit) in [(150, 58), (200, 16), (300, 10), (100, 90)] {
            assert_eq!(
                zram.first_limit(100 << 20, data << 20).map(|bytes| bytes >> 20),
                Some(limit),
                "{data}"
            );
        }
        assert_eq!(Rival::SwapFile.first_limit(100, 200), Some(100));
        assert_eq!(Rival::parse("uswap").unwrap().first_limit(100, 200), None);
    }

    #[test]
    fn a_command_becomes_a_template() {
        let rival = Rival::parse("other=engine  --ram={budget} -- {program}").unwrap();
        let words = ["engine", "--ram={budget}", "--", "{program}"].map(str::to_owned).to_vec();
        assert_eq!(rival, Rival::Template { name: "other".to_owned(), words });
        assert_eq!(
            (rival.name(), rival.title()),
            ("other".to_owned(), "engine --ram={budget} -- {program}".to_owned())
        );
    }

    #[test]
    fn a_command_that_cannot_work_is_refused() {
        for (text, part) in [
            ("other=engine", "{program}"),
            ("other={program}", "behind the engine"),
            ("other=engine --run={program} {program}", "longer word"),
            ("uswap=engine {program}", "already"),
            ("a b=engine {program}", "letters"),
            ("=engine {program}", "letters"),
        ] {
            let error = Rival::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
