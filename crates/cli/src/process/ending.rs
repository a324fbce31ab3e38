//! How a program ended, how it failed to start, and how uswap ends the same way.

use rustix::process::{Resource, Rlimit, WaitStatus, getrlimit, setrlimit};

use uswap_supervisor::program::Unusable;

use crate::message::say;

/// The program did not start. The message is ready for the user.
#[derive(Debug, PartialEq, Eq)]
pub struct StartFailure {
    /// 125: uswap's own failure; 126: not executable; 127: not found.
    pub exit_code: i32,
    /// What was seen, why it matters, what to try.
    pub message: String,
}

impl StartFailure {
    /// uswap itself could not do its part.
    pub fn own(message: String) -> Self {
        Self { exit_code: 125, message }
    }

    /// The program is there but cannot be executed.
    pub fn not_executable(message: String) -> Self {
        Self { exit_code: 126, message }
    }

    /// There is no such program.
    pub fn not_found(message: String) -> Self {
        Self { exit_code: 127, message }
    }

    /// Says so on stderr; the rest is to end with the code.
    pub fn ending(&self) -> Ending {
        say(format_args!("{}", self.message));
        Ending::Exited(self.exit_code)
    }
}

impl From<Unusable> for StartFailure {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::NotFound(message) => Self::not_found(message),
            Unusable::NotExecutable(message) => Self::not_executable(message),
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Ending {
    /// It exited with this code, 0 to 255.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
}

impl Ending {
    /// From what `waitpid` says; `None` if the process only stopped or went on.
    pub fn from_status(status: WaitStatus) -> Option<Self> {
        let exited = status.exit_status().map(Self::Exited);
        exited.or_else(|| status.terminating_signal().map(Self::Signalled))
    }

    /// Ends this process in the same way, so that a shell cannot tell the difference.
    pub fn pass_on(self) -> ! {
        match self {
            Self::Exited(code) => std::process::exit(code),
            Self::Signalled(number) => {
                // The program may have left a core file; one of uswap beside it would only be in the way.
                let limit = getrlimit(Resource::Core);
                let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: limit.maximum });
                let emulated = signal_hook::low_level::emulate_default_handler(number);
                if emulated.is_err() {
                    // A signal without a name (real time): uswap has no handler for it, so its default is death.
                    let _ = signal_hook::low_level::raise(number);
                }
                // Reached only if the signal is ignored here: say it as a shell would.
                std::process::exit(128 + number)
            }
        }
    }
}
