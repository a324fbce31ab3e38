//! Which paths a Rust file uses, as far as they can lead to another module of its crate.
//!
//! Works on words, not on a syntax tree: `use` declarations with their braces, and paths in the code. What is behind
//! `#[cfg(test)]` does not count. Knows nothing of modules; the caller resolves the paths.

use std::collections::BTreeSet;

use crate::code::{code_only, is_word};

/// A path of at least two names, or one name in a `use`, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedPath {
    pub names: Vec<String>,
    pub line: usize,
}

/// What a file says of others.
#[derive(Debug, Default)]
pub struct Uses {
    /// Private `use` declarations, and paths in the code.
    pub paths: Vec<UsedPath>,
    /// Private `use`: the name that it gives, and what that is.
    pub imports: Vec<(String, UsedPath)>,
    /// `pub use`: the name that it gives, and what that is.
    pub reexports: Vec<(String, UsedPath)>,
    /// What it defines for others: the names behind `pub`.
    pub items: BTreeSet<String>,
    /// All functions that it defines.
    pub functions: BTreeSet<String>,
    /// All functions that it calls as methods, or behind a path.
    pub called: BTreeSet<String>,
    /// All names in it.
    pub words: BTreeSet<String>,
    /// Modules that are declared for tests only.
    pub test_modules: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

/// Reads a file.
pub fn of(source: &str) -> Uses {
    let mut uses = Uses::default();
    let tokens = without_tests(tokens(&code_only(source)), &mut uses.test_modules);
    note_names(&tokens, &mut uses);
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].text.as_str());
        if tokens[at].text == "use" && before != "::" {
            let is_public = before == ")" || before == "pub";
            let mut found = Vec::new();
            at = use_tree(&tokens, at + 1, &[], &mut found);
            for (name, path) in found {
                if is_public {
                    uses.reexports.push((name, path));
                } else {
                    uses.imports.push((name, path.clone()));
                    uses.paths.push(path);
                }
            }
        } else if is_name(&tokens[at].text) && before != "::" && before != "." {
            let (names, next) = plain_path(&tokens, at);
            if names.len() > 1 {
                uses.paths.push(UsedPath { names, line: tokens[at].line });
            }
            at = next;
        } else {
            at += 1;
        }
    }
    uses
}

/// Words that may stand between `pub` and the name of an item.
const BEFORE_NAME: [&str; 12] =
    ["const", "async", "unsafe", "extern", "fn", "struct", "enum", "trait", "type", "static", "mod", "mut"];

fn note_names(tokens: &[Token], uses: &mut Uses) {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    for at in (0..tokens.len()).filter(|at| is_name(text(*at))) {
        uses.words.insert(text(at).to_owned());
        let before = at.checked_sub(1).map_or("", text);
        if before == "fn" {
            uses.functions.insert(text(at).to_owned());
        }
        // A name behind a dot without parentheses is a field.
        if before == "::" || before == "." && matches!(text(at + 1), "(" | "::") {
            uses.called.insert(text(at).to_owned());
        }
        if text(at) == "pub" {
            let mut name = at + 1;
            if text(name) == "(" {
                name += tokens[name..].iter().position(|token| token.text == ")").unwrap_or(0) + 1;
            }
            // A field has no such word in front of its name; what is passed on is defined elsewhere.
            let first = name;
            while BEFORE_NAME.contains(&text(name)) {
                name += 1;
            }
            if name > first && is_name(text(name)) {
                uses.items.insert(text(name).to_owned());
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|first| is_word(first) && !first.is_ascii_digit())
}

/// Names, `::`, and single characters.
fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, text) in code.lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let bytes = if is_word(first) {
                rest.find(|character| !is_word(character)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { text: rest[..bytes].to_owned(), line: index + 1 });
            rest = rest[bytes..].trim_start();
        }
    }
    tokens
}

/// Leaves out each item that is only built for tests, and notes the modules among them.
fn without_tests(tokens: Vec<Token>, test_modules: &mut BTreeSet<String>) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(behind) = behind_test_attribute(&tokens, at) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let end = end_of_item(&tokens, behind);
        let words: Vec<&str> = tokens[behind..end].iter().map(|token| token.text.as_str()).collect();
        if let Some(module) = words.iter().position(|word| *word == "mod") {
            test_modules.extend(words.get(module + 1).map(ToString::to_string));
        }
        at = end;
    }
    kept
}

/// The place behind `#[cfg(...)]` with `test` in it, if one starts here. `not(test)` is not meant.
fn behind_test_attribute(tokens: &[Token], at: usize) -> Option<usize> {
    let texts: Vec<&str> = tokens[at..].iter().take(40).map(|token| token.text.as_str()).collect();
    let inside = texts.strip_prefix(&["#", "[", "cfg", "("])?;
    let end = inside.iter().position(|text| *text == "]")?;
    let inside = &inside[..end];
    let is_for_tests = inside.iter().enumerate().any(|(index, text)| {
        *text == "test" && !(index >= 2 && inside[index - 2] == "not" && inside[index - 1] == "(")
    });
    is_for_tests.then_some(at + 4 + end + 1)
}

/// Behind the `;` or the closing brace of the item that starts at `at`.
fn end_of_item(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// `a::b::c` at `at`, and the place behind it.
fn plain_path(tokens: &[Token], at: usize) -> (Vec<String>, usize) {
    let mut names = vec![tokens[at].text.clone()];
    let mut next = at + 1;
    while next + 1 < tokens.len() && tokens[next].text == "::" && is_name(&tokens[next + 1].text) {
        names.push(tokens[next + 1].text.clone());
        next += 2;
    }
    (names, next)
}

/// Each path of the tree of a `use` at `at`, with the name it gives; the place behind it.
fn use_tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<(String, UsedPath)>,
) -> usize {
    let mut names = prefix.to_vec();
    while let Some(Token { text, line }) = tokens.get(at) {
        match text.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}" && token.text != ";") {
                    at = if tokens[at].text == "," { at + 1 } else { use_tree(tokens, at, &names, found) };
                }
                return at + 1;
            }
            "*" => {
                found.push(("*".to_owned(), UsedPath { names, line: *line }));
                return at + 1;
            }
            "as" => {
                let name = tokens.get(at + 1).map_or(String::new(), |token| token.text.clone());
                found.push((name, UsedPath { names, line: *line }));
                return at + 2;
            }
            name if is_name(name) => {
                if name != "self" || names.is_empty() {
                    names.push(name.to_owned());
                }
                at += 1;
                let goes_on = tokens.get(at).is_some_and(|next| next.text == "::" || next.text == "as");
                if !goes_on {
                    found.push((names.last().cloned().unwrap_or_default(), UsedPath { names, line: *line }));
                    return at;
                }
            }
            _ => return at + 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        of(source).paths.iter().map(|path| format!("{}:{}", path.line, path.names.join("::"))).collect()
    }

    #[test]
    fn declarations_are_taken_apart() {
        let source = "use crate::{a::{self, B}, c::D as E};\nuse super::f::*;\nuse self::g;\n";
        assert_eq!(
            paths(source),
            ["1:crate::a", "1:crate::a::B", "1:crate::c::D", "2:super::f", "3:self::g"]
        );
    }

    #[test]
    fn paths_in_the_code_count_and_words_in_comments_do_not() {
        let source = "// use crate::x::y;\nfn a() { crate::b::c(); x.d::<u8>(); \"super::e\"; f::g::H }\n";
        assert_eq!(paths(source), ["2:crate::b::c", "2:f::g::H"]);
    }

    #[test]
    fn what_is_passed_on_is_told_apart() {
        let uses = of("pub use a::B;\npub(crate) use c::{D, E as F};\n");
        assert!(uses.paths.is_empty());
        let names: Vec<_> = uses.reexports.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["B", "D", "F"]);
        assert_eq!(uses.reexports[2].1.names, ["c", "E"]);
    }

    #[test]
    fn tests_do_not_count() {
        let source = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n#[cfg(all(test, not(loom)))]\nmod more;\n\
                      #[cfg(not(test))]\nuse crate::b;\n#[cfg(test)]\nuse crate::c::{d, e};\nuse crate::f;\n";
        assert_eq!(paths(source), ["8:crate::b", "11:crate::f"]);
        let uses = of(source);
        assert_eq!(uses.test_modules.into_iter().collect::<Vec<_>>(), ["more", "tests"]);
    }
}
