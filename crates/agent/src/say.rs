//! What the agent says to the user, by whatever way there is.
//!
//! Must hold: what is fatal, or true for the whole run, is heard though the program has closed or redirected its own
//! standard error. Engine threads have that of the supervisor under number 2 in their own table ([`crate::kswapd`]),
//! also when the supervisor is gone; threads of the program reach it through /proc while it lives.

use crate::state;
use core::fmt::Arguments;
use uswap_host::supervisor;
use uswap_os::fd::Fd;
use uswap_os::message::{MESSAGE_BYTES_MAX, write_without_signal};
use uswap_os::process;
use uswap_os::sys::abi;
use uswap_os::text::TextBuffer;

/// Standard error of the program, for engine threads: what it names, with a position of its own. Not if that is a
/// socket.
fn open_own_stderr() -> Option<Fd> {
    let path = process::descriptor_path(process::ids_in_proc().process, 2);
    Fd::open(path.as_c_str(), abi::O_WRONLY | abi::O_APPEND | abi::O_CLOEXEC | abi::O_NOCTTY, 0).ok()
}

/// Says `line`, without the newline, on the standard error of the supervisor, else of the program, else on the
/// terminal.
pub fn say(line: Arguments<'_>) {
    let text = TextBuffer::<MESSAGE_BYTES_MAX>::format(format_args!("uswap: {line}\n"));
    let write = |fd: Option<Fd>| fd.is_some_and(|fd| write_without_signal(fd.raw(), text.as_bytes()).is_ok());
    let terminal = || Fd::open(c"/dev/tty", abi::O_WRONLY | abi::O_CLOEXEC | abi::O_NOCTTY, 0).ok();
    let _nobody_to_tell = write(supervisor::open(2, abi::O_WRONLY | abi::O_APPEND).ok())
        || write_without_signal(state::MESSAGES_FD, text.as_bytes()).is_ok()
        || write(open_own_stderr())
        || write(terminal());
}
