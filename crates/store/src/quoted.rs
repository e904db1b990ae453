use std::borrow::Cow;

/// Undoes git's quoting, which is that of C (git-config, "core.quotePath"), after the opening quote; tells how many bytes
/// it took, with the closing quote. `None` for what is not quoted well.
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

/// A line that is one path, quoted if it begins with a quote. `None` where it is not quoted well, or something follows.
pub fn unquote_line(line: &[u8]) -> Option<Cow<'_, [u8]>> {
    match line.strip_prefix(b"\"") {
        None => Some(Cow::Borrowed(line)),
        Some(quoted) => {
            unquote(quoted).filter(|(_, length)| *length == quoted.len()).map(|(path, _)| Cow::Owned(path))
        }
    }
}

/// Appends `text` in quotes, as [`unquote`] undoes it.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        let letter = match byte {
            7 => b'a',
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' | b'"' => *byte,
            b' '..=b'~' => {
                out.push(*byte);
                continue;
            }
            _ => {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                continue;
            }
        };
        out.extend([b'\\', letter]);
    }
    out.push(b'"');
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
        check(r#""a"b"#, None);
        check("\"", None);
    }
}
