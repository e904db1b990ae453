use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;

use crate::history::{self, Amount};
use crate::storage::Storage;
use crate::{Git, fixtures, layout};

/// The size of the history; each has renames, merges, an octopus, odd names, every mode and every kind of
/// tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 40 commits of small files: some hundred objects in a few kilobytes.
    Tiny,
    /// 250 commits, 300 refs and two big blobs: about 2,000 objects in about 2 MB.
    Small,
    /// 4,000 commits, 2,000 refs and several big blobs: about 30,000 objects in about 20 MB.
    Medium,
}

/// How refs are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RefFormat {
    /// One file per ref and `packed-refs`.
    #[default]
    Files,
    /// A stack of reftables.
    Reftable,
}

/// Builds a bare repository that is identical on every machine with the same stock git.
#[derive(Debug, Clone)]
pub struct RepoBuilder {
    size: Size,
    seed: u64,
    hash: HashKind,
    ref_format: RefFormat,
    storage: Storage,
}

impl RepoBuilder {
    /// A repository of this size: SHA-1, files refs, one pack.
    pub fn new(size: Size) -> Self {
        RepoBuilder {
            size,
            seed: 1,
            hash: HashKind::Sha1,
            ref_format: RefFormat::Files,
            storage: Storage::default(),
        }
    }

    /// Another seed gives different content of the same shape.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The hash of object names.
    pub fn hash(mut self, hash: HashKind) -> Self {
        self.hash = hash;
        self
    }

    /// How refs are stored.
    pub fn ref_format(mut self, ref_format: RefFormat) -> Self {
        self.ref_format = ref_format;
        self
    }

    /// How objects are stored.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Builds in a directory of its own, which is removed when the [`Repo`] is dropped.
    pub fn build(&self) -> Repo {
        let dir = crate::scratch_dir();
        let path = dir.path().join("repo.git");
        self.build_at(&path, Git::stock());
        Repo { path, git: Git::stock().clone(), hash: self.hash, _dir: Some(dir) }
    }

    /// Builds at `path`, which must not exist and stays; an alternate is created beside it. `git` writes the
    /// refs.
    pub fn build_at(&self, path: &Path, git: &Git) {
        assert!(self.storage.packs >= 1);
        std::fs::create_dir_all(path.parent().expect("a repository has a place"))
            .expect("its place can be made");
        if self.storage.alternate {
            // Repositories of which one contains the other's path cannot be copied.
            return self.build_anew(path, git);
        }
        fixtures::copy_or_build(&format!("{self:?}"), git, path, |path| self.build_anew(path, git));
    }

    /// As [`RepoBuilder::build_at`], but copies no earlier result: `git` does all the work.
    pub fn build_anew(&self, path: &Path, git: &Git) {
        self.init(path, git);
        let history = history::write(self.amount(), self.hash, self.seed);
        let marks_file = path.join("marks");
        let marks_option = format!("--export-marks={}", marks_file.display());
        let import =
            ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--done", marks_option.as_str()];
        git.run_with_input(path, &import, &history.stream);
        let main_line = read_marks(&marks_file, &history.main_line);
        git.run(path, &["tag", "-a", "-m", "The tree", "of-a-tree", "main^{tree}"]);
        git.run(path, &["tag", "of-a-tree-light", "main^{tree}"]);
        layout::apply(git, path, &self.storage, &main_line);
    }

    fn init(&self, path: &Path, git: &Git) {
        let path = path.to_str().expect("test paths are UTF-8");
        let format = format!("--object-format={}", self.hash);
        let mut args = vec!["init", "--quiet", "--bare", "--template=", "-b", "main", format.as_str()];
        if self.ref_format == RefFormat::Reftable {
            assert!(git.has_reftable(), "reftables need git 2.45 or newer");
            args.push("--ref-format=reftable");
        }
        args.push(path);
        git.run(Path::new("/"), &args);
    }

    fn amount(&self) -> Amount {
        match self.size {
            Size::Tiny => Amount { commits: 40, files: 12, lines: 20, big_blob_bytes: 0, pull_refs: 3 },
            Size::Small => {
                Amount { commits: 250, files: 60, lines: 60, big_blob_bytes: 1_500_000, pull_refs: 250 }
            }
            Size::Medium => {
                Amount { commits: 4000, files: 400, lines: 120, big_blob_bytes: 5_000_000, pull_refs: 1500 }
            }
        }
    }
}

/// A built repository.
#[derive(Debug)]
pub struct Repo {
    path: PathBuf,
    git: Git,
    hash: HashKind,
    /// Removes the directory when dropped.
    _dir: Option<tempfile::TempDir>,
}

impl Repo {
    /// The bare repository.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hash of its object names.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Runs stock git in it, which must succeed, and returns its output.
    pub fn git(&self, args: &[&str]) -> String {
        self.git.run(&self.path, args)
    }

    /// As [`Repo::git`], with standard input.
    pub fn git_with_input(&self, args: &[&str], input: &[u8]) -> String {
        String::from_utf8_lossy(&self.git.run_with_input(&self.path, args, input)).into_owned()
    }

    /// The names of all objects that refs reach.
    pub fn reachable_objects(&self) -> BTreeSet<String> {
        reachable_objects(&self.git, &self.path)
    }
}

/// The names of all objects that the refs of the repository at `path` reach.
pub fn reachable_objects(git: &Git, path: &Path) -> BTreeSet<String> {
    let listing = git.run(path, &["rev-list", "--objects", "--no-object-names", "--all"]);
    listing.lines().map(str::to_string).collect()
}

/// The ids of these marks, from a file with `:<mark> <id>` per line.
fn read_marks(file: &Path, marks: &[u64]) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("fast-import has written its marks");
    std::fs::remove_file(file).expect("and they can be removed");
    let ids: std::collections::HashMap<u64, &str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(':')?.split_once(' '))
        .map(|(mark, id)| (mark.parse().expect("a mark is a number"), id))
        .collect();
    marks.iter().map(|mark| ids[mark].to_string()).collect()
}
