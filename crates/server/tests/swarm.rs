//! 256 clients at once, over both transports, from repositories with and without a bitmap; stock git is among them.

mod served;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_testkit::peer::Script;
use packrace_testkit::raw_client::{ReceivedPack, STACK_BYTES, Take, Target, Transport};
use packrace_testkit::received::objects_in_pack;
use packrace_testkit::{Bitmap, Git, RepoBuilder, Size, Storage, reachable_objects};

/// For each of two repositories and each of two transports: with those of stock git, 256 in all.
const RAW_CLIENTS: usize = 62;

/// For each of them too.
const STOCK_CLIENTS: usize = 2;

/// How long everything may take on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(300);

/// A request has a thread, and one more while it makes a pack.
const MAX_SERVER_THREADS: usize = 2 * 256;

/// A connection is one descriptor; over git:// it is read and written by two. A request may have files open.
const MAX_DESCRIPTORS_A_CLIENT: usize = 6;

/// The runtime keeps a thread for housekeeping, from the first time on that there is some to do.
const HOUSEKEEPING_THREADS: usize = 1;

/// What all threads that are not the server's are called.
const CLIENT_THREAD: &str = "client";

/// Threads that are not clients, and descriptors, of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    threads: usize,
    descriptors: usize,
}

impl Held {
    fn now() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        let threads = names.filter(|name| !name.is_empty() && name.trim_end() != CLIENT_THREAD).count();
        Held { threads, descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count() }
    }

    fn max(self, other: Self) -> Self {
        Held {
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

/// One of the four kinds of clients.
struct Group {
    repo: PathBuf,
    target: Target,
    request: Vec<u8>,
}

fn build(root: &Path, name: &str, bitmap: Bitmap) -> PathBuf {
    let path = root.join(name);
    let storage = Storage { bitmap, ..Storage::default() };
    RepoBuilder::new(Size::Small).storage(storage).build_at(&path, Git::stock());
    path
}

/// Asks for everything that refs name.
fn clone_request(repo: &Path) -> Script {
    let tips = Git::stock().run(repo, &["for-each-ref", "--format=%(objectname)"]);
    let tips: BTreeSet<&str> = tips.lines().collect();
    Script::new().fetch_v2("sha1", &tips.into_iter().collect::<Vec<_>>(), &[])
}

/// One is kept, for a look into it; some are hashed.
fn fetch(group: &Group, number: usize) -> ReceivedPack {
    let take = match number {
        0 => Take::Keep,
        _ if number.is_multiple_of(8) => Take::Hash(HashKind::Sha1),
        _ => Take::Checksum,
    };
    let fetched = group.target.fetch(&group.request, take);
    fetched.unwrap_or_else(|failure| panic!("{:?}, {number}: {failure}", group.target)).pack
}

/// Clones with stock git and gives the objects that it then has.
fn clone_with_git(target: &Target, to: &Path) -> BTreeSet<String> {
    let scheme = if target.transport == Transport::Git { "git" } else { "http" };
    let url = format!("{scheme}://{}{}", target.address, target.path);
    Git::stock().run(to.parent().unwrap(), &["clone", "-q", "--mirror", &url, to.to_str().unwrap()]);
    Git::stock().run(to, &["fsck", "--strict"]);
    reachable_objects(Git::stock(), to)
}

/// Runs on a thread that is not counted.
fn as_client<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    stack_bytes: usize,
    act: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let thread = std::thread::Builder::new().name(CLIENT_THREAD.to_owned()).stack_size(stack_bytes);
    thread.spawn_scoped(scope, act).unwrap()
}

/// What the server held at most until `done`.
fn most_held(done: &AtomicBool) -> Held {
    let mut most = Held::now();
    while !done.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
        most = most.max(Held::now());
    }
    most
}

/// Waits until the server holds no more than before; threads that wait for another request end after a while.
fn wait_until_settled(before: Held) {
    let start = Instant::now();
    loop {
        let now = Held::now();
        if now.threads <= before.threads + HOUSEKEEPING_THREADS && now.descriptors <= before.descriptors {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{before:?} became {now:?} and stays so");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Lets all clients of all groups start at once, and gives the pack of each group that its raw clients agree on.
fn clone_at_once(groups: &[Group], folder: &Path) -> Vec<ReceivedPack> {
    let start = Barrier::new(groups.len() * (RAW_CLIENTS + STOCK_CLIENTS));
    let start = &start;
    std::thread::scope(|scope| {
        let clients: Vec<_> = groups
            .iter()
            .enumerate()
            .map(|(at, group)| {
                let raw = (0..RAW_CLIENTS).map(|number| {
                    as_client(scope, STACK_BYTES, move || {
                        start.wait();
                        fetch(group, number)
                    })
                });
                let stock = (0..STOCK_CLIENTS).map(|number| {
                    as_client(scope, 1 << 20, move || {
                        start.wait();
                        clone_with_git(&group.target, &folder.join(format!("clone-{at}-{number}.git")))
                    })
                });
                (raw.collect::<Vec<_>>(), stock.collect::<Vec<_>>())
            })
            .collect();
        let joined = clients.into_iter().zip(groups).map(|((raw, stock), group)| {
            let mut packs = raw.into_iter().map(|client| client.join().unwrap());
            let first = packs.next().unwrap();
            for pack in packs {
                let of_all = |pack: &ReceivedPack| (pack.bytes, pack.crc);
                assert_eq!(of_all(&pack), of_all(&first), "{:?}", group.target);
            }
            let expect = reachable_objects(Git::stock(), &group.repo);
            for client in stock {
                assert_eq!(client.join().unwrap(), expect, "{:?}", group.target);
            }
            first
        });
        joined.collect()
    })
}

#[test]
fn clients_at_once_get_the_same_packs() {
    let folder = packrace_testkit::scratch_dir();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let repos = [("bitmap.git", Bitmap::Plain), ("plain.git", Bitmap::No)];
    let repos = repos.map(|(name, bitmap)| (name, build(&root, name, bitmap)));
    let addresses = served::start(&root, served::settings(folder.path()));
    let (http, git) = (addresses[0], addresses[1]);
    let mut groups = Vec::new();
    for (name, repo) in repos {
        for (transport, address) in [(Transport::Git, git), (Transport::Http, http)] {
            let target = Target { transport, address, path: format!("/{name}"), patience: PATIENCE };
            let request = target.request(clone_request(&repo).bytes());
            groups.push(Group { repo: repo.clone(), target, request });
        }
    }
    groups.iter().for_each(|group| drop(fetch(group, 1)));
    let before = Held::now();

    let done = AtomicBool::new(false);
    let (packs, held) = std::thread::scope(|scope| {
        let watch = as_client(scope, STACK_BYTES, || most_held(&done));
        let packs = clone_at_once(&groups, folder.path());
        done.store(true, Relaxed);
        (packs, watch.join().unwrap())
    });

    assert!(held.threads <= before.threads + MAX_SERVER_THREADS, "{before:?} became {held:?}");
    let clients = groups.len() * (RAW_CLIENTS + STOCK_CLIENTS);
    let most_descriptors = before.descriptors + clients * MAX_DESCRIPTORS_A_CLIENT;
    assert!(held.descriptors <= most_descriptors, "{before:?} became {held:?}");
    for (packs, groups) in packs.chunks(2).zip(groups.chunks(2)) {
        assert_eq!(packs[0], packs[1], "the transport makes no difference");
        let objects = objects_in_pack(Git::stock(), &packs[0].kept, HashKind::Sha1, None);
        assert_eq!(objects, reachable_objects(Git::stock(), &groups[0].repo));
    }
    wait_until_settled(before);
}
