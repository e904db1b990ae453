//! A disk that forgets: possible states of a directory tree when the machine stops after any change.
//!
//! [`recorded`] runs some work on the real disk and records the changes made by [`crate::durable`], with the
//! data. From that, [`Recording::crashed`] computes the states that a file system may show after a crash, and
//! [`DiskState::lay_out`] creates one of them in a directory, to test its readers.
//!
//! # What a file system may do
//!
//! The model is that of POSIX as implemented by ext4, XFS and Btrfs: no more than `fsync(2)` promises, but
//! journaled.
//!
//! - **Data**: everything written before a file's last sync survives. Of later writes, all, nothing, the
//!   first half, or their length in zeroes may survive, independently for each file. A file that was never
//!   synced may be empty, even if renamed over another: names and data are written back independently.
//! - **Names**: each creation, rename and removal of a file or directory is atomic: never half a rename. Of
//!   the changes not made durable by a sync of their directory, each may have happened or not, in any order,
//!   but
//!   - changes of the same name happen in order: a later one implies the earlier one;
//!   - a directory that was not created is empty, even if it was synced: its own name is in its parent;
//!   - a directory is removed after its contents.
//! - A sync of a file does not make its name durable, nor a sync of a directory the data of its files. A
//!   rename from one directory to another becomes durable with a sync of either.
//!
//! Ext4 and XFS keep all names in one order, of which a crash loses the end; Btrfs can make a synced file's
//! name durable early. Both are among these states. Modes and times are ignored.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk;

/// A change of the disk that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskChange {
    /// A file was created, or opened for appending.
    Create(PathBuf),
    /// A directory was created.
    MakeDir(PathBuf),
    /// Bytes were written.
    Write {
        /// To this file.
        path: PathBuf,
        /// At this offset; `None` means its end.
        at: Option<u64>,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file was truncated or extended.
    Truncate {
        /// The file.
        path: PathBuf,
        /// Its new length.
        length: u64,
    },
    /// The data of a file became durable.
    Sync(PathBuf),
    /// The names in a directory became durable.
    SyncDir(PathBuf),
    /// A file was renamed, replacing any other of that name.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
    },
    /// A file or an empty directory was removed.
    Remove(PathBuf),
}

/// The changes to the tree below a directory, and its state before them.
#[derive(Debug, Clone)]
pub struct Recording {
    root: PathBuf,
    before: DiskState,
    changes: Vec<DiskChange>,
}

/// Runs `work` on this thread and records its changes below `root`.
pub fn recorded<T>(root: &Path, work: impl FnOnce() -> T) -> io::Result<(T, Recording)> {
    let before = DiskState::of(root)?;
    disk::begin_recording();
    let result = work();
    let changes = disk::end_recording();
    Ok((result, Recording { root: root.to_owned(), before, changes }))
}

/// The number of changes recorded so far on this thread.
pub fn changes_so_far() -> usize {
    disk::recorded_len()
}

impl Recording {
    /// A recording of absolute-path changes from another source: what happened to `root`, which
    /// started as `before`.
    pub fn new(root: &Path, before: DiskState, changes: Vec<DiskChange>) -> Self {
        Recording { root: root.to_owned(), before, changes }
    }

    /// The changes, in order. A crash is possible before the first and after each.
    pub fn changes(&self) -> &[DiskChange] {
        &self.changes
    }

    /// As above, on a disk that lies: the sync with this number, from 0, did nothing. `None` if there is
    /// no such sync.
    pub fn without_sync(&self, number: usize) -> Option<Self> {
        let is_sync = |change: &DiskChange| matches!(change, DiskChange::Sync(_) | DiskChange::SyncDir(_));
        let mut syncs = (0..self.changes.len()).filter(|at| is_sync(&self.changes[*at]));
        let at = syncs.nth(number)?;
        let mut lying = self.clone();
        // Paths outside the root are ignored.
        lying.changes[at] = DiskChange::Sync(PathBuf::new());
        Some(lying)
    }

    /// The state if the process is killed after this many changes: all of them survive.
    pub fn killed(&self, done: usize) -> DiskState {
        let replay = Replay::of(self, done);
        replay.state(&Fate { is_lost: vec![false; replay.names.len()], data: BTreeMap::new() })
    }

    /// Possible states if the machine stops after this many changes: distinct states, at most `max`, the
    /// first being [`Recording::killed`].
    ///
    /// All of them, if there are at most `max` before removing duplicates. Otherwise, up to `max`: all names
    /// lost, each prefix of the names kept, each alone lost, each alone kept, every one of these with the
    /// data of all files whole, lost, halved and zeroed; with all names, the data of each file alone lost,
    /// halved and zeroed; then random ones, from a generator with a fixed seed.
    pub fn crashed(&self, done: usize, max: usize) -> Vec<DiskState> {
        let replay = Replay::of(self, done);
        let fates: Box<dyn Iterator<Item = Fate>> = match replay.all_fates(max) {
            Some(fates) => Box::new(fates.into_iter()),
            None => Box::new(replay.chosen_fates().into_iter().chain(replay.random_fates(max))),
        };
        let mut seen = HashSet::new();
        fates.map(|fate| replay.state(&fate)).filter(|state| seen.insert(state.clone())).take(max).collect()
    }
}

/// A tree of directories and files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct DiskState(BTreeMap<Arc<Path>, Option<Arc<[u8]>>>);

impl DiskState {
    /// Reads the tree below a directory. Fails for anything but directories and files.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let mut state = DiskState::default();
        state.add(dir, Path::new(""))?;
        Ok(state)
    }

    fn add(&mut self, root: &Path, below: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(root.join(below))? {
            let entry = entry?;
            let (name, kind) = (below.join(entry.file_name()), entry.file_type()?);
            let content = match () {
                () if kind.is_dir() => {
                    self.add(root, &name)?;
                    None
                }
                () if kind.is_file() => Some(std::fs::read(entry.path())?.into()),
                () => {
                    return Err(io::Error::other(format!(
                        "{}: neither file nor directory",
                        entry.path().display()
                    )));
                }
            };
            self.0.insert(name.into(), content);
        }
        Ok(())
    }

    /// Names below the root, with the content of files; directories have none.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, Option<&[u8]>)> {
        self.0.iter().map(|(name, content)| (&**name, content.as_deref()))
    }

    /// Makes a directory contain exactly this tree. Files that match stay.
    pub fn lay_out(&self, dir: &Path) -> io::Result<()> {
        let now = DiskState::of(dir)?;
        // From last to first: the contents of a directory are removed before it. A changed file is removed
        // too: file systems are slow to rewrite one.
        for (name, content) in now.0.iter().rev().filter(|(name, content)| self.0.get(*name) != Some(content))
        {
            match content {
                None => std::fs::remove_dir(dir.join(name))?,
                Some(_) => std::fs::remove_file(dir.join(name))?,
            }
        }
        for (name, content) in &self.0 {
            match content {
                _ if now.0.get(name) == Some(content) => {}
                None => std::fs::create_dir(dir.join(name))?,
                Some(bytes) => std::fs::write(dir.join(name), bytes)?,
            }
        }
        Ok(())
    }
}

/// The fate of data written to a file since its last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Data {
    Whole,
    Lost,
    Half,
    Zeroes,
}

const DATA: [Data; 4] = [Data::Whole, Data::Lost, Data::Half, Data::Zeroes];

/// One possible outcome of a crash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Fate {
    /// For each change of names, whether it is lost.
    is_lost: Vec<bool>,
    /// By file number; other files are whole.
    data: BTreeMap<usize, Data>,
}

/// The data of a file.
#[derive(Debug, Default)]
struct Inode {
    synced: Vec<u8>,
    /// Writes since the last sync, in order.
    pending: Vec<Pending>,
}

#[derive(Debug)]
enum Pending {
    /// At this offset, or at the end.
    Write(Option<u64>, Vec<u8>),
    Truncate(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

/// A change of names.
#[derive(Debug)]
struct NameChange {
    /// The names that it changes, with their new nodes.
    sets: Vec<(Arc<Path>, Option<Node>)>,
    /// Earlier changes that it depends on. If it is durable, all of them are.
    needs: Vec<usize>,
    /// Changes that created its directories. They need not be durable if it is, but without them it is
    /// invisible, unless a file was moved out of such a directory.
    within: Vec<usize>,
    is_durable: bool,
}

/// The changes up to a crash.
struct Replay {
    inodes: Vec<Inode>,
    before: BTreeMap<Arc<Path>, Node>,
    names: Vec<NameChange>,
}

impl Replay {
    fn of(recording: &Recording, done: usize) -> Self {
        let mut replay = Replay { inodes: Vec::new(), before: BTreeMap::new(), names: Vec::new() };
        for (name, content) in &recording.before.0 {
            let node = match content {
                None => Node::Dir,
                Some(bytes) => replay.new_file(bytes),
            };
            replay.before.insert(name.clone(), node);
        }
        let mut now = replay.before.clone();
        for change in &recording.changes[..done] {
            replay.add(change, &recording.root, &mut now);
        }
        replay
    }

    fn new_file(&mut self, content: &[u8]) -> Node {
        self.inodes.push(Inode { synced: content.to_vec(), pending: Vec::new() });
        Node::File(self.inodes.len() - 1)
    }

    /// Adds a change; changes outside of the root are ignored.
    fn add(&mut self, change: &DiskChange, root: &Path, now: &mut BTreeMap<Arc<Path>, Node>) {
        let below = |path: &Path| path.strip_prefix(root).ok().map(Arc::<Path>::from);
        let file = |path: &Path| match now.get(&below(path)?) {
            Some(Node::File(number)) => Some(*number),
            _ => None,
        };
        let sets = match change {
            DiskChange::Create(path) if file(path).is_some() => return,
            DiskChange::Create(path) => {
                let node = self.new_file(&[]);
                vec![(below(path), Some(node))]
            }
            DiskChange::MakeDir(path) => vec![(below(path), Some(Node::Dir))],
            DiskChange::Remove(path) => vec![(below(path), None)],
            DiskChange::Rename { from, to } => {
                let node = file(from).map(Node::File);
                vec![(below(from), None), (below(to), node)]
            }
            DiskChange::Write { path, at, bytes } => {
                return self.write(file(path), Pending::Write(*at, bytes.clone()));
            }
            DiskChange::Truncate { path, length } => {
                return self.write(file(path), Pending::Truncate(*length));
            }
            DiskChange::Sync(path) => {
                return file(path).into_iter().for_each(|file| self.inodes[file].sync());
            }
            DiskChange::SyncDir(dir) => return below(dir).into_iter().for_each(|dir| self.sync_dir(&dir)),
        };
        let sets: Vec<_> = sets.into_iter().filter_map(|(name, node)| Some((name?, node))).collect();
        for (name, node) in &sets {
            match node {
                Some(node) => now.insert(name.clone(), *node),
                None => now.remove(name),
            };
        }
        let change = self.name_change(sets);
        self.names.push(change);
    }

    fn write(&mut self, file: Option<usize>, pending: Pending) {
        if let Some(file) = file {
            self.inodes[file].pending.push(pending);
        }
    }

    fn name_change(&self, sets: Vec<(Arc<Path>, Option<Node>)>) -> NameChange {
        let (mut needs, mut within) = (Vec::new(), Vec::new());
        for (number, earlier) in self.names.iter().enumerate() {
            for (name, node) in &sets {
                let touches = |path: &Path| earlier.sets.iter().any(|(other, _)| **other == *path);
                // A removed name may be that of a directory, which is then empty.
                let was_in = |(other, _): &(Arc<Path>, _)| node.is_none() && other.parent() == Some(name);
                if touches(name) || earlier.sets.iter().any(was_in) {
                    needs.push(number);
                } else if name.parent().is_some_and(touches) {
                    within.push(number);
                }
            }
        }
        NameChange { sets, needs, within, is_durable: false }
    }

    fn sync_dir(&mut self, dir: &Path) {
        // From last to first, because each depends only on earlier ones.
        for number in (0..self.names.len()).rev() {
            let change = &self.names[number];
            if change.is_durable || change.sets.iter().any(|(name, _)| name.parent() == Some(dir)) {
                let needs = change.needs.clone();
                self.names[number].is_durable = true;
                needs.into_iter().for_each(|needed| self.names[needed].is_durable = true);
            }
        }
    }

    /// Extends each loss to all dependent changes, and keeps durable ones.
    fn close(&self, is_lost: &mut [bool]) {
        for (number, change) in self.names.iter().enumerate() {
            let cannot_be = change.needs.iter().any(|before| is_lost[*before]);
            is_lost[number] = cannot_be || (is_lost[number] && !change.is_durable);
        }
    }

    fn state(&self, fate: &Fate) -> DiskState {
        let mut names = self.before.clone();
        for (_, change) in self.names.iter().enumerate().filter(|(number, _)| !fate.is_lost[*number]) {
            for (name, node) in &change.sets {
                match node {
                    Some(node) => names.insert(name.clone(), *node),
                    None => names.remove(name),
                };
            }
        }
        // In name order a directory comes before its content.
        let mut dirs = HashSet::from([Path::new("").to_owned()]);
        names.retain(|name, node| {
            let is_seen = name.parent().is_none_or(|parent| dirs.contains(parent));
            if is_seen && *node == Node::Dir {
                dirs.insert(name.to_path_buf());
            }
            is_seen
        });
        let content = |node| match node {
            Node::Dir => None,
            Node::File(file) => {
                let data = fate.data.get(&file).copied().unwrap_or(Data::Whole);
                Some(self.inodes[file].after(data).into())
            }
        };
        DiskState(names.into_iter().map(|(name, node)| (name, content(node))).collect())
    }

    /// The files with unsynced writes.
    fn unsynced(&self) -> Vec<usize> {
        (0..self.inodes.len()).filter(|file| !self.inodes[*file].pending.is_empty()).collect()
    }

    /// All outcomes, unless there are more than `max`.
    fn all_fates(&self, max: usize) -> Option<Vec<Fate>> {
        let start = Fate { is_lost: vec![false; self.names.len()], data: BTreeMap::new() };
        let mut fates = vec![start];
        for number in (0..self.names.len()).filter(|number| !self.names[*number].is_durable) {
            let lose = |fate: &Fate| {
                let mut fate = fate.clone();
                fate.is_lost[number] = true;
                self.close(&mut fate.is_lost);
                fate
            };
            let lost: Vec<Fate> = fates.iter().filter(|fate| !fate.is_lost[number]).map(lose).collect();
            fates.extend(lost);
            if fates.len() > max {
                return None;
            }
        }
        for file in self.unsynced() {
            let with = |data: Data| {
                fates.iter().cloned().map(move |mut fate| {
                    fate.data.insert(file, data);
                    fate
                })
            };
            fates = DATA.into_iter().flat_map(with).collect();
            if fates.len() > max {
                return None;
            }
        }
        Some(fates)
    }

    /// The outcomes that [`Recording::crashed`] names.
    fn chosen_fates(&self) -> Vec<Fate> {
        let count = self.names.len();
        let unsynced = self.unsynced();
        let mut losses = vec![vec![false; count], vec![true; count]];
        losses.extend((0..count).map(|kept| (0..count).map(|number| number >= kept).collect()));
        losses.extend((0..count).map(|lost| (0..count).map(|number| number == lost).collect()));
        for kept in 0..count {
            // With the changes that it depends on.
            let mut is_lost = vec![true; count];
            is_lost[kept] = false;
            for number in (0..=kept).rev() {
                let change = &self.names[number];
                if !is_lost[number] {
                    change.needs.iter().chain(&change.within).for_each(|before| is_lost[*before] = false);
                }
            }
            losses.push(is_lost);
        }
        losses.iter_mut().for_each(|is_lost| self.close(is_lost));
        let unique: BTreeSet<Vec<bool>> = losses.iter().cloned().collect();
        let mut left = unique;
        losses.retain(|is_lost| left.remove(is_lost));
        let mut fates = Vec::new();
        for is_lost in losses {
            fates.extend(DATA.map(|data| Fate {
                is_lost: is_lost.clone(),
                data: unsynced.iter().map(|file| (*file, data)).collect(),
            }));
        }
        for file in unsynced {
            let alone = |data| Fate { is_lost: vec![false; count], data: BTreeMap::from([(file, data)]) };
            fates.extend(DATA[1..].iter().copied().map(alone));
        }
        fates
    }

    /// Many more than `max`, because some are equal.
    fn random_fates(&self, max: usize) -> impl Iterator<Item = Fate> {
        let unsynced = self.unsynced();
        let mut number = 0x9e37_79b9_7f4a_7c15 ^ self.names.len() as u64;
        let mut next = move |below: u64| {
            // Xorshift (Marsaglia).
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            (number >> 11) % below
        };
        (0..4 * max).map(move |_| {
            // Some lose little, some a lot.
            let odds = 2 + next(6);
            let mut is_lost: Vec<bool> = self.names.iter().map(|_| next(odds) == 0).collect();
            self.close(&mut is_lost);
            let data = unsynced.iter().map(|file| (*file, DATA[next(4) as usize])).collect();
            Fate { is_lost, data }
        })
    }
}

impl Inode {
    fn sync(&mut self) {
        self.synced = self.after(Data::Whole);
        self.pending.clear();
    }

    /// The content of the file after a crash.
    fn after(&self, data: Data) -> Vec<u8> {
        let written = self.pending.iter().map(|pending| match pending {
            Pending::Write(_, bytes) => bytes.len(),
            Pending::Truncate(_) => 0,
        });
        let total: usize = written.sum();
        let mut room = match data {
            Data::Whole | Data::Zeroes => total,
            Data::Half => total / 2,
            Data::Lost => return self.synced.clone(),
        };
        let mut content = self.synced.clone();
        for pending in &self.pending {
            match pending {
                Pending::Truncate(length) => content.resize(*length as usize, 0),
                Pending::Write(at, bytes) => {
                    let bytes = &bytes[..bytes.len().min(room)];
                    room -= bytes.len();
                    let at = at.map_or(content.len(), |at| at as usize);
                    content.resize(content.len().max(at + bytes.len()), 0);
                    match data {
                        Data::Zeroes => content[at..at + bytes.len()].fill(0),
                        _ => content[at..at + bytes.len()].copy_from_slice(bytes),
                    }
                }
            }
        }
        content
    }
}

#[cfg(test)]
mod tests;
