//! Values as string literals of a language (git-for-each-ref, `--shell` and similar).

/// The language of literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quoting {
    #[default]
    None,
    Shell,
    Perl,
    Python,
    Tcl,
}

impl Quoting {
    /// Appends the literal for `text`.
    pub fn write(self, text: &[u8], out: &mut Vec<u8>) {
        let around = match self {
            Quoting::None => return out.extend_from_slice(text),
            Quoting::Tcl => b'"',
            _ => b'\'',
        };
        out.push(around);
        for byte in text {
            match (self, byte) {
                (Quoting::Shell, b'\'' | b'!') => out.extend_from_slice(&[b'\'', b'\\', *byte, b'\'']),
                (Quoting::Perl | Quoting::Python, b'\'' | b'\\') => out.extend_from_slice(&[b'\\', *byte]),
                (Quoting::Python | Quoting::Tcl, b'\n') => out.extend_from_slice(b"\\n"),
                (Quoting::Tcl, b'[' | b']' | b'{' | b'}' | b'$' | b'\\' | b'"') => {
                    out.extend_from_slice(&[b'\\', *byte])
                }
                (Quoting::Tcl, 0x0c) => out.extend_from_slice(b"\\f"),
                (Quoting::Tcl, b'\r') => out.extend_from_slice(b"\\r"),
                (Quoting::Tcl, b'\t') => out.extend_from_slice(b"\\t"),
                (Quoting::Tcl, 0x0b) => out.extend_from_slice(b"\\v"),
                _ => out.push(*byte),
            }
        }
        out.push(around);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        let check = |quoting: Quoting, text: &str, expect: &str| {
            let mut out = Vec::new();
            quoting.write(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(Quoting::None, "it's", "it's");
        check(
            Quoting::Shell,
            "it's!\n$",
            r"'it'\''s'\!'
$'",
        );
        check(Quoting::Perl, "it's \\\n", "'it\\'s \\\\\n'");
        check(Quoting::Python, "it's \\\n", r"'it\'s \\\n'");
        check(Quoting::Tcl, "a[$b]{\"\t\n\\}'", r#""a\[\$b\]\{\"\t\n\\\}'""#);
    }
}
