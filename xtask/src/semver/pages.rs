//! The public interface of a crate, from the pages that rustdoc writes of it.
//!
//! Must hold: each line stands for itself, with the path of its item in front, so that two lists can be compared line
//! by line; types are named by their paths; and nothing is in it that depends on comments, on private code or on where
//! a thing is written. What rustdoc says of traits that every type has (`From<T> for T`) is left out, and so are the
//! functions that a trait demands.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Parts of a page that say what a type can do.
const PARTS: [&str; 3] = ["implementations", "trait-implementations", "synthetic-implementations"];

/// What a header of these parts begins with, if it says something that the name of a trait does not.
const STARTS: [&str; 5] = ["impl", "unsafe impl", "pub ", "type ", "const "];

/// Traits that a type has by itself, and that programs cannot name on a stable compiler.
const UNSTABLE: [&str; 3] = ["Freeze for ", "StructuralPartialEq for ", "UnsafeUnpin for "];

/// All lines of a crate. `directory` has its pages.
///
/// # Errors
/// A page is missing, or is not written as this compiler's rustdoc writes it.
pub fn lines(directory: &Path) -> Result<Vec<String>> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let mut lines = Vec::new();
    for (page, name) in items(&read("all.html")?) {
        let of_page = lines_of_page(&read(&page)?).with_context(|| format!("the page {page}"))?;
        lines.extend(of_page.into_iter().map(|line| format!("{name}: {line}")));
    }
    ensure!(!lines.is_empty(), "{} names no public item", directory.display());
    Ok(lines)
}

/// Pages in the list of all items, and the names of what they are about.
fn items(list: &str) -> Vec<(String, String)> {
    let parts = list.split("<ul class=\"all-items\">").skip(1).map(|part| before(part, "</ul>"));
    let links =
        parts.flat_map(|part| part.split("<a href=\"").skip(1)).filter_map(|link| link.split_once("\">"));
    links.map(|(page, rest)| (page.to_owned(), text(before(rest, "</a>")))).collect()
}

/// What a page says of its item: the declaration, then what is implemented for it.
fn lines_of_page(page: &str) -> Result<Vec<String>> {
    let start = "<pre class=\"rust item-decl\"><code>";
    let (_, declaration) = page.split_once(start).context("it has no declaration")?;
    let mut lines = declaration_lines(&text(before(declaration, "</code></pre>")));
    for part in page.split("<h2 id=\"").skip(1) {
        if PARTS.contains(&before(part, "\"")) {
            lines.extend(implementations(part));
        }
    }
    Ok(lines)
}

/// The headers of a part: `impl` lines, and what stands below them that they do not imply.
fn implementations(part: &str) -> Vec<String> {
    let headers = part.split(" class=\"code-header\">").skip(1);
    let headers = headers.map(|header| joined(&text(before(before(header, "</h3>"), "</h4>"))));
    let is_telling = |line: &String| STARTS.iter().any(|start| line.starts_with(start));
    let is_stable = |line: &String| !UNSTABLE.iter().any(|name| line.contains(name));
    headers.filter(is_telling).filter(is_stable).collect()
}

/// A declaration: a line for itself, and one for each member.
fn declaration_lines(declaration: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = String::new();
    for line in declaration.lines() {
        open = format!("{open}\n{line}");
        // The bracket around all members ends the first line, and stays open.
        let has_begun = lines.iter().any(|line| line.ends_with('{'));
        let closed = if has_begun { open.as_str() } else { open.strip_suffix('{').unwrap_or(&open) };
        let count = |brackets: [char; 2]| closed.matches(brackets).count();
        if count(['(', '{']) <= count([')', '}']) {
            lines.push(joined(&open));
            open.clear();
        }
    }
    lines.push(joined(&open));
    lines.retain(|line| !matches!(line.as_str(), "" | "}"));
    lines
}

/// The text in front of `end`, or all of it.
fn before<'a>(text: &'a str, end: &str) -> &'a str {
    text.split(end).next().unwrap_or(text)
}

/// In one line.
fn joined(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("( ", "(").replace(", )", ")").replace(", }", " }")
}

/// The path of what a link leads to, if it says that: several types are called `Error`.
fn link_to(tag: &str) -> Option<&str> {
    let (_, path) = before(tag.strip_prefix("a ")?, ">").split_once(" title=\"")?.1.split_once(' ')?;
    path.strip_suffix('"')
}

/// HTML without its tags. What can be folded has a title for that, which is left out.
fn text(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((plain, tag)) = rest.split_once('<') {
        text.push_str(plain);
        let end = match link_to(tag) {
            Some(path) => {
                text.push_str(path);
                "</a>"
            }
            None if tag.starts_with("summary") => "</summary>",
            None => ">",
        };
        rest = tag.split_once(end).map_or("", |(_, rest)| rest);
        // Blocks are lines.
        if tag.starts_with("/div") || tag.starts_with("div") {
            text.push('\n');
        }
    }
    text.push_str(rest);
    let plain =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    plain.iter().fold(text, |text, (name, character)| text.replace(name, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_all_items_is_read() {
        let list = "<ul class=\"block\"><li><a href=\"#fns\">x</a></li></ul>\
            <ul class=\"all-items\"><li><a href=\"struct.A.html\">A</a></li>\
            <li><a href=\"b/fn.c.html\">b::c</a></li></ul><a href=\"no.html\">no</a>";
        let items = items(list);
        assert_eq!(
            items,
            [("struct.A.html", "A"), ("b/fn.c.html", "b::c")].map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    #[test]
    fn a_declaration_has_a_line_for_each_member() {
        let declaration = "#[non_exhaustive]\npub enum Error {\n    A {\n        path: Path,\n        b: u8,\n    },\n\
            B(u8),\n}";
        let wanted = ["#[non_exhaustive]", "pub enum Error {", "A { path: Path, b: u8 },", "B(u8),"];
        assert_eq!(declaration_lines(declaration), wanted);
        assert_eq!(
            declaration_lines("pub fn a(\n    b: impl Into<C>,\n) -> &'static D<E>\nwhere\n    E: F,"),
            ["pub fn a(b: impl Into<C>) -> &'static D<E>", "where", "E: F,"]
        );
        assert_eq!(declaration_lines("pub const A: u8 = 1;"), ["pub const A: u8 = 1;"]);
        assert_eq!(declaration_lines("pub trait A: B { }"), ["pub trait A: B { }"]);
    }

    #[test]
    fn a_page_says_what_an_item_is_and_can_do() {
        let header = |line: &str| format!("<h3 class=\"code-header\">{line}</h3>");
        let part = |name: &str, lines: &[&str]| {
            format!("<h2 id=\"{name}\">{}", lines.iter().map(|line| header(line)).collect::<String>())
        };
        let fields = "<details><summary class=\"hideme\"><span>Show 1 field</span></summary>    pub b: \
            <a href=\"x\" title=\"struct c::B\">B</a>,\n</details>";
        let declaration =
            format!("<div class=\"code-attribute\">#[must_use]</div>pub struct A&lt;T&gt; {{\n{fields}}}");
        let method =
            "pub fn <a>c</a>(\n    &amp;self,\n) -&gt; u8<div class=\"where\">where\n    T: B,</div>";
        let page = [
            format!("<pre class=\"rust item-decl\"><code>{declaration}</code></pre>"),
            part("implementations", &["impl&lt;T&gt; A&lt;T&gt;", method]),
            part("deref-methods-x", &["pub fn len(&amp;self)"]),
            part(
                "trait-implementations",
                &["impl Deref for A", "type <a>Target</a> = [T]", "fn deref(&amp;self)"],
            ),
            part("synthetic-implementations", &["impl Freeze for A", "impl&lt;T&gt; !Send for A&lt;T&gt;"]),
            part("blanket-implementations", &["impl&lt;T&gt; Any for T"]),
        ];
        let lines = lines_of_page(&page.concat()).expect("it is a page");
        let wanted = [
            "#[must_use]",
            "pub struct A<T> {",
            "pub b: c::B,",
            "impl<T> A<T>",
            "pub fn c(&self) -> u8 where T: B,",
            "impl Deref for A",
            "type Target = [T]",
            "impl<T> !Send for A<T>",
        ];
        assert_eq!(lines, wanted);
        assert!(lines_of_page("<p>nothing</p>").is_err());
    }
}
