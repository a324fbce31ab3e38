//! The terminal is given back when the program panics.
//!
//! The test starts itself in a terminal, and there it is the program. That `uswap top` gives it back in other cases is
//! shown in `tests/tests/top.rs` of the repository.

#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::time::Duration;

use uswap_top::column::Column;
use uswap_top::looks::{Colours, Looks, Signs};
use uswap_top::model::{Kind, Model};
use uswap_top::screen;
use uswap_top::source::{News, Source, Target};

/// In the environment of the one that is in the terminal.
const INSIDE: &str = "USWAP_TOP_INSIDE";

/// Panics when it is asked.
struct Panics;

impl Source for Panics {
    fn ask(&mut self) {
        panic!("this source panics");
    }

    fn take(&mut self) -> Option<News> {
        None
    }

    fn go(&mut self, _target: Target) {}
}

#[test]
fn a_panic_gives_the_terminal_back() {
    if std::env::var_os(INSIDE).is_some() {
        let model = Model::new(Kind::OneRun, Column::Wait, Duration::from_secs(1));
        let looks = Looks { colours: Colours::None, signs: Signs::Ascii };
        let terminal = screen::terminal().expect("`script` has made one");
        let shown = screen::show(model, looks, terminal, |_| Ok(Panics));
        unreachable!("it ended without a panic: {shown:?}");
    }
    let binary = std::env::current_exe().expect("it is running");
    let command = format!(
        "stty rows 24 cols 80; '{}' --exact --nocapture a_panic_gives_the_terminal_back; stty -a",
        binary.display()
    );
    let output = Command::new("script")
        .args(["--quiet", "--command", &command, "/dev/null"])
        .env(INSIDE, "1")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        return println!("SKIP: there is no `script` (Debian: bsdutils), which makes a terminal");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    // Where tests unwind, it is given back once more after the message.
    let first = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words:?}: {text}"));
    let (taken, left) = (first("\x1b[?1049h"), first("\x1b[?1049l"));
    assert!(taken < left, "the other screen is left: {text}");
    assert!(left < first("this source panics"), "what is wrong is said after that: {text}");
    assert!(taken < first("\x1b[?25h"), "the cursor is shown: {text}");
    // As `stty` has it once more.
    assert!(text.contains(" icanon") && text.contains(" echo "), "lines are read as before: {text}");
}
