//! `uswap config`: which options hold for a program that says none, and where they come from.

use clap::CommandFactory as _;

use super::file::{Files, Setting};
use super::name_of;
use crate::args::{Arguments, ConfigArguments};
use crate::control::exit_code;
use crate::message::write_stdout;

/// The exit code.
pub fn config(arguments: &ConfigArguments) -> i32 {
    exit_code(show(arguments, &Files::of_environment()))
}

fn show(arguments: &ConfigArguments, files: &Files) -> Result<(), String> {
    let program = arguments.program.as_deref().map(name_of).unwrap_or_default();
    let settings = files.settings(&program)?;
    let mut lines: Vec<String> = files
        .paths()
        .map(|(path, exists)| format!("# {}{}", path.display(), if exists { "" } else { " (not there)" }))
        .collect();
    lines.extend(of_environment());
    for setting in &settings {
        setting.checked_words()?;
        if std::env::var_os(variable(&setting.key)).is_none() {
            lines.push(line(setting));
        }
    }
    match write_stdout(&(lines.join("\n") + "\n")) {
        true => Ok(()),
        false => Err("the options could not be written".to_owned()),
    }
}

fn line(setting: &Setting) -> String {
    format!("{} = {}  # [{}] of {}", setting.key, setting.value, setting.table, setting.path.display())
}

/// The variable for an option, if it has one.
fn variable(key: &str) -> String {
    format!("USWAP_{}", key.replace('-', "_").to_uppercase())
}

/// Options that the environment sets.
fn of_environment() -> Vec<String> {
    let command = Arguments::command();
    let run = command.find_subcommand("run").expect("it is one of the commands");
    let set = |arg: &clap::Arg| {
        let (key, name) = (arg.get_long()?.to_owned(), arg.get_env()?.to_owned());
        let value = std::env::var_os(&name)?;
        let value = toml::Value::from(value.to_string_lossy().into_owned());
        Some(format!("{key} = {value}  # {}", name.to_string_lossy()))
    };
    run.get_arguments().filter_map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_named_after_its_option() {
        let command = Arguments::command();
        let run = command.find_subcommand("run").expect("it is one of the commands");
        let with_variable: Vec<_> = run.get_arguments().filter(|arg| arg.get_env().is_some()).collect();
        assert!(with_variable.len() > 5);
        for arg in with_variable {
            let key = arg.get_long().expect("only options have one");
            assert_eq!(arg.get_env().expect("it has one"), variable(key).as_str(), "{key}");
        }
    }
}
