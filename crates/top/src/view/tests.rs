//! Pictures of the whole screen.
//!
//! They are in `screens/`. With `USWAP_WRITE_SCREENS=1` they are written anew: look at them before they are committed.

use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::draw;
use crate::column::Column;
use crate::key::Key;
use crate::looks::{Colours, Looks, Signs};
use crate::made_up;
use crate::model::{Kind, Model};
use crate::source::News;
use uswap_control::users::Users;

const COLOURED: Looks = Looks { colours: Colours::Some, signs: Signs::Unicode };
const PLAIN: Looks = Looks { colours: Colours::None, signs: Signs::Ascii };

fn model(kind: Kind) -> Model {
    let mut model = Model::new(kind, Column::Wait, Duration::from_secs(1));
    for second in 1..=50 {
        model.hear(News::Sample(Box::new(made_up::sample(second))));
    }
    model
}

fn drawn(model: &mut Model, looks: Looks, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is made up");
    terminal.draw(|frame| draw(frame, model, looks, &Users::default())).expect("it is made up");
    terminal.backend().buffer().clone()
}

/// The lines of a picture, without what is empty behind them.
fn lines(picture: &Buffer, sign: impl Fn(&ratatui::buffer::Cell) -> String) -> String {
    let (width, height) = (picture.area.width, picture.area.height);
    let line = |y: u16| {
        let line: String = (0..width).map(|x| sign(&picture[(x, y)])).collect();
        format!("{}\n", line.trim_end())
    };
    (0..height).map(line).collect()
}

fn text(picture: &Buffer) -> String {
    lines(picture, |cell| cell.symbol().to_owned())
}

/// Where which colour is: `g` is green writing, `G` green behind black writing.
fn colours(picture: &Buffer) -> String {
    let letter = |colour| match colour {
        Color::Reset => ' ',
        Color::Black => 'k',
        Color::Red => 'r',
        Color::Green => 'g',
        Color::Yellow => 'y',
        Color::Blue => 'b',
        Color::Magenta => 'm',
        Color::Cyan => 'c',
        other => panic!("{other:?} is none of ours"),
    };
    lines(picture, |cell| match cell.bg {
        Color::Reset => letter(cell.fg).to_string(),
        background => letter(background).to_ascii_uppercase().to_string(),
    })
}

#[track_caller]
fn must_be(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/view/screens").join(format!("{name}.txt"));
    if std::env::var_os("USWAP_WRITE_SCREENS").is_some() {
        std::fs::write(&path, text).expect("the sources can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name}");
}

#[test]
fn a_run_on_the_smallest_usual_terminal() {
    let picture = drawn(&mut model(Kind::OneRun), COLOURED, (80, 24));
    must_be("run-80x24", &text(&picture));
    must_be("run-80x24-colours", &colours(&picture));
}

#[test]
fn a_run_on_a_large_terminal() {
    let mut model = model(Kind::OneRun);
    let mut sample = made_up::sample(51);
    sample.stat.processes[1].protected_bytes = 16 << 20;
    sample.stat.processes[2].weight = 50;
    model.hear(News::Sample(Box::new(sample)));
    model.press(Key::Char('t'));
    model.press(Key::Down);
    model.press(Key::Down);
    must_be("run-120x40", &text(&drawn(&mut model, COLOURED, (120, 40))));
}

#[test]
fn without_colours_nothing_has_one() {
    let mut model = model(Kind::OneRun);
    model.press(Key::Down);
    let picture = drawn(&mut model, PLAIN, (80, 24));
    assert!(picture.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    let shown = text(&picture);
    assert!(shown.is_ascii(), "{shown}");
    must_be("run-80x24-plain", &shown);
}

#[test]
fn the_list_of_runs() {
    let mut model = Model::new(Kind::RunOfList, Column::Wait, Duration::from_secs(2));
    let mut other = made_up::sample(4000).stat;
    other.pid = 70_123;
    other.uid = 7;
    other.program = "sort".to_owned();
    other.state = "frozen".to_owned();
    model.hear(News::Runs(vec![made_up::sample(75).stat, other]));
    model.press(Key::Down);
    model.press(Key::Down);
    must_be("runs-80x24", &text(&drawn(&mut model, COLOURED, (80, 24))));
}

#[test]
fn help_a_filter_and_a_run_that_has_ended() {
    let mut model = model(Kind::OneRun);
    model.press(Key::F(1));
    must_be("help-80x24", &text(&drawn(&mut model, COLOURED, (80, 24))));
    model.press(Key::Esc);
    model.press(Key::F(4));
    "work".chars().for_each(|character| {
        model.press(Key::Char(character));
    });
    let shown = text(&drawn(&mut model, COLOURED, (80, 24)));
    assert!(shown.contains("names with: work") && !shown.contains("    813 "), "{shown}");
    model.press(Key::Enter);
    model.hear(News::Ended("the run has ended".to_owned()));
    let shown = text(&drawn(&mut model, COLOURED, (80, 24)));
    assert!(shown.ends_with(" the run has ended: this is how it was last; q quits\n"), "{shown}");
    assert!(
        shown.contains("worker-1") && shown.lines().next().is_some_and(|line| line.ends_with(" ended")),
        "{shown}"
    );
}

#[test]
fn a_run_that_is_frozen_says_so() {
    let mut model = model(Kind::OneRun);
    let mut sample = made_up::sample(51);
    sample.stat.state = "frozen".to_owned();
    model.hear(News::Sample(Box::new(sample)));
    let shown = text(&drawn(&mut model, COLOURED, (80, 24)));
    assert!(shown.starts_with(" uswap 0.1.0  812 redis-server (frozen)  up 00:51 "), "{shown}");
}

#[test]
fn a_recording_says_where_it_is() {
    let mut model = model(Kind::Recording);
    model.hear(News::Place { index: 49, count: 300 });
    let shown = text(&drawn(&mut model, COLOURED, (80, 24)));
    let title = shown.lines().next().expect("there is one");
    assert!(title.ends_with(" UTC  50 of 300"), "{shown}");
    assert!(shown.ends_with("F10Quit\n") && shown.contains("PgUp/PgDn"), "{shown}");
}

#[test]
fn a_name_that_steers_terminals_is_harmless() {
    let mut sample = made_up::sample(1);
    sample.stat.processes[0].name = "\x1b[2J\u{9b}evil\n".to_owned();
    sample.stat.program = "\x1b]0;x\x07".to_owned();
    let mut model = Model::new(Kind::OneRun, Column::Wait, Duration::from_secs(1));
    model.hear(News::Sample(Box::new(sample)));
    let picture = drawn(&mut model, COLOURED, (80, 24));
    assert!(!picture.content.iter().any(|cell| cell.symbol().contains(char::is_control)));
}

#[test]
fn any_size_will_do() {
    for kind in [Kind::OneRun, Kind::RunOfList, Kind::Recording] {
        let mut filled = model(kind);
        filled.hear(News::Runs(vec![made_up::sample(3).stat]));
        for keys in [&[][..], &[Key::F(1)], &[Key::Esc, Key::F(4)], &[Key::Enter, Key::Enter], &[Key::End]] {
            for &key in keys {
                filled.press(key);
            }
            for size in [(20, 5), (1, 1), (0, 0), (2, 3), (55, 7), (56, 6), (300, 2), (10, 100)] {
                for looks in [COLOURED, PLAIN] {
                    drawn(&mut filled, looks, size);
                    drawn(&mut Model::new(kind, Column::Name, Duration::from_secs(1)), looks, size);
                }
            }
        }
    }
    must_be("run-20x5", &text(&drawn(&mut model(Kind::OneRun), COLOURED, (20, 5))));
}
