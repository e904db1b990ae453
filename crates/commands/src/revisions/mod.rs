//! Object names as `pack-objects --revs` reads them (gitrevisions).
//!
//! Supported: full and abbreviated object names, refs by git's rules for short names, `@`, `^<rev>`,
//! `<rev>..<rev>`, `<rev>...<rev>`, `<rev>^@`, `<rev>^!`, `<rev>^-<n>`, `<ref>@{<n>}`, `<ref>@{<date>}`, `@{-<n>}`,
//! `<branch>@{upstream}` and `<branch>@{push}`, the suffixes `~<n>`, `^<n>`, `^{<type>}`, `^{}` and `^{/<text>}`,
//! `:/<text>`, `<rev>:<path>`, and `:<n>:<path>`, also with paths that begin with `./` or `../`.

mod abbreviated;
mod attribute_tree;
mod logged;
mod ranges;
mod search;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use packrace_object::{Commit, Kind, ObjectId, parse_commit, parse_tag};
use packrace_pack::RequestObjects;
use packrace_store::refs::{LoggedChange, RefSnapshot, SHORT_NAME_RULES, is_good_name, is_ref_name};
use packrace_store::{ObjectReader, Repository, Snapshot};
use packrace_worktree::index::Index;

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::tracking::{NoTarget, Tracking};
use crate::work_tree::WorkTree;
pub use abbreviated::Expected;
pub use attribute_tree::with_attribute_tree;
use logged::one_entry;
pub(crate) use logged::{
    FirstEntry, current_branch, entry, first_entry, logged_name, moment, number, ref_name, shown_count,
};

/// How many names are looked up one by one before all refs are read.
const MAX_LOOKUPS: usize = 16;

/// Longest `~<n>`; no history has more commits in one line.
const MAX_STEPS: u32 = 1 << 24;

/// The revisions that a command asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pack these and everything they reach.
    pub wants: Vec<ObjectId>,
    /// Exclude these and everything they reach.
    pub haves: Vec<ObjectId>,
    /// The receiver's shallow commits.
    pub shallow: Vec<ObjectId>,
}

/// Resolves revisions in one repository.
pub struct Revisions<'a> {
    call: &'a Call,
    repository: &'a Repository,
    snapshot: Arc<Snapshot>,
    reader: ObjectReader,
    /// All refs, once there have been many names.
    refs: Option<RefSnapshot>,
    lookups: usize,
    /// Commits that lines cut off: for those behind, they have no parents.
    cut: HashSet<ObjectId>,
    /// Those that tell which missing objects are promised, if such objects cannot be named.
    promised: Option<Arc<RequestObjects>>,
}

/// An entry of a reflog that a name selects.
#[derive(Debug, Clone, Copy)]
pub struct NamedEntry {
    /// The new object.
    pub id: ObjectId,
    /// The number from the newest; `None` if the oldest stands for an earlier time.
    pub number: Option<usize>,
}

impl<'a> Revisions<'a> {
    /// Warnings, of dates before a reflog, go to the call's errors.
    pub fn new(call: &'a Call, repository: &'a Repository, snapshot: &Arc<Snapshot>) -> Self {
        let (snapshot, reader) = (snapshot.clone(), snapshot.reader(1 << 20));
        let cut = HashSet::new();
        Revisions { call, repository, snapshot, reader, refs: None, lookups: 0, cut, promised: None }
    }

    /// Takes names of promised objects for no revisions, where such objects are left out.
    pub fn leave_out_promised(&mut self, objects: &Arc<RequestObjects>) {
        self.promised = Some(objects.clone());
    }

    /// Reads lines of standard input up to an empty one.
    pub fn read(&mut self, input: &[u8], selection: &mut Selection) -> Result<(), Fatal> {
        let mut is_not = false;
        for line in input.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
            let text = String::from_utf8_lossy(line);
            if line == b"--not" {
                is_not = !is_not;
            } else if let Some(name) = line.strip_prefix(b"--shallow ") {
                let id = self.full_name(name).ok_or_else(|| {
                    Fatal::new(format!("not an object name '{}'", String::from_utf8_lossy(name)))
                })?;
                selection.shallow.push(id);
                self.cut.insert(id);
            } else if line.starts_with(b"-") {
                return Err(Fatal::new(format!("not a rev '{text}'")));
            } else {
                self.add(line, is_not, selection)?;
            }
        }
        Ok(())
    }

    /// The object that a revision names, or `None`. A full object name is not looked up.
    pub fn resolve(&mut self, revision: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        self.resolve_as(revision, Expected::Any)
    }

    /// The same; what is expected chooses between objects with the same abbreviation.
    pub fn resolve_as(&mut self, revision: &[u8], expected: Expected) -> Result<Option<ObjectId>, Fatal> {
        if let Some(text) = revision.strip_prefix(b":/") {
            return if text.is_empty() { Ok(None) } else { self.found_anywhere(text) };
        }
        let behind = end_of_search(revision, end_of_braces(revision));
        let Some(colon) = revision[behind..].iter().position(|byte| *byte == b':') else {
            return self.commitish(revision, expected);
        };
        let colon = behind + colon;
        if colon == 0 {
            return self.in_index(&revision[1..]);
        }
        match self.commitish(&revision[..colon], Expected::Treeish)? {
            Some(id) => {
                let path = self.path_in_tree(&revision[colon + 1..])?;
                self.at_path(id, &path)
            }
            None => Ok(None),
        }
    }

    /// The object of `:<path>` or `:<n>:<path>` in the index.
    fn in_index(&self, rest: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let (stage, path) = match rest {
            [stage @ b'0'..=b'3', b':', path @ ..] => (stage - b'0', path),
            path => (0, path),
        };
        if path.is_empty() || path.starts_with(b"/") {
            return Ok(None);
        }
        let path = self.path_in_tree(path)?;
        let index = Index::read(self.repository)?;
        Ok(index.get(&path, stage).map(|entry| entry.id))
    }

    /// A path from the top of the work tree. What begins with `./` or `../` is a path from the current directory.
    fn path_in_tree<'p>(&self, path: &'p [u8]) -> Result<Cow<'p, [u8]>, Fatal> {
        if !path.starts_with(b"./") && !path.starts_with(b"../") {
            return Ok(Cow::Borrowed(path));
        }
        let outside = || Fatal::new("relative path syntax can't be used outside working tree");
        let tree = WorkTree::find(self.repository, self.call)?.ok_or_else(outside)?;
        tree.path(path).map(Cow::Owned)
    }

    /// The object at a path in a commit or tree. A trailing slash after a directory is allowed, a leading one
    /// is not.
    fn at_path(&mut self, id: ObjectId, path: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let Some(tree) = self.peel(id, b"tree")? else { return Ok(None) };
        Ok(self.reader.entry_at(&tree, path)?.map(|(_, id)| id))
    }

    fn commitish(&mut self, revision: &[u8], expected: Expected) -> Result<Option<ObjectId>, Fatal> {
        let behind = end_of_braces(revision);
        let is_suffix = |byte: &u8| matches!(byte, b'~' | b'^');
        let base_end = revision[behind..].iter().position(is_suffix).map_or(revision.len(), |at| behind + at);
        let mut rest = &revision[base_end..];
        let expected = Expected::before(rest).unwrap_or(expected);
        let Some(mut id) = self.base(&revision[..base_end], expected)? else { return Ok(None) };
        while let Some((&sign, after)) = rest.split_first() {
            let next = if sign == b'^' && after.starts_with(b"{") {
                let Some(end) = end_of_group(after) else { return Ok(None) };
                rest = &after[end + 1..];
                let typed = &revision[..revision.len() - rest.len()];
                match &after[1..end] {
                    [b'/', text @ ..] if self.peel_typed(id, b"commit", typed)?.is_some() => {
                        self.found(vec![id], text)?
                    }
                    [b'/', ..] => None,
                    kind => self.peel_typed(id, kind, typed)?,
                }
            } else {
                let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                rest = &after[digits..];
                let number = match std::str::from_utf8(&after[..digits]) {
                    Ok("") => Some(1),
                    text => text.ok().and_then(|text| text.parse::<u32>().ok()),
                };
                if !rest.first().is_none_or(is_suffix) {
                    return Ok(None);
                }
                match (sign, number) {
                    (b'~', Some(steps)) => self.ancestor(id, steps)?,
                    (b'^', Some(0)) => self.commit(id)?,
                    (b'^', Some(number)) => self.parent(id, number)?,
                    _ => None,
                }
            };
            match next {
                Some(next) => id = next,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// A full object name, or a ref by the rules of gitrevisions, `<refname>`.
    fn base(&mut self, name: &[u8], expected: Expected) -> Result<Option<ObjectId>, Fatal> {
        if let Some(id) = self.full_name(name) {
            return Ok(Some(id));
        }
        if name.is_empty() {
            return Ok(None);
        }
        if let Some((number, typed, spec)) = entry_of_checkout(name) {
            let Some(branch) = self.checked_out_before(number)? else { return Ok(None) };
            return self.selected(&branch, typed, spec);
        }
        if name.ends_with(b"}")
            && let Some((name, spec)) = entry(name)
        {
            return self.selected(name, name, spec);
        }
        let name = if name == b"@" { b"HEAD" } else { name };
        self.lookups += 1;
        if self.refs.is_none() && self.lookups > MAX_LOOKUPS {
            self.refs = Some(self.repository.refs().snapshot(&[]).map_err(Fatal::new)?);
        }
        if let Some(id) = self.short_name(name)? {
            return Ok(Some(id));
        }
        for (before, after) in SHORT_NAME_RULES {
            let full = [before, name, after].concat();
            if full.contains(&b'/') && self.repository.refs().is_broken(&full).map_err(Fatal::new)? {
                error_line!(self.call, "warning: ignoring broken ref {}", String::from_utf8_lossy(&full));
            }
        }
        self.abbreviated(name, expected)
    }

    /// The ref that a name stands for. As in git, all rules are tried, to warn of others.
    fn short_name(&self, name: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let warns = self.repository.config().boolean("core.warnAmbiguousRefs")?.unwrap_or(true);
        let refs = self.repository.refs();
        let (mut first, mut count) = (None, 0);
        for (before, after) in SHORT_NAME_RULES {
            let full = [before, name, after].concat();
            let found = match &self.refs {
                _ if !is_ref_name(&full) => Ok(refs.not_looked_up(&full)),
                // The list has none beside `HEAD` of those outside `refs/`.
                Some(refs) if full.starts_with(b"refs/") || full == b"HEAD" => refs.resolve(&full),
                _ => refs.resolve(&full),
            };
            if let Some(found) = found.map_err(Fatal::new)? {
                count += 1;
                first.get_or_insert(found.id);
                if !warns {
                    break;
                }
            }
        }
        if count > 1 {
            error_line!(self.call, "warning: refname '{}' is ambiguous.", String::from_utf8_lossy(name));
        }
        Ok(first)
    }

    /// What `<name>@{<spec>}` names; errors tell the name as it was typed.
    fn selected(&mut self, name: &[u8], typed: &[u8], spec: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        match spec.to_ascii_lowercase().as_slice() {
            b"upstream" | b"u" => return self.tracked(name, false),
            b"push" => return self.tracked(name, true),
            [b'-', digits @ ..] => {
                let number = number(digits).filter(|number| *number > 0 && name.is_empty());
                let Some(number) = number else { return Ok(None) };
                let Some(before) = self.checked_out_before(number)? else { return Ok(None) };
                let branch = [b"refs/heads/", before.as_slice()].concat();
                return match self.repository.refs().resolve(&branch).map_err(Fatal::new)? {
                    Some(found) => Ok(Some(found.id)),
                    None => self.base(&before, Expected::Any),
                };
            }
            _ => {}
        }
        Ok(self.logged_as(name, typed, spec)?.map(|entry| entry.id))
    }

    /// The entry of a reflog that `<name>@{<spec>}` names, a number or a date.
    pub fn logged(&mut self, name: &[u8], spec: &[u8]) -> Result<Option<NamedEntry>, Fatal> {
        self.logged_as(name, name, spec)
    }

    fn logged_as(&mut self, name: &[u8], typed: &[u8], spec: &[u8]) -> Result<Option<NamedEntry>, Fatal> {
        let refs = self.repository.refs();
        let Some(first) = one_entry(spec) else { return Ok(None) };
        let full = match name {
            b"" => Some(current_branch(self.repository)?),
            name => logged_name(self.repository, name)?,
        };
        let Some(full) = full else { return Ok(None) };
        let Some(log) = refs.log(&full).map_err(Fatal::new)? else { return Ok(None) };
        let told = if name.is_empty() { full.strip_prefix(b"refs/heads/").unwrap_or(&full) } else { typed };
        let is_newest = matches!(first, FirstEntry::Number(0));
        let (shown, since) = shown_count(&full, told, &log, Some(first))?;
        if let Some(since) = since {
            error_line!(self.call, "{since}");
            return Ok(log.first().map(|change| NamedEntry { id: change.new, number: None }));
        }
        if log.is_empty() && is_newest {
            let found = refs.resolve(&full).map_err(Fatal::new)?;
            return Ok(found.map(|found| NamedEntry { id: found.id, number: Some(0) }));
        }
        let last = shown.checked_sub(1).and_then(|last| log.get(last));
        Ok(last.map(|change| NamedEntry { id: change.new, number: Some(log.len() - shown) }))
    }

    /// The branch or commit that was checked out before the last `number` checkouts.
    fn checked_out_before(&self, number: usize) -> Result<Option<Vec<u8>>, Fatal> {
        let log = self.repository.refs().log(b"HEAD").map_err(Fatal::new)?.unwrap_or_default();
        let from = |change: &LoggedChange| {
            let moved = change.message.strip_prefix(b"checkout: moving from ")?;
            let end = moved.windows(4).position(|window| window == b" to ")?;
            Some(moved[..end].to_vec())
        };
        let found = log.iter().rev().filter_map(from).nth(number - 1);
        // No branch is called so, and it would lead here again.
        Ok(found.filter(|name| !name.windows(2).any(|pair| pair == b"@{")))
    }

    /// The upstream or push target of a branch, or an error in git's words.
    fn tracked(&mut self, name: &[u8], is_push: bool) -> Result<Option<ObjectId>, Fatal> {
        let refs = self.repository.refs();
        let full = match name {
            b"" | b"@" | b"HEAD" => {
                let current = current_branch(self.repository)?;
                if !current.starts_with(b"refs/heads/") {
                    return Err(Fatal::new("HEAD does not point to a branch"));
                }
                current
            }
            name => [b"refs/heads/", name].concat(),
        };
        let branch = full.strip_prefix(b"refs/heads/").unwrap_or(&full);
        let is_there = is_good_name(&full) && refs.resolve(&full).map_err(Fatal::new)?.is_some();
        let no_such_branch = || Fatal::new(format!("no such branch: '{}'", String::from_utf8_lossy(branch)));
        if !is_there && !name.is_empty() {
            return Err(no_such_branch());
        }
        let tracking = Tracking::new(self.repository)?;
        let target = match tracking.target(branch, is_push)? {
            Ok(target) => target,
            Err(NoTarget::NoUpstream) if !is_there => return Err(no_such_branch()),
            Err(why) => return Err(Fatal::new(why.words(branch))),
        };
        Ok(refs.resolve(&target).map_err(Fatal::new)?.map(|found| found.id))
    }

    fn full_name(&self, name: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(name).ok().filter(|id| id.kind() == self.repository.hash_kind())
    }

    /// Peels tags, and a commit to its tree, to the wanted kind; if `wanted` is empty, to the first object
    /// that is no tag.
    fn peel(&mut self, mut id: ObjectId, wanted: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let hash = self.repository.hash_kind();
        let kind = match wanted {
            b"" | b"object" => None,
            name => match Kind::from_name(name) {
                Some(kind) => Some(kind),
                None => return Ok(None),
            },
        };
        loop {
            let Some((found, _)) = self.reader.kind_and_size(&id)? else { return Ok(None) };
            if kind == Some(found) || wanted == b"object" || (kind.is_none() && found != Kind::Tag) {
                return Ok(Some(id));
            }
            id = match found {
                Kind::Tag => parse_tag(&self.reader.read(&id)?.data, hash).map_err(Fatal::new)?.target,
                Kind::Commit if kind == Some(Kind::Tree) => {
                    parse_commit(&self.reader.read(&id)?.data, hash).map_err(Fatal::new)?.tree
                }
                _ => return Ok(None),
            };
        }
    }

    /// The same for `<rev>^{<type>}`, which is quoted if it leads to another kind.
    fn peel_typed(&mut self, id: ObjectId, wanted: &[u8], typed: &[u8]) -> Result<Option<ObjectId>, Fatal> {
        let peeled = self.peel(id, wanted)?;
        if peeled.is_none()
            && let Some(wanted) = Kind::from_name(wanted)
        {
            // As in git, a commit does not end the search for another kind.
            let last = [&b"tree"[..], b"blob"]
                .into_iter()
                .find(|kind| self.peel(id, kind).is_ok_and(|id| id.is_some()));
            if let Some(found) = last {
                let [typed, found] = [typed, found].map(String::from_utf8_lossy);
                let text = format!("expected {wanted} type, but the object dereferences to {found} type");
                error_line!(self.call, "error: {typed}: {text}");
            }
        }
        Ok(peeled)
    }

    /// The commit that an object is or tags. Reports other kinds.
    pub(crate) fn commit(&mut self, id: ObjectId) -> Result<Option<ObjectId>, Fatal> {
        let commit = self.peel(id, b"commit")?;
        if commit.is_none()
            && let Some(other) = self.peel(id, b"")?
            && let Some(kind) = self.reader.kind(&other)?
        {
            error_line!(self.call, "error: object {id} is a {kind}, not a commit");
        }
        Ok(commit)
    }

    fn parent(&mut self, id: ObjectId, number: u32) -> Result<Option<ObjectId>, Fatal> {
        let parents = match self.commit(id)? {
            Some(id) => self.parents(id)?.unwrap_or_default(),
            None => Vec::new(),
        };
        Ok(parents.get(number as usize - 1).copied())
    }

    /// The parents of the commit that an object leads to, if it is one.
    fn parents(&mut self, id: ObjectId) -> Result<Option<Vec<ObjectId>>, Fatal> {
        let Some(id) = self.peel(id, b"commit")? else { return Ok(None) };
        let content = self.reader.read(&id)?.data;
        Ok(Some(self.parsed(&id, &content)?.parents))
    }

    /// A commit, without parents where the history is cut off.
    fn parsed(&self, id: &ObjectId, content: &[u8]) -> Result<Commit, Fatal> {
        let mut commit = parse_commit(content, id.kind()).map_err(Fatal::new)?;
        if self.snapshot.shallow()?.binary_search(id).is_ok() || self.cut.contains(id) {
            commit.parents.clear();
        }
        Ok(commit)
    }

    fn ancestor(&mut self, id: ObjectId, steps: u32) -> Result<Option<ObjectId>, Fatal> {
        let Some(mut id) = self.commit(id)? else { return Ok(None) };
        for _ in 0..steps.min(MAX_STEPS) {
            match self.parents(id)?.unwrap_or_default().first() {
                Some(parent) => id = *parent,
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }
}

/// Splits `@{-<n>}@{<spec>}` into the number, what is before the entry, and the entry.
fn entry_of_checkout(name: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let rest = name.strip_prefix(b"@{-")?;
    let end = rest.iter().position(|byte| *byte == b'}')?;
    let spec = rest[end + 1..].strip_prefix(b"@{")?.strip_suffix(b"}")?;
    let number = number(&rest[..end]).filter(|number| *number > 0)?;
    Some((number, &name[..b"@{-".len() + end + 1], spec))
}

/// The end of the last `^{/<text>}` behind `from`, whose text may have any character; `from` if there is none.
fn end_of_search(revision: &[u8], mut from: usize) -> usize {
    while let Some(at) = revision[from..].windows(3).position(|start| start == b"^{/") {
        if revision[from..from + at].contains(&b':') {
            break;
        }
        let Some(end) = end_of_group(&revision[from + at + 1..]) else { break };
        from += at + 1 + end + 1;
    }
    from
}

/// Where the brace that begins here ends: the text of a search may have closing braces, which nothing may follow but
/// another suffix or a path.
fn end_of_group(group: &[u8]) -> Option<usize> {
    let is_search = group.get(1) == Some(&b'/');
    let is_end = |at: usize| {
        group[at] == b'}' && (!is_search || matches!(group.get(at + 1), None | Some(b'~' | b'^' | b':')))
    };
    (1..group.len()).find(|at| is_end(*at))
}

/// The end of what is between the braces of `@{…}`, which may have any character; 0 if there are none.
fn end_of_braces(revision: &[u8]) -> usize {
    let Some(at) = revision.windows(2).position(|pair| pair == b"@{") else { return 0 };
    let is_before = |byte: &u8| matches!(byte, b'~' | b'^' | b':');
    if revision[..at].iter().any(is_before) {
        return 0;
    }
    let mut end = 0;
    let mut open = at;
    while let Some(length) = revision[open..].iter().position(|byte| *byte == b'}') {
        end = open + length + 1;
        if !revision[end..].starts_with(b"@{") {
            break;
        }
        // The entry of a branch that is named by a checkout.
        open = end;
    }
    end
}
