//! Git's messages about a merge, path by path.

use std::collections::BTreeSet;

use gix_diff::tree_with_rewrites::Change;
use gix_merge::blob::Resolution as BlobResolution;
use gix_merge::tree::{Conflict, Resolution, ResolutionFailure};
use gix_object::bstr::{BStr, BString, ByteSlice as _};

use super::driver::MergeDrivers;
use super::{DirectoryRenames, MergeSettings, Merged, Names};
use crate::index::Mode;
use crate::listing::Listing;

/// Writes the messages of one merge.
pub(super) struct MessageWriter<'a> {
    pub(super) names: &'a Names,
    pub(super) our_files: &'a Listing,
    pub(super) settings: &'a MergeSettings,
    pub(super) drivers: &'a MergeDrivers,
    /// The paths of conflicts between a file and a link.
    pub(super) parted: &'a BTreeSet<BString>,
}

impl MessageWriter<'_> {
    /// Writes the messages, sorted by path.
    pub(super) fn write(&self, merged: &mut Merged, conflicts: &[Conflict]) {
        let mut by_path: Vec<(BString, Vec<String>)> = Vec::new();
        for conflict in conflicts {
            let (path, lines) = match &conflict.resolution {
                _ if self.parted.contains(conflict.ours.location()) => distinct_types(conflict),
                Ok(resolution) => self.resolved(merged, conflict, resolution),
                Err(failure) => failed(merged, conflict, failure, self.names),
            };
            if !by_path.iter().any(|(known, known_lines)| *known == path && *known_lines == lines) {
                by_path.push((path, lines));
            }
        }
        by_path.sort_by(|a, b| a.0.cmp(&b.0));
        merged.messages.extend(by_path.into_iter().flat_map(|(_, lines)| lines));
    }

    fn resolved(
        &self,
        merged: &Merged,
        conflict: &Conflict,
        resolution: &Resolution,
    ) -> (BString, Vec<String>) {
        let MessageWriter { names, our_files, settings, drivers, .. } = self;
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
                return (final_location.clone(), lines);
            }
            Resolution::Forced(_) => return (conflict.ours.location().to_owned(), lines),
            _ => content_path(conflict).to_owned(),
        };
        let Some(content) = conflict.content_merge() else { return (path, lines) };
        let stages = merged.conflicts.get(path.as_bstr()).copied().unwrap_or_default();
        let is_link = merged.files.get(path.as_bstr()).is_some_and(|item| item.mode == Mode::Link);
        let is_of_driver = drivers.has_conflict(&content.merged_blob_id);
        let is_conflict = is_of_driver || content.resolution == BlobResolution::Conflict;
        // Text has markers then, so it is unlike both sides.
        let is_ours = stages[1].is_some_and(|ours| ours.id == content.merged_blob_id);
        if is_conflict && is_ours && !is_of_driver && !is_link {
            let Names { ours, theirs, .. } = names;
            lines.push(format!("warning: Cannot merge binary files: {path} ({ours} vs. {theirs})"));
        }
        if !is_link && is_changed(&conflict.ours) && is_changed(&conflict.theirs) {
            lines.push(format!("Auto-merging {path}"));
        }
        if is_conflict {
            let kind = if stages[0].is_none() { "add/add" } else { "content" };
            lines.push(format!("CONFLICT ({kind}): Merge conflict in {path}"));
        }
        (path, lines)
    }
}

/// The path of a content merge.
pub(super) fn content_path(conflict: &Conflict) -> &BStr {
    match &conflict.resolution {
        Ok(Resolution::OursModifiedTheirsRenamedAndChangedThenRename { final_location, .. }) => {
            match final_location {
                Some(path) => path.as_bstr(),
                None => conflict.changes_in_resolution().1.location(),
            }
        }
        _ => conflict.ours.location(),
    }
}

fn distinct_types(conflict: &Conflict) -> (BString, Vec<String>) {
    let path = conflict.ours.location().to_owned();
    let line = format!(
        "CONFLICT (distinct types): {path} had different types on each side; renamed one of them so each can be \
         recorded somewhere."
    );
    (path, vec![line])
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
            let (side, other) = sides(has(moved.as_bstr(), 1), names);
            let mut lines = vec![format!(
                "CONFLICT (file/directory): directory in the way of {path} from {side}; moving it to {moved} instead."
            )];
            if has(moved.as_bstr(), 0) {
                lines.push(format!(
                    "CONFLICT (modify/delete): {moved} deleted in {other} and modified in {side}.  Version {side} of {moved} \
                     left in tree."
                ));
            }
            (path, lines)
        }
        ResolutionFailure::OursAddedTheirsAddedTypeMismatch { .. }
        | ResolutionFailure::OursModifiedTheirsRenamedTypeMismatch => distinct_types(conflict),
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
