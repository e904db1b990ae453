use packrace_object::Kind;

use crate::error::Error;
use crate::request_objects::RequestObjects;

use super::Filter;
use super::sparse::Sparse;

/// All filters of a request combined: an object is kept if every rule keeps it.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Whether objects of a kind are kept, indexed by the kind's number.
    kinds: [bool; 5],
    /// Blobs of this many bytes or more are left out.
    pub(crate) blob_limit: Option<u64>,
    /// Trees and blobs at this depth or deeper are left out. A root tree is at depth 0.
    pub(crate) depth: Option<u64>,
    /// Blobs outside any of these are left out.
    pub(crate) sparse: Vec<Sparse>,
}

impl Rules {
    /// The rules of a filter; reads its pattern blobs.
    pub(crate) fn of(request_objects: &RequestObjects, filter: &Filter) -> Result<Rules, Error> {
        let mut rules = Rules { kinds: [true; 5], blob_limit: None, depth: None, sparse: Vec::new() };
        for filter in filter.all() {
            rules.add(request_objects, filter)?;
        }
        if !rules.keeps(Kind::Blob) && !rules.keeps(Kind::Tree) {
            rules.depth = Some(0);
        }
        if rules.depth == Some(0) {
            (rules.kinds[Kind::Tree as usize], rules.kinds[Kind::Blob as usize]) = (false, false);
        }
        Ok(rules)
    }

    fn add(&mut self, request_objects: &RequestObjects, filter: &Filter) -> Result<(), Error> {
        match filter {
            Filter::BlobNone => self.kinds[Kind::Blob as usize] = false,
            Filter::BlobLimit(0) => self.kinds[Kind::Blob as usize] = false,
            Filter::BlobLimit(bytes) => {
                self.blob_limit = Some(self.blob_limit.map_or(*bytes, |limit| limit.min(*bytes)));
            }
            Filter::Tree(depth) => self.depth = Some(self.depth.map_or(*depth, |least| least.min(*depth))),
            Filter::ObjectType(kind) => {
                let others = Kind::ALL.into_iter().filter(|other| other != kind);
                others.for_each(|other| self.kinds[other as usize] = false);
            }
            Filter::Sparse(patterns) => self.sparse.push(Sparse::load(request_objects, patterns)?),
            Filter::Combine(_) => {}
        }
        Ok(())
    }

    pub(crate) fn keeps(&self, kind: Kind) -> bool {
        self.kinds[kind as usize]
    }

    /// Whether the rules depend on paths, which takes a walk over trees.
    pub(crate) fn is_about_places(&self) -> bool {
        self.depth != Some(0) && (self.depth.is_some() || !self.sparse.is_empty())
    }

    /// Whether the commits are enough to decide, without everything that they reach.
    pub(crate) fn needs_commits_only(&self) -> bool {
        self.depth == Some(0) || self.is_about_places()
    }

    /// Whether the rules depend on the kind of every object.
    pub(crate) fn is_about_kinds(&self) -> bool {
        self.blob_limit.is_some() || Kind::ALL.iter().any(|kind| !self.keeps(*kind))
    }
}
