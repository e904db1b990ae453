//! Moves a quarantine into the repository: content is made durable, files are named in the order in which
//! readers rely on them, names are made durable, then the proof is returned.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::durable::{self, ToSync};
use packrace_os::{EntryType, Mapped};

use super::{Quarantine, remove_tree};
use crate::error::{Error, Reason};
use crate::publish::{
    Component, ObjectsStored, Sharing, in_fan_out, make_durable_dir, make_fan_out, sync_loose, with_extension,
};

/// The files of a pack in naming order: those that mark it as special, the pack, and last the index, by
/// which it is found.
const EXTENSIONS: [&str; 7] = ["promisor", "keep", "pack", "rev", "mtimes", "bitmap", "idx"];

/// The objects that left a quarantine.
#[derive(Debug)]
pub struct Migrated {
    /// Lets refs name the objects.
    pub objects: ObjectsStored,
    /// New `.keep` files that came with packs. Whoever requested them removes them with [`Migrated::release`]
    /// once refs name the objects: until then no repack treats these as garbage.
    pub keeps: Vec<PathBuf>,
}

impl Migrated {
    /// Removes the `.keep` files.
    pub fn release(self) -> Result<(), Error> {
        self.keeps.iter().try_for_each(|keep| {
            durable::remove_file(keep, Role::Pack).map(drop).map_err(|error| Error::io(keep, error))
        })
    }
}

/// The contents of a quarantine that may leave it.
#[derive(Debug, Default)]
struct Staged {
    /// File names by directory name, sorted.
    loose: BTreeMap<String, Vec<String>>,
    /// Extensions by stem, in the order of [`EXTENSIONS`].
    packs: BTreeMap<String, Vec<&'static str>>,
}

/// A complete pack in a quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedPack {
    /// Its trailer.
    pub checksum: ObjectId,
    /// The path of its files, without extensions.
    pub stem: PathBuf,
}

impl Quarantine {
    /// The packs in it, for callers that move them elsewhere. Fails if there are loose objects, which
    /// hooks have stored.
    pub fn packs(&self) -> Result<Vec<StagedPack>, Error> {
        let staged = self.staged()?;
        if !staged.loose.is_empty() {
            let words = "a hook stored loose objects; repositories in a bucket do not support that";
            return Err(Reason::Refused(words.to_owned()).into());
        }
        let checksum = |stem: &str| ObjectId::from_hex(stem.strip_prefix("pack-")?.as_bytes()).ok();
        let packs = staged.packs.keys().map(|stem| {
            let path = self.pack_dir().join(stem);
            let checksum = checksum(stem).filter(|id| id.kind() == self.view.hash_kind());
            let damaged = || Reason::Damaged(format!("'{}' is called oddly", path.display()));
            Ok(StagedPack { checksum: checksum.ok_or_else(damaged)?, stem: path })
        });
        packs.collect()
    }

    /// Moves the objects into the repository. An existing file of the same name is kept, and made as durable
    /// as a moved one: its writer may not be done with it.
    ///
    /// After an error, files that already have their names in the repository stay, except `.keep` files:
    /// whole unreferenced objects do no harm. The quarantine is removed in any case.
    pub fn migrate(mut self) -> Result<Migrated, Error> {
        let staged = self.staged()?;
        self.settle(&staged)?;
        let mut keeps = Vec::new();
        let named = self.name_all(&staged, &mut keeps);
        let durable = named.and_then(|changed| changed.sync());
        if let Err(error) = durable {
            for keep in keeps {
                // Otherwise the pack could never be repacked. The first error is reported.
                let _ = durable::remove_file(&keep, Role::Pack);
            }
            return Err(error);
        }
        self.is_left = true;
        if let Err(error) = remove_tree(&self.dir) {
            tracing::warn!("unable to remove the quarantine: {error}");
        }
        Ok(Migrated { objects: ObjectsStored::published(), keeps })
    }

    fn staged(&self) -> Result<Staged, Error> {
        let mut staged = Staged::default();
        for dir in names(&self.dir, EntryType::Dir)? {
            let is_fan_out = dir.len() == 2 && is_lower_hex(&dir);
            let path = self.dir.join(&dir);
            if dir == "pack" {
                staged.add_packs(names(&path, EntryType::File)?);
            } else if is_fan_out {
                let mut files = names(&path, EntryType::File)?;
                let kind = self.view.hash_kind();
                files.retain(|name| {
                    let hex = format!("{dir}{name}");
                    is_lower_hex(name) && ObjectId::from_hex(hex.as_bytes()).is_ok_and(|id| id.kind() == kind)
                });
                staged.loose.insert(dir, files);
            }
        }
        staged.loose.retain(|_, files| !files.is_empty());
        Ok(staged)
    }

    /// Syncs all content that was not synced when written: files made by hooks.
    fn settle(&self, staged: &Staged) -> Result<(), Error> {
        let mut paths = Vec::new();
        if self.policy.syncs_in_full(Component::LooseObject) {
            paths.extend(staged.loose_files(&self.dir));
        }
        for (path, extension) in staged.pack_files(&self.dir) {
            let is_pack = matches!(extension, "pack" | "keep" | "promisor");
            let component = if is_pack { Component::Pack } else { Component::PackMetadata };
            if self.policy.syncs_in_full(component) {
                paths.push(path);
            }
        }
        paths.retain(|path| !self.is_settled(path));
        let to_sync = paths.iter().map(|path| ToSync::File(path)).collect();
        durable::sync_together(to_sync, Role::Objects).map_err(Error::sync)
    }

    fn name_all(&self, staged: &Staged, keeps: &mut Vec<PathBuf>) -> Result<Changed, Error> {
        let mut changed = Changed::default();
        for (dir, files) in &staged.loose {
            self.name_loose(dir, files, &mut changed)?;
        }
        if !staged.packs.is_empty() {
            let packs = self.home.join("pack");
            make_durable_dir_if_missing(&packs, self)?;
            for (stem, extensions) in &staged.packs {
                self.name_pack(stem, extensions, keeps)?;
            }
            if self.policy.syncs_in_full(Component::Pack) {
                changed.dirs.insert(packs);
            }
        }
        Ok(changed)
    }

    fn name_loose(&self, dir: &str, files: &[String], changed: &mut Changed) -> Result<(), Error> {
        let (from, to) = (self.dir.join(dir), self.home.join(dir));
        make_fan_out(&to, self.policy)?;
        let is_durable = self.policy.syncs_in_full(Component::LooseObject);
        for name in files {
            let (from, path) = (from.join(name), to.join(name));
            let is_new = in_fan_out(&to, self.policy, || self.give_name(&from, &path, Role::Objects))?;
            if !is_new {
                // Touch it, so that it is not removed as old. Only its owner may; for others its age
                // does not change.
                let _ = durable::touch(&path, Role::Objects);
                changed.files.extend(is_durable.then_some(path));
            }
        }
        if is_durable {
            changed.dirs.insert(to);
            // For the name of the directory, even if another process has just created it.
            changed.dirs.insert(self.home.clone());
        }
        Ok(())
    }

    fn name_pack(
        &self,
        stem: &str,
        extensions: &[&'static str],
        keeps: &mut Vec<PathBuf>,
    ) -> Result<(), Error> {
        let from = self.pack_dir().join(stem);
        let to = self.home.join("pack").join(stem);
        for extension in extensions {
            let (from, path) = (with_extension(&from, extension), with_extension(&to, extension));
            let is_new = self.give_name(&from, &path, Role::Pack)?;
            if is_new && *extension == "keep" {
                keeps.push(path);
            } else if !is_new && *extension == "pack" {
                check_same(&from, &path)?;
                let _ = durable::touch(&path, Role::Pack);
                if !extensions.contains(&"mtimes") {
                    // It is no longer a cruft pack, and its objects do not expire.
                    let mtimes = with_extension(&to, "mtimes");
                    durable::remove_file(&mtimes, Role::Index).map_err(|error| Error::io(&mtimes, error))?;
                }
            }
        }
        Ok(())
    }

    /// Whether the name was free.
    fn give_name(&self, from: &Path, to: &Path, role: Role) -> Result<bool, Error> {
        if self.policy.sharing() != Sharing::Umask {
            durable::change_mode(from, |mode| self.policy.file_mode(mode), role)
                .map_err(|error| Error::io(from, error))?;
        }
        let named = match role {
            Role::Objects => durable::rename_to_free_or_empty(from, to, role),
            _ => durable::rename_to_free(from, to, role),
        };
        named.map_err(|error| Error::io(to, error))
    }
}

impl Staged {
    fn add_packs(&mut self, mut names: Vec<String>) {
        names.sort_unstable();
        let has = |stem: &str, extension: &str| names.binary_search(&format!("{stem}.{extension}")).is_ok();
        for stem in names.iter().filter_map(|name| name.strip_suffix(".idx")) {
            if stem.starts_with("pack-") && has(stem, "pack") {
                let extensions = EXTENSIONS.into_iter().filter(|extension| has(stem, extension));
                self.packs.insert(stem.to_owned(), extensions.collect());
            }
        }
    }

    fn loose_files(&self, dir: &Path) -> impl Iterator<Item = PathBuf> {
        self.loose.iter().flat_map(move |(fan_out, files)| {
            let fan_out = dir.join(fan_out);
            files.iter().map(move |name| fan_out.join(name))
        })
    }

    fn pack_files(&self, dir: &Path) -> impl Iterator<Item = (PathBuf, &'static str)> {
        self.packs.iter().flat_map(move |(stem, extensions)| {
            let stem = dir.join("pack").join(stem);
            extensions.iter().map(move |extension| (with_extension(&stem, extension), *extension))
        })
    }
}

/// What is synced once all names are given.
#[derive(Debug, Default)]
struct Changed {
    dirs: BTreeSet<PathBuf>,
    /// Files that already existed.
    files: Vec<PathBuf>,
}

impl Changed {
    fn sync(&self) -> Result<(), Error> {
        let dirs = self.dirs.iter().map(PathBuf::as_path);
        sync_loose(dirs.collect(), self.files.iter().map(PathBuf::as_path).collect())
    }
}

/// Most repositories have a `pack` directory.
fn make_durable_dir_if_missing(dir: &Path, quarantine: &Quarantine) -> Result<(), Error> {
    let found = packrace_os::identity(dir, Role::Pack).map_err(|error| Error::io(dir, error))?;
    match found {
        Some(_) => Ok(()),
        None => make_durable_dir(dir, Role::Pack, quarantine.policy, Component::Pack),
    }
}

/// Compares an existing pack of the same name with ours: equal SHA-1 checksums do not prove equal content.
fn check_same(ours: &Path, theirs: &Path) -> Result<(), Error> {
    let map = |path: &Path| Mapped::open(path, Role::Pack).map_err(|error| Error::io(path, error));
    if *map(ours)? == *map(theirs)? {
        return Ok(());
    }
    let (ours, theirs) = (ours.display(), theirs.display());
    Err(Reason::Damaged(format!("files '{ours}' and '{theirs}' differ in contents")).into())
}

/// The names of entries of this kind, links not followed, in order; names that are not UTF-8 are skipped.
fn names(dir: &Path, kind: EntryType) -> Result<Vec<String>, Error> {
    let entries = packrace_os::list_dir(dir, Role::Objects).map_err(|error| Error::io(dir, error))?;
    let of_kind = entries.into_iter().filter(|entry| entry.kind == kind);
    Ok(of_kind.filter_map(|entry| entry.name.into_string().ok()).collect())
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
