//! Runs that are under way, as a source.
//!
//! What must hold: a thread of its own asks, so that a run that does not answer holds up nobody but itself; it is asked
//! one thing at a time.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::ask::{Answer, all, ask};
use crate::source::{News, Source, Target};
use crate::wake::Waker;

/// Runs that are under way.
#[derive(Debug)]
pub struct Live {
    subject: Subject,
    questions: Sender<Subject>,
    answers: Receiver<(Subject, News)>,
    asked: Asked,
}

/// What is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The list of runs.
    Runs,
    /// The run of a process.
    Run(u32),
}

/// What the thread has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Nothing,
    Once,
    /// It was asked again before it had answered.
    Again,
}

impl Live {
    /// Starts the thread. `waker` is told when there is something to be taken.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn new(subject: Subject, waker: Waker) -> std::io::Result<Self> {
        Self::with(subject, waker, look)
    }

    fn with(
        subject: Subject,
        waker: Waker,
        look: impl Fn(Subject) -> News + Send + 'static,
    ) -> std::io::Result<Self> {
        let (questions, to_answer) = channel::<Subject>();
        let (to_take, answers) = channel();
        std::thread::Builder::new().name("uswap-top-ask".to_owned()).spawn(move || {
            for subject in to_answer {
                if to_take.send((subject, look(subject))).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Self { subject, questions, answers, asked: Asked::Nothing })
    }
}

impl Source for Live {
    fn ask(&mut self) {
        if self.asked != Asked::Nothing {
            self.asked = Asked::Again;
        } else if self.questions.send(self.subject).is_ok() {
            self.asked = Asked::Once;
        }
    }

    fn take(&mut self) -> Option<News> {
        loop {
            let (subject, news) = self.answers.try_recv().ok()?;
            let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
            if asked == Asked::Again {
                self.ask();
            }
            // It may be about what was left meanwhile.
            if subject == self.subject {
                return Some(news);
            }
        }
    }

    fn go(&mut self, target: Target) {
        self.subject = match target {
            Target::Runs => Subject::Runs,
            Target::Run(pid) => Subject::Run(pid),
            // What was is gone.
            _ => return,
        };
    }
}

fn look(subject: Subject) -> News {
    match subject {
        Subject::Runs => all().map_or_else(News::Nothing, News::Runs),
        Subject::Run(pid) => match ask(pid) {
            Answer::Sample(sample) => News::Sample(sample),
            Answer::NotNow(why) => News::Nothing(why),
            Answer::Ended(_) => News::Ended("the run has ended".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wake;
    use std::sync::Mutex;

    #[test]
    fn one_question_at_a_time_and_answers_about_something_else_are_dropped() {
        let wake = Wake::new().expect("there are descriptors");
        let (go_on, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let look = move |subject| {
            wait.lock().expect("nobody panics").recv().expect("the test says when");
            News::Nothing(format!("{subject:?}"))
        };
        let waker = wake.waker().expect("there are descriptors");
        let mut live = Live::with(Subject::Runs, waker, look).expect("there is a thread");
        let take = |live: &mut Live| {
            loop {
                if let Some(news) = live.take() {
                    return news;
                }
                wake.wait(None, None).expect("it can wait");
            }
        };
        live.ask();
        live.ask();
        live.ask();
        live.go(Target::Run(7));
        assert_eq!(live.take(), None);
        go_on.send(()).expect("it listens");
        go_on.send(()).expect("it listens");
        // The answer about the list is dropped; the one that was asked for meanwhile is about the run.
        assert_eq!(take(&mut live), News::Nothing("Run(7)".to_owned()));
        assert_eq!(live.asked, Asked::Nothing);
        live.go(Target::First);
        assert_eq!(live.subject, Subject::Run(7));
    }
}
