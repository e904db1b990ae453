//! Reflogs and their entries (git-reflog; the line of a file: gitrepository-layout, "logs").
//!
//! ```text
//! <hex old> <hex new> <name> <mail> <seconds> <zone>\t<message>\n
//! ```

use packrace_object::{HashKind, ObjectId};

/// An entry of a reflog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// The previous value; null if the ref did not exist.
    pub old: ObjectId,
    /// The new value; null if the ref was deleted.
    pub new: ObjectId,
    /// `Name <mail> seconds zone`.
    pub who: &'a [u8],
    /// The reason; one line, possibly empty.
    pub message: &'a [u8],
}

impl LogEntry<'_> {
    /// The line in a file.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = format!("{} {} ", self.old, self.new).into_bytes();
        line.extend_from_slice(self.who);
        if !self.message.is_empty() {
            line.push(b'\t');
            line.extend_from_slice(self.message);
        }
        line.push(b'\n');
        line
    }
}

/// An entry of a reflog, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedChange {
    /// The previous value; null if the ref did not exist.
    pub old: ObjectId,
    /// The new value; null if the ref was deleted.
    pub new: ObjectId,
    /// `Name <mail> seconds zone`.
    pub who: Vec<u8>,
    /// The reason; one line, possibly empty.
    pub message: Vec<u8>,
    /// The update index of the record, in reftables.
    pub(super) update_index: Option<u64>,
}

impl LoggedChange {
    /// A new entry; the message is cleaned as in git.
    pub fn new(old: ObjectId, new: ObjectId, who: &[u8], message: &[u8]) -> Self {
        LoggedChange { old, new, who: who.to_vec(), message: clean_message(message), update_index: None }
    }

    /// The time, in seconds since 1970; 0 if unreadable.
    pub fn seconds(&self) -> u64 {
        parse_who(&self.who).map_or(0, |who| who.seconds)
    }

    pub(super) fn as_entry(&self) -> LogEntry<'_> {
        LogEntry { old: self.old, new: self.new, who: &self.who, message: &self.message }
    }
}

/// The entries of a file. As in git, lines that cannot be parsed are skipped, and a last one without a line feed.
pub(super) fn parse_lines(bytes: &[u8], hash: HashKind) -> Vec<LoggedChange> {
    let hex = hash.len_in_hex();
    let parse = |line: &[u8]| {
        let id = |at: usize| ObjectId::from_hex(line.get(at..at + hex)?).ok();
        let (old, new) = (id(0)?, id(hex + 1)?);
        let rest = line.get(2 * hex + 2..)?;
        let (who, message) = match rest.iter().position(|byte| *byte == b'\t') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &b""[..]),
        };
        parse_who(who)?;
        Some(LoggedChange { old, new, who: who.to_vec(), message: message.to_vec(), update_index: None })
    };
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| parse(line.strip_suffix(b"\n")?)).collect()
}

/// Who changed a ref, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who<'a> {
    pub(super) name: &'a [u8],
    pub(super) email: &'a [u8],
    /// Since 1970.
    pub(super) seconds: u64,
    /// `-0700` is -700.
    pub(super) zone: i16,
}

/// Parses `Name <mail> seconds zone`.
pub(super) fn parse_who(who: &[u8]) -> Option<Who<'_>> {
    let email_at = who.iter().position(|byte| *byte == b'<')?;
    let email_end = who.iter().rposition(|byte| *byte == b'>').filter(|end| *end > email_at)?;
    let when = std::str::from_utf8(who.get(email_end + 2..)?).ok()?;
    let (seconds, zone) = when.split_once(' ')?;
    let name = who[..email_at].strip_suffix(b" ").unwrap_or(&who[..email_at]);
    let email = &who[email_at + 1..email_end];
    Some(Who { name, email, seconds: seconds.parse().ok()?, zone: zone.parse().ok()? })
}

/// A message as reflogs store it: one line, with each run of white space replaced by one space.
pub(super) fn clean_message(message: &[u8]) -> Vec<u8> {
    let words = message.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_and_when() {
        let check = |text: &str, expect: Option<(&str, &str, u64, i16)>| {
            let who = parse_who(text.as_bytes());
            let found = who.map(|who| (who.name, who.email, who.seconds, who.zone));
            let expect = expect.map(|(name, email, at, zone)| (name.as_bytes(), email.as_bytes(), at, zone));
            assert_eq!(found, expect, "{text}");
        };
        check("A U Thor <a@b> 17 +0530", Some(("A U Thor", "a@b", 17, 530)));
        check(" <> 0 -0700", Some(("", "", 0, -700)));
        check("A <a@b>", None);
        check("A <a@b> x +0000", None);
        check("A a@b 1 +0000", None);
    }

    #[test]
    fn lines_are_read_back() {
        let [a, b] = [b'a', b'b'].map(|digit| ObjectId::from_hex(&[digit; 40]).unwrap());
        let first = LoggedChange::new(a, b, b"A U <a@b> 17 +0530", b"why\tnot");
        let second = LoggedChange::new(b, a, b"A <a@b> 18 -0100", b"");
        let text = [first.as_entry().line(), second.as_entry().line()].concat();
        let both = vec![first, second];
        assert_eq!(parse_lines(&text, HashKind::Sha1), both);
        assert_eq!(both[0].seconds(), 17);
        for damaged in [&b""[..], b"\n\n", b"a b c\n", &text[..30], &text[1..90]] {
            assert_eq!(parse_lines(damaged, HashKind::Sha1), []);
        }
        // A truncated line.
        assert_eq!(parse_lines(&text[..text.len() - 3], HashKind::Sha1)[0], both[0]);
        // As in git, one without its end is none.
        assert_eq!(parse_lines(&text[..text.len() - 1], HashKind::Sha1), both[..1]);
    }

    #[test]
    fn lines_and_messages() {
        let check = |message: &[u8], expect: &str| {
            let message = clean_message(message);
            let null = ObjectId::null(HashKind::Sha1);
            let entry = LogEntry { old: null, new: null, who: b"A <a@b> 1 +0000", message: &message };
            let line = String::from_utf8(entry.line()).unwrap();
            assert_eq!(line.strip_prefix(&format!("{null} {null} A <a@b> 1 +0000")), Some(expect));
        };
        check(b"", "\n");
        check(b" \n", "\n");
        check(b"push", "\tpush\n");
        check(b"  commit:\tone\n\ntwo ", "\tcommit: one two\n");
    }
}
