//! The columns of the table of processes: what stands in them, and which of two processes comes first.

use std::cmp::Ordering;

use clap::ValueEnum;
use uswap_control::stat::ProcessStat;

use crate::sample::ProcessRates;
use crate::text;

/// The weight of a process that was given none.
const WEIGHT_DEFAULT: u64 = 100;

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Column {
    /// Process id
    Pid,
    /// Name of the process
    Name,
    /// Memory in RAM
    Resident,
    /// Memory in RAM, and what comes back
    InUse,
    /// Pages taken per second
    Taken,
    /// Pages that came back per second
    Back,
    /// Percent of them that came back soon
    Soon,
    /// Percent of the last 10 seconds in which it waited
    Wait,
    /// The same of all its threads
    Full,
    /// Memory that is protected
    Protected,
    /// Weight in reclaim
    Weight,
}

/// A process with what happened to it.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// What the run says of it.
    pub stat: &'a ProcessStat,
    /// What happened to it since the sample before, if it was in that.
    pub rates: Option<&'a ProcessRates>,
}

impl Column {
    /// All of them, as they stand from left to right.
    pub const ALL: [Self; 11] = [
        Self::Pid,
        Self::Name,
        Self::Resident,
        Self::InUse,
        Self::Taken,
        Self::Back,
        Self::Soon,
        Self::Wait,
        Self::Full,
        Self::Protected,
        Self::Weight,
    ];

    /// What stands above it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pid => "PID",
            Self::Name => "NAME",
            Self::Resident => "RESIDENT",
            Self::InUse => "IN-USE",
            Self::Taken => "TAKEN/s",
            Self::Back => "BACK/s",
            Self::Soon => "SOON%",
            Self::Wait => "WAIT%",
            Self::Full => "FULL%",
            Self::Protected => "PROTECT",
            Self::Weight => "WEIGHT",
        }
    }

    /// Characters that it takes. The name takes what is left, and this at least.
    pub fn width(self) -> u16 {
        match self {
            Self::Name => 12,
            Self::Pid | Self::InUse => 7,
            Self::Resident => 8,
            _ => self.title().len() as u16,
        }
    }

    /// Where there is no room for all, the one of the highest number goes first.
    pub fn goes_first(self) -> u8 {
        match self {
            Self::Name => 0,
            Self::Pid => 1,
            Self::Resident => 2,
            Self::Wait => 3,
            Self::Back => 4,
            Self::Taken => 5,
            Self::InUse => 6,
            Self::Protected => 7,
            Self::Weight => 8,
            Self::Soon => 9,
            Self::Full => 10,
        }
    }

    /// Whether a process has something in it that others need not have.
    pub fn is_set(self, process: &ProcessStat) -> bool {
        match self {
            Self::Protected => process.protected_bytes > 0,
            Self::Weight => ![0, WEIGHT_DEFAULT].contains(&process.weight),
            _ => true,
        }
    }

    /// What stands in it.
    pub fn text(self, process: Process<'_>) -> String {
        let Process { stat, rates } = process;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        match self {
            Self::Pid => stat.pid.to_string(),
            Self::Name => stat.name.clone(),
            Self::Resident => text::size(stat.resident_bytes),
            Self::InUse => text::size(stat.in_use_bytes),
            Self::Taken => or_dash(rates.map(|rates| text::rate(rates.taken_per_second))),
            Self::Back => or_dash(rates.map(|rates| text::rate(rates.back_per_second))),
            Self::Soon => or_dash(rates.and_then(|rates| rates.soon).map(text::percent)),
            Self::Wait => format!("{:.1}", stat.some.avg10),
            Self::Full => format!("{:.1}", stat.full.avg10),
            Self::Protected if stat.protected_bytes == 0 => String::new(),
            Self::Protected => text::size(stat.protected_bytes),
            Self::Weight => stat.weight.to_string(),
        }
    }

    /// Which of two comes first: names and process ids rise, of all else the largest is first.
    pub fn compare(self, one: Process<'_>, other: Process<'_>) -> Ordering {
        let most = |value: fn(Process<'_>) -> u64| value(other).cmp(&value(one));
        let most_of = |value: fn(Process<'_>) -> f64| value(other).total_cmp(&value(one));
        let order = match self {
            Self::Pid => Ordering::Equal,
            Self::Name => one.stat.name.cmp(&other.stat.name),
            Self::Resident => most(|process| process.stat.resident_bytes),
            Self::InUse => most(|process| process.stat.in_use_bytes),
            Self::Taken => most_of(|process| process.rates.map_or(-1.0, |rates| rates.taken_per_second)),
            Self::Back => most_of(|process| process.rates.map_or(-1.0, |rates| rates.back_per_second)),
            Self::Soon => most_of(|process| process.rates.and_then(|rates| rates.soon).unwrap_or(-1.0)),
            Self::Wait => most_of(|process| process.stat.some.avg10),
            Self::Full => most_of(|process| process.stat.full.avg10),
            Self::Protected => most(|process| process.stat.protected_bytes),
            Self::Weight => most(|process| process.stat.weight),
        };
        order.then(one.stat.pid.cmp(&other.stat.pid))
    }
}
