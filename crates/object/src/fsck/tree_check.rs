//! Checks trees: repeated `<octal mode> <name>\0<raw id>` (git's user manual, "Git object model").

use super::message::MessageId as Id;
use super::report::Report;
use super::special_name::{self, ATTRIBUTES, IGNORE, MAILMAP, MODULES, SpecialFile};
use crate::{HashKind, oid};

const KIND_BITS: u16 = 0o170000;
const DIRECTORY: u16 = 0o040000;
const LINK: u16 = 0o120000;

/// Problems reported once per tree, in this order. `emptyName` is not among them: a tree with an empty name
/// cannot be parsed.
const FLAWS: [(Id, &str); 10] = [
    (Id::NullSha1, "contains entries pointing to null sha1"),
    (Id::FullPathname, "contains full pathnames"),
    (Id::HasDot, "contains '.'"),
    (Id::HasDotdot, "contains '..'"),
    (Id::HasDotgit, "contains '.git'"),
    (Id::ZeroPaddedFilemode, "contains zero-padded file modes"),
    (Id::BadFilemode, "contains bad file modes"),
    (Id::DuplicateEntries, "contains duplicate file entries"),
    (Id::TreeNotSorted, "not properly sorted"),
    (Id::LargePathname, "contains excessively large pathname"),
];

/// Bits for [`FLAWS`].
#[derive(Debug, Clone, Copy, Default)]
struct Flaws(u16);

impl Flaws {
    #[inline]
    fn add(&mut self, id: Id) {
        let at = FLAWS.iter().position(|flaw| flaw.0 == id).expect("a flaw of trees");
        self.0 |= 1 << at;
    }
}

#[derive(Clone, Copy)]
struct CheckedEntry<'a> {
    /// Cut to 16 bits, as in git.
    mode: u16,
    name: &'a [u8],
    id: &'a [u8],
    has_slash: bool,
    has_backslash: bool,
}

impl CheckedEntry<'_> {
    fn is_directory(&self) -> bool {
        self.mode & KIND_BITS == DIRECTORY
    }

    fn bad_mode(&self, is_strict: bool) -> bool {
        match self.mode {
            0o100644 | 0o100755 | 0o040000 | 0o120000 | 0o160000 => false,
            // Written by early versions of git.
            0o100664 => is_strict,
            _ => true,
        }
    }
}

/// Checks a whole tree and records its special files.
pub(super) fn check(
    content: &[u8],
    hash: HashKind,
    report: &mut Report<'_>,
    mut found: impl FnMut(SpecialFile, &oid),
) {
    let id_bytes = hash.len_in_bytes();
    let mut at = 0;
    let mut next = match decode(content, id_bytes) {
        Some(Ok((entry, length))) => Some((entry, length)),
        Some(Err(why)) => return add_bad_tree(why, report),
        None => None,
    };
    let max_name_bytes = report.severities().max_name_bytes();
    let is_strict = report.severities().is_strict();
    let mut flaws = Flaws::default();
    let mut order = SortCheck::default();
    while let Some((entry, length)) = next {
        check_name(&entry, &mut flaws, report, &mut found);
        if is_null(entry.id) {
            flaws.add(Id::NullSha1);
        }
        if content[at] == b'0' {
            flaws.add(Id::ZeroPaddedFilemode);
        }
        if entry.name.len() > max_name_bytes {
            flaws.add(Id::LargePathname);
        }
        at += length;
        next = match decode(&content[at..], id_bytes) {
            Some(Ok(next)) => Some(next),
            Some(Err(why)) => {
                // Git stops at the broken entry and does not report later problems.
                add_bad_tree(why, report);
                break;
            }
            None => None,
        };
        if entry.bad_mode(is_strict) {
            flaws.add(Id::BadFilemode);
        }
        order.add(entry, &mut flaws);
    }
    if flaws.0 == 0 {
        return;
    }
    for (at, (id, text)) in FLAWS.into_iter().enumerate() {
        if flaws.0 & 1 << at != 0 {
            report.note(id, text.as_bytes());
        }
    }
}

fn add_bad_tree(why: &'static str, report: &mut Report<'_>) {
    let _last = report.add_after(Some(why), Id::BadTree, b"cannot be parsed as a tree".as_slice());
}

/// The first entry and its length; `None` at the end, and an error if it cannot be parsed.
#[inline]
fn decode(rest: &[u8], id_bytes: usize) -> Option<Result<(CheckedEntry<'_>, usize), &'static str>> {
    if rest.is_empty() {
        return None;
    }
    // Every tree ends with a NUL and an id; an entry is at least three bytes longer than these.
    if rest.len() < id_bytes + 3 || rest[rest.len() - id_bytes - 1] != 0 {
        return Some(Err("too-short tree object"));
    }
    let (mut mode, mut name_start) = (0u16, 0);
    loop {
        match rest[name_start] {
            b' ' if name_start > 0 => break,
            digit @ b'0'..=b'7' => mode = mode << 3 | u16::from(digit - b'0'),
            _ => return Some(Err("malformed mode in tree entry")),
        }
        name_start += 1;
    }
    name_start += 1;
    let (mut has_slash, mut has_backslash, mut name_end) = (false, false, name_start);
    loop {
        // A NUL exists, as checked above.
        name_end += memchr::memchr3(0, b'/', b'\\', &rest[name_end..]).expect("a NUL before the last id");
        match rest[name_end] {
            0 => break,
            b'/' => has_slash = true,
            _ => has_backslash = true,
        }
        name_end += 1;
    }
    if name_end == name_start {
        return Some(Err("empty filename in tree entry"));
    }
    let length = name_end + 1 + id_bytes;
    let Some(id) = rest.get(name_end + 1..length) else {
        return Some(Err("too-short tree file"));
    };
    let name = &rest[name_start..name_end];
    Some(Ok((CheckedEntry { mode, name, id, has_slash, has_backslash }, length)))
}

#[inline]
fn is_null(id: &[u8]) -> bool {
    id[0] == 0 && id.iter().all(|byte| *byte == 0)
}

#[inline]
fn check_name(
    entry: &CheckedEntry<'_>,
    flaws: &mut Flaws,
    report: &mut Report<'_>,
    found: &mut impl FnMut(SpecialFile, &oid),
) {
    if entry.has_slash {
        flaws.add(Id::FullPathname);
    }
    if special_name::may_be_special(entry.name) {
        check_special_name(entry, flaws, report, found);
    }
    if entry.has_backslash {
        for backslash in memchr::memchr_iter(b'\\', entry.name) {
            let rest = &entry.name[backslash + 1..];
            if special_name::is_dot_git_on_ntfs(rest) {
                flaws.add(Id::HasDotgit);
            }
            if MODULES.is_on_ntfs(rest) {
                add_modules(entry, report, found);
            }
        }
    }
}

fn check_special_name(
    entry: &CheckedEntry<'_>,
    flaws: &mut Flaws,
    report: &mut Report<'_>,
    found: &mut impl FnMut(SpecialFile, &oid),
) {
    let name = entry.name;
    match name {
        b"." => flaws.add(Id::HasDot),
        b".." => flaws.add(Id::HasDotdot),
        _ => {}
    }
    if special_name::is_dot_git(name) {
        flaws.add(Id::HasDotgit);
    }
    if MODULES.is(name) {
        add_modules(entry, report, found);
    }
    let is_link = entry.mode & KIND_BITS == LINK;
    if ATTRIBUTES.is(name) {
        match is_link {
            true => report.note(Id::GitattributesSymlink, b".gitattributes is a symlink".as_slice()),
            false => found(SpecialFile::Attributes, oid::from_bytes_unchecked(entry.id)),
        }
    }
    if is_link && IGNORE.is(name) {
        report.note(Id::GitignoreSymlink, b".gitignore is a symlink".as_slice());
    }
    if is_link && MAILMAP.is(name) {
        report.note(Id::MailmapSymlink, b".mailmap is a symlink".as_slice());
    }
}

fn add_modules(entry: &CheckedEntry<'_>, report: &mut Report<'_>, found: &mut impl FnMut(SpecialFile, &oid)) {
    match entry.mode & KIND_BITS {
        LINK => report.note(Id::GitmodulesSymlink, b".gitmodules is a symbolic link".as_slice()),
        _ => found(SpecialFile::Modules, oid::from_bytes_unchecked(entry.id)),
    }
}

/// Checks that entries are sorted and unique. A directory sorts as if its name ended in a slash, so a file of
/// the same name may come some entries earlier (`a`, `a-b`, `a/`).
#[derive(Default)]
struct SortCheck<'a> {
    last: Option<CheckedEntry<'a>>,
    /// Earlier files whose names a later directory may still have, because all names since then begin with
    /// them.
    candidates: Vec<&'a [u8]>,
}

impl<'a> SortCheck<'a> {
    #[inline]
    fn add(&mut self, entry: CheckedEntry<'a>, flaws: &mut Flaws) {
        let Some(last) = self.last.replace(entry) else { return };
        let shared = last.name.len().min(entry.name.len());
        match last.name[..shared].cmp(&entry.name[..shared]) {
            std::cmp::Ordering::Less => return,
            std::cmp::Ordering::Greater => return flaws.add(Id::TreeNotSorted),
            std::cmp::Ordering::Equal => {}
        }
        if last.name.len() == entry.name.len() {
            return flaws.add(Id::DuplicateEntries);
        }
        let end = |entry: &CheckedEntry<'_>| match entry.name.get(shared) {
            Some(byte) => *byte,
            None if entry.is_directory() => b'/',
            None => 0,
        };
        // Names that contain a slash may be equal here.
        if end(&last) >= end(&entry) {
            return flaws.add(Id::TreeNotSorted);
        }
        match (last.name.len() == shared, end(&last), end(&entry)) {
            (true, 0, ..b'/') => self.candidates.push(last.name),
            (false, ..b'/', b'/') if entry.name.len() == shared => self.look_for_file(entry.name, flaws),
            _ => {}
        }
    }

    /// Looks for a candidate with the name of this directory; drops those that no later directory can have.
    fn look_for_file(&mut self, directory: &[u8], flaws: &mut Flaws) {
        while let Some(file) = self.candidates.pop() {
            match directory.strip_prefix(file) {
                Some([]) => return flaws.add(Id::DuplicateEntries),
                Some([..b'/', ..]) => return self.candidates.push(file),
                _ => {}
            }
        }
    }
}
