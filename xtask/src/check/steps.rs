//! The steps of `cargo xtask test` are those that CONTRIBUTING.md names, in the same order.

use super::Problem;
use crate::steps::STEPS;
use crate::tree::Tree;

const DOCUMENT: &str = "CONTRIBUTING.md";
/// The first line of the table of steps; its rule follows, then a row for each step.
const HEAD: &str = "| step | what |";

/// The table has a row for each step, and no other.
pub fn documented(tree: &Tree) -> Vec<Problem> {
    let Some(document) = tree.files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Problem { path: DOCUMENT.into(), line: 1, what: "this file is missing".into() }];
    };
    let mut lines = document.numbered_lines().skip_while(|(_, text)| *text != HEAD);
    let Some((head, _)) = lines.next() else {
        return vec![Problem::new(document, 1, format!("it has no table '{HEAD}'"))];
    };
    let rows =
        lines.skip(1).map_while(|(line, text)| Some((line, text.strip_prefix("| ")?.split(" |").next()?)));
    let mut rows = rows.peekable();
    for (step, _) in STEPS {
        match rows.next_if(|(_, name)| *name == step) {
            Some(_) => {}
            None => {
                let line = rows.peek().map_or(head, |(line, _)| *line);
                let what = format!("the step '{step}' of xtask/src/steps.rs has its row here");
                return vec![Problem::new(document, line, what)];
            }
        }
    }
    let others = rows.map(|(line, name)| Problem::new(document, line, format!("there is no step '{name}'")));
    others.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_names() -> Vec<&'static str> {
        STEPS.iter().map(|(name, _)| *name).collect()
    }

    /// A document with these rows.
    fn problems_of(names: &[&str]) -> Vec<String> {
        let rows: String = names.iter().map(|name| format!("| {name} | it is tested |\n")).collect();
        let text = format!("# C\n{HEAD}\n|---|---|\n{rows}\nMore.\n\n| other | table |\n");
        documented(&Tree::sample(&[(DOCUMENT, &text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_step_has_its_row() {
        let names = step_names();
        assert!(problems_of(&names).is_empty());
    }

    #[test]
    fn a_step_without_a_row_is_a_problem() {
        let names = step_names();
        let expected = format!("the step '{}' of xtask/src/steps.rs has its row here", names[1]);
        let found = problems_of(&[&names[..1], &names[2..]].concat());
        assert_eq!(found, [format!("CONTRIBUTING.md:5: {expected}")]);
        assert_eq!(problems_of(&names[..names.len() - 1]).len(), 1, "the last one");
        assert_eq!(problems_of(&[]).len(), 1);
    }

    #[test]
    fn steps_in_another_order_are_a_problem() {
        let mut names = step_names();
        names.swap(0, 1);
        assert_eq!(problems_of(&names).len(), 1);
    }

    #[test]
    fn a_row_of_no_step_is_a_problem() {
        let names: Vec<&str> = step_names().into_iter().chain(["tea"]).collect();
        let line = names.len() + 3;
        assert_eq!(problems_of(&names), [format!("CONTRIBUTING.md:{line}: there is no step 'tea'")]);
    }

    #[test]
    fn a_document_without_the_table_is_a_problem() {
        assert_eq!(documented(&Tree::sample(&[(DOCUMENT, "# C\n")])).len(), 1);
        assert_eq!(documented(&Tree::sample(&[])).len(), 1);
    }
}
