//! The only path on which a repository on disk changes: it is brought up to a head.
//!
//! ```text
//! directories ─ packs, each with its index last ─ tables ─ configuration, shallow list ─ tables.list
//!             ─ delete what the head does not name
//! ```
//!
//! A concurrent reader sees either the old or the new refs, and all objects of both.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use packrace_format::head::{Head, MAX_HEAD_BYTES, PackFileKind, StoredFile, StoredPack};
use packrace_format::reftable;
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::{durable, list_dir};
use packrace_store::refs::{STUB_HEAD, STUB_HEADS};

use super::fetch_error::FetchError;
use super::files::{
    FileReader, FilesAtHand, PUT_PREFIX, WantedFile, is_there, make_dirs, parts_of, put, put_if_other,
};
use super::parts;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::layout::BucketName;
use crate::repository::allowed_setting;

/// The directories of a repository, outermost first.
const DIRECTORIES: [&str; 6] = ["", "objects", "objects/pack", "objects/info", "refs", "reftable"];

/// The input of [`apply`].
pub(super) struct Change<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) name: &'a BucketName,
    /// The directory of all repositories.
    pub(super) top: &'a Path,
    /// The directory of this one.
    pub(super) dir: &'a Path,
    /// The head that the repository matches, as far as that is certain.
    pub(super) before: Option<&'a Head>,
    /// Files that need not be fetched.
    pub(super) at_hand: &'a FilesAtHand,
}

/// The files of a head, with their paths in a repository.
pub(crate) fn files(head: &Head) -> impl Iterator<Item = (String, &StoredFile, Role)> {
    let packs = head
        .packs
        .iter()
        .flat_map(|pack| pack.files.iter().map(|(kind, file)| (pack_path(pack, *kind), file, Role::Pack)));
    let tables = head.tables.iter().map(|table| (table_path(&table.name), &table.file, Role::Refs));
    packs.chain(tables)
}

/// The same to look them up.
pub(super) fn by_path(head: &Head) -> HashMap<String, &StoredFile> {
    files(head).map(|(path, file, _)| (path, file)).collect()
}

fn pack_path(pack: &StoredPack, kind: PackFileKind) -> String {
    format!("objects/pack/pack-{}.{}", pack.checksum, kind.extension())
}

fn table_path(name: &[u8]) -> String {
    format!("reftable/{}", String::from_utf8_lossy(name))
}

/// Whether a repository matches the head, by names and lengths.
pub(super) fn is_applied(dir: &Path, head: &Head) -> bool {
    let list = packrace_os::read_file(&dir.join("reftable/tables.list"), Role::Refs, MAX_HEAD_BYTES as u64);
    list.is_ok_and(|list| list == tables_list(head))
        && files(head).all(|(path, file, role)| is_there(&dir.join(path), file, false, role))
}

fn tables_list(head: &Head) -> Vec<u8> {
    reftable::format_list(head.tables.iter().map(|table| &table.name))
}

/// Makes a second repository from hard links to the files of one that matches the head.
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

/// Brings the repository up to the head.
pub(super) fn apply(change: &Change<'_>, head: &Head) -> Result<(), FetchError> {
    let Change { top, dir, .. } = change;
    for part in DIRECTORIES {
        make_dirs(top, dir.join(part).as_path())?;
    }
    let known = change.before.map(by_path).unwrap_or_default();
    // A named file was verified when it got its name, but two heads may use one name for different files. So
    // it is hashed unless the previous head names the same file.
    let lacks = |path: &str, file: &StoredFile, role: Role| {
        let is_known = known.get(path) == Some(&file);
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

/// The files of a head in the order in which they get their names: packs before tables, and the index of a
/// pack last. The files of one pack have the same number.
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

/// Compares with the files on disk, because a head may have been applied in part.
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

/// The configuration file. Settings that this version does not allow are left out.
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

/// Removes packs and tables that the head does not name, and temporary files of a killed process. The index
/// of a pack goes first.
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
