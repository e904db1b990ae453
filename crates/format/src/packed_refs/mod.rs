//! `packed-refs` (gitrepository-layout, "packed-refs"; git-pack-refs).
//!
//! ```text
//! # pack-refs with: peeled fully-peeled sorted \n      optional header
//! <hex id> <name>\n                                     one ref
//! ^<hex id>\n                                           what the annotated tag above finally tags
//! ```
//!
//! As in git, a tab may stand for the blank of a ref. A file whose header says `sorted` is searched in place;
//! any other is indexed once, with 8 bytes per ref.

mod write;

use std::sync::OnceLock;

pub use write::{Edit, RewriteError, rewrite};

use packrace_object::{HashKind, ObjectId, StoredId};

use crate::{Error, NameRange};

const FORMAT: &str = "packed-refs";

const BRANCHES: &[u8] = b"refs/heads/";

/// What sorts behind all branches.
const AFTER_BRANCHES: &[u8] = b"refs/heads0";

/// What a file says about the peeled object of a ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peeled<Id = ObjectId> {
    /// The file does not say.
    Unknown,
    /// The ref does not point at an annotated tag.
    NotATag,
    /// The object that the tag peels to.
    To(Id),
}

impl Peeled<StoredId<'_>> {
    /// The same with an owned id.
    #[inline]
    pub fn to_id(self) -> Peeled {
        match self {
            Peeled::Unknown => Peeled::Unknown,
            Peeled::NotATag => Peeled::NotATag,
            Peeled::To(id) => Peeled::To(id.to_id()),
        }
    }
}

/// One ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedRef<'a> {
    /// The full name.
    pub name: &'a [u8],
    /// The object that it points at.
    pub id: StoredId<'a>,
    /// The peeled object.
    pub peeled: Peeled<StoredId<'a>>,
}

/// A view of a `packed-refs` file.
#[derive(Debug, Clone)]
pub struct PackedRefs<D> {
    data: D,
    traits: Traits,
    /// Where each ref starts, by name; only for a file whose header does not say `sorted`.
    order: Option<Vec<usize>>,
    /// See [`Traits::is_believed`].
    is_believed: OnceLock<bool>,
}

/// What the header says about the lines.
#[derive(Debug, Clone, Copy)]
struct Traits {
    hash: HashKind,
    /// All annotated tags are peeled.
    is_fully_peeled: bool,
    is_sorted: bool,
    /// Where the first ref starts.
    start: usize,
}

impl<D: AsRef<[u8]>> PackedRefs<D> {
    /// Reads the header. A file that claims to be sorted is trusted; lines are checked when read.
    pub fn open(data: D, hash: HashKind) -> Result<Self, Error> {
        let bytes = data.as_ref();
        let mut traits = Traits { hash, is_fully_peeled: false, is_sorted: false, start: 0 };
        if bytes.first() == Some(&b'#') {
            let end =
                memchr::memchr(b'\n', bytes).ok_or_else(|| Error::new(FORMAT, "unterminated line", 0))?;
            let words = bytes[..end]
                .strip_prefix(b"# pack-refs with: ")
                .ok_or_else(|| Error::new(FORMAT, "unexpected line", 0))?;
            let has = |name: &[u8]| words.split(|byte| *byte == b' ').any(|word| word == name);
            traits.is_sorted = has(b"sorted");
            traits.is_fully_peeled = has(b"fully-peeled");
            traits.start = end + 1;
        }
        if bytes.len() > traits.start && !bytes.ends_with(b"\n") {
            return Err(Error::new(FORMAT, "unterminated line", bytes.len() as u64));
        }
        // As in git, no search needs to meet a last line that is too short.
        let before_last = &bytes[..bytes.len().saturating_sub(1)];
        let last = memchr::memrchr(b'\n', before_last).map_or(traits.start, |end| end + 1);
        if last < bytes.len() && bytes.len() - last < hash.len_in_hex() + "^\n".len() {
            return Err(Error::new(FORMAT, "unexpected line", last as u64));
        }
        let mut file = PackedRefs { data, traits, order: None, is_believed: OnceLock::new() };
        if !traits.is_sorted {
            file.order = Some(file.index()?);
        }
        Ok(file)
    }

    fn index(&self) -> Result<Vec<usize>, Error> {
        let mut order = Vec::new();
        let mut at = self.traits.start;
        while at < self.data.as_ref().len() {
            order.push(at);
            let (_, next) = self.traits.parse(self.data.as_ref(), at)?;
            at = next;
        }
        let name = |at: &usize| self.parse(*at).map(|(found, _)| found.name).unwrap_or_default();
        order.sort_by(|a, b| name(a).cmp(name(b)));
        Ok(order)
    }

    /// The ref of this name.
    pub fn find(&self, name: &[u8]) -> Result<Option<PackedRef<'_>>, Error> {
        match self.iter_from(name).next() {
            Some(Ok(found)) if found.name == name => Ok(Some(found)),
            Some(Err(error)) => Err(error),
            _ => Ok(None),
        }
    }

    /// All refs from `name` on, by name.
    pub fn iter_from(&self, name: &[u8]) -> Iter<'_> {
        self.iter_between(name, None)
    }

    /// All refs in a range, by name.
    pub fn iter_range(&self, range: &NameRange) -> Iter<'_> {
        self.iter_between(&range.start, range.end.as_deref())
    }

    /// Like [`Self::iter_range`]; the end is searched for, too, so that iterating compares no names.
    pub fn iter_between(&self, start: &[u8], end: Option<&[u8]>) -> Iter<'_> {
        let (bytes, order) = (self.data.as_ref(), self.order.as_deref());
        let end = match end {
            Some(end) => self.place_of(end),
            None => Ok(order.map_or(bytes.len(), <[usize]>::len)),
        };
        let range = self.place_of(start).and_then(|start| Ok(start..end?));
        let (range, damage) = range.map_or_else(|error| (0..0, Some(error)), |range| (range, None));
        let (traits, is_believed) = (self.traits, &self.is_believed);
        Iter { bytes, traits, is_believed, order, at: range.start, end: range.end, damage }
    }

    /// The position of the first ref from `name` on.
    fn place_of(&self, name: &[u8]) -> Result<usize, Error> {
        match &self.order {
            Some(order) => {
                let before = |at: &usize| self.parse(*at).is_ok_and(|(found, _)| found.name < name);
                Ok(order.partition_point(before))
            }
            None => self.traits.search(self.data.as_ref(), name),
        }
    }

    fn parse(&self, at: usize) -> Result<(PackedRef<'_>, usize), Error> {
        self.traits.parse(self.data.as_ref(), at)
    }

    fn is_believed(&self) -> bool {
        self.traits.is_believed(self.data.as_ref(), &self.is_believed)
    }
}

impl Traits {
    /// Binary search over lines: halves a range of bytes and goes back to the start of the line found there. A line
    /// without a name ends the search: nothing can be said about what stands on either side of it.
    fn search(self, bytes: &[u8], name: &[u8]) -> Result<usize, Error> {
        let (mut low, mut high) = (self.start, bytes.len());
        while low < high {
            let start = line_of_ref(bytes, low, low + (high - low) / 2);
            let end = end_of_line(bytes, start);
            // The id is read with the ref.
            let found =
                bytes.get(start + self.hash.len_in_hex()..end - 1).and_then(|rest| rest.split_first());
            let found = found.filter(|(blank, name)| is_blank(**blank) && !name.is_empty());
            let found = found.map(|(_, name)| name);
            if found.ok_or_else(|| Error::new(FORMAT, "unexpected line", start as u64))? < name {
                // Skip this line and its peeled line, if it has one.
                low = if bytes.get(end) == Some(&b'^') { end_of_line(bytes, end) } else { end };
            } else {
                high = start;
            }
        }
        Ok(low)
    }

    /// Whether it is believed of more than branches that all tags are peeled. `refs migrate` of git 2.55 says so, and peels
    /// nothing. Branches, which come first in a sorted file, are no tags. Looked for once, and then `known`.
    fn is_believed(self, bytes: &[u8], known: &OnceLock<bool>) -> bool {
        *known.get_or_init(|| {
            let others = if self.is_sorted { self.search(bytes, AFTER_BRANCHES) } else { Ok(self.start) };
            let others = &bytes[others.unwrap_or(self.start)..];
            others.is_empty() || memchr::memchr(b'^', others).is_some()
        })
    }

    /// The ref whose line starts at `at`, and the start of the next ref.
    #[inline(always)]
    fn parse(self, bytes: &[u8], at: usize) -> Result<(PackedRef<'_>, usize), Error> {
        let unexpected = |at: usize| Error::new(FORMAT, "unexpected line", at as u64);
        let id = StoredId::hex(bytes, at, self.hash).ok_or_else(|| unexpected(at))?;
        let name_at = at + id.hex_len() + 1;
        // A line without a name ends before it.
        let name = bytes.get(name_at..).and_then(|rest| rest.get(..memchr::memchr(b'\n', rest)?));
        let name = name.filter(|name| !name.is_empty() && is_blank(bytes[name_at - 1]));
        let name = name.ok_or_else(|| unexpected(at))?;
        let next = name_at + name.len() + 1;
        if bytes.get(next) == Some(&b'^') {
            let end = next + 1 + id.hex_len();
            let tagged = StoredId::hex(bytes, next + 1, self.hash);
            let tagged = tagged.filter(|_| bytes.get(end) == Some(&b'\n'));
            let peeled = Peeled::To(tagged.ok_or_else(|| unexpected(next))?);
            return Ok((PackedRef { name, id, peeled }, end + 1));
        }
        // `peeled` alone, written by git before 1.8.4, is not trusted: git 2.55 reads the object.
        let peeled = if self.is_fully_peeled { Peeled::NotATag } else { Peeled::Unknown };
        Ok((PackedRef { name, id, peeled }, next))
    }
}

/// Whether this may stand between an id and a name.
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t' || byte == b'\r'
}

/// Behind the line that starts at `start`; the last line ends, too.
fn end_of_line(bytes: &[u8], start: usize) -> usize {
    memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |end| start + end + 1)
}

/// The start of the ref's line at `at`; not before `low`, where a line starts.
fn line_of_ref(bytes: &[u8], low: usize, at: usize) -> usize {
    let mut start = memchr::memrchr(b'\n', &bytes[low..at]).map_or(low, |end| low + end + 1);
    if bytes[start] == b'^' && start > low {
        start = memchr::memrchr(b'\n', &bytes[low..start - 1]).map_or(low, |end| low + end + 1);
    }
    start
}

/// Refs by name.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    traits: Traits,
    is_believed: &'a OnceLock<bool>,
    order: Option<&'a [usize]>,
    /// A position in the file, or in `order` if there is one.
    at: usize,
    /// The end, a position of the same kind.
    end: usize,
    /// Why the range was not found.
    damage: Option<Error>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<PackedRef<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return self.damage.take().map(Err);
        }
        let line_at = match self.order {
            Some(order) => *order.get(self.at)?,
            None => self.at,
        };
        match self.traits.parse(self.bytes, line_at) {
            Ok((mut found, next)) => {
                if found.peeled == Peeled::NotATag
                    && !found.name.starts_with(BRANCHES)
                    && !self.traits.is_believed(self.bytes, self.is_believed)
                {
                    found.peeled = Peeled::Unknown;
                }
                self.at = if self.order.is_some() { self.at + 1 } else { next };
                Some(Ok(found))
            }
            Err(error) => {
                self.at = self.end;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";

    fn names(text: &str, from: &str) -> Result<Vec<String>, Error> {
        let file = PackedRefs::open(text.as_bytes(), HashKind::Sha1)?;
        file.iter_from(from.as_bytes())
            .map(|found| Ok(String::from_utf8_lossy(found?.name).into_owned()))
            .collect()
    }

    fn many(count: usize, header: &str) -> String {
        let mut text = header.to_owned();
        for n in 0..count {
            text += &format!("{A} refs/tags/v{n:05}\n");
            if n % 3 == 0 {
                text += &format!("^{B}\n");
            }
        }
        text
    }

    #[test]
    fn every_ref_is_found_and_iteration_starts_anywhere() {
        let text = many(200, HEADER);
        let file = PackedRefs::open(text.as_bytes(), HashKind::Sha1).unwrap();
        let in_prefix = |prefix: &[u8]| file.iter_range(&NameRange::of_prefix(prefix)).count();
        for n in 0..200 {
            let name = format!("refs/tags/v{n:05}");
            let found = file.find(name.as_bytes()).unwrap().unwrap();
            let expect = if n % 3 == 0 {
                Peeled::To(StoredId::hex(B.as_bytes(), 0, HashKind::Sha1).unwrap())
            } else {
                Peeled::NotATag
            };
            assert_eq!((found.name, found.peeled), (name.as_bytes(), expect));
            assert_eq!(names(&text, &name).unwrap().len(), 200 - n);
            assert_eq!(names(&text, &format!("{name}x")).unwrap().len(), 199 - n);
            assert_eq!(in_prefix(&name.as_bytes()[..name.len() - 1]), 10);
        }
        assert_eq!(file.find(b"refs/tags/v").unwrap(), None);
        assert_eq!(names(&text, "").unwrap().len(), 200);
        for (prefix, count) in [
            (&b""[..], 200),
            (b"refs/tags/", 200),
            (b"refs/tags/v001", 100),
            (b"refs/heads/", 0),
            (b"\xff", 0),
        ] {
            assert_eq!(in_prefix(prefix), count, "{prefix:?}");
        }
        assert_eq!(names(&text, "z").unwrap().len(), 0);
    }

    #[test]
    fn files_without_order_or_header_are_sorted() {
        let text = format!("{A} refs/tags/b\n^{B}\n{B} refs/heads/a\n{B} refs/tags/a\n");
        assert_eq!(names(&text, "").unwrap(), ["refs/heads/a", "refs/tags/a", "refs/tags/b"]);
        assert_eq!(names(&text, "refs/tags/").unwrap(), ["refs/tags/a", "refs/tags/b"]);
        assert_eq!(names("", "").unwrap(), [""; 0]);
        assert_eq!(names(HEADER, "").unwrap(), [""; 0]);
        for header in ["", HEADER] {
            let text = format!("{header}{A}\trefs/tags/a\n{A}\rrefs/tags/b\n");
            assert_eq!(names(&text, "refs/tags/").unwrap(), ["refs/tags/a", "refs/tags/b"]);
        }
        let file = PackedRefs::open(text.as_bytes(), HashKind::Sha1).unwrap();
        assert_eq!(file.find(b"refs/tags/a").unwrap().unwrap().peeled, Peeled::Unknown);
    }

    #[test]
    fn only_fully_peeled_files_say_what_is_no_tag() {
        let check = |header: &str, tag: &str, expect: [Peeled<StoredId<'_>>; 2]| {
            let text = format!("{header}{B} refs/heads/a\n{B} refs/tags/a\n{tag}");
            let file = PackedRefs::open(text.as_bytes(), HashKind::Sha1).unwrap();
            let peeled = |name: &str| file.find(name.as_bytes()).unwrap().unwrap().peeled;
            assert_eq!(["refs/heads/a", "refs/tags/a"].map(peeled), expect, "{header} {tag}");
        };
        let tag = format!("{B} refs/tags/b\n^{B}\n");
        let full = "# pack-refs with: peeled fully-peeled sorted \n";
        check(full, &tag, [Peeled::NotATag; 2]);
        // As git 2.55 migrates refs.
        check(full, "", [Peeled::NotATag, Peeled::Unknown]);
        for header in ["# pack-refs with: peeled \n", ""] {
            check(header, "", [Peeled::Unknown; 2]);
            check(header, &tag, [Peeled::Unknown; 2]);
        }
    }

    #[test]
    fn damaged_lines_are_told() {
        let check = |text: String, what: &str, offset: u64| {
            let error = names(&text, "").unwrap_err();
            assert_eq!((error.what, error.offset), (what, offset), "{text:?}");
        };
        check(format!("{A} refs/a"), "unterminated line", 47);
        check(format!("{HEADER}{A} refs/a\nx\n"), "unexpected line", 46 + 48);
        check(format!("{A}  \n{B}\n"), "unexpected line", 43);
        check(format!("{HEADER}{A} refs/a\n^x\n"), "unexpected line", 46 + 48);
        check(format!("^{A}\n"), "unexpected line", 0);
        check("# pack-refs with:\n".to_owned(), "unexpected line", 0);
    }

    #[test]
    fn no_range_of_a_damaged_file_is_empty() {
        for junk in ["junk", "^^^^", "", "x refs/heads/a", A, &format!("{A}x refs/heads/a"), &format!("x{A}")]
        {
            let text = format!("{HEADER}{junk}\n");
            let is_damaged = |name: &str| {
                let Ok(file) = PackedRefs::open(text.as_bytes(), HashKind::Sha1) else { return true };
                let range = NameRange::of_prefix(name.as_bytes());
                file.find(name.as_bytes()).is_err() && file.iter_range(&range).any(|found| found.is_err())
            };
            for name in ["refs/", "refs/heads/", "refs/tags/v1", "z"] {
                assert!(is_damaged(name), "{junk} {name}");
            }
        }
    }

    #[test]
    fn a_last_line_that_is_too_short_spoils_all() {
        for junk in ["junk", "# more", "", "^x", A] {
            let text = format!("{HEADER}{A} refs/heads/a\n{junk}\n");
            let error = PackedRefs::open(text.as_bytes(), HashKind::Sha1).unwrap_err();
            assert_eq!((error.what, error.offset), ("unexpected line", 46 + 54), "{junk}");
        }
        for end in ["", &format!("{A} r\n"), &format!("^{A}\n")] {
            let text = format!("{HEADER}{A} refs/heads/a\n{end}");
            assert!(PackedRefs::open(text.as_bytes(), HashKind::Sha1).is_ok(), "{end}");
        }
    }

    #[test]
    fn no_damage_panics() {
        let text = many(20, HEADER).into_bytes();
        for at in 0..text.len() {
            for value in [0, b'\n', b'^', b' ', 0xff] {
                let mut damaged = text.clone();
                damaged[at] = value;
                for bytes in [&damaged[..], &damaged[..at]] {
                    if let Ok(file) = PackedRefs::open(bytes, HashKind::Sha1) {
                        let _ = file.iter_from(b"refs/tags/v00010").count();
                        let _ = file.find(b"refs/tags/v00007");
                    }
                }
            }
        }
    }
}
