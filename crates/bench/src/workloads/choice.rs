//! Values on the command line that hold for all workloads, or for one: `64M,build=160M`.
//!
//! What must hold: a value for all comes before those for one, wherever it stands, and replaces what the scenario says
//! of single workloads.

use std::fmt::Display;
use std::str::FromStr;

use super::scenario::{OfOne, Scenario};
use super::size::parse_size;

/// One word of such an option.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice<T> {
    /// For whom; none: for all.
    pub workload: Option<String>,
    /// What.
    pub value: T,
}

/// Where a value has its place in a scenario: that of all, and that of one.
pub struct Place<T> {
    /// In the scenario itself.
    pub all: fn(&mut Scenario) -> &mut T,
    /// In what is said of one workload.
    pub one: fn(&mut OfOne) -> &mut Option<T>,
}

impl<T: Copy> Place<T> {
    /// Puts the values where they belong.
    pub fn set(&self, scenario: &mut Scenario, choices: &[Choice<T>]) {
        for choice in choices.iter().filter(|choice| choice.workload.is_none()) {
            *(self.all)(scenario) = choice.value;
            scenario.of.values_mut().for_each(|own| *(self.one)(own) = None);
        }
        for choice in choices {
            let Some(name) = &choice.workload else { continue };
            *(self.one)(scenario.of.entry(name.clone()).or_default()) = Some(choice.value);
        }
    }

    /// The words that set the same values.
    pub fn words(&self, scenario: &Scenario, print: fn(T) -> String) -> String {
        let mut scenario = scenario.clone();
        let mut words = vec![print(*(self.all)(&mut scenario))];
        for (name, own) in &mut scenario.of {
            words.extend((self.one)(own).map(|value| format!("{name}={}", print(value))));
        }
        words.join(",")
    }
}

fn parse<T>(text: &str, value: impl FnOnce(&str) -> Result<T, String>) -> Result<Choice<T>, String> {
    match text.split_once('=') {
        Some(("", _)) => Err(format!("'{text}' names no workload: write it like build=160M")),
        Some((name, text)) => Ok(Choice { workload: Some(name.to_owned()), value: value(text)? }),
        None => Ok(Choice { workload: None, value: value(text)? }),
    }
}

/// Reads `64M` or `build=160M`.
///
/// # Errors
/// What is wrong with `text`.
pub fn parse_size_choice(text: &str) -> Result<Choice<u64>, String> {
    parse(text, parse_size)
}

/// Reads `2` or `objects=3`. Whether the number makes sense is the scenario's to say.
///
/// # Errors
/// What is wrong with `text`.
pub fn parse_number_choice<T: FromStr<Err: Display>>(text: &str) -> Result<Choice<T>, String> {
    parse(text, |number| {
        number.parse().map_err(|error| format!("'{number}' is not a number that is allowed here: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_for_all_or_for_one() {
        let one = Choice { workload: Some("build".to_owned()), value: 160 << 20 };
        assert_eq!(parse_size_choice("build=160M"), Ok(one));
        assert_eq!(parse_number_choice("2.5"), Ok(Choice { workload: None, value: 2.5 }));
        for wrong in ["=3", "build=", "x", "build=-1"] {
            assert!(parse_number_choice::<u32>(wrong).is_err(), "{wrong}");
        }
        assert!(parse_size_choice("build=160Q").unwrap_err().contains("is not a size"));
    }
}
