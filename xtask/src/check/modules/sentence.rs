//! What the opening of a file says of its callers, taken apart.
//!
//! Must hold: nothing is read but the sentences with "called by" in them. In these a module of the crate is a link
//! (`[crate::a]`, `[super::a]`), a crate is a name in back quotes or behind "the", and other names in back quotes are
//! those of items.

/// A module or a crate that is said to call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    /// `[crate::a::b]`: the names behind `crate`.
    Module(Vec<String>),
    /// `[super::a]`.
    Neighbour(Vec<String>),
    /// A name in back quotes.
    Name(String),
    /// A word behind "the".
    Word(String),
}

/// Who a file says calls it.
#[derive(Debug, Default)]
pub struct Sentence {
    /// Where the first begins, counted from 1.
    pub line: usize,
    /// All that are named.
    pub callers: Vec<Caller>,
    /// It says "most of this crate" in the place of a long list.
    pub says_most: bool,
}

const START: &str = "called by";
const MOST: &str = "most of this crate";

/// The sentences about callers in the opening of a file; None if there are none.
pub fn of(source: &str) -> Option<Sentence> {
    let mut sentence = Sentence::default();
    let opening: Vec<&str> = source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    // Paragraph by paragraph.
    let mut first = 0;
    for lines in opening.split(|line| line.trim().is_empty()) {
        let paragraph = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        for (at, _) in paragraph.to_lowercase().match_indices(START) {
            if sentence.line == 0 {
                sentence.line = first + 1 + line_of(lines, at);
            }
            let rest = &paragraph[at + START.len()..];
            let rest = &rest[..rest.find(". ").unwrap_or(rest.len())];
            sentence.says_most |= rest.contains(MOST);
            sentence.callers.extend(callers(rest));
        }
        first += lines.len() + 1;
    }
    (sentence.line > 0).then_some(sentence)
}

/// Which of the lines, joined by blanks, the byte `at` is in.
fn line_of(lines: &[&str], at: usize) -> usize {
    let mut end = 0;
    let ends = lines.iter().map(|line| {
        end += line.trim().len() + 1;
        end
    });
    ends.take_while(|end| *end <= at).count()
}

fn callers(sentence: &str) -> Vec<Caller> {
    let mut callers = Vec::new();
    for (index, part) in sentence.split('`').enumerate() {
        if index % 2 == 1 {
            // In a link `mod@` tells a module from a function of the same name.
            let part = part.trim_start_matches("mod@");
            let names: Vec<String> = part.split("::").map(str::to_owned).collect();
            callers.push(match names[0].as_str() {
                "crate" => Caller::Module(names[1..].to_vec()),
                "super" => Caller::Neighbour(names[1..].to_vec()),
                _ => Caller::Name(part.to_owned()),
            });
            continue;
        }
        let words: Vec<&str> = part.split_whitespace().collect();
        let behind_the = words.windows(2).filter(|pair| pair[0] == "the").map(|pair| pair[1]);
        let plain = behind_the.map(|word| word.split(|letter: char| !letter.is_alphanumeric()).next());
        callers.extend(plain.flatten().map(|word| Caller::Word(word.to_owned())));
    }
    callers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_the_sentence_counts() {
        let source = "//! A thing of `x`.\n//!\n//! Must hold: that. Called by [`crate::a::b`],\n//! the engine's best \
            and `host`. Not `c`.\n//!\n//! `d`.\n";
        let sentence = of(source).expect("it has one");
        assert_eq!(sentence.line, 3);
        assert_eq!(
            sentence.callers,
            [
                Caller::Module(names(&["a", "b"])),
                Caller::Word("engine".to_owned()),
                Caller::Name("host".to_owned())
            ]
        );
        assert!(!sentence.says_most);
        assert!(of("//! A thing.\n").is_none());
    }

    #[test]
    fn a_long_list_has_a_short_form() {
        let sentence =
            of("//! A.\n//!\n//! Called by most of this crate and [`super::b`].\n").expect("it has one");
        assert!(sentence.says_most);
        assert_eq!(sentence.callers, [Caller::Neighbour(names(&["b"]))]);
    }
}
