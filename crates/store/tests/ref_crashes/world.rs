//! A repository whose refs are changed, and one in which its states are laid out.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Output;

use packrace_format::reftable::{Deletions, Stack, Table, parse_list};
use packrace_object::{HashKind, ObjectId};
use packrace_os::simulated::DiskState;
use packrace_store::publish::{ObjectsStored, WritePolicy};
use packrace_store::refs::{
    Backend, Expected, PrepareError, RefChange, RefEdit, RefStore, RefWrites, StoredObjects, Target,
    TransactionMode, Value,
};
use packrace_store::{Config, ConfigSources, OpenOptions, Repository};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size, scratch_dir};

const WHO: &str = "A U Thor <author@example.com> 1112911993 +0000";

/// Refs, and what else must not be between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    pub refs: BTreeMap<Vec<u8>, Value>,
    pub packed: Option<Vec<u8>>,
    /// By the name of the ref.
    pub logs: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub struct World {
    /// Of everything.
    _dir: tempfile::TempDir,
    /// The repository. Its objects are in another one, so that there is little to be laid out.
    pub root: PathBuf,
    /// The other.
    pub copy: PathBuf,
    pub format: RefFormat,
    pub hash: HashKind,
    /// Four commits, and a tag.
    pub ids: Vec<ObjectId>,
    objects: StoredObjects,
    /// As where nothing is configured.
    pub writes: RefWrites,
}

impl World {
    pub fn new(format: RefFormat, hash: HashKind) -> Self {
        // Thousands of states are laid out: in memory, where the machine has such a place.
        let dir = scratch_dir();
        let [objects, root, copy] = ["objects.git", "r.git", "copy.git"].map(|name| dir.path().join(name));
        RepoBuilder::new(Size::Tiny).hash(hash).build_at(&objects, Git::stock());
        let listed = |args: &[&str]| -> Vec<ObjectId> {
            let listing = Git::stock().run(&objects, args);
            listing.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect()
        };
        let mut ids = listed(&["rev-list", "-n", "4", "HEAD"]);
        let tags = listed(&[
            "for-each-ref",
            "--format=%(objectname)",
            "--sort=-objecttype",
            "--count=1",
            "refs/tags",
        ]);
        ids.extend(tags);
        let (format_name, hash_name) = (
            match format {
                RefFormat::Files => "--ref-format=files",
                RefFormat::Reftable => "--ref-format=reftable",
            },
            format!("--object-format={}", hash),
        );
        let root_name = root.to_str().unwrap();
        Git::stock().run(
            dir.path(),
            &["init", "-q", "--bare", "--template=", "-b", "main", format_name, &hash_name, root_name],
        );
        Git::stock().run(&root, &["config", "core.logAllRefUpdates", "always"]);
        std::fs::write(root.join("objects/info/alternates"), format!("{}/objects\n", objects.display()))
            .unwrap();
        std::fs::create_dir(&copy).unwrap();
        let repository = Repository::open(&root, &OpenOptions::default()).unwrap();
        let mut writes =
            RefWrites::of(repository.config(), repository.hash_kind(), true, WHO.as_bytes().to_vec())
                .unwrap();
        for patience in
            [&mut writes.files_patience, &mut writes.packed_patience, &mut writes.reftable_patience]
        {
            *patience = Some(std::time::Duration::ZERO);
        }
        let objects = StoredObjects::new(&repository.snapshot().unwrap());
        World { _dir: dir, root, copy, format, hash, ids, objects, writes }
    }

    /// A reader of its own.
    pub fn objects(&self) -> StoredObjects {
        let repository = Repository::open(&self.root, &OpenOptions::default()).unwrap();
        StoredObjects::new(&repository.snapshot().unwrap())
    }

    pub fn store(&self, dir: &Path) -> RefStore {
        let backend = match self.format {
            RefFormat::Files => Backend::Files,
            RefFormat::Reftable => Backend::Reftable,
        };
        RefStore::open(dir.to_owned(), dir.to_owned(), backend, self.hash)
    }

    /// Makes a transaction as where nothing is configured.
    pub fn transact(&mut self, dir: &Path, edits: Vec<RefEdit>) -> Result<(), String> {
        let writes = self.writes.clone();
        self.transact_with(dir, edits, &writes)
    }

    /// Makes one as with `core.fsync=none`.
    pub fn transact_quickly(&mut self, dir: &Path, edits: Vec<RefEdit>) -> Result<(), String> {
        let writes = RefWrites { policy: not_synced(), ..self.writes.clone() };
        self.transact_with(dir, edits, &writes)
    }

    fn transact_with(&mut self, dir: &Path, edits: Vec<RefEdit>, writes: &RefWrites) -> Result<(), String> {
        let store = self.store(dir);
        let prepared = store.prepare(edits, TransactionMode::Atomic, writes, &mut self.objects);
        let refused = prepared.map_err(|error| error.to_string())?;
        let refused = refused.commit(&ObjectsStored::earlier(), &mut self.objects);
        assert_eq!(refused.map_err(|error| error.to_string())?, []);
        Ok(())
    }

    /// What our own readers find.
    pub fn view(&self, dir: &Path) -> Result<View, String> {
        let mut view = View { refs: self.refs(dir)?, ..View::default() };
        match self.format {
            RefFormat::Files => {
                view.packed = std::fs::read(dir.join("packed-refs")).ok();
                add_logs_of_files(dir, &mut view.logs);
            }
            RefFormat::Reftable => add_logs_of_tables(&dir.join("reftable"), &mut view.logs),
        }
        Ok(view)
    }

    /// The refs only.
    pub fn refs(&self, dir: &Path) -> Result<BTreeMap<Vec<u8>, Value>, String> {
        Ok(self.records(dir)?.into_iter().collect())
    }

    /// The refs as they are found, by name. A file that is not sorted as it says can show one twice.
    pub fn records(&self, dir: &Path) -> Result<Vec<(Vec<u8>, Value)>, String> {
        let snapshot = self.store(dir).snapshot(&[]).map_err(|error| error.to_string())?;
        let mut refs = Vec::new();
        let owned = |target: Target<'_>| match target {
            Target::Direct { id, .. } => Value::Id(id),
            Target::Symbolic(target) => Value::Symbolic(target.to_vec()),
        };
        let visited = snapshot.visit(b"", &mut |record| {
            refs.push((record.name.to_vec(), owned(record.target)));
            ControlFlow::Continue(())
        });
        visited.map_err(|error| error.to_string())?;
        let head = snapshot.find(b"HEAD").map_err(|error| error.to_string())?;
        refs.extend(head.map(|target| (b"HEAD".to_vec(), owned(target))));
        refs.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(refs)
    }

    /// Whether a ref can be changed that is expected to point at an object. Changes nothing.
    pub fn can_change(&mut self, dir: &Path, name: &str, is: ObjectId) -> Result<(), PrepareError> {
        let (store, writes) = (self.store(dir), self.writes.clone());
        let edit = RefEdit { expected: Expected::Id(is), ..edit(name, RefChange::Set(self.ids[3])) };
        store
            .prepare(vec![edit], TransactionMode::Atomic, &writes, &mut self.objects)
            .map(|prepared| prepared.abort())
    }

    /// Runs stock git in a directory.
    pub fn git(&self, dir: &Path, args: &[&str]) -> Output {
        Git::stock().command(dir).args(args).output().unwrap()
    }

    /// Reads the refs with stock git, which must find nothing wrong and what we find.
    pub fn check_with_git(&self, dir: &Path, view: &View, what: &str) {
        let listing = self.git(dir, &LIST);
        let said = String::from_utf8_lossy(&listing.stderr).into_owned();
        assert!(listing.status.success() && said.is_empty(), "{what}: {said}");
        assert_eq!(
            String::from_utf8_lossy(&listing.stdout),
            listed(&view.refs.clone().into_iter().collect::<Vec<_>>()),
            "{what}"
        );
        let verified = self.git(dir, &["refs", "verify", "--strict"]);
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && said.is_empty(), "{what}: refs verify: {said}");
    }
}

/// As `core.fsync=none` has it.
pub fn not_synced() -> WritePolicy {
    let overrides = vec![("core.fsync".to_owned(), Some("none".to_owned()))];
    let sources = ConfigSources { overrides, ..ConfigSources::default() };
    WritePolicy::of(&Config::outside(&sources).unwrap()).unwrap()
}

/// What lists refs in git.
pub const LIST: [&str; 3] = [
    "for-each-ref",
    "--include-root-refs",
    "--format=%(refname) %(if)%(symref)%(then)%(symref)%(else)%(objectname)%(end)",
];

/// What that says of these.
pub fn listed(refs: &[(Vec<u8>, Value)]) -> String {
    let mut lines = String::new();
    for (name, value) in refs {
        let name = String::from_utf8_lossy(name);
        match value {
            Value::Id(id) => lines.push_str(&format!("{name} {id}\n")),
            Value::Symbolic(target) => {
                // One that leads nowhere is not listed.
                let Some(last) = follow(refs, target) else { continue };
                lines.push_str(&format!("{name} {}\n", String::from_utf8_lossy(last)));
            }
        }
    }
    lines
}

/// The last of a chain of symbolic refs, if it leads to an object.
fn follow<'v>(refs: &'v [(Vec<u8>, Value)], name: &'v [u8]) -> Option<&'v [u8]> {
    match &refs.iter().find(|(other, _)| other == name)?.1 {
        Value::Id(_) => Some(name),
        Value::Symbolic(target) => follow(refs, target),
    }
}

fn add_logs_of_files(dir: &Path, logs: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let Ok(state) = DiskState::of(&dir.join("logs")) else { return };
    for (name, content) in state.entries() {
        if let Some(content) = content {
            logs.insert(name.as_os_str().as_encoded_bytes().to_vec(), content.to_vec());
        }
    }
}

fn add_logs_of_tables(dir: &Path, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let list = std::fs::read(dir.join("tables.list")).unwrap();
    let tables: Vec<Table<Vec<u8>>> = parse_list(&list)
        .unwrap()
        .into_iter()
        .map(|name| std::fs::read(dir.join(std::str::from_utf8(name).unwrap())).unwrap())
        .map(|bytes| Table::open(bytes).unwrap())
        .collect();
    let mut logs = Stack::new(&tables).logs(Deletions::Hide).unwrap();
    while logs.advance().unwrap() {
        let record = logs.current().unwrap();
        found.entry(record.name.to_vec()).or_default().extend(format!("{record:?}\n").bytes());
    }
}

/// An edit that changes the ref itself, whatever it says.
pub fn edit(name: &str, change: RefChange) -> RefEdit {
    RefEdit {
        name: name.as_bytes().to_vec(),
        change,
        expected: Expected::Any,
        deref: false,
        message: std::sync::Arc::from(b"why".as_slice()),
        force_log: false,
    }
}
