//! The untracked cache (gitformat-index, "Untracked cache"): per directory, the names that are not in the index.
//!
//! ```text
//! length: varint | environments: (text, NUL) × n | stat of info/exclude: 36 bytes | stat of core.excludesFile
//! flags: u32 | id of info/exclude | id of core.excludesFile | ".gitignore", NUL | directories: varint
//! directory, depth first: names: varint | subdirectories: varint | name, NUL | (name, NUL) × names
//! bitmaps: valid | check only | has an id | stat of each valid directory | id of each that has one | NUL
//! ```

use std::ops::Range;

use packrace_object::{HashKind, ObjectId};

use super::{encode_varint, until, varint};
use crate::bitmap::{Bits, Ewah, EwahBuf};

/// Stat data: times, device, inode, user, group and size.
const STAT_BYTES: usize = 36;

/// A new cache that knows no directory, for files of `work_tree` on this `system`. `flags` say which untracked
/// files are listed.
pub fn new_untracked(work_tree: &[u8], system: &str, flags: u32, hash: HashKind) -> Vec<u8> {
    let environment = [b"Location ", work_tree, b", system ", system.as_bytes(), b"\0"].concat();
    let mut out = Vec::new();
    encode_varint(environment.len(), &mut out);
    out.extend_from_slice(&environment);
    out.extend_from_slice(&[0; 2 * STAT_BYTES]);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(ObjectId::null(hash).as_slice());
    out.extend_from_slice(ObjectId::null(hash).as_slice());
    out.extend_from_slice(b".gitignore\0");
    encode_varint(0, &mut out);
    out
}

/// Forgets what is known of the directories for which `is_stale` returns true: it gets their paths, "" for the
/// top. Readers look at these again. `None` if the cache is damaged.
pub fn invalidate_untracked(
    cache: &[u8],
    hash: HashKind,
    is_stale: &mut dyn FnMut(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let mut known = KnownUntracked::parse(cache, hash)?;
    known.visit(is_stale)?;
    Some(known.encode())
}

/// One directory, as ranges of the cache.
struct CachedDirectory {
    name: Range<usize>,
    names: Range<usize>,
    name_count: usize,
    child_count: usize,
    is_check_only: bool,
    stat: Option<Range<usize>>,
    id: Option<Range<usize>>,
}

struct KnownUntracked<'a> {
    cache: &'a [u8],
    /// The length of all before the number of directories.
    head_bytes: usize,
    directories: Vec<CachedDirectory>,
}

impl<'a> KnownUntracked<'a> {
    fn parse(cache: &'a [u8], hash: HashKind) -> Option<Self> {
        let mut rest = cache;
        let environments = usize::try_from(varint(&mut rest)?).ok()?;
        let fixed = 2 * STAT_BYTES + 4 + 2 * hash.len_in_bytes();
        rest = rest.get(environments.checked_add(fixed)?..)?;
        until(&mut rest, 0)?;
        let head_bytes = cache.len() - rest.len();
        let count = usize::try_from(varint(&mut rest)?).ok().filter(|count| *count <= rest.len())?;
        let mut known = KnownUntracked { cache, head_bytes, directories: Vec::new() };
        for _ in 0..count {
            let directory = known.directory(&mut rest)?;
            known.directories.push(directory);
        }
        if count > 0 {
            known.details(cache.len() - rest.len(), hash)?;
        }
        Some(known)
    }

    fn directory(&self, rest: &mut &[u8]) -> Option<CachedDirectory> {
        let name_count = usize::try_from(varint(rest)?).ok()?;
        let child_count = usize::try_from(varint(rest)?).ok()?;
        let at = |rest: &[u8]| self.cache.len() - rest.len();
        let name = at(rest);
        let name = name..name + until(rest, 0)?.len();
        let names = at(rest);
        for _ in 0..name_count {
            until(rest, 0)?;
        }
        let names = names..at(rest);
        let (is_check_only, stat, id) = (false, None, None);
        Some(CachedDirectory { name, names, name_count, child_count, is_check_only, stat, id })
    }

    /// Reads what follows the directories.
    fn details(&mut self, mut at: usize, hash: HashKind) -> Option<()> {
        let count = u32::try_from(self.directories.len()).ok()?;
        let mut bitmap = || {
            let (set, end) = Ewah::parse(self.cache, at, self.cache.len()).ok()?;
            at = end;
            set.to_bits(count).ok()
        };
        let (valid, check_only, with_id): (Bits, Bits, Bits) = (bitmap()?, bitmap()?, bitmap()?);
        let end = self.cache.len();
        let mut take = |length: usize| {
            let start = at;
            at = start.checked_add(length).filter(|after| *after <= end)?;
            Some(start..at)
        };
        for at in valid.iter_ones() {
            self.directories[at as usize].stat = Some(take(STAT_BYTES)?);
        }
        for at in with_id.iter_ones() {
            self.directories[at as usize].id = Some(take(hash.len_in_bytes())?);
        }
        for at in check_only.iter_ones() {
            self.directories[at as usize].is_check_only = true;
        }
        (self.cache[at..] == [0]).then_some(())
    }

    /// Calls `is_stale` for each directory. Fails if they are not one tree.
    fn visit(&mut self, is_stale: &mut dyn FnMut(&[u8]) -> bool) -> Option<()> {
        let mut path = Vec::new();
        // For each directory above: how many of its children follow, and the length of its path.
        let mut above: Vec<(usize, usize)> = Vec::new();
        for (at, directory) in self.directories.iter_mut().enumerate() {
            while above.last().is_some_and(|(left, _)| *left == 0) {
                above.pop();
            }
            match above.last_mut() {
                None if at == 0 => {}
                None => return None,
                Some((left, length)) => {
                    *left -= 1;
                    path.truncate(*length);
                    if *length > 0 {
                        path.push(b'/');
                    }
                    path.extend_from_slice(&self.cache[directory.name.clone()]);
                }
            }
            above.push((directory.child_count, path.len()));
            if is_stale(&path) {
                // The id of its .gitignore stays: what that says is unchanged.
                directory.stat = None;
                (directory.names, directory.name_count) = (0..0, 0);
            }
        }
        above.iter().all(|(left, _)| *left == 0).then_some(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.cache.len());
        out.extend_from_slice(&self.cache[..self.head_bytes]);
        encode_varint(self.directories.len(), &mut out);
        if self.directories.is_empty() {
            return out;
        }
        for directory in &self.directories {
            encode_varint(directory.name_count, &mut out);
            encode_varint(directory.child_count, &mut out);
            out.extend_from_slice(&self.cache[directory.name.clone()]);
            out.push(0);
            out.extend_from_slice(&self.cache[directory.names.clone()]);
        }
        let numbered = || (0u32..).zip(&self.directories);
        let mut bitmap = |is_in: &dyn Fn(&CachedDirectory) -> bool| {
            let positions = numbered().filter(|(_, directory)| is_in(directory)).map(|(at, _)| at);
            EwahBuf::from_ascending(positions).write(&mut out);
        };
        bitmap(&|directory| directory.stat.is_some());
        bitmap(&|directory| directory.is_check_only);
        bitmap(&|directory| directory.id.is_some());
        let stats = self.directories.iter().filter_map(|directory| directory.stat.clone());
        let ids = self.directories.iter().filter_map(|directory| directory.id.clone());
        stats.chain(ids).for_each(|range| out.extend_from_slice(&self.cache[range]));
        out.push(0);
        out
    }
}
