//! The refs that a client may see: below the namespace, without the hidden ones, peeled.

use std::ops::ControlFlow;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, parse_tag};
use packrace_store::refs::{Peeled, RefSnapshot, Target};
use packrace_store::{ObjectReader, Snapshot};

use super::{Error, ErrorKind};

/// `transfer.hideRefs` and `uploadpack.hideRefs` (git-config): the last matching pattern decides.
#[derive(Debug, Clone, Default)]
pub(super) struct HiddenRefs {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    /// Starts with `!`: what it matches is shown.
    is_negated: bool,
    /// Starts with `^`: matches the name before the namespace is taken off.
    on_full_name: bool,
    prefix: Vec<u8>,
}

impl HiddenRefs {
    pub(super) fn new(patterns: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let patterns = patterns.into_iter().map(|text| {
            let text = text.as_ref();
            let (is_negated, text) = text.strip_prefix(b"!").map_or((false, text), |rest| (true, rest));
            let (on_full_name, text) = text.strip_prefix(b"^").map_or((false, text), |rest| (true, rest));
            let end = text.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
            Pattern { is_negated, on_full_name, prefix: text[..end].to_vec() }
        });
        HiddenRefs { patterns: patterns.collect() }
    }

    fn hides(&self, name: &[u8], full_name: &[u8]) -> bool {
        let matching = self.patterns.iter().rev().find(|pattern| {
            let name = if pattern.on_full_name { full_name } else { name };
            let rest = name.strip_prefix(pattern.prefix.as_slice());
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        });
        matching.is_some_and(|pattern| !pattern.is_negated)
    }
}

/// A ref as a client sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct VisibleRef<'a> {
    pub(super) name: &'a [u8],
    pub(super) id: ObjectId,
    pub(super) symref_target: Option<&'a [u8]>,
    pub(super) peeled: Option<ObjectId>,
}

/// `HEAD` as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// `None` when the branch that it names has no commit yet.
    pub(super) id: Option<ObjectId>,
    /// The branch, if `HEAD` is symbolic.
    pub(super) target: Option<Vec<u8>>,
}

/// The prefix of all refs of a namespace: `a/b` is `refs/namespaces/a/refs/namespaces/b/` (gitnamespaces).
pub(super) fn namespace_prefix(namespace: &str) -> Vec<u8> {
    let parts = namespace.split('/').filter(|part| !part.is_empty());
    parts.flat_map(|part| format!("refs/namespaces/{part}/").into_bytes()).collect()
}

/// A view of the refs of one snapshot.
pub(super) struct RefsView<'a> {
    refs: &'a RefSnapshot,
    snapshot: &'a Arc<Snapshot>,
    hidden: &'a HiddenRefs,
    /// What namespaced names begin with; empty without a namespace.
    namespace: &'a [u8],
}

/// Bytes that peeling tags keeps as delta bases.
const READER_CACHE_BYTES: usize = 1 << 20;

/// Tags of tags that are followed. Names are not hashed again on the way, so a damaged store could hold a loop.
const MAX_TAG_DEPTH: usize = 1024;

impl<'a> RefsView<'a> {
    pub(super) fn new(
        refs: &'a RefSnapshot,
        snapshot: &'a Arc<Snapshot>,
        hidden: &'a HiddenRefs,
        namespace: &'a [u8],
    ) -> Self {
        RefsView { refs, snapshot, hidden, namespace }
    }

    /// `HEAD`, unless it is broken or hidden.
    pub(super) fn head(&self) -> Result<Option<Head>, Error> {
        let full_name = [self.namespace, b"HEAD"].concat();
        if self.hidden.hides(b"HEAD", &full_name) {
            return Ok(None);
        }
        let Some(target) = self.refs.find(&full_name)? else { return Ok(None) };
        match target {
            Target::Direct { id, .. } => Ok(Some(Head { id: Some(id), target: None })),
            Target::Symbolic(target) => {
                // git names the last ref of a chain.
                let resolved = self.refs.resolve(&full_name)?;
                let (id, target) = match &resolved {
                    Some(resolved) => (Some(resolved.id), resolved.name.as_slice()),
                    None => (None, target),
                };
                Ok(Some(Head { id, target: self.without_namespace(target).map(<[u8]>::to_vec) }))
            }
        }
    }

    /// What a ref that is shown stands for; `full_name` is `name` in the namespace.
    pub(super) fn resolve(&self, name: &[u8], full_name: &[u8]) -> Result<Option<ObjectId>, Error> {
        let is_full = name == b"HEAD" || name.starts_with(b"refs/");
        if !is_full || self.hidden.hides(name, full_name) {
            return Ok(None);
        }
        Ok(self.refs.resolve(full_name)?.map(|resolved| resolved.id))
    }

    /// Calls `each` with every visible ref whose name starts with one of `prefixes` (none: with every ref), by name.
    pub(super) fn visit(
        &self,
        prefixes: &[Vec<u8>],
        peel: bool,
        each: &mut dyn FnMut(VisibleRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut reader = self.snapshot.reader(READER_CACHE_BYTES);
        for prefix in disjoint(prefixes) {
            let full_prefix = [self.namespace, prefix].concat();
            let mut failed = Ok(());
            self.refs.visit(&full_prefix, &mut |record| {
                failed = self.visible(record.name, record.target, peel, &mut reader, each);
                if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            failed?;
        }
        Ok(())
    }

    /// Comparing with nothing is not free: an empty slice points nowhere, and a vector load from nowhere costs about
    /// 60 ns, half the time of listing a ref.
    #[inline]
    fn without_namespace<'n>(&self, full_name: &'n [u8]) -> Option<&'n [u8]> {
        if self.namespace.is_empty() { Some(full_name) } else { full_name.strip_prefix(self.namespace) }
    }

    fn visible(
        &self,
        full_name: &[u8],
        target: Target<'_>,
        peel: bool,
        reader: &mut ObjectReader,
        each: &mut dyn FnMut(VisibleRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(name) = self.without_namespace(full_name) else { return Ok(()) };
        if !self.hidden.patterns.is_empty() && self.hidden.hides(name, full_name) {
            return Ok(());
        }
        let resolved;
        let (id, peeled, symref_target) = match target {
            Target::Direct { id, peeled } => (id, peeled, None),
            Target::Symbolic(_) => {
                // A symbolic ref to nothing is not listed.
                let Some(found) = self.refs.resolve(full_name)? else { return Ok(()) };
                resolved = found;
                (resolved.id, Peeled::Unknown, self.without_namespace(&resolved.name))
            }
        };
        let peeled = match peeled {
            _ if !peel => None,
            Peeled::NotATag => None,
            Peeled::To(id) => Some(id),
            Peeled::Unknown => peel_tag(reader, id),
        };
        each(VisibleRef { name, id, symref_target, peeled })
    }
}

/// What an annotated tag finally tags; `None` for anything else and for what cannot be read, as in git.
fn peel_tag(reader: &mut ObjectReader, id: ObjectId) -> Option<ObjectId> {
    let mut at = id;
    for depth in 0..MAX_TAG_DEPTH {
        match reader.kind_and_size(&at).ok()?? {
            (Kind::Tag, _) => {}
            _ => return (depth > 0).then_some(at),
        }
        let object = reader.read(&at).ok()?;
        at = parse_tag(&object.data, id.kind()).ok()?.target;
    }
    None
}

/// Sorted prefixes of which none is a prefix of another; everything if there are none.
fn disjoint(prefixes: &[Vec<u8>]) -> Vec<&[u8]> {
    if prefixes.is_empty() {
        return vec![b"refs/"];
    }
    let mut sorted: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
    sorted.sort_unstable();
    let mut kept: Vec<&[u8]> = Vec::new();
    for prefix in sorted {
        if kept.last().is_none_or(|last| !prefix.starts_with(last)) {
            kept.push(prefix);
        }
    }
    kept
}

impl From<packrace_store::refs::Error> for Error {
    fn from(error: packrace_store::refs::Error) -> Self {
        Error::new(ErrorKind::Corrupt, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], full_name: &str, namespace: &str, expect_hidden: bool) {
        let hidden = HiddenRefs::new(patterns);
        let name = full_name.strip_prefix(namespace).unwrap();
        assert_eq!(
            hidden.hides(name.as_bytes(), full_name.as_bytes()),
            expect_hidden,
            "{patterns:?} {full_name}"
        );
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        check(&[], "refs/heads/a", "", false);
        check(&["refs/heads"], "refs/heads/a", "", true);
        check(&["refs/heads/"], "refs/heads/a", "", true);
        check(&["refs/head"], "refs/heads/a", "", false);
        check(&["refs/heads/a"], "refs/heads/a", "", true);
        check(&["refs/heads", "!refs/heads/a"], "refs/heads/a", "", false);
        check(&["!refs/heads/a", "refs/heads"], "refs/heads/a", "", true);
        check(&["refs/heads"], "refs/namespaces/n/refs/heads/a", "refs/namespaces/n/", true);
        check(&["^refs/heads"], "refs/namespaces/n/refs/heads/a", "refs/namespaces/n/", false);
        check(
            &["^refs/namespaces/n/refs/heads"],
            "refs/namespaces/n/refs/heads/a",
            "refs/namespaces/n/",
            true,
        );
    }

    #[test]
    fn overlapping_prefixes_are_visited_once() {
        let prefixes =
            ["refs/tags/", "refs/heads/", "refs/heads/a", "refs/tags/"].map(|p| p.as_bytes().to_vec());
        assert_eq!(disjoint(&prefixes), [b"refs/heads/".as_slice(), b"refs/tags/"]);
        assert_eq!(disjoint(&[]), [b"refs/"]);
    }

    #[test]
    fn nested_namespaces() {
        assert_eq!(namespace_prefix(""), b"");
        assert_eq!(namespace_prefix("a/b"), b"refs/namespaces/a/refs/namespaces/b/");
    }
}
