use std::borrow::Cow;

/// Undoes git's C-style quoting (git-config, "core.quotePath"), after the opening quote; also returns the
/// number of bytes consumed, with the closing quote. `None` if the quoting is invalid.
pub fn unquote(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => return Some((out, at + 1)),
            b'\\' => {
                at += 1;
                let escaped = *text.get(at)?;
                out.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'\\' | b'"' => escaped,
                    b'0'..=b'3' => {
                        let digits =
                            text.get(at..at + 3).and_then(|digits| std::str::from_utf8(digits).ok())?;
                        at += 2;
                        u8::from_str_radix(digits, 8).ok()?
                    }
                    _ => return None,
                });
            }
            byte => out.push(byte),
        }
        at += 1;
    }
}

/// A line that begins with a path, which is quoted if the line begins with a quote. `None` if the quoting is invalid. As in git,
/// what follows the quote does not count, and a path ends before a NUL.
pub fn unquote_line(line: &[u8]) -> Option<Cow<'_, [u8]>> {
    let before_nul = |path: &[u8]| path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    Some(match line.strip_prefix(b"\"") {
        None => Cow::Borrowed(&line[..before_nul(line)]),
        Some(quoted) => {
            let (mut path, _) = unquote(quoted)?;
            path.truncate(before_nul(&path));
            Cow::Owned(path)
        }
    })
}

/// Whether a text must be quoted. With `quotes_high`, bytes above 0x7f are escaped too.
pub fn needs_quotes(text: &[u8], quotes_high: bool) -> bool {
    !text.iter().all(|byte| is_plain(*byte, quotes_high))
}

/// Appends `text` in quotes, in the form that [`unquote`] reads.
pub fn quote(text: &[u8], quotes_high: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match letter(byte) {
            Some(letter) => out.extend([b'\\', letter]),
            None if is_plain(byte, quotes_high) => out.push(byte),
            None => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
}

fn is_plain(byte: u8, quotes_high: bool) -> bool {
    letter(byte).is_none() && byte >= b' ' && byte != 0x7f && (byte < 0x80 || !quotes_high)
}

/// The escape character of a byte: a letter, or the byte itself.
fn letter(byte: u8) -> Option<u8> {
    match byte {
        0x07 => Some(b'a'),
        0x08 => Some(b'b'),
        b'\t' => Some(b't'),
        b'\n' => Some(b'n'),
        0x0b => Some(b'v'),
        0x0c => Some(b'f'),
        b'\r' => Some(b'r'),
        b'"' | b'\\' => Some(byte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_as_in_c() {
        let check = |text: &str, expect: Option<(&[u8], usize)>| {
            let found = unquote(&text.as_bytes()[1..]);
            assert_eq!(found, expect.map(|(found, length)| (found.to_vec(), length - 1)), "{text}");
        };
        check(r#""a b" c"#, Some((b"a b", 5)));
        check(r#""""#, Some((b"", 2)));
        check(r#""\"\\\n\t\303\244""#, Some(("\"\\\n\tä".as_bytes(), 18)));
        check(r#""a"#, None);
        check(r#""\9""#, None);
        check(r#""\38""#, None);
        check(r#""\"#, None);
    }

    #[test]
    fn lines_that_are_one_path() {
        let check = |line: &str, expect: Option<&str>| {
            assert_eq!(unquote_line(line.as_bytes()).as_deref(), expect.map(str::as_bytes), "{line}");
        };
        check("a\\n\"", Some("a\\n\""));
        check("", Some(""));
        check(r#""a\nb""#, Some("a\nb"));
        check(r#""a"b"#, Some("a"));
        check("a\0b", Some("a"));
        check(r#""a\000b""#, Some("a"));
        check("\"", None);
    }
}
