//! The objects that a partial clone leaves out (git-rev-list, "--filter"; technical/partial-clone).
//!
//! A [`Filter`] is a client's request. An object must pass all combined filters, so nested filters amount to
//! one set of `rules::Rules`: kinds, a size, a depth, and patterns. Objects that a client wants by id are
//! sent regardless of the filter.

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
    /// `blob:limit=<n>`: no blobs of this many bytes or more.
    BlobLimit(u64),
    /// `tree:<depth>`: no trees and blobs that occur only at this depth or deeper.
    Tree(u64),
    /// `object:type=<type>`: no objects of another kind.
    ObjectType(Kind),
    /// `sparse:oid=<blob-ish>`: no blobs outside a sparse checkout with the patterns in a blob.
    Sparse(Patterns),
    /// `combine:<filter>+<filter>`: only objects that pass all of them.
    Combine(Vec<Filter>),
}

/// The blob with the patterns of a sparse checkout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Patterns {
    /// The client's name for it.
    pub name: Vec<u8>,
    /// The object with that name, resolved by the caller, which knows the refs; see [`Filter::patterns_mut`].
    pub blob: Option<ObjectId>,
}

/// What the patterns of a sparse checkout, one per line, decide about a path; for fuzz targets.
#[doc(hidden)]
pub fn sparse_decision(patterns: &[u8], path: &[u8], is_dir: bool) -> Result<Option<bool>, crate::Error> {
    Ok(sparse::Sparse::parse(patterns)?.decide(path, is_dir))
}

impl Filter {
    /// The first `tree:<depth>` below the root: git's `--path-walk` does not support it.
    pub fn tree_depth(&self) -> Option<u64> {
        match self {
            Filter::Tree(depth) => Some(*depth).filter(|depth| *depth > 0),
            Filter::Combine(filters) => filters.iter().find_map(Filter::tree_depth),
            Filter::BlobNone | Filter::BlobLimit(_) | Filter::ObjectType(_) | Filter::Sparse(_) => None,
        }
    }

    /// Parses a filter-spec.
    ///
    /// Accepts longer ones than git writes: nested `combine`, up to a limit of nesting and of combined
    /// filters in total.
    pub fn parse(spec: &[u8]) -> Result<Filter, BadFilter> {
        parse::parse(spec)
    }

    /// Its name in the configuration (git-config, `uploadpackfilter.<filter>.allow`).
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

    /// This filter and all nested ones, outer ones first.
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

    /// All pattern blobs in the filter, for the caller to resolve.
    pub fn patterns_mut(&mut self) -> Vec<&mut Patterns> {
        match self {
            Filter::Sparse(patterns) => vec![patterns],
            Filter::Combine(parts) => parts.iter_mut().flat_map(Filter::patterns_mut).collect(),
            _ => Vec::new(),
        }
    }
}
