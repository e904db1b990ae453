//! The one way in which a repository on disk changes: it becomes what a head says.
//!
//! ```text
//! directories ─ packs, each with its index last ─ tables ─ configuration, shallow list ─ tables.list
//!             ─ what the head does not name goes
//! ```
//!
//! Whoever reads meanwhile sees the refs from before or those from after, and all objects of either.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use packrace_format::head::{Head, MAX_HEAD_BYTES, PackFileKind, StoredFile, StoredPack};
use packrace_format::reftable;
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::{durable, list_dir};

use super::files::{
    FetchError, FileReader, FilesAtHand, PUT_PREFIX, WantedFile, is_there, make_dirs, parts_of, put,
    put_if_other,
};
use super::parts;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::layout::BucketName;
use crate::repository::allowed_setting;

/// For versions of git that know no reftables: a repository, but one that they cannot read a ref of.
const STUB_HEAD: &[u8] = b"ref: refs/heads/.invalid\n";
const STUB_HEADS: &[u8] = b"this repository uses the reftable format\n";

/// Those of a repository, the outer ones first.
const DIRECTORIES: [&str; 6] = ["", "objects", "objects/pack", "objects/info", "refs", "reftable"];

/// What `apply` is told.
pub(super) struct Change<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) name: &'a BucketName,
    /// The directory of all repositories.
    pub(super) top: &'a Path,
    /// That of this one.
    pub(super) dir: &'a Path,
    /// What it is now, as far as that is certain.
    pub(super) before: Option<&'a Head>,
    /// What needs not be fetched.
    pub(super) at_hand: &'a FilesAtHand,
}

impl From<Error> for FetchError {
    fn from(error: Error) -> Self {
        FetchError::Other(error)
    }
}

/// The files of a head, each with the path that it has in a repository.
pub(crate) fn files(head: &Head) -> impl Iterator<Item = (String, &StoredFile, Role)> {
    let packs = head
        .packs
        .iter()
        .flat_map(|pack| pack.files.iter().map(|(kind, file)| (pack_path(pack, *kind), file, Role::Pack)));
    let tables = head.tables.iter().map(|table| (table_path(&table.name), &table.file, Role::Refs));
    packs.chain(tables)
}

fn pack_path(pack: &StoredPack, kind: PackFileKind) -> String {
    format!("objects/pack/pack-{}.{}", pack.checksum, kind.extension())
}

fn table_path(name: &[u8]) -> String {
    format!("reftable/{}", String::from_utf8_lossy(name))
}

/// Whether a repository is what the head says, as far as names and lengths tell.
pub(super) fn is_applied(dir: &Path, head: &Head) -> bool {
    let list = packrace_os::read_file(&dir.join("reftable/tables.list"), Role::Refs, MAX_HEAD_BYTES as u64);
    list.is_ok_and(|list| list == tables_list(head))
        && files(head).all(|(path, file, role)| is_there(&dir.join(path), file, false, role))
}

fn tables_list(head: &Head) -> Vec<u8> {
    reftable::format_list(head.tables.iter().map(|table| &table.name))
}

/// Makes a second repository of the files of one that is what the head says: each has two names then.
pub(super) fn link(top: &Path, from: &Path, dir: &Path, head: &Head) -> Result<(), Error> {
    for part in DIRECTORIES {
        make_dirs(top, dir.join(part).as_path())?;
    }
    for (path, _, role) in files(head) {
        let from = from.join(&path);
        durable::link_file(&from, &dir.join(&path), role).map_err(|error| Error::disk(&from, &error))?;
    }
    write_settings(dir, head)?;
    put(&dir.join("reftable/tables.list"), &tables_list(head), Role::Refs)
}

/// Makes the repository what the head says.
pub(super) fn apply(change: &Change<'_>, head: &Head) -> Result<(), FetchError> {
    let Change { top, dir, .. } = change;
    for part in DIRECTORIES {
        make_dirs(top, dir.join(part).as_path())?;
    }
    let known: HashSet<(String, &StoredFile)> = match change.before {
        Some(before) => files(before).map(|(path, file, _)| (path, file)).collect(),
        None => HashSet::new(),
    };
    // What is under a name was right when it got it; but two heads may give one name to different files.
    let lacks = |path: &str, file: &StoredFile, role: Role| {
        let is_known = known.contains(&(path.to_owned(), file));
        !is_there(&dir.join(path), file, !is_known, role)
    };
    let wanted: Vec<WantedFile<'_>> = grouped(head)
        .filter(|(path, file, role, _)| lacks(path, file, *role))
        .map(|(path, file, role, group)| WantedFile::new(file, dir.join(path), role, group, change.at_hand))
        .collect();
    let parts = parts_of(&wanted);
    parts::read(change.bucket, change.name, &parts, |parts| {
        let mut reader = FileReader::new(parts, change.name);
        for group in wanted.chunk_by(|one, next| one.group == next.group) {
            let files = group.iter().map(|wanted| reader.take(wanted)).collect::<Result<Vec<_>, _>>()?;
            for (file, wanted) in files.into_iter().zip(group) {
                file.replace(&wanted.path)?;
            }
        }
        Ok(())
    })?;
    write_settings(dir, head)?;
    put(&dir.join("reftable/tables.list"), &tables_list(head), Role::Refs)?;
    Ok(())
}

/// The files of a head in the order in which they get their names: of a pack, the index last; packs before tables. Those of one pack have
/// the same number.
fn grouped(head: &Head) -> impl Iterator<Item = (String, &StoredFile, Role, usize)> {
    let packs = head.packs.iter().enumerate().flat_map(|(group, pack)| {
        let mut files: Vec<_> = pack.files.iter().collect();
        files.sort_by_key(|(kind, _)| PackFileKind::ALL.iter().position(|other| other == kind));
        files.into_iter().map(move |(kind, file)| (pack_path(pack, *kind), file, Role::Pack, group))
    });
    let tables = head
        .tables
        .iter()
        .enumerate()
        .map(|(at, table)| (table_path(&table.name), &table.file, Role::Refs, head.packs.len() + at));
    packs.chain(tables)
}

/// What is there may be of a head that was applied in part, so the files themselves are compared.
fn write_settings(dir: &Path, head: &Head) -> Result<(), Error> {
    put_if_other(&dir.join("refs/heads"), STUB_HEADS, Role::Refs)?;
    put_if_other(&dir.join("config"), &config_text(head), Role::Config)?;
    let path = dir.join("shallow");
    let lines: String = head.shallow.iter().map(|id| format!("{id}\n")).collect();
    match head.shallow.is_empty() {
        true => {
            durable::remove_file(&path, Role::Config).map_err(|error| Error::disk(&path, &error))?;
        }
        false => put_if_other(&path, lines.as_bytes(), Role::Config)?,
    }
    put_if_other(&dir.join("HEAD"), STUB_HEAD, Role::Refs)
}

/// A configuration file. Settings that this version does not allow are left out.
fn config_text(head: &Head) -> Vec<u8> {
    let mut text = String::from("[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n");
    text.push_str("[extensions]\n\trefstorage = reftable\n");
    if head.hash == HashKind::Sha256 {
        text.push_str("\tobjectformat = sha256\n");
    }
    let mut bytes = text.into_bytes();
    for (name, value) in &head.config {
        let mut parts = name.splitn(2, |byte| *byte == b'.');
        let (Some(section), Some(key), true) = (parts.next(), parts.next(), allowed_setting(name)) else {
            let name = name.escape_ascii();
            tracing::warn!("ignoring {name} in a head: setting not allowed");
            continue;
        };
        let mut line = String::new();
        let _ = write!(line, "[{}]\n\t{} = \"", section.escape_ascii(), key.escape_ascii());
        bytes.extend_from_slice(line.as_bytes());
        for byte in value {
            match byte {
                b'"' | b'\\' => bytes.extend_from_slice(&[b'\\', *byte]),
                b'\n' => bytes.extend_from_slice(b"\\n"),
                byte => bytes.push(*byte),
            }
        }
        bytes.extend_from_slice(b"\"\n");
    }
    bytes
}

/// Removes packs and tables that the head does not name, and what a kill has left; of packs, the index first.
pub(super) fn remove_others(dir: &Path, head: &Head) -> Result<(), Error> {
    let named: HashSet<String> = files(head).map(|(path, _, _)| path).collect();
    let is_left = |folder: &str, name: &str| match folder {
        "" | "refs" => name.starts_with(PUT_PREFIX),
        _ => name != "tables.list" && !named.contains(&format!("{folder}/{name}")),
    };
    let folders =
        [("objects/pack", Role::Pack), ("reftable", Role::Refs), ("refs", Role::Refs), ("", Role::Config)];
    for (folder, role) in folders {
        let path = dir.join(folder);
        let mut entries = list_dir(&path, role).map_err(|error| Error::disk(&path, &error))?;
        entries.sort_by_key(|entry| !entry.name.as_encoded_bytes().ends_with(b".idx"));
        for entry in entries {
            if is_left(folder, &entry.name.to_string_lossy()) {
                let path = path.join(&entry.name);
                durable::remove_file(&path, role).map_err(|error| Error::disk(&path, &error))?;
            }
        }
    }
    Ok(())
}
