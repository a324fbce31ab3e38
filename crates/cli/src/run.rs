//! `uswap run`: looks at the program, starts the supervisor, stays with the program, reports.
//!
//! What must hold: everything that can be wrong is found before the program starts, and then nothing of it has run
//! (exit codes 125 to 127). Once it runs, uswap never ends it, and its ending is uswap's ending.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::agent_file;
use crate::args::RunArguments;
use crate::filter::Filtered;
use crate::human;
use crate::limit::{self, Told};
use crate::message::{Appends, say, write_stderr};
use crate::process::{self, Ending, Manager, Notices, StartFailure, survive_file_size_limit};
use crate::report::{RunRecord, table};
use crate::shown::{Quiet, ToShow};
use uswap_os::without::Without;
use uswap_supervisor::files::place::free_bytes;
use uswap_supervisor::options::{Options, PoolSize};
use uswap_supervisor::program::{AgentSupport, Program, Start};
use uswap_supervisor::report::{RunReport, Unmanaged};
use uswap_supervisor::{Supervisor, is_under_way};

/// Runs the program to its end. What is returned is for [`Ending::pass_on`].
pub fn run(arguments: RunArguments) -> Ending {
    match start_and_stay(&arguments) {
        Ok(ending) => ending,
        Err(failure) => failure.ending(),
    }
}

fn start_and_stay(arguments: &RunArguments) -> Result<Ending, StartFailure> {
    if let Some(outer) = outer_run() {
        return join_outer(&outer, arguments);
    }
    survive_file_size_limit()
        .map_err(|error| StartFailure::own(format!("signal handlers cannot be set ({error})")))?;
    let program = Program::find(&arguments.program[0], std::env::var_os("PATH").as_deref())?;
    accept(&program, arguments)?;
    // Ahead of all calls that a filter might end this process for.
    let filtered = Filtered::look().unwrap_or_default();
    if !filtered.needed.is_empty() {
        return run_outside_budget(&program, arguments, &filtered);
    }
    let _whole_messages = Appends::to_stderr();
    let without = arguments.limit.without.or(filtered.spared);
    if filtered.spared != Without::NOTHING && !arguments.quiet {
        say(format_args!(
            "a filter of system calls (seccomp) ends a process for {}: the run goes without, which takes time ('uswap \
             doctor' says what is lost)",
            names(filtered.spared.names())
        ));
    }
    let own_path = std::env::current_exe().map_err(|error| {
        StartFailure::own(format!("uswap cannot find its own file ({error}): is /proc mounted?"))
    })?;
    let named = std::env::var_os("USWAP_AGENT");
    without.switch_off();
    let agent = agent_file::find_and_check(named.as_deref(), &own_path)?;
    let mut json = limit::create_json(&arguments.limit)?;
    let to_show = ToShow::prepare(&arguments.limit)?;
    let name = program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let told = Told {
        program: name,
        root: None,
        regions_only: false,
        quiet: arguments.quiet,
        verbosity: arguments.verbose,
    };
    let options = limit::options(&arguments.limit, &agent, told)?;
    if arguments.verbose > 0 {
        say(format_args!(
            "program {}, agent {}, budget {}, pool up to {}",
            program.path.display(),
            agent.display(),
            human::bytes(options.limits.ram_bytes),
            human::bytes(*options.limits.pool_bounds().end()),
        ));
    }
    if !arguments.quiet {
        if let Some(why) = &arguments.limit.ram.why {
            say(format_args!("--ram auto is {}: {why}", human::bytes(options.limits.ram_bytes)));
        }
        note_little_room(&options);
        if let Some(line) = larger_pool(&options) {
            say(format_args!("{line}"));
        }
    }
    let supervisor =
        Supervisor::start(options, Box::new(say)).map_err(|error| StartFailure::own(error.to_string()))?;
    if arguments.verbose > 0 {
        for file in supervisor.swap_files() {
            say(format_args!(
                "swap file in {}: up to {}, priority {}, {}",
                file.directory,
                human::bytes(file.bytes_max),
                file.priority,
                file.kind
            ));
        }
    }

    let shown = to_show.start(&supervisor, if arguments.quiet { Quiet::Yes } else { Quiet::No });
    let mut command = command(&program, &arguments.program);
    command.envs(supervisor.environment());
    command.env("LD_PRELOAD", agent_file::preload(&agent, std::env::var_os("LD_PRELOAD").as_deref()));
    let notices = match arguments {
        RunArguments { quiet: true, .. } => Notices::Quiet,
        RunArguments { verbose: 0, .. } => Notices::Few,
        _ => Notices::Many,
    };
    let mut attached = Attached { supervisor, program_pid: 0 };
    let outcome = process::watch(&mut command, &mut attached, notices);
    // Also after a failed start: the supervisor gives back what it made.
    let program_pid = attached.program_pid;
    let seen = shown.end();
    let mut report = attached.supervisor.finish();
    let ending = outcome?;
    seen.write();
    note_unmanaged(&mut report, &program, program_pid);
    if !arguments.quiet {
        write_stderr(&table(&report));
    }
    if let Some((file, path)) = &mut json {
        let words = arguments.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        if let Err(error) = RunRecord::new(words, ending, report).write_json(file) {
            say(format_args!("the report cannot be written to '{}' ({error})", path.display()));
        }
    }
    Ok(ending)
}

/// The supervisor of the run that this process is in, as its environment names it, if that run is under way.
fn outer_run() -> Option<String> {
    let invitation = std::env::var_os(uswap_identity::RUN_VARIABLE)?;
    let invitation = invitation.to_string_lossy();
    let mut parts = invitation.split(':');
    let (pid, token) = (parts.next()?.to_owned(), parts.nth(2)?);
    is_under_way(token).then_some(pid)
}

/// A run inside of a run would have a budget that is not kept beside one that is: the program joins the outer one.
fn join_outer(pid: &str, arguments: &RunArguments) -> Result<Ending, StartFailure> {
    let program = Program::find(&arguments.program[0], std::env::var_os("PATH").as_deref())?;
    accept(&program, arguments)?;
    if !arguments.quiet {
        say(format_args!(
            "this is inside the run of process {pid} already: the program joins that run and its budget, and the \
             options given here (--ram {}) have no effect",
            human::bytes(arguments.limit.ram.bytes)
        ));
    }
    let error = command(&program, &arguments.program).exec();
    Err(StartFailure::own(format!("'{}' cannot be started ({error})", program.path.display())))
}

/// A program that cannot be managed is refused, unless the user wants it all the same.
fn accept(program: &Program, arguments: &RunArguments) -> Result<(), StartFailure> {
    let AgentSupport::Unmanageable(reason) = &program.agent_support else { return Ok(()) };
    let shown = program.path.display();
    if !arguments.unmanaged_ok {
        return Err(StartFailure::own(format!(
            "'{shown}' cannot be kept within --ram: {reason}. Use a dynamically linked build of it without special \
             rights, or run it outside the budget with --unmanaged-ok (programs that it starts are managed)"
        )));
    }
    if !arguments.quiet {
        say(format_args!("warning: '{shown}' runs outside the budget: {reason}"));
    }
    Ok(())
}

/// With this filter no program can be kept within a budget. It is refused, unless the user wants it all the same.
fn run_outside_budget(
    program: &Program,
    arguments: &RunArguments,
    filtered: &Filtered,
) -> Result<Ending, StartFailure> {
    let seen = format!(
        "uswap was started under a filter of system calls (seccomp) that ends a process for {}",
        names(filtered.needed.iter().copied())
    );
    let shown = program.path.display();
    if !arguments.unmanaged_ok {
        return Err(StartFailure::own(format!(
            "{seen}. Without {} '{shown}' cannot be kept within --ram, so it was not started. Let the filter of this \
             sandbox allow what is named (in a container: a seccomp profile), start uswap outside of it, or run the \
             program without a budget with --unmanaged-ok",
            if filtered.needed.len() == 1 { "it" } else { "them" }
        )));
    }
    if !arguments.quiet {
        say(format_args!("warning: '{shown}' and what it starts run without a budget: {seen}"));
    }
    let error = command(program, &arguments.program).exec();
    Err(StartFailure::own(format!("'{shown}' cannot be started ({error})")))
}

/// With commas between them.
fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What is asked for may become free while the program runs, so that is no mistake.
fn note_little_room(options: &Options) {
    for file in &options.swap_files {
        let Ok(free_bytes) = free_bytes(&file.dir) else { continue };
        if file.bytes_max > free_bytes {
            say(format_args!(
                "the swap file in '{}' may have {}, but only {} are free there: when these are used up it counts as \
                 full",
                file.dir.display(),
                human::bytes(file.bytes_max),
                human::bytes(free_bytes)
            ));
        }
    }
}

/// What is said of a pool that gets more than was asked for.
fn larger_pool(options: &Options) -> Option<String> {
    let PoolSize::Fixed(asked) = options.limits.pool else { return None };
    let asked_bytes = asked.of(options.limits.ram_bytes);
    let bytes = options.limits.pool_bytes_at_start();
    (asked_bytes < bytes).then(|| {
        format!(
            "--pool asks for {}, and the pool may have {}: a smaller one is full before much is in it",
            human::bytes(asked_bytes),
            human::bytes(bytes)
        )
    })
}

fn command(program: &Program, words: &[OsString]) -> Command {
    let arguments = &words[1..];
    match program.start {
        Start::Direct => {
            let mut command = Command::new(&program.path);
            // The program sees its name as it was typed.
            command.arg0(&words[0]).args(arguments);
            command
        }
        Start::ByShell => {
            let mut command = Command::new("/bin/sh");
            command.arg(&program.path).args(arguments);
            command
        }
    }
}

/// What was known before the start belongs into the report, if the supervisor did not see it by itself.
fn note_unmanaged(report: &mut RunReport, program: &Program, pid: u32) {
    let AgentSupport::Unmanageable(reason) = &program.agent_support else { return };
    let is_known = |process: &Unmanaged| process.pid == pid || process.reason == *reason;
    if !report.unmanaged.iter().any(is_known) {
        let name = program.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let entry = Unmanaged { pid, name, reason: reason.clone(), processes: 1, peak_bytes: 0 };
        report.unmanaged.push(entry);
    }
}

/// The supervisor, and the pid it was given.
struct Attached {
    supervisor: Supervisor,
    program_pid: u32,
}

impl Manager for Attached {
    fn attach(&mut self, pid: u32) {
        self.program_pid = pid;
        self.supervisor.attach(pid);
    }

    fn live_processes(&self) -> usize {
        self.supervisor.live_processes()
    }

    fn leave_behind(&self) {
        self.supervisor.leave_behind();
    }

    fn is_frozen(&self) -> bool {
        self.supervisor.is_frozen()
    }
}
