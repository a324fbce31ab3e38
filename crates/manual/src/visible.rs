//! The definition of the command without what it hides.
//!
//! What must hold: nothing that is hidden gets into a man page or a completion. Generators of completions take whatever
//! the definition has, and a definition cannot lose an argument; so it is made anew, of what may be seen.

use clap::{Arg, Command, ValueHint};

/// Options and arguments that are directories, by their ids.
const DIRECTORIES: [&str; 3] = ["swap", "swap_dir", "dir"];

/// The same command, with the subcommands and arguments that it shows, and with the texts about them. It describes the
/// command and does not parse: rules about which arguments go together are left behind.
pub fn only_visible(command: &'static Command) -> Command {
    let mut seen = Command::new(command.get_name())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).map(hinted))
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(only_visible))
        .subcommand_required(command.is_subcommand_required_set())
        .subcommand_help_heading("COMMANDS")
        .subcommand_value_name("COMMAND")
        .disable_help_subcommand(true)
        // One optional argument ahead of one that is needed: `swapon [PID] DIR`.
        .allow_missing_positional(true);
    if let Some(version) = command.get_version() {
        seen = seen.version(version);
    }
    if let Some(about) = command.get_about() {
        // A man page has the name in front of it anyway.
        let about = about.to_string();
        seen = seen.about(about.trim_start_matches(&format!("{}: ", command.get_name())).to_owned());
    }
    if let Some(about) = command.get_long_about() {
        seen = seen.long_about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        seen = seen.after_help(after.clone());
    }
    seen
}

/// With what a shell may complete in its place.
fn hinted(argument: &Arg) -> Arg {
    let hint = match argument.get_id().as_str() {
        _ if argument.is_trailing_var_arg_set() => ValueHint::CommandWithArguments,
        id if DIRECTORIES.contains(&id) => ValueHint::DirPath,
        _ => argument.get_value_hint(),
    };
    argument.clone().value_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use uswap_cli::args::Arguments;

    fn original() -> &'static Command {
        Box::leak(Box::new(Arguments::command()))
    }

    /// Options that are hidden or shown, and names of commands that are, with those of commands of commands.
    fn names(command: &Command, hidden: bool, names: &mut Vec<String>) {
        let arguments = command.get_arguments().filter(|argument| argument.is_hide_set() == hidden);
        names.extend(arguments.filter_map(|argument| argument.get_long()).map(|long| format!("--{long}")));
        for below in command.get_subcommands() {
            if below.is_hide_set() == hidden {
                names.push(below.get_name().to_owned());
            }
            self::names(below, hidden, names);
        }
    }

    #[test]
    fn what_is_hidden_is_left_out_and_nothing_else() {
        let (mut hidden, mut left) = (Vec::new(), Vec::new());
        names(original(), true, &mut hidden);
        for name in ["try-calls", "supervise", "workload", "--without"] {
            assert!(hidden.iter().any(|other| other == name), "{name} is not hidden: {hidden:?}");
        }
        let seen = only_visible(original());
        names(&seen, true, &mut left);
        assert!(left.is_empty(), "{left:?}");
        let shown = original().get_subcommands().filter(|command| !command.is_hide_set());
        for (below, original) in seen.get_subcommands().zip(shown) {
            let count = original.get_arguments().filter(|argument| !argument.is_hide_set()).count();
            assert_eq!((below.get_name(), below.get_arguments().count()), (original.get_name(), count));
        }
    }

    #[test]
    fn the_copy_is_consistent() {
        only_visible(original()).debug_assert();
    }
}
