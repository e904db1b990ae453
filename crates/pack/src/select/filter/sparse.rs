//! `sparse:oid`: keeps blobs whose path is in a sparse checkout (git-sparse-checkout, "INTERNALS -- FULL
//! PATTERN SET").
//!
//! The last matching pattern decides; if none matches, the decision for the parent directory applies. A tree
//! is read once per path at which it occurs.

use std::collections::{HashMap, HashSet};

use gix_glob::Pattern;
use gix_glob::pattern::Case;
use gix_glob::wildmatch::Mode;
use packrace_object::{Kind, ObjectId};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::request_objects::{ObjectNo, RequestObjects};

use super::Patterns;
use super::levels::{Start, TreeReader};

/// The longest blob of patterns.
const MAX_PATTERN_BYTES: u64 = 8 << 20;

/// The most patterns; each is compared with each path.
const MAX_PATTERNS: usize = 1 << 16;

/// Pattern comparisons that take about as long as reading a tree.
const MATCHES_A_TREE: u64 = 1000;

/// The most directories, counted by path: trees that contain each other several times can make more paths
/// than there are atoms.
const MAX_PATHS: usize = 1 << 20;

/// The most reads of trees, each at one path, per object of the repository; most trees occur at one path.
const READS_AN_OBJECT: u64 = 16;

/// The least value of that limit, for repositories with few objects.
const MIN_READS: u64 = 1 << 20;

/// The patterns of a sparse checkout.
#[derive(Debug)]
pub(crate) struct Sparse {
    patterns: Vec<Line>,
}

/// A line of patterns.
#[derive(Debug)]
enum Line {
    Pattern(Pattern),
    /// A line of spaces: in git, a pattern that matches only the root directory, which has no name.
    Root {
        is_negative: bool,
    },
}

impl Sparse {
    pub(crate) fn load(request_objects: &RequestObjects, patterns: &Patterns) -> Result<Self, Error> {
        let no_blob = || Reason::NoPatterns(String::from_utf8_lossy(&patterns.name).into_owned());
        let id: ObjectId = patterns.blob.ok_or_else(no_blob)?;
        let mut reader = request_objects.snapshot().reader(0);
        let (kind, size) = reader.kind_and_size(&id)?.ok_or_else(no_blob)?;
        if kind != Kind::Blob {
            return Err(Reason::BadPatterns(id).into());
        }
        if size > MAX_PATTERN_BYTES {
            return Err(too_many("bytes of sparse patterns", MAX_PATTERN_BYTES));
        }
        Sparse::parse(&reader.read(&id)?.data)
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Self, Error> {
        let mut patterns = Vec::new();
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        for line in text.split(|byte| *byte == b'\n') {
            patterns.extend(Line::parse(line));
            if patterns.len() > MAX_PATTERNS {
                return Err(too_many("sparse patterns", MAX_PATTERNS as u64));
            }
        }
        Ok(Sparse { patterns })
    }

    /// What the patterns decide about a path; `None` if none matches.
    pub(crate) fn decide(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let basename_at = path.iter().rposition(|byte| *byte == b'/').map(|slash| slash + 1);
        self.patterns.iter().rev().find_map(|line| line.decide(path, basename_at, is_dir))
    }

    /// All trees in scope, and the blobs that the patterns keep.
    pub(crate) fn walk(&self, trees: &mut TreeReader<'_>, start: &Start<'_>) -> Result<Marks, Error> {
        let packed_end = trees.request_objects.packed_end();
        let mut walk = SparseWalk {
            sparse: self,
            paths: vec![
                // Patterns apply to the root directory like to any other, but not to a tree wanted by id.
                Directory { is_kept: self.decide(b"", true).unwrap_or(false), ..Directory::default() },
                Directory::default(),
            ],
            seen: SeenPaths { first: vec![NO_PATH; packed_end as usize], others: HashSet::new() },
            reached: Marks::new(packed_end),
            start,
            reads: 0,
            max_reads: (u64::from(packed_end) * READS_AN_OBJECT).max(MIN_READS),
        };
        let mut level = Vec::new();
        for (path, roots) in [(ROOT, &start.roots), (GIVEN, &start.given)] {
            for root in roots.iter().filter(|root| start.is_in_scope(**root)) {
                walk.reached.insert(*root);
                level.extend(walk.seen.insert(path, *root).then_some((path, *root)));
            }
        }
        let mut depth = 0;
        while !level.is_empty() {
            trees.check_depth(depth)?;
            depth += 1;
            trees.sort(&mut level, |(_, tree)| *tree);
            let mut next = Vec::new();
            for (path, tree) in level {
                walk.tree(trees, path, tree, &mut next)?;
            }
            level = next;
        }
        Ok(walk.reached)
    }
}

impl Line {
    fn parse(line: &[u8]) -> Option<Line> {
        let trimmed = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() && trimmed.strip_prefix(b"!").unwrap_or(trimmed).iter().all(|byte| *byte == b' ')
        {
            return Some(Line::Root { is_negative: trimmed.first() == Some(&b'!') });
        }
        gix_ignore::parse(trimmed, false).next().map(|(pattern, ..)| Line::Pattern(pattern))
    }

    fn decide(&self, path: &[u8], basename_at: Option<usize>, is_dir: bool) -> Option<bool> {
        let (is_match, is_negative) = match self {
            Line::Root { is_negative } => (path.is_empty(), *is_negative),
            Line::Pattern(pattern) => {
                let mode = Mode::NO_MATCH_SLASH_LITERAL;
                let is_match = pattern.matches_repo_relative_path(
                    path.into(),
                    basename_at,
                    Some(is_dir),
                    Case::Sensitive,
                    mode,
                );
                (is_match, pattern.is_negative())
            }
        };
        is_match.then_some(!is_negative)
    }
}

const ROOT: u32 = 0;
const GIVEN: u32 = 1;
const NO_PATH: u32 = u32::MAX;

/// A directory at a path.
#[derive(Default)]
struct Directory {
    parent: u32,
    name: Box<[u8]>,
    children: HashMap<Box<[u8]>, u32>,
    /// Whether blobs in it are kept if no pattern matches them.
    is_kept: bool,
}

/// The paths at which trees were found; nearly every tree occurs at one path only.
struct SeenPaths {
    /// The first path of each packed object, by number.
    first: Vec<u32>,
    others: HashSet<(u32, ObjectNo)>,
}

impl SeenPaths {
    fn insert(&mut self, path: u32, tree: ObjectNo) -> bool {
        match self.first.get_mut(tree.0 as usize) {
            Some(first) if *first == path => false,
            Some(first) if *first == NO_PATH => {
                *first = path;
                true
            }
            _ => self.others.insert((path, tree)),
        }
    }

    fn contains(&self, path: u32, tree: ObjectNo) -> bool {
        self.first.get(tree.0 as usize) == Some(&path) || self.others.contains(&(path, tree))
    }
}

struct SparseWalk<'a> {
    sparse: &'a Sparse,
    paths: Vec<Directory>,
    seen: SeenPaths,
    reached: Marks,
    start: &'a Start<'a>,
    reads: u64,
    max_reads: u64,
}

impl SparseWalk<'_> {
    fn tree(
        &mut self,
        trees: &mut TreeReader<'_>,
        path: u32,
        tree: ObjectNo,
        next: &mut Vec<(u32, ObjectNo)>,
    ) -> Result<(), Error> {
        self.reads += 1;
        if self.reads > self.max_reads {
            return Err(too_many("trees to read for a sparse filter", self.max_reads));
        }
        let mut full_path = self.full_path(path);
        let directory_len = full_path.len();
        let SparseWalk { sparse, paths, seen, reached, start, .. } = self;
        let (mut added, mut decided) = (Vec::new(), 0);
        trees.entries(
            tree,
            |base| seen.contains(path, base),
            |entry, kind, found| {
                if !start.is_in_scope(found) || kind == Kind::Blob && reached.contains(found) {
                    return;
                }
                decided += 1;
                full_path.truncate(directory_len);
                full_path.extend_from_slice(entry.name);
                if kind == Kind::Tree {
                    added.push((child(sparse, paths, path, entry.name, &full_path), found));
                } else if sparse.decide(&full_path, false).unwrap_or(paths[path as usize].is_kept) {
                    reached.insert(found);
                }
            },
        )?;
        trees.spend(decided * self.sparse.patterns.len() as u64 / MATCHES_A_TREE)?;
        if self.paths.len() > MAX_PATHS {
            return Err(too_many("directories to look at for a sparse filter", MAX_PATHS as u64));
        }
        for (path, tree) in added {
            self.reached.insert(tree);
            if self.seen.insert(path, tree) {
                next.push((path, tree));
            }
        }
        Ok(())
    }

    /// The path of a directory, with a trailing slash unless it is empty.
    fn full_path(&self, path: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = path;
        while at > GIVEN {
            let directory = &self.paths[at as usize];
            names.push(&directory.name);
            at = directory.parent;
        }
        let mut full = Vec::new();
        for name in names.iter().rev() {
            full.extend_from_slice(name);
            full.push(b'/');
        }
        full
    }
}

/// The number of a subdirectory; added if new.
fn child(sparse: &Sparse, paths: &mut Vec<Directory>, parent: u32, name: &[u8], full_path: &[u8]) -> u32 {
    if let Some(child) = paths[parent as usize].children.get(name) {
        return *child;
    }
    let is_kept = sparse.decide(full_path, true).unwrap_or(paths[parent as usize].is_kept);
    // Cannot overflow: the number is at most `MAX_PATHS` plus the entries of one tree, which fits in memory.
    let number = paths.len() as u32;
    paths.push(Directory { parent, name: name.into(), children: HashMap::new(), is_kept });
    paths[parent as usize].children.insert(name.into(), number);
    number
}

fn too_many(what: &'static str, limit: u64) -> Error {
    Reason::LargeFilter { what, limit }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &str, path: &str, is_dir: bool, expect: Option<bool>) {
        let sparse = Sparse::parse(patterns.as_bytes()).unwrap();
        assert_eq!(sparse.decide(path.as_bytes(), is_dir), expect, "{patterns:?} {path}");
    }

    #[test]
    fn the_last_pattern_that_matches_decides() {
        check("", "a", false, None);
        check("# c\n\na\n", "a", false, Some(true));
        check("a\n!a\n", "a", false, Some(false));
        check("!a\na\n", "b/a", false, Some(true));
        check("/a\n", "b/a", false, None);
        check("a/\n", "a", false, None);
        check("a/\n", "b/a", true, Some(true));
        check("/\n", "", true, Some(true));
        check("*/\n", "", true, Some(true));
        check(" \r\n", "", true, Some(true));
        check("/\n!\n", "", true, Some(false));
        check("\r\n", "a", false, None);
        check("a/**/b\n", "a/x/y/b", false, Some(true));
        check("a/*/b\n", "a/x/y/b", false, None);
        check("\u{feff}a\r\n", "a", false, Some(true));
    }

    #[test]
    fn there_can_be_too_many_patterns() {
        assert!(Sparse::parse("a\n".repeat(MAX_PATTERNS).as_bytes()).is_ok());
        let error = Sparse::parse("a\n".repeat(MAX_PATTERNS + 1).as_bytes()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::LimitExceeded);
    }

    /// A pattern for which a naive matcher tries every way to split the path.
    #[test]
    fn patterns_made_to_be_slow() {
        let path = "a".repeat(4000);
        for pattern in ["*a*a*a*a*a*a*a*a*a*a*a*b", "**/a*a*a*a*a*a*a*b", "[a]*[a]*[a]*[a]*[a]*[a]*b"] {
            check(pattern, &path, false, None);
        }
    }
}
