//! Reads `--name value` arguments and sizes such as `600M`. Used by all programs here.

/// The arguments of this process after the program name.
#[derive(Debug)]
pub struct Arguments {
    pairs: Vec<(String, String)>,
}

impl Arguments {
    /// Reads `--name value` pairs from `words`; ends the process with status 2 and a message if a pair is broken
    /// or a name is not in `known`.
    pub fn read(words: impl Iterator<Item = String>, known: &[&str]) -> Self {
        let mut words = words;
        let mut pairs = Vec::new();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--").filter(|name| known.contains(name)) else {
                usage(&format!("unknown argument {word:?}; known: {known:?}"));
            };
            let Some(value) = words.next() else { usage(&format!("--{name} needs a value")) };
            pairs.push((name.to_string(), value));
        }
        Self { pairs }
    }

    /// The value given for `name`, or `default`.
    pub fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.pairs.iter().rev().find(|(given, _)| given == name).map_or(default, |(_, value)| value)
    }

    /// The value given for `name` as a number.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        let text = self.text(name, "");
        if text.is_empty() {
            return default;
        }
        text.parse().unwrap_or_else(|_| usage(&format!("--{name} {text:?} is not a number")))
    }

    /// The value given for `name` in bytes: a number with K, M or G behind it (1024 based), or without.
    pub fn bytes(&self, name: &str, default: &str) -> usize {
        let text = self.text(name, default);
        parse_bytes(text).unwrap_or_else(|| usage(&format!("--{name} {text:?} is not a size such as 600M")))
    }
}

/// Reads `4096`, `64K`, `600M` or `1G`. `None` if it is none of them.
pub fn parse_bytes(text: &str) -> Option<usize> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

fn usage(message: &str) -> ! {
    eprintln!("wrong arguments: {message}");
    std::process::exit(2);
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        assert_eq!(parse_bytes("600M"), Some(600 << 20));
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes("1G"), Some(1 << 30));
        assert_eq!(parse_bytes("M"), None);
        assert_eq!(parse_bytes(""), None);
        assert_eq!(parse_bytes("-1M"), None);
    }
}
