//! Entry point of `uswap`: reads the arguments and hands over to one command.
#![forbid(unsafe_code)]

use clap::Parser;
use uswap_cli::args::{Arguments, Command, SUPERVISE};
use uswap_cli::{control, demo, doctor, filter, run, supervise};

fn main() {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| {
        if std::env::args_os().nth(1).is_some_and(|word| word == SUPERVISE) {
            supervise::refuse_words(&error.render().to_string());
            std::process::exit(error.exit_code());
        }
        error.exit()
    });
    match arguments.command {
        Command::Run(arguments) => run::run(arguments).pass_on(),
        Command::Supervise(arguments) => std::process::exit(supervise::supervise(&arguments)),
        Command::Stat(arguments) => std::process::exit(control::stat(&arguments)),
        Command::Writeback(arguments) => std::process::exit(control::writeback(&arguments)),
        Command::Swapon(arguments) => std::process::exit(control::swapon(&arguments)),
        Command::Swapoff(arguments) => std::process::exit(control::swapoff(&arguments)),
        Command::Doctor(arguments) => std::process::exit(doctor::doctor(&arguments)),
        Command::Demo(arguments) => demo::demo(&arguments).pass_on(),
        Command::Bench(arguments) => std::process::exit(uswap_bench::command::bench(&arguments)),
        Command::TryCalls { from } => std::process::exit(filter::try_calls(from)),
        Command::Workload { words } => std::process::exit(uswap_bench::workloads::program::main(&words)),
    }
}
