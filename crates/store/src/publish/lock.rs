use std::path::{Path, PathBuf};
use std::time::Duration;

use packrace_os::clock;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile, SyncMethod, ToSync};

use super::{Component, WritePolicy, create_temporary, dir_of, make_durable_dir, with_extension};
use crate::error::{Error, Reason};

/// The most that is read of who holds a lock: a word and a number.
const MAX_HOLDER_BYTES: u64 = 64;

/// A file that is replaced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `multi-pack-index`, or the list of the files of a chain of them.
    MultiPackIndex,
    /// A file of a chain of multi-pack-indexes.
    MultiPackIndexLayer,
    /// The bitmap of a pack or of a multi-pack-index.
    Bitmap,
    /// A commit-graph, alone or in a chain.
    CommitGraph,
    /// The file that names the files of a chain.
    CommitGraphChain,
    /// Lists of refs and packs for the dumb HTTP protocol.
    ServerInfo,
    /// The shallow boundary.
    Shallow,
    /// A loose ref, `packed-refs`, the list of a reftable stack, or the configuration that
    /// selects the backend.
    Refs,
    /// The index of a work tree.
    WorkTreeIndex,
    /// A bundle that a server keeps.
    Bundle,
}

impl FileKind {
    /// The mode that git uses.
    fn mode(self) -> u32 {
        match self {
            FileKind::MultiPackIndex
            | FileKind::ServerInfo
            | FileKind::Shallow
            | FileKind::Refs
            | FileKind::WorkTreeIndex => 0o666,
            FileKind::MultiPackIndexLayer
            | FileKind::Bitmap
            | FileKind::CommitGraph
            | FileKind::CommitGraphChain
            | FileKind::Bundle => 0o444,
        }
    }

    fn component(self) -> Component {
        match self {
            FileKind::MultiPackIndex
            | FileKind::MultiPackIndexLayer
            | FileKind::Bitmap
            | FileKind::ServerInfo => Component::PackMetadata,
            FileKind::Shallow | FileKind::Refs => Component::Reference,
            FileKind::CommitGraph | FileKind::CommitGraphChain => Component::CommitGraph,
            FileKind::WorkTreeIndex => Component::Index,
            FileKind::Bundle => Component::Pack,
        }
    }

    fn role(self) -> Role {
        match self {
            FileKind::Refs => Role::Refs,
            FileKind::WorkTreeIndex => Role::WorkTree,
            FileKind::Bundle => Role::Pack,
            _ => Role::Index,
        }
    }

    fn temporary_prefix(self) -> &'static str {
        match self {
            FileKind::MultiPackIndex | FileKind::MultiPackIndexLayer => "tmp_midx_",
            FileKind::Bitmap => "tmp_bitmap_",
            FileKind::CommitGraph | FileKind::CommitGraphChain => "tmp_graph_",
            FileKind::ServerInfo => "tmp_info_",
            FileKind::Shallow => "shallow_",
            FileKind::Refs => "tmp_refs_",
            FileKind::WorkTreeIndex => "tmp_index_",
            FileKind::Bundle => "tmp_bundle_",
        }
    }
}

/// The first pause between two attempts to take a lock; it doubles with each attempt.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The right to replace a file: its name with `.lock`, which only one process can create. The new content is
/// written there and replaces the file on commit; dropping the lock removes it and keeps the file.
#[derive(Debug)]
pub struct LockFile {
    file: NewFile,
    path: PathBuf,
    kind: FileKind,
    policy: WritePolicy,
    /// Whether the content is already synced.
    is_settled: bool,
    /// Names this process; removed with the lock.
    holder: Option<NewFile>,
}

/// Whether what is on the path decides, not what the system lets us do.
fn is_in_the_way(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

impl LockFile {
    /// Takes the lock of `path`, making its directory if needed. Does not wait: the holder is writing
    /// the same file.
    pub fn take(path: &Path, kind: FileKind, policy: WritePolicy) -> Result<Self, Error> {
        Self::try_take(path, kind, policy)
    }

    /// As above, but waits for the holder: this long, or forever.
    pub(crate) fn take_within(
        path: &Path,
        kind: FileKind,
        policy: WritePolicy,
        patience: Option<Duration>,
    ) -> Result<Self, Error> {
        let mut waited = Duration::ZERO;
        let mut pause = SHORTEST_PAUSE;
        loop {
            match Self::try_take(path, kind, policy) {
                Err(error) if error.is_locked() && patience.is_none_or(|patience| waited < patience) => {
                    let left = patience.map_or(pause, |patience| patience - waited);
                    clock::sleep(pause.min(left));
                    waited += pause.min(left);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result,
            }
        }
    }

    fn try_take(path: &Path, kind: FileKind, policy: WritePolicy) -> Result<Self, Error> {
        let lock = with_extension(path, "lock");
        let create = || NewFile::create(&lock, kind.mode(), kind.role());
        let mut result = create();
        // The path of an index may be a mistake on the command line, so its directory is not created.
        let makes_dir = kind != FileKind::WorkTreeIndex;
        if makes_dir && result.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            make_durable_dir(dir_of(path), kind.role(), policy, kind.component())?;
            result = create();
        }
        let mut file = result.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Reason::Locked { path: lock.clone(), holder: holder_of(path, kind) }.into()
            }
            _ if !makes_dir || kind == FileKind::Refs && !is_in_the_way(&error) => {
                Reason::Unlockable { path: lock.clone(), source: error }.into()
            }
            _ => Error::io(&lock, error),
        })?;
        policy.prepare(&mut file).map_err(|error| Error::io(&lock, error))?;
        let holder = if policy.names_holders() { name_holder(path, kind, policy) } else { None };
        Ok(LockFile { file, path: path.to_owned(), kind, policy, is_settled: false, holder })
    }

    /// Appends to the new file.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.is_settled = false;
        self.file.write(bytes).map_err(|error| Error::io(self.file.path(), error))
    }

    /// Flushes what was appended so far, so that others can read it.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|error| Error::io(self.file.path(), error))
    }

    /// Gives the new file the mode of the file that it replaces.
    pub(crate) fn keep_mode(&mut self) -> Result<(), Error> {
        let mode = packrace_os::mode(&self.path, self.kind.role());
        let changed = mode.and_then(|mode| self.file.change_mode(|_| mode));
        changed.map_err(|error| Error::io(&self.path, error))
    }

    /// Always syncs, regardless of configuration, because the new file replaces content of other files.
    pub(crate) fn set_rewrite(&mut self) {
        self.policy = self.policy.of_rewrites();
        self.file.set_sync_method(SyncMethod::Full);
    }

    /// Makes the content durable, so that only the rename is left.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        Self::settle_all([self])
    }

    /// As above for many locks, in one wait.
    pub(crate) fn settle_all<'l>(locks: impl IntoIterator<Item = &'l mut LockFile>) -> Result<(), Error> {
        let (mut to_sync, mut role) = (Vec::new(), Role::Refs);
        for lock in locks.into_iter().filter(|lock| !lock.is_settled) {
            role = lock.kind.role();
            lock.is_settled = true;
            if prepare_to_settle(&mut lock.file, &lock.path, lock.kind, lock.policy)? {
                to_sync.push(ToSync::New(&mut lock.file));
            }
        }
        durable::sync_together(to_sync, role).map_err(Error::sync)
    }

    /// Replaces the file; the caller makes the directory durable.
    pub(crate) fn rename(self) -> std::io::Result<()> {
        drop(self.holder);
        self.file.replace(&self.path)
    }

    /// Replaces the file.
    pub fn commit(mut self) -> Result<(), Error> {
        self.settle()?;
        drop(self.holder);
        give_name(self.file, &self.path, self.kind, self.policy)
    }
}

/// A file that needs no lock because its name identifies its content. Dropping it unpublished removes it.
#[derive(Debug)]
pub struct FileWriter {
    file: NewFile,
    path: PathBuf,
    kind: FileKind,
    policy: WritePolicy,
}

impl FileWriter {
    /// Begins the file `path` under a temporary name in its directory, which is created if missing.
    pub fn create(path: &Path, kind: FileKind, policy: WritePolicy) -> Result<Self, Error> {
        let (prefix, component) = (kind.temporary_prefix(), kind.component());
        let file = create_temporary(dir_of(path), prefix, kind.mode(), kind.role(), policy, component)?;
        Ok(FileWriter { file, path: path.to_owned(), kind, policy })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write(bytes).map_err(|error| Error::io(self.file.path(), error))
    }

    /// Its length so far.
    pub fn length(&self) -> u64 {
        self.file.len()
    }

    /// Gives it its name.
    pub fn publish(self) -> Result<(), Error> {
        let FileWriter { mut file, path, kind, policy } = self;
        if prepare_to_settle(&mut file, &path, kind, policy)? {
            file.sync().map_err(|error| Error::io(file.path(), error))?;
        }
        give_name(file, &path, kind, policy)
    }
}

/// Publishes a file that needs no lock because its name identifies its content.
pub fn publish_file(path: &Path, bytes: &[u8], kind: FileKind, policy: WritePolicy) -> Result<(), Error> {
    let mut file = FileWriter::create(path, kind, policy)?;
    file.write(bytes)?;
    file.publish()
}

/// Takes the lock of a file and replaces it.
pub fn publish_locked(path: &Path, bytes: &[u8], kind: FileKind, policy: WritePolicy) -> Result<(), Error> {
    let mut lock = LockFile::take(path, kind, policy)?;
    lock.write(bytes)?;
    lock.commit()
}

/// The file that names the process that holds the lock of a file (git-config, "core.lockfilePid").
fn holder_path(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push("~pid.lock");
    beside.into()
}

/// Names this process as the holder of a lock. That it cannot be named is no reason not to have the lock.
fn name_holder(path: &Path, kind: FileKind, policy: WritePolicy) -> Option<NewFile> {
    let mut file = NewFile::create(&holder_path(path), kind.mode(), kind.role()).ok()?;
    let text = format!("pid {}\n", std::process::id());
    policy.prepare(&mut file).and_then(|()| file.write(text.as_bytes())).and_then(|()| file.flush()).ok()?;
    Some(file)
}

/// What is known of the process that holds the lock of a file, in git's words. An owner may have put anything there.
fn holder_of(path: &Path, kind: FileKind) -> String {
    let text = packrace_os::read_regular_file(&holder_path(path), false, kind.role(), MAX_HOLDER_BYTES);
    let number = text.ok().and_then(|text| {
        let text = std::str::from_utf8(&text).ok()?;
        text.strip_prefix("pid ")?.trim_ascii().parse().ok().filter(|number: &u64| *number > 0)
    });
    let is_running = |number| u32::try_from(number).is_ok_and(packrace_os::process::is_running);
    match number {
        Some(number) if is_running(number) => format!(
            "Lock may be held by process {number}; if no git process is running, the lock file may be stale (PIDs can be reused)"
        ),
        Some(number) => format!(
            "Lock was held by process {number}, which is no longer running; the lock file appears to be stale"
        ),
        None => "Another git process seems to be running in this repository, or the lock file may be stale"
            .to_owned(),
    }
}

/// Flushes everything; returns whether to sync: if configured, and if a file is replaced, of which a crash
/// could otherwise leave nothing.
fn prepare_to_settle(
    file: &mut NewFile,
    path: &Path,
    kind: FileKind,
    policy: WritePolicy,
) -> Result<bool, Error> {
    file.flush().map_err(|error| Error::io(file.path(), error))?;
    if policy.syncs_in_full(kind.component()) {
        return Ok(true);
    }
    // A file that cannot be examined counts as existing.
    let old = packrace_os::identity(path, kind.role());
    let is_rewrite = !old.is_ok_and(|old| old.is_none_or(|old| old.is_dir));
    if is_rewrite {
        file.set_sync_method(SyncMethod::Full);
    }
    Ok(is_rewrite || policy.syncs(kind.component()))
}

fn give_name(file: NewFile, path: &Path, kind: FileKind, policy: WritePolicy) -> Result<(), Error> {
    file.replace(path).map_err(|error| Error::io(path, error))?;
    if policy.syncs_names(kind.component()) {
        let dir = dir_of(path);
        durable::sync_dir(dir, kind.role()).map_err(|error| Error::io(dir, error))?;
    }
    Ok(())
}
