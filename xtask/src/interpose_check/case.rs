//! One program to be run in several ways, and what this machine must have for it.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a case cannot do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A program in the path.
    Program(&'static str),
    /// A file of a package.
    File(&'static str),
}

impl Need {
    /// What is missing, if it is.
    fn missing(&self) -> Option<String> {
        match self {
            Need::Program(name) => {
                let mut look = Command::new("sh");
                look.args(["-c", "command -v \"$0\"", name]).stdout(Stdio::null());
                let is_there = look.status().is_ok_and(|status| status.success());
                (!is_there).then(|| format!("no {name}"))
            }
            Need::File(path) => (!Path::new(path).exists()).then(|| format!("no {path}")),
        }
    }
}

/// A script of bash, of which exit code and output are compared with those that it has by itself.
///
/// It runs in an empty directory, with what `prepare` made in `$PREPARED`. What it prints may depend on no time, no
/// process id and no address.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub needs: Vec<Need>,
    /// Run once before, as the user who runs the check, with no library preloaded.
    pub prepare: String,
    pub script: String,
    /// How long a run may take.
    pub seconds_max: u64,
    /// Part of `--short`.
    pub is_short: bool,
    /// Left out for root, whom the program would let change the machine.
    pub is_for_nobody: bool,
}

impl Case {
    pub fn new(name: &str, script: &str) -> Case {
        Case {
            name: name.to_owned(),
            needs: Vec::new(),
            prepare: String::new(),
            script: script.to_owned(),
            seconds_max: 120,
            is_short: false,
            is_for_nobody: false,
        }
    }

    pub fn program(mut self, name: &'static str) -> Case {
        self.needs.push(Need::Program(name));
        self
    }

    pub fn file(mut self, path: &'static str) -> Case {
        self.needs.push(Need::File(path));
        self
    }

    pub fn prepare(mut self, script: &str) -> Case {
        self.prepare = script.to_owned();
        self
    }

    pub fn seconds_max(mut self, seconds: u64) -> Case {
        self.seconds_max = seconds;
        self
    }

    pub fn short(mut self) -> Case {
        self.is_short = true;
        self
    }

    pub fn for_nobody(mut self) -> Case {
        self.is_for_nobody = true;
        self
    }

    /// Why it cannot run here.
    pub fn missing(&self) -> Option<String> {
        self.needs.iter().find_map(Need::missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_says_what_is_missing() {
        let case = Case::new("x", "true").program("sh").file("/proc");
        assert_eq!(case.missing(), None);
        let case = case.program("no-program-has-this-name");
        assert_eq!(case.missing().as_deref(), Some("no no-program-has-this-name"));
    }
}
