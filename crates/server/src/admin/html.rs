//! Text within HTML.

/// Text as HTML shows it, within attributes too. Characters that affect the text around them become their
/// numbers.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters, and those that change the direction of text.
            other
                if other.is_control()
                    || matches!(other, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.extend(other.escape_unicode());
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        let check = |text: &str, expect: &str| assert_eq!(escaped(text), expect);
        check("/a b.git", "/a b.git");
        check("<script>'\"&", "&lt;script&gt;&#39;&quot;&amp;");
        check("a\nb\u{202e}c\0", "a\\u{a}b\\u{202e}c\\u{0}");
    }
}
