use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use packrace_os::count::Role;
use packrace_os::{HeldDir, durable};

use super::with_extension;
use crate::error::Error;

/// Stock git's order of removal. Without its index a pack cannot be found; files that mark it as special are
/// removed later, so that no reader takes it for an ordinary one.
const EXTENSIONS: [&str; 7] = ["idx", "pack", "rev", "keep", "bitmap", "promisor", "mtimes"];

/// The right to remove packs, which one process has at a time.
///
/// Two repacks may each find the pack redundant that stands for what the other removes: a pack that is there already is
/// not written again. So each looks again, in its turn, whether its own packs are still there. Git takes no part in this.
#[derive(Debug)]
pub struct PackRemoval {
    pack_dir: PathBuf,
    _turn: HeldDir,
}

impl PackRemoval {
    /// Waits for others. `None` if one of the packs `in_place` of those to be removed is gone, or the wait takes too long:
    /// then nothing may be removed. A file system that cannot lock directories lets everyone pass.
    pub fn begin<'n>(
        pack_dir: &Path,
        in_place: impl IntoIterator<Item = &'n str>,
    ) -> Result<Option<Self>, Error> {
        let failed = |error| Error::io(pack_dir, error);
        let turn = HeldDir::open(pack_dir).map_err(failed)?;
        if !turn.hold_in_turn().map_err(failed)? {
            return Ok(None);
        }
        let files = packrace_os::list_dir(pack_dir, Role::Pack).map_err(failed)?;
        let files: HashSet<OsString> = files.into_iter().map(|file| file.name).collect();
        let has = |name: &str, extension| files.contains(OsStr::new(&format!("{name}.{extension}")));
        let are_there = in_place.into_iter().all(|name| has(name, "idx") && has(name, "pack"));
        Ok(are_there.then(|| PackRemoval { pack_dir: pack_dir.to_owned(), _turn: turn }))
    }

    /// Removes a pack; false if it has a `.keep`.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        remove_pack(&self.pack_dir.join(name))
    }
}

/// Removes a pack: all files with this `stem`. A pack with a `.keep` is left alone; the result is then false.
///
/// Readers that have mapped the files are not affected; readers that are opening them list packs again.
/// Callers must first have published the replacement, and a multi-pack-index that does not name the pack.
pub fn remove_pack(stem: &Path) -> Result<bool, Error> {
    let keep = with_extension(stem, "keep");
    if packrace_os::identity(&keep, Role::Pack).map_err(|error| Error::io(&keep, error))?.is_some() {
        return Ok(false);
    }
    for extension in EXTENSIONS {
        let path = with_extension(stem, extension);
        durable::remove_file(&path, Role::Pack).map_err(|error| Error::io(&path, error))?;
    }
    Ok(true)
}

/// Removes the bitmap of a pack, if it has one.
pub fn remove_bitmap(stem: &Path) -> Result<(), Error> {
    let path = with_extension(stem, "bitmap");
    durable::remove_file(&path, Role::Pack).map(drop).map_err(|error| Error::io(&path, error))
}
