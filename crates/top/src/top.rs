//! `uswap top`: the screen over runs that are under way.

use uswap_control::runs;

use crate::args::TopArguments;
use crate::ask::first;
use crate::live::{Live, Subject};
use crate::model::{Kind, Model};
use crate::screen;
use crate::source::News;

/// Shows a run, or the list of runs if there are several and none is named.
///
/// # Errors
/// As a sentence: there is no terminal, or no run.
pub fn top(arguments: &TopArguments) -> Result<(), String> {
    let terminal = screen::terminal()?;
    let several = || {
        let runs = runs::of_this_user();
        runs.map(|runs| runs.len() > 1).map_err(|error| format!("runs cannot be looked for ({error})"))
    };
    let pid = match arguments.pid {
        Some(pid) => Some(pid),
        None if several()? => None,
        None => Some(runs::the_only_one()?),
    };
    let (subject, kind) = match pid {
        Some(pid) => (Subject::Run(pid), Kind::OneRun),
        None => (Subject::Runs, Kind::RunOfList),
    };
    let mut model = Model::new(kind, arguments.screen.sort, arguments.screen.delay);
    if let Some(pid) = pid {
        model.hear(News::Sample(Box::new(first(pid)?)));
    }
    screen::show(model, arguments.screen.looks(), terminal, |waker| Live::new(subject, waker))
}
