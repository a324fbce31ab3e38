//! A bar of parts that stand one behind the other.

use super::pen::Pen;
use crate::looks::Thing;

/// A part of a bar: how much, of what sign, as what.
pub type Part = (u64, char, Thing);

/// Draws `[###==+   ]` over so many columns, brackets included: parts of `whole`.
pub fn draw(pen: &mut Pen<'_>, x: u16, y: u16, columns: u16, whole: u64, parts: &[Part]) {
    let inner = columns.saturating_sub(2);
    let sizes: Vec<u64> = parts.iter().map(|(size, ..)| *size).collect();
    let mut at = pen.text(x, y, "[", Thing::Plain);
    for ((_, sign, thing), cells) in parts.iter().zip(cells(inner, whole, &sizes)) {
        at = pen.text(at, y, &sign.to_string().repeat(usize::from(cells)), *thing);
    }
    pen.text(x + inner + 1, y, "]", Thing::Plain);
}

/// How many of `columns` each part takes. Rounded at their ends, so that all together are right.
fn cells(columns: u16, whole: u64, sizes: &[u64]) -> Vec<u16> {
    // More than the whole fills it.
    let whole = u128::from(whole).max(sizes.iter().map(|size| u128::from(*size)).sum()).max(1);
    let (mut sum, mut begin) = (0_u128, 0);
    let part = |size: &u64| {
        sum += u128::from(*size);
        let end = ((sum * u128::from(columns) * 2 + whole) / (whole * 2)) as u16;
        let cells = end - begin;
        begin = end;
        cells
    };
    sizes.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_what_they_are_of_the_whole() {
        assert_eq!(cells(10, 100, &[50, 30, 10]), [5, 3, 1]);
        assert_eq!(cells(10, 100, &[0, 100]), [0, 10]);
        assert!(cells(10, 100, &[]).is_empty());
        // Each is a third of a column, all together are one.
        assert_eq!(cells(10, 300, &[10, 10, 10]), [0, 1, 0]);
        assert_eq!(cells(10, 100, &[150, 50]), [8, 2]);
        assert_eq!(cells(10, 0, &[0]), [0]);
        assert_eq!(cells(0, 10, &[10]), [0]);
        assert_eq!(cells(u16::MAX, u64::MAX, &[u64::MAX, u64::MAX]), [32_768, 32_767]);
    }
}
