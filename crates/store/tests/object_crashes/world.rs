//! A repository that gets objects, and one in which its states are laid out.

use std::path::{Path, PathBuf};

use packrace_format::pack_index::{self, PackIndex};
use packrace_object::{HashKind, Kind, ObjectId};
use packrace_os::simulated::DiskState;
use packrace_store::publish::{PackWriter, PublishOptions, PublishedPack, WritePolicy};
use packrace_store::{ConfigSources, OpenOptions, Repository};
use packrace_testkit::{Git, RepoBuilder, Size, scratch_dir};

/// So many are stored.
const OBJECTS: usize = 6;

pub struct World {
    /// Of everything.
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub copy: PathBuf,
    /// A commit and some of what it reaches.
    pub objects: Vec<(ObjectId, Kind, Vec<u8>)>,
    hash: HashKind,
    /// All of them in a pack.
    pack: Vec<u8>,
    entries: Vec<pack_index::Entry>,
}

impl World {
    pub fn new(hash: HashKind) -> Self {
        // Thousands of states are laid out: in memory, where the machine has such a place.
        let dir = scratch_dir();
        let source = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let root_commit = source.git(&["rev-list", "--reverse", "HEAD"]);
        let root_commit = root_commit.lines().next().unwrap();
        let listing = source.git(&["rev-list", "--objects", "--no-object-names", root_commit]);
        let ids: Vec<&str> = listing.lines().take(OBJECTS).collect();
        let stem = source.path().join("small").to_str().unwrap().to_owned();
        let name = Git::stock().run_with_input(
            source.path(),
            &["pack-objects", "-q", &stem],
            ids.join("\n").as_bytes(),
        );
        let stem = format!("{stem}-{}", String::from_utf8(name).unwrap().trim());
        let read = |extension: &str| std::fs::read(format!("{stem}.{extension}")).unwrap();
        let (pack, idx) = (read("pack"), read("idx"));
        let index = PackIndex::open(&idx, hash).unwrap();
        let entry = |position| pack_index::Entry {
            id: index.id_at(position).to_owned(),
            crc32: index.crc32_at(position).unwrap(),
            offset: index.offset_at(position),
        };
        let entries: Vec<_> = (0..index.len()).map(entry).collect();
        let snapshot = Repository::open(source.path(), &OpenOptions::default()).unwrap().snapshot().unwrap();
        let mut reader = snapshot.reader(1 << 20);
        let read = |entry: &pack_index::Entry| {
            let object = reader.read(&entry.id).unwrap();
            (entry.id, object.kind, object.data)
        };
        let objects: Vec<_> = entries.iter().map(read).collect();
        assert_eq!(objects.len(), OBJECTS);
        let [root, copy] = ["r.git", "copy.git"].map(|name| dir.path().join(name));
        let format = format!("--object-format={hash}");
        Git::stock()
            .run(dir.path(), &["init", "-q", "--bare", "--template=", &format, root.to_str().unwrap()]);
        std::fs::create_dir(&copy).unwrap();
        World { _dir: dir, root, copy, objects, hash, pack, entries }
    }

    /// With nothing configured, or with this `core.fsync`.
    pub fn open(&self, dir: &Path, fsync: Option<&str>) -> Repository {
        let overrides = fsync.map(|fsync| ("core.fsync".to_owned(), Some(fsync.to_owned())));
        let overrides = overrides.into_iter().collect();
        let config = ConfigSources { overrides, ..ConfigSources::default() };
        Repository::open(dir, &OpenOptions { config, ..OpenOptions::default() }).unwrap()
    }

    /// Publishes the pack there.
    pub fn publish_pack(
        &self,
        pack_dir: &Path,
        policy: WritePolicy,
    ) -> Result<PublishedPack, packrace_store::Error> {
        let mut writer = PackWriter::receive(pack_dir, self.hash, policy)?;
        writer.write(&self.pack)?;
        let options =
            PublishOptions { reverse_index: true, keep: Some(b"why\n"), ..PublishOptions::default() };
        writer.seal(self.entries.len() as u32)?.publish(&self.entries, &options)
    }

    /// Where a loose object is.
    pub fn loose_path(&self, dir: &Path, number: usize) -> PathBuf {
        let hex = self.objects[number].0.to_hex().to_string();
        dir.join("objects").join(&hex[..2]).join(&hex[2..])
    }

    /// How many of the objects are there. What is there is whole.
    pub fn count(&self, dir: &Path, what: &str) -> usize {
        let snapshot = self.open(dir, None).snapshot().unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut reader = snapshot.reader(1 << 20);
        let is_there = |(id, kind, content): &&(ObjectId, Kind, Vec<u8>)| {
            if !snapshot.contains(id).unwrap() {
                return false;
            }
            let object = reader.read(id).unwrap_or_else(|error| panic!("{what}: {id}: {error}"));
            assert!((object.kind, &object.data) == (*kind, content), "{what}: {id}");
            true
        };
        self.objects.iter().filter(is_there).count()
    }

    /// Stock git finds nothing wrong, and removes what was left lying about.
    pub fn check_with_git(&self, dir: &Path, what: &str) {
        let run = |args: &[&str]| {
            let output = Git::stock().command(dir).args(args).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{what}: {args:?}: {said}");
        };
        // What refers to it may not be there yet, so nothing may be taken for a tip.
        run(&["cat-file", "--batch-all-objects", "--batch"]);
        for pack in complete_packs(&DiskState::of(dir).unwrap()) {
            run(&["verify-pack", &format!("{pack}.idx")]);
        }
        run(&["prune", "--expire=now"]);
        let state = DiskState::of(dir).unwrap();
        let left = state.entries().find(|(name, _)| name.to_str().unwrap().contains("tmp_"));
        assert_eq!(left, None, "{what}");
    }
}

/// The paths of packs that have an index, without extensions. An index without a pack is passed over, by git too.
pub fn complete_packs(state: &DiskState) -> Vec<String> {
    let names: Vec<&str> = state.entries().filter_map(|(name, _)| name.to_str()).collect();
    let stems = names.iter().filter_map(|name| name.strip_suffix(".idx"));
    let is_whole = |stem: &&str| names.contains(&format!("{stem}.pack").as_str());
    stems.filter(is_whole).map(str::to_owned).collect()
}

/// The files of the repository's objects, and what is in them.
pub fn object_files(state: &DiskState) -> Vec<(&Path, &[u8])> {
    let is_object = |name: &Path| {
        let name = name.to_str().unwrap();
        name.starts_with("objects/") && !name.contains("tmp_") && !name.ends_with(".keep")
    };
    let files = state.entries().filter_map(|(name, content)| Some((name, content?)));
    files.filter(|(name, _)| is_object(name)).collect()
}
