//! `uswap set`: what a run has to keep to changes while it goes on.
//!
//! The processes read the budget in the segment, so the new one is theirs at once. What is over it is evicted in the
//! background as always; who asks is told how long that took.

use std::time::{Duration, Instant};

use uswap_control::unpoisoned;

use crate::control::command::Change;
use crate::human;
use crate::options::{Limits, OnFull, PoolSize, RAM_BYTES_MIN};
use crate::rules::{self, Rule};
use crate::shared::Shared;

/// How often it is looked whether the new budget holds.
const STEP: Duration = Duration::from_millis(5);

/// Changes what is named, and waits until the new budget holds. What was done, or why nothing was.
pub fn change(shared: &Shared, change: &Change) -> Result<String, String> {
    let frozen = unpoisoned(shared.changing_limits.lock());
    if frozen.is_some() {
        return Err("the run is frozen: thaw it first ('uswap thaw')".to_owned());
    }
    if shared.segment.budget().is_leaving() {
        return Err(crate::leave::left());
    }
    let before = shared.limits();
    let limits = changed(&before, change)?;
    let said = differences(&before, &limits);
    shared.set_limits(limits);
    drop(frozen);
    if change.ram_bytes.is_none() {
        return Ok(said);
    }
    Ok(format!("{said}: {}", wait_until_it_holds(shared, Duration::from_millis(change.wait_ms))))
}

fn wait_until_it_holds(shared: &Shared, patience: Duration) -> String {
    let budget = shared.segment.budget();
    let began = Instant::now();
    while budget.used() > budget.ram() && began.elapsed() < patience && !shared.is_stopping() {
        shared.sleep(STEP);
    }
    let (used, ram) = (budget.used().bytes(), budget.ram().bytes());
    match used.saturating_sub(ram) {
        0 if began.elapsed() < STEP => format!("{} are in use", human::bytes(used)),
        0 => format!("it holds after {:.1} s", began.elapsed().as_secs_f64()),
        over => format!(
            "{} are still over it after {:.1} s, and go as they can",
            human::bytes(over),
            began.elapsed().as_secs_f64()
        ),
    }
}

/// What there is to keep to after a change.
fn changed(before: &Limits, change: &Change) -> Result<Limits, String> {
    let mut limits = before.clone();
    if let Some(ram_bytes) = change.ram_bytes {
        if ram_bytes < RAM_BYTES_MIN {
            return Err(format!("a budget of less than {} is too small", human::bytes(RAM_BYTES_MIN)));
        }
        limits.ram_bytes = ram_bytes;
    }
    limits.pool = change.pool.unwrap_or(limits.pool);
    limits.on_full = change.on_full.unwrap_or(limits.on_full);
    for (name, bytes) in &change.protect {
        rule_of(&mut limits.rules, name).protected_bytes = *bytes;
    }
    for (name, weight) in &change.weight {
        rule_of(&mut limits.rules, name).weight = *weight;
    }
    limits.rules.retain(|rule| rule.protected_bytes > 0 || rule.weight > 0);
    rules::check(&limits.rules, limits.ram_bytes)?;
    Ok(limits)
}

fn rule_of<'a>(rules: &'a mut Vec<Rule>, name: &str) -> &'a mut Rule {
    let at = rules.iter().position(|rule| rule.name == name).unwrap_or_else(|| {
        rules.push(Rule { name: name.to_owned(), protected_bytes: 0, weight: 0 });
        rules.len() - 1
    });
    &mut rules[at]
}

/// What is another now, in words.
fn differences(before: &Limits, after: &Limits) -> String {
    let mut said = Vec::new();
    let mut say = |what: &str, before: String, after: String| {
        if before != after {
            said.push(format!("{what} went from {before} to {after}"));
        }
    };
    let pool = |limits: &Limits| match limits.pool {
        PoolSize::Auto => "auto".to_owned(),
        PoolSize::Fixed(_) => human::bytes(limits.pool_bytes_at_start()),
    };
    let on_full = |limits: &Limits| match limits.on_full {
        OnFull::Grow => "grow",
        OnFull::Stop => "stop",
        OnFull::Kill => "kill",
    };
    say("--pool", pool(before), pool(after));
    say("--on-full", on_full(before).to_owned(), on_full(after).to_owned());
    let names = before.rules.iter().chain(&after.rules).map(|rule| &rule.name);
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = |limits: &Limits| limits.rules.iter().find(|rule| rule.name == *name).cloned();
        let protected = |rule: Option<Rule>| human::bytes(rule.map_or(0, |rule| rule.protected_bytes));
        let weight = |rule: Option<Rule>| rule.map_or(0, |rule| rule.weight);
        let weight = |rule| match weight(rule) {
            0 => "none".to_owned(),
            weight => weight.to_string(),
        };
        say(&format!("--protect of '{name}'"), protected(of(before)), protected(of(after)));
        say(&format!("--weight of '{name}'"), weight(of(before)), weight(of(after)));
    }
    // Last: how long that takes follows.
    say("--ram", human::bytes(before.ram_bytes), human::bytes(after.ram_bytes));
    if said.is_empty() { "it was so already".to_owned() } else { said.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Fraction;

    fn limits() -> Limits {
        let rules = vec![Rule { name: "db".to_owned(), protected_bytes: 10 << 20, weight: 50 }];
        Limits { ram_bytes: 64 << 20, pool: PoolSize::Auto, on_full: OnFull::Grow, rules }
    }

    #[test]
    fn what_is_not_named_stays() {
        assert_eq!(changed(&limits(), &Change::default()), Ok(limits()));
        assert_eq!(differences(&limits(), &limits()), "it was so already");
        let ram_bytes = 128 << 20;
        let after = changed(&limits(), &Change { ram_bytes: Some(ram_bytes), ..Change::default() });
        assert_eq!(after, Ok(Limits { ram_bytes, ..limits() }));
        assert_eq!(differences(&limits(), &after.expect("it is right")), "--ram went from 64 MiB to 128 MiB");
    }

    #[test]
    fn rules_are_changed_added_and_taken_away() {
        let change = Change {
            pool: Some(PoolSize::Fixed(Fraction { millionths: 250_000 })),
            on_full: Some(OnFull::Kill),
            protect: vec![("db".to_owned(), 0), ("web".to_owned(), 1 << 20)],
            weight: vec![("db".to_owned(), 0), ("batch".to_owned(), 20)],
            ..Change::default()
        };
        let after = changed(&limits(), &change).expect("it is right");
        let rule =
            |name: &str, protected_bytes, weight| Rule { name: name.to_owned(), protected_bytes, weight };
        assert_eq!(after.rules, [rule("web", 1 << 20, 0), rule("batch", 0, 20)]);
        assert_eq!(
            differences(&limits(), &after),
            "--pool went from auto to 16 MiB, --on-full went from grow to kill, --weight of 'batch' went from none to \
             20, --protect of 'db' went from 10 MiB to 0 B, --weight of 'db' went from 50 to none, --protect of 'web' \
             went from 0 B to 1 MiB"
        );
    }

    #[test]
    fn what_cannot_be_kept_to_is_refused_whole() {
        let refused = |change: Change| changed(&limits(), &change).expect_err("it cannot be");
        let small = refused(Change { ram_bytes: Some(4 << 20), ..Change::default() });
        assert!(small.contains("too small"), "{small}");
        let error = refused(Change { ram_bytes: Some(8 << 20), ..Change::default() });
        assert!(error.contains("--protect asks for 10 MiB"), "{error}");
    }
}
