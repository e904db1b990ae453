//! Merges two trees, as `git stash apply` does: `gix-merge` with git's markers, stages and messages.
//!
//! Renames are detected as in git's `ort`: half of the lines must be equal. If a directory's files were
//! renamed, files that the other side added to it move along, which is a conflict by default (git-config,
//! "merge.directoryRenames").

mod driver;
mod messages;
mod prefetch;

use std::collections::{BTreeMap, BTreeSet};

use gix_diff::tree_with_rewrites::Change;
use gix_merge::blob::builtin_driver::text::{Conflict as TextConflict, ConflictStyle, Labels};
use gix_merge::tree::apply_index_entries::RemovalMode;
use gix_merge::tree::{Resolution, ResolutionFailure, TreatAsUnresolved, apply_index_entries};
use gix_object::WriteTo as _;
use gix_object::bstr::{BString, ByteSlice as _};
use packrace_object::{Kind, ObjectId};
use packrace_os::trace;
use packrace_store::{Config, Repository};

use self::driver::MergeDrivers;
use self::messages::MessageWriter;
use crate::error::WorkError;
use crate::index::Mode;
use crate::listing::{Listing, TreeItem, list};
use crate::objects::Objects;
use crate::platforms;

/// Maximum number of files per side that are compared to find renames. As in `git stash`, not configurable.
const RENAME_LIMIT: usize = 7000;

/// The names of the sides.
#[derive(Debug, Clone)]
pub struct Names {
    /// The common base.
    pub base: String,
    /// The side that changes are applied to.
    pub ours: String,
    /// The side that changes come from.
    pub theirs: String,
}

/// The result of a merge.
#[derive(Debug)]
pub struct Merged {
    /// The files for the work tree; for a conflict, what helps to resolve it.
    pub files: Listing,
    /// Base, ours and theirs of paths with conflicts; not all of these paths are in `files`.
    pub conflicts: BTreeMap<BString, [Option<TreeItem>; 3]>,
    /// Lines for the user.
    pub messages: Vec<String>,
}

/// The configuration of merges (git-config, "merge").
#[derive(Debug, Clone)]
struct MergeSettings {
    style: ConflictStyle,
    directories: DirectoryRenames,
}

/// What happens to a file that one side adds to a directory that the other renames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryRenames {
    /// The file moves along.
    Followed,
    /// The file moves along as a conflict, for the user to confirm.
    Conflict,
    /// The file stays where it was added.
    Ignored,
}

impl MergeSettings {
    fn of(config: &Config) -> Result<Self, WorkError> {
        let style = match config.string("merge.conflictStyle").as_deref() {
            Some(b"diff3") => ConflictStyle::Diff3,
            Some(b"zdiff3") => ConflictStyle::ZealousDiff3,
            None | Some(b"merge") => ConflictStyle::Merge,
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                return Err(WorkError::Refused(format!(
                    "unknown style '{other}' given for 'merge.conflictstyle'"
                )));
            }
        };
        let directories = match config.string("merge.directoryRenames").as_deref() {
            None | Some(b"conflict") => DirectoryRenames::Conflict,
            Some(_) => match config.boolean("merge.directoryRenames")?.unwrap_or(false) {
                true => DirectoryRenames::Followed,
                false => DirectoryRenames::Ignored,
            },
        };
        Ok(MergeSettings { style, directories })
    }

    fn options(&self) -> gix_merge::tree::Options {
        let mut options = gix_merge::tree::Options {
            rewrites: Some(gix_diff::Rewrites { limit: RENAME_LIMIT, ..Default::default() }),
            ..Default::default()
        };
        options.blob_merge.text.diff_algorithm = gix_diff::blob::Algorithm::Histogram;
        options.blob_merge.text.conflict = TextConflict::Keep {
            style: self.style,
            marker_size: TextConflict::DEFAULT_MARKER_SIZE.try_into().expect("not zero"),
        };
        options
    }
}

/// How a side is named in conflict markers.
fn label(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

/// Merges the changes from `base` to `theirs` into `ours`. New content stays in the memory of `objects`. `None` if a merge
/// program failed, which was said.
pub fn merge(
    repository: &Repository,
    objects: &Objects,
    [base, ours, theirs]: [&ObjectId; 3],
    names: &Names,
) -> Result<Option<Merged>, WorkError> {
    let _region = trace::region("merge", "incore_nonrecursive");
    let settings = MergeSettings::of(repository.config())?;
    prefetch::prefetch(objects, [base, ours, theirs])?;
    let drivers = MergeDrivers::new();
    let programs = drivers.configured(repository.config(), repository.work_tree()?.as_deref());
    let (mut for_renames, mut for_content) = platforms::open(repository, programs)?;
    let labels = Labels {
        ancestor: label(&names.base).map(Into::into),
        current: label(&names.ours).map(Into::into),
        other: label(&names.theirs).map(Into::into),
    };
    let failed = |error: gix_error::Error| WorkError::library("merge", error);
    let outcome = gix_merge::tree(
        base,
        ours,
        theirs,
        labels,
        objects,
        |content| gix_error::ResultExt::or_error(drivers.store(objects, content)),
        &mut gix_diff::tree::State::default(),
        &mut for_renames,
        &mut for_content,
        settings.options(),
    );
    let mut outcome = match outcome {
        // The library says so in words alone.
        Err(error) if format!("{error:#}").contains("External merge driver failed") => return Ok(None),
        outcome => outcome.map_err(failed)?,
    };
    let tree = outcome.tree.write(|tree| {
        let mut content = Vec::new();
        tree.write_to(&mut content).expect("memory takes what is written");
        objects.make(Kind::Tree, content)
    })?;
    let files = list(objects, &tree)?;
    let our_files = list(objects, ours)?;
    let mut merged = Merged { files, conflicts: BTreeMap::new(), messages: Vec::new() };
    merged.add_stages(objects, &tree, &outcome.conflicts)?;
    merged.add_bases(&outcome.conflicts);
    merged.add_conflicts_of_drivers(&outcome.conflicts, &drivers);
    let parted = merged.part_types(&outcome.conflicts, names);
    match settings.directories {
        DirectoryRenames::Followed => {}
        DirectoryRenames::Conflict => merged.add_moved(&outcome.conflicts, &our_files),
        DirectoryRenames::Ignored => merged.move_back(&outcome.conflicts),
    }
    let writer = MessageWriter {
        names,
        our_files: &our_files,
        settings: &settings,
        drivers: &drivers,
        parted: &parted,
    };
    writer.write(&mut merged, &outcome.conflicts);
    Ok(Some(merged))
}

impl Merged {
    /// Adds the conflict stages that `gix-merge` finds.
    fn add_stages(
        &mut self,
        objects: &Objects,
        tree: &ObjectId,
        conflicts: &[gix_merge::tree::Conflict],
    ) -> Result<(), WorkError> {
        let failed = |error: gix_error::Error| WorkError::library("merge", error);
        let protect = gix_validate::path::component::Options {
            protect_windows: false,
            protect_hfs: false,
            protect_ntfs: false,
        };
        let mut index = gix_index::State::from_tree(tree, objects, protect).map_err(failed)?;
        apply_index_entries(conflicts, TreatAsUnresolved::git(), &mut index, RemovalMode::Prune);
        for entry in index.entries() {
            let stage = entry.stage_raw() as usize;
            if stage == 0 {
                continue;
            }
            let Some(mode) = Mode::of_bits(entry.mode.bits()) else { continue };
            let path = entry.path(&index).to_owned();
            self.conflicts.entry(path).or_default()[stage - 1] = Some(TreeItem { mode, id: entry.id });
        }
        Ok(())
    }

    /// Adds the original of a renamed file that the other side deleted.
    fn add_bases(&mut self, conflicts: &[gix_merge::tree::Conflict]) {
        for conflict in conflicts {
            if let Err(ResolutionFailure::OursDeletedTheirsRenamed) = conflict.resolution
                && let Change::Rewrite { source_id, source_entry_mode, location, .. } =
                    conflict.changes_in_resolution().1
                && let Some(mode) = Mode::of_bits(u32::from(source_entry_mode.value()))
                && let Some(stages) = self.conflicts.get_mut(location)
            {
                stages[0] = Some(TreeItem { mode, id: *source_id });
            }
        }
    }

    /// Adds the conflicts that merge programs reported.
    fn add_conflicts_of_drivers(&mut self, conflicts: &[gix_merge::tree::Conflict], drivers: &MergeDrivers) {
        for conflict in conflicts {
            if !conflict.content_merge().is_some_and(|merge| drivers.has_conflict(&merge.merged_blob_id)) {
                continue;
            }
            let path = messages::content_path(conflict);
            let ((base, ours), (_, theirs)) = (changed(&conflict.ours), changed(&conflict.theirs));
            self.conflicts.insert(path.to_owned(), [base, ours, theirs]);
        }
    }

    /// Gives both sides of a conflict between a file and a link a path of their own, as git does: the link stays where it
    /// is. Returns the paths of such conflicts.
    fn part_types(&mut self, conflicts: &[gix_merge::tree::Conflict], names: &Names) -> BTreeSet<BString> {
        for conflict in conflicts {
            // `gix-merge` always moves their side.
            if let Err(ResolutionFailure::OursAddedTheirsAddedTypeMismatch { their_unique_location }) =
                &conflict.resolution
                && let (Some(ours), Some(theirs)) = (changed(&conflict.ours).1, changed(&conflict.theirs).1)
                && is_mixed(&ours, &theirs)
                && let Some(moved) = self.conflicts.remove(their_unique_location)
            {
                self.files.remove(their_unique_location);
                let stages = self.conflicts.entry(conflict.ours.location().to_owned()).or_default();
                for (stage, moved) in stages.iter_mut().zip(moved) {
                    *stage = stage.or(moved);
                }
            }
        }
        let mut parted = BTreeSet::new();
        for (path, stages) in &self.conflicts {
            if let [_, Some(ours), Some(theirs)] = stages
                && is_mixed(ours, theirs)
            {
                parted.insert(path.clone());
            }
        }
        for path in &parted {
            let Some(stages) = self.conflicts.get_mut(path) else { continue };
            let has_file = |stage: usize| stages[stage].is_some_and(|item| item.mode.is_file());
            let (file, name) = if has_file(1) { (1, &names.ours) } else { (2, &names.theirs) };
            let mut moved = [None; 3];
            if has_file(0) {
                moved[0] = stages[0].take();
            }
            moved[file] = stages[file].take();
            let link = stages[3 - file];
            let place = self.free_path(path, name);
            self.files.extend(link.map(|item| (path.clone(), item)));
            self.files.extend(moved[file].map(|item| (place.clone(), item)));
            self.conflicts.insert(place, moved);
        }
        parted
    }

    /// A path for what cannot stay at another one.
    fn free_path(&self, path: &BString, side: &str) -> BString {
        let first = format!("{path}~{}", side.replace('/', "_"));
        let others = (0..).map(|number| format!("{first}_{number}"));
        let mut all = std::iter::once(first.clone()).chain(others).map(BString::from);
        let is_free = |path: &BString| !self.files.contains_key(path) && !self.conflicts.contains_key(path);
        all.find(is_free).expect("numbers do not end")
    }

    /// Moves files added to a renamed directory back to where they were added.
    fn move_back(&mut self, conflicts: &[gix_merge::tree::Conflict]) {
        for conflict in conflicts {
            if let Ok(Resolution::SourceLocationAffectedByRename { final_location }) = &conflict.resolution
                && let Some(item) = self.files.remove(final_location.as_bstr())
            {
                self.files.insert(messages::added(conflict).location().to_owned(), item);
            }
        }
    }

    /// Adds conflicts for files that one side added to a directory that the other renamed: git asks where
    /// they belong.
    fn add_moved(&mut self, conflicts: &[gix_merge::tree::Conflict], our_files: &Listing) {
        for conflict in conflicts {
            if let Ok(Resolution::SourceLocationAffectedByRename { final_location }) = &conflict.resolution
                && let Some(item) = self.files.get(final_location.as_bstr()).copied()
            {
                let added = messages::added(conflict);
                let is_ours = our_files.contains_key(added.location());
                let stages = self.conflicts.entry(final_location.clone()).or_default();
                stages[if is_ours { 1 } else { 2 }] = Some(item);
            }
        }
    }
}

/// What a side started from and what it has now.
fn changed(change: &Change) -> (Option<TreeItem>, Option<TreeItem>) {
    let item = |mode: gix_object::tree::EntryMode, id: ObjectId| {
        Mode::of_bits(u32::from(mode.value())).map(|mode| TreeItem { mode, id })
    };
    match change {
        Change::Addition { entry_mode, id, .. } => (None, item(*entry_mode, *id)),
        Change::Deletion { entry_mode, id, .. } => (item(*entry_mode, *id), None),
        Change::Modification { previous_entry_mode, previous_id, entry_mode, id, .. } => {
            (item(*previous_entry_mode, *previous_id), item(*entry_mode, *id))
        }
        Change::Rewrite { source_entry_mode, source_id, entry_mode, id, .. } => {
            (item(*source_entry_mode, *source_id), item(*entry_mode, *id))
        }
    }
}

/// Whether one is a file and the other a link.
fn is_mixed(one: &TreeItem, other: &TreeItem) -> bool {
    (one.mode.is_file() && other.mode == Mode::Link) || (one.mode == Mode::Link && other.mode.is_file())
}

#[cfg(test)]
mod tests;
