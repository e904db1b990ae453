//! A repository whose refs are changed, and one in which its states are laid out.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Output;

use packrace_format::reftable::{Deletions, Stack, Table, parse_list};
use packrace_object::{HashKind, ObjectId};
use packrace_os::simulated::State;
use packrace_store::publish::{DurableObjects, WritePolicy};
use packrace_store::refs::{
    Backend, Change, Expected, Mode, RefEdit, RefStore, RefWrites, StoredObjects, Target, Value,
};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size};

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
    /// With everything synced.
    pub writes: RefWrites,
}

impl World {
    pub fn new(format: RefFormat, hash: HashKind) -> Self {
        // Thousands of states are laid out: in memory, where the machine has such a place.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.unwrap();
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
        for (name, value) in [("core.fsync", "all"), ("core.logAllRefUpdates", "always")] {
            Git::stock().run(&root, &["config", name, value]);
        }
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

    pub fn store(&self, dir: &Path) -> RefStore {
        let backend = match self.format {
            RefFormat::Files => Backend::Files,
            RefFormat::Reftable => Backend::Reftable,
        };
        RefStore::open(dir.to_owned(), dir.to_owned(), backend, self.hash)
    }

    /// Makes a transaction as durable as it can be.
    pub fn transact(&mut self, dir: &Path, edits: Vec<RefEdit>) -> Result<(), String> {
        let writes = self.writes.clone();
        self.transact_with(dir, edits, &writes)
    }

    /// Makes one that is not.
    pub fn transact_quickly(&mut self, dir: &Path, edits: Vec<RefEdit>) -> Result<(), String> {
        let writes = RefWrites { policy: WritePolicy::default(), ..self.writes.clone() };
        self.transact_with(dir, edits, &writes)
    }

    fn transact_with(&mut self, dir: &Path, edits: Vec<RefEdit>, writes: &RefWrites) -> Result<(), String> {
        let store = self.store(dir);
        let prepared = store.prepare(edits, Mode::Atomic, writes, &mut self.objects);
        let refused = prepared.map_err(|error| error.to_string())?;
        let refused = refused.commit(&DurableObjects::stored_before(), &mut self.objects);
        assert_eq!(refused.map_err(|error| error.to_string())?, []);
        Ok(())
    }

    /// What our own readers find.
    pub fn view(&self, dir: &Path) -> Result<View, String> {
        let snapshot = self.store(dir).snapshot(&[]).map_err(|error| error.to_string())?;
        let mut view = View::default();
        let owned = |target: Target<'_>| match target {
            Target::Direct { id, .. } => Value::Id(id),
            Target::Symbolic(target) => Value::Symbolic(target.to_vec()),
        };
        let visited = snapshot.visit(b"", &mut |record| {
            view.refs.insert(record.name.to_vec(), owned(record.target));
            ControlFlow::Continue(())
        });
        visited.map_err(|error| error.to_string())?;
        let head = snapshot.find(b"HEAD").map_err(|error| error.to_string())?;
        view.refs.extend(head.map(|target| (b"HEAD".to_vec(), owned(target))));
        match self.format {
            RefFormat::Files => {
                view.packed = std::fs::read(dir.join("packed-refs")).ok();
                add_logs_of_files(dir, &mut view.logs);
            }
            RefFormat::Reftable => add_logs_of_tables(&dir.join("reftable"), &mut view.logs),
        }
        Ok(view)
    }

    /// Runs stock git in a directory.
    pub fn git(&self, dir: &Path, args: &[&str]) -> Output {
        Git::stock().command(dir).args(args).output().unwrap()
    }

    /// Reads the refs with stock git, which must find nothing wrong and what we find.
    pub fn check_with_git(&self, dir: &Path, view: &View, what: &str) {
        let format = "--format=%(refname) %(if)%(symref)%(then)%(symref)%(else)%(objectname)%(end)";
        let listing = self.git(dir, &["for-each-ref", "--include-root-refs", format]);
        let said = String::from_utf8_lossy(&listing.stderr).into_owned();
        assert!(listing.status.success() && said.is_empty(), "{what}: {said}");
        // One that leads nowhere is not listed.
        let mut expect: Vec<String> = Vec::new();
        for (name, value) in &view.refs {
            let name = String::from_utf8_lossy(name);
            match value {
                Value::Id(id) => expect.push(format!("{name} {id}")),
                Value::Symbolic(target) => {
                    let last = follow(view, target);
                    expect.extend(last.map(|last| format!("{name} {}", String::from_utf8_lossy(last))));
                }
            }
        }
        assert_eq!(String::from_utf8_lossy(&listing.stdout).lines().collect::<Vec<_>>(), expect, "{what}");
        let verified = self.git(dir, &["refs", "verify", "--strict"]);
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && said.is_empty(), "{what}: refs verify: {said}");
    }
}

/// The last of a chain of symbolic refs, if it leads to an object.
fn follow<'v>(view: &'v View, name: &'v [u8]) -> Option<&'v [u8]> {
    match view.refs.get(name)? {
        Value::Id(_) => Some(name),
        Value::Symbolic(target) => follow(view, target),
    }
}

fn add_logs_of_files(dir: &Path, logs: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let Ok(state) = State::of(&dir.join("logs")) else { return };
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
pub fn edit(name: &str, change: Change) -> RefEdit {
    RefEdit {
        name: name.as_bytes().to_vec(),
        change,
        expected: Expected::Any,
        deref: false,
        message: std::sync::Arc::from(b"why".as_slice()),
        force_log: false,
    }
}
