//! `uswap replay`: the screen over what was recorded.

use std::collections::VecDeque;

use crate::args::ReplayArguments;
use crate::model::{Kind, Model};
use crate::recording::Recording;
use crate::screen;
use crate::source::{News, Source, Target};

/// Samples before the one that is shown, from which curves are drawn after a jump. Each takes about 50 us per 100
/// processes to read.
const CURVE_SAMPLES: usize = 160;

const MINUTE_SECONDS: f64 = 60.0;

/// Shows a recording.
///
/// # Errors
/// As a sentence: there is no terminal, or the file is no recording.
pub fn replay(arguments: &ReplayArguments) -> Result<(), String> {
    let terminal = screen::terminal()?;
    let mut recorded = Recorded::new(Recording::open(&arguments.file)?);
    recorded.go(Target::First);
    let model = Model::new(Kind::Recording, arguments.screen.sort, arguments.screen.delay);
    screen::show(model, arguments.screen.looks(), terminal, |_| Ok(recorded))
}

/// A recording as a source.
#[derive(Debug)]
struct Recorded {
    recording: Recording,
    /// The sample that is shown.
    index: usize,
    news: VecDeque<News>,
}

impl Recorded {
    fn new(recording: Recording) -> Self {
        Self { recording, index: 0, news: VecDeque::new() }
    }

    /// The samples from one on, up to the one that is shown.
    fn samples_from(&mut self, first: usize) -> Result<Vec<crate::sample::Sample>, String> {
        (first..=self.index).map(|index| self.recording.sample(index)).collect()
    }

    fn index_of(&mut self, target: Target) -> Result<usize, String> {
        let last = self.recording.count() - 1;
        Ok(match target {
            Target::First => 0,
            Target::Last => last,
            Target::Samples(step) => self.index.saturating_add_signed(step as isize).min(last),
            Target::Minutes(step) => {
                let now = self.recording.sample(self.index)?.at_seconds;
                let found = self.recording.index_at(now + f64::from(step) * MINUTE_SECONDS)?;
                // Where samples are far apart, it is one at least.
                match step > 0 {
                    true => found.max(self.index + 1).min(last),
                    false => found.min(self.index.saturating_sub(1)),
                }
            }
            Target::Runs | Target::Run(_) => self.index,
        })
    }
}

impl Source for Recorded {
    fn ask(&mut self) {
        if self.index + 1 == self.recording.count() {
            return self.news.push_back(News::Ended("the recording ends here".to_owned()));
        }
        self.index += 1;
        self.news.push_back(News::Place { index: self.index, count: self.recording.count() });
        self.news.push_back(match self.recording.sample(self.index) {
            Ok(sample) => News::Sample(Box::new(sample)),
            Err(why) => News::Nothing(why),
        });
    }

    fn take(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    fn go(&mut self, target: Target) {
        let samples = self.index_of(target).and_then(|index| {
            self.index = index;
            self.samples_from(index.saturating_sub(CURVE_SAMPLES))
        });
        self.news.push_back(News::Place { index: self.index, count: self.recording.count() });
        self.news.push_back(samples.map_or_else(News::Nothing, News::Jump));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::Scratch;

    /// Uptime of the last sample after that, and how many came with it.
    fn went(recorded: &mut Recorded, target: Target) -> (f64, usize) {
        recorded.go(target);
        assert!(matches!(recorded.take(), Some(News::Place { .. })));
        let Some(News::Jump(samples)) = recorded.take() else { panic!("it goes to {target:?}") };
        (samples.last().expect("there is one").stat.uptime_seconds, samples.len())
    }

    #[test]
    fn a_recording_is_gone_through_in_all_directions() {
        let scratch = Scratch::recorded("replay", 1..=300);
        let mut recorded = Recorded::new(Recording::open(&scratch.0).expect("it is one"));
        assert_eq!(went(&mut recorded, Target::First), (1.0, 1));
        assert_eq!(went(&mut recorded, Target::Samples(-1)), (1.0, 1));
        assert_eq!(went(&mut recorded, Target::Samples(1)), (2.0, 2));
        assert_eq!(went(&mut recorded, Target::Minutes(1)), (62.0, 62));
        assert_eq!(went(&mut recorded, Target::Minutes(-1)), (2.0, 2));
        assert_eq!(went(&mut recorded, Target::Minutes(-1)), (1.0, 1));
        assert_eq!(went(&mut recorded, Target::Last), (300.0, CURVE_SAMPLES + 1));
        assert_eq!(went(&mut recorded, Target::Minutes(1)).0, 300.0);
        recorded.ask();
        assert_eq!(recorded.take(), Some(News::Ended("the recording ends here".to_owned())));
        assert_eq!(went(&mut recorded, Target::Samples(-1)).0, 299.0);
        recorded.ask();
        assert_eq!(recorded.take(), Some(News::Place { index: 299, count: 300 }));
        assert!(matches!(recorded.take(), Some(News::Sample(sample)) if sample.stat.uptime_seconds == 300.0));
        assert_eq!(recorded.take(), None);
    }

    #[test]
    fn a_minute_is_a_sample_at_least() {
        let scratch = Scratch::recorded("sparse", [100, 400, 700]);
        let mut recorded = Recorded::new(Recording::open(&scratch.0).expect("it is one"));
        assert_eq!(went(&mut recorded, Target::Minutes(1)).0, 400.0);
        assert_eq!(went(&mut recorded, Target::Minutes(1)).0, 700.0);
        assert_eq!(went(&mut recorded, Target::Minutes(-1)).0, 400.0);
    }
}
