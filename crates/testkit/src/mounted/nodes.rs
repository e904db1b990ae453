//! What the kernel knows by number: files and directories, the names they have and had, and what was asked of them.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use packrace_os::simulated::DiskChange;

use super::Traffic;

/// The number of the directory at the top (the kernel's `FUSE_ROOT_ID`).
pub const ROOT: u64 = 1;

/// All nodes there ever were. Numbers are not used again, although the file system behind uses its own again.
pub struct Nodes {
    behind: PathBuf,
    table: Mutex<Table>,
    /// In the order in which they were made; none while nobody wants to know. Held while one is made.
    changes: Mutex<Option<Vec<DiskChange>>>,
    failing: Mutex<Option<Failing>>,
}

/// Which bytes of which file cannot be read.
pub type Failing = Box<dyn Fn(&Path, Range<u64>) -> bool + Send>;

struct Table {
    /// A node's number is its place here, counted from [`ROOT`].
    nodes: Vec<Node>,
    /// By device and inode behind, while there is a name.
    living: HashMap<(u64, u64), u64>,
}

#[derive(Default)]
struct Node {
    /// Paths from the top that lead here; none when the last has been removed.
    names: Vec<PathBuf>,
    /// Those that did.
    former_names: Vec<PathBuf>,
    traffic: Traffic,
}

impl Nodes {
    /// With nothing but the top.
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

    /// Notes changes from here on.
    pub fn begin_recording(&self) {
        *self.lock_changes() = Some(Vec::new());
    }

    /// Gives what was noted.
    pub fn end_recording(&self) -> Vec<DiskChange> {
        self.lock_changes().take().unwrap_or_default()
    }

    /// Makes a change, and notes what it was: then one at a time, so that their order is that of the notes.
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

    /// Fails while changes are noted.
    pub fn refuse_if_recorded(&self) -> io::Result<()> {
        match *self.lock_changes() {
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
            None => Ok(()),
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, Option<Vec<DiskChange>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a node is behind, by one of its names.
    pub fn path(&self, node: u64) -> io::Result<PathBuf> {
        Ok(self.behind.join(self.name(node)?))
    }

    /// A path from the top for `name` in the directory `parent`, and where that is behind.
    pub fn child(&self, parent: u64, name: &Path) -> io::Result<(PathBuf, PathBuf)> {
        let name = self.name(parent)?.join(name);
        let path = self.behind.join(&name);
        Ok((name, path))
    }

    /// The node of what was found or made under a name.
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

    /// A name leads nowhere any more.
    pub fn removed(&self, name: &Path) {
        self.lock().rename(name, None);
    }

    /// A name, and those below it if it is a directory's, has become another one.
    pub fn renamed(&self, from: &Path, to: &Path) {
        let mut table = self.lock();
        table.rename(to, None);
        table.rename(from, Some(to));
    }

    /// From here on these bytes cannot be read. Gives the nodes whose bytes could not be, or can no longer be.
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

    /// Fails where these bytes of a node cannot be read.
    pub fn check_readable(&self, node: u64, bytes: Range<u64>) -> io::Result<()> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failing) = &*failing else { return Ok(()) };
        match self.lock().node(node).names.iter().any(|name| failing(name, bytes.clone())) {
            true => Err(io::Error::from_raw_os_error(fuser::Errno::EIO.code())),
            false => Ok(()),
        }
    }

    /// Counts what was asked of a node.
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

    /// Forgets what was counted.
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

    /// A test that has panicked has left nothing half done here.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn node(&mut self, number: u64) -> &mut Node {
        &mut self.nodes[(number - ROOT) as usize]
    }

    /// Gives what is called `from`, and all below, a name at `to` instead, or none.
    fn rename(&mut self, from: &Path, to: Option<&Path>) {
        for node in &mut self.nodes {
            let Some(at) = node.names.iter().position(|name| name.starts_with(from)) else { continue };
            let former = node.names.swap_remove(at);
            if let (Some(to), Ok(below)) = (to, former.strip_prefix(from)) {
                // Joining nothing would end the name with a slash.
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
