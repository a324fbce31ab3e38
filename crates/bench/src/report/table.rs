//! The report for a terminal: plain text, at most [`WIDTH`] letters wide.
//!
//! What must hold: no line is wider; nothing that says how a run ended is cut off: the last column wraps, only names
//! are shortened.

use crate::results::Results;

use super::sheet::{Row, Sheet, Side, shortened};
use super::{contents, duel, program};

/// Letters of the widest line.
pub const WIDTH: usize = 110;
/// Between columns.
const GAP: usize = 2;
/// A column of words is not made narrower than this.
const COLUMN_MIN: usize = 8;

/// The whole report.
pub fn text(results: &Results) -> String {
    let mut text = wrapped("uswap bench: ", 4, &results.scenario) + "\n";
    for (name, value) in contents::facts(results) {
        text += &wrapped(&format!("{name:<13}"), 13, &value);
    }
    let mut sheets = program::sheets(results);
    if sheets.is_empty() {
        sheets = vec![
            duel::summary(results),
            contents::main_figures(results, &results.workloads),
            contents::costs(results, &results.workloads),
        ];
    }
    sheets.extend(contents::troubles(results));
    for sheet in &sheets {
        text.push('\n');
        text += &sheet_text(sheet);
    }
    text
}

/// One table with its heading and notes.
pub fn sheet_text(sheet: &Sheet) -> String {
    let mut text = format!("{}\n{}\n", sheet.title, "-".repeat(sheet.title.chars().count().min(WIDTH)));
    let layout = Layout::new(sheet);
    if !sheet.rows.is_empty() {
        text += &layout.line(&sheet.columns.iter().map(|column| column.title.as_str()).collect::<Vec<_>>());
    }
    for row in &sheet.rows {
        match row {
            Row::Group(name, words) => {
                let words = if words.is_empty() { String::new() } else { format!(": {words}") };
                text += &wrapped("", 4, &format!("{name}{words}"));
            }
            Row::Entries(entries) => {
                text += &layout.line(&entries.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>());
            }
        }
    }
    for note in &sheet.notes {
        text += &wrapped("* ", 2, note);
    }
    text
}

/// Where the columns are.
struct Layout {
    indent: usize,
    sides: Vec<Side>,
    widths: Vec<usize>,
}

impl Layout {
    fn new(sheet: &Sheet) -> Self {
        let grouped = sheet.rows.iter().any(|row| matches!(row, Row::Group(..)));
        let indent = if grouped { 2 } else { 0 };
        let sides: Vec<Side> = sheet.columns.iter().map(|column| column.side).collect();
        let mut widths: Vec<usize> =
            sheet.columns.iter().map(|column| column.title.chars().count()).collect();
        for row in &sheet.rows {
            let Row::Entries(entries) = row else { continue };
            for (width, entry) in widths.iter_mut().zip(entries) {
                *width = (*width).max(entry.text.chars().count());
            }
        }
        let mut layout = Self { indent, sides, widths };
        while layout.total() > WIDTH && layout.narrow() {}
        layout
    }

    fn total(&self) -> usize {
        self.indent + self.widths.iter().sum::<usize>() + GAP * self.widths.len().saturating_sub(1)
    }

    /// Takes one letter from the widest column of words. False if none can give one.
    fn narrow(&mut self) -> bool {
        let words = (0..self.widths.len()).filter(|index| self.sides[*index] == Side::Left);
        let Some(widest) = words.max_by_key(|index| self.widths[*index]) else { return false };
        if self.widths[widest] <= COLUMN_MIN {
            return false;
        }
        self.widths[widest] -= 1;
        true
    }

    /// One row; more than one line if the last column is one of words and too long.
    fn line(&self, entries: &[&str]) -> String {
        let mut line = " ".repeat(self.indent);
        let last = self.widths.len().saturating_sub(1);
        for (index, entry) in entries.iter().enumerate().take(self.widths.len()) {
            let width = self.widths[index];
            if index == last && self.sides[index] == Side::Left {
                let start = line.chars().count();
                return wrapped(&line, start, entry);
            }
            match self.sides[index] {
                Side::Left => line += &format!("{:<width$}", shortened(entry, width)),
                Side::Right => line += &format!("{entry:>width$}"),
            }
            if index < last {
                line += &" ".repeat(GAP);
            }
        }
        format!("{}\n", line.trim_end())
    }
}

/// `head`, and behind it `words`, wrapped at [`WIDTH`]; the further lines start after `indent` blanks. A word that is
/// longer than a line is cut in pieces.
pub(super) fn wrapped(head: &str, indent: usize, words: &str) -> String {
    let mut text = String::new();
    let mut line = head.to_owned();
    let mut length = head.chars().count();
    let mut fresh = true;
    for word in words.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        while !letters.is_empty() {
            let gap = usize::from(!fresh);
            if length + gap + letters.len() > WIDTH && !fresh {
                text += &format!("{}\n", line.trim_end());
                line = " ".repeat(indent);
                length = indent;
                fresh = true;
                continue;
            }
            let rest = letters.split_off(letters.len().min(WIDTH.saturating_sub(length + gap).max(1)));
            line += &" ".repeat(gap);
            line.extend(&letters);
            length += gap + letters.len();
            letters = rest;
            fresh = false;
        }
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::sample::{awkward, sample, small, user_program};
    use super::super::sheet::{Entry, left, right};
    use super::*;

    #[test]
    fn no_line_is_too_wide_and_nothing_is_nan() {
        for results in [sample(), awkward(), small(), user_program(), Results::default()] {
            let text = text(&results);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{} letters: {line}", line.chars().count());
                assert_eq!(line, line.trim_end());
            }
            for odd in ["NaN", "inf "] {
                assert!(!text.contains(odd), "{odd} in\n{text}");
            }
        }
    }

    #[test]
    fn a_small_result_as_it_is_printed() {
        assert_eq!(text(&small()), include_str!("golden/small.txt"));
    }

    #[test]
    fn words_of_the_last_column_wrap_and_names_are_shortened() {
        let long = "word ".repeat(40);
        let row = Row::Entries(vec![Entry::from("n".repeat(90)), "12".into(), long.as_str().into()]);
        let columns = vec![left("name"), right("number"), left("why")];
        let sheet = Sheet { title: "t".to_owned(), notes: Vec::new(), columns, rows: vec![row] };
        let text = sheet_text(&sheet);
        assert_eq!(text.matches("word").count(), 40, "{text}");
        assert!(text.contains("n…") && text.contains("12"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_word_longer_than_a_line_is_cut_in_pieces() {
        let text = wrapped("head ", 5, &"x".repeat(250));
        assert_eq!(text.matches('x').count(), 250);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn losses_and_kills_are_printed_like_wins() {
        let text = text(&sample());
        for words in ["win", "loss", "tie", "killed 3 of 5", "left out"] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
    }
}
