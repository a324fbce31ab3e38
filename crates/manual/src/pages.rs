//! Man pages: one of `uswap`, and one of each of its commands.
//!
//! `clap_mangen` writes what a definition has. The text behind the options of `--help` becomes paragraphs here, and
//! [`crate::prose`] adds what a definition cannot say.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::Page;
use crate::prose::{self, Section};

/// Directory of the pages about commands.
const PLACE: &str = "man/man1";

/// Pages of `command` and of all below it.
pub fn pages(command: &Command) -> io::Result<Vec<Page>> {
    let mut built = command.clone();
    built.build();
    let version = built.get_version().unwrap_or_default().to_owned();
    let mut pages = Vec::new();
    add_pages(&built, &version, &mut pages)?;
    let names: Vec<String> = pages.iter().map(|page| page.name.clone()).collect();
    for page in &mut pages {
        see_also(&names, &page.name).to_writer(&mut page.content)?;
    }
    Ok(pages)
}

fn add_pages(command: &Command, version: &str, pages: &mut Vec<Page>) -> io::Result<()> {
    pages.push(page(command, version)?);
    command.get_subcommands().try_for_each(|below| add_pages(below, version, pages))
}

fn page(command: &Command, version: &str) -> io::Result<Page> {
    let man = Man::new(command.clone()).source(format!("uswap {version}")).manual("uswap");
    let name = man.get_filename();
    let mut content = Vec::new();
    man.render_title(&mut content)?;
    man.render_name_section(&mut content)?;
    man.render_synopsis_section(&mut content)?;
    let prose = prose::of(&name);
    if !prose.iter().any(|section| section.heading == prose::DESCRIPTION) {
        man.render_description_section(&mut content)?;
    }
    let (before, behind): (Vec<&Section>, Vec<&Section>) =
        prose.iter().partition(|section| section.heading == prose::DESCRIPTION);
    before.into_iter().try_for_each(|section| written(section).to_writer(&mut content))?;
    man.render_options_section(&mut content)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut content)?;
    }
    if let Some(text) = command.get_after_help() {
        notes(&text.to_string()).to_writer(&mut content)?;
    }
    behind.into_iter().try_for_each(|section| written(section).to_writer(&mut content))?;
    Ok(Page { place: PLACE, name, content })
}

/// A section of prose. An empty line ends a paragraph, a line that begins with blanks stays as it is, and one that
/// begins with `= ` is a term that the next lines explain.
fn written(section: &Section) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [section.heading]);
    for line in section.text.lines() {
        if let Some(term) = line.strip_prefix("= ") {
            roff.control("TP", []);
            roff.text([bold(term)]);
        } else if line.is_empty() {
            roff.control("PP", []);
        } else {
            as_it_is_or_filled(&mut roff, line);
        }
    }
    roff
}

/// The text behind the options of `--help`: lines of one paragraph follow each other there.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut before = "";
    for line in text.lines() {
        if begins_paragraph(before, line) {
            roff.control("PP", []);
        }
        as_it_is_or_filled(&mut roff, line);
        before = line;
    }
    roff
}

/// A sentence may end where a line ends by chance; a paragraph more there does no harm.
fn begins_paragraph(before: &str, line: &str) -> bool {
    before.ends_with(['.', ':']) || line.starts_with('-') || line.is_empty()
}

/// What a file of options has: `[run]`, `ram = "2G"`.
fn is_setting(line: &str) -> bool {
    line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
}

fn as_it_is_or_filled(roff: &mut Roff, line: &str) {
    if line.starts_with(' ') || is_setting(line) {
        roff.control("nf", []);
        roff.text([roman(line)]);
        roff.control("fi", []);
    } else if !line.is_empty() {
        roff.text([roman(line)]);
    }
}

/// The other pages that somebody may look for: of a command, those above and below it; of `uswap`, all.
fn see_also(names: &[String], own: &str) -> Roff {
    let stem = |name: &str| name.trim_end_matches(".1").to_owned();
    let own = stem(own);
    let is_near =
        |other: &String| own.starts_with(&format!("{other}-")) || other.starts_with(&format!("{own}-"));
    let others = names.iter().map(|name| stem(name)).filter(is_near).map(|name| (name, "(1)"));
    let files =
        prose::FILES.iter().filter(|(page, _)| *page == own).map(|(_, file)| ((*file).to_owned(), "(5)"));
    let mut words = Vec::new();
    for (name, section) in others.chain(files) {
        if !words.is_empty() {
            words.push(roman(", "));
        }
        words.extend([bold(name), roman(section)]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(words);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command as Process, Stdio};

    fn made() -> Vec<(String, String)> {
        let pages = pages(&crate::command()).expect("memory can be written").into_iter();
        pages.map(|page| (page.name, String::from_utf8(page.content).expect("it is text"))).collect()
    }

    #[test]
    fn each_command_that_is_shown_has_a_page() {
        let names: Vec<String> = made().into_iter().map(|(name, _)| name).collect();
        for wanted in ["uswap.1", "uswap-run.1", "uswap-stat.1", "uswap-bench-compare.1"] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} is not among {names:?}");
        }
        let hidden = ["uswap-help.1", "uswap-supervise.1", "uswap-try-calls.1", "uswap-workload.1"];
        assert!(!names.iter().any(|name| hidden.contains(&name.as_str())), "{names:?}");
    }

    #[test]
    fn a_page_has_its_options_and_leads_to_the_others() {
        let pages = made();
        let text = |wanted: &str| &pages.iter().find(|(name, _)| name == wanted).expect("it is there").1;
        for wanted in
            ["\\-\\-ram", "SIZE", "EXIT STATUS", ".SH \"SEE ALSO\"", "fBuswap\\fR(1)", "toml\\fR(5)"]
        {
            assert!(text("uswap-run.1").contains(wanted), "{wanted}: {}", text("uswap-run.1"));
        }
        assert!(text("uswap.1").contains("uswap \\- run a program"), "{}", text("uswap.1"));
        assert!(text("uswap-run.1").contains("USWAP_RAM"), "{}", text("uswap-run.1"));
        assert!(text("uswap.1").contains("\\fBuswap\\-swapoff\\fR(1)"), "{}", text("uswap.1"));
        assert!(!pages.iter().any(|(_, text)| text.contains("\\-\\-without")));
    }

    /// What groff has to say about a page.
    fn complaints(text: &str) -> io::Result<String> {
        let mut groff = Process::new("groff");
        groff.args(["-man", "-Tutf8", "-Kutf8", "-ww", "-z"]);
        groff.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = groff.spawn()?;
        child.stdin.take().expect("it is a pipe").write_all(text.as_bytes())?;
        let output = child.wait_with_output()?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    #[test]
    fn groff_has_nothing_to_say_about_a_page() {
        for (name, text) in made() {
            match complaints(&text) {
                Ok(said) => assert_eq!(said, "", "{name}"),
                Err(error) => {
                    return println!("SKIP: there is no groff ({error}): apt-get install groff-base");
                }
            }
        }
        // It does have something to say about others.
        if let Ok(said) = complaints(".TH A 1\n.SH NAME\na \\- b\n.no_such_macro\n") {
            assert!(said.contains("no_such_macro"), "{said}");
        }
    }

    #[test]
    fn prose_has_terms_paragraphs_and_listings() {
        let section =
            Section { heading: "FILES", text: "One.\n\nTwo.\n    as it is\n= TERM\nthat is explained." };
        let text = written(&section).render();
        let wanted =
            ".SH FILES\nOne.\n.PP\nTwo.\n.nf\n    as it is\n.fi\n.TP\n\\fBTERM\\fR\nthat is explained.\n";
        assert!(text.ends_with(wanted), "{text}");
    }

    #[test]
    fn help_becomes_paragraphs() {
        let text = notes("One is\nlong.\nExample: a\n         b\n--two\n[run]\nram = 1").render();
        let listing = ".nf\n[run]\n.fi\n.nf\nram = 1\n.fi\n";
        let wanted = "One is\nlong.\n.PP\nExample: a\n.nf\n         b\n.fi\n.PP\n\\-\\-two\n";
        assert!(text.ends_with(&format!("{wanted}{listing}")), "{text}");
    }
}
