//! Folds packs of a repository in a bucket into fewer packs.
//!
//! ```text
//! second repository, of hard links ─ repack ─ upload the new packs as one object ─ new head ─ swap
//! ```
//!
//! A fold may leave out an object that a remaining pack also has, so it is valid only while the head names
//! every pack that it was made from. Pushes only add packs. Another fold removes some; then the slower fold
//! is given up, because both could have left out the same object.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use packrace_format::head::{Head, ObjectKey, PackFileKind, StoredPack};
use packrace_object::ObjectId;
use packrace_os::count::Role;
use packrace_os::{durable, list_dir};
use packrace_store::StagedPack;

use crate::cache::{FilesAtHand, Opening};
use crate::commit::{Committer, MAX_ATTEMPTS, add_packs, pause};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::repository::{ReadHead, Swapped, next_head, random_token};
use crate::upload::Upload;

/// The outcome of a fold.
#[derive(Debug)]
pub enum FoldOutcome {
    /// The bucket's head now has this many packs.
    Done(usize),
    /// Another writer has removed packs meanwhile. Nothing was changed.
    Overtaken,
    /// The fold may or may not have been committed. Nothing is lost either way.
    Unknown(Error),
}

/// New packs that can replace old ones; local so far.
pub struct PreparedFold<'a> {
    committer: &'a Committer,
    name: &'a BucketName,
    held: Opening,
    scratch: ScratchRepository,
    /// The head that it was made from.
    source: Head,
    folded: Vec<ObjectId>,
    new: Vec<StagedPack>,
}

/// Removed on drop, with all its contents.
struct ScratchRepository {
    dir: PathBuf,
}

impl ScratchRepository {
    fn git_dir(&self) -> PathBuf {
        self.dir.join("fold.git")
    }
}

impl Drop for ScratchRepository {
    fn drop(&mut self) {
        if let Err(error) = durable::remove_tree(&self.dir, Role::Pack) {
            tracing::warn!("cannot remove {}: {error}", self.dir.display());
        }
    }
}

/// Prepares a fold. `repack` gets a copy of the newest repository and combines packs into fewer ones, or into
/// one with a bitmap. It must keep every object, reachable or not. `None` if the result is no better.
pub fn prepare<'a, E>(
    committer: &'a Committer,
    name: &'a BucketName,
    repack: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<Result<Option<PreparedFold<'a>>, E>, Error> {
    let cache = committer.cache();
    let held = cache.hold(name);
    let parent = cache.scratch_dir();
    let dir = durable::make_temporary_dir(&parent, "fold-", Role::Pack);
    let scratch = ScratchRepository { dir: dir.map_err(|error| Error::disk(&parent, &error))? };
    let git_dir = scratch.git_dir();
    let source = cache.link_newest(&held, name, &git_dir)?;
    if let Err(error) = repack(&git_dir) {
        return Ok(Err(error));
    }
    let left = packs_in(&git_dir)?;
    let has_bitmap = |checksum| has_file(&stem_of(&git_dir, checksum).with_extension("bitmap"));
    // A pack that has got a bitmap replaces itself.
    let stays =
        |pack: &StoredPack| left.contains(&pack.checksum) && (of_bitmap(pack) || !has_bitmap(pack.checksum));
    let (staying, gone): (Vec<&StoredPack>, Vec<_>) = source.packs.iter().partition(|pack| stays(pack));
    let folded: Vec<ObjectId> = gone.iter().map(|pack| pack.checksum).collect();
    let is_new = |checksum: &ObjectId| !staying.iter().any(|pack| pack.checksum == *checksum);
    let staged = |checksum: ObjectId| StagedPack { checksum, stem: stem_of(&git_dir, checksum) };
    let new: Vec<StagedPack> = left.iter().copied().filter(is_new).map(staged).collect();
    let is_first_bitmap = !source.packs.iter().any(of_bitmap) && left.iter().any(|pack| has_bitmap(*pack));
    let is_better = new.len() < folded.len() || is_first_bitmap;
    Ok(Ok(is_better.then_some(PreparedFold { committer, name, held, scratch, source, folded, new })))
}

fn of_bitmap(pack: &StoredPack) -> bool {
    pack.files.iter().any(|(kind, _)| *kind == PackFileKind::Bitmap)
}

fn has_file(path: &Path) -> bool {
    packrace_os::identity(path, Role::Pack).is_ok_and(|found| found.is_some())
}

pub(super) fn stem_of(git_dir: &Path, checksum: ObjectId) -> PathBuf {
    git_dir.join("objects/pack").join(format!("pack-{checksum}"))
}

/// The checksums of the packs of a repository.
pub(super) fn packs_in(git_dir: &Path) -> Result<Vec<ObjectId>, Error> {
    let dir = git_dir.join("objects/pack");
    let found = list_dir(&dir, Role::Pack).map_err(|error| Error::disk(&dir, &error))?;
    let checksum = |name: &str| {
        let digits = name.strip_prefix("pack-")?.strip_suffix(".idx")?;
        ObjectId::from_hex(digits.as_bytes()).ok()
    };
    Ok(found.iter().filter_map(|entry| checksum(entry.name.to_str()?)).collect())
}

/// Whether a head names all packs of another: places may differ, bytes may not.
fn names_all(head: &Head, source: &Head) -> bool {
    let digest = |pack: &StoredPack| {
        let file = pack.files.iter().find(|(kind, _)| *kind == PackFileKind::Pack);
        (pack.checksum, file.map(|(_, file)| file.sha256))
    };
    let named: std::collections::HashSet<_> = head.packs.iter().map(digest).collect();
    source.packs.iter().all(|pack| named.contains(&digest(pack)))
}

impl PreparedFold<'_> {
    /// How many packs it removes.
    pub fn folded(&self) -> usize {
        self.folded.len()
    }

    /// How many packs the head then has, if no push adds any.
    pub fn packs_after(&self) -> usize {
        self.source.packs.len() - self.folded.len() + self.new.len()
    }

    /// Uploads the new packs, and swaps in a head that names them instead of the old ones.
    pub fn commit(self) -> Result<FoldOutcome, Error> {
        self.commit_uploaded(None)
    }

    /// The same for packs that may have been uploaded already.
    pub(super) fn commit_uploaded(
        self,
        mut uploaded: Option<(ObjectKey, Vec<StoredPack>)>,
    ) -> Result<FoldOutcome, Error> {
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                pause(self.committer.cache().bucket(), attempt);
            }
            let newest = self.ages()?;
            if newest.has_overtaken {
                return Ok(FoldOutcome::Overtaken);
            }
            // Below the floor, a collection deletes it.
            let (key, packs) = match uploaded.take().filter(|(key, _)| key.generation >= newest.floor) {
                Some(uploaded) => uploaded,
                None => self.upload(newest.generation)?,
            };
            // Pushes of this node wait: otherwise they or the fold would lose.
            if let Some(outcome) = self.committer.alone(self.name, || self.swap(key, &packs))? {
                return Ok(outcome);
            }
            uploaded = Some((key, packs));
        }
        let words = format!("'{}' is changed too often by other nodes; try again later", self.name.as_str());
        Err(Error::new(ErrorKind::Unavailable, words))
    }

    /// Reads the newest head.
    fn ages(&self) -> Result<HeadAges, Error> {
        self.committer.cache().with_head(&self.held, self.name, true, |read, _| {
            let ReadHead { head, .. } = read;
            let has_overtaken = self.has_overtaken(head);
            Ok(HeadAges { generation: head.generation, floor: head.floor, has_overtaken })
        })
    }

    /// Whether a head lacks a pack that this fold depends on, or objects were removed on purpose that must
    /// not come back.
    fn has_overtaken(&self, newest: &Head) -> bool {
        !names_all(newest, &self.source) || newest.shrunk > self.source.generation
    }

    /// Uploads the packs, for a head that succeeds this generation.
    pub(super) fn upload(&self, generation: u64) -> Result<(ObjectKey, Vec<StoredPack>), Error> {
        let key = ObjectKey { generation: generation + 1, token: random_token()? };
        let mut upload = Upload::new(key);
        let packs = self.new.iter().map(|pack| upload.take_pack(pack.checksum, &pack.stem));
        let packs = packs.collect::<Result<_, _>>()?;
        upload.send(self.committer.cache().bucket(), self.name)?;
        Ok((key, packs))
    }

    /// Tries once. `None` if another head was faster, or the upload is below the floor.
    fn swap(&self, key: ObjectKey, packs: &[StoredPack]) -> Result<Option<FoldOutcome>, Error> {
        let cache = self.committer.cache();
        let basis = cache.with_head(&self.held, self.name, false, |read, _| Ok(read.basis()))?;
        let newest = &basis.head;
        if self.has_overtaken(newest) {
            return Ok(Some(FoldOutcome::Overtaken));
        }
        if key.generation < newest.floor {
            return Ok(None);
        }
        let (own, mut head) = next_head(newest)?;
        head.packs.retain(|pack| !self.folded.contains(&pack.checksum));
        add_packs(&mut head.packs, packs)?;
        let mut spilled = Upload::new(own);
        spilled.spill(&mut head)?;
        spilled.send(cache.bucket(), self.name)?;
        let count = head.packs.len();
        let counts = self.committer.counts();
        match basis.swap(cache.bucket(), self.name, head)? {
            Swapped::Won(read) => {
                counts.won.fetch_add(1, Relaxed);
                counts.folds.fetch_add(1, Relaxed);
                // The fold is committed; the next request brings the cache up to date.
                if let Err(error) = cache.install(&self.held, self.name, *read, &self.at_hand(packs)) {
                    tracing::error!(
                        "fold of '{}' done in the bucket, but not in the cache yet: {error}",
                        self.name.as_str()
                    );
                }
                Ok(Some(FoldOutcome::Done(count)))
            }
            Swapped::Lost => {
                counts.lost.fetch_add(1, Relaxed);
                Ok(None)
            }
            Swapped::Unknown(error) => {
                counts.unknown.fetch_add(1, Relaxed);
                Ok(Some(FoldOutcome::Unknown(error)))
            }
        }
    }

    /// The files that the cache need not fetch.
    fn at_hand(&self, packs: &[StoredPack]) -> FilesAtHand {
        let git_dir = self.scratch.git_dir();
        let files = packs.iter().flat_map(|pack| pack.files.iter().map(move |file| (pack.checksum, file)));
        let path =
            |checksum, kind: &PackFileKind| stem_of(&git_dir, checksum).with_extension(kind.extension());
        files.map(|(checksum, (kind, file))| (file.sha256, path(checksum, kind))).collect()
    }
}

/// The newest head's generation and floor, and whether it has overtaken the fold.
struct HeadAges {
    generation: u64,
    floor: u64,
    has_overtaken: bool,
}
