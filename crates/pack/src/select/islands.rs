//! Delta islands: groups of refs that are fetched separately, so a delta in one island must not need a base
//! from another (git-pack-objects, "DELTA ISLANDS").
//!
//! Every object has the set of islands that reach it. Commits pass their islands to their parents in one pass
//! from new to old; then trees pass them to their entries. Trees in many islands come first, so a tree is
//! seldom visited twice.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use packrace_object::{Kind, ObjectId};

use crate::error::Error;
use crate::progress::ProgressSink;
use crate::request_objects::{ObjectNo, RequestObjects};
use crate::select::ref_pattern::RefPattern;
use crate::walk::commits::{CommitNo, Commits};
use crate::walk::lenient_walk::LenientWalk;

/// The expressions of `pack.island`, in the order of the configuration.
#[derive(Debug, Default)]
pub struct IslandRules(Vec<RefPattern>);

impl IslandRules {
    /// Parses extended regular expressions, each anchored at the start of a ref name; the error is a message
    /// for users.
    pub fn parse(expressions: &[Vec<u8>]) -> Result<Self, String> {
        let compile = |text: &Vec<u8>| {
            RefPattern::parse(text).map_err(|_| {
                let shown = String::from_utf8_lossy(text);
                format!("failed to load island regex for 'pack.island': ^{shown}")
            })
        };
        expressions.iter().map(compile).collect::<Result<_, _>>().map(IslandRules)
    }

    /// The island of a ref: the captures of the last matching expression.
    pub fn island_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.0.iter().rev().find_map(|rule| rule.group_of(name))
    }
}

/// The number of a set of islands; 0 is the empty set.
type SetNo = u32;

/// Which islands reach each object.
#[derive(Debug)]
pub struct Islands {
    sets: Sets,
    of: HashMap<ObjectNo, SetNo>,
    core: Option<usize>,
}

/// Distinct sets of islands, with their numbers.
#[derive(Debug)]
struct Sets {
    words: usize,
    all: Vec<Box<[u64]>>,
    /// The number of islands in each.
    lens: Vec<u32>,
    numbers: HashMap<Box<[u64]>, SetNo>,
    unions: HashMap<(SetNo, SetNo), SetNo>,
}

impl Sets {
    fn new(islands: usize) -> Self {
        let words = islands.div_ceil(64);
        let mut sets = Sets {
            words,
            all: Vec::new(),
            lens: Vec::new(),
            numbers: HashMap::new(),
            unions: HashMap::new(),
        };
        sets.number(vec![0; words].into_boxed_slice());
        sets
    }

    fn number(&mut self, set: Box<[u64]>) -> SetNo {
        if let Some(number) = self.numbers.get(&set) {
            return *number;
        }
        let number = self.all.len() as SetNo;
        self.lens.push(set.iter().map(|word| word.count_ones()).sum());
        self.all.push(set.clone());
        self.numbers.insert(set, number);
        number
    }

    fn only(&mut self, island: usize) -> SetNo {
        let mut set = vec![0; self.words].into_boxed_slice();
        set[island / 64] |= 1 << (island % 64);
        self.number(set)
    }

    fn union(&mut self, one: SetNo, other: SetNo) -> SetNo {
        if one == other || other == 0 {
            return one;
        }
        let pair = (one.min(other), one.max(other));
        if let Some(known) = self.unions.get(&pair) {
            return *known;
        }
        let (one, other) = (&self.all[pair.0 as usize], &self.all[pair.1 as usize]);
        let both = one.iter().zip(other).map(|(one, other)| one | other).collect();
        let number = self.number(both);
        self.unions.insert(pair, number);
        number
    }

    fn is_within(&self, inner: SetNo, outer: SetNo) -> bool {
        let (inner, outer) = (&self.all[inner as usize], &self.all[outer as usize]);
        inner.iter().zip(outer).all(|(inner, outer)| inner & !outer == 0)
    }

    fn len_of(&self, set: SetNo) -> u32 {
        self.lens[set as usize]
    }
}

impl Islands {
    /// Finds what each island reaches; skips missing objects. `refs` are full names with their targets;
    /// `core` is the island whose objects come first in a pack (`pack.islandCore`).
    pub fn find<'n>(
        request_objects: &RequestObjects,
        refs: impl IntoIterator<Item = (&'n [u8], ObjectId)>,
        rules: &IslandRules,
        core: Option<&[u8]>,
        progress: &dyn ProgressSink,
    ) -> Result<Self, Error> {
        let mut numbers: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut tips = Vec::new();
        for (name, id) in refs {
            if let (Some(island), Some(ix)) = (rules.island_of(name), request_objects.find(&id)?) {
                let next = numbers.len();
                tips.push((ix, *numbers.entry(island).or_insert(next)));
            }
        }
        let core = core.and_then(|name| numbers.get(name).copied());
        let islands = Islands { sets: Sets::new(numbers.len()), of: HashMap::new(), core };
        Spread { request_objects, progress, islands }.run(tips)
    }

    /// Whether an object may be a delta of `base`: every island with the object also has the base.
    pub(crate) fn allow(&self, object: ObjectNo, base: ObjectNo) -> bool {
        let of = |ix: ObjectNo| self.of.get(&ix).copied().unwrap_or_default();
        self.sets.is_within(of(object), of(base))
    }

    /// The number of islands that reach an object.
    pub(crate) fn count_of(&self, object: ObjectNo) -> u32 {
        self.sets.len_of(self.of.get(&object).copied().unwrap_or_default())
    }

    /// Whether an object comes first in a pack.
    pub(crate) fn is_core(&self, object: ObjectNo) -> bool {
        let set = self.of.get(&object).map_or(0, |set| *set);
        self.core.is_some_and(|core| self.sets.all[set as usize][core / 64] & 1 << (core % 64) != 0)
    }
}

struct Spread<'a> {
    request_objects: &'a RequestObjects,
    progress: &'a dyn ProgressSink,
    islands: Islands,
}

impl Spread<'_> {
    fn run(mut self, tips: Vec<(ObjectNo, usize)>) -> Result<Islands, Error> {
        let request_objects = self.request_objects;
        let mut cut = HashSet::new();
        for id in request_objects.snapshot().shallow()? {
            cut.extend(request_objects.find(id)?);
        }
        let mut commits = Commits::new(request_objects, cut, self.progress);
        let (mut newest, mut roots) = (Vec::new(), Vec::new());
        for (tip, island) in tips {
            let set = self.islands.sets.only(island);
            let peeled = commits.peel(tip)?;
            for tag in peeled.tags {
                self.add(tag, set);
            }
            if peeled.kind == Kind::Commit {
                self.add(peeled.object, set);
                newest.push(commits.load(peeled.object)?);
            } else {
                roots.push((peeled.object, set));
            }
        }
        for no in new_to_old(&mut commits, newest)? {
            let commit = commits.get(no);
            let set = self.islands.of.get(&commit.ix).copied().unwrap_or_default();
            for parent in &commit.parents {
                self.add(*parent, set);
            }
            roots.extend(request_objects.find(&commit.tree)?.map(|tree| (tree, set)));
        }
        roots.sort_by_key(|(_, set)| Reverse(self.islands.sets.len_of(*set)));
        self.trees(roots)?;
        Ok(self.islands)
    }

    /// Passes islands from trees to their entries.
    fn trees(&mut self, roots: Vec<(ObjectNo, SetNo)>) -> Result<(), Error> {
        let mut walk = LenientWalk::new(self.request_objects);
        let (mut content, mut listed) = (Vec::new(), Vec::new());
        for (root, set) in roots {
            let mut open = Vec::new();
            if self.add(root, set) {
                open.push(root);
            }
            while let Some(tree) = open.pop() {
                if walk.kind(tree)? != Kind::Tree {
                    continue;
                }
                walk.references(tree, &mut content, &mut listed)?;
                for (id, _) in listed.drain(..) {
                    if let Some(found) = self.request_objects.find(&id)?
                        && self.add(found, set)
                    {
                        open.push(found);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds islands to an object; returns whether one of them is new.
    fn add(&mut self, ix: ObjectNo, set: SetNo) -> bool {
        let of = self.islands.of.entry(ix).or_default();
        let both = self.islands.sets.union(*of, set);
        std::mem::replace(of, both) != both
    }
}

/// All commits that `newest` reach, children before parents.
fn new_to_old(commits: &mut Commits<'_>, newest: Vec<CommitNo>) -> Result<Vec<CommitNo>, Error> {
    let mut seen = HashSet::new();
    let mut old_to_new = Vec::new();
    // Each commit with the number of its parents visited so far.
    let mut open: Vec<(CommitNo, usize)> = Vec::new();
    for tip in newest {
        if seen.insert(tip) {
            open.push((tip, 0));
        }
        while let Some((no, looked_at)) = open.last_mut() {
            match commits.get(*no).parents.get(*looked_at).copied() {
                Some(parent) => {
                    *looked_at += 1;
                    let parent = commits.load(parent)?;
                    if seen.insert(parent) {
                        open.push((parent, 0));
                    }
                }
                None => {
                    old_to_new.push(*no);
                    open.pop();
                }
            }
        }
    }
    old_to_new.reverse();
    Ok(old_to_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_islands() {
        let check = |rules: &[&str], name: &str, expect: Option<&str>| {
            let rules: Vec<Vec<u8>> = rules.iter().map(|rule| rule.as_bytes().to_vec()).collect();
            let rules = IslandRules::parse(&rules).unwrap();
            assert_eq!(rules.island_of(name.as_bytes()).as_deref(), expect.map(str::as_bytes), "{name}");
        };
        let plain = ["refs/heads/", "refs/tags/"];
        check(&plain, "refs/heads/main", Some(""));
        check(&plain, "refs/pull/1", None);
        check(&plain, "x/refs/heads/main", None);
        let forks = ["refs/virtual/([0-9]+)/heads/", "refs/virtual/([0-9]+)/(pull)/"];
        check(&forks, "refs/virtual/12/heads/a", Some("12"));
        check(&forks, "refs/virtual/12/pull/a", Some("12-pull"));
        check(&["refs/(heads)/", "refs/heads/(a|b)"], "refs/heads/bc", Some("b"));
        check(&["refs/(heads)/", "refs/heads/(a|b)"], "refs/heads/c", Some("heads"));
        check(&["refs/(a)?b"], "refs/b", Some(""));
        assert!(IslandRules::parse(&[b"refs/(".to_vec()]).is_err());
        assert!(IslandRules::parse(&[b"((a{999}){999}){999}".to_vec()]).is_err());
    }

    #[test]
    fn sets() {
        let mut sets = Sets::new(70);
        let [a, b] = [3, 69].map(|island| sets.only(island));
        let both = sets.union(a, b);
        assert_eq!([sets.len_of(0), sets.len_of(a), sets.len_of(both)], [0, 1, 2]);
        assert_eq!(sets.union(b, a), both);
        assert_eq!(sets.union(both, a), both);
        assert!(sets.is_within(0, a) && sets.is_within(a, both) && sets.is_within(b, both));
        assert!(!sets.is_within(a, b) && !sets.is_within(both, a) && !sets.is_within(a, 0));
    }
}
