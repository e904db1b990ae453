//! Which objects a partial clone leaves out (git-rev-list, "--filter"; technical/partial-clone).
//!
//! A [`Filter`] is what a client asked for. Filters that are combined all have to keep an object, so however they are
//! nested they come down to one set of `rules::Rules`: kinds, a size, a depth, and patterns. What a client names itself is sent
//! whatever the filter says.

pub(crate) mod kinds;
pub(crate) mod levels;
mod parse;
mod rules;
mod sparse;

use packrace_object::{Kind, ObjectId};

pub use parse::BadFilter;
pub(crate) use rules::Rules;

/// What to leave out of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Filter {
    /// `blob:none`: no blobs.
    BlobNone,
    /// `blob:limit=<n>`: no blobs of so many bytes or more.
    BlobLimit(u64),
    /// `tree:<depth>`: no trees and blobs that are nowhere closer than this to a root tree.
    Tree(u64),
    /// `object:type=<type>`: nothing of another kind.
    ObjectType(Kind),
    /// `sparse:oid=<blob-ish>`: no blobs outside of a sparse checkout with the patterns in a blob.
    Sparse(Patterns),
    /// `combine:<filter>+<filter>`: only what all of them keep.
    Combine(Vec<Filter>),
}

/// The blob that holds the patterns of a sparse checkout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Patterns {
    /// What the client called it.
    pub name: Vec<u8>,
    /// What that names, once somebody who knows refs has found out; see [`Filter::patterns_mut`].
    pub blob: Option<ObjectId>,
}

/// What the patterns of a sparse checkout, a line each, say of a path; for fuzz targets.
#[doc(hidden)]
pub fn sparse_decision(patterns: &[u8], path: &[u8], is_dir: bool) -> Result<Option<bool>, crate::Error> {
    Ok(sparse::Sparse::parse(patterns)?.decide(path, is_dir))
}

impl Filter {
    /// Reads a filter-spec. It may be longer than what git writes: `combine` within `combine` is read to a limit of
    /// nesting, and of filters that are combined in all.
    pub fn parse(spec: &[u8]) -> Result<Filter, BadFilter> {
        parse::parse(spec)
    }

    /// The name by which configuration allows it (git-config, `uploadpackfilter.<filter>.allow`).
    pub fn name(&self) -> &'static str {
        match self {
            Filter::BlobNone => "blob:none",
            Filter::BlobLimit(_) => "blob:limit",
            Filter::Tree(_) => "tree",
            Filter::ObjectType(_) => "object:type",
            Filter::Sparse(_) => "sparse:oid",
            Filter::Combine(_) => "combine",
        }
    }

    /// This filter and those in it, each before what is in it.
    pub fn all(&self) -> Vec<&Filter> {
        let mut found = vec![self];
        let mut at = 0;
        while let Some(filter) = found.get(at) {
            at += 1;
            if let Filter::Combine(parts) = filter {
                found.splice(at..at, parts);
            }
        }
        found
    }

    /// All blobs of patterns that it names, for the caller to say which they are.
    pub fn patterns_mut(&mut self) -> Vec<&mut Patterns> {
        match self {
            Filter::Sparse(patterns) => vec![patterns],
            Filter::Combine(parts) => parts.iter_mut().flat_map(Filter::patterns_mut).collect(),
            _ => Vec::new(),
        }
    }
}
