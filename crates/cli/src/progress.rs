//! How far a command is that takes long, in one line of a terminal that is written anew.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use uswap_control::stat::RunStat;
use uswap_control::stat_of;

use crate::message::write_stderr;

/// Until the first line, and between two: what is quick says nothing.
const STEP: Duration = Duration::from_millis(500);

/// Goes to the beginning of the line, and clears it.
const AGAIN: &str = "\r\x1b[K";

/// Does something that a run takes long for. Meanwhile it is said on a terminal how the run goes, in the words of
/// `describe`.
pub fn with_progress<T>(
    pid: u32,
    describe: impl Fn(&RunStat) -> String + Send,
    act: impl FnOnce() -> T,
) -> T {
    if !std::io::stderr().is_terminal() {
        return act();
    }
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut has_said = false;
            while is_done.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                if let Ok(stat) = stat_of(pid, Some(STEP)) {
                    write_stderr(&format!("{AGAIN}{}", describe(&stat)));
                    has_said = true;
                }
            }
            if has_said {
                write_stderr(AGAIN);
            }
        });
        let result = act();
        drop(done);
        result
    })
}
