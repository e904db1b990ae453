//! The filters that a client may use (git-config, "uploadpackfilter").

use std::sync::Arc;

use packrace_object::tree::Entries;
use packrace_object::{Kind, ObjectId, oid, parse_commit, parse_tag};
use packrace_pack::filter::Filter;
use packrace_protocol::Refusal;
use packrace_store::refs::SHORT_NAME_RULES;
use packrace_store::{Config, ObjectReader, Repository, Snapshot};

use crate::error::Error;

/// The kinds of filter, by their names in the configuration.
const NAMES: [&str; 6] = ["blob:none", "blob:limit", "tree", "object:type", "sparse:oid", "combine"];

/// What the configuration allows of filters.
#[derive(Debug, Clone)]
pub(super) struct FilterPolicy {
    refused: Vec<&'static str>,
    /// `uploadpackfilter.tree.maxDepth`.
    max_tree_depth: Option<u64>,
}

impl FilterPolicy {
    /// `uploadpackfilter.<filter>.allow` decides, or without it `uploadpackfilter.allow`. A `tree.maxDepth`
    /// counts as `tree.allow = true`; the later of the two decides, as in git.
    pub(super) fn of(config: &Config) -> Result<Self, Error> {
        const MAX_DEPTH: &str = "uploadpackfilter.tree.maxDepth";
        config.need_values(&[MAX_DEPTH])?;
        let max_tree_depth = config.bytes(MAX_DEPTH)?;
        let others = config.boolean("uploadpackfilter.allow")?.unwrap_or(true);
        let mut refused = Vec::new();
        for name in NAMES {
            let key = format!("uploadpackfilter.{name}.allow");
            let mut is_allowed = config.boolean(&key)?.unwrap_or(others);
            if name == "tree" && config.place_of(MAX_DEPTH) > config.place_of(&key) {
                is_allowed = true;
            }
            refused.extend((!is_allowed).then_some(name));
        }
        Ok(FilterPolicy { refused, max_tree_depth })
    }

    /// Parses a filter-spec; refuses malformed and forbidden ones.
    pub(super) fn check(&self, spec: &[u8]) -> Result<Filter, Refusal> {
        let filter = Filter::parse(spec).map_err(|bad| Refusal::bad_filter(&bad.to_string()))?;
        for part in filter.all() {
            if self.refused.contains(&part.name()) {
                return Err(Refusal::filter_not_supported(part.name()));
            }
            if let (Filter::Tree(depth), Some(max)) = (part, self.max_tree_depth)
                && *depth > max
            {
                return Err(Refusal::tree_filter_too_deep(max, *depth));
            }
        }
        Ok(filter)
    }
}

/// The largest commit, tag or tree that is read to find the patterns of a filter.
const MAX_READ_BYTES: u64 = 64 << 20;

/// The most objects that are followed from a tag. They are not hashed again, so a damaged store could hold a
/// loop.
const MAX_PEEL: usize = 1024;

/// Resolves a client's name for an object: `<rev>`, or `<rev>:<path>` (gitrevisions). A revision is a whole
/// object name, or a ref in any form that gitrevisions lists. `None` if there is no such object, or the name
/// has another form.
///
/// Hidden refs count too: the object is used and not sent.
pub(super) fn object_named(
    repository: &Repository,
    snapshot: &Arc<Snapshot>,
    name: &[u8],
) -> Result<Option<ObjectId>, Error> {
    let (rev, path) = match name.iter().position(|byte| *byte == b':') {
        Some(colon) => (&name[..colon], Some(&name[colon + 1..])),
        None => (name, None),
    };
    let Some(id) = revision(repository, rev)? else { return Ok(None) };
    let Some(path) = path else { return Ok(Some(id)) };
    let mut reader = snapshot.reader(0).with_max_object_bytes(MAX_READ_BYTES);
    // If anything on the way is missing or malformed, there is no blob of patterns; the client gets that
    // message.
    Ok(tree_of(&mut reader, id).and_then(|tree| entry_at(&mut reader, tree, path)))
}

fn revision(repository: &Repository, rev: &[u8]) -> Result<Option<ObjectId>, Error> {
    if rev.len() == repository.hash_kind().len_in_hex()
        && let Ok(id) = ObjectId::from_hex(rev)
    {
        return Ok(Some(id));
    }
    if rev.is_empty() {
        return Ok(None);
    }
    let rev = if rev == b"@" { b"HEAD" } else { rev };
    let refs = repository.refs().snapshot(&[])?;
    for (prefix, suffix) in SHORT_NAME_RULES {
        if let Some(resolved) = refs.resolve(&[prefix, rev, suffix].concat())? {
            return Ok(Some(resolved.id));
        }
    }
    Ok(None)
}

/// The tree that a tree, a commit or a tag leads to.
fn tree_of(reader: &mut ObjectReader, id: ObjectId) -> Option<ObjectId> {
    let mut at = id;
    for _ in 0..MAX_PEEL {
        let (kind, _) = reader.kind_and_size(&at).ok()??;
        at = match kind {
            Kind::Tree => return Some(at),
            Kind::Commit => parse_commit(&reader.read(&at).ok()?.data, id.kind()).ok()?.tree,
            Kind::Tag => parse_tag(&reader.read(&at).ok()?.data, id.kind()).ok()?.target,
            Kind::Blob => return None,
        };
    }
    None
}

fn entry_at(reader: &mut ObjectReader, tree: ObjectId, path: &[u8]) -> Option<ObjectId> {
    let mut at = tree;
    if path.is_empty() {
        return Some(at);
    }
    for name in path.split(|byte| *byte == b'/') {
        let object = reader.read(&at).ok().filter(|object| object.kind == Kind::Tree)?;
        let found = Entries::new(&object.data, tree.kind())
            .map_while(Result::ok)
            .find(|entry| entry.name == name)
            .map(|entry| oid::to_owned(entry.id));
        at = found?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use packrace_store::{ConfigSources, OpenOptions, Repository};
    use packrace_testkit::{RepoBuilder, Size};

    use super::*;

    fn check(repository: &packrace_testkit::Repo, overrides: &[(&str, &str)], cases: &[(&str, &str)]) {
        let overrides: Vec<_> = overrides
            .iter()
            .map(|(name, value)| (format!("uploadpackfilter.{name}"), Some(value.to_string())))
            .collect();
        let config = ConfigSources { overrides: overrides.clone(), ..ConfigSources::default() };
        let options = OpenOptions { config, ..OpenOptions::default() };
        let policy = FilterPolicy::of(Repository::open(repository.path(), &options).unwrap().config());
        for (spec, expect) in cases {
            let answer = match &policy {
                Ok(policy) => policy.check(spec.as_bytes()).map_err(|refusal| refusal.message().to_owned()),
                Err(error) => Err(error.to_string()),
            };
            assert_eq!(answer.err().unwrap_or_default(), *expect, "{overrides:?} {spec}");
        }
    }

    #[test]
    fn names_of_blobs() {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let snapshot = repository.snapshot().unwrap();
        let check = |name: &str, expect: &str| {
            let id = object_named(&repository, &snapshot, name.as_bytes()).unwrap();
            let expect = (!expect.is_empty()).then(|| repo.git(&["rev-parse", expect]));
            assert_eq!(id.map(|id| format!("{id}\n")), expect, "{name}");
        };
        let full = repo.git(&["rev-parse", "main:bin/run"]);
        check(full.trim(), "main:bin/run");
        for name in ["main:bin/run", "HEAD:bin/run", "@:empty", "old", "refs/heads/main:", "heads/main:src"] {
            check(name, name);
        }
        for name in ["nested-outermost:bin/run", "of-a-tree:empty", "tags/of-a-blob"] {
            check(name, name);
        }
        for name in [
            "",
            ":",
            ":empty",
            "no-such",
            "main:no-such",
            "main:empty/x",
            "main:bin/",
            "main:/bin",
            "of-a-blob:x",
        ] {
            check(name, "");
        }
        check(&"0".repeat(39), "");
        check("../config", "");
    }

    /// All as `git upload-pack` 2.47.3 answers.
    #[test]
    fn allowed_and_refused() {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let no = |name: &str| format!("filter '{name}' not supported");
        let deep = |max: u64, depth: u64| format!("tree filter allows max depth {max}, but got {depth}");
        check(&repo, &[], &[("blob:none", ""), ("foo", "invalid filter-spec 'foo'")]);
        let cases = [
            ("blob:none", "blob:none"),
            ("blob:limit=3", "blob:limit"),
            ("tree:0", "tree"),
            ("object:type=blob", "object:type"),
            ("sparse:oid=x", "sparse:oid"),
            ("combine:blob:none+tree:0", "combine"),
        ];
        for (spec, name) in cases {
            check(&repo, &[("allow", "false")], &[(spec, &no(name)), ("foo", "invalid filter-spec 'foo'")]);
            check(
                &repo,
                &[("allow", "false"), (&format!("{name}.allow"), "true")],
                &[(spec, &if name == "combine" { no("blob:none") } else { String::new() })],
            );
            check(&repo, &[(&format!("{name}.allow"), "false")], &[(spec, &no(name))]);
        }
        let nested = "combine:tree:1+combine:blob:none%2btree:3";
        check(&repo, &[("blob:none.allow", "false")], &[(nested, &no("blob:none"))]);
        let depth = ("tree.maxDepth", "2");
        let cases =
            [("tree:2", String::new()), ("tree:3", deep(2, 3)), ("combine:tree:2+tree:3", deep(2, 3))];
        let cases: Vec<_> = cases.iter().map(|(spec, text)| (*spec, text.as_str())).collect();
        check(&repo, &[depth], &cases);
        check(&repo, &[("allow", "false"), depth], &cases[..2]);
        check(&repo, &[("tree.allow", "false"), depth], &cases[..2]);
        check(&repo, &[("allow", "false"), depth], &[("combine:tree:2", &no("combine"))]);
        check(&repo, &[depth, ("tree.allow", "false")], &[("tree:1", &no("tree")), ("tree:3", &no("tree"))]);
        check(&repo, &[("tree.maxDepth", "0")], &[("tree:0", ""), ("tree:1", &deep(0, 1))]);
        for bad in ["-1", "foo"] {
            let text = format!(
                "bad numeric config value '{bad}' for 'uploadpackfilter.tree.maxdepth': invalid unit"
            );
            check(&repo, &[("tree.maxDepth", bad)], &[("blob:none", &text)]);
        }
    }
}
