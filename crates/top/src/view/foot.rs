//! The last line: something that is to be read, or else the keys.

use super::pen::Pen;
use crate::looks::Thing;
use crate::model::{Going, Kind, Model, Over, Page};

const IN_RUNS: &[(&str, &str)] = &[("Enter", "Open"), ("Space", "Pause"), ("F1", "Help"), ("F10", "Quit")];

const IN_RUN: &[(&str, &str)] = &[
    ("F1", "Help"),
    ("F4", "Filter"),
    ("F5", "Tree"),
    ("F6", "Sort"),
    ("I", "Invert"),
    ("Space", "Pause"),
    ("F10", "Quit"),
];

const IN_RUN_OF_LIST: &[(&str, &str)] = &[
    ("F1", "Help"),
    ("F4", "Filter"),
    ("F5", "Tree"),
    ("F6", "Sort"),
    ("I", "Invert"),
    ("Space", "Pause"),
    ("Esc", "Runs"),
    ("F10", "Quit"),
];

const IN_RECORDING: &[(&str, &str)] = &[
    ("F1", "Help"),
    ("Left/Right", "Sample"),
    ("PgUp/PgDn", "Minute"),
    ("g/G", "Ends"),
    ("Space", "Play"),
    ("F10", "Quit"),
];

/// Draws it.
pub fn draw(pen: &mut Pen<'_>, model: &Model, y: u16) {
    if model.over() == Over::Filter {
        let end = pen.text(0, y, &format!(" names with: {}", model.filter()), Thing::Plain);
        let end = pen.text(end, y, " ", Thing::KeyName);
        pen.whole_text(end + 2, y, "Enter keeps it, Esc clears it", Thing::Plain);
        return;
    }
    if let Some(notice) = model.notice() {
        let rest = match model.going() {
            Going::Ended if model.kind() == Kind::RunOfList => {
                ": this is how it was last; Esc goes back, q quits"
            }
            Going::Ended => ": this is how it was last; q quits",
            _ => "",
        };
        pen.paint(0, y, pen.width(), Thing::Notice);
        pen.text(1, y, &format!("{notice}{rest}"), Thing::Notice);
        return;
    }
    let keys = match (model.page(), model.kind()) {
        (Page::Runs, _) => IN_RUNS,
        (Page::Run, Kind::OneRun) => IN_RUN,
        (Page::Run, Kind::RunOfList) => IN_RUN_OF_LIST,
        (Page::Run, Kind::Recording) => IN_RECORDING,
    };
    let mut x = 1;
    for (key, name) in keys {
        let name = format!("{name} ");
        if usize::from(x) + key.len() + name.len() > usize::from(pen.width()) {
            return;
        }
        x = pen.text(x, y, key, Thing::Key);
        x = pen.text(x, y, &name, Thing::KeyName) + 1;
    }
    if !model.filter().is_empty() {
        pen.whole_text(x, y, &format!("names with: {}", model.filter()), Thing::Plain);
    }
}
