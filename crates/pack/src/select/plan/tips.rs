use packrace_object::Kind;

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::walk::commits::{Commits, Peeled};
use crate::walk::trees::{OnMissing, TreeWalk};

use super::PackRequest;

/// Wants and haves, peeled.
pub(crate) struct Tips {
    pub(crate) wanted_commits: Vec<ObjectNo>,
    pub(crate) had_commits: Vec<ObjectNo>,
    /// Tags, trees and blobs that are wanted by id.
    pub(crate) wanted_others: Vec<(ObjectNo, Kind)>,
    pub(crate) had_others: Vec<(ObjectNo, Kind)>,
    /// Whether trees of packed commits are not looked at.
    pub(crate) unpacked: bool,
    /// Whether only the paths of new objects are visited in what the receiver has.
    pub(crate) sparse: bool,
}

impl Tips {
    /// Whether trees or blobs are wanted by name: what the receiver has of them, only bitmaps tell. A walk compares trees of
    /// commits.
    pub(super) fn wants_parts_by_name(&self) -> bool {
        self.wanted_others.iter().any(|(_, kind)| matches!(kind, Kind::Tree | Kind::Blob))
    }

    pub(super) fn resolve(
        request_objects: &RequestObjects,
        commits: &mut Commits<'_>,
        request: &PackRequest,
    ) -> Result<Self, Error> {
        let mut tips = Tips {
            wanted_commits: Vec::new(),
            had_commits: Vec::new(),
            wanted_others: Vec::new(),
            had_others: Vec::new(),
            unpacked: request.unpacked,
            sparse: request.settings.sparse,
        };
        for id in &request.wants {
            let want = request_objects.find(id)?.ok_or(Reason::MissingTarget(*id))?;
            let peeled = commits.peel(want)?;
            add_peeled(peeled, &mut tips.wanted_commits, &mut tips.wanted_others);
        }
        for id in &request.haves {
            if let Some(have) = request_objects.find(id)? {
                let peeled = commits.peel(have)?;
                add_peeled(peeled, &mut tips.had_commits, &mut tips.had_others);
            }
        }
        Ok(tips)
    }

    /// Marks tags, trees and blobs that the request names, and everything in the trees.
    pub(super) fn mark_others(
        others: &[(ObjectNo, Kind)],
        trees: &mut TreeWalk<'_>,
        seen: &Marks,
        on_missing: OnMissing,
    ) -> Result<(), Error> {
        let new: Vec<_> = others.iter().filter(|(ix, _)| seen.insert(*ix)).collect();
        let roots = new.iter().filter(|(_, kind)| *kind == Kind::Tree).map(|(ix, _)| *ix).collect();
        trees.mark_below(roots, seen, on_missing)
    }
}

fn add_peeled(peeled: Peeled, commits: &mut Vec<ObjectNo>, others: &mut Vec<(ObjectNo, Kind)>) {
    others.extend(peeled.tags.iter().map(|tag| (*tag, Kind::Tag)));
    match peeled.kind {
        Kind::Commit => commits.push(peeled.object),
        kind => others.push((peeled.object, kind)),
    }
}
