//! Checks of commits and annotated tags.

use super::message::MessageId as Id;
use super::report::{Report, Stop};
use crate::{HashKind, Kind, StoredId};

/// The lines of a header; [`check_end`] has checked that each one ends.
struct HeaderLines<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> HeaderLines<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.content[self.at..]
    }

    /// The rest of the next line, if it begins with `prefix`.
    fn after(&mut self, prefix: &[u8]) -> Option<&'a [u8]> {
        let line = self.rest().strip_prefix(prefix)?;
        let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
        self.at = self.content.len().min(self.at + prefix.len() + end + 1);
        Some(&line[..end])
    }
}

/// Checks a commit up to the first error.
pub(super) fn check_commit(content: &[u8], hash: HashKind, report: &mut Report<'_>) -> Result<(), Stop> {
    check_end(content, report)?;
    let mut lines = HeaderLines { content, at: 0 };
    let Some(tree) = lines.after(b"tree ") else {
        return report.add(Id::MissingTree, b"invalid format - expected 'tree' line".as_slice());
    };
    if !is_id(tree, hash) {
        report.add(Id::BadTreeSha1, b"invalid 'tree' line format - bad sha1".as_slice())?;
    }
    while let Some(parent) = lines.after(b"parent ") {
        if !is_id(parent, hash) {
            report.add(Id::BadParentSha1, b"invalid 'parent' line format - bad sha1".as_slice())?;
        }
    }
    let mut authors = 0;
    while let Some(author) = lines.after(b"author ") {
        authors += 1;
        check_person(author, report)?;
    }
    match authors {
        0 => report.add(Id::MissingAuthor, b"invalid format - expected 'author' line".as_slice())?,
        1 => {}
        _ => report.add(Id::MultipleAuthors, b"invalid format - multiple 'author' lines".as_slice())?,
    }
    let Some(committer) = lines.after(b"committer ") else {
        return report.add(Id::MissingCommitter, b"invalid format - expected 'committer' line".as_slice());
    };
    check_person(committer, report)?;
    if memchr::memchr(0, lines.rest()).is_some() {
        return report.add(Id::NulInCommit, b"NUL byte in the commit object body".as_slice());
    }
    Ok(())
}

/// Checks an annotated tag up to the first error.
pub(super) fn check_tag(content: &[u8], hash: HashKind, report: &mut Report<'_>) -> Result<(), Stop> {
    check_end(content, report)?;
    let mut lines = HeaderLines { content, at: 0 };
    let Some(object) = lines.after(b"object ") else {
        return report.add(Id::MissingObject, b"invalid format - expected 'object' line".as_slice());
    };
    if !is_id(object, hash) {
        report.add(Id::BadObjectSha1, b"invalid 'object' line format - bad sha1".as_slice())?;
    }
    let Some(kind) = lines.after(b"type ") else {
        return report.add(Id::MissingTypeEntry, b"invalid format - expected 'type' line".as_slice());
    };
    if Kind::from_name(kind).is_none() {
        report.add(Id::BadType, b"invalid 'type' value".as_slice())?;
    }
    let Some(name) = lines.after(b"tag ") else {
        return report.add(Id::MissingTagEntry, b"invalid format - expected 'tag' line".as_slice());
    };
    if gix_validate::reference::name([b"refs/tags/", name].concat().as_slice().into()).is_err() {
        report.add(Id::BadTagName, [b"invalid 'tag' name: ", name].concat())?;
    }
    match lines.after(b"tagger ") {
        Some(tagger) => check_person(tagger, report)?,
        // Early versions of git wrote tags without a tagger.
        None => {
            report.add(Id::MissingTaggerEntry, b"invalid format - expected 'tagger' line".as_slice())?;
        }
    }
    match lines.rest().first() {
        None | Some(b'\n') => Ok(()),
        Some(_) => {
            report.add(Id::ExtraHeaderEntry, b"invalid format - extra header(s) after 'tagger'".as_slice())
        }
    }
}

/// Checks that a header ends with an empty line, or with the object if it has no body, and contains no NUL.
fn check_end(content: &[u8], report: &mut Report<'_>) -> Result<(), Stop> {
    let mut is_after_line = false;
    for at in memchr::memchr2_iter(0, b'\n', content) {
        if content[at] == 0 {
            let text = format!("unterminated header: NUL at offset {at}");
            report.add(Id::NulInHeader, text.into_bytes())?;
            // Reached only for objects on the skip list, which have no findings.
            return Err(Stop);
        }
        if content.get(at + 1) == Some(&b'\n') {
            return Ok(());
        }
        is_after_line = at + 1 == content.len();
    }
    if !is_after_line {
        report.add(Id::UnterminatedHeader, b"unterminated header".as_slice())?;
        return Err(Stop);
    }
    Ok(())
}

fn is_id(hex: &[u8], hash: HashKind) -> bool {
    hex.len() == hash.len_in_hex() && StoredId::hex(hex, 0, hash).is_some()
}

/// Checks `<name> <<email>> <seconds> <zone>`. A line has at most one finding.
fn check_person(line: &[u8], report: &mut Report<'_>) -> Result<(), Stop> {
    match flaw_of_person(line) {
        None => Ok(()),
        Some((id, text)) => report.add(id, text.as_bytes()),
    }
}

fn flaw_of_person(line: &[u8]) -> Option<(Id, &'static str)> {
    if line.first() == Some(&b'<') {
        let text = "invalid author/committer line - missing space before email";
        return Some((Id::MissingNameBeforeEmail, text));
    }
    let Some(open) = memchr::memchr2(b'<', b'>', line) else {
        return Some((Id::MissingEmail, "invalid author/committer line - missing email"));
    };
    if line[open] == b'>' {
        return Some((Id::BadName, "invalid author/committer line - bad name"));
    }
    if line[open - 1] != b' ' {
        let text = "invalid author/committer line - missing space before email";
        return Some((Id::MissingSpaceBeforeEmail, text));
    }
    let email = &line[open + 1..];
    let Some(close) = memchr::memchr2(b'<', b'>', email).filter(|at| email[*at] == b'>') else {
        return Some((Id::BadEmail, "invalid author/committer line - bad email"));
    };
    let Some(date) = email[close + 1..].strip_prefix(b" ") else {
        let text = "invalid author/committer line - missing space before date";
        return Some((Id::MissingSpaceBeforeDate, text));
    };
    let start = date.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(date.len());
    flaw_of_date(&date[start..])
}

fn flaw_of_date(date: &[u8]) -> Option<(Id, &'static str)> {
    let digits = date.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(date.len());
    let bad_date = Some((Id::BadDate, "invalid author/committer line - bad date"));
    if digits == 0 {
        return bad_date;
    }
    if date[0] == b'0' && date.get(1) != Some(&b' ') {
        return Some((Id::ZeroPaddedDate, "invalid author/committer line - zero-padded date"));
    }
    let seconds = std::str::from_utf8(&date[..digits]).ok().and_then(|digits| digits.parse::<i64>().ok());
    if seconds.is_none() {
        let text = "invalid author/committer line - date causes integer overflow";
        return Some((Id::BadDateOverflow, text));
    }
    let Some(zone) = date[digits..].strip_prefix(b" ") else { return bad_date };
    match zone {
        [b'+' | b'-', digits @ ..] if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit) => None,
        _ => Some((Id::BadTimezone, "invalid author/committer line - bad time zone")),
    }
}
