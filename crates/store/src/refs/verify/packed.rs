//! The lines of `packed-refs`, each on its own, as git writes them.

use packrace_object::HashKind;
use packrace_object::fsck::MessageId;

use super::{CheckSink, CheckedRefs, Problem, id_at, text};
use crate::refs::is_good_name;

/// How git begins the header.
const HEADER: &[u8] = b"# pack-refs with: ";

/// Checks the content of `packed-refs`.
pub(super) fn verify_packed(content: &[u8], hash: HashKind, report: &mut CheckSink<'_>) {
    if content.is_empty() {
        let problem = Problem::new(MessageId::EmptyPackedRefsFile, "file is empty");
        return report(CheckedRefs::Problem("packed-refs", problem));
    }
    let mut check = PackedCheck { hash, is_sorted: false, may_be_peeled: false, last: b"", unsorted: None };
    let mut has_bad_lines = false;
    for (at, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let place = format!("packed-refs line {}", at + 1);
        let (is_header, whole) = (at == 0 && line.starts_with(b"#"), line.strip_suffix(b"\n"));
        // Git looks for a header in the first line, and then at it as at the others.
        let times = match whole {
            Some(_) => 0,
            None if at == 0 && !is_header => 2,
            None => 1,
        };
        for _ in 0..times {
            has_bad_lines = true;
            let words = format!("'{}' is not terminated with a newline", text(line));
            let problem = Problem::new(MessageId::PackedRefEntryNotTerminated, words);
            report(CheckedRefs::Problem(&place, problem));
        }
        let line = whole.unwrap_or(line);
        if is_header {
            if let Err(problem) = check.header(line) {
                report(CheckedRefs::Problem("packed-refs.header", problem));
            }
        } else if let Err(problem) = check.line(line, &place) {
            has_bad_lines = true;
            report(CheckedRefs::Problem(&place, problem));
        }
    }
    // As in git, the order counts only if everything can be read.
    if let Some((place, problem)) = check.unsorted.filter(|_| !has_bad_lines) {
        report(CheckedRefs::Problem(&place, problem));
    }
}

struct PackedCheck<'c> {
    hash: HashKind,
    /// Whether the header promises it.
    is_sorted: bool,
    /// Whether the line before was a ref.
    may_be_peeled: bool,
    /// The name before.
    last: &'c [u8],
    /// The first name that is not greater than the one before.
    unsorted: Option<(String, Problem)>,
}

impl<'c> PackedCheck<'c> {
    fn header(&mut self, line: &[u8]) -> Result<(), Problem> {
        let Some(traits) = line.strip_prefix(HEADER) else {
            let words = format!("'{}' does not start with '{}'", text(line), text(HEADER));
            return Err(Problem::new(MessageId::BadPackedRefHeader, words));
        };
        self.is_sorted = traits.split(|byte| *byte == b' ').any(|word| word == b"sorted");
        Ok(())
    }

    fn line(&mut self, line: &'c [u8], place: &str) -> Result<(), Problem> {
        let bad = |words: String| Err(Problem::new(MessageId::BadPackedRefEntry, words));
        let may_be_peeled = std::mem::take(&mut self.may_be_peeled);
        if let Some(peeled) = line.strip_prefix(b"^").filter(|_| may_be_peeled) {
            return match id_at(peeled, self.hash) {
                None => bad(format!("'{}' has invalid peeled oid", text(peeled))),
                Some((_, b"")) => Ok(()),
                Some((_, rest)) => bad(format!("has trailing garbage after peeled oid '{}'", text(rest))),
            };
        }
        let Some((id, rest)) = id_at(line, self.hash) else {
            return bad(format!("'{}' has invalid oid", text(line)));
        };
        let Some((_, name)) = rest.split_first().filter(|(first, _)| first.is_ascii_whitespace()) else {
            return bad(format!("has no space after oid '{id}' but with '{}'", text(rest)));
        };
        self.may_be_peeled = true;
        if !(name.contains(&b'/') && is_good_name(name)) {
            return Err(Problem::new(MessageId::BadRefName, format!("has bad refname '{}'", text(name))));
        }
        if self.is_sorted && self.unsorted.is_none() && name <= self.last {
            let words =
                format!("refname '{}' is less than previous refname '{}'", text(name), text(self.last));
            self.unsorted = Some((place.to_owned(), Problem::new(MessageId::PackedRefUnsorted, words)));
        }
        self.last = name;
        Ok(())
    }
}
