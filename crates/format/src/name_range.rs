//! Ranges of sorted names, for dividing a listing of refs before it is read.

/// Names from a first one up to, but not including, a second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRange {
    /// The lowest possible name in the range.
    pub start: Vec<u8>,
    /// The lowest name after the range; `None` means no end.
    pub end: Option<Vec<u8>>,
}

impl NameRange {
    /// This name and all later ones.
    pub fn from(start: &[u8]) -> Self {
        NameRange { start: start.to_vec(), end: None }
    }

    /// All names that start with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        // The first name after them: the prefix with its last byte increased.
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if let Some(larger) = last.checked_add(1) {
                end.push(larger);
                return NameRange { start: prefix.to_vec(), end: Some(end) };
            }
        }
        NameRange::from(prefix)
    }

    /// Whether a name is in the range.
    pub fn contains(&self, name: &[u8]) -> bool {
        *self.start <= *name && self.end.as_ref().is_none_or(|end| name < end.as_slice())
    }

    /// The names in both ranges.
    pub fn within(&self, other: &NameRange) -> Option<NameRange> {
        let start = self.start.clone().max(other.start.clone());
        let end = self.end.iter().chain(&other.end).min().cloned();
        let is_empty = end.as_ref().is_some_and(|end| *end <= start);
        (!is_empty).then_some(NameRange { start, end })
    }

    /// Divides the range into pieces, in order; each of `cuts` within the range starts a piece.
    pub fn split(&self, mut cuts: Vec<Vec<u8>>) -> Vec<NameRange> {
        cuts.retain(|cut| *cut > self.start && self.end.as_ref().is_none_or(|end| cut < end));
        cuts.sort_unstable();
        cuts.dedup();
        let starts = [self.start.clone()].into_iter().chain(cuts.clone());
        let ends = cuts.into_iter().map(Some).chain([self.end.clone()]);
        starts.zip(ends).map(|(start, end)| NameRange { start, end }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: Option<NameRange>, expect: Option<(&str, Option<&str>)>) {
        let expect = expect.map(|(start, end)| NameRange {
            start: start.as_bytes().to_vec(),
            end: end.map(|end| end.as_bytes().to_vec()),
        });
        assert_eq!(range, expect);
    }

    #[test]
    fn prefixes() {
        check(Some(NameRange::of_prefix(b"refs/")), Some(("refs/", Some("refs0"))));
        check(Some(NameRange::of_prefix(b"")), Some(("", None)));
        assert_eq!(NameRange::of_prefix(b"a\xff\xff").end, Some(b"b".to_vec()));
        assert_eq!(NameRange::of_prefix(b"\xff").end, None);
    }

    #[test]
    fn what_is_in_both() {
        let refs = NameRange::of_prefix(b"refs/");
        check(NameRange::of_prefix(b"").within(&refs), Some(("refs/", Some("refs0"))));
        check(NameRange::of_prefix(b"refs/a").within(&refs), Some(("refs/a", Some("refs/b"))));
        check(NameRange::from(b"refs/a").within(&refs), Some(("refs/a", Some("refs0"))));
        check(NameRange::of_prefix(b"HEAD").within(&refs), None);
        check(NameRange::of_prefix(b"refs0").within(&refs), None);
        check(NameRange::from(b"b").within(&NameRange::from(b"a")), Some(("b", None)));
    }

    #[test]
    fn pieces() {
        let cuts = |cuts: &[&str]| cuts.iter().map(|cut| cut.as_bytes().to_vec()).collect();
        let pieces = NameRange::of_prefix(b"b").split(cuts(&["bz", "a", "c", "ba", "b", "ba"]));
        let expect = [("b", "ba"), ("ba", "bz"), ("bz", "c")];
        assert_eq!(pieces.len(), expect.len());
        for (piece, (start, end)) in pieces.into_iter().zip(expect) {
            check(Some(piece), Some((start, Some(end))));
        }
        assert_eq!(NameRange::from(b"b").split(Vec::new()), [NameRange::from(b"b")]);
    }
}
