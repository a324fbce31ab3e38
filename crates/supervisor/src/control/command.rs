//! The lines of commands and their answers.
//!
//! What is read was written by another process, of another version perhaps: what is not understood whole is refused.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uswap_control::{DONE, FAILED, STAT, map};

use super::AGE_MAX;
use crate::files::place::{SwapPlace, kind_name, parse_kind};
use crate::options::{OnFull, PoolSize};

/// What a run is told to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Write what nobody touches for so long.
    Writeback(Duration),
    /// Add a swap file.
    SwapOn(SwapPlace),
    /// Empty the swap file in this directory, and remove it.
    SwapOff(PathBuf),
    /// Say how it goes.
    Stat(Form),
    /// Say which parts of the memory of a process are where. None: of the one that has most under management.
    Map(Option<u32>),
    /// Keep to something else from now on.
    Set(Change),
    /// Bring all memory home, and manage nothing any more.
    Leave,
    /// Write all memory to the swap files, and stop the processes.
    Freeze,
    /// Let them go on.
    Thaw,
}

/// What is to change of [`crate::options::Limits`]. What is not named stays.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// The budget.
    pub ram_bytes: Option<u64>,
    /// The part of it that compressed pages may take.
    pub pool: Option<PoolSize>,
    /// What happens when pool and file are full.
    pub on_full: Option<OnFull>,
    /// What is protected of the processes of a name, in bytes; 0: nothing any more.
    pub protect: Vec<(String, u64)>,
    /// The weight of processes of a name; 0: none any more.
    pub weight: Vec<(String, u64)>,
    /// So long it is waited until a smaller budget holds.
    pub wait_ms: u64,
}

/// In what form an answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Lines for people.
    Text,
    /// JSON in one line.
    Json,
}

/// Stands for a line break in an answer.
const BREAK: char = '\u{1e}';

/// Stands for what was not said.
const UNSAID: &str = "-";

fn said<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| UNSAID.to_owned(), |value| value.to_string())
}

fn unsaid_or<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text == UNSAID { Some(None) } else { parse(text).map(Some) }
}

impl Command {
    /// The line for it.
    ///
    /// # Errors
    /// A directory whose name does not fit into a line.
    pub fn line(&self) -> Result<String, String> {
        let name = |dir: &PathBuf| {
            let plain = dir.to_str().filter(|name| !name.contains('\n')).map(str::to_owned);
            plain.ok_or_else(|| {
                format!(
                    "the name of the directory '{}' has a line break or is not UTF-8: choose another",
                    dir.display()
                )
            })
        };
        Ok(match self {
            Command::Writeback(age) => format!("writeback {}\n", age.as_millis()),
            Command::SwapOn(SwapPlace { dir, bytes_max, priority, kind }) => format!(
                "swapon {} {} {} {}\n",
                said(*bytes_max),
                said(*priority),
                said(kind.map(kind_name)),
                name(dir)?
            ),
            Command::SwapOff(dir) => format!("swapoff {}\n", name(dir)?),
            Command::Stat(Form::Text) => "stat 1\n".to_owned(),
            Command::Stat(Form::Json) => STAT.to_owned(),
            Command::Map(pid) => map::command(*pid),
            Command::Leave => "leave 1\n".to_owned(),
            Command::Freeze => "freeze 1\n".to_owned(),
            Command::Thaw => "thaw 1\n".to_owned(),
            Command::Set(change) => {
                let json = serde_json::to_string(change).expect("it has nothing that JSON cannot say");
                format!("set {json}\n")
            }
        })
    }

    /// The command in a line. None: it is none.
    pub fn parse(line: &str) -> Option<Command> {
        let (word, rest) = line.strip_suffix('\n')?.split_once(' ')?;
        let absolute = |dir: &str| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
        match word {
            "writeback" => {
                let age = Duration::from_millis(rest.parse().ok()?);
                (age <= AGE_MAX).then_some(Command::Writeback(age))
            }
            "swapon" => {
                let mut parts = rest.splitn(4, ' ');
                let mut next = || parts.next();
                Some(Command::SwapOn(SwapPlace {
                    bytes_max: unsaid_or(next()?, |text| text.parse().ok())?,
                    priority: unsaid_or(next()?, |text| text.parse().ok())?,
                    kind: unsaid_or(next()?, parse_kind)?,
                    dir: absolute(next()?)?,
                }))
            }
            "swapoff" => Some(Command::SwapOff(absolute(rest)?)),
            "map" => {
                let pid: u32 = rest.parse().ok()?;
                Some(Command::Map((pid != 0).then_some(pid)))
            }
            "leave" if rest == "1" => Some(Command::Leave),
            "freeze" if rest == "1" => Some(Command::Freeze),
            "thaw" if rest == "1" => Some(Command::Thaw),
            "set" => serde_json::from_str(rest).ok().map(Command::Set),
            "stat" => match rest {
                "1" => Some(Command::Stat(Form::Text)),
                "json" => Some(Command::Stat(Form::Json)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// What was done.
    Done(String),
    /// Why it was not.
    Error(String),
}

impl Answer {
    /// The line for it.
    pub fn line(&self) -> String {
        let (word, text) = match self {
            Answer::Done(what) => (DONE, what),
            Answer::Error(why) => (FAILED, why),
        };
        format!("{word}{}\n", text.replace('\n', &BREAK.to_string()))
    }

    /// The answer in a line. None: it is none.
    pub fn parse(line: &str) -> Option<Answer> {
        let line = line.strip_suffix('\n')?;
        let lines = |text: &str| text.replace(BREAK, "\n");
        let failed = || line.strip_prefix(FAILED).map(|why| Answer::Error(lines(why)));
        line.strip_prefix(DONE).map(|what| Answer::Done(lines(what))).or_else(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uswap_core::files::FileKind;

    #[test]
    fn lines_come_back_as_they_were() {
        let place = SwapPlace { dir: "/srv/a b".into(), bytes_max: None, priority: None, kind: None };
        let commands = [
            Command::Writeback(Duration::from_millis(1500)),
            Command::SwapOn(place.clone()),
            Command::SwapOn(SwapPlace {
                bytes_max: Some(8 << 30),
                priority: Some(5),
                kind: Some(FileKind::Rotational),
                ..place
            }),
            Command::SwapOff("/srv/a: b".into()),
            Command::Stat(Form::Text),
            Command::Stat(Form::Json),
            Command::Map(None),
            Command::Map(Some(u32::MAX)),
            Command::Leave,
            Command::Freeze,
            Command::Thaw,
            Command::Set(Change::default()),
            Command::Set(Change {
                ram_bytes: Some(1 << 40),
                pool: Some(PoolSize::Auto),
                on_full: Some(OnFull::Stop),
                protect: vec![("a\n\" b".to_owned(), 0)],
                weight: vec![("c".to_owned(), 100)],
                wait_ms: 5,
            }),
        ];
        for command in commands {
            let line = command.line().expect("it fits into a line");
            assert_eq!(Command::parse(&line), Some(command), "{line}");
        }
        for answer in [
            Answer::Done("3 pages: 4 of 5\nand more".to_owned()),
            Answer::Error("it is full: why".to_owned()),
        ] {
            assert_eq!(Answer::parse(&answer.line()), Some(answer));
        }
    }

    #[test]
    fn what_is_no_order_is_refused() {
        let lines = [
            "",
            "\n",
            "writeback\n",
            "writeback x\n",
            "writeback -1\n",
            "writeback 86400001\n",
            "writeback 5",
            "stop 1\n",
            "swapon - - -\n",
            "swapon - - - srv\n",
            "swapon x - - /srv\n",
            "swapon - 5000000 - /srv\n",
            "swapon - - tape /srv\n",
            "swapoff\n",
            "swapoff srv\n",
            "stat\n",
            "stat 2\n",
            "map\n",
            "map -1\n",
            "map 4294967296\n",
            "set\n",
            "leave\n",
            "freeze 2\n",
            "thaw\n",
            "set 5\n",
            "set {\"ram_bytes\": -1}\n",
            "set {\"what\": 1}\n",
        ];
        for line in lines {
            assert_eq!(Command::parse(line), None, "{line}");
        }
        for line in ["", "ok\n", "ok 1", "what 1\n"] {
            assert_eq!(Answer::parse(line), None, "{line}");
        }
        assert!(Command::SwapOff("/a\nb".into()).line().is_err());
    }
}
