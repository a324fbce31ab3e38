//! Entry point of `uswap`: reads the arguments and hands over to one command.
#![forbid(unsafe_code)]

use uswap_cli::args::{Command, SUPERVISE};
use uswap_cli::config::{self, Files, Wrong};
use uswap_cli::message::say;
use uswap_cli::{control, demo, doctor, filter, map, ps, run, supervise};

/// What is in a file of options is wrong.
const CANNOT_START: i32 = 125;

fn main() {
    let words: Vec<_> = std::env::args_os().collect();
    let arguments = config::parse(&words, &Files::of_environment()).unwrap_or_else(|wrong| {
        let is_supervisor = words.get(1).is_some_and(|word| word == SUPERVISE);
        let error = match wrong {
            Wrong::File(why) if is_supervisor => {
                supervise::refuse(&why);
                std::process::exit(CANNOT_START);
            }
            Wrong::File(why) => {
                say(format_args!("{why}"));
                std::process::exit(CANNOT_START);
            }
            Wrong::Words(error) => error,
        };
        if is_supervisor {
            supervise::refuse_words(&error.render().to_string());
            std::process::exit(error.exit_code());
        }
        error.exit()
    });
    match arguments.command {
        Command::Run(arguments) => run::run(arguments).pass_on(),
        Command::Supervise(arguments) => std::process::exit(supervise::supervise(&arguments)),
        Command::Config(arguments) => std::process::exit(config::config(&arguments)),
        Command::Ps(arguments) => std::process::exit(ps::ps(&arguments)),
        Command::Leave(run) => std::process::exit(control::leave(run)),
        Command::Freeze(run) => std::process::exit(control::freeze(run)),
        Command::Thaw(run) => std::process::exit(control::thaw(run)),
        Command::Set(arguments) => std::process::exit(control::set(&arguments)),
        Command::Metrics(arguments) => {
            std::process::exit(control::exit_code(uswap_metrics::command::metrics(&arguments, &say)))
        }
        Command::Stat(arguments) => std::process::exit(control::stat(&arguments)),
        Command::Map(arguments) => std::process::exit(map::map(&arguments)),
        Command::Top(arguments) => std::process::exit(control::exit_code(uswap_top::top(&arguments))),
        Command::Record(arguments) => std::process::exit(control::exit_code(uswap_top::record(&arguments))),
        Command::Replay(arguments) => std::process::exit(control::exit_code(uswap_top::replay(&arguments))),
        Command::Dump(arguments) => std::process::exit(control::exit_code(uswap_top::dump(&arguments))),
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
