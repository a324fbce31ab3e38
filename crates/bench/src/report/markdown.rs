//! The same report as Markdown, for `docs/BENCHMARKS.md`, with the short table for the README at its top.
//!
//! What must hold: text of others cannot leave its place in a table: what Markdown or HTML would read as a mark is
//! escaped.

use crate::results::Results;

use super::sheet::{Row, Sheet, Side, one_line};
use super::{contents, duel, program, wide};

/// The whole report.
pub fn whole(results: &Results) -> String {
    let mut text = format!("# uswap bench: {}\n\n", escaped(&results.scenario));
    text += &facts(results);
    let mut sheets = program::sheets(results);
    sheets.push(wide::short(results));
    sheets.extend(wide::sheets(results));
    sheets.extend([
        duel::summary(results),
        contents::main_figures(results, &results.workloads),
        contents::costs(results, &results.workloads),
    ]);
    sheets.extend(contents::troubles(results));
    sheets.push(contents::setups(results));
    for sheet in &sheets {
        text += &format!("\n## {}\n\n{}", sheet.title, sheet_text(sheet));
    }
    text
}

fn facts(results: &Results) -> String {
    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, value) in contents::facts(results) {
        let value = if name == "command" { code(&value).replace('|', "\\|") } else { escaped(&value) };
        text += &format!("| {name} | {value} |\n");
    }
    text
}

/// The table and its notes, without the heading.
pub fn sheet_text(sheet: &Sheet) -> String {
    let mut text = String::new();
    if !sheet.rows.is_empty() {
        let titles: Vec<String> = sheet.columns.iter().map(|column| escaped(&column.title)).collect();
        let rules = sheet.columns.iter().map(|column| match column.side {
            Side::Left => "---",
            Side::Right => "---:",
        });
        text += &format!("| {} |\n|{}|\n", titles.join(" | "), rules.collect::<Vec<_>>().join("|"));
    }
    for row in &sheet.rows {
        text += &match row {
            // GitHub has no cells that span columns: what heads the rows stands in the first, and its words behind the
            // table.
            Row::Group(name, _) => {
                format!("| **{}** |{}\n", escaped(name), " |".repeat(sheet.columns.len() - 1))
            }
            Row::Entries(entries) => {
                let entries: Vec<String> = entries.iter().map(|entry| escaped(&entry.text)).collect();
                format!("| {} |\n", entries.join(" | "))
            }
        };
    }
    let groups = sheet.rows.iter().filter_map(|row| match row {
        Row::Group(name, words) if !words.is_empty() => {
            Some(format!("- **{}**: {}\n", escaped(name), escaped(words)))
        }
        _ => None,
    });
    let notes = sheet.notes.iter().map(|note| format!("- {}\n", escaped(note)));
    let list: String = groups.chain(notes).collect();
    if list.is_empty() { text } else { format!("{}\n{list}", text) }
}

/// Inline code, also if the text holds back quotes.
fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if longest > 0 { " " } else { "" };
    format!("{fence}{gap}{text}{gap}{fence}")
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in one_line(text).chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '~' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::sample::{awkward, sample, small, user_program};
    use super::*;

    /// Bars that part cells: not escaped.
    fn bars(line: &str) -> usize {
        line.replace("\\\\", "").replace("\\|", "").matches('|').count()
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_head() {
        for results in [sample(), awkward(), small(), user_program(), Results::default()] {
            for text in [whole(&results)] {
                let mut head = None;
                for line in text.lines() {
                    if line.starts_with('|') {
                        assert_eq!(bars(line), *head.get_or_insert(bars(line)), "{line}\nin\n{text}");
                    } else {
                        head = None;
                    }
                }
                assert!(!text.contains("NaN"), "{text}");
            }
        }
    }

    #[test]
    fn marks_are_escaped() {
        assert_eq!(escaped("a|b <i> *x* `y`\nz"), "a\\|b &lt;i&gt; \\*x\\* \\`y\\` z");
        assert_eq!(code("a b"), "`a b`");
        assert_eq!(code("a ``b`"), "``` a ``b` ```");
    }

    #[test]
    fn the_short_form_as_it_is_printed() {
        assert_eq!(sheet_text(&wide::short(&small())), include_str!("golden/small_short.md"));
    }

    #[test]
    fn the_whole_form_has_every_rival_of_every_workload() {
        let results = sample();
        let text = whole(&results);
        for rival in &results.rivals {
            let rows = text
                .lines()
                .filter(|line| line.starts_with(&format!("| {} |", rival.name)) && bars(line) > 3)
                .count();
            assert_eq!(rows, 2 * results.workloads.len(), "{} in main figures and costs", rival.name);
        }
    }
}
