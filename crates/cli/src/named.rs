//! `NAME=VALUE` as it is typed for `--protect` and `--weight`: what holds for the processes of the run whose program
//! has this name.

use uswap_core::fairness::{WEIGHT_DEFAULT, WEIGHT_MAX};
use uswap_supervisor::rules::{Rule, check};
use uswap_units::PAGE_BYTES;

use crate::size::parse_size;

/// A value for programs of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Name of the program.
    pub name: String,
    /// Bytes, or a weight.
    pub value: u64,
}

fn split<'a>(text: &'a str, example: &str) -> Result<(&'a str, &'a str), String> {
    let Some((name, value)) = text.rsplit_once('=') else {
        return Err(format!("'{text}' has no '=': write it like {example}"));
    };
    if name.is_empty() {
        return Err(format!("'{text}' names no program: write it like {example}"));
    }
    if name.contains('/') {
        let last = name.rsplit('/').next().unwrap_or_default();
        return Err(format!("'{name}' is a path: give the name alone, {last}={value}"));
    }
    Ok((name, value))
}

/// Reads `--protect`.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_protect(text: &str) -> Result<Named, String> {
    let (name, value) = split(text, "redis-server=100M")?;
    let value = parse_size(value)?;
    if value < PAGE_BYTES as u64 {
        return Err(format!("'{text}' protects less than a page: give it a size, for example {name}=100M"));
    }
    Ok(Named { name: name.to_owned(), value })
}

/// Reads `--weight`.
///
/// # Errors
/// What is wrong with `text`, with an example.
pub fn parse_weight(text: &str) -> Result<Named, String> {
    let (name, value) = split(text, "redis-server=200")?;
    let number = value.parse().ok().filter(|number| (1..=WEIGHT_MAX).contains(number));
    let value = number.ok_or_else(|| {
        format!("'{value}' in '{text}' is not a weight: it is a number from 1 to {WEIGHT_MAX}, {WEIGHT_DEFAULT} if \
            none is given")
    })?;
    Ok(Named { name: name.to_owned(), value })
}

/// Reads `--protect` of `uswap set`: with 0, nothing is protected any more.
///
/// # Errors
/// As of [`parse_protect`].
pub fn parse_new_protect(text: &str) -> Result<Named, String> {
    none(text).map_or_else(|| parse_protect(text), Ok)
}

/// Reads `--weight` of `uswap set`: with 0, there is none any more.
///
/// # Errors
/// As of [`parse_weight`].
pub fn parse_new_weight(text: &str) -> Result<Named, String> {
    none(text).map_or_else(|| parse_weight(text), Ok)
}

fn none(text: &str) -> Option<Named> {
    let name = text.strip_suffix("=0").filter(|name| !name.is_empty() && !name.contains('/'))?;
    Some(Named { name: name.to_owned(), value: 0 })
}

/// The rules of a run.
///
/// # Errors
/// A name that is given twice, and protection of more than there is.
pub fn rules(protect: &[Named], weight: &[Named], ram_bytes: u64) -> Result<Vec<Rule>, String> {
    let mut rules: Vec<Rule> = Vec::new();
    for (list, option) in [(protect, "--protect"), (weight, "--weight")] {
        for (index, named) in list.iter().enumerate() {
            if list[..index].iter().any(|other| other.name == named.name) {
                return Err(format!("{option} is given twice for '{}': keep one of both", named.name));
            }
            let at = rules.iter().position(|rule| rule.name == named.name).unwrap_or_else(|| {
                rules.push(Rule { name: named.name.clone(), protected_bytes: 0, weight: 0 });
                rules.len() - 1
            });
            match option {
                "--protect" => rules[at].protected_bytes = named.value,
                _ => rules[at].weight = named.value,
            }
        }
    }
    check(&rules, ram_bytes)?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_taken_or_refused_with_an_example() {
        let named = |name: &str, value| Ok(Named { name: name.to_owned(), value });
        assert_eq!(parse_protect("redis-server=100M"), named("redis-server", 100 << 20));
        assert_eq!(parse_protect("a=b=4K"), named("a=b", 4096));
        assert_eq!(parse_weight("make=1"), named("make", 1));
        assert_eq!(parse_weight("make=10000"), named("make", 10_000));
        assert_eq!(
            (parse_new_protect("make=0"), parse_new_weight("make=0")),
            (named("make", 0), named("make", 0))
        );
        assert_eq!(parse_new_weight("make=10"), named("make", 10));
        let cases = [
            (parse_new_protect("=0"), "names no program"),
            (parse_new_weight("/bin/make=0"), "give the name alone"),
            (parse_protect("redis"), "has no '='"),
            (parse_protect("=1M"), "names no program"),
            (parse_protect("redis="), "is not a size"),
            (parse_protect("redis=0"), "protects less than a page"),
            (parse_protect("redis=64"), "redis=100M"),
            (parse_protect("/usr/bin/redis=1M"), "give the name alone, redis=1M"),
            (parse_weight("make=0"), "is not a weight"),
            (parse_weight("make=10001"), "from 1 to 10000"),
            (parse_weight("make=1.5"), "is not a weight"),
        ];
        for (parsed, part) in cases {
            let error = parsed.expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn options_of_one_name_are_one_rule_and_contradictions_are_refused() {
        let [hot, cold] = ["hot", "cold"].map(|name| Named { name: name.to_owned(), value: 100 });
        let rule =
            |name: &str, protected_bytes, weight| Rule { name: name.to_owned(), protected_bytes, weight };
        let both = rules(std::slice::from_ref(&hot), &[cold.clone(), hot.clone()], 130);
        assert_eq!(both, Ok(vec![rule("hot", 100, 100), rule("cold", 0, 100)]));
        let error = rules(&[hot.clone(), hot.clone()], &[], 1000).unwrap_err();
        assert!(error.contains("twice for 'hot'"), "{error}");
        let error = rules(&[hot, cold], &[], 240).unwrap_err();
        assert!(error.contains("more than the 192 B that are"), "{error}");
    }
}
