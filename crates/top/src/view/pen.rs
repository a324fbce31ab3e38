//! Writes to the screen in the looks of the terminal.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::symbols::bar;
use ratatui::widgets::{RenderDirection, Sparkline, Widget as _};

use crate::looks::{Looks, Signs, Thing};

/// Heights of a curve where there is only ASCII.
const ASCII_HEIGHTS: bar::Set = bar::Set {
    empty: " ",
    one_eighth: ".",
    one_quarter: ".",
    three_eighths: ":",
    half: ":",
    five_eighths: "=",
    three_quarters: "=",
    seven_eighths: "#",
    full: "#",
};

/// Writes to the screen.
pub struct Pen<'a> {
    buffer: &'a mut Buffer,
    looks: Looks,
}

impl<'a> Pen<'a> {
    /// For this screen.
    pub fn new(buffer: &'a mut Buffer, looks: Looks) -> Self {
        Self { buffer, looks }
    }

    /// Columns of the screen.
    pub fn width(&self) -> u16 {
        self.buffer.area.width
    }

    /// Writes from a place on, to the end of the line at most; the column behind it. Characters that steer a terminal
    /// are left out.
    pub fn text(&mut self, x: u16, y: u16, text: &str, thing: Thing) -> u16 {
        let Rect { width, height, .. } = self.buffer.area;
        if x >= width || y >= height {
            return x;
        }
        self.buffer.set_stringn(x, y, text, usize::from(width - x), self.looks.style(thing)).0
    }

    /// The same, if the line has room for all of it.
    pub fn whole_text(&mut self, x: u16, y: u16, text: &str, thing: Thing) -> Option<u16> {
        let fits = usize::from(x) + text.chars().count() <= usize::from(self.width());
        fits.then(|| self.text(x, y, text, thing))
    }

    /// Gives a line, from a column on, the style of a thing.
    pub fn paint(&mut self, x: u16, y: u16, columns: u16, thing: Thing) {
        let area = Rect { x, y, width: columns, height: 1 }.intersection(self.buffer.area);
        self.buffer.set_style(area, self.looks.style(thing));
    }

    /// Draws a curve of values, the newest first, which is on the right; the highest of them, and never less than
    /// `most`, takes the whole height.
    pub fn curve(&mut self, area: Rect, values: impl Iterator<Item = u64>, most: u64, thing: Thing) {
        let area = area.intersection(self.buffer.area);
        let values: Vec<u64> = values.take(usize::from(area.width)).collect();
        let heights = match self.looks.signs {
            Signs::Unicode => bar::NINE_LEVELS,
            Signs::Ascii => ASCII_HEIGHTS,
        };
        let highest = values.iter().copied().max().unwrap_or(0).max(most);
        Sparkline::default()
            .data(values)
            .max(highest)
            .bar_set(heights)
            .direction(RenderDirection::RightToLeft)
            .style(self.looks.style(thing))
            .render(area, self.buffer);
    }
}
