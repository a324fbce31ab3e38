//! Where the screen has its samples from: a run that is under way, or a file.

use uswap_control::stat::RunStat;

use crate::sample::Sample;

/// What the screen is about, and where in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The list of runs.
    Runs,
    /// The run of a process.
    Run(u32),
    /// So many samples further in a recording; less than none: back.
    Samples(i32),
    /// So many minutes.
    Minutes(i32),
    /// The first sample of a recording.
    First,
    /// The last one.
    Last,
}

/// What a source has to say.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// The next sample.
    Sample(Box<Sample>),
    /// Somewhere else in a recording: the samples up to there.
    Jump(Vec<Sample>),
    /// Where that is.
    Place {
        /// Place of the newest sample.
        index: usize,
        /// Samples of the recording.
        count: usize,
    },
    /// The runs that there are.
    Runs(Vec<RunStat>),
    /// Nothing now, and why.
    Nothing(String),
    /// Nothing will follow, and why.
    Ended(String),
}

/// Where samples come from. None of its methods waits long.
pub trait Source {
    /// It is time for the next sample: from now on it may be taken.
    fn ask(&mut self);
    /// What has come.
    fn take(&mut self) -> Option<News>;
    /// Goes somewhere else. Where it cannot, it stays.
    fn go(&mut self, target: Target);
}
