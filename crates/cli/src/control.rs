//! Commands to a run that is under way: `uswap stat`, `set`, `leave`, `freeze`, `thaw`, `writeback`, `swapon` and
//! `swapoff`. [`crate::map`] is another.
//!
//! What must hold: a command is given only to the process that was named, or to the only run of this user. What is said
//! is [`uswap_supervisor::control`], and where the run listens [`uswap_control`].

use std::io::IsTerminal as _;
use std::time::Duration;

use uswap_control::runs;
use uswap_control::stat::RunStat;
use uswap_supervisor::control::command::{Answer, Change, Command, Form};
use uswap_supervisor::files::place::SwapPlace;

use crate::args::{
    ChangeArguments, RunArgument, SetArguments, StatArguments, SwapoffArguments, SwaponArguments,
    WritebackArguments,
};
use crate::human;
use crate::message::{say, write_stdout};
use crate::progress::with_progress;

/// Clears a terminal, and goes to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `uswap writeback`; the exit code.
pub fn writeback(arguments: &WritebackArguments) -> i32 {
    let pool = |stat: &RunStat| {
        format!("{} in the pool, {} in the swap files", human::bytes(stat.pool_bytes), files(stat))
    };
    tell_while(arguments.run, &Command::Writeback(arguments.older_than), pool)
}

/// `uswap swapon`; the exit code.
pub fn swapon(arguments: &SwaponArguments) -> i32 {
    // The run may be somewhere else.
    let dir = std::path::absolute(&arguments.swap.dir).unwrap_or_else(|_| arguments.swap.dir.clone());
    tell(arguments.run, &Command::SwapOn(SwapPlace { dir, ..arguments.swap.clone() }))
}

/// `uswap swapoff`; the exit code.
pub fn swapoff(arguments: &SwapoffArguments) -> i32 {
    let dir = std::path::absolute(&arguments.dir).unwrap_or_else(|_| arguments.dir.clone());
    let name = dir.to_string_lossy().into_owned();
    let left = |stat: &RunStat| {
        let file = stat.swap_files.iter().find(|file| file.directory == name);
        format!("{} are left in '{name}'", human::bytes(file.map_or(0, |file| file.used_bytes)))
    };
    tell_while(arguments.run, &Command::SwapOff(dir.clone()), left)
}

/// `uswap stat`; the exit code.
pub fn stat(arguments: &StatArguments) -> i32 {
    let command = Command::Stat(if arguments.json { Form::Json } else { Form::Text });
    match arguments.watch {
        None => tell(arguments.run, &command),
        Some(pause) => exit_code(watch(arguments, &command, pause)),
    }
}

/// `uswap leave`; the exit code.
pub fn leave(run: RunArgument) -> i32 {
    tell_while(run, &Command::Leave, |stat| format!("{} are home", human::bytes(stat.resident_bytes)))
}

/// `uswap freeze`; the exit code.
pub fn freeze(run: RunArgument) -> i32 {
    tell_while(run, &Command::Freeze, |stat| {
        format!("{} are in RAM, {} in the swap files", human::bytes(stat.used_bytes), files(stat))
    })
}

/// `uswap thaw`; the exit code.
pub fn thaw(run: RunArgument) -> i32 {
    tell(run, &Command::Thaw)
}

/// `uswap set`; the exit code.
pub fn set(arguments: &SetArguments) -> i32 {
    let ChangeArguments { ram, pool, on_full, protect, weight } = &arguments.change;
    let named = |list: &[crate::named::Named]| {
        list.iter().map(|named| (named.name.clone(), named.value)).collect::<Vec<_>>()
    };
    let change = Change {
        ram_bytes: *ram,
        pool: *pool,
        on_full: on_full.map(Into::into),
        protect: named(protect),
        weight: named(weight),
        wait_ms: u64::try_from(arguments.wait.as_millis()).expect("it is at most a day"),
    };
    tell_while(arguments.run, &Command::Set(change), |stat| {
        format!("{} are in use of {}", human::bytes(stat.used_bytes), human::bytes(stat.ram_bytes))
    })
}

/// Says how the run goes, again and again, until it ends.
fn watch(arguments: &StatArguments, command: &Command, pause: Duration) -> Result<(), String> {
    let pid = find(arguments.run)?;
    let mut answer = ask(pid, command)?;
    let clears = !arguments.json && std::io::stdout().is_terminal();
    let (before, after) = match (clears, arguments.json) {
        (true, _) => (CLEAR, "\n"),
        (_, true) => ("", "\n"),
        _ => ("", "\n\n"),
    };
    loop {
        match answer {
            Answer::Done(what) if write_stdout(&format!("{before}{what}{after}")) => (),
            Answer::Done(_) => return Ok(()),
            Answer::Error(why) => return Err(why),
        }
        std::thread::sleep(pause);
        match ask(pid, command) {
            Ok(next) => answer = next,
            // It has ended: what there was to be seen was shown.
            Err(_) => return Ok(()),
        }
    }
}

/// The process id of the run that is meant.
///
/// # Errors
/// As a sentence: none was named, and there is not exactly one.
pub fn find(run: RunArgument) -> Result<u32, String> {
    run.pid.map_or_else(runs::the_only_one, Ok)
}

fn files(stat: &RunStat) -> String {
    human::bytes(stat.swap_file_bytes)
}

fn tell(run: RunArgument, command: &Command) -> i32 {
    show(find(run).and_then(|pid| ask(pid, command)))
}

/// The same with something that takes long.
fn tell_while(run: RunArgument, command: &Command, describe: impl Fn(&RunStat) -> String + Send) -> i32 {
    show(find(run).and_then(|pid| with_progress(pid, describe, || ask(pid, command))))
}

fn show(answer: Result<Answer, String>) -> i32 {
    exit_code(match answer {
        Ok(Answer::Done(what)) => {
            return i32::from(!write_stdout(&format!("{what}\n")));
        }
        Ok(Answer::Error(why)) | Err(why) => Err(why),
    })
}

/// Says what is wrong, if something is.
pub fn exit_code(result: Result<(), String>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(why) => {
            say(format_args!("{why}"));
            1
        }
    }
}

fn ask(pid: u32, command: &Command) -> Result<Answer, String> {
    let line = uswap_control::ask(pid, &command.line()?, None)?;
    Answer::parse(&line).ok_or_else(|| format!("the run of process {pid} ended before it had answered"))
}
