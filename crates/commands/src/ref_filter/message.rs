//! Parts of a commit's or tag's content. Damaged objects have empty parts, as in git's listings.

use packrace_object::ObjectId;

use super::atom::{PersonPart, Who};
use super::calendar::Moment;
use crate::text::header_line;

/// The whole line of a person.
pub fn person_line(data: &[u8], who: Who) -> &[u8] {
    let line = match who {
        Who::Author => header_line(data, "author"),
        Who::Committer => header_line(data, "committer"),
        Who::Tagger => header_line(data, "tagger"),
        Who::Creator => header_line(data, "committer").or_else(|| header_line(data, "tagger")),
    };
    line.unwrap_or_default()
}

/// A part of a person line, except the date.
pub fn person_part<'a>(line: &'a [u8], part: &PersonPart) -> &'a [u8] {
    match part {
        PersonPart::Whole | PersonPart::Date(_) | PersonPart::BadDate(_) => line,
        PersonPart::Name { .. } => {
            let end = line.windows(2).position(|pair| pair == b" <");
            end.map_or(&[], |end| &line[..end])
        }
        PersonPart::Email { is_trimmed, is_local_part, .. } => {
            let Some(start) = line.iter().position(|byte| *byte == b'<') else { return &[] };
            let mail = &line[start..];
            let find = |wanted: u8| mail.iter().position(|byte| *byte == wanted);
            match (find(b'@').filter(|_| *is_local_part).or(find(b'>')), is_trimmed | is_local_part) {
                (Some(end), true) => &mail[1..end],
                (Some(end), false) => &mail[..end + 1],
                (None, _) => &[],
            }
        }
    }
}

/// The date of a person line. Read as in C: no number is 0, and anything may follow a number.
pub fn moment(line: &[u8]) -> Option<Moment> {
    let at = line.windows(2).position(|pair| pair == b"> ")?;
    let (seconds, rest) = leading_number(&line[at + 2..]);
    let seconds = u64::try_from(seconds).ok().or_else(|| u64::try_from(seconds + (1 << 64)).ok());
    let (zone, _) = leading_number(rest);
    let zone = zone.clamp(i64::MIN.into(), i64::MAX.into()) as i32;
    Some(Moment { seconds: seconds.filter(|seconds| *seconds < u64::MAX)?, zone })
}

/// A number after blanks and a sign, and the rest; a number with too many digits exceeds any 64-bit value.
fn leading_number(text: &[u8]) -> (i128, &[u8]) {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return (0, text);
    }
    let too_long = 1 << 64;
    let add = |number: i128, byte: &u8| (number * 10 + i128::from(byte - b'0')).min(too_long);
    let number = digits[..count].iter().fold(0, add);
    (if is_negative && number < too_long { -number } else { number }, &digits[count..])
}

/// The tree in a commit's first line.
pub fn tree(data: &[u8]) -> impl Iterator<Item = ObjectId> {
    let line = data.split(|byte| *byte == b'\n').next();
    line.and_then(|line| ObjectId::from_hex(line.strip_prefix(b"tree ")?).ok()).into_iter()
}

/// The parents in the next lines.
pub fn parents(data: &[u8]) -> impl Iterator<Item = ObjectId> {
    let lines = data.split(|byte| *byte == b'\n').skip(1);
    lines.map_while(|line| ObjectId::from_hex(line.strip_prefix(b"parent ")?).ok())
}

/// The parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Message<'a> {
    /// The text from the subject on.
    pub whole: &'a [u8],
    /// The first paragraph, on one or more lines.
    pub subject: &'a [u8],
    /// The text after the subject, with the signature.
    pub body: &'a [u8],
    /// The length of the signature at the end.
    pub signature_bytes: usize,
}

/// First lines of signatures.
const SIGNATURES: [&[u8]; 4] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
];

impl<'a> Message<'a> {
    pub fn of(data: &'a [u8]) -> Self {
        let Some(end) = data.windows(2).position(|pair| pair == b"\n\n") else { return Message::default() };
        let whole = skip_newlines(&data[end..]);
        let signature_at = signature_at(whole);
        let text = &whole[..signature_at];
        let blank = find(text, b"\n\n").or_else(|| find(text, b"\r\n\r\n"));
        let subject_end = blank.unwrap_or(text.len());
        let subject = &text[..subject_end];
        let subject = subject.strip_suffix(b"\n").unwrap_or(subject);
        let subject = subject.strip_suffix(b"\r").unwrap_or(subject);
        let body = &whole[subject_end..];
        let start = body.iter().position(|byte| !matches!(byte, b'\n' | b'\r')).unwrap_or(body.len());
        let body = &body[start..];
        Message { whole, subject, body, signature_bytes: whole.len() - signature_at }
    }

    /// The text after the subject, without the signature.
    pub fn plain_body(&self) -> &'a [u8] {
        &self.body[..self.body.len().saturating_sub(self.signature_bytes)]
    }

    pub fn without_signature(&self) -> &'a [u8] {
        &self.whole[..self.whole.len() - self.signature_bytes]
    }

    pub fn signature(&self) -> &'a [u8] {
        &self.whole[self.whole.len() - self.signature_bytes..]
    }

    /// Appends the subject as one line.
    pub fn write_subject(&self, out: &mut Vec<u8>) {
        for (number, line) in self.subject.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        }
    }

    /// Appends the subject as part of a file name.
    pub fn write_sanitized(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut is_gap = false;
        for byte in self.subject {
            let is_title = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
            if !is_title {
                is_gap = true;
                continue;
            }
            if is_gap && out.len() > start {
                out.push(b'-');
            }
            let is_second_dot = !is_gap && *byte == b'.' && out[start..].last() == Some(&b'.');
            is_gap = false;
            if !is_second_dot {
                out.push(*byte);
            }
        }
        while out.len() > start && out.last().is_some_and(|byte| matches!(byte, b'.' | b'-')) {
            out.pop();
        }
    }

    /// Appends the first `count` lines; all but the first are indented.
    pub fn write_lines(&self, count: usize, out: &mut Vec<u8>) {
        let text = self.without_signature();
        let lines = text.split_inclusive(|byte| *byte == b'\n').take(count);
        for (number, line) in lines.enumerate() {
            if number > 0 {
                out.extend_from_slice(b"\n    ");
            }
            out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|found| found == wanted)
}

fn skip_newlines(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b'\n').unwrap_or(text.len());
    &text[start..]
}

/// The start of the last signature; the end of the text if there is none.
fn signature_at(text: &[u8]) -> usize {
    let (mut at, mut found) = (0, text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if SIGNATURES.iter().any(|start| line.starts_with(start)) {
            found = at;
        }
        at += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages() {
        let check = |text: &str, subject: &str, body: &str, signature: &str| {
            let data = format!("tree x\n\n{text}");
            let message = Message::of(data.as_bytes());
            let mut line = Vec::new();
            message.write_subject(&mut line);
            let found = [&line, message.plain_body(), message.signature()];
            assert_eq!(found.map(String::from_utf8_lossy), [subject, body, signature], "{text:?}");
        };
        check("one\ntwo\n\nbody\n", "one two", "body\n", "");
        check("\n\none", "one", "", "");
        check("one\r\ntwo\r\n\r\nbody\r\n", "one two", "body\r\n", "");
        check("one\n-----BEGIN PGP SIGNATURE-----\nx", "one", "", "-----BEGIN PGP SIGNATURE-----\nx");
        check("-----BEGIN PGP SIGNATURE-----\nx", "", "", "-----BEGIN PGP SIGNATURE-----\nx");
        check("", "", "", "");
        assert_eq!(Message::of(b"tree x\n"), Message::default());
    }

    #[test]
    fn sanitized_subjects() {
        let check = |text: &str, expect: &str| {
            let mut out = Vec::new();
            Message { subject: text.as_bytes(), ..Message::default() }.write_sanitized(&mut out);
            assert_eq!(String::from_utf8_lossy(&out), expect);
        };
        check("side: Odd /\\ characters & dots.. here...", "side-Odd-characters-dots.-here");
        check("///", "");
        check("  lead\ttrail  ", "lead-trail");
    }

    #[test]
    fn people() {
        let check = |line: &str, parts: [&str; 4], expect: Option<(u64, i32)>| {
            let email =
                |is_trimmed, is_local_part| PersonPart::Email { is_mapped: false, is_trimmed, is_local_part };
            let found = [
                PersonPart::Name { is_mapped: false },
                email(false, false),
                email(true, false),
                email(false, true),
            ]
            .map(|part| String::from_utf8_lossy(person_part(line.as_bytes(), &part)).into_owned());
            assert_eq!(found, parts, "{line}");
            let found = moment(line.as_bytes());
            assert_eq!(found.map(|moment| (moment.seconds, moment.zone)), expect, "{line}");
        };
        check("A B <a@b> 12 +0130", ["A B", "<a@b>", "a@b", "a"], Some((12, 130)));
        check("A <a@b", ["A", "", "", "a"], None);
        check("<a> 12x +0130", ["", "<a>", "a", "a"], Some((12, 0)));
        check("A <a> -5 +0100", ["A", "<a>", "a", "a"], Some((u64::MAX - 4, 100)));
        check("A <a> 99999999999999999999 +0100", ["A", "<a>", "a", "a"], None);
        check("A <a> 7 -99999999999", ["A", "<a>", "a", "a"], Some((7, -1_215_752_191)));
        check("nobody", ["", "", "", ""], None);
    }
}
