//! Commands that run in a fresh copy of a repository, and the repository's content afterwards.

use std::io;
use std::path::{Path, PathBuf};

use packrace_object::{HashKind, TrailerHasher};
use packrace_testkit::Git;

use crate::measure::{Contender, Observation, StdinFeed, Timing, drop_page_cache};
use crate::work::Check;

/// A contender with its own copy of a repository.
pub struct OnCopy {
    contender: Contender,
    /// What to copy; `None` if the command creates the repository.
    source: Option<PathBuf>,
    copy: tempfile::TempDir,
    git: Git,
    check: Check,
    is_cold: bool,
}

impl OnCopy {
    /// `binary -C COPY args…`; the copy is beside `source`, so that files can be linked.
    pub fn new(binary: &Path, source: &Path, args: &[String], git: &Git, check: Check) -> io::Result<Self> {
        let mut on_copy = OnCopy::beside(source.parent().unwrap_or(source), source, git, check)?;
        let argv = [binary.display().to_string(), "-C".to_string(), on_copy.path().display().to_string()];
        let argv = argv.into_iter().chain(args.iter().cloned()).collect();
        on_copy.run(Contender { argv, feed: StdinFeed::File });
        Ok(on_copy)
    }

    /// A copy in a new directory below `beside`, without a command yet.
    pub fn beside(beside: &Path, source: &Path, git: &Git, check: Check) -> io::Result<Self> {
        Ok(OnCopy {
            contender: Contender { argv: Vec::new(), feed: StdinFeed::File },
            source: Some(source.to_path_buf()),
            copy: tempfile::tempdir_in(beside)?,
            git: git.clone(),
            check,
            is_cold: false,
        })
    }

    /// `binary clone --bare URL`.
    pub fn cloning(binary: &Path, url: &str, git: &Git) -> io::Result<Self> {
        let copy = tempfile::tempdir()?;
        let place = repo_in(&copy).display().to_string();
        let binary = binary.display().to_string();
        let argv = [binary.as_str(), "clone", "-q", "--bare", url, &place].map(str::to_string);
        let contender = Contender { argv: argv.to_vec(), feed: StdinFeed::File };
        let (git, check) = (git.clone(), Check::SameRepository);
        Ok(OnCopy { contender, source: None, copy, git, check, is_cold: false })
    }

    /// Sets whether the page cache is dropped before each timed run.
    pub fn begin_cold(&mut self, is_cold: bool) {
        self.is_cold = is_cold;
    }

    /// Sets the command.
    pub fn run(&mut self, contender: Contender) {
        self.contender = contender;
    }

    /// The path of the copy.
    pub fn path(&self) -> PathBuf {
        repo_in(&self.copy)
    }

    /// The directory that contains only the copy.
    pub fn root(&self) -> &Path {
        self.copy.path()
    }

    /// One run in a new copy; its bytes are those of all packs, or of all refs, afterwards.
    pub fn time(&self, request: &Path) -> io::Result<Timing> {
        self.renew()?;
        if self.is_cold {
            drop_page_cache()?;
        }
        let timing = self.contender.time(request, 1)?;
        let place = git_dir(&repo_in(&self.copy));
        let bytes = if self.check == Check::SameRefs { ref_bytes(&place)? } else { pack_bytes(&place)? };
        Ok(Timing { bytes, ..timing })
    }

    /// Runs in new copies; the answer is the repository's content afterwards.
    pub fn observe(&self, request: &Path) -> io::Result<Observation> {
        let seen = self.contender.observe(request, &|| self.renew())?;
        Ok(Observation { answer: self.state()?, ..seen })
    }

    /// The part of the repository that is compared.
    pub fn state(&self) -> io::Result<Vec<u8>> {
        match self.check {
            Check::SameRefs => Ok(refs_state(&self.git, &repo_in(&self.copy))),
            Check::SameRefsAndObjects => {
                let refs = self.git.run(&self.path(), &["for-each-ref"]).into_bytes();
                Ok([refs, self.checked_objects()?].concat())
            }
            Check::SamePackFiles => pack_files(&self.path()),
            Check::SameIndex => {
                let place = self.path();
                self.git.run(&place, &["fsck", "--strict", "--no-dangling"]);
                self.git.run(&place, &["diff", "--exit-code"]);
                let entries = self.git.run(&place, &["ls-files", "-s", "-t"]);
                Ok([entries, self.git.run(&place, &["write-tree"])].concat().into_bytes())
            }
            _ => self.checked_objects(),
        }
    }

    fn renew(&self) -> io::Result<()> {
        let place = repo_in(&self.copy);
        if place.exists() {
            std::fs::remove_dir_all(&place)?;
        }
        self.source.as_ref().map_or(Ok(()), |source| copy_dir(source, &place, false))?;
        if self.check == Check::SameIndex {
            // The measured command must not wait for the copy's data.
            std::process::Command::new("sync").status()?;
        }
        Ok(())
    }

    /// The names of all objects, after stock git found no errors.
    fn checked_objects(&self) -> io::Result<Vec<u8>> {
        let place = repo_in(&self.copy);
        self.git.run(&place, &["fsck", "--connectivity-only", "--no-dangling"]);
        if has_bitmap(&place)? {
            self.git.run(&place, &["rev-list", "--test-bitmap", "HEAD"]);
        }
        let list = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
        Ok(self.git.run(&place, &list).into_bytes())
    }
}

/// The git directory of a work tree, or a bare repository itself.
fn git_dir(place: &Path) -> PathBuf {
    let inside = place.join(".git");
    if inside.exists() { inside } else { place.to_path_buf() }
}

fn repo_in(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("repo.git")
}

/// Copies a repository. Objects, packs and their files never change in place, so they are linked.
fn copy_dir(from: &Path, to: &Path, is_linked: bool) -> io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target, is_linked || entry.file_name() == "objects")?;
        } else if is_linked {
            std::fs::hard_link(entry.path(), target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn files_of_packs(repo: &Path, extension: &str) -> io::Result<Vec<std::fs::DirEntry>> {
    let entries = std::fs::read_dir(repo.join("objects/pack"))?.collect::<io::Result<Vec<_>>>()?;
    let is_asked =
        |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|found| found == extension);
    Ok(entries.into_iter().filter(is_asked).collect())
}

/// The only pack of a repository.
pub fn only_pack(repo: &Path) -> io::Result<PathBuf> {
    match &files_of_packs(repo, "pack")?[..] {
        [pack] => Ok(pack.path()),
        packs => Err(io::Error::other(format!("{} has {} packs", repo.display(), packs.len()))),
    }
}

/// One line per pack file: its name, and a digest of its content. gix adds a `.keep`, whose content is
/// ignored.
fn pack_files(repo: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for extension in ["pack", "idx", "rev"] {
        for entry in files_of_packs(repo, extension)? {
            let mut hasher = TrailerHasher::new(HashKind::Sha256);
            hasher.update(&std::fs::read(entry.path())?);
            lines.push(format!("{} {}\n", entry.file_name().to_string_lossy(), hasher.finish()));
        }
    }
    Ok(lines.concat().into_bytes())
}

fn pack_bytes(repo: &Path) -> io::Result<u64> {
    files_of_packs(repo, "pack")?.into_iter().map(|entry| Ok(entry.metadata()?.len())).sum()
}

/// Bytes of `packed-refs` and reftables; loose refs are one line each and do not count.
fn ref_bytes(repo: &Path) -> io::Result<u64> {
    let mut files = vec![repo.join("packed-refs")];
    if let Ok(tables) = std::fs::read_dir(repo.join("reftable")) {
        files.extend(tables.collect::<io::Result<Vec<_>>>()?.into_iter().map(|entry| entry.path()));
    }
    Ok(files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum())
}

fn has_bitmap(repo: &Path) -> io::Result<bool> {
    Ok(!files_of_packs(repo, "bitmap")?.is_empty())
}

/// Number of reflogs whose lines are read: git needs quadratic time to read all.
pub const LOGS_READ: usize = 200;

/// All refs, with the many tags first, and reflogs, as git sees them: all names, and the lines of some.
fn refs_state(git: &Git, repo: &Path) -> Vec<u8> {
    let format = "--format=%(refname) %(objectname) %(*objectname) %(symref)";
    let many = git.run(repo, &["for-each-ref", format, "refs/tags/many/"]);
    let all = git.run(repo, &["for-each-ref", format]);
    let logs = git.run(repo, &["reflog", "list"]);
    let names: Vec<&str> = logs.lines().collect();
    let mut show = vec!["log", "--walk-reflogs", "--format=%gD %gn %ge %gs %H"];
    show.extend(names.iter().step_by(names.len() / LOGS_READ + 1));
    // Without a name, git would show the log of `HEAD`.
    let lines = if names.is_empty() { String::new() } else { git.run(repo, &show) };
    [many.as_str(), &all, &logs, &lines].concat().into_bytes()
}
