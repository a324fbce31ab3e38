//! What the screen shows, and what a key or a sample changes about it.
//!
//! What must hold: nothing here asks, waits or draws; the same samples and keys give the same model. Called by
//! [`crate::screen`], and drawn by [`crate::view`].

use std::time::Duration;

use uswap_control::stat::RunStat;

use crate::column::{Column, Process};
use crate::cursor::Cursor;
use crate::history::History;
use crate::key::Key;
use crate::rows::{Direction, Order, Row, Shape, process, rows};
use crate::sample::Sample;
use crate::source::{News, Target};

/// Times between two samples that + and - go through.
const DELAYS_MS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// Longest filter: longer than any name.
const FILTER_CHARACTERS_MAX: usize = 32;

/// What the screen shows.
#[derive(Clone, Debug)]
pub struct Model {
    kind: Kind,
    page: Page,
    runs: Vec<RunStat>,
    runs_cursor: Cursor,
    history: History,
    place: Option<(usize, usize)>,
    order: Order,
    filter: String,
    rows: Vec<Row>,
    rows_cursor: Cursor,
    over: Over,
    going: Going,
    delay: Duration,
    notice: Option<String>,
}

/// What samples come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A run.
    OneRun,
    /// A run that was chosen from a list.
    RunOfList,
    /// A file.
    Recording,
}

/// What is below the head line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// The list of runs.
    Runs,
    /// A run.
    Run,
}

/// What takes the keys away from the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// Nothing.
    Nothing,
    /// The help.
    Help,
    /// A filter is typed.
    Filter,
}

/// Whether there will be further samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Going {
    /// One after the other.
    On,
    /// When somebody wants to see them.
    Paused,
    /// None.
    Ended,
}

/// What somebody else has to do about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// The source goes there.
    Go(Target),
    /// The command ends.
    Quit,
}

impl Model {
    /// A screen that shows nothing yet.
    pub fn new(kind: Kind, column: Column, delay: Duration) -> Self {
        Self {
            kind,
            page: if kind == Kind::RunOfList { Page::Runs } else { Page::Run },
            runs: Vec::new(),
            runs_cursor: Cursor::default(),
            history: History::default(),
            place: None,
            order: Order { column, direction: Direction::Usual, shape: Shape::List },
            filter: String::new(),
            rows: Vec::new(),
            rows_cursor: Cursor::default(),
            over: Over::Nothing,
            going: if kind == Kind::Recording { Going::Paused } else { Going::On },
            delay,
            notice: None,
        }
    }

    /// Takes what a source has to say.
    pub fn hear(&mut self, news: News) {
        self.notice = None;
        match news {
            News::Sample(sample) => self.history.push(*sample),
            News::Jump(samples) => {
                self.history = History::default();
                samples.into_iter().for_each(|sample| self.history.push(sample));
            }
            News::Place { index, count } => self.place = Some((index, count)),
            News::Runs(runs) => self.runs = runs,
            News::Nothing(why) => self.notice = Some(why),
            News::Ended(why) => {
                self.going = if self.kind == Kind::Recording { Going::Paused } else { Going::Ended };
                self.notice = Some(why);
            }
        }
        self.order_anew();
    }

    /// Does what a key says.
    pub fn press(&mut self, key: Key) -> Effect {
        if matches!(key, Key::Interrupt | Key::F(10)) {
            return Effect::Quit;
        }
        let effect = match (self.over, self.page) {
            (Over::Help, _) => {
                self.over = Over::Nothing;
                Effect::Nothing
            }
            (Over::Filter, _) => self.type_filter(key),
            (Over::Nothing, Page::Runs) => self.press_in_runs(key),
            (Over::Nothing, Page::Run) => self.press_in_run(key),
        };
        self.order_anew();
        effect
    }

    fn press_in_runs(&mut self, key: Key) -> Effect {
        let numbers: Vec<u32> = self.runs.iter().map(|run| run.pid).collect();
        if key != Key::Enter {
            return if self.runs_cursor.press(key, &numbers) {
                Effect::Nothing
            } else {
                self.press_anywhere(key)
            };
        }
        let Some(&pid) = numbers.get(self.runs_cursor.row(&numbers).unwrap_or(0)) else {
            return Effect::Nothing;
        };
        self.page = Page::Run;
        self.history = History::default();
        self.rows_cursor = Cursor::default();
        Effect::Go(Target::Run(pid))
    }

    fn press_in_run(&mut self, key: Key) -> Effect {
        if self.kind == Kind::Recording
            && let Some(target) = step(key)
        {
            return Effect::Go(target);
        }
        let numbers: Vec<u32> = self.rows.iter().map(|row| row.pid).collect();
        match key {
            Key::F(4) | Key::Char('\\') => self.over = Over::Filter,
            Key::F(5) | Key::Char('t') => {
                self.order.shape = match self.order.shape {
                    Shape::List => Shape::Tree,
                    Shape::Tree => Shape::List,
                }
            }
            Key::F(6) | Key::Char('s' | '>') => self.order.column = self.column_beside(1),
            Key::Char('<') => self.order.column = self.column_beside(-1),
            Key::Char('I') => {
                self.order.direction = match self.order.direction {
                    Direction::Usual => Direction::Inverted,
                    Direction::Inverted => Direction::Usual,
                }
            }
            Key::Esc if self.kind == Kind::RunOfList => {
                self.page = Page::Runs;
                self.going = Going::On;
                self.notice = None;
                return Effect::Go(Target::Runs);
            }
            Key::Esc => {
                self.filter.clear();
                self.rows_cursor.clear();
            }
            key if self.rows_cursor.press(key, &numbers) => (),
            key => return self.press_anywhere(key),
        }
        Effect::Nothing
    }

    fn press_anywhere(&mut self, key: Key) -> Effect {
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::F(1) | Key::Char('h' | '?') => self.over = Over::Help,
            Key::Char(' ') => {
                self.going = match self.going {
                    Going::On => Going::Paused,
                    Going::Paused => Going::On,
                    Going::Ended => Going::Ended,
                }
            }
            Key::Char('+' | '=') => {
                let longer =
                    DELAYS_MS.map(Duration::from_millis).into_iter().find(|delay| *delay > self.delay);
                self.delay = longer.unwrap_or(self.delay);
            }
            Key::Char('-') => {
                let shorter =
                    DELAYS_MS.map(Duration::from_millis).into_iter().rfind(|delay| *delay < self.delay);
                self.delay = shorter.unwrap_or(self.delay);
            }
            _ => (),
        }
        Effect::Nothing
    }

    fn type_filter(&mut self, key: Key) -> Effect {
        match key {
            Key::Char(character) if self.filter.chars().count() < FILTER_CHARACTERS_MAX => {
                self.filter.push(character);
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Enter => self.over = Over::Nothing,
            Key::Esc => {
                self.filter.clear();
                self.over = Over::Nothing;
            }
            _ => (),
        }
        Effect::Nothing
    }

    /// The column of the table that is so many to the right of the one that orders it, or around the end.
    fn column_beside(&self, step: isize) -> Column {
        let columns = self.columns();
        let at = columns.iter().position(|column| *column == self.order.column).unwrap_or(0);
        let to = (at as isize + step).rem_euclid(columns.len() as isize);
        columns[to as usize]
    }

    fn order_anew(&mut self) {
        self.rows = rows(&self.history, self.order, &self.filter);
    }

    /// There is room for so many rows of a table.
    pub fn fit(&mut self, rows: usize) {
        match self.page {
            Page::Runs => {
                let numbers: Vec<u32> = self.runs.iter().map(|run| run.pid).collect();
                self.runs_cursor.fit(&numbers, rows);
            }
            Page::Run => {
                let numbers: Vec<u32> = self.rows.iter().map(|row| row.pid).collect();
                self.rows_cursor.fit(&numbers, rows);
            }
        }
    }

    /// The columns of the table: those in which a process has something.
    pub fn columns(&self) -> Vec<Column> {
        let processes = self.sample().map_or(&[][..], |sample| sample.stat.processes.as_slice());
        let has_something = |column: &Column| match column {
            Column::Protected | Column::Weight => {
                self.order.column == *column || processes.iter().any(|process| column.is_set(process))
            }
            _ => true,
        };
        Column::ALL.into_iter().filter(has_something).collect()
    }

    /// The rows of the table, each with whether it is selected; the first that is on the screen is the first.
    pub fn table(&self) -> impl Iterator<Item = (&Row, Process<'_>, bool)> {
        let numbers: Vec<u32> = self.rows.iter().map(|row| row.pid).collect();
        let selected = self.rows_cursor.row(&numbers);
        let processes = self.sample().map_or(&[][..], |sample| sample.stat.processes.as_slice());
        self.rows.iter().enumerate().skip(self.rows_cursor.first()).map(move |(place, row)| {
            (row, process(&self.history, &processes[row.index]), Some(place) == selected)
        })
    }

    /// The runs of the list, as [`Self::table`].
    pub fn runs(&self) -> impl Iterator<Item = (&RunStat, bool)> {
        let numbers: Vec<u32> = self.runs.iter().map(|run| run.pid).collect();
        // Enter opens the first one if none was selected.
        let selected = self.runs_cursor.row(&numbers).unwrap_or(0);
        self.runs
            .iter()
            .enumerate()
            .skip(self.runs_cursor.first())
            .map(move |(place, run)| (run, place == selected))
    }

    /// What is below the head line.
    pub fn page(&self) -> Page {
        self.page
    }

    /// What samples come from.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What takes the keys away from the page.
    pub fn over(&self) -> Over {
        self.over
    }

    /// Whether there will be further samples.
    pub fn going(&self) -> Going {
        self.going
    }

    /// Time between two samples.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The newest sample.
    pub fn sample(&self) -> Option<&Sample> {
        self.history.last()
    }

    /// That, and what was before.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Place of the sample in a recording, and how many samples that has.
    pub fn place(&self) -> Option<(usize, usize)> {
        self.place
    }

    /// In which order processes are shown.
    pub fn order(&self) -> Order {
        self.order
    }

    /// What their names have in them.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Something that is to be read.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }
}

/// Where a key leads in a recording.
fn step(key: Key) -> Option<Target> {
    Some(match key {
        Key::Left => Target::Samples(-1),
        Key::Right => Target::Samples(1),
        Key::PageUp => Target::Minutes(-1),
        Key::PageDown => Target::Minutes(1),
        Key::Char('g') => Target::First,
        Key::Char('G') => Target::Last,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
