//! The files that a session leaves. Where two runs left the same bytes, git says the same of them, and need not be asked.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::bufread::ZlibDecoder;

use crate::session::Case;

/// What of `state.sh` a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Objects,
    Index,
    /// Refs, logs, configuration and all other files of a repository.
    Repository,
    Work,
}

/// The files of a run, by their paths below its directory, without those that `state.sh` does not show.
#[derive(Debug)]
pub struct Left {
    place: PathBuf,
    hash_len: usize,
    files: BTreeMap<(Part, PathBuf), Vec<u8>>,
}

impl Left {
    /// Reads the files that the session of `case` left in `place/work`.
    pub fn read(place: &Path, case: &Case) -> io::Result<Left> {
        let mut found = Vec::new();
        find(&place.join("work"), &mut found)?;
        let repositories: Vec<PathBuf> = found.iter().filter_map(|file| repository_of(file)).collect();
        let mut files = BTreeMap::new();
        for file in found {
            let part = part(&file, &repositories);
            let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            let mut path = file.strip_prefix(place).expect("it is below").to_path_buf();
            let bytes = match part {
                Part::Work => in_work_tree(&file)?,
                Part::Repository if is_omitted(&path, &name, case) => continue,
                // Templates, of which `state.sh` shows the names.
                Part::Repository if file.ends_with("info/exclude") || name == "description" => Vec::new(),
                Part::Repository if file.with_file_name("tables.list").is_file() => {
                    match position_of_table(&file, &name)? {
                        Some(position) => path.set_file_name(position),
                        None => continue,
                    }
                    std::fs::read(&file)?
                }
                Part::Objects | Part::Index | Part::Repository => std::fs::read(&file)?,
            };
            files.insert((part, path), bytes);
        }
        Ok(Left { place: place.to_path_buf(), hash_len: case.hash_len(), files })
    }

    /// The file without what differs in two runs of git alone, too.
    fn comparable(&self, part: Part, file: &[u8]) -> Vec<u8> {
        match part {
            Part::Objects => inflated(file),
            Part::Index => without_stat_data(file, self.hash_len),
            Part::Repository | Part::Work => replaced(file, self.place.as_os_str().as_encoded_bytes()),
        }
    }

    fn is_same(&self, other: &Left, part: Part) -> bool {
        let of_part = |left: &Left| left.files.keys().filter(|(of, _)| *of == part).count();
        of_part(self) == of_part(other)
            && self.files.iter().filter(|((of, _), _)| *of == part).all(|(path, file)| {
                other.files.get(path).is_some_and(|theirs| {
                    file == theirs || self.comparable(part, file) == other.comparable(part, theirs)
                })
            })
    }

    /// The arguments with which `state.sh` omits what is the same; none if there is nothing else.
    pub fn same_as(&self, other: &Left) -> Option<Vec<&'static str>> {
        let is_same = |part| self.is_same(other, part);
        let (objects, index, repository) =
            (is_same(Part::Objects), is_same(Part::Index), is_same(Part::Repository));
        let work = is_same(Part::Work);
        // What git says of objects depends on what leads to them.
        let fsck = objects && index && repository;
        let omitted = [
            (objects, "no-objects"),
            (fsck, "no-fsck"),
            (index, "no-index"),
            (repository, "no-refs"),
            (repository, "no-logs"),
            (repository, "no-config"),
            (repository, "no-files"),
            (work, "no-work"),
        ];
        let words = omitted.iter().filter(|(is_same, _)| *is_same).map(|(_, word)| *word).collect::<Vec<_>>();
        (words.len() < omitted.len()).then_some(words)
    }
}

/// All files and symbolic links below a directory.
fn find(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find(&entry.path(), files)?;
        } else if kind.is_file() || kind.is_symlink() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The repository, or what a linked work tree has of one, that this file is the `HEAD` of.
fn repository_of(file: &Path) -> Option<PathBuf> {
    let dir = file.parent().filter(|_| file.ends_with("HEAD"))?;
    let is_whole = dir.join("objects").is_dir() && dir.join("refs").is_dir();
    (is_whole || dir.join("commondir").is_file()).then(|| dir.to_path_buf())
}

fn part(file: &Path, repositories: &[PathBuf]) -> Part {
    let inside = |repository: &PathBuf| file.strip_prefix(repository).ok();
    let Some(path) = repositories.iter().filter_map(inside).min_by_key(|path| path.as_os_str().len()) else {
        return Part::Work;
    };
    let name = path.to_string_lossy();
    if path.starts_with("objects") {
        Part::Objects
    } else if name == "index" || name.starts_with("sharedindex.") {
        Part::Index
    } else {
        Part::Repository
    }
}

/// Whether `state.sh` does not show a file of a repository, or not for this case.
fn is_omitted(path: &Path, name: &str, case: &Case) -> bool {
    let is_omitted = |what: &str| case.session.state.iter().any(|word| word == what);
    let is_pseudoref = name.ends_with("_HEAD") || name == "AUTO_MERGE";
    name.ends_with(".sample")
        || is_pseudoref && is_omitted("no-pseudorefs")
        || path.ends_with("logs/HEAD") && is_omitted("no-log-of-HEAD")
}

/// A table of refs is known by its place in the list of tables, as its name has a random part. The list itself has none.
fn position_of_table(file: &Path, name: &str) -> io::Result<Option<String>> {
    let list = std::fs::read_to_string(file.with_file_name("tables.list"))?;
    let position = list.lines().position(|table| table == name);
    Ok(match position {
        Some(position) => Some(format!("table {position}")),
        None if name == "tables.list" => None,
        None => Some(name.to_owned()),
    })
}

/// A file of a work tree: whether it is executable, and its bytes, or the target of a link.
fn in_work_tree(file: &Path) -> io::Result<Vec<u8>> {
    let meta = std::fs::symlink_metadata(file)?;
    if meta.is_symlink() {
        let target = std::fs::read_link(file)?;
        return Ok([b"-> ", target.as_os_str().as_encoded_bytes()].concat());
    }
    let mark: &[u8] = if meta.permissions().mode() & 0o111 == 0 { b"- " } else { b"x " };
    Ok([mark, &std::fs::read(file)?].concat())
}

/// A loose object without its compression; any other file as it is.
fn inflated(file: &[u8]) -> Vec<u8> {
    let mut decoder = ZlibDecoder::new(file);
    let mut object = Vec::new();
    match decoder.read_to_end(&mut object) {
        Ok(_) if decoder.total_in() == file.len() as u64 => object,
        _ => file.to_vec(),
    }
}

/// The text with `/HERE` for `place`.
fn replaced(file: &[u8], place: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(file.len());
    let mut rest = file;
    while let Some(&first) = rest.first() {
        match rest.strip_prefix(place) {
            Some(behind) => {
                text.extend_from_slice(b"/HERE");
                rest = behind;
            }
            None => {
                text.push(first);
                rest = &rest[1..];
            }
        }
    }
    text
}

/// An index with zeros for what it keeps of the times, devices, inodes and owners of files, and for its checksum.
/// A file of another form is as it was.
fn without_stat_data(index: &[u8], hash_len: usize) -> Vec<u8> {
    let mut masked = index.to_vec();
    match mask_stat_data(&mut masked, hash_len) {
        Some(()) => masked,
        None => index.to_vec(),
    }
}

fn mask_stat_data(index: &mut [u8], hash_len: usize) -> Option<()> {
    /// Seconds and nanoseconds of two times, a device and an inode; and, behind the mode, a user and a group.
    const MASKED: [std::ops::Range<usize>; 2] = [0..24, 28..36];
    const EXTENDED: u8 = 0x40;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    index.strip_prefix(b"DIRC")?;
    let version = number(index.get(4..8)?)?;
    let entries = number(index.get(8..12)?)?;
    let mut at = 12;
    for _ in 0..entries {
        let entry = index.get_mut(at..)?;
        for range in MASKED {
            entry.get_mut(range)?.fill(0);
        }
        let mut name = 40 + hash_len + 2;
        if entry.get(name - 2)? & EXTENDED != 0 {
            name += 2;
        }
        if version == 4 {
            // How much of the last name is cut off: the last byte of a number has no high bit.
            name += entry.get(name..)?.iter().position(|byte| byte & 0x80 == 0)? + 1;
        }
        let end = name + entry.get(name..)?.iter().position(|&byte| byte == 0)?;
        at += if version == 4 { end + 1 } else { (end + 8) & !7 };
    }
    let checksum = index.len().checked_sub(hash_len).filter(|checksum| *checksum >= at)?;
    index[checksum..].fill(0);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packrace_testkit::{Git, scratch_dir};

    #[test]
    fn two_runs_are_the_same_but_for_what_is_masked() {
        let run = |text: &str, version: &str| {
            let place = scratch_dir();
            let work = place.path().join("work");
            std::fs::create_dir(&work).expect("a directory");
            Git::stock().run(&work, &["init", "-q", "."]);
            for name in ["a", "b-with-a-longer-name"] {
                std::fs::write(work.join(name), text).expect("a file");
            }
            Git::stock().run(&work, &["add", "."]);
            Git::stock().run(&work, &["update-index", "--index-version", version]);
            place
        };
        let sessions = crate::session::parse("t", "## s\n# state: no-pseudorefs\ngit\n").expect("one");
        let case = sessions[0].cases().next().expect("one");
        let left = |place: &tempfile::TempDir| Left::read(place.path(), &case).expect("files");
        for version in ["2", "4"] {
            let (one, other) = (run("x\n", version), run("x\n", version));
            assert_eq!(left(&one).same_as(&left(&other)), None, "version {version}");
            std::fs::write(other.path().join("work/.git/ORIG_HEAD"), "omitted\n").expect("a file");
            std::fs::write(other.path().join("work/.git/description"), "another\n").expect("a file");
            assert_eq!(left(&one).same_as(&left(&other)), None, "not shown");
            std::fs::write(other.path().join("work/.git/HEAD"), "ref: refs/heads/b\n").expect("a file");
            let omitted = left(&one).same_as(&left(&other)).expect("another HEAD");
            assert_eq!(omitted, ["no-objects", "no-index", "no-work"]);
            let omitted = left(&one).same_as(&left(&run("y\n", version))).expect("other files");
            assert_eq!(omitted, ["no-refs", "no-logs", "no-config", "no-files"]);
        }
    }
}
