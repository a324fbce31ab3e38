//! The highest value of a size that is only told between two counts: a count also corrects what was told before it.
//!
//! What must hold: a value that was sure is in the peak at once and stays there. A doubtful one waits for the next
//! count. That shows what part of the pages that were only told is true; the same part is believed of the doubtful
//! value. Called by the monitor after each look.

/// How sure a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Certainty {
    #[default]
    Sure,
    /// So much of it is only told, from cheap numbers that do not say enough.
    Doubtful { told: u64 },
    /// Just counted: of what was told before, so much was true, in 1/1024.
    Counted { true_part: u64 },
}

impl Certainty {
    /// The same in bytes, say.
    pub fn in_units_of(self, unit: u64) -> Certainty {
        match self {
            Certainty::Doubtful { told } => Certainty::Doubtful { told: told * unit },
            other => other,
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Peak {
    doubtful: Option<Doubtful>,
}

#[derive(Clone, Copy)]
struct Doubtful {
    value: u64,
    told: u64,
}

impl Doubtful {
    fn corrected(self, true_part: u64) -> u64 {
        let found = u128::from(self.told) * u128::from(true_part) / 1024;
        (self.value - self.told.min(self.value)).saturating_add(found as u64)
    }
}

impl Peak {
    /// A new value; answers the highest that is sure since the last call.
    pub fn note(&mut self, value: u64, certainty: Certainty) -> u64 {
        match certainty {
            // The doubtful one waits on.
            Certainty::Sure => value,
            Certainty::Doubtful { told } => {
                if self.doubtful.is_none_or(|highest| value > highest.value) {
                    self.doubtful = Some(Doubtful { value, told });
                }
                0
            }
            Certainty::Counted { true_part } => {
                self.doubtful.take().map_or(0, |doubtful| doubtful.corrected(true_part)).max(value)
            }
        }
    }

    /// No count comes any more. `true_part`: what one that was not ended has shown.
    pub fn finish(self, true_part: Option<u64>) -> u64 {
        let corrected = |doubtful: Doubtful| doubtful.corrected(true_part.unwrap_or(1024));
        self.doubtful.map_or(0, corrected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_corrects_what_was_told_before_it() {
        let mut peak = Peak::default();
        assert_eq!(peak.note(100, Certainty::Sure), 100);
        assert_eq!(peak.note(180, Certainty::Doubtful { told: 80 }), 0);
        assert_eq!(peak.note(150, Certainty::Doubtful { told: 10 }), 0);
        assert_eq!(peak.note(110, Certainty::Sure), 110);
        assert_eq!(peak.note(115, Certainty::Counted { true_part: 256 }), 120);
        assert_eq!(peak.note(115, Certainty::Counted { true_part: 0 }), 115, "it is taken once");
        assert_eq!(peak.note(100, Certainty::Doubtful { told: 20 }), 0);
        assert_eq!(peak.note(100, Certainty::Counted { true_part: 1536 }), 110, "it was told too low");
        assert_eq!(peak.note(500, Certainty::Doubtful { told: 400 }), 0);
        assert_eq!(Peak { ..peak }.finish(None), 500);
        assert_eq!(peak.finish(Some(256)), 200);
    }
}
