//! What is taken away from the run of a seed, as options of the command line: parts of it, by name, and numbers that
//! may not be larger.
//!
//! What must hold: the options of the seed are drawn before anything is taken away, so that a reduction leaves the rest
//! of them as it is.

use crate::options::{CHILD_DELAY_NS, DiskFaults, Options};
use clap::{Args, ValueEnum, value_parser};

/// Something that a run can do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Part {
    /// System calls that read or write memory.
    Call,
    /// Mappings beside the first one of a process.
    Map,
    /// Unmap.
    Unmap,
    /// Map over what is there.
    MapOver,
    /// Move a mapping, or change its length.
    Remap,
    /// MADV_DONTNEED.
    Drop,
    /// MADV_COLD and MADV_PAGEOUT.
    Advise,
    /// mprotect.
    Protect,
    /// mlock and munlock.
    Lock,
    /// What is rare.
    Special,
    /// Fork.
    Fork,
    /// Go through all memory in order.
    Round,
    /// End the process, or execute another program.
    Exit,
    /// Writes, beside those of system calls and rounds.
    Writes,
    /// Mappings where the kernel finds room.
    TopDown,
    /// Reads that give an error.
    ReadError,
    /// Reads that give a wrong bit.
    ReadFlip,
    /// Writes that leave a wrong bit.
    WriteFlip,
    /// Writes that are lost.
    WriteLost,
    /// Files that may not be written.
    Forbidden,
    /// Writes that give an error.
    WriteError,
    /// Disks that are full.
    Full,
    /// Disks that take their time.
    SlowDisk,
    /// A kernel that does not do all that it is asked for.
    Refusals,
    /// Tasks that are slow.
    SlowTasks,
    /// Forked children that are slow to begin.
    SlowChildren,
}

impl Part {
    /// As it is given on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn switch_off(self, options: &mut Options) {
        let weights = &mut options.weights;
        match self {
            Part::Call => weights.call = 0,
            Part::Map => weights.map = 0,
            Part::Unmap => weights.unmap = 0,
            Part::MapOver => weights.map_over = 0,
            Part::Remap => weights.remap = 0,
            Part::Drop => weights.drop = 0,
            Part::Advise => weights.advise = 0,
            Part::Protect => weights.protect = 0,
            Part::Lock => weights.lock = 0,
            Part::Special => weights.special = 0,
            Part::Fork => weights.fork = 0,
            Part::Round => weights.round = 0,
            Part::Exit => weights.exit = 0,
            Part::Writes => options.writes_percent = 0,
            Part::TopDown => options.top_down = 0,
            Part::ReadError => change_faults(options, |faults| faults.read_error = 0),
            Part::ReadFlip => change_faults(options, |faults| faults.read_flip = 0),
            Part::WriteFlip => change_faults(options, |faults| faults.write_flip = 0),
            Part::WriteLost => change_faults(options, |faults| faults.write_lost = 0),
            Part::Forbidden => change_faults(options, |faults| faults.forbidden = 0),
            Part::WriteError => change_faults(options, |faults| faults.write_error = 0),
            Part::Full => change_faults(options, |faults| faults.full = 0),
            Part::SlowDisk => change_faults(options, |faults| faults.slow = 0),
            Part::Refusals => options.refusals = 0,
            Part::SlowTasks => options.slowness = 1,
            Part::SlowChildren => {
                options.child_delay_max_ns = options.child_delay_max_ns.min(CHILD_DELAY_NS);
            }
        }
    }
}

/// Changes the faults of all disks, also of those that come later.
fn change_faults(options: &mut Options, change: impl Fn(&mut DiskFaults)) {
    options.files.iter_mut().flatten().for_each(|file| change(&mut file.faults));
    change(&mut options.added_faults_max);
}

#[expect(missing_docs, reason = "in the help it would stand in the place of the program's")]
#[derive(Args, Clone, PartialEq, Eq, Debug, Default)]
#[command(next_help_heading = "To play less than the whole run of a seed")]
pub struct Reduction {
    /// Leave these parts out.
    #[arg(long, global = true, value_name = "PARTS", value_delimiter = ',')]
    pub without: Vec<Part>,
    /// At most so many processes at the start.
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub processes: Option<u64>,
    /// At most so many processes at once, children included, but all that start.
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub processes_max: Option<u64>,
    /// At most so many threads of a process.
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub threads: Option<u64>,
    /// At most so many operations of a thread (a run of hours has no number of them).
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// At most so many threads of a process that evict.
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub evictors: Option<u64>,
    /// At most so many swap files at the start.
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub files: Option<u64>,
    /// Swap files come or go at most so often.
    #[arg(long, global = true, value_name = "N")]
    pub file_changes: Option<u64>,
    /// At most so many processes are killed.
    #[arg(long, global = true, value_name = "N")]
    pub kills: Option<u64>,
}

/// A number that can be lowered.
pub struct Number {
    /// Of the option, without the dashes in front.
    pub name: &'static str,
    /// The smallest that makes sense.
    pub least: u64,
    /// What it is in a run.
    pub of: fn(&Options) -> u64,
    /// What it may be at most.
    pub cap: fn(&mut Reduction) -> &mut Option<u64>,
}

/// All of them.
pub const NUMBERS: [Number; 8] = [
    Number {
        name: "processes",
        least: 1,
        of: |options| options.processes as u64,
        cap: |reduction| &mut reduction.processes,
    },
    Number {
        name: "processes-max",
        least: 1,
        of: |options| options.processes_max as u64,
        cap: |reduction| &mut reduction.processes_max,
    },
    Number {
        name: "threads",
        least: 1,
        of: |options| options.threads as u64,
        cap: |reduction| &mut reduction.threads,
    },
    Number {
        name: "operations",
        least: 1,
        // Threads of a run of hours do not count them.
        of: |options| if options.soak.is_some() { 1 } else { options.operations },
        cap: |reduction| &mut reduction.operations,
    },
    Number {
        name: "evictors",
        least: 1,
        of: |options| options.evictors,
        cap: |reduction| &mut reduction.evictors,
    },
    Number {
        name: "files",
        least: 1,
        of: |options| options.files().count() as u64,
        cap: |reduction| &mut reduction.files,
    },
    Number {
        name: "file-changes",
        least: 0,
        of: |options| options.file_changes,
        cap: |reduction| &mut reduction.file_changes,
    },
    Number { name: "kills", least: 0, of: |options| options.kills, cap: |reduction| &mut reduction.kills },
];

impl Reduction {
    /// What is left of a run.
    pub fn of(&self, mut options: Options) -> Options {
        self.without.iter().for_each(|part| part.switch_off(&mut options));
        let capped = |value: u64, cap: Option<u64>| cap.map_or(value, |cap| value.min(cap));
        let few = |value: usize, cap| capped(value as u64, cap) as usize;
        options.processes = few(options.processes, self.processes);
        options.processes_max = few(options.processes_max, self.processes_max).max(options.processes);
        options.threads = few(options.threads, self.threads);
        options.operations = capped(options.operations, self.operations);
        options.evictors = capped(options.evictors, self.evictors);
        let files = few(options.files().count(), self.files);
        options.files[files..].fill(None);
        options.file_changes = capped(options.file_changes, self.file_changes);
        if options.file_changes == 0 {
            options.added_faults_max = DiskFaults::default();
        }
        options.kills = capped(options.kills, self.kills);
        options
    }

    /// The same without `part`, too.
    pub fn and_without(&self, part: Part) -> Reduction {
        Reduction { without: [&self.without[..], &[part]].concat(), ..self.clone() }
    }

    /// The same with a number that may not be above `cap`.
    pub fn and_at_most(&self, number: &Number, cap: u64) -> Reduction {
        let mut reduction = self.clone();
        *(number.cap)(&mut reduction) = Some(cap);
        reduction
    }

    /// The arguments that say it.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if !self.without.is_empty() {
            let names: Vec<String> = self.without.iter().map(|part| part.name()).collect();
            arguments.extend(["--without".to_owned(), names.join(",")]);
        }
        let mut own = self.clone();
        for number in &NUMBERS {
            if let Some(cap) = *(number.cap)(&mut own) {
                arguments.extend([format!("--{}", number.name), cap.to_string()]);
            }
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::options::Mix;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        reduction: Reduction,
    }

    fn all_options() -> impl Iterator<Item = Options> {
        let mixes = [Mix::All, Mix::Mappings, Mix::Files, Mix::Rounds, Mix::Forks, Mix::Soak { hours: 2 }];
        mixes.into_iter().flat_map(|mix| (0..40).map(move |seed| Case::of_seed(seed, mix).options()))
    }

    #[test]
    fn what_is_switched_off_is_gone_and_each_part_is_in_some_run() {
        for &part in Part::value_variants() {
            let reduction = Reduction::default().and_without(part);
            let mut changed = 0;
            for whole in all_options() {
                let less = reduction.of(whole);
                changed += u64::from(less != whole);
                assert_eq!(reduction.of(less), less, "{part:?} is off");
            }
            assert!(changed > 0, "no seed has {part:?}");
        }
    }

    #[test]
    fn a_number_is_as_low_as_was_said_and_no_other_is_changed() {
        for number in &NUMBERS {
            let reduction = Reduction::default().and_at_most(number, number.least);
            for whole in all_options() {
                let less = reduction.of(whole);
                // There are no fewer processes at once than start.
                let least = if number.name == "processes-max" { less.processes as u64 } else { number.least };
                assert_eq!((number.of)(&less), least.min((number.of)(&whole)), "{}", number.name);
                let others = NUMBERS.iter().filter(|other| other.name != number.name);
                others.for_each(|other| assert_eq!((other.of)(&less), (other.of)(&whole)));
            }
        }
    }

    #[test]
    fn nothing_taken_away_changes_nothing() {
        all_options().for_each(|whole| assert_eq!(Reduction::default().of(whole), whole));
    }

    #[test]
    fn arguments_say_all_of_it() {
        let mut reduction = Reduction { without: Part::value_variants().to_vec(), ..Reduction::default() };
        let arguments = |reduction: &Reduction| {
            let line = Line::parse_from([vec!["sim".to_owned()], reduction.arguments()].concat());
            assert_eq!(line.reduction, *reduction);
        };
        arguments(&reduction);
        for (number, cap) in NUMBERS.iter().zip(1..) {
            reduction = reduction.and_at_most(number, cap);
            arguments(&reduction);
        }
        arguments(&Reduction::default());
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        for line in [["--processes", "0"], ["--threads", "0"], ["--operations", "0"], ["--without", "all"]] {
            assert!(Line::try_parse_from([&["sim"][..], &line[..]].concat()).is_err(), "{line:?}");
        }
    }
}
