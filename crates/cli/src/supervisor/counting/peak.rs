//! The highest value of a size that is only told between two counts: what was told too high is taken back.
//!
//! What must hold: a value that was sure is in the peak at once and stays there. A doubtful one waits for the next
//! count, which shows how much too high it was told at last; at the time of the peak that was less, or as much.
//! Called by the monitor after each look.

/// How sure a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Certainty {
    #[default]
    Sure,
    /// Told from cheap numbers that do not say enough.
    Doubtful,
    /// Just counted, and what was told was too high by so much.
    Counted { too_high: u64 },
}

impl Certainty {
    /// The same in bytes, say.
    pub fn in_units_of(self, unit: u64) -> Certainty {
        match self {
            Certainty::Counted { too_high } => Certainty::Counted { too_high: too_high * unit },
            other => other,
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Peak {
    doubtful: u64,
}

impl Peak {
    /// A new value; answers the highest that is sure so far since the last call.
    pub fn note(&mut self, value: u64, certainty: Certainty) -> u64 {
        match certainty {
            // The doubtful ones wait on.
            Certainty::Sure => value,
            Certainty::Doubtful => {
                self.doubtful = self.doubtful.max(value);
                0
            }
            Certainty::Counted { too_high } => {
                core::mem::take(&mut self.doubtful).saturating_sub(too_high).max(value)
            }
        }
    }

    /// No count comes any more.
    pub fn finish(self) -> u64 {
        self.doubtful
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_too_high_is_taken_back_by_the_next_count() {
        let mut peak = Peak::default();
        assert_eq!(peak.note(100, Certainty::Sure), 100);
        assert_eq!(peak.note(180, Certainty::Doubtful), 0);
        assert_eq!(peak.note(150, Certainty::Doubtful), 0);
        assert_eq!(peak.note(110, Certainty::Sure), 110);
        assert_eq!(peak.note(115, Certainty::Counted { too_high: 35 }), 145);
        assert_eq!(peak.note(115, Certainty::Counted { too_high: 0 }), 115, "it is taken once");
        assert_eq!(peak.note(500, Certainty::Doubtful), 0);
        assert_eq!(peak.finish(), 500);
    }
}
