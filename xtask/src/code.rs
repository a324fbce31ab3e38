//! Rust source without its comments and without what is in its literals.
//!
//! Must hold: the result has the same lines as the input, so that a line number found in one is good in the other.
//! Used by the checks that look for code; a word in a string or in a comment is not code. It is not a parser: it
//! knows comments, strings, raw strings, characters and lifetimes, and nothing else.

/// The code of `source`; everything else is blanks.
pub fn code_only(source: &str) -> String {
    let mut rest = source;
    let mut code = String::with_capacity(source.len());
    let mut previous = ' ';
    while let Some(next) = rest.chars().next() {
        let skipped_bytes = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment_bytes(rest),
            '"' => string_bytes(rest),
            'r' if !is_word(previous) => raw_string_bytes(rest),
            'b' if !is_word(previous) && rest[1..].starts_with('r') => match raw_string_bytes(&rest[1..]) {
                0 => 0,
                bytes => bytes + 1,
            },
            '\'' => character_bytes(rest),
            _ => 0,
        };
        if skipped_bytes == 0 {
            code.push(next);
            previous = next;
            rest = &rest[next.len_utf8()..];
        } else {
            code.extend(
                rest[..skipped_bytes].chars().map(|skipped| if skipped == '\n' { '\n' } else { ' ' }),
            );
            previous = ' ';
            rest = &rest[skipped_bytes..];
        }
    }
    code
}

/// Part of a name, a keyword or a number?
pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Does `line` have `word`, with no letter, digit or underscore on either side?
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_word);
        let after = line[at + word.len()..].chars().next().is_some_and(is_word);
        !before && !after
    })
}

/// Block comments nest.
fn block_comment_bytes(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn string_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `text` starts with `r`. 0 when that is not the start of a raw string.
fn raw_string_bytes(text: &str) -> usize {
    let hashes = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    let Some(content) = text[1 + hashes..].strip_prefix('"') else { return 0 };
    let end = format!("\"{}", "#".repeat(hashes));
    content.find(&end).map_or(text.len(), |at| 2 + hashes + at + end.len())
}

/// `text` starts with `'`. 0 when that is a lifetime.
fn character_bytes(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        // The escaped character may be a quote itself: start to look after it.
        Some((_, '\\')) => text[3..].find('\'').map_or(0, |at| at + 4),
        Some(_) => match characters.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks() {
        let source = "let a = \"unsafe {\\\" \"; // unsafe {\nlet b = 'x'; /* unsafe /* { */ { */ let c: &'static str \
            = r#\"un\"safe\"#;";
        let code = code_only(source);
        assert_eq!(code.lines().count(), 2);
        assert!(!code.contains("safe"));
        assert!(
            code.contains("let a =") && code.contains("let b =") && code.contains("let c: &'static str =")
        );
    }

    #[test]
    fn characters_that_look_like_the_start_of_something() {
        let code = code_only("a('\"'); b('\\''); c(b'\"'); d(br\"x\"); for r in x {} e::<'_>('é'); unsafe");
        assert!(!code.contains('"'));
        assert!(code.contains("for r in x {}") && code.ends_with("unsafe"));
        assert!(code.contains("e::<'_>("));
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "\"one\ntwo\" /* three\nfour */ five\nsix";
        assert_eq!(code_only(source).lines().nth(2).map(str::trim), Some("five"));
    }

    #[test]
    fn a_word_is_not_a_part_of_a_word() {
        assert!(has_word("x (ABC) y", "ABC"));
        assert!(!has_word("ABCD ABC_ 1ABC", "ABC"));
    }
}
