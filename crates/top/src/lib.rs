//! `uswap top`, `record`, `replay` and `dump`: a screen that shows how a run goes, and files that keep it.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the command lines |
//! | [`mod@top`], [`mod@record`], [`mod@replay`], [`mod@dump`] | the four commands |
//! | [`sample`], [`history`] | what a run said, what happened between two samples, and the last of them |
//! | [`recording`] | the file that keeps samples |
//! | [`source`], [`live`] | where the screen has its samples from: a run, or a file |
//! | [`ask`], [`wake`] | asking a run; waiting for keys, signals and answers at once |
//! | [`mod@column`], [`rows`], [`cursor`], [`key`], [`model`] | what is shown, and what a key changes |
//! | [`looks`], [`text`], [`view`] | how it is drawn |
//! | [`screen`] | the terminal: taken, drawn to, given back |
//!
//! What must hold: the terminal is given back however the command ends, but by SIGKILL; a run that does not answer
//! holds up no key; nothing is asked, computed or drawn without need.
#![forbid(unsafe_code)]

pub mod args;
pub mod ask;
pub mod column;
pub mod cursor;
pub mod dump;
pub mod history;
pub mod key;
pub mod live;
pub mod looks;
pub mod model;
pub mod record;
pub mod recording;
pub mod replay;
pub mod rows;
pub mod sample;
pub mod screen;
pub mod source;
pub mod text;
pub mod top;
pub mod view;
pub mod wake;

#[cfg(test)]
mod made_up;

pub use dump::dump;
pub use record::record;
pub use replay::replay;
pub use top::top;
