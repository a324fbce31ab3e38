//! One table, before it is text, Markdown or HTML: all three say the same because they are made from this.

use crate::statistics::Verdict;

/// A table with what must be said above and below it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sheet {
    /// Its heading.
    pub title: String,
    /// How it is to be read, below it.
    pub notes: Vec<String>,
    /// Head of each column.
    pub columns: Vec<Column>,
    /// In order.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its head.
    pub title: String,
    /// Where its entries stand.
    pub side: Side,
}

/// Where entries stand in their column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A row.
#[derive(Clone, PartialEq, Debug)]
pub enum Row {
    /// Heads the rows below it: its name, and a few words on it.
    Group(String, String),
    /// One entry for each column.
    Entries(Vec<Entry>),
}

/// What stands in a row and a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Plain text.
    pub text: String,
    /// The verdict that it tells, for colours.
    pub verdict: Option<Verdict>,
}

impl<T: Into<String>> From<T> for Entry {
    fn from(text: T) -> Self {
        Self { text: text.into(), verdict: None }
    }
}

/// Columns of words.
pub fn left(title: impl Into<String>) -> Column {
    Column { title: title.into(), side: Side::Left }
}

/// Columns of numbers.
pub fn right(title: impl Into<String>) -> Column {
    Column { title: title.into(), side: Side::Right }
}

/// One line: any white space is one blank, and other control characters, which could move the cursor of a terminal, are
/// question marks.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// At most `letters` letters; what is cut is marked.
pub fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_break_lines_or_terminals() {
        assert_eq!(one_line("a\n\tb  c\r\n"), "a b c");
        assert_eq!(one_line("red \u{1b}[31m"), "red ?[31m");
    }

    #[test]
    fn cutting_counts_letters_not_bytes() {
        assert_eq!(shortened("ääää", 4), "ääää");
        assert_eq!(shortened("ääääb", 4), "äää…");
        assert_eq!(shortened("ab cd", 4), "ab…", "no blank before the mark");
        assert_eq!(shortened("ab", 0), "…");
    }
}
