//! Merges two trees, as `git stash apply` does: `gix-merge` with git's markers, stages and messages.
//!
//! Renames are detected as in git's `ort`: half of the lines must be equal. If a directory's files were
//! renamed, files that the other side added to it move along, which is a conflict by default (git-config,
//! "merge.directoryRenames").

mod messages;

use std::collections::BTreeMap;

use gix_diff::tree_with_rewrites::Change;
use gix_merge::blob::builtin_driver::text::{Conflict as TextConflict, ConflictStyle, Labels};
use gix_merge::tree::apply_index_entries::RemovalMode;
use gix_merge::tree::{Resolution, ResolutionFailure, TreatAsUnresolved, apply_index_entries};
use gix_object::WriteTo as _;
use gix_object::bstr::{BString, ByteSlice as _};
use packrace_object::{Kind, ObjectId};
use packrace_store::{Config, Repository};

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
    /// Lines for standard error.
    pub warnings: Vec<String>,
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
}

/// How a side is named in conflict markers.
fn label(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

/// Merges the changes from `base` to `theirs` into `ours`. New content stays in the memory of `objects`.
pub fn merge(
    repository: &Repository,
    objects: &Objects,
    [base, ours, theirs]: [&ObjectId; 3],
    names: &Names,
) -> Result<Merged, WorkError> {
    let settings = MergeSettings::of(repository.config())?;
    let (mut for_renames, mut for_content) = platforms::open(repository)?;
    let labels = Labels {
        ancestor: label(&names.base).map(Into::into),
        current: label(&names.ours).map(Into::into),
        other: label(&names.theirs).map(Into::into),
    };
    let mut options = gix_merge::tree::Options {
        rewrites: Some(gix_diff::Rewrites { limit: RENAME_LIMIT, ..Default::default() }),
        ..Default::default()
    };
    options.blob_merge.text.diff_algorithm = gix_diff::blob::Algorithm::Histogram;
    options.blob_merge.text.conflict = TextConflict::Keep {
        style: settings.style,
        marker_size: TextConflict::DEFAULT_MARKER_SIZE.try_into().expect("not zero"),
    };
    let failed = |error: gix_error::Error| WorkError::library("merge", error);
    let mut outcome = gix_merge::tree(
        base,
        ours,
        theirs,
        labels,
        objects,
        |content| gix_error::ResultExt::or_error(objects.make(Kind::Blob, content.to_vec())),
        &mut gix_diff::tree::State::default(),
        &mut for_renames,
        &mut for_content,
        options,
    )
    .map_err(failed)?;
    let tree = outcome.tree.write(|tree| {
        let mut content = Vec::new();
        tree.write_to(&mut content).expect("memory takes what is written");
        objects.make(Kind::Tree, content)
    })?;
    let files = list(objects, &tree)?;
    let our_files = list(objects, ours)?;
    let mut merged = Merged { files, conflicts: BTreeMap::new(), messages: Vec::new(), warnings: Vec::new() };
    merged.add_stages(objects, &tree, &outcome.conflicts)?;
    merged.add_bases(&outcome.conflicts);
    match settings.directories {
        DirectoryRenames::Followed => {}
        DirectoryRenames::Conflict => merged.add_moved(&outcome.conflicts, &our_files),
        DirectoryRenames::Ignored => merged.move_back(&outcome.conflicts),
    }
    let writer = MessageWriter { objects, names, our_files: &our_files, settings: &settings };
    writer.write(&mut merged, &outcome.conflicts)?;
    Ok(merged)
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

#[cfg(test)]
mod tests;
