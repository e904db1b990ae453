//! The nodes that the kernel knows by number: files and directories, their current and former names, and
//! their requests.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use packrace_os::simulated::DiskChange;

use super::Traffic;

/// The number of the top directory (the kernel's `FUSE_ROOT_ID`).
pub const ROOT: u64 = 1;

/// All nodes that ever existed. Numbers are never reused, although the directory behind reuses its inode
/// numbers.
pub struct Nodes {
    behind: PathBuf,
    table: Mutex<Table>,
    /// The changes in order; `None` unless recording. Locked during a change.
    changes: Mutex<Option<Vec<DiskChange>>>,
    failing: Mutex<Option<Failing>>,
}

/// Which bytes of a file cannot be read.
pub type Failing = Box<dyn Fn(&Path, Range<u64>) -> bool + Send>;

struct Table {
    /// A node's number is its index here, counted from [`ROOT`].
    nodes: Vec<Node>,
    /// Numbers by device and inode behind, for nodes that have a name.
    living: HashMap<(u64, u64), u64>,
}

#[derive(Default)]
struct Node {
    /// The current paths from the top; empty after the last was removed.
    names: Vec<PathBuf>,
    /// The former paths.
    former_names: Vec<PathBuf>,
    traffic: Traffic,
}

impl Nodes {
    /// Starts with only the top.
    pub fn new(behind: PathBuf) -> io::Result<Nodes> {
        let metadata = std::fs::symlink_metadata(&behind)?;
        let top = Node { names: vec![PathBuf::new()], ..Node::default() };
        let living = HashMap::from([(identity(&metadata), ROOT)]);
        let table = Mutex::new(Table { nodes: vec![top], living });
        Ok(Nodes { behind, table, changes: Mutex::new(None), failing: Mutex::new(None) })
    }

    /// The directory behind.
    pub fn behind(&self) -> &Path {
        &self.behind
    }

    /// Starts recording changes.
    pub fn begin_recording(&self) {
        *self.lock_changes() = Some(Vec::new());
    }

    /// Ends recording, and returns the changes.
    pub fn end_recording(&self) -> Vec<DiskChange> {
        self.lock_changes().take().unwrap_or_default()
    }

    /// Makes a change and records it: one at a time while recording, so that the order is right.
    pub fn changing<T>(
        &self,
        work: impl FnOnce() -> io::Result<T>,
        change: impl FnOnce(&T) -> Option<DiskChange>,
    ) -> io::Result<T> {
        let mut noted = self.lock_changes();
        let Some(changes) = noted.as_mut() else {
            drop(noted);
            return work();
        };
        let done = work()?;
        changes.extend(change(&done));
        Ok(done)
    }

    /// Fails while recording.
    pub fn refuse_if_recorded(&self) -> io::Result<()> {
        match *self.lock_changes() {
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => Ok(()),
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, Option<Vec<DiskChange>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a node behind, by one of its names.
    pub fn path(&self, node: u64) -> io::Result<PathBuf> {
        Ok(self.behind.join(self.name(node)?))
    }

    /// The path from the top of `name` in the directory `parent`, and its path behind.
    pub fn child(&self, parent: u64, name: &Path) -> io::Result<(PathBuf, PathBuf)> {
        let name = self.name(parent)?.join(name);
        let path = self.behind.join(&name);
        Ok((name, path))
    }

    /// The node of a file that was found or created under a name.
    pub fn named(&self, name: PathBuf, metadata: &Metadata) -> u64 {
        let mut table = self.lock();
        let next = table.nodes.len() as u64 + ROOT;
        let number = *table.living.entry(identity(metadata)).or_insert(next);
        if number == next {
            table.nodes.push(Node::default());
        }
        let node = table.node(number);
        if !node.names.contains(&name) {
            node.names.push(name);
        }
        number
    }

    /// Removes a name.
    pub fn removed(&self, name: &Path) {
        self.lock().rename(name, None);
    }

    /// Renames a path; for a directory, also the paths below it.
    pub fn renamed(&self, from: &Path, to: &Path) {
        let mut table = self.lock();
        table.rename(to, None);
        table.rename(from, Some(to));
    }

    /// From now on these bytes cannot be read. Returns nodes that were or are now affected.
    pub fn fail_reads(&self, failing: Option<Failing>) -> Vec<u64> {
        let mut current = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, failing);
        let fails = |name: &Path| {
            [&before, &*current].into_iter().flatten().any(|failing| failing(name, 0..u64::MAX))
        };
        let table = self.lock();
        let changed =
            table.nodes.iter().enumerate().filter(|(_, node)| node.names.iter().any(|name| fails(name)));
        changed.map(|(number, _)| number as u64 + ROOT).collect()
    }

    /// Fails if these bytes of a node cannot be read.
    pub fn check_readable(&self, node: u64, bytes: Range<u64>) -> io::Result<()> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failing) = &*failing else { return Ok(()) };
        match self.lock().node(node).names.iter().any(|name| failing(name, bytes.clone())) {
            true => Err(io::Error::from_raw_os_error(fuser::Errno::EIO.code())),
            false => Ok(()),
        }
    }

    /// Counts a request for a node.
    pub fn count(&self, node: u64, add: impl FnOnce(&mut Traffic)) {
        add(&mut self.lock().node(node).traffic);
    }

    /// The sum over nodes with such a name.
    pub fn traffic(&self, is_meant: impl Fn(&Path) -> bool) -> Traffic {
        let table = self.lock();
        let meant = table
            .nodes
            .iter()
            .filter(|node| node.names.iter().chain(&node.former_names).any(|n| is_meant(n)));
        meant.fold(Traffic::default(), |sum, Node { traffic, .. }| Traffic {
            creates: sum.creates + traffic.creates,
            reads: sum.reads + traffic.reads,
            read_bytes: sum.read_bytes + traffic.read_bytes,
            writes: sum.writes + traffic.writes,
            written_bytes: sum.written_bytes + traffic.written_bytes,
            syncs: sum.syncs + traffic.syncs,
        })
    }

    /// Resets the counters.
    pub fn count_anew(&self) {
        for node in &mut self.lock().nodes {
            node.traffic = Traffic::default();
            node.former_names.clear();
        }
    }

    fn name(&self, node: u64) -> io::Result<PathBuf> {
        let name = self.lock().node(node).names.last().cloned();
        name.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Ignores poisoning: a panicked test leaves nothing half done here.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn node(&mut self, number: u64) -> &mut Node {
        &mut self.nodes[(number - ROOT) as usize]
    }

    /// Moves the name `from`, and all names below it, to `to`, or removes them.
    fn rename(&mut self, from: &Path, to: Option<&Path>) {
        for node in &mut self.nodes {
            let Some(at) = node.names.iter().position(|name| name.starts_with(from)) else { continue };
            let former = node.names.swap_remove(at);
            if let (Some(to), Ok(below)) = (to, former.strip_prefix(from)) {
                // Joining an empty path would add a slash.
                node.names.push(if below.as_os_str().is_empty() { to.into() } else { to.join(below) });
            }
            node.former_names.push(former);
        }
        let nodes = &self.nodes;
        self.living.retain(|_, number| !nodes[(*number - ROOT) as usize].names.is_empty());
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
