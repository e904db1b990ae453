//! The files backend (gitrepository-layout, "refs" and "packed-refs"): a loose file wins over a packed ref.
//!
//! Loose refs are read before `packed-refs` is mapped: `git pack-refs` writes the packed file before it
//! removes loose refs, so the later read always finds the ref.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use packrace_format::packed_refs::{PackedRef, Peeled};
use packrace_object::{HashKind, ObjectId, StoredId};
use packrace_os::count::Role;
use packrace_os::{EntryType, FileIdentity, FileOrLink, is_absent};

use super::packed_file::PackedFile;
use super::reflog::{self, LoggedChange};
use super::stamp::StampBuilder;
use super::{NameRange, RefDirs, RefError, StoredRef, Target, Value, is_good_name, is_per_worktree, traced};

/// Longest loose ref: an id, or `ref: ` and a name.
const MAX_LOOSE_BYTES: u64 = 64 << 10;

/// Longest reflog that is read: some millions of lines.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Longest name of a directory of refs: longer than any path.
const MAX_NAME_BYTES: usize = 4096;

/// The value of a loose ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LooseValue {
    Direct(ObjectId),
    Symbolic(Vec<u8>),
}

impl LooseValue {
    fn target(&self) -> Target<'_> {
        match self {
            LooseValue::Direct(id) => Target::Direct { id: *id, peeled: Peeled::Unknown },
            LooseValue::Symbolic(target) => Target::Symbolic(target),
        }
    }

    fn stored<'a>(&'a self, name: &'a [u8]) -> StoredRef<'a> {
        let target = match self {
            LooseValue::Direct(id) => Target::Direct { id: StoredId::from(id), peeled: Peeled::Unknown },
            LooseValue::Symbolic(target) => Target::Symbolic(target),
        };
        StoredRef { name, target }
    }
}

/// What exists at the path of a loose ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LooseFile {
    /// Nothing, or a directory.
    Absent,
    /// A file that cannot be parsed.
    Broken,
    /// A symbolic link that leads to itself.
    Looped,
    /// A ref.
    Is(LooseValue),
}

/// Reads one loose ref.
pub(super) fn read_loose(dirs: &RefDirs, name: &[u8], hash: HashKind) -> Result<LooseFile, RefError> {
    read_loose_noting(dirs, name, hash, &mut || {})
}

/// As above; calls `on_link` if there is a symbolic link. One whose target is the name of a ref is a symbolic ref, the old
/// form (`core.preferSymlinkRefs`); others are followed, as in git.
pub(super) fn read_loose_noting(
    dirs: &RefDirs,
    name: &[u8],
    hash: HashKind,
    on_link: &mut dyn FnMut(),
) -> Result<LooseFile, RefError> {
    let path = dirs.path_of(name);
    let read = match packrace_os::read_file_or_link(&path, Role::Refs, MAX_LOOSE_BYTES) {
        Ok(FileOrLink::File(bytes)) => Ok(bytes),
        Ok(FileOrLink::Link(target)) => {
            on_link();
            let target = target.into_os_string().into_vec();
            if target.starts_with(b"refs/") && is_good_name(&target) {
                return Ok(LooseFile::Is(LooseValue::Symbolic(target)));
            }
            packrace_os::read_file(&path, Role::Refs, MAX_LOOSE_BYTES)
        }
        Err(error) => Err(error),
    };
    match read {
        Ok(bytes) => Ok(parse_loose(&bytes, hash).map_or(LooseFile::Broken, LooseFile::Is)),
        Err(error) if packrace_os::is_loop(&error) => Ok(LooseFile::Looped),
        Err(error) if is_absent(&error) || error.kind() == std::io::ErrorKind::IsADirectory => {
            Ok(LooseFile::Absent)
        }
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Ok(LooseFile::Broken),
        Err(source) => Err(RefError::Io { path, source }),
    }
}

/// Reads one ref, whose name stays inside; `packed-refs` only if there is no loose one.
pub(super) fn read_one(dirs: &RefDirs, name: &[u8], hash: HashKind) -> Result<Option<Value>, RefError> {
    read_beside(dirs, name, hash, read_loose(dirs, name, hash)?)
}

/// The same if its file was read already.
pub(super) fn read_beside(
    dirs: &RefDirs,
    name: &[u8],
    hash: HashKind,
    loose: LooseFile,
) -> Result<Option<Value>, RefError> {
    let is_packed = loose == LooseFile::Absent;
    let found = match loose {
        LooseFile::Is(LooseValue::Direct(id)) => Some(Value::Id(id)),
        LooseFile::Is(LooseValue::Symbolic(target)) => Some(Value::Symbolic(target)),
        LooseFile::Absent => PackedFile::read(dirs, hash)?.find(name)?.map(|(id, _)| Value::Id(id)),
        // Only lists of refs tell of broken ones, as in git.
        LooseFile::Broken | LooseFile::Looped => None,
    };
    traced::looked_up(name, found.as_ref(), is_packed);
    Ok(found)
}

/// All loose refs below `refs/` that are not symbolic.
pub(super) fn direct_loose(dirs: &RefDirs, hash: HashKind) -> Result<BTreeMap<Vec<u8>, ObjectId>, RefError> {
    let mut nobody = StampBuilder::off();
    let mut loose = LooseRefs::none(dirs, hash, &mut nobody);
    loose.read(&[])?;
    let direct = loose.found.into_iter().filter_map(|(name, loose)| match loose {
        LooseValue::Direct(id) if name.starts_with(b"refs/") => Some((name, id)),
        _ => None,
    });
    Ok(direct.collect())
}

/// The entries of a reflog, oldest first; `None` if there is none.
pub(super) fn read_log(
    dirs: &RefDirs,
    name: &[u8],
    hash: HashKind,
) -> Result<Option<Vec<LoggedChange>>, RefError> {
    let path = dirs.log_of(name);
    match packrace_os::read_file(&path, Role::Refs, MAX_LOG_BYTES) {
        Ok(bytes) => Ok(Some(reflog::parse_lines(&bytes, hash))),
        Err(error) if is_absent(&error) || error.kind() == std::io::ErrorKind::IsADirectory => Ok(None),
        Err(source) => Err(RefError::Io { path, source }),
    }
}

/// The names of refs that have reflogs, sorted.
pub(super) fn logged_names(dirs: &RefDirs) -> Result<Vec<Vec<u8>>, RefError> {
    let mut names = Vec::new();
    let is_linked = dirs.git_dir != dirs.common_dir;
    add_logged(&dirs.git_dir.join("logs"), b"", &mut names)?;
    if is_linked {
        names.retain(|name| is_per_worktree(name));
        let mut common = Vec::new();
        add_logged(&dirs.common_dir.join("logs/refs"), b"refs/", &mut common)?;
        names.extend(common.into_iter().filter(|name| !is_per_worktree(name)));
    }
    names.retain(|name| is_good_name(name));
    names.sort_unstable();
    Ok(names)
}

fn add_logged(dir: &Path, prefix: &[u8], names: &mut Vec<Vec<u8>>) -> Result<(), RefError> {
    let entries = match packrace_os::list_dir(dir, Role::Refs) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(source) => return Err(RefError::Io { path: dir.to_owned(), source }),
    };
    for entry in entries {
        let path = dir.join(&entry.name);
        let name = [prefix, &entry.name.into_vec()].concat();
        match entry.kind {
            EntryType::Dir if name.len() < MAX_NAME_BYTES => {
                add_logged(&path, &[name.as_slice(), b"/"].concat(), names)?;
            }
            EntryType::File => names.push(name),
            _ => {}
        }
    }
    Ok(())
}

/// The names of all files in the directory of a work tree.
pub(super) fn root_names(dirs: &RefDirs) -> Result<Vec<Vec<u8>>, RefError> {
    let path = dirs.git_dir.clone();
    let entries = packrace_os::list_dir(&path, Role::Refs).map_err(|source| RefError::Io { path, source })?;
    let files =
        entries.into_iter().filter(|entry| matches!(entry.kind, EntryType::File | EntryType::Symlink));
    Ok(files.map(|entry| entry.name.into_vec()).collect())
}

#[derive(Debug)]
pub(super) struct RefFiles {
    loose: BTreeMap<Vec<u8>, LooseValue>,
    /// Loose refs of bad names or values. Packed refs of the same names are out of date.
    pub(super) broken: BTreeSet<Vec<u8>>,
    packed: PackedFile,
}

impl RefFiles {
    /// Reports every name to `builder` before reading it, except `packed-refs`.
    pub(super) fn read(
        dirs: &RefDirs,
        prefixes: &[&[u8]],
        hash: HashKind,
        builder: &mut StampBuilder,
    ) -> Result<Self, RefError> {
        let mut loose = LooseRefs::none(dirs, hash, builder);
        loose.read(prefixes)?;
        let LooseRefs { found, broken, .. } = loose;
        Ok(RefFiles { loose: found, broken, packed: PackedFile::read(dirs, hash)? })
    }

    /// Reports broken loose refs whose names start with one of `prefixes`, or all.
    pub(super) fn warn_of_broken(&self, prefixes: &[&[u8]]) {
        let is_asked =
            |name: &[u8]| prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix));
        self.broken.iter().filter(|name| is_asked(name)).for_each(|name| warn_of_broken(name));
    }

    /// The identity of `packed-refs` before it was opened.
    pub(super) fn packed_identity(&self) -> Option<FileIdentity> {
        self.packed.identity
    }

    /// Whether a file stands for the ref, whatever `packed-refs` says.
    pub(super) fn is_loose(&self, name: &[u8]) -> bool {
        self.loose.contains_key(name) || self.broken.contains(name)
    }

    pub(super) fn find(&self, name: &[u8]) -> Result<Option<Target<'_>>, RefError> {
        if let Some(loose) = self.loose.get(name) {
            return Ok(Some(loose.target()));
        }
        if self.broken.contains(name) {
            return Ok(None);
        }
        let found = self.packed.find(name)?;
        Ok(found.map(|(id, peeled)| Target::Direct { id, peeled }))
    }

    /// Merges loose and packed refs by name.
    pub(super) fn visit(
        &self,
        range: &NameRange,
        mut each: impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        let bounds = (Included(&range.start), range.end.as_ref().map_or(Unbounded, Excluded));
        let mut loose = self.loose.range::<Vec<u8>, _>(bounds).peekable();
        if let Some(packed) = &self.packed.refs {
            // Read from the start: a search could miss refs that are out of order in a damaged file.
            let is_all = *range == NameRange::of_prefix(b"refs/");
            for found in if is_all { packed.iter_from(b"") } else { packed.iter_range(range) } {
                let PackedRef { name, id, peeled } = found.map_err(|source| self.packed.damaged(source))?;
                if !name.starts_with(b"refs/") {
                    self.packed.check_name(name)?;
                    continue;
                }
                let mut is_shadowed = !self.broken.is_empty() && self.broken.contains(name);
                while let Some((loose_name, found)) = loose.next_if(|(next, _)| next.as_slice() <= name) {
                    is_shadowed |= loose_name == name;
                    if each(found.stored(loose_name)).is_break() {
                        return Ok(());
                    }
                }
                let target = Target::Direct { id, peeled };
                if !is_shadowed && each(StoredRef { name, target }).is_break() {
                    return Ok(());
                }
            }
        }
        for (name, found) in loose {
            if each(found.stored(name)).is_break() {
                return Ok(());
            }
        }
        self.packed.check()
    }

    /// An error if `packed-refs` is damaged, or was changed in place since it was mapped.
    pub(super) fn check_unchanged(&self) -> Result<(), RefError> {
        self.packed.check_unchanged()
    }
}

/// Loose refs while they are read.
struct LooseRefs<'a> {
    dirs: &'a RefDirs,
    hash: HashKind,
    found: BTreeMap<Vec<u8>, LooseValue>,
    broken: BTreeSet<Vec<u8>>,
    /// Gets every name before it is read.
    builder: &'a mut StampBuilder,
}

impl<'a> LooseRefs<'a> {
    fn none(dirs: &'a RefDirs, hash: HashKind, builder: &'a mut StampBuilder) -> Self {
        LooseRefs { dirs, hash, found: BTreeMap::new(), broken: BTreeSet::new(), builder }
    }

    /// Reads `HEAD`, every loose ref below the prefixes, and the targets of symbolic refs among them.
    fn read(&mut self, prefixes: &[&[u8]]) -> Result<(), RefError> {
        let all: [&[u8]; 1] = [b"refs/"];
        for prefix in if prefixes.is_empty() { &all } else { prefixes } {
            let end = prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            // A prefix shorter than `refs/` selects everything.
            let directory: &[u8] = match () {
                () if b"refs/".starts_with(prefix) => b"refs/",
                // Prefixes come from clients: `refs/../../` must not escape.
                () if prefix.starts_with(b"refs/") && is_good_directory(&prefix[..end]) => &prefix[..end],
                () => continue,
            };
            self.read_directory(directory, prefix, &mut Vec::new())?;
            if self.dirs.git_dir != self.dirs.common_dir {
                for own in [&b"refs/bisect/"[..], b"refs/worktree/", b"refs/rewritten/"] {
                    if own.starts_with(prefix) {
                        self.read_directory(own, prefix, &mut Vec::new())?;
                    }
                }
            }
        }
        self.read_chain(b"HEAD".to_vec())?;
        let targets: Vec<Vec<u8>> = self
            .found
            .values()
            .filter_map(|loose| match loose {
                LooseValue::Symbolic(target) => Some(target.clone()),
                LooseValue::Direct(_) => None,
            })
            .collect();
        targets.into_iter().try_for_each(|target| self.read_chain(target))
    }

    /// Reads a ref and follows it while it is symbolic and loose.
    fn read_chain(&mut self, mut name: Vec<u8>) -> Result<(), RefError> {
        for _ in 0..=super::MAX_SYMREF_DEPTH {
            if !self.found.contains_key(&name) && !self.broken.contains(&name) {
                if !is_good_name(&name) {
                    return Ok(());
                }
                self.read_file(name.clone())?;
            }
            match self.found.get(&name) {
                Some(LooseValue::Symbolic(target)) => name = target.clone(),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Reads what is below `name` and has the prefix. `via`: real paths of the links entered on the way.
    fn read_directory(&mut self, name: &[u8], prefix: &[u8], via: &mut Vec<PathBuf>) -> Result<(), RefError> {
        let path = self.dirs.path_of(name);
        self.builder.look_ref(name);
        let entries = match packrace_os::list_dir(&path, Role::Refs) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(source) => return Err(RefError::Io { path, source }),
        };
        for entry in entries {
            let entry_name = entry.name.into_vec();
            if entry_name.ends_with(b".lock") || entry_name.starts_with(b".") {
                continue;
            }
            let mut full_name = [name, &entry_name].concat();
            if !full_name.starts_with(prefix) && !prefix.starts_with(&full_name) {
                continue;
            }
            let is_directory = match entry.kind {
                EntryType::Dir => true,
                // A link to a directory is a directory of refs, as in git.
                EntryType::Symlink => {
                    self.builder.doubt();
                    match packrace_os::identity(&self.dirs.path_of(&full_name), Role::Refs) {
                        Ok(Some(file)) if file.is_dir => true,
                        Ok(Some(file)) if file.is_file => false,
                        _ => continue,
                    }
                }
                EntryType::File => false,
                EntryType::Other => continue,
            };
            if is_directory && full_name.len() < MAX_NAME_BYTES {
                let is_link = entry.kind == EntryType::Symlink;
                if is_link && !self.enter_link(&full_name, via) {
                    continue;
                }
                full_name.push(b'/');
                self.read_directory(&full_name, prefix, via)?;
                if is_link {
                    via.pop();
                }
            } else if !is_directory && full_name.starts_with(prefix) {
                if is_good_name(&full_name) {
                    self.read_file(full_name)?;
                } else {
                    self.broken.insert(full_name);
                }
            }
        }
        Ok(())
    }

    /// Records the target of a link to a directory; false if it leads back to a directory above, an endless
    /// cycle. Git follows it until the system refuses, and lists the same refs under dozens of names.
    fn enter_link(&self, name: &[u8], via: &mut Vec<PathBuf>) -> bool {
        let path = self.dirs.path_of(name);
        let parent = path.parent().map(packrace_os::real_path);
        let (Ok(real), Some(Ok(parent))) = (packrace_os::real_path(&path), parent) else { return false };
        let is_round = parent.starts_with(&real) || via.iter().any(|above| above.starts_with(&real));
        if !is_round {
            via.push(real);
        }
        !is_round
    }

    /// Reads a loose ref, if it exists.
    fn read_file(&mut self, name: Vec<u8>) -> Result<(), RefError> {
        self.builder.look_ref(&name);
        // A changed link target does not show in anything that is checked.
        let builder = &mut *self.builder;
        match read_loose_noting(self.dirs, &name, self.hash, &mut || builder.doubt())? {
            LooseFile::Is(loose) => drop(self.found.insert(name, loose)),
            LooseFile::Broken => {
                self.broken.insert(name);
            }
            LooseFile::Absent | LooseFile::Looped => {}
        }
        Ok(())
    }
}

/// Reports a ref that git refuses, for its name or its value.
#[cold]
pub(super) fn warn_of_broken(name: &[u8]) {
    let shown = String::from_utf8_lossy(name);
    match is_good_name(name) {
        true => tracing::warn!("ignoring broken ref {shown}"),
        false => tracing::warn!("ignoring ref with broken name {shown}"),
    }
}

fn is_good_directory(name: &[u8]) -> bool {
    name == b"refs/" || name.strip_suffix(b"/").is_some_and(is_good_name)
}

fn parse_loose(bytes: &[u8], hash: HashKind) -> Option<LooseValue> {
    if let Some(target) = bytes.strip_prefix(b"ref:") {
        // As in git, nothing is a target too, of which there is no ref: such a ref dangles.
        return Some(LooseValue::Symbolic(target.trim_ascii().to_vec()));
    }
    let hex = bytes.get(..hash.len_in_hex())?;
    let is_ended = bytes.get(hex.len()).is_none_or(u8::is_ascii_whitespace);
    ObjectId::from_hex(hex).ok().filter(|_| is_ended).map(LooseValue::Direct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_files() {
        let id = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        let direct = Some(LooseValue::Direct(ObjectId::from_hex(id.as_bytes()).unwrap()));
        let check = |text: String, expect: Option<LooseValue>| {
            assert_eq!(parse_loose(text.as_bytes(), HashKind::Sha1), expect, "{text:?}")
        };
        check(format!("{id}\n"), direct.clone());
        check(id.to_owned(), direct.clone());
        check(format!("{id} trailing\n"), direct);
        check(format!("{id}a\n"), None);
        check("ref: refs/heads/main\n".into(), Some(LooseValue::Symbolic(b"refs/heads/main".to_vec())));
        check("ref:refs/heads/main".into(), Some(LooseValue::Symbolic(b"refs/heads/main".to_vec())));
        check("ref: \n".into(), Some(LooseValue::Symbolic(Vec::new())));
        check(String::new(), None);
        check("abc\n".into(), None);
    }

    /// These must neither hang nor fail, nor hide neighbouring refs.
    #[test]
    fn circles_pipes_and_long_names() {
        use std::os::unix::fs::symlink;
        let dir = packrace_testkit::scratch_dir();
        let path = dir.path();
        let id = ObjectId::from_hex(&[b'a'; 40]).unwrap();
        std::fs::create_dir_all(path.join("refs/heads/real")).unwrap();
        std::fs::write(path.join("HEAD"), "ref: refs/heads/pipe\n").unwrap();
        std::fs::write(path.join("refs/heads/real/main"), format!("{id}\n")).unwrap();
        std::fs::write(path.join("refs/heads/long"), format!("ref: refs/heads/{}\n", "x".repeat(300)))
            .unwrap();
        symlink("circle", path.join("refs/heads/circle")).unwrap();
        std::fs::write(path.join("refs/heads/to-circle"), "ref: refs/heads/circle\n").unwrap();
        for name in ["a", "b", "c"] {
            symlink(".", path.join("refs/heads").join(name)).unwrap();
            symlink("heads", path.join("refs").join(name)).unwrap();
            symlink("..", path.join("refs/heads/real").join(name)).unwrap();
        }
        let pipe = path.join("refs/heads/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        symlink("pipe", path.join("refs/heads/to-pipe")).unwrap();

        let dirs = RefDirs::of(path.into(), path.into());
        let long = format!("refs/heads/{}/", "x".repeat(300));
        let prefixes = [b"refs/heads/".as_slice(), long.as_bytes(), b"refs/a/"];
        let files = RefFiles::read(&dirs, &prefixes, HashKind::Sha1, &mut StampBuilder::off()).unwrap();
        let direct: Vec<&[u8]> = files
            .loose
            .iter()
            .filter(|(_, loose)| matches!(loose, LooseValue::Direct(_)))
            .map(|(name, _)| name.as_slice())
            .collect();
        assert_eq!(direct, [b"refs/a/real/main".as_slice(), b"refs/heads/real/main"]);
        let all = RefFiles::read(&dirs, &[], HashKind::Sha1, &mut StampBuilder::off()).unwrap();
        assert_eq!(all.loose.values().filter(|loose| matches!(loose, LooseValue::Direct(_))).count(), 4);
    }
}
