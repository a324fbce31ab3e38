//! Lines of the control socket.

use uswap_supervisor::control::command::{Answer, Command};

/// A line is refused, or it is understood, and then what was understood makes a line that says the same.
pub fn control_line(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // As it is read from the socket: no further than the first line break.
    let line = text.split_inclusive('\n').next().unwrap_or_default();
    if let Some(command) = Command::parse(line) {
        let again = command.line().expect("what came in a line fits into one");
        assert_eq!(Command::parse(&again), Some(command), "{line:?} became {again:?}");
    }
    if let Some(answer) = Answer::parse(line) {
        let again = answer.line();
        assert_eq!(Answer::parse(&again), Some(answer), "{line:?} became {again:?}");
    }
}
