//! A long table in parts: results of different workloads, measured one after the other, as one.
//!
//! What must hold: parts that differ in anything but their workloads are refused, for a table that says one machine,
//! one commit and one way must mean it.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use crate::results::Results;

use super::{compare, read};

/// Reads the files and joins them; the workloads come in the order of the files.
///
/// # Errors
/// A file that cannot be read, parts that differ, a workload that two of them have.
pub fn files(paths: &[PathBuf]) -> anyhow::Result<Results> {
    let (first, rest) = paths.split_first().context("name the results.json of at least one bench")?;
    let mut joined = read(first)?;
    for path in rest {
        add(&mut joined, read(path)?)
            .with_context(|| format!("{} cannot stand in one table with those before it", path.display()))?;
    }
    Ok(joined)
}

fn add(joined: &mut Results, part: Results) -> anyhow::Result<()> {
    if let Some(difference) = compare::warnings(joined, &part).first() {
        anyhow::bail!("A is what was joined so far, B this file. {difference}");
    }
    let way = |results: &Results| {
        let names = results.rivals.iter().map(|rival| rival.name.clone()).collect::<Vec<_>>().join(", ");
        let commit = results.machine.commit.clone().unwrap_or_else(|| "unknown".to_owned());
        [
            ("version", results.machine.uswap_version.clone()),
            ("commit", commit),
            ("rounds", results.rounds.to_string()),
            ("rivals", names),
        ]
    };
    for ((name, before), (_, now)) in way(joined).into_iter().zip(way(&part)) {
        ensure!(before == now, "{name}: A has {before}, B has {now}");
    }
    let twice = part.workloads.iter().find(|new| joined.workloads.iter().any(|old| old.name == new.name));
    if let Some(workload) = twice {
        anyhow::bail!("both have {}: its runs would be of different times", workload.name);
    }
    for (rival, other) in joined.rivals.iter_mut().zip(part.rivals) {
        if rival.title != other.title && !rival.title.contains(&other.title) {
            rival.title = if other.title.contains(&rival.title) {
                other.title
            } else {
                format!("{}; {}", rival.title, other.title)
            };
        }
    }
    if joined.machine.date != part.machine.date {
        joined.machine.date = format!("{}, {}", joined.machine.date, part.machine.date);
    }
    joined.machine.noise = joined.machine.noise.max(part.machine.noise);
    joined.command = format!("{} && {}", joined.command, part.command);
    joined.workloads.extend(part.workloads);
    joined.cells.extend(part.cells);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    /// The workloads of the sample that `chosen` takes, as a bench of only those would have them.
    fn part(chosen: impl Fn(usize) -> bool) -> Results {
        let mut results = sample();
        let names: Vec<String> = results.workloads.iter().map(|workload| workload.name.clone()).collect();
        let is_chosen = |name: &String| names.iter().position(|other| other == name).is_some_and(&chosen);
        results.workloads.retain(|workload| is_chosen(&workload.name));
        results.cells.retain(|cell| is_chosen(&cell.workload));
        results
    }

    #[test]
    fn parts_are_the_whole() {
        let whole = sample();
        let mut joined = part(|index| index == 0);
        let mut rest = part(|index| index > 0);
        rest.machine.noise *= 2.0;
        "uswap bench --workloads rest".clone_into(&mut rest.command);
        add(&mut joined, rest).expect("they differ in their workloads only");
        assert_eq!((&joined.workloads, &joined.cells), (&whole.workloads, &whole.cells));
        assert_eq!(joined.rivals, whole.rivals);
        assert!(joined.machine.noise > whole.machine.noise, "that of the noisier part");
        assert!(joined.command.ends_with(" && uswap bench --workloads rest"), "{}", joined.command);
    }

    #[test]
    fn what_differs_is_refused() {
        let refused = |change: &dyn Fn(&mut Results)| {
            let mut rest = part(|index| index > 0);
            change(&mut rest);
            format!("{:#}", add(&mut part(|index| index == 0), rest).expect_err("they differ"))
        };
        assert!(refused(&|rest| rest.machine.commit = Some("0000000".to_owned())).contains("commit"));
        assert!(refused(&|rest| rest.machine.kernel += "1").contains("kernel"));
        assert!(refused(&|rest| rest.rounds += 1).contains("rounds"));
        assert!(refused(&|rest| drop(rest.rivals.pop())).contains("rivals"));
        assert!(refused(&|rest| *rest = part(|_| true)).contains("both have"));
    }
}
