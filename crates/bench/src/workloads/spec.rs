//! The list of all workloads: what each does, what it is judged by, how large it is, what must be run.

use std::ffi::OsString;
use std::path::Path;

use super::script::{self, Script, Wanted};
use crate::results::{Better, Unlimited, Workload};

/// The option of our own programs that says how long timed parts take.
const SECONDS_OPTION: &str = "--seconds";

/// Timed parts of a run that searches for a limit take so long: memory is at its highest from their beginning on.
const SEARCH_SECONDS: u32 = 1;

/// What the size and the time of a workload follow from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameters {
    /// True RAM of each rival.
    pub budget_bytes: u64,
    /// Working sets are so many times the budget, unless the list has a factor for the workload.
    pub factor: f64,
    /// The same, meant for this workload alone: it comes before both.
    pub own_factor: Option<f64>,
    /// How long timed workloads run.
    pub seconds: u32,
    /// Seed of contents and accesses.
    pub seed: u64,
}

/// One workload of one size.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadSpec {
    /// Its name: `seqscan`, `pmbench-zipf-2`.
    pub name: &'static str,
    /// What it does and what its memory holds, one line.
    pub title: String,
    /// The figure that it is judged by.
    pub main_figure: &'static str,
    /// Unit of that figure.
    pub unit: &'static str,
    /// Whether more of it is better.
    pub better: Better,
    /// What is run.
    pub kind: Kind,
    /// True RAM of each rival.
    pub budget_bytes: u64,
    /// Memory at its highest.
    pub bytes: u64,
    /// How long timed parts take.
    pub seconds: u32,
    /// Seed of contents and accesses.
    pub seed: u64,
}

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// `uswap workload` with these words.
    Own {
        /// Name and options.
        words: Vec<String>,
    },
    /// A script around a real program.
    Script(Script),
    /// Any program of the user.
    Program {
        /// The program and its arguments.
        words: Vec<OsString>,
        /// Its run without any limit.
        unlimited: Unlimited,
    },
}

/// The outcome of preparing.
#[derive(Clone, PartialEq, Debug)]
pub enum Prepared {
    /// It can be run.
    Ready(Launch),
    /// Something is not installed; says what, and which package has it.
    Missing(String),
}

/// A command that can be run again and again, one at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Variables that it needs.
    pub environment: Vec<(OsString, OsString)>,
}

impl Launch {
    /// The same with timed parts of so many seconds.
    pub fn for_seconds(&self, seconds: u32) -> Launch {
        let mut launch = self.clone();
        let value = OsString::from(seconds.to_string());
        let option = launch.words.iter().position(|word| word == SECONDS_OPTION);
        if let Some(word) = option.and_then(|index| launch.words.get_mut(index + 1)) {
            word.clone_from(&value);
        }
        for (name, old) in &mut launch.environment {
            if name == script::RUN_S {
                old.clone_from(&value);
            }
        }
        launch
    }
}

impl WorkloadSpec {
    /// What the results say of it.
    pub fn info(&self) -> Workload {
        Workload {
            name: self.name.into(),
            title: self.title.clone(),
            main_figure: self.main_figure.into(),
            unit: self.unit.into(),
            better: self.better,
            budget_bytes: Some(self.budget_bytes),
            data_bytes: Some(self.bytes),
            unlimited: self.unlimited().cloned(),
        }
    }

    /// True if it can use a mapped file in place of anonymous memory: [`super::area::BACKING`].
    pub fn can_map_file(&self) -> bool {
        matches!(self.kind, Kind::Own { .. })
    }

    /// The run without any limit, for a program of the user.
    pub fn unlimited(&self) -> Option<&Unlimited> {
        match &self.kind {
            Kind::Program { unlimited, .. } => Some(unlimited),
            Kind::Own { .. } | Kind::Script(_) => None,
        }
    }

    /// What is run to look at its memory only. The words of a program of the user are left as they are.
    pub fn for_search(&self, launch: &Launch) -> Launch {
        match self.kind {
            Kind::Program { .. } => launch.clone(),
            Kind::Own { .. } | Kind::Script(_) => launch.for_seconds(SEARCH_SECONDS.min(self.seconds)),
        }
    }

    /// Makes its inputs in a directory of its own below `work_dir`, once, outside of any limit. `uswap` is the command
    /// whose `workload` is run for our own programs.
    pub fn prepare(&self, work_dir: &Path, uswap: &Path) -> anyhow::Result<Prepared> {
        match &self.kind {
            Kind::Own { words } => {
                let mut all: Vec<OsString> = vec![uswap.into(), "workload".into()];
                all.extend(words.iter().map(OsString::from));
                Ok(Prepared::Ready(Launch { words: all, environment: Vec::new() }))
            }
            Kind::Script(script) => {
                let wanted = Wanted { bytes: self.bytes, seed: self.seed, seconds: self.seconds };
                let placed = script.place(&work_dir.join(self.name), wanted)?;
                Ok(match placed.prepare()? {
                    Some(missing) => Prepared::Missing(missing),
                    None => {
                        Prepared::Ready(Launch { words: placed.words(), environment: placed.environment() })
                    }
                })
            }
            Kind::Program { words, .. } => {
                Ok(Prepared::Ready(Launch { words: words.clone(), environment: Vec::new() }))
            }
        }
    }
}

/// What is the same for every size.
struct Entry {
    name: &'static str,
    title: &'static str,
    figure: (&'static str, &'static str, Better),
    /// In place of [`Parameters::factor`].
    factor: Option<f64>,
    kind: EntryKind,
}

enum EntryKind {
    Usemem,
    Seqscan,
    Pmbench { pattern: &'static str, threads: u32 },
    Script(Script),
}

const fn pmbench(name: &'static str, title: &'static str, pattern: &'static str, threads: u32) -> Entry {
    let figure = ("accesses_per_s", "1/s", Better::Higher);
    Entry { name, title, figure, factor: None, kind: EntryKind::Pmbench { pattern, threads } }
}

const fn real(
    name: &'static str,
    title: &'static str,
    figure: (&'static str, &'static str, Better),
    script: Script,
) -> Entry {
    Entry { name, title, figure, factor: None, kind: EntryKind::Script(script) }
}

/// Figure, unit and direction of what is judged by the time that it takes.
pub const WALL: (&str, &str, Better) = ("wall_s", "s", Better::Lower);

/// In the order of the tables.
const ENTRIES: [Entry; 20] = [
    Entry {
        name: "usemem",
        title: "2 processes write all words once, in order, and free them; numbers that count up",
        figure: ("sum_mb_s", "MB/s", Better::Higher),
        factor: None,
        kind: EntryKind::Usemem,
    },
    Entry {
        name: "seqscan",
        title: "1 thread reads all memory in order, 3 times; mixed content",
        figure: ("mb_s", "MB/s", Better::Higher),
        factor: None,
        kind: EntryKind::Seqscan,
    },
    pmbench("pmbench-uniform-1", "1 thread, 80 % reads, all pages alike; mixed content", "uniform", 1),
    pmbench("pmbench-uniform-2", "2 threads, 80 % reads, all pages alike; mixed content", "uniform", 2),
    pmbench("pmbench-uniform-4", "4 threads, 80 % reads, all pages alike; mixed content", "uniform", 4),
    pmbench("pmbench-zipf-1", "1 thread, 80 % reads, popular pages (Zipf, 0.99); mixed content", "zipf", 1),
    pmbench("pmbench-zipf-2", "2 threads, 80 % reads, popular pages (Zipf, 0.99); mixed content", "zipf", 2),
    pmbench("pmbench-zipf-4", "4 threads, 80 % reads, popular pages (Zipf, 0.99); mixed content", "zipf", 4),
    real(
        "redis",
        "redis-server with JSON-like values, GET at random keys, at rest and during BGSAVE",
        ("get_rps", "1/s", Better::Higher),
        script::REDIS,
    ),
    real("build", "make -j2 of large generated C files with gcc", WALL, script::BUILD),
    real("sort", "coreutils sort of log lines, 2 threads", WALL, script::SORT),
    real("dataframe", "a pandas table is sorted by three columns and grouped twice", WALL, script::DATAFRAME),
    real("sqlite", "sqlite3 in memory: fill, look up by index, ranges, group", WALL, script::SQLITE),
    Entry {
        name: "objects",
        title: "Python dicts, lists and strings: built, visited in mixed order, sorted",
        figure: WALL,
        factor: Some(3.0),
        kind: EntryKind::Script(script::OBJECTS),
    },
    real(
        "jvm-serial",
        "a Java map is filled and partly replaced, serial collector",
        WALL,
        script::JVM_SERIAL,
    ),
    real("jvm-g1", "a Java map is filled and partly replaced, collector G1", WALL, script::JVM_G1),
    real(
        "node",
        "objects of node.js: built, visited in mixed order, partly replaced, sorted",
        WALL,
        script::NODE,
    ),
    real(
        "ruby",
        "objects of Ruby: built, visited in mixed order, partly replaced, sorted",
        WALL,
        script::RUBY,
    ),
    real("xz", "xz -9e of text, with a dictionary as large as the text", WALL, script::XZ),
    real("gcc", "g++ of one large generated file of C++", WALL, script::GCC),
];

impl Entry {
    fn spec(&self, parameters: &Parameters) -> WorkloadSpec {
        let factor = parameters.own_factor.or(self.factor).unwrap_or(parameters.factor);
        let bytes = (parameters.budget_bytes as f64 * factor) as u64;
        let option = |name: &str, value: &dyn ToString| [format!("--{name}"), value.to_string()];
        let own = |name: &str, options: &[[String; 2]]| {
            let mut words = vec![name.to_string()];
            words.extend(option("bytes", &bytes));
            words.extend(options.iter().flatten().cloned());
            Kind::Own { words }
        };
        let seed = option("seed", &parameters.seed);
        let kind = match &self.kind {
            EntryKind::Usemem => own("usemem", &[option("processes", &2)]),
            EntryKind::Seqscan => own("seqscan", &[option("passes", &3), option("threads", &1), seed]),
            EntryKind::Pmbench { pattern, threads } => own(
                "pmbench",
                &[
                    option("threads", threads),
                    option("pattern", pattern),
                    option("reads", &80),
                    option("seconds", &parameters.seconds),
                    seed,
                ],
            ),
            EntryKind::Script(script) => Kind::Script(*script),
        };
        let (main_figure, unit, better) = self.figure;
        let Parameters { budget_bytes, seconds, seed, .. } = *parameters;
        WorkloadSpec {
            name: self.name,
            title: self.title.to_owned(),
            main_figure,
            unit,
            better,
            kind,
            budget_bytes,
            bytes,
            seconds,
            seed,
        }
    }
}

/// All workloads, in the order of the tables.
pub fn all(parameters: &Parameters) -> Vec<WorkloadSpec> {
    ENTRIES.iter().map(|entry| entry.spec(parameters)).collect()
}

/// Names of all workloads, in the order of the tables.
pub fn names() -> Vec<&'static str> {
    ENTRIES.iter().map(|entry| entry.name).collect()
}

/// The workload of that name.
pub fn by_name(name: &str, parameters: &Parameters) -> Option<WorkloadSpec> {
    ENTRIES.iter().find(|entry| entry.name == name).map(|entry| entry.spec(parameters))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: Parameters =
        Parameters { budget_bytes: 100 << 20, factor: 1.5, own_factor: None, seconds: 9, seed: 4 };

    #[test]
    fn sizes_follow_from_budget_and_factor() {
        for spec in all(&PARAMETERS) {
            let factor = if spec.name == "objects" { 3 << 20 } else { 3 << 19 };
            assert_eq!(spec.bytes, 100 * factor, "{}", spec.name);
            assert_eq!(by_name(spec.name, &PARAMETERS), Some(spec.clone()));
            assert_eq!(all(&PARAMETERS).iter().filter(|other| other.name == spec.name).count(), 1);
            assert_eq!(spec.info().main_figure, spec.main_figure);
        }
        assert_eq!(by_name("pmbench", &PARAMETERS), None);
        for name in ["sort", "objects"] {
            let own = by_name(name, &Parameters { own_factor: Some(4.0), ..PARAMETERS }).unwrap();
            assert_eq!((own.budget_bytes, own.bytes), (100 << 20, 400 << 20), "{name}");
        }
    }

    #[test]
    fn words_say_everything() {
        let spec = by_name("pmbench-zipf-4", &PARAMETERS).unwrap();
        let Prepared::Ready(launch) =
            spec.prepare(Path::new("/nowhere"), Path::new("/usr/bin/uswap")).unwrap()
        else {
            panic!("nothing can be missing");
        };
        let words: Vec<_> = launch.words.iter().map(|word| word.to_str().unwrap()).collect();
        let wanted = "/usr/bin/uswap workload pmbench --bytes 157286400 --threads 4 --pattern zipf --reads 80 \
            --seconds 9 --seed 4";
        assert_eq!(words.join(" "), wanted);
        let short: Vec<_> = launch.for_seconds(1).words;
        let differ: Vec<_> = short.iter().zip(&launch.words).filter(|(short, long)| short != long).collect();
        assert_eq!(differ, [(&OsString::from("1"), &OsString::from("9"))]);
        let script = Launch {
            words: vec!["sh".into()],
            environment: vec![("BYTES".into(), "9".into()), (script::RUN_S.into(), "9".into())],
        };
        let values: Vec<_> = script.for_seconds(1).environment.into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["9", "1"]);
        assert!(spec.can_map_file());
        assert!(!by_name("redis", &PARAMETERS).unwrap().can_map_file());
    }
}
