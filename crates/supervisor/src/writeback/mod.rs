//! From the pool to the swap files: what is moved when ([`shrinker`]), and what the user forbids ([`limits`]).

mod limits;
mod shrinker;

pub use shrinker::run;
