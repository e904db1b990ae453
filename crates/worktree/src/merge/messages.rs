//! Git's messages about a merge, path by path.

use gix_diff::tree_with_rewrites::Change;
use gix_merge::blob::Resolution as BlobResolution;
use gix_merge::tree::{Conflict, Resolution, ResolutionFailure};
use gix_object::bstr::{BStr, BString, ByteSlice as _};
use packrace_object::Kind;

use super::{DirectoryRenames, MergeSettings, Merged, Names};
use crate::difference::is_binary;
use crate::error::WorkError;
use crate::index::Mode;
use crate::listing::{Listing, TreeItem};
use crate::objects::Objects;

/// Writes the messages of one merge.
pub(super) struct MessageWriter<'a> {
    pub(super) objects: &'a Objects,
    pub(super) names: &'a Names,
    pub(super) our_files: &'a Listing,
    pub(super) settings: &'a MergeSettings,
}

impl MessageWriter<'_> {
    /// Writes the messages, sorted by path.
    pub(super) fn write(&self, merged: &mut Merged, conflicts: &[Conflict]) -> Result<(), WorkError> {
        let mut by_path: Vec<(BString, Vec<String>)> = Vec::new();
        for conflict in conflicts {
            let (path, lines) = match &conflict.resolution {
                Ok(resolution) => self.resolved(merged, conflict, resolution)?,
                Err(failure) => failed(merged, conflict, failure, self.names),
            };
            if !by_path.iter().any(|(known, known_lines)| *known == path && *known_lines == lines) {
                by_path.push((path, lines));
            }
        }
        by_path.sort_by(|a, b| a.0.cmp(&b.0));
        merged.messages.extend(by_path.into_iter().flat_map(|(_, lines)| lines));
        Ok(())
    }

    fn resolved(
        &self,
        merged: &mut Merged,
        conflict: &Conflict,
        resolution: &Resolution,
    ) -> Result<(BString, Vec<String>), WorkError> {
        let MessageWriter { objects, names, our_files, settings } = self;
        let mut lines = Vec::new();
        let path = match resolution {
            Resolution::SourceLocationAffectedByRename { final_location } => {
                let added = added(conflict);
                let (side, other) = sides(our_files.contains_key(added.location()), names);
                let before = added.location();
                match settings.directories {
                    DirectoryRenames::Ignored => {}
                    DirectoryRenames::Followed => lines.push(format!(
                        "Path updated: {before} added in {side} inside a directory that was renamed in {other}; \
                         moving it to {final_location}."
                    )),
                    DirectoryRenames::Conflict => lines.push(format!(
                        "CONFLICT (file location): {before} added in {side} inside a directory that was renamed in \
                         {other}, suggesting it should perhaps be moved to {final_location}."
                    )),
                }
                return Ok((final_location.clone(), lines));
            }
            Resolution::OursModifiedTheirsModifiedThenBlobContentMerge { .. } => {
                conflict.ours.location().to_owned()
            }
            Resolution::OursModifiedTheirsRenamedAndChangedThenRename { final_location, .. } => {
                match final_location {
                    Some(path) => path.clone(),
                    None => conflict.changes_in_resolution().1.location().to_owned(),
                }
            }
            Resolution::Forced(_) => return Ok((conflict.ours.location().to_owned(), lines)),
        };
        let Some(content) = conflict.content_merge() else { return Ok((path, lines)) };
        let stages = merged.conflicts.get(path.as_bstr()).copied().unwrap_or_default();
        let is_link = merged.files.get(path.as_bstr()).is_some_and(|item| item.mode == Mode::Link);
        if !is_link && is_changed(&conflict.ours) && is_changed(&conflict.theirs) {
            lines.push(format!("Auto-merging {path}"));
        }
        if content.resolution == BlobResolution::Conflict {
            if !is_link && is_any_binary(objects, &stages)? {
                merged.warnings.push(format!(
                    "warning: Cannot merge binary files: {path} ({} vs. {})",
                    names.ours, names.theirs
                ));
            }
            let kind = if stages[0].is_none() { "add/add" } else { "content" };
            lines.push(format!("CONFLICT ({kind}): Merge conflict in {path}"));
        }
        Ok((path, lines))
    }
}

fn failed(
    merged: &Merged,
    conflict: &Conflict,
    failure: &ResolutionFailure,
    names: &Names,
) -> (BString, Vec<String>) {
    let path = conflict.ours.location().to_owned();
    let has =
        |path: &BStr, side: usize| merged.conflicts.get(path).is_some_and(|stages| stages[side].is_some());
    match failure {
        ResolutionFailure::OursModifiedTheirsDeleted => {
            let (kept, deleted) = sides(has(path.as_bstr(), 1), names);
            let line = format!(
                "CONFLICT (modify/delete): {path} deleted in {deleted} and modified in {kept}.  Version {kept} of {path} \
                 left in tree."
            );
            (path, vec![line])
        }
        ResolutionFailure::OursDeletedTheirsRenamed => {
            let (_, renamed) = conflict.changes_in_resolution();
            let (from, to) = (renamed.source_location(), renamed.location());
            let (side, other) = sides(has(to, 1), names);
            let line = format!(
                "CONFLICT (rename/delete): {from} renamed to {to} in {side}, but deleted in {other}."
            );
            (to.to_owned(), vec![line])
        }
        ResolutionFailure::OursRenamedTheirsRenamedDifferently { .. } => {
            let (a, b) = conflict.changes_in_resolution();
            let (ours, theirs) = if has(a.location(), 1) { (a, b) } else { (b, a) };
            let line = format!(
                "CONFLICT (rename/rename): {} renamed to {} in {} and to {} in {}.",
                a.source_location(),
                ours.location(),
                names.ours,
                theirs.location(),
                names.theirs
            );
            (a.source_location().to_owned(), vec![line])
        }
        ResolutionFailure::OursDirectoryTheirsNonDirectoryTheirsRenamed {
            renamed_unique_path_of_theirs: moved,
        }
        | ResolutionFailure::OursModifiedTheirsDirectoryThenOursRenamed {
            renamed_unique_path_to_modified_blob: moved,
        } => {
            let (side, _) = sides(has(moved.as_bstr(), 1), names);
            let line = format!(
                "CONFLICT (file/directory): directory in the way of {path} from {side}; moving it to {moved} instead."
            );
            (path, vec![line])
        }
        ResolutionFailure::OursAddedTheirsAddedTypeMismatch { .. }
        | ResolutionFailure::OursModifiedTheirsRenamedTypeMismatch => {
            let line = format!(
                "CONFLICT (distinct types): {path} had different types on each side; renamed one of them so each can be \
                 recorded somewhere."
            );
            (path, vec![line])
        }
        ResolutionFailure::SubmoduleMerge | ResolutionFailure::SubmoduleAddAdd => {
            let line = format!("CONFLICT (submodule): Merge conflict in {path}");
            (path, vec![format!("Failed to merge submodule {}", conflict.ours.location()), line])
        }
        ResolutionFailure::OursRenamedTheirsRenamedToSameLocation | ResolutionFailure::Unknown => {
            let line = format!("CONFLICT (content): Merge conflict in {path}");
            (path, vec![line])
        }
    }
}

/// Whether the content must be merged: not if only the name or mode differs.
fn is_changed(change: &Change) -> bool {
    match change {
        Change::Modification { previous_id, id, .. } => previous_id != id,
        Change::Rewrite { source_id, id, .. } => source_id != id,
        Change::Addition { .. } | Change::Deletion { .. } => true,
    }
}

/// The file that one side added to a directory that the other renamed.
pub(super) fn added(conflict: &Conflict) -> &Change {
    match conflict.theirs.entry_mode().is_tree() {
        true => &conflict.ours,
        false => &conflict.theirs,
    }
}

/// This side and the other side.
fn sides(is_ours: bool, names: &Names) -> (&str, &str) {
    match is_ours {
        true => (&names.ours, &names.theirs),
        false => (&names.theirs, &names.ours),
    }
}

fn is_any_binary(objects: &Objects, stages: &[Option<TreeItem>; 3]) -> Result<bool, WorkError> {
    for item in stages.iter().flatten().filter(|item| item.mode.is_file()) {
        let content = objects.read_as(&item.id, Kind::Blob)?;
        if is_binary(&content) {
            return Ok(true);
        }
    }
    Ok(false)
}
