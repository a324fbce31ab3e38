//! How a run is shown: while it goes on by `--metrics`, and when it has ended by `--html`.
//!
//! What must hold: what is wrong with an address or a path is said before the program starts, and nothing that happens
//! to either later ends the run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uswap_control::map::MemoryMap;
use uswap_metrics::address::Address;
use uswap_metrics::command::announcement;
use uswap_metrics::openmetrics::RunLabel;
use uswap_metrics::recorder::Recorder;
use uswap_metrics::report::Record;
use uswap_metrics::server::{Limits, MapQuestion, Server, Source};
use uswap_metrics::socket::Listener;
use uswap_supervisor::{StatSource, Supervisor};

use crate::args::LimitArguments;
use crate::message::say;
use crate::process::StartFailure;

/// What is needed to show a run that has not begun.
pub struct ToShow {
    listener: Option<Listener>,
    html: Option<(File, PathBuf)>,
    /// Any port was asked for: nobody knows which before it is said.
    is_port_unknown: bool,
}

impl ToShow {
    /// Listens at the address, and opens the file.
    ///
    /// # Errors
    /// Something is there already, or it cannot be made.
    pub fn prepare(arguments: &LimitArguments) -> Result<ToShow, StartFailure> {
        let is_port_unknown =
            matches!(&arguments.metrics, Some(Address::Tcp(address)) if address.port() == 0);
        let listener = arguments.metrics.as_ref().map(Listener::bind).transpose();
        let listener = listener.map_err(|why| StartFailure::own(format!("--metrics: {why}")))?;
        let html = arguments.html.as_deref().map(create).transpose()?;
        Ok(ToShow { listener, html, is_port_unknown })
    }

    /// Begins to show the run. `quiet`: where it can be seen is said only if that is not known.
    pub fn start(self, supervisor: &Supervisor, quiet: Quiet) -> Shown {
        let source = supervisor.stat_source();
        let server = self.listener.and_then(|listener| {
            let (of_stat, of_map) = (source.clone(), source.clone());
            let source = Source {
                stats: Arc::new(move || vec![of_stat.stat()]),
                map: Arc::new(move |question| map(&of_map, question)),
                label: RunLabel::Without,
            };
            or_say(Server::start(listener, source, Limits::default()), "--metrics")
        });
        if let Some(server) = server.as_ref().filter(|_| self.is_port_unknown || quiet == Quiet::No) {
            say(format_args!("{}", announcement(server.address())));
        }
        let html = self.html.and_then(|(file, path)| {
            let recorder = or_say(Recorder::start(move || source.stat()), "--html")?;
            Some((recorder, file, path))
        });
        Shown { server, html }
    }
}

/// The map of a process of this run.
fn map(source: &StatSource, question: &MapQuestion<'_>) -> Result<MemoryMap, String> {
    match question.run == std::process::id() {
        true => source.map(question.process, question.is_over),
        false => Err(format!("run {} is not shown here", question.run)),
    }
}

/// Whether only what goes wrong is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quiet {
    /// Only that.
    Yes,
    /// What is good to know, too.
    No,
}

fn create(path: &Path) -> Result<(File, PathBuf), StartFailure> {
    match File::create(path) {
        Ok(file) => Ok((file, path.to_owned())),
        Err(error) => Err(StartFailure::own(format!(
            "the report file '{}' cannot be written ({error}): check --html",
            path.display()
        ))),
    }
}

fn or_say<T>(started: std::io::Result<T>, option: &str) -> Option<T> {
    started
        .map_err(|error| {
            say(format_args!("warning: {option} has no effect, there is no room for it ({error})"))
        })
        .ok()
}

/// A run that is shown.
pub struct Shown {
    server: Option<Server>,
    html: Option<(Recorder, File, PathBuf)>,
}

impl Shown {
    /// Lets go of the run. To be called before the supervisor finishes.
    pub fn end(self) -> Seen {
        drop(self.server);
        Seen(self.html.and_then(|(recorder, file, path)| Some((recorder.finish()?, file, path))))
    }
}

/// What was seen of a run, until it is written.
pub struct Seen(Option<(Record, File, PathBuf)>);

impl Seen {
    /// Writes it where it was wanted.
    pub fn write(self) {
        let Some((record, mut file, path)) = self.0 else { return };
        if let Err(error) = record.write_html(&mut file) {
            say(format_args!("the report cannot be written to '{}' ({error})", path.display()));
        }
    }
}
