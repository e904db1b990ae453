//! The cached trees of an index.

use packrace_object::{HashKind, ObjectId, StoredId};

use super::until;

/// The deepest accepted directory; git makes no deeper trees (git-config, `core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// A directory of an index with its tree, if that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheTree {
    /// The number of index entries in and below this directory, and their tree.
    pub known: Option<(u32, ObjectId)>,
    /// Subdirectories, in git's order: shorter names first, names of equal length by their bytes.
    children: Vec<(Box<[u8]>, CacheTree)>,
}

impl CacheTree {
    /// A directory with these subdirectories, with or without a known tree.
    pub fn new(known: Option<(u32, ObjectId)>, mut children: Vec<(Box<[u8]>, CacheTree)>) -> Self {
        children.sort_by(|a, b| order(&a.0).cmp(&order(&b.0)));
        CacheTree { known, children }
    }

    /// The subdirectory with this name.
    pub fn child(&self, name: &[u8]) -> Option<&CacheTree> {
        self.place(name).ok().map(|at| &self.children[at].1)
    }

    /// The subdirectories.
    pub fn children(&self) -> impl Iterator<Item = (&[u8], &CacheTree)> {
        self.children.iter().map(|(name, child)| (&**name, child))
    }

    /// Forgets the trees that contain `path`, because it has changed; a directory with exactly that path is
    /// removed.
    pub fn invalidate(&mut self, path: &[u8]) {
        let mut tree = self;
        let mut rest = path;
        loop {
            tree.known = None;
            let Some(slash) = memchr::memchr(b'/', rest) else { break };
            let Ok(at) = tree.place(&rest[..slash]) else { return };
            tree = &mut tree.children[at].1;
            rest = &rest[slash + 1..];
        }
        if let Ok(at) = tree.place(rest) {
            tree.children.remove(at);
        }
    }

    /// The directory at this path; "" is the top.
    pub fn at(&self, path: &[u8]) -> Option<&CacheTree> {
        let mut names = path.split(|byte| *byte == b'/').filter(|_| !path.is_empty());
        names.try_fold(self, |tree, name| tree.child(name))
    }

    /// Puts another tree in the place of the directory at this path, and counts its entries in those above. Both must be known;
    /// otherwise nothing changes, and false is returned.
    pub fn replace(&mut self, path: &[u8], new: CacheTree) -> bool {
        let old = self.at(path).and_then(|tree| tree.known);
        let (Some((old_count, _)), Some((new_count, _))) = (old, new.known) else { return false };
        let mut tree = self;
        for name in path.split(|byte| *byte == b'/').filter(|_| !path.is_empty()) {
            let count = |count: u32| count.checked_sub(old_count)?.checked_add(new_count);
            tree.known = tree.known.and_then(|(all, id)| Some((count(all)?, id)));
            let at = tree.place(name).expect("found above");
            tree = &mut tree.children[at].1;
        }
        *tree = new;
        true
    }

    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.children.binary_search_by(|(child, _)| order(child).cmp(&order(name)))
    }

    /// Reads the extension `TREE`; `None` if it is damaged, because everything in it can be computed again.
    pub(super) fn decode(bytes: &[u8], hash: HashKind) -> Option<Self> {
        let mut rest = bytes;
        let (name, tree) = decode_one(&mut rest, hash, 0)?;
        (name.is_empty() && rest.is_empty()).then_some(tree)
    }

    /// Appends the content of the extension.
    pub(super) fn encode(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
        out.push(0);
        let entries = self.known.map_or(-1, |(entries, _)| i64::from(entries));
        out.extend_from_slice(format!("{entries} {}\n", self.children.len()).as_bytes());
        if let Some((_, id)) = &self.known {
            out.extend_from_slice(id.as_slice());
        }
        for (name, child) in &self.children {
            child.encode(name, out);
        }
    }
}

/// Git's order of directories in this extension.
fn order(name: &[u8]) -> (usize, &[u8]) {
    (name.len(), name)
}

fn decode_one<'a>(rest: &mut &'a [u8], hash: HashKind, depth: usize) -> Option<(&'a [u8], CacheTree)> {
    let name = until(rest, 0)?;
    let entries: i64 = number(until(rest, b' ')?)?;
    let subtrees: i64 = number(until(rest, b'\n')?)?;
    let known = match u32::try_from(entries) {
        Ok(entries) => {
            let id = StoredId::raw(rest, 0, hash)?.to_id();
            *rest = &rest[hash.len_in_bytes()..];
            Some((entries, id))
        }
        Err(_) if entries < 0 => None,
        Err(_) => return None,
    };
    if depth == MAX_DEPTH {
        return None;
    }
    let mut children = Vec::new();
    for _ in 0..subtrees {
        let (name, child) = decode_one(rest, hash, depth + 1)?;
        if name.is_empty() || name.contains(&b'/') {
            return None;
        }
        children.push((name.into(), child));
    }
    let tree = CacheTree::new(known, children);
    let is_twice = tree.children.windows(2).any(|pair| pair[0].0 == pair[1].0);
    (!is_twice).then_some((name, tree))
}

fn number(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}
