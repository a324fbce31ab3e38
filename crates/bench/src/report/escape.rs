//! Text inside HTML and SVG.

/// `text` as the content of an element or of an attribute in double quotes: nothing in it is read as a mark. Control
/// characters, which HTML does not allow, are left as question marks.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(letter),
            letter if letter.is_control() => escaped.push('?'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn marks_of_html_become_text() {
        assert_eq!(escaped("<a href=\"x\">'&'\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;?");
    }
}
