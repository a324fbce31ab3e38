//! The terminal: taken, drawn to, and given back.
//!
//! What must hold: it is given back however this ends: by a key, an error, SIGINT, SIGTERM or a panic. Between two
//! samples nothing runs unless a key is pressed or the size changes.

use std::fs::File;
use std::io::{IsTerminal as _, stdin, stdout};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::{event, execute};

use crate::key;
use crate::looks::Looks;
use crate::model::{Effect, Going, Model};
use crate::source::{Source, Target};
use crate::view;
use crate::wake::{Wake, Waker, Woken};
use uswap_control::users::Users;

/// Where keys come from.
#[derive(Debug)]
pub enum Terminal {
    /// Standard input.
    Stdin,
    /// The terminal of this process, since standard input is something else.
    Own(File),
}

/// The terminal of this process.
///
/// # Errors
/// As a sentence: there is none.
pub fn terminal() -> Result<Terminal, String> {
    if !stdout().is_terminal() {
        return Err("standard output is no terminal: 'uswap stat --watch' prints how a run goes again and again, and \
                    'uswap record' writes it to a file"
            .to_owned());
    }
    if stdin().is_terminal() {
        return Ok(Terminal::Stdin);
    }
    let file = File::options().read(true).write(true).open("/dev/tty");
    file.map(Terminal::Own).map_err(|error| format!("there is no terminal to read keys from ({error})"))
}

/// Shows what a source says, until somebody ends it.
///
/// # Errors
/// As a sentence: the terminal cannot be used, or there is no source.
pub fn show<S: Source>(
    model: Model,
    looks: Looks,
    terminal: Terminal,
    source: impl FnOnce(Waker) -> std::io::Result<S>,
) -> Result<(), String> {
    let stdin = stdin();
    let keys = match &terminal {
        Terminal::Stdin => stdin.as_fd(),
        Terminal::Own(file) => file.as_fd(),
    };
    let wake = Wake::new().map_err(|error| format!("signals cannot be waited for ({error})"))?;
    let source = wake.waker().and_then(source);
    let source = source.map_err(|error| format!("there is no thread to ask the run ({error})"))?;
    let shown = Taken::new().and_then(|mut taken| run(&mut taken, model, looks, source, &wake, keys));
    shown.map_err(|error| format!("the terminal cannot be used ({error})"))?;
    if let Some(signal) = wake.signal() {
        // The parent is to see that it ended by it.
        let _is_not_possible = signal_hook::low_level::emulate_default_handler(signal);
    }
    Ok(())
}

fn run(
    taken: &mut Taken,
    mut model: Model,
    looks: Looks,
    mut source: impl Source,
    wake: &Wake,
    keys: BorrowedFd<'_>,
) -> std::io::Result<()> {
    let users = Users::of_this_machine();
    // A sample that the model has is as good as one that was just asked for.
    let mut asked = model.sample().map(|_| Instant::now());
    let (mut changed, mut size) = (true, None);
    while wake.signal().is_none() {
        let next = asked.map(|asked| asked + model.delay());
        if model.going() == Going::On && next.is_none_or(|next| next <= Instant::now()) {
            source.ask();
            asked = Some(Instant::now());
        }
        while let Some(news) = source.take() {
            model.hear(news);
            changed = true;
        }
        let new_size = Some(taken.0.size()?);
        if changed || size != new_size {
            taken.0.draw(|frame| view::draw(frame, &mut model, looks, &users))?;
            (changed, size) = (false, new_size);
        }
        let next = asked.map_or_else(Instant::now, |asked| asked + model.delay());
        let timeout = (model.going() == Going::On).then(|| next.saturating_duration_since(Instant::now()));
        match wake.wait(Some(keys), timeout)? {
            Woken::Otherwise => (),
            Woken::Hangup => return Ok(()),
            Woken::Keys => {
                while event::poll(Duration::ZERO)? {
                    match key::of(&event::read()?).map(|key| model.press(key)) {
                        None | Some(Effect::Nothing) => (),
                        Some(Effect::Go(target)) => {
                            source.go(target);
                            // A recording is there at once; a run has to be asked.
                            let is_run = matches!(target, Target::Runs | Target::Run(_));
                            asked = (!is_run).then(Instant::now);
                        }
                        Some(Effect::Quit) => return Ok(()),
                    }
                }
                changed = true;
            }
        }
    }
    Ok(())
}

/// A terminal that is given back.
struct Taken(DefaultTerminal);

impl Taken {
    fn new() -> std::io::Result<Self> {
        let terminal = ratatui::try_init();
        // What `try_init` sets for a panic does not show the cursor again.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        if terminal.is_err() {
            give_back();
        }
        terminal.map(Self)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // There is nobody to tell: the terminal is where it would be said.
    let _is_gone = ratatui::try_restore();
    let _is_gone = execute!(stdout(), Show);
}
