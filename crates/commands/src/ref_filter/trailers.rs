//! Trailers: the key and value lines at the end of a message, and their output formats
//! (git-interpret-trailers, git-for-each-ref, `trailers`).

use super::argument::fatal;
use super::trailer_rules::TrailerRules;
use crate::call::fatal::Fatal;

/// Lines that git itself writes; one of them marks a block as trailers.
const OF_GIT: [&[u8]; 2] = [b"Signed-off-by: ", b"(cherry picked from commit "];

/// Output options of trailers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrailerForm {
    /// Omit lines that are no trailers.
    is_only: bool,
    /// Unfold each trailer to one line.
    is_unfolded: bool,
    without_keys: bool,
    without_values: bool,
    /// Print only trailers with one of these keys.
    keys: Vec<Vec<u8>>,
    /// Text between trailers, instead of a newline.
    separator: Option<Vec<u8>>,
    /// Text between key and value.
    key_separator: Option<Vec<u8>>,
}

impl TrailerForm {
    /// Parses the text after `trailers:`.
    pub fn parse(argument: &[u8]) -> Result<Self, Fatal> {
        let mut form = TrailerForm::default();
        for option in argument.split(|byte| *byte == b',').filter(|option| !option.is_empty()) {
            let (name, value) = match option.iter().position(|byte| *byte == b'=') {
                Some(at) => (&option[..at], Some(&option[at + 1..])),
                None => (option, None),
            };
            match name {
                b"key" => {
                    let key = value.ok_or_else(|| Fatal::new("expected %(trailers:key=<value>)"))?;
                    form.keys.push(key.strip_suffix(b":").unwrap_or(key).to_vec());
                    form.is_only = true;
                }
                b"separator" => form.separator = Some(with_escapes(value.unwrap_or_default())),
                b"key_value_separator" => form.key_separator = Some(with_escapes(value.unwrap_or_default())),
                b"only" => form.is_only = truth(value)?,
                b"unfold" => form.is_unfolded = truth(value)?,
                b"keyonly" => form.without_values = truth(value)?,
                b"valueonly" => form.without_keys = truth(value)?,
                _ => return Err(fatal("unknown %(trailers) argument: ", option)),
            }
        }
        Ok(form)
    }

    /// Appends the trailers of a message without signature.
    pub fn write(&self, rules: &TrailerRules, message: &[u8], out: &mut Vec<u8>) {
        let block = block(rules, message);
        if *self == TrailerForm::default() {
            return out.extend_from_slice(block);
        }
        let start = out.len();
        for line in unfolded_lines(block) {
            let text = match rules.split(line) {
                Some((key, value)) => {
                    let key = rules.configured(key).unwrap_or(key);
                    let is_wanted = |wanted: &Vec<u8>| wanted.eq_ignore_ascii_case(key);
                    if !self.keys.is_empty() && !self.keys.iter().any(is_wanted) {
                        continue;
                    }
                    self.one(rules, key, value)
                }
                None if self.is_only => continue,
                None => line.trim_ascii_end().to_vec(),
            };
            match &self.separator {
                Some(separator) => {
                    if out.len() > start {
                        out.extend_from_slice(separator);
                    }
                    out.extend_from_slice(&text);
                }
                None => out.extend([text.as_slice(), b"\n"].concat()),
            }
        }
    }

    fn one(&self, rules: &TrailerRules, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        if !self.without_keys {
            text.extend_from_slice(key);
        }
        if !self.without_keys && !self.without_values {
            text.extend(self.key_separator.clone().unwrap_or_else(|| rules.between(key)));
        }
        if !self.without_values && self.is_unfolded {
            let lines: Vec<&[u8]> = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
            text.extend(lines.join(&b' '));
        } else if !self.without_values {
            text.extend_from_slice(value);
        }
        text
    }
}

/// The boolean value of an option, which may be omitted.
fn truth(value: Option<&[u8]>) -> Result<bool, Fatal> {
    match value.map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"true" | b"yes" | b"on" | b"1") => Ok(true),
        Some(b"false" | b"no" | b"off" | b"0" | b"") => Ok(false),
        Some(_) => Err(Fatal::new("unknown %(trailers) argument: ")),
    }
}

/// Text with `%n` for a newline and `%xNN` for a byte.
fn with_escapes(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some((&first, rest)) = text.split_first() {
        let digits = rest.strip_prefix(b"x").and_then(|rest| rest.get(..2));
        // Rust's parser would accept a sign.
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let (byte, length) = match (first, byte, rest.first()) {
            (b'%', Some(byte), _) => (byte, 4),
            (b'%', None, Some(b'n')) => (b'\n', 2),
            (b'%', None, Some(b'%')) => (b'%', 2),
            _ => (first, 1),
        };
        plain.push(byte);
        text = &text[length..];
    }
    plain
}

/// The last paragraph, if it is a trailer block: not the first paragraph, and all its lines are trailers, or
/// one is git's or named by settings and a quarter are trailers. Blank lines, comments and a list of conflicts may follow.
fn block<'t>(rules: &TrailerRules, text: &'t [u8]) -> &'t [u8] {
    let (mut start, mut end, mut at) = (None, 0, 0);
    let mut is_conflicts = false;
    // A paragraph starts after a blank line; the first one is the title.
    let mut next_start = None;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let is_blank = line.trim_ascii().is_empty();
        is_conflicts = line == b"Conflicts:\n" || (is_conflicts && line.starts_with(b"\t"));
        at += line.len();
        if is_blank {
            next_start = Some(at);
        } else if !line.starts_with(b"#") && !is_conflicts {
            (start, end) = (next_start, at);
        }
    }
    let Some(block) = start.and_then(|start| text.get(start..end)) else { return &[] };
    match is_block(rules, block) {
        true => block,
        false => &[],
    }
}

fn is_block(rules: &TrailerRules, block: &[u8]) -> bool {
    let (mut trailers, mut others, mut is_marked, mut is_inside) = (0, 0, false, false);
    for line in block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#"))
    {
        let is_folded = line.first().is_some_and(u8::is_ascii_whitespace);
        if is_folded && is_inside {
            continue;
        }
        let is_written_by_git = OF_GIT.iter().any(|start| line.starts_with(start));
        let trailer = rules.split(line).filter(|_| !is_folded);
        is_marked |= is_written_by_git || trailer.is_some_and(|(key, _)| rules.configured(key).is_some());
        is_inside = !is_folded && (is_written_by_git || trailer.is_some());
        if is_inside {
            trailers += 1;
        } else {
            others += 1;
        }
    }
    trailers > 0 && (others == 0 || (is_marked && trailers * 3 >= others))
}

/// The lines of a block without comments, each with its indented continuation lines.
fn unfolded_lines(block: &[u8]) -> Vec<&[u8]> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let is_folded = line.first().is_some_and(u8::is_ascii_whitespace);
        match found.last_mut() {
            _ if line.starts_with(b"#") => {}
            Some(last) if is_folded && last.1 == start => last.1 = end,
            _ => found.push((start, end)),
        }
    }
    found.into_iter().map(|(start, end)| &block[start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, argument: &str, expect: &str) {
        let form = TrailerForm::parse(argument.as_bytes()).expect(argument);
        let mut out = Vec::new();
        form.write(&TrailerRules::default(), text.as_bytes(), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expect, "{text:?} {argument}");
    }

    #[test]
    fn which_lines_are_trailers() {
        let all = |text, expect| check(text, "", expect);
        all("s\n\nA: b\n", "A: b\n");
        for none in [
            "A: b\n",
            "s\nA: b\n",
            "s\n\nA: b\nnot\n",
            "s\n\n folded\nA: b\n",
            "s\n\nA b: c\n",
            "s\n\n: b\nA_c: d\n",
            "",
        ] {
            all(none, "");
        }
        all("s\n\nSigned-off-by: x\nn\nn\nn\n", "Signed-off-by: x\nn\nn\nn\n");
        all("s\n\nSigned-off-by: x\nn\nn\nn\nn\n", "");
        all("s\n\n(cherry picked from commit 1)\nn\n", "(cherry picked from commit 1)\nn\n");
        all("s\n\nSigned-off-by: x\n t\n t\n t\n t\nn\n", "Signed-off-by: x\n t\n t\n t\n t\nn\n");
        all("s\n\nA: b\n   \nB: c\n", "B: c\n");
        all("s\n\nA: b\n# c\nC: d\n# e\n\n# f\n", "A: b\n# c\nC: d\n");
        all("s\n\nA: b\n\nConflicts:\n\tfile\n", "A: b\n");
        all("s\n\nA: b\n\n---\nC: d\n", "");
        all("s\n\nA: b", "A: b");
    }

    #[test]
    fn how_they_are_written() {
        let text = "s\n\nSigned-off-by: A\nReviewed-by:B\n  folded\nnot one\n";
        check(text, "only", "Signed-off-by: A\nReviewed-by: B\n  folded\n");
        check(text, "unfold", "Signed-off-by: A\nReviewed-by: B folded\nnot one\n");
        check(
            text,
            "only=no,unfold=yes,separator=%x2c%n",
            "Signed-off-by: A,\nReviewed-by: B folded,\nnot one",
        );
        check(text, "keyonly", "Signed-off-by\nReviewed-by\nnot one\n");
        check(text, "valueonly,only", "A\nB\n  folded\n");
        check(text, "keyonly,valueonly", "\n\nnot one\n");
        check(text, "key=reviewed-BY:,unfold", "Reviewed-by: B folded\n");
        check(text, "key=none,only=no", "not one\n");
        check(text, "key_value_separator= is %%,key=Signed-off-by", "Signed-off-by is %A\n");
        check("s\n\nhttp://x\n", "only", "http: //x\n");
        for (bad, expect) in [
            ("key", "expected %(trailers:key=<value>)"),
            ("only,foo", "argument: foo"),
            ("only=x", "argument: "),
        ] {
            let error = TrailerForm::parse(bad.as_bytes()).expect_err(bad);
            assert!(error.message.contains(expect), "{bad}: {}", error.message);
        }
    }
}
