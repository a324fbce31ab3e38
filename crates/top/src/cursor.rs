//! Which row of a list is selected, and which rows are on the screen.
//!
//! What must hold: what is selected is a thing, not a place: it stays selected when the list is ordered anew, and is on
//! the screen.

use crate::key::Key;

/// A place in a list of things that have numbers.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    selected: Option<u32>,
    /// The first row on the screen, and how many there are.
    first: usize,
    rows: usize,
}

impl Cursor {
    /// Goes where a key leads in this list. False: this key leads nowhere.
    pub fn press(&mut self, key: Key, numbers: &[u32]) -> bool {
        let (at, last) = (self.row(numbers), numbers.len().saturating_sub(1));
        let page = self.rows.max(1);
        let to = match key {
            // The first step selects what is there.
            Key::Up => at.map_or(self.first, |row| row.saturating_sub(1)),
            Key::Down => at.map_or(self.first, |row| row + 1),
            Key::PageUp => at.unwrap_or(self.first).saturating_sub(page),
            Key::PageDown => at.unwrap_or(self.first) + page,
            Key::Home => 0,
            Key::End => last,
            _ => return false,
        };
        self.selected = numbers.get(to.min(last)).copied();
        true
    }

    /// Nothing is selected any more.
    pub fn clear(&mut self) {
        self.selected = None;
    }

    /// The row that is selected.
    pub fn row(&self, numbers: &[u32]) -> Option<usize> {
        numbers.iter().position(|number| Some(*number) == self.selected)
    }

    /// There is room for so many rows of this list; the first that is shown.
    pub fn fit(&mut self, numbers: &[u32], rows: usize) {
        self.rows = rows;
        if let Some(row) = self.row(numbers) {
            self.first = self.first.min(row).max((row + 1).saturating_sub(rows));
        }
        self.first = self.first.min(numbers.len().saturating_sub(rows));
    }

    /// The first row on the screen.
    pub fn first(&self) -> usize {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_selected_stays_so_and_on_the_screen() {
        let numbers: Vec<u32> = (100..120).collect();
        let mut cursor = Cursor::default();
        cursor.fit(&numbers, 5);
        assert_eq!((cursor.row(&numbers), cursor.first()), (None, 0));
        let press = |cursor: &mut Cursor, key| {
            assert!(cursor.press(key, &numbers));
            cursor.fit(&numbers, 5);
            (cursor.row(&numbers).expect("something is selected"), cursor.first())
        };
        assert_eq!(press(&mut cursor, Key::Down), (0, 0));
        assert_eq!(press(&mut cursor, Key::Up), (0, 0));
        assert_eq!(press(&mut cursor, Key::PageDown), (5, 1));
        assert_eq!(press(&mut cursor, Key::End), (19, 15));
        assert_eq!(press(&mut cursor, Key::Down), (19, 15));
        assert_eq!(press(&mut cursor, Key::PageUp), (14, 14));
        assert_eq!(press(&mut cursor, Key::Home), (0, 0));
        let turned: Vec<u32> = numbers.iter().rev().copied().collect();
        cursor.fit(&turned, 5);
        assert_eq!((cursor.row(&turned), cursor.first()), (Some(19), 15));
        cursor.fit(&turned[..3], 5);
        assert_eq!((cursor.row(&turned[..3]), cursor.first()), (None, 0));
        assert!(!cursor.press(Key::Enter, &numbers));
    }

    #[test]
    fn an_empty_list_and_a_screen_without_rows_are_no_trouble() {
        let mut cursor = Cursor::default();
        for key in [Key::Down, Key::Up, Key::PageDown, Key::PageUp, Key::End, Key::Home] {
            assert!(cursor.press(key, &[]));
            cursor.fit(&[], 0);
            assert!(cursor.press(key, &[4, 5]));
            cursor.fit(&[4, 5], 0);
        }
        assert_eq!(cursor.row(&[4, 5]), Some(0));
    }
}
