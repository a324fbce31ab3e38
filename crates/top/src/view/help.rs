//! What the lines and columns are, and what keys do.

use super::pen::Pen;
use crate::looks::Thing;

/// At most 80 columns and 22 lines, so that a terminal of 24 has room for all of it.
const TEXT: &str = "\
LINES
  ram     # in RAM, = compressed in the pool, + uswap's own, of the limit
  swap    what the swap files hold, of the most that they may
  waits   part of the time that the run waited for pages: at least one thread
          of it (some), or all that do not sleep, of all processes (full)
  faults  per second, and what half of them and 99 of 100 did not exceed
  from    the same by where the page came from
  flow    content from and to the pool; reads and writes of the swap files
COLUMNS
  IN-USE   what is in RAM, and what comes back    PROTECT WEIGHT  where set
  TAKEN/s  pages by reclaim    BACK/s  pages by a touch    WAIT% FULL%  of 10 s
  SOON%    of those that came back: with twice the RAM they had not gone
KEYS
  Up Down PgUp PgDn Home End   select          F4 \\    filter by name
  F6 s >   order by the next column            <       by the one before
  F5 t     tree, or list                       I       the other end first
  Space    pause, and go on                    + -     time between samples
  Esc      back; no filter                     F1 h ?  this help
  q F10    quit
IN A RECORDING
  Left Right   a sample        PgUp PgDn   a minute        g G   the ends
  Space   play, and pause";

/// Draws it from the second line to the one before `end`.
pub fn draw(pen: &mut Pen<'_>, end: u16) {
    for (y, line) in (1..end).zip(TEXT.lines()) {
        let thing = if line.starts_with(' ') { Thing::Plain } else { Thing::Label };
        pen.text(0, y, line, thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_on_the_smallest_usual_terminal() {
        assert!(TEXT.lines().count() <= 22 && TEXT.lines().all(|line| line.chars().count() <= 80));
    }
}
