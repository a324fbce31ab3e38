//! One finding, and how it follows from the answer to what was tried.

use serde::Serialize;
use uswap_os::probe::{Answer, Probe};
use uswap_os::without::KernelFeature;

use crate::without::VARIABLE;

/// How much is lost if a thing is as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing.
    Works,
    /// `run` works, with less speed or for fewer programs.
    Limited,
    /// `run` cannot work.
    Missing,
}

impl Verdict {
    /// As the first word of a line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was tried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// What it means.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// Why it matters.
    pub why: &'static str,
    /// One line that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// What was switched off was not tried, and there is nothing to mend.
pub fn unless_switched_off(probe: &Probe, feature: KernelFeature, finding: Finding) -> Finding {
    match probe.without.has(feature) {
        true => Finding {
            verdict: Verdict::Limited,
            seen: format!("switched off by {VARIABLE}"),
            mend: None,
            ..finding
        },
        false => finding,
    }
}

/// It works.
pub fn works(name: &'static str, seen: String, why: &'static str) -> Finding {
    Finding { name, verdict: Verdict::Works, seen, why, mend: None }
}

/// `run` needs it.
pub fn needed(name: &'static str, answer: Answer, why: &'static str, mend: &str) -> Finding {
    from_answer(name, answer, Verdict::Missing, why, Some(mend))
}

/// `run` is better with it.
pub fn wanted(name: &'static str, answer: Answer, why: &'static str, mend: Option<&str>) -> Finding {
    from_answer(name, answer, Verdict::Limited, why, mend)
}

fn from_answer(
    name: &'static str,
    answer: Answer,
    otherwise: Verdict,
    why: &'static str,
    mend: Option<&str>,
) -> Finding {
    match answer {
        Ok(()) => works(name, "tried".to_owned(), why),
        Err(errno) => {
            Finding { name, verdict: otherwise, seen: errno.to_string(), why, mend: mend.map(str::to_owned) }
        }
    }
}
