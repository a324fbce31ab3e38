//! Why a process has no budget.
//!
//! Must hold: each text says what was seen, and what to try. Called by most of this crate, and by `libusw`, which makes
//! numbers of them.

use std::path::PathBuf;

/// Why a process has no budget. Each says what was seen, and what to try.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It has one.
    #[error("this process has a budget already: 'uswap stat {supervisor}' shows it")]
    LimitedAlready {
        /// The process by which the run is asked.
        supervisor: u32,
    },
    /// It had one, and has given it up.
    #[error("this process had a budget before, and a process can get one only once: start it again")]
    LimitedBefore,
    /// It was started within the budget of others.
    #[error(
        "this process was started inside of a run, by 'uswap run' or by a process with a budget, and shares that: \
         'uswap set' changes its budget"
    )]
    InARun,
    /// There is nothing to give up.
    #[error("this process has not asked for a budget: limit does that, or a pool")]
    NotLimited,
    /// The command `uswap` was not found.
    #[error(
        "the command 'uswap' is not {0}: install it, and name it by USWAP_COMMAND if it is not in a directory of PATH"
    )]
    NoCommand(String),
    /// The command could not be started.
    #[error("'{path}' cannot be started ({error}): see whether it may be executed", path = path.display())]
    NotStarted {
        /// The command.
        path: PathBuf,
        /// What the kernel says.
        error: std::io::Error,
    },
    /// The command has refused: what was asked for cannot be had, in its words.
    #[error("{0}")]
    Refused(String),
    /// The command ended, or said something else than what is expected of it.
    #[error("'{path}' {what}: is it of the same version as this library?", path = path.display())]
    Strange {
        /// The command.
        path: PathBuf,
        /// What it did.
        what: String,
    },
    /// The agent cannot be loaded into this process.
    #[error("the agent of uswap cannot be loaded ({0}): install command and agent together")]
    NoAgent(libloading::Error),
    /// The run does not say how it goes.
    #[error("{0}")]
    NoStats(String),
    /// A pool was asked for without a budget, in a process that has none.
    #[error("a pool needs a budget, and this process has none: say how much RAM, as in ram(\"2G\")")]
    NoBudget,
    /// Memory is not managed, or not kept in RAM.
    #[error("this memory cannot be managed: {0}")]
    NotManaged(String),
    /// The kernel has refused memory, or advice about it; or the C library has none.
    #[error("the kernel says of this memory: {0}. Limits (ulimit -a) and locks (mlock) may be in the way")]
    Memory(std::io::Error),
    /// The process cannot be managed.
    #[error("this process cannot be kept within a budget: {0}. 'uswap doctor' may say more")]
    Unmanageable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_says_what_to_try() {
        let no = || std::io::Error::other("no");
        // What is said in the words of others is theirs.
        for (error, advice) in [
            (Error::LimitedAlready { supervisor: 7 }, "'uswap stat 7'"),
            (Error::LimitedBefore, "start it again"),
            (Error::InARun, "'uswap set'"),
            (Error::NotLimited, "limit does that"),
            (Error::NoCommand("in PATH".to_owned()), "install it"),
            (Error::NotStarted { path: "/a".into(), error: no() }, "see whether"),
            (Error::Strange { path: "/a".into(), what: "ended".to_owned() }, "of the same version"),
            (Error::NoAgent(libloading::Error::DlOpenUnknown), "install command and agent together"),
            (Error::NoBudget, "say how much RAM"),
            (Error::Memory(no()), "ulimit -a"),
            (Error::Unmanageable("no".to_owned()), "'uswap doctor'"),
        ] {
            let text = error.to_string();
            assert!(text.contains(advice), "{text}");
        }
    }
}
