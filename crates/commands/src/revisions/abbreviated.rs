//! Abbreviated names that several objects have.

use packrace_object::{Kind, ObjectId};

use super::Revisions;
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::text::{header_line, subject_of};

/// What a name should lead to: chooses between objects with the same abbreviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Any,
    Commit,
    /// A commit, or a tag of one.
    Committish,
    Tree,
    /// A tree, a commit, or a tag of one of them.
    Treeish,
}

impl Expected {
    /// What the suffixes of a name are applied to; `None` if there are none.
    pub(super) fn before(suffixes: &[u8]) -> Option<Self> {
        match suffixes {
            [] => None,
            [b'^', b'{', rest @ ..] if rest.starts_with(b"tree}") => Some(Expected::Treeish),
            [b'^', b'{', rest @ ..] if rest.starts_with(b"commit}") => Some(Expected::Committish),
            [b'^', b'{', rest @ ..] if !rest.starts_with(b"/") => Some(Expected::Any),
            _ => Some(Expected::Committish),
        }
    }
}

impl Revisions<'_> {
    /// The object with this abbreviation. If there are several of the expected kind, or several and none of it, the error
    /// output gets a list of them.
    pub(super) fn abbreviated(&mut self, name: &[u8], expected: Expected) -> Result<Option<ObjectId>, Fatal> {
        let mut found: Vec<ObjectId> = self.snapshot.abbreviated(name)?.into_iter().collect();
        if found.len() < 2 {
            return Ok(found.pop());
        }
        let chosen: Vec<ObjectId> = found.iter().filter(|id| self.is(**id, expected)).copied().collect();
        if let [id] = chosen[..] {
            return Ok(Some(id));
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.list_candidates(&name, if chosen.is_empty() { found } else { chosen })?;
        Ok(None)
    }

    fn is(&mut self, id: ObjectId, expected: Expected) -> bool {
        let kind = self.reader.kind(&id).ok().flatten();
        let mut leads_to = |kind: &[u8]| self.peel(id, kind).is_ok_and(|found| found.is_some());
        match expected {
            Expected::Any => true,
            Expected::Commit => kind == Some(Kind::Commit),
            Expected::Committish => leads_to(b"commit"),
            Expected::Tree => kind == Some(Kind::Tree),
            Expected::Treeish => leads_to(b"tree"),
        }
    }

    /// Tags come first, then commits, trees and blobs.
    fn list_candidates(&mut self, name: &str, ids: Vec<ObjectId>) -> Result<(), Fatal> {
        let digits = self.snapshot.usual_digits(self.repository.config())?;
        let mut lines = Vec::new();
        for id in ids {
            let digits = self.snapshot.unique_digits(&id, digits)?;
            let (rank, what) = self.described(id);
            lines.push((rank, id, format!("{} {what}", &id.to_string()[..digits])));
        }
        lines.sort();
        error_line!(self.call, "error: short object ID {name} is ambiguous");
        error_line!(self.call, "hint: The candidates are:");
        for (.., line) in lines {
            error_line!(self.call, "hint:   {}", harmless(&line));
        }
        Ok(())
    }

    fn described(&mut self, id: ObjectId) -> (u8, String) {
        let Ok(object) = self.reader.read(&id) else { return (4, "[bad object]".to_owned()) };
        match object.kind {
            Kind::Tag => {
                let name = header_line(&object.data, "tag").unwrap_or_default();
                let date = header_line(&object.data, "tagger").map(day).unwrap_or_default();
                (0, format!("tag {date} - {}", String::from_utf8_lossy(name)))
            }
            Kind::Commit => {
                let date = header_line(&object.data, "author").map(day).unwrap_or_default();
                (1, format!("commit {date} - {}", String::from_utf8_lossy(&subject_of(&object.data))))
            }
            Kind::Tree => (2, "tree".to_owned()),
            Kind::Blob => (3, "blob".to_owned()),
        }
    }
}

/// The day at the end of a person line, where the person was; empty if it is none.
fn day(line: &[u8]) -> String {
    let mut words = line.rsplit(|byte| *byte == b' ').map(|word| std::str::from_utf8(word).ok());
    let (zone, seconds) = (words.next().flatten(), words.next().flatten());
    let parsed = zone.zip(seconds).and_then(|(zone, seconds)| {
        let zone: i32 = zone.parse().ok().filter(|zone| (-9999..=9999).contains(zone))?;
        let offset = jiff::tz::Offset::from_seconds((zone / 100 * 60 + zone % 100) * 60).ok()?;
        Some(offset.to_datetime(jiff::Timestamp::from_second(seconds.parse().ok()?).ok()?).date())
    });
    parsed.map(|date| date.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_of_person_lines() {
        for (line, expected) in [
            ("A <a@b> 1112912113 -0700", "2005-04-07"),
            ("A <a@b> 0 -0001", "1969-12-31"),
            ("A <a@b> 0 +2500", "1970-01-02"),
            ("A <a@b> 0 +2147483647", ""),
            ("A <a@b> 9223372036854775807 +0000", ""),
            ("A <a@b> 0", ""),
            ("", ""),
        ] {
            assert_eq!(day(line.as_bytes()), expected, "{line}");
        }
    }
}
