//! How a model is drawn.
//!
//! ```text
//! head      what it is, and how the whole run goes        (head)
//! header    the names of the columns
//! rows      a process each, or a run                      (table, runs)
//! foot      keys, or something that is to be read         (foot)
//! ```
//! What must hold: it never panics, however small the terminal is; what does not fit is left out, and is not cut where
//! it would read as something else.

mod bar;
mod foot;
mod head;
mod help;
mod pen;
mod runs;
mod table;

use ratatui::Frame;

use crate::looks::{Looks, Thing};
use crate::model::{Model, Over, Page};
use uswap_control::users::Users;

use pen::Pen;

/// Draws it, and tells it how much room there is.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model, looks: Looks, users: &Users) {
    let height = frame.area().height;
    let mut pen = Pen::new(frame.buffer_mut(), looks);
    head::title(&mut pen, model);
    let last = height.saturating_sub(1);
    let parts = match model.page() {
        Page::Runs => Vec::new(),
        Page::Run => head::parts(height, model),
    };
    let header = 1 + parts.iter().map(|(_, rows)| rows).sum::<u16>();
    model.fit(usize::from(last.saturating_sub(header + 1)));
    match (model.over(), model.page()) {
        (Over::Help, _) => help::draw(&mut pen, last),
        (_, Page::Runs) => runs::draw(&mut pen, model, users, header, last),
        (_, Page::Run) => {
            head::draw(&mut pen, model, &parts);
            table::draw(&mut pen, model, header, last);
        }
    }
    foot::draw(&mut pen, model, last);
}

/// Says in a table without rows why there are none.
fn empty(pen: &mut Pen<'_>, y: u16, last: u16, why: &str) {
    if y < last {
        pen.text(1, y, why, Thing::Plain);
    }
}

#[cfg(test)]
mod tests;
