//! What happened in a run, for people and for programs: the supervisor's report as a table and as JSON.

mod table;

use std::io::{self, Write as _};

use serde::{Deserialize, Serialize};
use uswap_supervisor::report::RunReport;

use crate::process::Ending;

/// What `--json FILE` holds: the report and how the program ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of uswap.
    pub uswap_version: String,
    /// The program and its arguments; bytes that are not UTF-8 are replaced.
    pub program: Vec<String>,
    /// Exit code of the program, absent if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Number of the signal that ended the program, absent if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The report.
    #[serde(flatten)]
    pub report: RunReport,
}

/// The closing table, each line with `uswap: ` or blanks in front, with a line end behind the last.
pub fn table(report: &RunReport) -> String {
    table::format(report)
}

impl RunRecord {
    /// Joins what is known at the end of a run.
    pub fn new(program: Vec<String>, ending: Ending, report: RunReport) -> Self {
        let (exit_code, signal) = match ending {
            Ending::Exited(code) => (Some(code), None),
            Ending::Signalled(number) => (None, Some(number)),
        };
        Self { uswap_version: env!("CARGO_PKG_VERSION").to_owned(), program, exit_code, signal, report }
    }

    /// Writes it as indented JSON with a line end.
    ///
    /// # Errors
    /// What writing says.
    pub fn write_json(&self, file: &mut std::fs::File) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        text.push(b'\n');
        file.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_back_as_it_was_and_names_its_units() {
        let report = table::tests::sample();
        let record = RunRecord::new(vec!["sort".to_owned()], Ending::Signalled(9), report);
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<RunRecord>(&text).unwrap(), record);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["signal"], 9);
        assert!(value.get("exit_code").is_none());
        assert_eq!(value["ram_bytes"], 256 << 20, "the report's fields are at the top level");
        assert_eq!(value["faults"][0]["p99_ns"], 9_000);
        assert_eq!(value["unmanaged"][0]["name"], "sudo");
    }

    #[test]
    fn an_exit_code_is_recorded_as_such() {
        let record = RunRecord::new(Vec::new(), Ending::Exited(3), RunReport::default());
        assert_eq!((record.exit_code, record.signal), (Some(3), None));
    }
}
