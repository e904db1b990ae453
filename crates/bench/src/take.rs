//! Receives packs: `index-pack` and `unpack-objects` into an empty repository, a new one for each run.

use std::io;
use std::path::Path;

use packrace_testkit::mounted::Mount;
use packrace_testkit::{Git, Random};

use crate::measure::{Contender, Observation, StdinFeed, Timing};
use crate::on_copy::{OnCopy, only_pack};
use crate::prepare::Scratch;
use crate::work::{Check, How, Take, Work};

/// Bytes per small object.
const SMALL_BYTES: usize = 400;

/// The repository's pack, indexed on two threads.
pub fn indexing(scratch: &Scratch, history: &Path) -> io::Result<Vec<Work>> {
    let pack = only_pack(&scratch.plain(history)?)?;
    let repo = scratch.empty()?;
    let work = |name: &str, feed, is_mounted| Work {
        name: name.to_string(),
        how: How::Take(Take {
            args: ["index-pack", "--stdin", "--threads=2"].map(str::to_string).to_vec(),
            pack: pack.clone(),
            feed,
            is_mounted,
        }),
        repo: repo.clone(),
        request: Vec::new(),
        check: Check::SamePackFiles,
        bytes_of: None,
    };
    Ok(vec![
        work("P5 index-pack --stdin, file", StdinFeed::File, false),
        work("P5 index-pack --stdin, pipe", StdinFeed::Pipe, false),
        work("P9 index-pack --stdin, onto FUSE", StdinFeed::File, true),
    ])
}

/// Packs of small objects, unpacked without and with syncing.
pub fn unpacking(git: &Git, scratch: &Scratch, is_smoke: bool) -> io::Result<Vec<Work>> {
    let mut all = Vec::new();
    for count in if is_smoke { [50, 500] } else { [500, 5_000] } {
        let pack = only_pack(&scratch.small_objects(count, |repo| fill(git, repo, count))?)?;
        for fsync in [None, Some("committed")] {
            let settings = fsync.map(|value| ["-c".to_string(), format!("core.fsync={value}")]);
            let args = settings.into_iter().flatten();
            all.push(Work {
                name: format!("unpack-objects, {count}, core.fsync {}", fsync.unwrap_or("default")),
                how: How::Take(Take {
                    args: args.chain(["unpack-objects", "-q"].map(str::to_string)).collect(),
                    pack: pack.clone(),
                    feed: StdinFeed::File,
                    is_mounted: false,
                }),
                repo: scratch.empty()?,
                request: Vec::new(),
                check: Check::SameRepository,
                bytes_of: None,
            });
        }
    }
    Ok(all)
}

/// Nearly incompressible blobs, in one pack.
fn fill(git: &Git, repo: &Path, count: usize) {
    let mut random = Random::new(8);
    let mut stream = Vec::new();
    for _ in 0..count {
        stream.extend_from_slice(format!("blob\ndata {SMALL_BYTES}\n").as_bytes());
        stream.extend_from_slice(&random.bytes(SMALL_BYTES));
        stream.push(b'\n');
    }
    git.run_with_input(repo, &["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet"], &stream);
}

/// A contender that receives packs, possibly on a mounted file system.
pub struct Taker<'a> {
    on_copy: OnCopy,
    mount: Option<&'a Mount>,
}

impl<'a> Taker<'a> {
    /// `binary -C COPY args…`.
    pub fn new(
        binary: &Path,
        work: &Work,
        take: &Take,
        git: &Git,
        mount: Option<&'a Mount>,
    ) -> io::Result<Self> {
        let mut on_copy = OnCopy::beside(place(work, mount), &work.repo, git, work.check.clone())?;
        let argv = [binary.display().to_string(), "-C".to_string(), on_copy.path().display().to_string()];
        let argv = argv.into_iter().chain(take.args.iter().cloned()).collect();
        on_copy.run(Contender { argv, feed: take.feed });
        Ok(Taker { on_copy, mount })
    }

    /// gix, which needs the pack directory.
    pub fn gix(binary: &Path, work: &Work, take: &Take, git: &Git) -> io::Result<Self> {
        let mut on_copy = OnCopy::beside(place(work, None), &work.repo, git, work.check.clone())?;
        let packs = on_copy.path().join("objects/pack").display().to_string();
        let args = ["--threads", "2", "free", "pack", "index", "create", &packs].map(str::to_string);
        let argv = std::iter::once(binary.display().to_string()).chain(args).collect();
        on_copy.run(Contender { argv, feed: take.feed });
        Ok(Taker { on_copy, mount: None })
    }

    /// One run.
    pub fn time(&self, pack: &Path) -> io::Result<Timing> {
        self.on_copy.time(pack)
    }

    /// An untimed run.
    pub fn observe(&self, pack: &Path) -> io::Result<Observation> {
        let seen = self.on_copy.observe(pack)?;
        let Some(mount) = self.mount else { return Ok(seen) };
        mount.count_anew();
        self.on_copy.time(pack)?;
        let packs = mount.traffic(|name| name.extension().is_some_and(|extension| extension == "pack"));
        Ok(Observation { packs_on_mount: Some(packs), ..seen })
    }
}

/// The directory of the copies.
fn place<'a>(work: &'a Work, mount: Option<&'a Mount>) -> &'a Path {
    mount.map_or_else(|| work.repo.parent().unwrap_or(&work.repo), Mount::place)
}
