//! The refs that bundles hold, and whether they still reach what bundles hold.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use packrace_format::bundle::BundleHeader;
use packrace_object::{Kind, ObjectId};
use packrace_pack::reach::first_unreached;
use packrace_pack::{ProgressSink, RequestObjects};
use packrace_store::refs::RefSnapshot;
use packrace_store::{Repository, cache_bytes};

use crate::error::Error;
use crate::refs::view::{HiddenRefs, RefsView, VisibleRef};

/// Prefixes of the refs that are read.
pub(super) const PREFIXES: [&[u8]; 3] = [b"HEAD", b"refs/heads/", b"refs/tags/"];

/// No bundles are made of more refs.
const MAX_REFS: usize = 100_000;

/// The branch that `HEAD` names, and tags: what clients get by default, and what is rarely rewritten. Only
/// those that clients may see and that lead to commits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct BundleTips {
    /// Names and objects.
    pub(super) refs: BTreeMap<Vec<u8>, ObjectId>,
    /// Whether every object could be read.
    pub(super) has_read_all: bool,
}

impl BundleTips {
    /// Those of a repository; none if there are too many.
    pub(super) fn of(
        repository: &Repository,
        refs: &RefSnapshot,
        request_objects: &RequestObjects,
    ) -> Result<Self, Error> {
        let config = repository.config();
        let hidden = HiddenRefs::new(config.strings_of(&["transfer.hideRefs", "uploadpack.hideRefs"]));
        let snapshot = request_objects.snapshot();
        let view = RefsView::new(refs, snapshot, &hidden, b"");
        let branch = view.head()?.and_then(|head| head.target);
        let branch = branch.filter(|name| name.starts_with(b"refs/heads/"));
        let mut prefixes = vec![b"refs/tags/".to_vec()];
        prefixes.extend(branch.clone());
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        let mut found = BTreeMap::new();
        view.visit(&prefixes, true, |line: VisibleRef<'_>| {
            // The branch is also a prefix of other names.
            let is_wanted = line.name.starts_with(b"refs/tags/") || Some(line.name) == branch.as_deref();
            if !is_wanted || found.len() > MAX_REFS {
                return Ok(());
            }
            let commit = line.peeled.unwrap_or(line.id).to_id();
            if matches!(reader.kind_and_size(&commit)?, Some((Kind::Commit, _))) {
                found.insert(line.name.to_vec(), line.id.to_id());
            }
            Ok(())
        })?;
        view.check()?;
        if found.len() > MAX_REFS {
            found.clear();
        }
        Ok(BundleTips { refs: found, has_read_all: view.has_read_all() })
    }

    /// Whether bundles with these headers hold nothing that clients may not have: all their refs still exist
    /// and are visible, and all their objects can be reached. An annotated tag that is no tip counts as
    /// unreachable.
    pub(super) fn reach(
        &self,
        headers: &[BundleHeader],
        request_objects: &Arc<RequestObjects>,
        progress: &dyn ProgressSink,
    ) -> Result<bool, Error> {
        let tips: HashSet<&ObjectId> = self.refs.values().collect();
        let mut reader = request_objects.snapshot().reader(cache_bytes::FEW_OBJECTS);
        let mut earlier = Vec::new();
        for (name, id) in headers.iter().flat_map(|header| &header.refs) {
            if !self.refs.contains_key(name) {
                return Ok(false);
            }
            if tips.contains(id) {
                continue;
            }
            if !matches!(reader.kind_and_size(id)?, Some((Kind::Commit, _))) {
                return Ok(false);
            }
            earlier.push(*id);
        }
        let tips: Vec<ObjectId> = tips.into_iter().copied().collect();
        Ok(first_unreached(request_objects, &earlier, &tips, 1, progress)?.is_none())
    }
}

/// The refs of bundles together: later ones replace earlier ones.
pub(super) fn refs_of<'a>(
    headers: impl IntoIterator<Item = &'a BundleHeader>,
) -> BTreeMap<Vec<u8>, ObjectId> {
    headers.into_iter().flat_map(|header| header.refs.iter().cloned()).collect()
}
