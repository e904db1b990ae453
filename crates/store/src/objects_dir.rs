//! Object directories: the repository's own and its alternates, and the loose objects in them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::EntryType;
use packrace_os::count::Role;

/// Alternates of alternates are followed this far, as in git.
const MAX_ALTERNATES_DEPTH: usize = 5;

/// Longest `info/alternates` file that is read.
const MAX_ALTERNATES_BYTES: u64 = 1 << 20;

/// One object directory.
#[derive(Debug)]
pub(crate) struct ObjectsDir {
    path: PathBuf,
    pub(crate) is_local: bool,
    hash: HashKind,
    /// The loose objects of each fan-out directory, listed when first asked for.
    fan_out: [OnceLock<HashSet<ObjectId>>; 256],
}

impl ObjectsDir {
    fn new(path: PathBuf, is_local: bool, hash: HashKind) -> Self {
        ObjectsDir { path, is_local, hash, fan_out: [const { OnceLock::new() }; 256] }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a loose object of this name. Costs a directory listing per first byte and snapshot.
    pub(crate) fn has_loose(&self, id: &oid) -> bool {
        let first = id.first_byte();
        let listed = self.fan_out[first as usize].get_or_init(|| self.list(first));
        listed.contains(id)
    }

    fn list(&self, first: u8) -> HashSet<ObjectId> {
        let hex = format!("{first:02x}");
        let Ok(entries) = packrace_os::list_dir(&self.path.join(&hex), Role::Objects) else {
            return HashSet::new();
        };
        let names = entries
            .iter()
            .filter(|entry| entry.kind != EntryType::Dir)
            .filter_map(|entry| entry.name.to_str());
        let ids = names.filter(|name| name.len() == self.hash.len_in_hex() - 2);
        ids.filter_map(|name| ObjectId::from_hex(format!("{hex}{name}").as_bytes()).ok()).collect()
    }

    /// Where a loose object of this name would stand.
    pub(crate) fn loose_path(&self, id: &oid) -> PathBuf {
        let hex = id.to_hex().to_string();
        let (directory, name) = hex.split_at(2);
        self.path.join(directory).join(name)
    }
}

/// The object directory of a repository and everything it borrows from, in the order in which git looks.
pub(crate) fn open(own: &Path, extra: &[PathBuf], hash: HashKind) -> Vec<ObjectsDir> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    add(own.to_owned(), true, 0, hash, &mut seen, &mut found);
    for path in extra {
        add(path.clone(), false, 0, hash, &mut seen, &mut found);
    }
    found
}

fn add(
    path: PathBuf,
    is_local: bool,
    depth: usize,
    hash: HashKind,
    seen: &mut HashSet<PathBuf>,
    found: &mut Vec<ObjectsDir>,
) {
    let Ok(real) = packrace_os::real_path(&path) else {
        if !is_local {
            tracing::warn!("unable to normalize alternate object path: {}", path.display());
        }
        return;
    };
    if !seen.insert(real.clone()) {
        return;
    }
    let alternates = read_alternates(&real);
    found.push(ObjectsDir::new(real, is_local, hash));
    if alternates.is_empty() {
        return;
    }
    if depth > MAX_ALTERNATES_DEPTH {
        tracing::error!("{}: ignoring alternate object stores, nesting too deep", path.display());
        return;
    }
    for alternate in alternates {
        add(alternate, false, depth + 1, hash, seen, found);
    }
}

/// The lines of `info/alternates` (gitrepository-layout): paths relative to the object directory, comments, quoted names.
fn read_alternates(objects: &Path) -> Vec<PathBuf> {
    let Ok(text) =
        packrace_os::read_file(&objects.join("info/alternates"), Role::Config, MAX_ALTERNATES_BYTES)
    else {
        return Vec::new();
    };
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
    lines.filter_map(alternate_line).map(|line| objects.join(line)).collect()
}

fn alternate_line(line: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = match line.strip_prefix(b"\"") {
        Some(quoted) => unquote(quoted)?,
        None => line.to_vec(),
    };
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

/// Undoes git's quoting of a path, after the opening quote.
fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => return Some(out),
            b'\\' => {
                at += 1;
                let escaped = *text.get(at)?;
                out.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    b'\\' | b'"' => escaped,
                    b'0'..=b'3' => {
                        let digits =
                            text.get(at..at + 3).and_then(|digits| std::str::from_utf8(digits).ok())?;
                        at += 2;
                        u8::from_str_radix(digits, 8).ok()?
                    }
                    _ => return None,
                });
            }
            byte => out.push(byte),
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_alternates() {
        let check = |line: &str, expect: Option<&str>| {
            assert_eq!(alternate_line(line.as_bytes()), expect.map(PathBuf::from), "{line}");
        };
        check("/a b", Some("/a b"));
        check(r#""/a\tb\"c\\d\303\244""#, Some("/a\tb\"c\\dä"));
        check(r#""/never closed"#, None);
        check(r#""/bad \q""#, None);
    }
}
