//! Differences between two trees, with renames (git-diff, "--find-renames").

mod hunks;

use gix_diff::Rewrites;
use gix_diff::blob::{Algorithm, Diff, InternedInput};
use gix_diff::tree::recorder::Location;
use gix_diff::tree_with_rewrites::{ChangeRef, Options};
use gix_object::TreeRefIter;
use packrace_object::{Kind, ObjectId};
use packrace_store::Repository;

pub use self::hunks::write_hunks;
pub(crate) use self::hunks::{CONTEXT_LINES, Hunk, hunks};
use crate::error::WorkError;
use crate::index::Mode;
use crate::listing::TreeItem;
use crate::objects::Objects;
use crate::platforms;

/// A difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The new path, or the deleted path.
    pub path: Vec<u8>,
    /// The old path of a rename.
    pub renamed_from: Option<Vec<u8>>,
    /// The old item; `None` for an added file.
    pub old: Option<TreeItem>,
    /// The new item; `None` for a deleted file.
    pub new: Option<TreeItem>,
    /// For a rename, the similarity in percent.
    pub similarity: u32,
}

impl Difference {
    /// Whether the type changed, for example from a file to a link.
    pub fn is_of_type(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.mode != new.mode && !(old.mode.is_file() && new.mode.is_file()),
            _ => false,
        }
    }
}

/// The content to compare on one side: for a submodule a line with its commit; empty if there is no item.
pub fn content(objects: &Objects, item: Option<&TreeItem>) -> Result<Vec<u8>, WorkError> {
    match item {
        None => Ok(Vec::new()),
        Some(TreeItem { mode: Mode::Gitlink, id }) => Ok(format!("Subproject commit {id}\n").into_bytes()),
        Some(item) => objects.read_as(&item.id, Kind::Blob),
    }
}

/// The differences, in path order. `rename_limit` is the maximum number of files compared to find renames;
/// `None` for no rename detection.
pub fn between(
    repository: &Repository,
    objects: &Objects,
    [old, new]: [&ObjectId; 2],
    rename_limit: Option<usize>,
) -> Result<Vec<Difference>, WorkError> {
    let (old_tree, new_tree) = (objects.read_as(old, Kind::Tree)?, objects.read_as(new, Kind::Tree)?);
    let (mut platform, _) = platforms::open(repository, Vec::new())?;
    let hash = objects.hash_kind();
    let mut found = Vec::new();
    gix_diff::tree_with_rewrites(
        TreeRefIter::from_bytes(&old_tree, hash),
        TreeRefIter::from_bytes(&new_tree, hash),
        &mut platform,
        &mut gix_diff::tree::State::default(),
        objects,
        |change| {
            found.extend(difference(&change));
            Ok(std::ops::ControlFlow::Continue(()))
        },
        Options {
            location: Some(Location::Path),
            rewrites: rename_limit.map(|limit| Rewrites { limit, ..Rewrites::default() }),
        },
    )
    .map_err(|error| WorkError::library("compare trees", error))?;
    found.sort_by(|a: &Difference, b| a.path.cmp(&b.path));
    Ok(found)
}

/// `None` for directories: their files are reported one by one.
fn difference(change: &ChangeRef<'_>) -> Option<Difference> {
    let item = |mode: gix_object::tree::EntryMode, id: &ObjectId| {
        let mode = Mode::of_bits(u32::from(mode.value())).filter(|mode| *mode != Mode::Dir)?;
        Some(TreeItem { mode, id: *id })
    };
    let (path, renamed_from, old, new, similarity) = match change {
        ChangeRef::Addition { location, entry_mode, id, .. } => {
            (location, None, None, Some(item(*entry_mode, id)?), 0)
        }
        ChangeRef::Deletion { location, entry_mode, id, .. } => {
            (location, None, Some(item(*entry_mode, id)?), None, 0)
        }
        ChangeRef::Modification { location, previous_entry_mode, previous_id, entry_mode, id } => {
            (location, None, Some(item(*previous_entry_mode, previous_id)?), Some(item(*entry_mode, id)?), 0)
        }
        ChangeRef::Rewrite {
            source_location,
            source_entry_mode,
            source_id,
            diff,
            entry_mode,
            id,
            location,
            ..
        } => {
            let similarity = diff.map_or(100, |lines| (lines.similarity * 100.0) as u32);
            let (old, new) = (item(*source_entry_mode, source_id)?, item(*entry_mode, id)?);
            (location, Some(source_location.to_vec()), Some(old), Some(new), similarity)
        }
    };
    Some(Difference { path: path.to_vec(), renamed_from, old, new, similarity })
}

/// Whether content is binary: it has a NUL near its start.
pub fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_BYTES)].contains(&0)
}

/// The number of changed lines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
    /// The lengths of binary contents, which have no line counts.
    pub binary: Option<(usize, usize)>,
}

/// A NUL within this many bytes makes content binary.
const BINARY_BYTES: usize = 8000;

/// Compares two contents line by line.
pub fn line_counts(old: &[u8], new: &[u8]) -> LineCounts {
    if is_binary(old) || is_binary(new) {
        return LineCounts { binary: Some((old.len(), new.len())), ..LineCounts::default() };
    }
    let input = InternedInput::new(old, new);
    let diff = Diff::compute(Algorithm::Myers, &input);
    let (added, removed) = (diff.count_additions() as usize, diff.count_removals() as usize);
    LineCounts { added, removed, binary: None }
}
