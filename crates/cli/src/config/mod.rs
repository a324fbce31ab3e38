//! `uswap.toml`: options of `uswap run` for each run, and for programs of a name.
//!
//! ```toml
//! [run]
//! swap = ["/scratch:100G"]
//!
//! [profile.redis-server]
//! ram = "2G"
//! on-full = "stop"
//! ```
//!
//! Keys are the long names of the options, values what would be typed behind them. What is typed comes first; then the
//! environment (`USWAP_RAM` and so on); then the profile and `[run]` of the user's file; then those of the system's.
//! The words of the file are put in front of what was typed, and read as if they had been typed.
//!
//! What must hold: an option is taken from one place only; what is in a file is right, or the run does not begin.

mod file;
mod show;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use crate::args::{Arguments, SUPERVISE};

pub use file::{Files, Setting};
pub use show::config;

/// The commands that have these options.
const COMMANDS: [&str; 2] = ["run", SUPERVISE];

/// Why there are no arguments.
#[derive(Debug)]
pub enum Wrong {
    /// What was typed.
    Words(clap::Error),
    /// What is in a file: a sentence.
    File(String),
}

/// What was typed, and what the files say beside it.
///
/// # Errors
/// One of them is wrong; or help was asked for.
pub fn parse(words: &[OsString], files: &Files) -> Result<Arguments, Wrong> {
    let matches = tolerant().try_get_matches_from(words).map_err(Wrong::Words)?;
    let (of_file, is_whole) = match matches.subcommand() {
        Some((name, typed)) if COMMANDS.contains(&name) => {
            let settings = files.settings(&program_of(typed)).map_err(Wrong::File)?;
            (missing(typed, &settings).map_err(Wrong::File)?, typed.contains_id("ram"))
        }
        _ => (Vec::new(), true),
    };
    if of_file.is_empty() && is_whole {
        return Arguments::from_arg_matches(&matches).map_err(Wrong::Words);
    }
    // The name of the program, and that of the command.
    let (command, typed) = words.split_at(words.len().min(2));
    let all = [command, &of_file, typed].concat();
    let matches = Arguments::command().try_get_matches_from(all).map_err(Wrong::Words)?;
    Arguments::from_arg_matches(&matches).map_err(Wrong::Words)
}

/// The command line as it is, but for what a file may say instead.
fn tolerant() -> clap::Command {
    COMMANDS.into_iter().fold(Arguments::command(), |all, name| {
        all.mut_subcommand(name, |command| command.mut_arg("ram", |ram| ram.required(false)))
    })
}

/// The name of the program that a run is about, for its profile.
fn program_of(typed: &ArgMatches) -> String {
    let program = typed.try_get_many::<OsString>("program").ok().flatten().and_then(|mut words| words.next());
    if let Some(program) = program {
        return name_of(program);
    }
    let pid = typed.try_get_one::<u32>("pid").ok().flatten();
    let name = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    name.unwrap_or_default().trim_end().to_owned()
}

fn name_of(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Words for the options that were neither typed nor in the environment.
fn missing(typed: &ArgMatches, settings: &[Setting]) -> Result<Vec<OsString>, String> {
    let is_given = |id: &str| {
        matches!(typed.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let excludes =
        |id: &str| (id == "quiet" && is_given("verbose")) || (id == "verbose" && is_given("quiet"));
    let mut words = Vec::new();
    for setting in settings {
        let id = setting.key.replace('-', "_");
        if !is_given(&id) && !excludes(&id) {
            words.extend(setting.checked_words()?.into_iter().map(OsString::from));
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, OnFullArgument, RunArguments};
    use crate::ram::Ram;
    use std::path::PathBuf;

    /// Files with these texts, the first before the second.
    struct Written(PathBuf, Vec<PathBuf>);

    impl Written {
        fn new(name: &str, texts: &[&str]) -> Written {
            let dir = std::env::temp_dir().join(format!("uswap-config-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("it can be made");
            let write = |(number, text): (usize, &&str)| {
                let path = dir.join(format!("{number}.toml"));
                std::fs::write(&path, text).expect("it can be written");
                path
            };
            let paths = texts.iter().enumerate().map(write).collect();
            Written(dir, paths)
        }
        fn parse(&self, line: &str) -> Result<RunArguments, Wrong> {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            match parse(&words, &Files::of_paths(self.1.clone()))?.command {
                Command::Run(arguments) => Ok(arguments),
                other => panic!("{other:?}"),
            }
        }
        fn run(&self, line: &str) -> RunArguments {
            self.parse(line).expect("it is right")
        }
        fn refused(&self, line: &str) -> String {
            match self.parse(line) {
                Err(Wrong::File(why)) => why,
                other => panic!("{other:?}"),
            }
        }
    }

    impl Drop for Written {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("it is there");
        }
    }

    const USER: &str = "
        [run]
        ram = '1G'
        quiet = true
        swap = ['/srv:2G', '/mnt']
        [profile.redis-server]
        ram = '2G'
        protect = ['redis-server=100M']
        verbose = 0
    ";

    const SYSTEM: &str = "
        [run]
        ram = '100M'
        on-full = 'stop'
        pool = 0.3
        [profile.sort]
        on-full = 'kill'
    ";

    fn ram(bytes: u64) -> Ram {
        Ram { bytes, why: None }
    }

    #[test]
    fn what_is_typed_comes_first_then_the_profile_then_the_rest() {
        let files = Written::new("order", &[USER, SYSTEM]);
        let run = files.run("uswap run -- /usr/bin/redis-server --port 1");
        assert_eq!((run.limit.ram, run.limit.on_full), (ram(2 << 30), OnFullArgument::Stop));
        assert_eq!((run.limit.swap.len(), run.limit.protect.len(), run.quiet), (2, 1, true));
        assert_eq!(run.limit.pool.expect("it was given").of(1000), 300);
        assert_eq!(run.program, ["/usr/bin/redis-server", "--port", "1"]);
        let run = files.run("uswap run -- sort");
        assert_eq!((run.limit.ram, run.limit.on_full), (ram(1 << 30), OnFullArgument::Kill));
        assert_eq!(run.limit.protect, []);
        let run = files.run("uswap run -v --ram 64M --on-full grow --swap /tmp -- sort --ram 5");
        assert_eq!((run.limit.ram, run.limit.on_full), (ram(64 << 20), OnFullArgument::Grow));
        assert_eq!((run.limit.swap.len(), run.quiet, run.verbose), (1, false, 1));
        assert_eq!(run.program, ["sort", "--ram", "5"]);
    }

    #[test]
    fn without_a_file_it_is_as_typed() {
        let none = Written::new("none", &[]);
        assert_eq!(none.run("uswap run --ram 64M -- sort").limit.ram, ram(64 << 20));
        let error = none.parse("uswap run -- sort").expect_err("no budget");
        assert!(matches!(&error, Wrong::Words(error) if error.to_string().contains("--ram")), "{error:?}");
    }

    #[test]
    fn what_is_wrong_in_a_file_is_told_with_its_place() {
        let refused = |text: &str| Written::new("wrong", &[text]).refused("uswap run --ram 64M -- sort");
        let cases = [
            ("[run]\nrma = '1G'", "'rma' is no option of uswap run (did you mean ram?)"),
            ("[profile.other]\nhelp = true", "'help' is no option of uswap run"),
            ("[run]\nprogram = 'a'", "'program' is no option of uswap run"),
            ("[run]\npool = '95%'", "pool = 95%"),
            ("[run]\nquiet = 'yes'", "'quiet' is true or false"),
            ("[run]\npool = { a = 1 }", "'pool' is a value, or a list of values"),
            ("[runs]\nram = '1G'", "unknown field `runs`"),
            ("[run\n", "TOML parse error at line 1"),
        ];
        for (text, part) in cases {
            let error = refused(text);
            assert!(error.contains(part) && error.contains("0.toml"), "{text}: {error}");
        }
    }
}
