//! A server with misbehaving clients for a long time: afterwards it must hold no more than before, and
//! well-behaved clients must not notice.
//!
//! To warm up, misbehaving clients, changes from outside and good clients run together for a while; when all
//! are gone and the server has settled, its usage is the baseline. Then they run for the rest of the time.

mod breaking;
mod faults;
mod good;
mod meddling;
pub mod samples;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use packrace_testkit::raw_client::{Target, Transport};
use packrace_testkit::{Bitmap, Git, GraphLayout, RefFormat, RepoBuilder, Size, Storage, reachable_objects};
use serde_json::{Value, json};

use crate::args::Args;
use crate::serve::Server;
use crate::{Error, PACKRACE};
use samples::{ProcessUsage, Samples};
use settings::{SettingsFile, SmallDisk};

/// Misbehaving clients.
const BAD_CLIENTS: u64 = 8;

/// Well-behaved raw clients; in addition one stock git clones, and one pushes.
const GOOD_CLIENTS: u64 = 4;

/// Warm-up and main time of a smoke run.
const SMOKE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];

/// One row of the table.
const MINUTE: Duration = Duration::from_secs(60);

/// Longest warm-up before the baseline.
const WARM_UP: Duration = Duration::from_secs(60);

/// How much the private memory at the end may exceed the baseline: an allocator keeps memory of many threads.
const MEMORY_MARGIN_BYTES: u64 = 16 << 20;

/// Maximum number of failures that are printed.
const MOST_FAILURES: usize = 20;

/// Runs the soak; an error if anything leaked, or a well-behaved client noticed.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("soak needs a packrace")?;
    let folder = tempfile::tempdir()?;
    let site = Site::new(folder.path(), git)?;
    let cache = folder.path().join("cache");
    std::fs::create_dir(&cache)?;
    let disk = SmallDisk::new(&cache);
    let settings = SettingsFile::new(folder.path(), &cache)?;
    let mut server = Server::packrace_as(binary, &site.root, None, Some(settings.path()))?;
    let soak = Soak {
        git,
        site: &site,
        settings: &settings,
        samples: Samples::new(server.id()),
        server: &server,
        failures: Mutex::default(),
        counts: SoakCounts::default(),
    };
    let whole = Duration::from_secs(60 * args.minutes as u64);
    let [warm_up, rest] = match args.minutes {
        0 => SMOKE,
        _ => [WARM_UP.min(whole / 4), whole - WARM_UP.min(whole / 4)],
    };
    println!(
        "\nSoak: {} s to warm up, then {} s.{}\n\n{}",
        warm_up.as_secs(),
        rest.as_secs(),
        if disk.is_some() { "" } else { " The disk of the cache is not full: that needs a mount." },
        samples::head()
    );
    let (before, after) = soak.samples.while_sampling(|| {
        let mut minute = 0;
        let [before, after] = [warm_up, rest].map(|time| {
            soak.work(time, &mut minute);
            let settled = soak.samples.settled();
            soak.print("settled", settled);
            settled
        });
        (before, after)
    });
    let failures = soak.failures.into_inner().expect("nobody panics with it");
    let [good, bad] = [&soak.counts.good, &soak.counts.bad].map(|count| count.load(Relaxed));
    judge(before, after, [failures, server.complaints()].concat())?;
    Ok(vec![json!({
        "work": "soak", "who": PACKRACE, "soak_seconds": (warm_up + rest).as_secs(), "failures": 0, "requests": good,
        "faults": bad, "anonymous_bytes": after.anonymous_bytes, "anonymous_bytes_before": before.anonymous_bytes,
    })])
}

/// The repositories.
struct Site {
    root: PathBuf,
    /// Never changed; with a bitmap.
    steady: PathBuf,
    /// Never changed; without a bitmap, and in several packs.
    plain: PathBuf,
    /// Repacked and pushed to.
    changing: PathBuf,
    /// Their files are broken and repaired.
    fragile: [Fragile; 3],
    /// Deleted and recreated from a copy outside.
    fleeting: PathBuf,
    outside: PathBuf,
}

/// A repository whose files are broken.
struct Fragile {
    path: PathBuf,
    /// The tips of its refs, which cannot be read while broken.
    tips: Vec<String>,
    /// The number of objects that the tips reach.
    objects: usize,
}

impl Fragile {
    fn new(path: PathBuf, format: RefFormat, storage: Storage, git: &Git) -> Self {
        let builder = RepoBuilder::new(Size::Small).ref_format(format).storage(storage).seed(5);
        builder.build_at(&path, git);
        let tips = crate::work::tips(git, &path);
        let objects = reachable_objects(git, &path).len();
        Fragile { path, tips, objects }
    }
}

impl Site {
    fn new(folder: &Path, git: &Git) -> std::io::Result<Self> {
        let root = folder.join("root");
        std::fs::create_dir(&root)?;
        let built = |path: PathBuf, size, bitmap, seed| {
            // A repository with a bitmap has one pack, sent as it is; for several packs a new pack is
            // generated, and may be cached.
            let packs = if bitmap == Bitmap::No { 3 } else { 1 };
            let storage = Storage { bitmap, packs, ..Storage::default() };
            RepoBuilder::new(size).storage(storage).seed(seed).build_at(&path, git);
            path
        };
        let outside = built(folder.join("outside.git"), Size::Tiny, Bitmap::No, 4);
        let fleeting = root.join("fleeting.git");
        meddling::copy(&outside, &fleeting)?;
        let with_helpers = |packs| Storage {
            packs,
            bitmap: Bitmap::Plain,
            multi_pack_index: packs > 1,
            commit_graph: GraphLayout::Single,
            ..Storage::default()
        };
        let fragile = [
            ("fragile", RefFormat::Files, with_helpers(1)),
            ("fragile-multi", RefFormat::Files, with_helpers(3)),
            ("fragile-tables", RefFormat::Reftable, with_helpers(1)),
        ];
        Ok(Site {
            steady: built(root.join("steady.git"), Size::Small, Bitmap::Plain, 1),
            plain: built(root.join("plain.git"), Size::Small, Bitmap::No, 2),
            changing: built(root.join("changing.git"), Size::Tiny, Bitmap::Plain, 3),
            fragile: fragile.map(|(name, format, storage)| {
                Fragile::new(root.join(format!("{name}.git")), format, storage, git)
            }),
            fleeting,
            outside,
            root,
        })
    }

    /// All repositories, each with the tips of its refs.
    fn all(&self, git: &Git) -> Vec<(&Path, Vec<String>)> {
        let others = [&self.steady, &self.plain, &self.changing, &self.fleeting].into_iter();
        let others = others.map(|path| (path.as_path(), crate::work::tips(git, path)));
        others.chain(self.fragile.iter().map(|repo| (repo.path.as_path(), repo.tips.clone()))).collect()
    }
}

/// Counters of all actions.
#[derive(Default)]
struct SoakCounts {
    good: AtomicU64,
    bad: AtomicU64,
    changes: AtomicU64,
}

impl std::fmt::Display for SoakCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [good, bad, changes] = [&self.good, &self.bad, &self.changes].map(|count| count.load(Relaxed));
        write!(f, "{good} | {bad} | {changes}")
    }
}

/// State shared by all workers.
struct Soak<'a> {
    git: &'a Git,
    site: &'a Site,
    settings: &'a SettingsFile,
    server: &'a Server,
    samples: Samples,
    failures: Mutex<Vec<String>>,
    counts: SoakCounts,
}

impl Soak<'_> {
    /// Runs all workers for `time`, and waits until all are done. Prints the usage in each minute.
    fn work(&self, time: Duration, minute: &mut u64) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (is_over, seed) = (&is_over, 1000 * *minute);
            for number in 0..BAD_CLIENTS {
                scope.spawn(move || faults::client(self, is_over, seed + number));
            }
            for number in 0..GOOD_CLIENTS {
                scope.spawn(move || good::raw_client(self, is_over, seed + BAD_CLIENTS + number));
            }
            scope.spawn(move || good::stock_clones(self, is_over));
            scope.spawn(move || good::stock_pushes(self, is_over));
            scope.spawn(move || meddling::meddle(self, is_over));
            scope.spawn(move || breaking::break_files(self, is_over, seed));
            let start = Instant::now();
            while start.elapsed() < time && self.has_few_failures() {
                let next = (Instant::now() + MINUTE).min(start + time);
                while Instant::now() < next && self.has_few_failures() {
                    std::thread::sleep(Duration::from_millis(100));
                }
                *minute += 1;
                self.print(&minute.to_string(), self.samples.highest());
            }
            is_over.store(true, Relaxed);
        });
    }

    fn print(&self, when: &str, held: ProcessUsage) {
        println!("{}", samples::row(when, held, &self.counts.to_string()));
    }

    fn target(&self, transport: Transport, repo: &Path) -> Target {
        let target = self.server.target(transport, repo).expect("packrace has both transports");
        Target { patience: Duration::from_secs(60), ..target }
    }

    fn fail(&self, who: &str, why: impl std::fmt::Display) {
        let mut failures = self.failures.lock().expect("nobody panics with it");
        failures.push(format!("{who}: {why}"));
    }

    fn has_few_failures(&self) -> bool {
        self.failures.lock().expect("nobody panics with it").len() < MOST_FAILURES
    }
}

fn judge(before: ProcessUsage, after: ProcessUsage, mut failures: Vec<String>) -> Result<(), Error> {
    if after.descriptors > before.descriptors {
        failures.push(format!("{} descriptors became {}", before.descriptors, after.descriptors));
    }
    if after.threads > before.threads {
        failures.push(format!("{} threads became {}", before.threads, after.threads));
    }
    let [had, has] = [before, after].map(|held| held.anonymous_bytes);
    if has > had + MEMORY_MARGIN_BYTES {
        failures.push(format!("{had} bytes of private memory became {has}"));
    }
    if failures.is_empty() {
        println!("\nNothing leaked, and nobody who behaves has noticed anything.");
        return Ok(());
    }
    Err(failures.join("\n").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_are_failures() {
        let before =
            ProcessUsage { descriptors: 10, threads: 6, anonymous_bytes: 5_000_000, virtual_bytes: 0 };
        let check = |after: ProcessUsage, is_fine: bool| {
            assert_eq!(judge(before, after, Vec::new()).is_ok(), is_fine, "{after:?}");
        };
        check(before, true);
        check(
            ProcessUsage { descriptors: 9, threads: 5, anonymous_bytes: 20_000_000, virtual_bytes: 1 },
            true,
        );
        check(ProcessUsage { descriptors: 11, ..before }, false);
        check(ProcessUsage { threads: 7, ..before }, false);
        check(ProcessUsage { anonymous_bytes: 22_000_000, ..before }, false);
        assert!(judge(before, before, vec!["a client".to_string()]).is_err());
    }
}
