//! What a process says to the user, by whatever way there is: on the standard error of `uswap run`, else on the
//! terminal.
//!
//! Must hold: nothing is written to the standard error of the program: under its number may be a file of the program's
//! own by now. Called by `agent`, and by most of this crate: wherever a process is left alone, comes home or has to be
//! ended.

use crate::{descriptors, supervisor};
use core::fmt::Arguments;
use core::sync::atomic::{AtomicI32, Ordering};
use uswap_core::segment::{Notice, Segment};
use uswap_os::fd::Fd;
use uswap_os::message::{MESSAGE_BYTES_MAX, write_without_signal};
use uswap_os::process;
use uswap_os::sys::abi;
use uswap_os::text::TextBuffer;

/// Standard error of the supervisor, in a process that has a place in the run; -1: not open.
static KEPT: AtomicI32 = AtomicI32::new(-1);

const STANDARD_ERROR: i32 = 2;

/// The process takes its place: it can speak when the supervisor is gone, too.
pub fn keep_open() {
    let number = open().and_then(|file| descriptors::keep(file).ok()).map_or(-1, Fd::into_raw);
    // Release pairs with the Acquire of `say`: who has the number finds the file open.
    KEPT.store(number, Ordering::Release);
}

/// In a forked child, which has closed it.
pub fn reset_after_fork() {
    // It is the only thread: there is nobody to pair with.
    KEPT.store(-1, Ordering::Release);
}

fn open() -> Option<Fd> {
    supervisor::open(STANDARD_ERROR, abi::O_WRONLY | abi::O_APPEND).ok()
}

/// Says a line, without the newline.
pub fn say(line: Arguments<'_>) {
    let text = TextBuffer::<MESSAGE_BYTES_MAX>::format(format_args!("uswap: {line}\n"));
    let write = |fd: Option<Fd>| fd.is_some_and(|fd| write_without_signal(fd.raw(), text.as_bytes()).is_ok());
    let terminal = || Fd::open(c"/dev/tty", abi::O_WRONLY | abi::O_CLOEXEC | abi::O_NOCTTY, 0).ok();
    // Acquire pairs with `keep_open`.
    let kept = KEPT.load(Ordering::Acquire);
    let _nobody_to_tell = kept >= 0 && write_without_signal(kept, text.as_bytes()).is_ok()
        || write(open())
        || write(terminal());
}

/// Says something of this process.
pub fn say_of_process(what: Arguments<'_>) {
    say(format_args!("process {}: {what}", process::process_id()));
}

/// The supervisor is gone, and has not said so itself: one process of the run tells the user, by `say`.
pub fn supervisor_is_gone(segment: &Segment<'static>, say: impl FnOnce(Arguments<'_>)) {
    if segment.is_first_to_say(Notice::SupervisorGone) {
        say(format_args!(
            "'uswap run' (process {}) was killed or has crashed: nobody keeps the budget of its programs from now on. \
             They go on, and what was evicted can still be read. End them and start the run again to have it kept",
            supervisor::pid()
        ));
    }
}

/// What helps where the run has no room for page tables.
pub(crate) const FEWER_IN_A_RUN: &str =
    "A run has page tables for 128 GiB, all its processes added: start some of them in a run of their own";

/// What helps where the kernel refuses one more mapping.
pub(crate) const MORE_MAPPINGS: &str =
    "It may have as many mappings as the kernel allows: raise vm.max_map_count (sysctl)";

/// Ends the program, because its memory cannot be kept right; says what to try.
pub(crate) fn stop_program(what: Arguments<'_>, advice: &str) -> ! {
    say_of_process(format_args!("{what}: the program is ended to keep its data from harm. {advice}"));
    let _sent = process::kill(process::process_id(), 9);
    process::exit_process(137)
}
