//! Any other engine: a command of the user around the program.

use std::ffi::OsString;
use std::process::Command;

use super::group_session::GroupSession;
use super::names::{BUDGET, PROGRAM};
use super::{Session, Setting};
use crate::results::Memory;
use crate::system::undo::Scope;

/// The engine limits by itself; the group only counts. All its memory is resident: what of it holds compressed pages is
/// not known.
pub(super) struct TemplateSession {
    inside: GroupSession,
    words: Vec<String>,
    budget_bytes: u64,
}

impl TemplateSession {
    pub(super) fn make(scope: Scope, setting: &Setting, words: &[String]) -> anyhow::Result<Self> {
        let inside = GroupSession::free(scope, setting.counting)?;
        Ok(Self { inside, words: words.to_vec(), budget_bytes: setting.budget_bytes })
    }
}

impl Session for TemplateSession {
    fn command(&self, program: &[OsString]) -> Command {
        self.inside.command(&fill_in(&self.words, program, self.budget_bytes))
    }

    fn set_limit(&mut self, _bytes: u64) -> anyhow::Result<()> {
        Ok(())
    }

    fn memory(&self) -> anyhow::Result<Memory> {
        self.inside.memory()
    }

    fn cpu_seconds(&self) -> f64 {
        self.inside.cpu_seconds()
    }

    fn kills(&self) -> u64 {
        self.inside.kills()
    }
}

fn fill_in(words: &[String], program: &[OsString], budget_bytes: u64) -> Vec<OsString> {
    let mut filled = Vec::new();
    for word in words {
        if word == PROGRAM {
            filled.extend_from_slice(program);
        } else {
            filled.push(word.replace(BUDGET, &budget_bytes.to_string()).into());
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_stays_several_words() {
        let words = ["engine", "--ram={budget}", "{program}", "{budget}"].map(str::to_owned);
        let program = ["sort", "a file", "{budget}"].map(OsString::from);
        let expected = ["engine", "--ram=4096", "sort", "a file", "{budget}", "4096"].map(OsString::from);
        assert_eq!(fill_in(&words, &program, 4096), expected);
    }
}
