//! The width of texts on a terminal.

use unicode_width::UnicodeWidthChar as _;

/// The width of a text in columns, each character for itself; its length in bytes if it is not UTF-8.
pub fn width(text: &[u8]) -> usize {
    match std::str::from_utf8(text) {
        Ok(text) => text.chars().map(|character| character.width().unwrap_or(0)).sum(),
        Err(_) => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths() {
        let check = |text: &[u8], expect| assert_eq!(width(text), expect, "{text:?}");
        check(b"main", 4);
        check("über".as_bytes(), 4);
        check("e\u{301}".as_bytes(), 1);
        check("中文".as_bytes(), 4);
        check("😀".as_bytes(), 2);
        check("⏩⚡".as_bytes(), 4);
        check("\u{17b4}\u{1885}".as_bytes(), 0);
        check(b"\x1b[31mx", 5);
        check(b"\xff\xfe", 2);
    }
}
