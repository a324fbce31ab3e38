//! `cargo xtask interpose-check`: other people's programs, alone and with their system calls interposed.
//!
//! Each case runs alone, with the example `counting` preloaded (its calls dispatched, its calls patched), and within
//! half of the memory that it had alone, by `uswap run`; as the user who runs the check and, if that
//! is root, as nobody. Exit code and output must be the same; what differs is kept in `target/interpose-check`.
//!
//! Not part of the suite: it takes long, and wants programs that a machine need not have.

mod case;
mod cases;
mod family;
mod run;

use std::fs;

use anyhow::{Result, bail, ensure};

use crate::commands::{self, PROFILE, cargo, succeed};
use crate::rights;
use case::Case;
use run::{End, Outcome, Place, User, Way};

/// Lines of a difference that are printed.
const LINES_MAX: usize = 12;

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// Names begin with it.
    only: Vec<String>,
    is_list: bool,
    is_short: bool,
    user: Option<String>,
    way: Option<String>,
    is_built: bool,
}

/// How many runs went how.
#[derive(Debug, Default)]
struct Count {
    same: usize,
    differs: usize,
    skipped: usize,
}

/// Runs the cases that are asked for.
///
/// # Errors
/// An option is not known, something cannot be built, or a program does not do what it does alone.
pub fn run(arguments: &[&str]) -> Result<()> {
    let wanted = wanted(arguments)?;
    let mut all = cases::all();
    all.retain(|case| wanted.only.is_empty() || wanted.only.iter().any(|only| case.name.starts_with(only)));
    all.retain(|case| !wanted.is_short || case.is_short);
    ensure!(!all.is_empty(), "no case has such a name; --list names them");
    if wanted.is_list {
        for case in &all {
            println!("{}{}", case.name, case.missing().map_or(String::new(), |why| format!(": {why}")));
        }
        return Ok(());
    }
    if !wanted.is_built {
        build()?;
    }
    let place = Place::new(&own_files())?;
    let mut count = Count::default();
    for case in &all {
        check(&place, case, &wanted, &mut count)?;
    }
    println!("{} the same, {} differ, {} skipped", count.same, count.differs, count.skipped);
    ensure!(count.differs == 0, "{} runs differ from what the program does alone", count.differs);
    Ok(())
}

fn wanted(arguments: &[&str]) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = |value: Option<&&str>| value.map(|value| (*value).to_owned());
        match *argument {
            "--list" => wanted.is_list = true,
            "--short" => wanted.is_short = true,
            "--built" => wanted.is_built = true,
            "--only" => wanted.only.extend(value(rest.next())),
            "--user" => wanted.user = value(rest.next()),
            "--way" => wanted.way = value(rest.next()),
            other => bail!("interpose-check does not know `{other}`"),
        }
    }
    Ok(wanted)
}

fn build() -> Result<()> {
    let counting = ["build", "--profile", PROFILE, "-p", "uswap-interpose", "--example", "counting"];
    succeed(cargo(&counting))?;
    commands::build()
}

fn own_files() -> Vec<std::path::PathBuf> {
    let counting = commands::target_directory().join(PROFILE).join("examples/libcounting.so");
    let agent = commands::agent_path();
    vec![counting, agent, commands::uswap_path()]
}

fn users() -> Vec<User> {
    if rights::has_root() { vec![User::Own, User::Nobody] } else { vec![User::Own] }
}

/// One case, for all users and in all ways.
fn check(place: &Place, case: &Case, wanted: &Wanted, count: &mut Count) -> Result<()> {
    if let Some(why) = case.missing() {
        println!("{}: skipped ({why})", case.name);
        count.skipped += 1;
        return Ok(());
    }
    if let Err(why) = place.prepare(case) {
        println!("{}: skipped ({why})", case.name);
        count.skipped += 1;
        return Ok(());
    }
    let has_root = users().len() > 1;
    for user in users() {
        let name = format!("{user:?}").to_lowercase();
        if wanted.user.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        if !(case.is_for_nobody && has_root && user == User::Own) {
            check_for(place, case, user, wanted, count)?;
        }
    }
    Ok(())
}

fn check_for(place: &Place, case: &Case, user: User, wanted: &Wanted, count: &mut Count) -> Result<()> {
    let title = format!("{} as {}", case.name, if user == User::Own { "oneself" } else { "nobody" });
    let alone = place.run(case, Way::Alone, user)?;
    if alone.end == End::TooLate {
        println!("{title}: skipped (alone it does not end within {} s)", case.seconds_max);
        count.skipped += 1;
        return Ok(());
    }
    let mut said = vec![format!("alone {:.1} s", alone.elapsed.as_secs_f64())];
    let mut differences = Vec::new();
    let ways = [Way::Counted { patch_after: 0 }, Way::Counted { patch_after: 1 }, Way::half(alone.peak_kib)];
    for way in ways {
        if wanted.way.as_ref().is_some_and(|wanted| wanted != way.name()) {
            continue;
        }
        let with = place.run(case, way, user)?;
        let verdict = if is_same(&alone, &with) { "ok" } else { "DIFFERS" };
        said.push(format!("{} {verdict} {:.1} s", way.name(), with.elapsed.as_secs_f64()));
        if let Way::Evicted { ram_kib } = way {
            said.push(format!("{} pages evicted with {} of {} KiB", with.evicted, ram_kib, alone.peak_kib));
        }
        if is_same(&alone, &with) {
            count.same += 1;
        } else {
            count.differs += 1;
            differences.push(difference(way, &alone, &with));
            keep(&format!("{}-{user:?}-{}", case.name, way.name()), &with)?;
        }
    }
    let verdict = if differences.is_empty() { "ok" } else { "DIFFERS" };
    println!("{title}: {verdict} ({})", said.join(", "));
    for difference in differences {
        println!("{difference}");
    }
    Ok(())
}

/// Puts what a run that differs has said where one can read it.
fn keep(name: &str, outcome: &Outcome) -> Result<()> {
    let directory = commands::target_directory().join("interpose-check");
    fs::create_dir_all(&directory)?;
    for (stream, text) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        fs::write(directory.join(format!("{name}.{stream}")), text)?;
    }
    Ok(())
}

fn is_same(alone: &Outcome, with: &Outcome) -> bool {
    alone.end == with.end && alone.stdout == with.stdout
}

/// In what they differ, in some lines.
fn difference(way: Way, alone: &Outcome, with: &Outcome) -> String {
    let mut lines = vec![format!("{}: ends with {:?}, alone with {:?}", way.name(), with.end, alone.end)];
    let only_in = |one: &Outcome, other: &Outcome, sign: char| -> Vec<String> {
        let other: Vec<&str> = other.stdout.lines().collect();
        let rest = one.stdout.lines().filter(|line| !other.contains(line));
        rest.take(LINES_MAX).map(|line| format!("{sign} {line}")).collect()
    };
    lines.extend(only_in(alone, with, '-'));
    lines.extend(only_in(with, alone, '+'));
    let stderr: Vec<&str> = with.stderr.lines().collect();
    let last = stderr.len().saturating_sub(LINES_MAX);
    lines.extend(stderr[last..].iter().map(|line| format!("! {line}")));
    lines.iter().map(|line| format!("    {line}\n")).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let all = cases::all();
        let names: BTreeSet<&str> = all.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().any(|case| case.is_short));
    }

    #[test]
    fn options_are_understood() {
        let wanted = wanted(&["--only", "python", "--short"]).expect("both are known");
        assert_eq!(wanted.only, ["python"]);
        assert!(wanted.is_short);
        assert!(super::wanted(&["--what"]).is_err());
    }
}
