//! Reflogs: what stands in them (git-reflog; the line of a file: gitrepository-layout, "logs").
//!
//! ```text
//! <hex old> <hex new> <name> <mail> <seconds> <zone>\t<message>\n
//! ```

use packrace_object::ObjectId;

/// A change that a reflog tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// Where the ref pointed before; null if there was none.
    pub old: ObjectId,
    /// Where it points since; null if it was deleted.
    pub new: ObjectId,
    /// `Name <mail> seconds zone`.
    pub who: &'a [u8],
    /// Why; one line, which may be empty.
    pub message: &'a [u8],
}

impl LogEntry<'_> {
    /// The line of a file.
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

/// Takes `Name <mail> seconds zone` apart.
pub(super) fn parse_who(who: &[u8]) -> Option<Who<'_>> {
    let email_at = who.iter().position(|byte| *byte == b'<')?;
    let email_end = who.iter().rposition(|byte| *byte == b'>').filter(|end| *end > email_at)?;
    let when = std::str::from_utf8(who.get(email_end + 2..)?).ok()?;
    let (seconds, zone) = when.split_once(' ')?;
    let name = who[..email_at].strip_suffix(b" ").unwrap_or(&who[..email_at]);
    let email = &who[email_at + 1..email_end];
    Some(Who { name, email, seconds: seconds.parse().ok()?, zone: zone.parse().ok()? })
}

/// A message as a reflog holds it: in one line, runs of white space being one space.
pub(super) fn clean_message(message: &[u8]) -> Vec<u8> {
    let words = message.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use packrace_object::HashKind;

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
