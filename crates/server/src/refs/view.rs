//! The refs that a client may see: below the namespace, without the hidden ones, peeled.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;

use packrace_object::{Kind, ObjectId, StoredId};
use packrace_store::refs::{NameRange, Peeled, RefSnapshot, StoredRef, TagEnd, Target};
use packrace_store::{ObjectReader, Repository, SkippedRefs, Snapshot, cache_bytes};

use crate::error::{Error, ErrorKind};

/// `transfer.hideRefs` and `uploadpack.hideRefs` (git-config): the last matching pattern decides.
#[derive(Debug, Clone, Default)]
pub(crate) struct HiddenRefs {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    /// Starts with `!`: its matches are shown.
    is_negated: bool,
    /// Starts with `^`: matches the full name, including the namespace.
    on_full_name: bool,
    prefix: Vec<u8>,
}

impl HiddenRefs {
    pub(crate) fn new(patterns: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
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
        self.hides_ref(Some(name), full_name)
    }

    /// The same for a ref that may be outside of the namespace, where it has only its full name.
    pub(crate) fn hides_ref(&self, name: Option<&[u8]>, full_name: &[u8]) -> bool {
        let matching = self.patterns.iter().rev().find(|pattern| {
            let name = if pattern.on_full_name { Some(full_name) } else { name };
            let rest = name.and_then(|name| name.strip_prefix(pattern.prefix.as_slice()));
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        });
        matching.is_some_and(|pattern| !pattern.is_negated)
    }

    /// The parts of a range of full names below the namespace that are not hidden. Hidden refs are never
    /// read, so a million of them costs nothing.
    fn shown(&self, range: &NameRange, namespace: &[u8]) -> Vec<NameRange> {
        // A pattern matches one name and all names below it. Between these borders all names match the same
        // patterns.
        let borders = self.patterns.iter().flat_map(|pattern| {
            let above: &[u8] = if pattern.on_full_name { b"" } else { namespace };
            [b"".as_slice(), b"\0", b"/", b"0"].map(|border| [above, &pattern.prefix, border].concat())
        });
        let mut shown: Vec<NameRange> = Vec::new();
        for part in range.split(borders.collect()) {
            let name = part.start.strip_prefix(namespace).unwrap_or_default();
            if self.hides(name, &part.start) {
                continue;
            }
            match shown.last_mut() {
                Some(last) if last.end.as_ref() == Some(&part.start) => last.end = part.end,
                _ => shown.push(part),
            }
        }
        shown
    }
}

/// A ref as a client sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VisibleRef<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) id: StoredId<'a>,
    pub(crate) symref_target: Option<&'a [u8]>,
    pub(crate) peeled: Option<StoredId<'a>>,
}

/// `HEAD` as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdvertisedHead {
    /// `None` if its branch has no commit yet.
    pub(crate) id: Option<ObjectId>,
    /// The branch, if `HEAD` is symbolic.
    pub(crate) target: Option<Vec<u8>>,
}

/// The prefix of all refs of a namespace: `a/b` is `refs/namespaces/a/refs/namespaces/b/` (gitnamespaces).
pub(crate) fn namespace_prefix(namespace: &str) -> Vec<u8> {
    let parts = namespace.split('/').filter(|part| !part.is_empty());
    parts.flat_map(|part| format!("refs/namespaces/{part}/").into_bytes()).collect()
}

/// A view of the refs of one snapshot.
pub(crate) struct RefsView<'a> {
    refs: &'a RefSnapshot,
    snapshot: &'a Arc<Snapshot>,
    hidden: &'a HiddenRefs,
    /// The prefix of names in the namespace; empty without a namespace.
    namespace: &'a [u8],
    /// The id of refs that git refuses; without it they are left out.
    of_broken: Option<ObjectId>,
    /// Leaves out refs to missing objects; `None` if they are shown.
    skipped: Option<RefCell<SkippedRefs>>,
    /// Whether an object could not be read that may be readable at another time.
    has_gaps: Cell<bool>,
}

impl<'a> RefsView<'a> {
    pub(crate) fn new(
        refs: &'a RefSnapshot,
        snapshot: &'a Arc<Snapshot>,
        hidden: &'a HiddenRefs,
        namespace: &'a [u8],
    ) -> Self {
        let has_gaps = Cell::new(false);
        RefsView { refs, snapshot, hidden, namespace, of_broken: None, skipped: None, has_gaps }
    }

    /// Also shows refs that git refuses, with the null id: as in git, unless the user wants to skip them, and those to
    /// missing objects too.
    pub(crate) fn with_broken(self, repository: &Repository) -> Result<Self, Error> {
        Ok(match repository.skips_broken_refs() {
            true => RefsView { skipped: Some(RefCell::new(SkippedRefs::of(repository)?)), ..self },
            false => RefsView { of_broken: Some(ObjectId::null(repository.hash_kind())), ..self },
        })
    }

    /// Whether the output may be kept: every object that it needs could be read, and a stamp shows when it is out of date.
    pub(crate) fn has_read_all(&self) -> bool {
        !self.has_gaps.get() && !self.refs.has_unstamped()
    }

    /// Fails if the output so far may be incomplete, because a file was damaged meanwhile. Called before the
    /// last of it is sent.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.refs.check_unchanged()?;
        Ok(self.snapshot.check_maps()?)
    }

    /// `HEAD`, unless it is broken or hidden.
    pub(crate) fn head(&self) -> Result<Option<AdvertisedHead>, Error> {
        let full_name = [self.namespace, b"HEAD"].concat();
        if self.hidden.hides(b"HEAD", &full_name) {
            return Ok(None);
        }
        let Some(target) = self.refs.find(&full_name)? else { return Ok(None) };
        match target {
            Target::Direct { id, .. } => Ok(Some(AdvertisedHead { id: Some(id), target: None })),
            Target::Symbolic(target) => {
                // Git names the last ref of a chain.
                let resolved = self.refs.resolve(&full_name)?;
                let (id, target) = match &resolved {
                    Some(resolved) => (Some(resolved.id), resolved.name.as_slice()),
                    None => (None, target),
                };
                Ok(Some(AdvertisedHead { id, target: self.without_namespace(target).map(<[u8]>::to_vec) }))
            }
        }
    }

    /// Calls `each` with every visible ref whose name starts with one of `prefixes` (none: every ref), by
    /// name.
    pub(crate) fn visit(
        &self,
        prefixes: &[Vec<u8>],
        peel: bool,
        mut each: impl FnMut(VisibleRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut tags = TagPeeler::new(self.snapshot);
        let all = NameRange::of_prefix(&[self.namespace, b"refs/"].concat());
        let asked = disjoint(prefixes).into_iter();
        let asked =
            asked.filter_map(|prefix| NameRange::of_prefix(&[self.namespace, prefix].concat()).within(&all));
        for range in asked.flat_map(|range| self.hidden.shown(&range, self.namespace)) {
            let mut failed = Ok(());
            let each_ref = |record: StoredRef<'_>| match self.visible(record, peel, &mut tags, &mut each) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            };
            match &self.of_broken {
                Some(null) => self.refs.visit_with_broken(&range, StoredId::from(null), each_ref)?,
                None => self.refs.visit_range(&range, each_ref)?,
            }
            failed?;
        }
        Ok(())
    }

    fn without_namespace<'n>(&self, full_name: &'n [u8]) -> Option<&'n [u8]> {
        full_name.strip_prefix(self.namespace)
    }

    #[inline]
    fn visible(
        &self,
        StoredRef { name: full_name, target }: StoredRef<'_>,
        peel: bool,
        tags: &mut TagPeeler,
        each: &mut impl FnMut(VisibleRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let name = &full_name[self.namespace.len()..];
        let (resolved, found);
        let (id, peeled, symref_target) = match target {
            Target::Direct { id, peeled } => (id, peeled, None),
            Target::Symbolic(_) => {
                // A symbolic ref without a target is not listed.
                let Some(last) = self.refs.resolve(full_name)? else { return Ok(()) };
                resolved = last;
                let target = self.without_namespace(&resolved.name);
                (StoredId::from(&resolved.id), Peeled::Unknown, target)
            }
        };
        if let Some(skipped) = &self.skipped
            && skipped.borrow_mut().has(full_name, &id.to_id())?
        {
            return Ok(());
        }
        let peeled = match peeled {
            _ if !peel => None,
            Peeled::NotATag => None,
            Peeled::To(id) => Some(id),
            Peeled::Unknown => {
                let end = tags.end_of(id.to_id());
                // A missing object may come.
                if matches!(end, TagEnd::Missing(_) | TagEnd::Unreadable) {
                    self.has_gaps.set(true);
                }
                found = end.shown();
                found.as_ref().map(StoredId::from)
            }
        };
        each(VisibleRef { name, id, symref_target, peeled })
    }
}

/// Peels annotated tags that the ref store has not peeled.
struct TagPeeler {
    reader: ObjectReader,
    /// Objects that are no tags, by the end of their ids: many refs point at one object.
    not_tags: Vec<Option<ObjectId>>,
}

/// A power of two, 65,536 at most.
const NOT_TAGS: usize = 1024;

impl TagPeeler {
    fn new(snapshot: &Arc<Snapshot>) -> Self {
        TagPeeler { reader: snapshot.reader(cache_bytes::FEW_OBJECTS), not_tags: Vec::new() }
    }

    /// Where the chain of a tag ends.
    fn end_of(&mut self, id: ObjectId) -> TagEnd {
        let slot = match id.as_slice() {
            [.., a, b] => usize::from(u16::from_be_bytes([*a, *b])) % NOT_TAGS,
            _ => 0,
        };
        if self.not_tags.get(slot) == Some(&Some(id)) {
            return TagEnd::NotATag;
        }
        match self.reader.kind(&id) {
            Ok(Some(Kind::Tag)) => TagEnd::of_tag(&mut self.reader, id).unwrap_or(TagEnd::Unreadable),
            Ok(Some(_)) => {
                self.not_tags.resize(NOT_TAGS, None);
                self.not_tags[slot] = Some(id);
                TagEnd::NotATag
            }
            Ok(None) | Err(_) => TagEnd::Unreadable,
        }
    }
}

/// Sorted prefixes, none of which is a prefix of another; everything if there are none.
pub(crate) fn disjoint(prefixes: &[Vec<u8>]) -> Vec<&[u8]> {
    if prefixes.is_empty() {
        return vec![b""];
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

impl From<packrace_store::refs::RefError> for Error {
    fn from(error: packrace_store::refs::RefError) -> Self {
        use packrace_store::refs::RefError;
        let kind = match error.kind() {
            _ if matches!(error, RefError::Faulted(_)) => ErrorKind::Fault,
            packrace_store::ErrorKind::Corrupt => ErrorKind::Corrupt,
            packrace_store::ErrorKind::Conflict => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, error.to_string()).because(error)
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
        let ranges = hidden.shown(&NameRange::of_prefix(namespace.as_bytes()), namespace.as_bytes());
        let has = |range: &&NameRange| {
            *range.start <= *full_name.as_bytes()
                && range.end.as_ref().is_none_or(|end| **end > *full_name.as_bytes())
        };
        assert_eq!(ranges.iter().filter(has).count(), usize::from(!expect_hidden), "{ranges:?} {full_name}");
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        check(&[], "refs/heads/a", "", false);
        check(&["refs/heads"], "refs/heads/a", "", true);
        check(&["refs/heads/"], "refs/heads/a", "", true);
        check(&["refs/head"], "refs/heads/a", "", false);
        check(&["refs/heads/a", "refs/tags"], "refs/heads/a-b", "", false);
        check(&["refs/heads/a", "refs/tags"], "refs/heads/a/b", "", true);
        check(&["refs/heads/a", "refs/tags"], "refs/heads/a0", "", false);
        check(&["refs/heads/a", "refs/tags"], "refs/notes", "", false);
        check(&["refs/heads/a/b", "!refs/heads/a/b/c", "refs/tags"], "refs/heads/a/b/c/d", "", false);
        check(&["refs", "!refs/heads/a/b"], "refs/heads/a/c", "", true);
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
        assert_eq!(disjoint(&[]), [b""]);
    }

    #[test]
    fn nested_namespaces() {
        assert_eq!(namespace_prefix(""), b"");
        assert_eq!(namespace_prefix("a/b"), b"refs/namespaces/a/refs/namespaces/b/");
    }
}
