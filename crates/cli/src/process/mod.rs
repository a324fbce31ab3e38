//! One program and everything that passes between it and whoever started uswap: signals, job control, its ending.
//!
//! What must hold:
//! 1. The program is in uswap's own process group, so the terminal's SIGINT, SIGQUIT and SIGTSTP reach it directly.
//!    uswap survives them and never sends them a second time.
//! 2. Signals sent to uswap alone are sent on to the program. When the program stops, uswap stops; when uswap goes
//!    on, so does the program.
//! 3. uswap ends as the program did: same exit code, or same signal.
//! 4. As long as a managed process lives, uswap stays: those processes need their supervisor.
//!
//! The engine's side is behind [`Manager`], so all of this is tested without an engine (`tests/passthrough.rs`).

mod ending;
mod family;
mod signals;
mod watch;

pub use ending::{Ending, StartFailure};
pub use signals::survive_file_size_limit;
pub use watch::{Manager, Notices, watch};
