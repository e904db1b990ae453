//! Object directories: the repository's own and its alternates, and the loose objects in them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::EntryType;
use packrace_os::count::Role;

use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;
use crate::quoted::{quote, unquote};

/// The directory of a chain of multi-pack-indexes, in that of the packs.
pub(crate) const MIDX_CHAIN_DIR: &str = "multi-pack-index.d";

/// The list of its files, there.
pub(crate) const MIDX_CHAIN_FILE: &str = "multi-pack-index.d/multi-pack-index-chain";

/// Maximum depth of nested alternates, as in git.
const MAX_ALTERNATES_DEPTH: usize = 5;

/// Longest `info/alternates` file that is read.
const MAX_ALTERNATES_BYTES: u64 = 1 << 20;

/// One object directory.
#[derive(Debug)]
pub(crate) struct ObjectsDir {
    path: PathBuf,
    pub(crate) is_local: bool,
    hash: HashKind,
    /// The loose objects of each fan-out directory, sorted, listed on first use.
    fan_out: [OnceLock<Box<[ObjectId]>>; 256],
}

/// Whether a loose object was found in a listing, and whether the listing was made for this lookup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LooseLookup {
    pub(crate) is_found: bool,
    pub(crate) has_listed: bool,
}

impl ObjectsDir {
    fn new(path: PathBuf, is_local: bool, hash: HashKind) -> Self {
        ObjectsDir { path, is_local, hash, fan_out: [const { OnceLock::new() }; 256] }
    }

    /// The same directory, with no listings yet.
    pub(crate) fn anew(&self) -> Self {
        ObjectsDir::new(self.path.clone(), self.is_local, self.hash)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of packs.
    pub(crate) fn pack_dir(&self) -> PathBuf {
        self.path.join("pack")
    }

    /// Whether there is a loose object of this name. Costs one directory listing per first byte and snapshot.
    pub(crate) fn find_loose(&self, id: &oid) -> Result<LooseLookup, Error> {
        let (listed, has_listed) = self.listed(id.first_byte())?;
        let is_found = listed.binary_search_by(|other| other.as_bytes().cmp(id.as_bytes())).is_ok();
        Ok(LooseLookup { is_found, has_listed })
    }

    /// The sorted loose objects whose names begin with this byte, and whether the listing was made now.
    pub(crate) fn listed(&self, first: u8) -> Result<(&[ObjectId], bool), Error> {
        let slot = &self.fan_out[usize::from(first)];
        match slot.get() {
            Some(listed) => Ok((listed, false)),
            None => {
                let listed = self.list(first)?;
                Ok((slot.get_or_init(|| listed), true))
            }
        }
    }

    /// All loose objects, sorted.
    pub(crate) fn loose_ids(&self) -> Result<Vec<ObjectId>, Error> {
        let mut ids = Vec::new();
        for first in 0..=255 {
            ids.extend_from_slice(self.listed(first)?.0);
        }
        Ok(ids)
    }

    fn list(&self, first: u8) -> Result<Box<[ObjectId]>, Error> {
        let hex = format!("{first:02x}");
        let path = self.path.join(&hex);
        let entries = match packrace_os::list_dir(&path, Role::Objects) {
            Ok(entries) => entries,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Box::default());
            }
            Err(error) if !self.is_local => {
                tracing::error!("unable to open {}: {}", path.display(), packrace_os::reason(&error));
                return Ok(Box::default());
            }
            Err(error) => return Err(Error::io(path, error)),
        };
        let files = entries.iter().filter(|entry| entry.kind != EntryType::Dir);
        let names = files.filter_map(|entry| entry.name.to_str());
        let names = names.filter(|name| name.len() == self.hash.len_in_hex() - 2);
        let ids = names.filter_map(|name| ObjectId::from_hex(format!("{hex}{name}").as_bytes()).ok());
        let mut ids: Vec<ObjectId> = ids.collect();
        // Already in order, except names in upper case, which git never writes.
        ids.sort_unstable();
        Ok(ids.into())
    }

    /// The path that a loose object of this name would have.
    pub(crate) fn loose_path(&self, id: &oid) -> PathBuf {
        let hex = id.to_hex().to_string();
        let (directory, name) = hex.split_at(2);
        self.path.join(directory).join(name)
    }
}

/// The object directory of a repository and all its alternates, in git's search order: `extra` before the
/// alternates that the repository names.
pub(crate) fn open(own: &Path, extra: &[PathBuf], hash: HashKind) -> Vec<ObjectsDir> {
    open_seen(own, extra, hash, &mut FileDependencies::default())
}

/// As above; adds to `seen` what determines it and a [`Snapshot`](crate::Snapshot) of these directories.
pub(crate) fn open_seen(
    own: &Path,
    extra: &[PathBuf],
    hash: HashKind,
    seen: &mut FileDependencies,
) -> Vec<ObjectsDir> {
    seen.real(own);
    let real = packrace_os::real_path(own).unwrap_or_else(|_| own.to_owned());
    let mut dirs = Dirs { hash, seen: HashSet::from([real.clone()]), found: Vec::new(), named: seen };
    let named = read_alternates(&real);
    dirs.found.push(ObjectsDir::new(real, true, hash));
    for path in extra.iter().chain(&named) {
        dirs.follow(path, 1);
    }
    let found = dirs.found;
    for dir in &found {
        let info = dir.path().join("info");
        let files = [info.join("alternates"), info.join("commit-graph")];
        let pack_dir = dir.pack_dir();
        files.iter().for_each(|file| seen.file(file));
        seen.file(&info.join("commit-graphs/commit-graph-chain"));
        seen.file(&pack_dir.join("multi-pack-index"));
        // One that appears later changes the directory of the packs.
        if packrace_os::identity(&pack_dir.join(MIDX_CHAIN_DIR), Role::Index).is_ok_and(|dir| dir.is_some()) {
            seen.file(&pack_dir.join(MIDX_CHAIN_FILE));
        }
        seen.file(&pack_dir);
    }
    found
}

/// The number of the directory with the path `wanted`.
pub(crate) fn position(dirs: &[ObjectsDir], wanted: &Path) -> Result<usize, Error> {
    let real = packrace_os::real_path(wanted).ok();
    let found = real.and_then(|real| dirs.iter().position(|dir| dir.path() == real));
    found.ok_or_else(|| {
        Reason::Refused(format!("could not find object directory matching {}", wanted.display())).into()
    })
}

/// The paths in `GIT_ALTERNATE_OBJECT_DIRECTORIES`: separated by colons, quoted if necessary.
pub fn split_alternates(text: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let quoted = rest.strip_prefix(b"\"").and_then(unquote);
        let (path, length) = match quoted {
            Some((path, length)) => (path, length + 1),
            None => {
                let length = rest.iter().position(|byte| *byte == b':').unwrap_or(rest.len());
                (rest[..length].to_vec(), length)
            }
        };
        rest = &rest[length..];
        rest = rest.strip_prefix(b":").unwrap_or(rest);
        if !path.is_empty() {
            found.push(path_of(path));
        }
    }
    found
}

/// The value of `GIT_ALTERNATE_OBJECT_DIRECTORIES` for these paths, quoted where they would be ambiguous.
pub fn join_alternates<'a>(paths: impl IntoIterator<Item = &'a Path>) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut text = Vec::new();
    for path in paths {
        if !text.is_empty() {
            text.push(b':');
        }
        let bytes = path.as_os_str().as_bytes();
        match bytes.contains(&b':') || bytes.starts_with(b"\"") {
            true => quote(bytes, true, &mut text),
            false => text.extend_from_slice(bytes),
        }
    }
    std::ffi::OsString::from_vec(text)
}

struct Dirs<'a> {
    hash: HashKind,
    named: &'a mut FileDependencies,
    /// Resolved paths, so that cycles end and nothing is searched twice.
    seen: HashSet<PathBuf>,
    found: Vec<ObjectsDir>,
}

impl Dirs<'_> {
    fn follow(&mut self, path: &Path, depth: usize) {
        self.named.real(path);
        let Ok(real) = packrace_os::real_path(path) else {
            // The name of a file of the current directory has an empty parent.
            let parent = path.parent().map(|parent| Path::new(".").join(parent));
            let parent = parent.and_then(|parent| packrace_os::real_path(&parent).ok());
            match parent.zip(path.file_name()) {
                Some((parent, name)) => {
                    let path = parent.join(name);
                    let path = path.display();
                    tracing::error!(
                        "object directory {path} does not exist; check .git/objects/info/alternates"
                    );
                }
                None => tracing::error!("unable to normalize alternate object path: {}", path.display()),
            }
            return;
        };
        if !self.seen.insert(real.clone()) {
            return;
        }
        if !packrace_os::reach::is_allowed(&real) {
            tracing::warn!(
                "ignoring alternate {}: outside the served folder (serve.allowed-paths)",
                real.display()
            );
            return;
        }
        let alternates = read_alternates(&real);
        if !alternates.is_empty() && depth > MAX_ALTERNATES_DEPTH {
            tracing::error!("{}: ignoring alternate object stores, nesting too deep", real.display());
            self.found.push(ObjectsDir::new(real, false, self.hash));
            return;
        }
        self.found.push(ObjectsDir::new(real, false, self.hash));
        for alternate in alternates {
            self.follow(&alternate, depth + 1);
        }
    }
}

/// The lines of `info/alternates` (gitrepository-layout): paths relative to the object directory, comments, quoted names.
fn read_alternates(objects: &Path) -> Vec<PathBuf> {
    let path = objects.join("info/alternates");
    match packrace_os::read_file(&path, Role::Config, MAX_ALTERNATES_BYTES) {
        Ok(text) => {
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
            lines.map(|line| objects.join(alternate_line(line))).collect()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!("unable to access '{}': {}", path.display(), packrace_os::reason(&error));
            Vec::new()
        }
    }
}

/// A badly quoted line is taken literally.
fn alternate_line(line: &[u8]) -> PathBuf {
    let quoted = line.strip_prefix(b"\"").and_then(unquote);
    path_of(quoted.map_or_else(|| line.to_vec(), |(path, _)| path))
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_alternates() {
        let check = |line: &str, expect: &str| {
            assert_eq!(alternate_line(line.as_bytes()), PathBuf::from(expect), "{line}");
        };
        check("/a b", "/a b");
        check(r#""/a\tb\"c\\d\303\244""#, "/a\tb\"c\\dä");
        check(r#""/never closed"#, r#""/never closed"#);
        check(r#""/bad \q""#, r#""/bad \q""#);
        check(r#""/bad \4""#, r#""/bad \4""#);
    }

    #[test]
    fn alternates_from_the_environment() {
        let check = |text: &str, expect: &[&str]| {
            let expect: Vec<PathBuf> = expect.iter().map(PathBuf::from).collect();
            assert_eq!(split_alternates(text.as_bytes()), expect, "{text}");
        };
        check("", &[]);
        check("/a:/b c::d", &["/a", "/b c", "d"]);
        check(r#""/a:\142":/c"#, &["/a:b", "/c"]);
        check(r#""/a:b"#, &["\"/a", "b"]);
    }

    /// As git 2.47 passes them to its hooks.
    #[test]
    fn alternates_for_the_environment() {
        let check = |paths: &[&str], expect: &str| {
            let text = join_alternates(paths.iter().map(Path::new));
            assert_eq!(text, expect);
            let back = split_alternates(text.as_encoded_bytes());
            assert_eq!(back, paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check(&[], "");
        check(&["/a b"], "/a b");
        check(&["/d:st.git/objects", "/d\"t.git", "c"], "\"/d:st.git/objects\":/d\"t.git:c");
        check(&["\"q", "/a\n:\\\u{e4}"], r#""\"q":"/a\n:\\\303\244""#);
    }
}
