//! The packs of one object directory, cached for the next snapshot.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use packrace_format::multi_pack_index::MultiPackIndex;
use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::{FileIdentity, Mapped, clock};

use crate::error::Error;
use crate::objects::multi_pack_index::{self, OpenMultiPackIndex};
use crate::objects::objects_dir::{MIDX_CHAIN_DIR, ObjectsDir};
use crate::objects::pack::{Beside, ListedPack, PackFiles};
use crate::objects::pack_finder::{Finder, Index};

/// How often packs are listed again because one vanished between listing and opening.
const MAX_LISTINGS: usize = 5;

/// The packs of one object directory.
#[derive(Debug)]
pub(crate) struct PackDir {
    /// Newest first.
    pub(crate) packs: Vec<(Arc<PackFiles>, Beside)>,
    pub(crate) multi: Option<Multi>,
    /// The packs outside the multi-pack-index; all if there is none.
    pub(crate) uncovered: Vec<usize>,
    /// Searches the multi-pack-index, then the uncovered packs.
    pub(crate) finder: Finder,
    uses_multi: bool,
    /// Whether there is a directory for a chain of multi-pack-indexes, and they are used.
    has_chain_dir: bool,
    hash: HashKind,
    /// The state of the directory just before it was listed.
    identity: Option<FileIdentity>,
    /// Whether every change since then is visible in `identity`.
    is_settled: bool,
    /// Whether every listed pack could be opened as far as needed.
    has_all: bool,
}

/// A multi-pack-index whose packs all exist.
#[derive(Debug)]
pub(crate) struct Multi {
    pub(crate) opened: OpenMultiPackIndex,
    /// The packs by their numbers in the index.
    pub(crate) packs: Vec<usize>,
}

/// Pack directories already read, by object directory. A repository shares them with its quarantines, and a
/// server passes them on when it reopens a repository.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackDirs(Arc<Mutex<HashMap<PathBuf, Arc<PackDir>>>>);

impl PackDirs {
    /// The current packs of a directory.
    pub(crate) fn open(
        &self,
        dir: &ObjectsDir,
        hash: HashKind,
        uses_multi: bool,
    ) -> Result<Arc<PackDir>, Error> {
        let known = self.lock().get(dir.path()).cloned();
        let known =
            known.filter(|known| known.hash == hash && known.uses_multi == uses_multi && !known.is_damaged());
        let opened = PackDir::open(dir, hash, uses_multi, known.as_ref())?;
        // The replaced value is dropped without the lock.
        let _before = self.lock().insert(dir.path().to_owned(), opened.clone());
        Ok(opened)
    }

    /// Adds the directories of `before`.
    pub(crate) fn take_over(&self, before: &PackDirs) {
        let known = before.lock().clone();
        self.lock().extend(known);
    }

    /// Releases a removed directory.
    pub(crate) fn forget(&self, objects: &Path) {
        let _before = self.lock().remove(objects);
    }

    /// Releases directories that have changed, and deleted files in them.
    pub(crate) fn forget_changed(&self) {
        let known: Vec<(PathBuf, Arc<PackDir>)> =
            self.lock().iter().map(|(path, dir)| (path.clone(), dir.clone())).collect();
        for (path, dir) in known {
            let now = packrace_os::identity(&path.join("pack"), Role::Pack).ok().flatten();
            if now != dir.identity {
                self.forget(&path);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<PackDir>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PackDir {
    /// Lists the directory, unless `known` is still current, and examines the indexes needed to number
    /// objects. Packs that cannot be examined are reported and skipped.
    fn open(
        dir: &ObjectsDir,
        hash: HashKind,
        uses_multi: bool,
        known: Option<&Arc<PackDir>>,
    ) -> Result<Arc<Self>, Error> {
        let path = dir.pack_dir();
        let looked = clock::time_of_day();
        let identity = match packrace_os::identity(&path, Role::Pack) {
            Ok(identity) => identity,
            // Listing it reports this error.
            Err(_) if !dir.is_local => None,
            Err(error) => return Err(Error::io(path, error)),
        };
        let is_same = |known: &&Arc<PackDir>| {
            known.is_settled && known.identity == identity && known.is_whole() && !known.has_new_chain(&path)
        };
        if let Some(known) = known.filter(is_same) {
            return Ok(known.clone());
        }
        let is_settled = identity.is_some_and(|dir| dir.is_settled(looked));
        let mut opened = PackDir {
            packs: Vec::new(),
            multi: None,
            uncovered: Vec::new(),
            finder: Finder::new(&[], None),
            uses_multi,
            has_chain_dir: false,
            hash,
            identity,
            is_settled,
            has_all: true,
        };
        let mut listed_before = Vec::new();
        for _ in 0..MAX_LISTINGS {
            let entries = match packrace_os::list_dir(&path, Role::Pack) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Arc::new(opened)),
                Err(error) if !dir.is_local => {
                    let why = packrace_os::reason(&error);
                    tracing::error!("unable to open object pack directory: {}: {why}", path.display());
                    return Ok(Arc::new(opened));
                }
                Err(error) => return Err(Error::io(path, error)),
            };
            let names: Vec<&str> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
            match opened.fill(&path, &names, known) {
                Ok(()) => return Ok(Arc::new(opened)),
                // The name still exists: not a repack but a dangling link.
                Err(vanished) if entries == listed_before => {
                    vanished.iter().for_each(|error| tracing::error!("{error}"));
                    return Ok(Arc::new(opened));
                }
                Err(_) => listed_before = entries,
            }
        }
        Err(Error::io(path, std::io::Error::other("packs keep changing while they are listed")))
    }

    /// Whether there may be another chain of multi-pack-indexes.
    fn has_new_chain(&self, path: &Path) -> bool {
        match &self.multi {
            Some(multi) => !multi.opened.has_current_chain(path),
            None => self.has_chain_dir && multi_pack_index::chain_file(path).is_some(),
        }
    }

    /// Whether a file used by the finder is damaged.
    fn is_damaged(&self) -> bool {
        let multi = self.multi.iter().flat_map(|multi| multi.opened.index.layers()).map(MultiPackIndex::data);
        self.packs.iter().flat_map(|(files, _)| files.maps()).chain(multi).any(Mapped::is_damaged)
    }

    /// Whether nothing has turned out to be damaged or gone; this can change later.
    pub(crate) fn is_whole(&self) -> bool {
        self.has_all && !self.packs.iter().any(|(files, _)| files.has_failed())
    }

    /// The packs of these names, newest first, reusing open ones, and errors for those that are gone.
    fn list(
        &self,
        path: &Path,
        names: &[&str],
        known: Option<&Arc<PackDir>>,
    ) -> (Vec<(Arc<PackFiles>, Beside)>, Vec<Error>) {
        let known_packs: HashMap<&str, &Arc<PackFiles>> = known
            .iter()
            .flat_map(|known| &known.packs)
            .map(|(files, _)| (files.listed.name.as_str(), files))
            .collect();
        let mut vanished = Vec::new();
        let mut packs = Vec::new();
        for (stem, mut beside) in stems(names) {
            let data = path.join(format!("{stem}.pack"));
            let identity = packrace_os::identity(&data, Role::Pack);
            let identity = match identity {
                Ok(Some(identity)) => identity,
                Ok(None) => {
                    vanished.push(Error::io(data, std::io::ErrorKind::NotFound.into()));
                    continue;
                }
                Err(error) => {
                    tracing::error!("{}", Error::io(data, error));
                    continue;
                }
            };
            if !identity.is_file {
                tracing::error!("{} is not a file", data.display());
                continue;
            }
            beside.identity = Some(identity);
            let listed =
                ListedPack { stem: path.join(stem), name: stem.to_owned(), identity: Some(identity) };
            let same = known_packs.get(stem).filter(|files| files.is_still(&listed));
            let files = same.map_or_else(
                || Arc::new(PackFiles::new(listed, beside, self.hash)),
                |files| (*files).clone(),
            );
            packs.push((files, beside));
        }
        packs.sort_by(|(a, beside_a), (b, beside_b)| {
            let modified = |beside: &Beside| beside.identity.and_then(|file| file.modified);
            modified(beside_b).cmp(&modified(beside_a)).then_with(|| a.listed.name.cmp(&b.listed.name))
        });
        (packs, vanished)
    }

    /// Adopts the named packs, in order. If some are missing, adopts the others and returns errors.
    fn fill(&mut self, path: &Path, names: &[&str], known: Option<&Arc<PackDir>>) -> Result<(), Vec<Error>> {
        let (packs, mut vanished) = self.list(path, names, known);
        self.has_chain_dir = self.uses_multi && names.binary_search(&MIDX_CHAIN_DIR).is_ok();
        let multi = match self.uses_multi {
            true => open_multi(path, &packs, self.hash, self.has_chain_dir, known),
            false => None,
        };
        let mut is_covered = vec![false; packs.len()];
        multi.iter().flat_map(|multi| &multi.packs).for_each(|pack| is_covered[*pack] = true);
        // Packs get their numbers after those that cannot be opened are dropped.
        let mut numbers = Vec::with_capacity(packs.len());
        self.packs.clear();
        self.uncovered.clear();
        self.has_all = true;
        for ((files, beside), is_covered) in packs.into_iter().zip(is_covered) {
            numbers.push(self.packs.len());
            if !is_covered {
                match files.list_index() {
                    Ok(()) => self.uncovered.push(self.packs.len()),
                    Err(error) => {
                        self.has_all = false;
                        match error.is_not_found() {
                            true => vanished.push(error),
                            false => tracing::error!("{error}"),
                        }
                        continue;
                    }
                }
            }
            self.packs.push((files, beside));
        }
        self.multi = multi
            .map(|multi| Multi { packs: multi.packs.iter().map(|pack| numbers[*pack]).collect(), ..multi });
        let mut indexes: Vec<Index> =
            self.multi.iter().map(|multi| Index::Multi(multi.opened.index.clone())).collect();
        indexes.extend(self.uncovered.iter().map(|pack| Index::Pack(self.packs[*pack].0.clone())));
        self.finder = Finder::new(&indexes, known.map(|known| &known.finder));
        if vanished.is_empty() { Ok(()) } else { Err(vanished) }
    }
}

/// The packs that have an index, and the files beside them; `names` are sorted. As in git, they may have any name: a killed
/// repack of git leaves packs named `.tmp-…`, and if loose objects are in them, git deletes these.
fn stems<'a>(names: &'a [&'a str]) -> impl Iterator<Item = (&'a str, Beside)> {
    let stem_of = |name: &'a str| {
        let dot = name.char_indices().skip(1).find(|(_, char)| *char == '.');
        dot.map(|(at, _)| &name[..at])
    };
    // Names that differ only in their extension are adjacent.
    names.chunk_by(move |one, next| stem_of(one).is_some() && stem_of(one) == stem_of(next)).filter_map(
        move |names| {
            let stem = stem_of(names[0])?;
            let has = |ending: &str| names.iter().any(|name| name[stem.len() + 1..] == *ending);
            let beside = Beside {
                identity: None,
                has_bitmap: has("bitmap"),
                has_keep: has("keep"),
                has_reverse: has("rev"),
                is_promisor: has("promisor"),
                is_cruft: has("mtimes"),
            };
            (has("idx") && has("pack")).then_some((stem, beside))
        },
    )
}

/// The multi-pack-index, unless it is damaged or one of its packs is missing; of a chain, the lowest files up to the
/// first with a missing pack.
fn open_multi(
    path: &Path,
    packs: &[(Arc<PackFiles>, Beside)],
    hash: HashKind,
    has_chain: bool,
    known: Option<&Arc<PackDir>>,
) -> Option<Multi> {
    let known = known.and_then(|known| known.multi.as_ref()).map(|multi| &multi.opened);
    let known = known.filter(|known| known.is_current(path)).cloned();
    let mut opened = known.or_else(|| OpenMultiPackIndex::open(path, hash, has_chain))?;
    let numbers: HashMap<&str, usize> =
        packs.iter().enumerate().map(|(at, (files, _))| (files.listed.name.as_str(), at)).collect();
    let found = |stem: &str| {
        let at = numbers.get(stem).copied();
        if at.is_none() {
            let objects = path.parent().unwrap_or(path).display();
            tracing::warn!("ignoring multi-pack-index of {objects}: {stem} is missing");
        }
        at
    };
    let layers = opened.index.layers().iter();
    let whole: Vec<Vec<usize>> =
        layers.map_while(|layer| layer.pack_stems().map(found).collect::<Option<_>>()).collect();
    if whole.len() < opened.index.layers().len() {
        Arc::make_mut(&mut opened.index).truncate(whole.len());
    }
    (!whole.is_empty()).then(|| Multi { opened, packs: whole.concat() })
}
