//! Disk faults in some repositories, while others are served.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_object::{HashKind, TrailerHasher};
use packrace_testkit::Random;
use packrace_testkit::peer::Script;
use packrace_testkit::raw_client::{Take, Transport};

use super::{Fragile, Soak};

/// How long a file stays broken, and the pause before the next fault.
const EVERY: Duration = Duration::from_millis(300);

/// Time limit until clones are complete again.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pack's header: its signature, version and number of objects (gitformat-pack).
const HEADER_BYTES: usize = 12;

/// Breaks files of the fragile repositories and repairs them. Meanwhile a clone gets a pack with all objects
/// or an error, and a push is refused or stored; after the repair a clone gets the pack.
pub fn break_files(soak: &Soak, is_over: &AtomicBool, seed: u64) {
    let mut random = Random::new(seed);
    let files: io::Result<Vec<_>> = soak.site.fragile.iter().map(|repo| files(&repo.path)).collect();
    let files = match files {
        Ok(files) => files,
        Err(error) => return soak.fail("files that break", error),
    };
    let mut pushes = Pushes::new(soak, &soak.site.fragile[0]);
    while !is_over.load(Relaxed) {
        let number = random.below(files.len());
        let repo = &soak.site.fragile[number];
        let (path, bytes) = &files[number][random.below(files[number].len())];
        let transport = if random.one_in(2) { Transport::Git } else { Transport::Http };
        let fault = match random.below(4) {
            0 => Fault::Replaced,
            1 => Fault::Unreadable,
            _ => Fault::CutOff(random.below(bytes.len())),
        };
        let who = format!("{} {fault:?}, {transport:?}", path.display());
        if let Err(error) = fault.happen(path, bytes) {
            return soak.fail(&who, error);
        }
        soak.counts.changes.fetch_add(1, Relaxed);
        check(soak, &who, repo, clone(soak, repo, transport, Duration::ZERO));
        // Repairing a ref file would undo what a push changed in it.
        let is_of_objects = path.extension().is_some_and(|end| end == "pack" || end == "idx");
        let is_acknowledged = (number == 0 && is_of_objects).then(|| pushes.push(transport));
        std::thread::sleep(EVERY);
        if let Err(error) = mend(path, bytes) {
            return soak.fail(&who, error);
        }
        if is_acknowledged.is_some_and(|is_acknowledged| !pushes.is_as_told(is_acknowledged)) {
            soak.fail(&who, "a push is not what it was told to be");
        }
        let end = Instant::now() + PATIENCE;
        let again = loop {
            match clone(soak, repo, transport, PATIENCE) {
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
                ended => break ended,
            }
        };
        if let Err(failure) = &again {
            soak.fail(&who, format!("then not whole again: {failure}"));
        }
        check(soak, &who, repo, again);
        std::thread::sleep(EVERY);
    }
}

/// A clone of all refs: the pack, or the error.
fn clone(soak: &Soak, repo: &Fragile, transport: Transport, patience: Duration) -> Result<Vec<u8>, String> {
    let tips: Vec<&str> = repo.tips.iter().map(String::as_str).collect();
    let target = soak.target(transport, &repo.path);
    let request = target.request(Script::new().fetch_v2("sha1", &tips, &[]).bytes());
    let got = target.fetch_patiently(&request, Take::Keep, Instant::now() + patience);
    got.map(|(got, _)| got.pack.kept).map_err(|failure| failure.to_string())
}

/// A complete pack must be correct, however it was made.
fn check(soak: &Soak, who: &str, repo: &Fragile, got: Result<Vec<u8>, String>) {
    let Ok(pack) = got else { return };
    let Some((header, (body, trailer))) = pack
        .first_chunk::<HEADER_BYTES>()
        .zip(pack.split_at_checked(pack.len().saturating_sub(HashKind::Sha1.len_in_bytes())))
    else {
        return soak.fail(who, "no pack");
    };
    let mut hasher = TrailerHasher::new(HashKind::Sha1);
    hasher.update(body);
    let objects = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if hasher.finish().as_bytes() != trailer || objects as usize != repo.objects {
        soak.fail(who, format!("a pack of {objects} objects, not {}, or a wrong hash", repo.objects));
    }
}

/// A fault of a file.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Only this many bytes are left.
    CutOff(usize),
    /// Different bytes under the same name.
    Replaced,
    /// A directory in place of the file.
    Unreadable,
}

impl Fault {
    fn happen(self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self {
            Fault::CutOff(length) => std::fs::File::options().write(true).open(path)?.set_len(length as u64),
            Fault::Replaced => {
                let beside = path.with_file_name("other");
                let other: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x55).collect();
                std::fs::write(&beside, other)?;
                std::fs::rename(beside, path)
            }
            Fault::Unreadable => {
                std::fs::remove_file(path)?;
                std::fs::create_dir(path)
            }
        }
    }
}

/// Writes in place if a file exists.
fn mend(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.is_dir() {
        std::fs::remove_dir(path)?;
    }
    std::fs::write(path, bytes)
}

/// Commits pushed to a fragile repository, each based on the last one that was stored.
struct Pushes<'a> {
    soak: &'a Soak<'a>,
    repo: &'a Fragile,
    folder: tempfile::TempDir,
    tree: String,
    /// The last pushed commit, and the last acknowledged one.
    last: String,
    acknowledged: Option<String>,
    number: usize,
}

/// The ref that the pushes move.
const BRANCH: &str = "refs/heads/soak";

impl<'a> Pushes<'a> {
    fn new(soak: &'a Soak, repo: &'a Fragile) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        // Separate files: faults in the repository must not affect this clone.
        let path = repo.path.display().to_string();
        soak.git.run(folder.path(), &["clone", "-q", "--mirror", "--no-hardlinks", &path, "."]);
        let tree = soak.git.run(folder.path(), &["rev-parse", "HEAD^{tree}"]).trim().to_owned();
        let now = soak.git.run(folder.path(), &["for-each-ref", "--format=%(objectname)", BRANCH]);
        let acknowledged = Some(now.trim().to_owned()).filter(|id| !id.is_empty());
        Pushes { soak, repo, folder, tree, last: String::new(), acknowledged, number: 0 }
    }

    /// Whether the server acknowledged a new commit.
    fn push(&mut self, transport: Transport) -> bool {
        self.number += 1;
        let git = |args: &[&str]| self.soak.git.run(self.folder.path(), args).trim().to_owned();
        let head = || git(&["rev-parse", "HEAD"]);
        let parent = self.acknowledged.clone().unwrap_or_else(head);
        let message = format!("fragile {}", self.number);
        self.last = git(&["commit-tree", &self.tree, "-p", &parent, "-m", &message]);
        let url = self.soak.server.url(transport == Transport::Http, &self.repo.path);
        let refspec = format!("{}:{BRANCH}", self.last);
        let push = self.soak.git.command(self.folder.path()).args(["push", "-q", &url, &refspec]).output();
        push.is_ok_and(|output| output.status.success())
    }

    /// Whether the branch is as acknowledged, after the repair; an interrupted push may have been stored.
    fn is_as_told(&mut self, is_acknowledged: bool) -> bool {
        let is_whole = self.soak.git.run(&self.repo.path, &["rev-list", "-1", "--objects", "--all"]);
        let now = self.soak.git.run(&self.repo.path, &["for-each-ref", "--format=%(objectname)", BRANCH]);
        let now = Some(now.trim().to_owned()).filter(|id| !id.is_empty());
        let is_new = now.as_ref() == Some(&self.last);
        let is_right = !is_whole.is_empty() && (is_new || !is_acknowledged && now == self.acknowledged);
        self.acknowledged = now;
        is_right
    }
}

/// The files to break, made writable, and their contents.
fn files(repo: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut files = Vec::new();
    for folder in ["objects/pack", "objects/info", "reftable", "."] {
        let Ok(entries) = std::fs::read_dir(repo.join(folder)) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default();
            let breaks = match folder {
                "objects/info" => name == "commit-graph",
                "." => name == "packed-refs",
                _ => true,
            };
            if breaks {
                files.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))?;
        let bytes = std::fs::read(&path)?;
        Ok((path, bytes))
    };
    files.into_iter().map(read).collect()
}
