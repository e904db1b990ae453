//! Writes bundles (gitformat-bundle).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use packrace_format::bundle::BundleHeader;
use packrace_object::{Kind, ObjectId, parse_commit, parse_tag};
use packrace_pack::filter::Filter;
use packrace_pack::generate::PackStream;
use packrace_pack::plan::plan;
use packrace_pack::{PackRequest, ProgressSink, RequestObjects, Settings};
use packrace_store::publish::{FileKind, FileWriter, WritePolicy};
use packrace_store::{ObjectReader, cache_bytes};

use super::files::{BundleFiles, BundleName};
use crate::error::Error;

/// Names of refs and their objects.
pub(super) type BundleRefs = BTreeMap<Vec<u8>, ObjectId>;

/// Writes bundles of a repository.
pub(super) struct BundleMaker<'a> {
    pub(super) files: &'a BundleFiles,
    pub(super) request_objects: &'a Arc<RequestObjects>,
    pub(super) settings: Settings,
    pub(super) policy: WritePolicy,
    pub(super) max_bytes: u64,
    pub(super) progress: &'a dyn ProgressSink,
}

impl BundleMaker<'_> {
    /// Writes a bundle of everything that these refs reach. Returns its length.
    pub(super) fn full(&self, name: BundleName, refs: &BundleRefs) -> Result<u64, Error> {
        self.write(name, &BundleHeader { prerequisites: Vec::new(), refs: listed(refs) })
    }

    /// Writes a bundle of what `now` reaches, and `before` does not. Returns its length; `None` if that is
    /// nothing.
    pub(super) fn increment(
        &self,
        name: BundleName,
        before: &BundleRefs,
        now: &BundleRefs,
    ) -> Result<Option<u64>, Error> {
        let changed: BundleRefs = now
            .iter()
            .filter(|(name, id)| before.get(*name) != Some(*id))
            .map(|(name, id)| (name.clone(), *id))
            .collect();
        // A filter leaves only commits and tags.
        let request = PackRequest {
            wants: changed.values().copied().collect(),
            haves: before.values().copied().collect(),
            filter: Some(Filter::Tree(0)),
            ..self.request()
        };
        let new: HashSet<ObjectId> =
            plan(self.request_objects, &request, self.progress)?.ids().into_iter().collect();
        if new.is_empty() {
            return Ok(None);
        }
        let prerequisites = self.prerequisites(&changed, &new)?;
        self.write(name, &BundleHeader { prerequisites, refs: listed(&changed) }).map(Some)
    }

    /// The commits that the new ones continue from, and tips that are not new.
    fn prerequisites(&self, refs: &BundleRefs, new: &HashSet<ObjectId>) -> Result<Vec<ObjectId>, Error> {
        let snapshot = self.request_objects.snapshot();
        let hash = snapshot.hash_kind();
        let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
        let mut needed = BTreeSet::new();
        for id in new {
            let object = reader.read(id)?;
            if object.kind == Kind::Commit {
                let commit = parse_commit(&object.data, hash);
                let parents = commit.map_err(|why| Error::caused(id, why))?.parents;
                needed.extend(parents.into_iter().filter(|parent| !new.contains(parent)));
            }
        }
        for id in refs.values() {
            let commit = peeled(&mut reader, *id)?;
            needed.extend((!new.contains(&commit)).then_some(commit));
        }
        Ok(needed.into_iter().collect())
    }

    fn request(&self) -> PackRequest {
        PackRequest { ofs_delta: true, threads: 1, settings: self.settings, ..PackRequest::default() }
    }

    /// Writes what the refs of this header reach, and its prerequisites do not.
    fn write(&self, name: BundleName, header: &BundleHeader) -> Result<u64, Error> {
        let bytes = header.write(self.request_objects.snapshot().hash_kind());
        let bytes = bytes.map_err(|why| Error::caused(name, why))?;
        let request = PackRequest {
            wants: header.refs.iter().map(|(_, id)| *id).collect(),
            haves: header.prerequisites.clone(),
            thin: true,
            ..self.request()
        };
        let mut stream = PackStream::new(plan(self.request_objects, &request, self.progress)?);
        let mut file = FileWriter::create(&self.files.path(name), FileKind::Bundle, self.policy)?;
        file.write(&bytes)?;
        while let Some(segment) = stream.next_segment(self.progress)? {
            file.write(segment.bytes())?;
            if file.length() > self.max_bytes {
                return Err(Error::unavailable(format!("{name} would be longer than bundles.max-bytes")));
            }
        }
        // A map that a disk fault damaged reads as zeros.
        self.request_objects.snapshot().check_maps()?;
        let length = file.length();
        file.publish()?;
        Ok(length)
    }
}

fn listed(refs: &BundleRefs) -> Vec<(Vec<u8>, ObjectId)> {
    refs.iter().map(|(name, id)| (name.clone(), *id)).collect()
}

/// The commit that an annotated tag leads to; other objects are their own.
fn peeled(reader: &mut ObjectReader, mut id: ObjectId) -> Result<ObjectId, Error> {
    loop {
        if !matches!(reader.kind_and_size(&id)?, Some((Kind::Tag, _))) {
            return Ok(id);
        }
        let tag = parse_tag(&reader.read(&id)?.data, id.kind());
        id = tag.map_err(|why| Error::caused(id, why))?.target;
    }
}
