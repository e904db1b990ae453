//! Makes untrusted text safe for terminals and logs.

/// Text for standard error: control characters become question marks, as in git; C1 controls too, which some
/// terminals obey. Line ends stay.
pub fn harmless(text: &str) -> String {
    text.replace(is_control, "?")
}

/// The same for bytes. Invalid UTF-8 stays, except single bytes that are C1 controls.
pub fn harmless_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(harmless(chunk.valid()).as_bytes());
        let masked =
            chunk.invalid().iter().map(|byte| if matches!(byte, 0x80..=0x9f) { b'?' } else { *byte });
        out.extend(masked);
    }
    out
}

fn is_control(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\t' | '\n')
}

/// Text for one log line: removes line ends, terminal controls and bidirectional marks, which reorder what
/// follows.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_mark =
            matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match letter.is_control() || is_mark {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_take_no_orders() {
        let check = |bytes: &[u8], expect: &[u8]| assert_eq!(harmless_bytes(bytes), expect, "{bytes:?}");
        check(b"a\x1b[2J\x07\t\nb\x7f", b"a?[2J?\t\nb?");
        check("ä\u{9b}2Jß\u{85}".as_bytes(), "ä?2Jß?".as_bytes());
        check(b"\x9b2J \x90q\x9c", b"?2J ?q?");
        // Latin-1 stays; an overlong encoding of U+009B does not get through.
        check(b"caf\xe9 \xc2", b"caf\xe9 \xc2");
        check(b"\xe0\x82\x9b2J", b"\xe0??2J");
        // Letters contain such bytes, too.
        check("Ü€𝄞".as_bytes(), "Ü€𝄞".as_bytes());
    }

    #[test]
    fn lines_of_a_log_are_one_line() {
        let check = |text: &str, expect: &str| assert_eq!(one_line(text), expect);
        check("ä b\"\\", "ä b\"\\");
        check(
            "a\n2026 INFO made /x\r\0\u{9b}\u{2028}\u{202e}",
            "a\\n2026 INFO made /x\\r\\u{0}\\u{9b}\\u{2028}\\u{202e}",
        );
    }
}
