//! The table of processes.

use super::empty;
use super::pen::Pen;
use crate::column::Column;
use crate::looks::Thing;
use crate::model::Model;

/// Draws the table from the line of its header to the line before `end`.
pub fn draw(pen: &mut Pen<'_>, model: &Model, header: u16, end: u16) {
    if header >= end {
        return;
    }
    let columns = fit(model.columns(), pen.width());
    pen.paint(0, header, pen.width(), Thing::Header);
    for place in &columns {
        let thing = if place.column == model.order().column { Thing::Sorted } else { Thing::Header };
        pen.text(place.x, header, &place.align(place.column.title()), thing);
    }
    if model.table().next().is_none() {
        let why = match (model.sample(), model.filter()) {
            (None, _) => "nothing has been said yet".to_owned(),
            (Some(_), "") => "no process is managed".to_owned(),
            (Some(_), filter) => format!("no name has '{filter}' in it"),
        };
        empty(pen, header + 1, end, &why);
    }
    for (y, (row, process, is_selected)) in (header + 1..end).zip(model.table()) {
        for place in &columns {
            let text = match place.column {
                Column::Name => format!("{}{}", row.branch, process.stat.name),
                column => column.text(process),
            };
            pen.text(place.x, y, &place.align(&text), Thing::Plain);
        }
        if is_selected {
            pen.paint(0, y, pen.width(), Thing::Selected);
        }
    }
}

/// Where a column stands.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Place {
    column: Column,
    x: u16,
    width: u16,
}

impl Place {
    /// As wide as the column: names to the left, numbers to the right.
    fn align(self, text: &str) -> String {
        let width = usize::from(self.width);
        match self.column {
            Column::Name => format!("{text:<width$.width$}"),
            _ => format!("{text:>width$.width$}"),
        }
    }
}

/// The columns that so much room is enough for. The name takes what the others leave.
fn fit(mut columns: Vec<Column>, width: u16) -> Vec<Place> {
    let needed = |columns: &[Column]| columns.iter().map(|column| column.width() + 1).sum::<u16>() - 1;
    while columns.len() > 1 && needed(&columns) > width {
        let last = columns.iter().copied().max_by_key(|column| column.goes_first());
        columns.retain(|column| Some(*column) != last);
    }
    let for_names = (Column::Name.width() + width).saturating_sub(needed(&columns));
    let mut x = 0;
    let place = |column: Column| {
        let width = if column == Column::Name { for_names } else { column.width() };
        let place = Place { column, x, width };
        x += width + 1;
        place
    };
    columns.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_say_less_go_first_and_names_take_the_rest() {
        let columns = |width| {
            let places = fit(Column::ALL.to_vec(), width);
            let end = places.last().map_or(0, |place| place.x + place.width);
            assert!(end == width || places.len() == 1, "{places:?}");
            places.into_iter().map(|place| place.column).collect::<Vec<_>>()
        };
        assert_eq!(columns(120), Column::ALL);
        assert!(!columns(80).contains(&Column::Full) && columns(80).contains(&Column::Weight));
        assert_eq!(columns(30), [Column::Pid, Column::Name, Column::Resident]);
        assert_eq!(columns(20), [Column::Pid, Column::Name]);
        assert_eq!(columns(5), [Column::Name]);
    }
}
