//! What a thing looks like: colours where there are some, and signs that the terminal can show.
//!
//! What must hold: nothing is told by its colour alone.

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Looks {
    /// Colours.
    pub colours: Colours,
    /// Characters.
    pub signs: Signs,
}

/// Whether there are colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colours {
    /// The sixteen of every terminal.
    Some,
    /// Only bold and reversed.
    None,
}

/// Which characters a curve is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signs {
    /// Blocks of eight heights.
    Unicode,
    /// ASCII.
    Ascii,
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thing {
    /// The head line.
    Title,
    /// The name of a line.
    Label,
    /// Memory that is in RAM.
    Resident,
    /// The pool.
    Pool,
    /// What uswap itself takes.
    Own,
    /// What the swap files hold.
    Swap,
    /// Waiting.
    Waits,
    /// Faults.
    Faults,
    /// The line above a table.
    Header,
    /// The column in it by which the table is ordered.
    Sorted,
    /// The row that is selected.
    Selected,
    /// What is much.
    Alarm,
    /// The name of a key.
    Key,
    /// What a key does.
    KeyName,
    /// Something that is to be read.
    Notice,
    /// All else.
    Plain,
}

impl Looks {
    /// What this terminal can show, as its environment says.
    pub fn new(colours: Colours, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let is_mono =
            term == "dumb" || term.starts_with("vt") || term.ends_with("-m") || term.ends_with("-mono");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| set(name)).unwrap_or_default();
        let locale = locale.to_lowercase();
        Self {
            colours: if is_mono || set("NO_COLOR").is_some() { Colours::None } else { colours },
            signs: if locale.contains("utf-8") || locale.contains("utf8") {
                Signs::Unicode
            } else {
                Signs::Ascii
            },
        }
    }

    /// How it is drawn.
    pub fn style(self, thing: Thing) -> Style {
        match self.colours {
            Colours::Some => coloured(thing),
            Colours::None => plain(thing),
        }
    }
}

fn coloured(thing: Thing) -> Style {
    let colour = |colour| Style::new().fg(colour);
    match thing {
        Thing::Title => Style::new().add_modifier(Modifier::BOLD),
        Thing::Label => colour(Color::Cyan),
        Thing::Resident => colour(Color::Green),
        Thing::Pool => colour(Color::Yellow),
        Thing::Own => colour(Color::Blue),
        Thing::Swap => colour(Color::Magenta),
        Thing::Waits | Thing::Alarm => colour(Color::Red),
        Thing::Faults => colour(Color::Cyan),
        Thing::Header => Style::new().fg(Color::Black).bg(Color::Green),
        Thing::Sorted | Thing::Selected | Thing::KeyName => Style::new().fg(Color::Black).bg(Color::Cyan),
        Thing::Notice => Style::new().fg(Color::Black).bg(Color::Yellow),
        Thing::Key | Thing::Plain => Style::new(),
    }
}

fn plain(thing: Thing) -> Style {
    match thing {
        Thing::Title | Thing::Alarm => Style::new().add_modifier(Modifier::BOLD),
        Thing::Header | Thing::Selected | Thing::KeyName | Thing::Notice => {
            Style::new().add_modifier(Modifier::REVERSED)
        }
        Thing::Sorted => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(variables: &[(&str, &str)]) -> (Colours, Signs) {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let looks = Looks::new(Colours::Some, variable);
        (looks.colours, looks.signs)
    }

    #[test]
    fn the_environment_says_what_can_be_shown() {
        let usual = [("TERM", "xterm-256color"), ("LANG", "en_GB.UTF-8")];
        assert_eq!(looks(&usual), (Colours::Some, Signs::Unicode));
        for term in ["dumb", "vt100", "linux-m", "xterm-mono"] {
            assert_eq!(looks(&[("TERM", term)]).0, Colours::None, "{term}");
        }
        assert_eq!(looks(&[("TERM", "linux")]).0, Colours::Some);
        assert_eq!(looks(&[("NO_COLOR", "1")]).0, Colours::None);
        assert_eq!(looks(&[("NO_COLOR", "")]).0, Colours::Some);
        assert_eq!(looks(&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")]).1, Signs::Ascii);
        assert_eq!(looks(&[("LC_CTYPE", "C.utf8")]).1, Signs::Unicode);
        assert_eq!(Looks::new(Colours::None, |_| None).colours, Colours::None);
    }
}
