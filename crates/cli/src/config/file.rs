//! The files, and what is set in them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{ArgAction, CommandFactory as _};
use serde::Deserialize;
use toml::Value;

use crate::args::Arguments;

/// Names the only file; empty: there is none.
pub const VARIABLE: &str = "USWAP_CONFIG";

/// For all users.
const SYSTEM: &str = "/etc/uswap/uswap.toml";

/// The files, those that count more first.
#[derive(Clone, Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    must_exist: bool,
}

/// One option, and where it is set.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Long name of the option.
    pub key: String,
    /// As it is written.
    pub value: Value,
    /// The file.
    pub path: PathBuf,
    /// The table in it.
    pub table: String,
}

/// What a file may have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Content {
    run: Table,
    profile: BTreeMap<String, Table>,
}

type Table = BTreeMap<String, Value>;

impl Files {
    /// Those that hold for this user.
    pub fn of_environment() -> Files {
        if let Some(path) = std::env::var_os(VARIABLE) {
            let paths = if path.is_empty() { Vec::new() } else { vec![path.into()] };
            return Files { paths, must_exist: true };
        }
        let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
        let configured = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| Path::new(dir).is_absolute());
        let dir = configured.map(PathBuf::from).or_else(|| Some(Path::new(&home()?).join(".config")));
        let own = dir.map(|dir| dir.join("uswap/uswap.toml"));
        Files { paths: own.into_iter().chain([SYSTEM.into()]).collect(), must_exist: false }
    }

    /// These.
    #[cfg(test)]
    pub fn of_paths(paths: Vec<PathBuf>) -> Files {
        Files { paths, must_exist: true }
    }

    /// Where they are looked for, and whether they are there.
    pub fn paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.paths.iter().map(|path| (path.as_path(), path.exists()))
    }

    /// What is set for a program of this name, each option once.
    ///
    /// # Errors
    /// As a sentence: a file cannot be read, or has what it may not have.
    pub fn settings(&self, program: &str) -> Result<Vec<Setting>, String> {
        let mut settings: Vec<Setting> = Vec::new();
        for path in &self.paths {
            let Some(content) = self.read(path)? else { continue };
            let profile = content.profile.get(program).map(|table| (format!("profile.{program}"), table));
            for (name, table) in profile.into_iter().chain([("run".to_owned(), &content.run)]) {
                for (key, value) in table {
                    if settings.iter().all(|setting| setting.key != *key) {
                        let (path, table) = (path.clone(), name.clone());
                        settings.push(Setting { key: key.clone(), value: value.clone(), path, table });
                    }
                }
            }
        }
        Ok(settings)
    }

    fn read(&self, path: &Path) -> Result<Option<Content>, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if !self.must_exist && counts_as_missing(path, error.kind()) => {
                return Ok(None);
            }
            Err(error) => {
                let name = path.display();
                return Err(format!(
                    "'{name}' cannot be read ({error}): mend that, or set {VARIABLE}= to go without"
                ));
            }
        };
        let content: Content = toml::from_str(&text).map_err(|error| {
            format!("'{}' is not understood: {}", path.display(), error.to_string().trim_end())
        })?;
        for key in content.profile.values().chain([&content.run]).flat_map(Table::keys) {
            option(key).map_err(|why| format!("'{}': {why}", path.display()))?;
        }
        Ok(Some(content))
    }
}

/// Whether a file that cannot be read is none. After su or setpriv, HOME may be that of another user.
fn counts_as_missing(path: &Path, kind: ErrorKind) -> bool {
    kind == ErrorKind::NotFound || (kind == ErrorKind::PermissionDenied && path != Path::new(SYSTEM))
}

/// The option of this name.
fn option(key: &str) -> Result<clap::Arg, String> {
    let command = Arguments::command();
    let run = command.find_subcommand("run").expect("it is one of the commands");
    let options = run.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set());
    let options: Vec<_> = options.collect();
    if let Some(arg) = options.iter().find(|arg| arg.get_long() == Some(key)) {
        return Ok((*arg).clone());
    }
    let letters = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    let names = options.iter().filter_map(|arg| arg.get_long());
    let meant = names.clone().find(|name| letters(name) == letters(key) || name.replace('-', "_") == key);
    let meant = meant.map_or_else(
        || format!(" ({})", names.collect::<Vec<_>>().join(", ")),
        |name| format!(" (did you mean {name}?)"),
    );
    Err(format!("'{key}' is no option of uswap run{meant}"))
}

impl Setting {
    /// The words for it, which `uswap run` takes.
    ///
    /// # Errors
    /// As a sentence: it does not.
    pub fn checked_words(&self) -> Result<Vec<String>, String> {
        let wrong = |why: String| format!("'{}', [{}]: {why}", self.path.display(), self.table);
        let words = self.words().map_err(wrong)?;
        // What else has to be there.
        let ram = (self.key != "ram").then(|| "--ram=1G".to_owned());
        let line = ["uswap".to_owned(), "run".to_owned()].into_iter().chain(ram).chain(words.clone());
        let line = line.chain(["--".to_owned(), "true".to_owned()]);
        Arguments::command().try_get_matches_from(line).map_err(|error| {
            let text = error.render().to_string();
            let first = text.split("\n\n").next().unwrap_or(&text);
            let first = first.strip_prefix("error: ").unwrap_or(first);
            wrong(format!("{} = {}: {first}", self.key, self.shown()))
        })?;
        Ok(words)
    }

    fn words(&self) -> Result<Vec<String>, String> {
        let key = &self.key;
        match option(key)?.get_action() {
            ArgAction::SetTrue => match self.value {
                Value::Boolean(is_set) => Ok(is_set.then(|| format!("--{key}")).into_iter().collect()),
                _ => Err(format!("'{key}' is true or false")),
            },
            ArgAction::Count => match self.value {
                Value::Integer(count @ 0..=9) => Ok((0..count).map(|_| format!("--{key}")).collect()),
                _ => Err(format!("'{key}' is a number from 0 to 9")),
            },
            _ => {
                let word = |value: &Value| plain(value).map(|value| format!("--{key}={value}"));
                let words = match &self.value {
                    Value::Array(values) => values.iter().map(word).collect(),
                    value => word(value).map(|word| vec![word]),
                };
                words.ok_or_else(|| format!("'{key}' is a value, or a list of values"))
            }
        }
    }

    /// Its value, as it would be typed.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Array(values) => values.iter().filter_map(plain).collect::<Vec<_>>().join(" "),
            value => plain(value).unwrap_or_else(|| value.to_string()),
        }
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is_set) => Some(is_set.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_another_user_has_no_file_and_that_of_the_system_must_be_readable() {
        let own = Path::new("/srv/ada/.config/uswap/uswap.toml");
        assert!(
            counts_as_missing(own, ErrorKind::NotFound)
                && counts_as_missing(own, ErrorKind::PermissionDenied)
        );
        assert!(!counts_as_missing(own, ErrorKind::InvalidData));
        let system = Path::new(SYSTEM);
        assert!(counts_as_missing(system, ErrorKind::NotFound));
        assert!(!counts_as_missing(system, ErrorKind::PermissionDenied));
    }
}
