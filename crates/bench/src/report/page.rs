//! The report as one HTML file: no script, nothing is loaded from anywhere, light and dark.
//!
//! What must hold: all text of programs and of the machine is escaped; every tag is closed, as in XML.

use crate::results::{Results, Workload};

use super::escape::escaped;
use super::number;
use super::plot::{latency, memory, ratios};
use super::sheet::{Row, Sheet, Side, one_line};
use super::{contents, duel, figure, program, wide};

/// Its style sheet; pictures that stand alone have it too.
pub const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn html(results: &Results) -> String {
    let title = escaped(&one_line(&format!("uswap bench: {}", results.scenario)));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    page += &introduction(results);
    for sheet in program::sheets(results) {
        page += &heading(2, &sheet.title);
        page += &table(&sheet);
    }
    page += &heading(2, "uswap against the kernel's zram");
    let duels = duel::duels(results);
    page += &ratios::picture(&duels).unwrap_or_default();
    page += &table(&duel::summary(results));
    for sheet in wide::sheets(results) {
        page += &heading(2, &sheet.title);
        page += &table(&sheet);
    }
    for (index, workload) in results.workloads.iter().enumerate() {
        page += &section(results, index, workload);
    }
    for sheet in contents::troubles(results).into_iter().chain([contents::setups(results)]) {
        page += &heading(2, &sheet.title);
        page += &table(&sheet);
    }
    page + "</body>\n</html>\n"
}

/// Score, facts, and links to the workloads.
fn introduction(results: &Results) -> String {
    let duels = duel::duels(results);
    let mut text = String::new();
    if !duels.is_empty() {
        text += &format!("<p class=\"score\">uswap against the bar: {}</p>\n", duel::score(&duels));
    }
    text += "<dl>\n";
    for (name, value) in contents::facts(results) {
        let value =
            if name == "command" { format!("<code>{}</code>", escaped(&value)) } else { escaped(&value) };
        text += &format!("<dt>{name}</dt><dd>{value}</dd>\n");
    }
    text += "</dl>\n";
    if results.workloads.len() > 1 {
        let links = results.workloads.iter().enumerate().map(|(index, workload)| {
            format!("<a href=\"#workload-{index}\">{}</a><br/>\n", escaped(&one_line(&workload.name)))
        });
        text += &format!("<nav>\n{}</nav>\n", links.collect::<String>());
    }
    text
}

/// All that is known of one workload.
fn section(results: &Results, index: usize, workload: &Workload) -> String {
    let one = std::slice::from_ref(workload);
    let mut text = format!("<h2 id=\"workload-{index}\">{}</h2>\n", escaped(&one_line(&workload.name)));
    let title = format!("{}{}", workload.title, contents::sizes(results, workload));
    text += &format!("<p>{}</p>\n", escaped(&one_line(&title)));
    for (title, mut sheet) in [
        (
            format!("Main figure: {}", figure::unit_and_direction(workload)),
            contents::main_figures(results, one),
        ),
        ("Slow accesses, processor, disk, true RAM, kills".to_owned(), contents::costs(results, one)),
    ] {
        sheet.rows.retain(|row| matches!(row, Row::Entries(_)));
        text += &heading(3, &title);
        text += &table(&sheet);
    }
    if let Some(picture) = latency::picture(results, workload) {
        text += &heading(3, "Latency of single accesses");
        text += &picture;
        text += "<p class=\"quiet\">Runs that ended well, all rounds together. A line further left and lower is \
            better.</p>\n";
    }
    if let Some(picture) = memory::picture(results, workload) {
        text += &heading(3, "True RAM over time");
        text += &picture;
        text += &format!(
            "<p class=\"quiet\">Of each rival the run with the highest peak. The budget is {}.</p>\n",
            number::bytes(results.budget_of(workload) as f64)
        );
    }
    text
}

fn heading(level: u32, title: &str) -> String {
    format!("<h{level}>{}</h{level}>\n", escaped(&one_line(title)))
}

fn table(sheet: &Sheet) -> String {
    let mut text = String::new();
    if !sheet.rows.is_empty() {
        text += "<div class=\"scroll\"><table>\n<thead><tr>";
        for column in &sheet.columns {
            text += &format!("<th{}>{}</th>", side_class(column.side), escaped(&column.title));
        }
        text += "</tr></thead>\n<tbody>\n";
        for row in &sheet.rows {
            text += &table_row(sheet, row);
        }
        text += "</tbody>\n</table></div>\n";
    }
    if !sheet.notes.is_empty() {
        let notes = sheet.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note)));
        text += &format!("<ul class=\"notes\">\n{}</ul>\n", notes.collect::<String>());
    }
    text
}

fn table_row(sheet: &Sheet, row: &Row) -> String {
    match row {
        Row::Group(name, words) => format!(
            "<tr class=\"group\"><th colspan=\"{}\">{} <span>{}</span></th></tr>\n",
            sheet.columns.len(),
            escaped(&one_line(name)),
            escaped(words)
        ),
        Row::Entries(entries) => {
            let cells = entries.iter().zip(&sheet.columns).map(|(entry, column)| {
                let class = match entry.verdict {
                    Some(verdict) => format!(" class=\"{}\"", ratios::class(verdict)),
                    None => side_class(column.side).to_owned(),
                };
                format!("<td{class}>{}</td>", escaped(&one_line(&entry.text)))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        }
    }
}

fn side_class(side: Side) -> &'static str {
    match side {
        Side::Left => "",
        Side::Right => " class=\"number\"",
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{awkward, sample, small};
    use super::*;

    /// Goes through the tags as an XML reader would: each end closes what was opened last. Returns the names of all
    /// elements.
    fn balanced(page: &str) -> Vec<String> {
        let mut open: Vec<&str> = Vec::new();
        let mut names = Vec::new();
        let mut rest = page.strip_prefix("<!doctype html>").expect("the page begins with its type");
        while let Some(start) = rest.find('<') {
            let end = start + rest[start..].find('>').expect("every tag has an end");
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "an attribute is open in <{tag}>");
            let name = tag.split([' ', '/']).next().unwrap_or(tag);
            names.push(name.to_owned());
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
        names
    }

    #[test]
    fn tags_are_balanced_and_nothing_is_loaded() {
        for results in [sample(), awkward(), small(), Results::default()] {
            let page = html(&results);
            let names = balanced(&page);
            for forbidden in ["script", "link", "img", "iframe", "object", "i"] {
                assert!(!names.iter().any(|name| name == forbidden), "<{forbidden}>");
            }
            for forbidden in ["http", "url(", "@import", "src=", "NaN", "\u{1b}"] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
        }
    }

    #[test]
    fn marks_in_text_are_text() {
        let page = html(&awkward());
        assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; |"), "escaped");
    }

    #[test]
    fn every_workload_has_its_tables_and_pictures() {
        let results = sample();
        let page = html(&results);
        for (index, workload) in results.workloads.iter().enumerate() {
            assert!(page.contains(&format!("<h2 id=\"workload-{index}\">{}</h2>", workload.name)));
        }
        // One of ratios, four of latency, six of memory.
        assert_eq!(page.matches("<svg ").count(), 11);
        assert_eq!(page.matches("<td>uswap</td>").count(), 2 * results.workloads.len());
    }

    #[test]
    fn classes_of_the_pictures_are_in_the_style_sheet() {
        let page = html(&sample());
        for classes in page.split("class=\"").skip(1) {
            for class in classes.split('"').next().unwrap_or_default().split(' ') {
                let known = STYLE.contains(&format!(".{class}")) || ["legend", "name"].contains(&class);
                assert!(known, "{class}");
            }
        }
    }
}
