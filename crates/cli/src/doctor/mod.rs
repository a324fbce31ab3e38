//! `uswap doctor`: what this machine allows, what is missing, why it matters, and the one line that mends it.
//!
//! What must hold: it says "can run" exactly when everything that `uswap run` cannot do without was tried here and
//! worked. The trying is done by [`uswap_os::probe`]; what the answers mean is in `findings`; this file shows it.

mod finding;
mod findings;
mod newer_kernels;

use std::ffi::CString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use serde::Serialize;
use uswap_os::probe::{self, Probe};
use uswap_os::thread;
use uswap_os::without::Without;

use crate::args::DoctorArguments;
use crate::filter::Filtered;
use crate::message::{say, write_stdout};
use crate::{agent_file, human};
use finding::{Finding, Verdict};
use findings::Surroundings;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Diagnosis {
    /// Everything that `run` needs is there.
    can_run: bool,
    /// As `uname -r` has it.
    kernel_release: String,
    /// CPUs that this process may use.
    cpu_count: usize,
    /// RAM of the machine; 0 if the kernel does not say.
    memory_bytes: u64,
    /// One for each thing that was tried.
    findings: Vec<Finding>,
}

/// Runs the doctor; returns the exit code: 0 when `run` can work here, 1 when not.
pub fn doctor(arguments: &DoctorArguments) -> i32 {
    let Ok(swap_dir) = CString::new(arguments.swap.as_os_str().as_bytes()) else {
        say(format_args!("'{}' is not a path: it holds a zero byte", arguments.swap.display()));
        return 2;
    };
    let filtered = Filtered::look();
    let spared = filtered.as_ref().map_or(Without::NOTHING, |filtered| filtered.spared);
    arguments.without.or(spared).switch_off();
    let diagnosis = match &filtered {
        // To try more would end this process.
        Some(filtered) if !filtered.needed.is_empty() => untried(filtered),
        _ => {
            let surroundings = Surroundings::look(&arguments.swap, find_agent());
            diagnose(&Probe::run(Some(&swap_dir)), &Surroundings { filtered, ..surroundings })
        }
    };
    let text = if arguments.json {
        let json = serde_json::to_string_pretty(&diagnosis).expect("plain strings and numbers become JSON");
        format!("{json}\n")
    } else {
        format(&diagnosis)
    };
    let read = write_stdout(&text);
    i32::from(!(diagnosis.can_run && read))
}

fn find_agent() -> Result<String, String> {
    let own_path =
        std::env::current_exe().map_err(|error| format!("uswap cannot find its own file ({error})"))?;
    let named = std::env::var_os("USWAP_AGENT");
    let agent = agent_file::find_and_check(named.as_deref(), &own_path);
    agent.map(|path| path.display().to_string()).map_err(|failure| failure.message)
}

/// Under a filter that ends whoever tries.
fn untried(filtered: &Filtered) -> Diagnosis {
    Diagnosis {
        can_run: false,
        kernel_release: String::from_utf8_lossy(probe::kernel_release().as_bytes()).into_owned(),
        cpu_count: thread::cpu_count(),
        memory_bytes: probe::memory_bytes(),
        findings: vec![findings::filter(filtered)],
    }
}

fn diagnose(probe: &Probe, surroundings: &Surroundings) -> Diagnosis {
    let findings = findings::all(probe, surroundings);
    Diagnosis {
        can_run: findings.iter().all(|finding| finding.verdict != Verdict::Missing),
        kernel_release: String::from_utf8_lossy(probe.kernel_release.as_bytes()).into_owned(),
        cpu_count: probe.cpu_count,
        memory_bytes: probe.memory_bytes,
        findings,
    }
}

fn format(diagnosis: &Diagnosis) -> String {
    let mut text = format!(
        "Linux {}, {} CPU(s), {} of RAM\n\n",
        diagnosis.kernel_release,
        diagnosis.cpu_count,
        human::bytes(diagnosis.memory_bytes)
    );
    for finding in &diagnosis.findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<8} {:<19} {}", finding.verdict.word(), finding.name, finding.seen);
        if finding.verdict != Verdict::Works {
            let _ = writeln!(text, "{:<8} why it matters: {}", "", finding.why);
            if let Some(mend) = &finding.mend {
                let _ = writeln!(text, "{:<8} try: {mend}", "");
            }
        }
    }
    let count = |verdict| diagnosis.findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (missing, limited) = (count(Verdict::Missing), count(Verdict::Limited));
    let closing = match (missing, limited) {
        (0, 0) => "`uswap run` can work here.".to_owned(),
        (0, limited) => format!("`uswap run` can work here, with {limited} limit(s) named above."),
        (missing, _) => format!("`uswap run` cannot work here: {missing} thing(s) missing, named above."),
    };
    let _ = writeln!(text, "\n{closing}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_gets_a_diagnosis_that_agrees_with_itself() {
        let probe = Probe::run(Some(c"/var/tmp"));
        let surroundings = Surroundings::look(std::path::Path::new("/var/tmp"), Ok("/agent.so".to_owned()));
        let diagnosis = diagnose(&probe, &surroundings);
        let text = format(&diagnosis);
        let missing = diagnosis.findings.iter().filter(|finding| finding.verdict == Verdict::Missing).count();
        assert_eq!(diagnosis.can_run, missing == 0);
        assert_eq!(text.contains("cannot work here"), missing > 0, "{text}");
        assert_eq!(text.matches("try: ").count(), {
            let troubled = diagnosis.findings.iter().filter(|finding| finding.verdict != Verdict::Works);
            troubled.filter(|finding| finding.mend.is_some()).count()
        });
        assert!(diagnosis.cpu_count > 0);
        assert!(diagnosis.memory_bytes > 0);
        let json: serde_json::Value = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["can_run"], missing == 0);
        assert_eq!(json["findings"].as_array().unwrap().len(), diagnosis.findings.len());
    }

    #[test]
    fn a_missing_agent_is_enough_to_say_no() {
        let probe = Probe::run(Some(c"/var/tmp"));
        let surroundings =
            Surroundings::look(std::path::Path::new("/var/tmp"), Err("it is missing".to_owned()));
        let diagnosis = diagnose(&probe, &surroundings);
        assert!(!diagnosis.can_run);
        assert!(format(&diagnosis).contains("it is missing"));
    }
}
