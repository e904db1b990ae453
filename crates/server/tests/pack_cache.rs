//! Packs that are shared: who gets the same one, who does not, and that everybody gets a whole one.

mod served;

use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use packrace_object::HashKind;
use packrace_os::simulated::SimulatedClock;
use packrace_server::error::{Error, ErrorKind};
use packrace_server::host::Host;
use packrace_server::limits::admission::AdmissionSettings;
use packrace_server::send::outbox::{ClientSink, GatherBatch};
use packrace_server::send::pack_cache::{CacheSettings, CacheStatus, PackCache};
use packrace_server::subject::{CallMode, ProtocolVersion, Subject};
use packrace_server::transfers::Transfer;
use packrace_server::upload::{UploadPack, upload_pack};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::peer::{Feed, Script, http, tcp};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Git, Random, Repo, RepoBuilder, Size, reachable_objects};

/// Long enough for anything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server without transports: calls come from this process.
struct Server {
    host: Arc<Host>,
    clock: SimulatedClock,
    directory: tempfile::TempDir,
}

impl Server {
    fn new() -> Self {
        let directory = packrace_testkit::scratch_dir();
        let settings =
            CacheSettings { directory: Some(directory.path().to_owned()), ..CacheSettings::default() };
        let host = Host { packs: PackCache::new(settings, Arc::default()), ..Host::default() };
        Server { host: Arc::new(host), clock: SimulatedClock::default(), directory }
    }

    fn call(
        &self,
        path: &Path,
        script: &Script,
        version: ProtocolVersion,
        sink: &mut dyn ClientSink,
    ) -> Result<(), Error> {
        let subject = Subject {
            repository: Arc::new(Repository::open(path, &OpenOptions::default()).unwrap()),
            version,
            mode: CallMode::StatelessRpc,
            namespace: String::new(),
            agent: "packrace/test".into(),
            transfer: Transfer::unlisted("1"),
            host: self.host.clone(),
            confinement: Default::default(),
            paths: Default::default(),
        };
        let call = UploadPack { subject, hook_environment: Vec::new(), bundles: None };
        upload_pack(&call, &mut Cursor::new(script.bytes()), sink, &self.clock)
    }

    /// The pack that a client with a side-band gets.
    fn fetch(&self, path: &Path, script: &Script) -> Vec<u8> {
        let mut sink = Recorder::default();
        self.call(path, script, ProtocolVersion::V2, &mut sink).unwrap();
        fetch_answer(&sink.bytes).unwrap().bands.pack
    }

    /// The pack that one without gets.
    fn fetch_raw(&self, path: &Path, want: &str) -> Vec<u8> {
        let script =
            Script::new().line(&format!("want {want} thin-pack include-tag ofs-delta")).flush().line("done");
        let mut sink = Recorder::default();
        self.call(path, &script, ProtocolVersion::V0, &mut sink).unwrap();
        sink.bytes.strip_prefix(b"0008NAK\n").unwrap().to_vec()
    }

    fn status(&self) -> CacheStatus {
        self.host.packs.status()
    }

    #[track_caller]
    fn check(&self, misses: u64, hits: u64) {
        let status = self.status();
        assert_eq!((status.misses, status.hits_kept + status.hits_running), (misses, hits), "{status:?}");
    }
}

/// Keeps what arrives. Tells of its first batch, and waits then.
#[derive(Default)]
struct Recorder {
    bytes: Vec<u8>,
    batches: usize,
    gate: Option<(Sender<()>, Receiver<()>)>,
    is_gone: bool,
}

impl ClientSink for Recorder {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        self.bytes.extend(batch.pieces().flatten());
        self.batches += 1;
        if batch.mapped_bytes() > 0
            && let Some((told, gate)) = self.gate.take()
        {
            told.send(()).unwrap();
            // Nobody lets a client go on that is to leave.
            self.is_gone = gate.recv_timeout(PATIENCE).is_err();
        }
        if self.is_gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn peer_gone(&mut self) -> bool {
        self.is_gone
    }

    fn demote_to_background(&mut self) {}
}

fn gated() -> (Recorder, Receiver<()>, Sender<()>) {
    let ((told, begun), (go, gate)) = (mpsc::channel(), mpsc::channel());
    (Recorder { gate: Some((told, gate)), ..Recorder::default() }, begun, go)
}

fn clone_script(want: &str) -> Script {
    Script::new().fetch_v2("sha1", &[want], &[]).flush()
}

fn id(repo: &Repo, name: &str) -> String {
    repo.git(&["rev-parse", name]).trim().to_owned()
}

/// A commit on top of main with a large file that nothing compresses, in a pack without bitmaps; main's new id.
fn add_large_file(repo: &Repo, bytes: usize) -> String {
    let path = repo.path().join("large");
    std::fs::write(&path, Random::new(1).bytes(bytes)).unwrap();
    let blob = repo.git(&["hash-object", "-w", "large"]);
    std::fs::remove_file(path).unwrap();
    let tree = repo.git_with_input(&["mktree"], format!("100644 blob {}\tlarge\n", blob.trim()).as_bytes());
    let commit = repo.git(&["commit-tree", "-m", "large", "-p", "main", tree.trim()]).trim().to_owned();
    repo.git(&["update-ref", "refs/heads/main", &commit]);
    repo.git(&["repack", "-adq", "--no-write-bitmap-index"]);
    commit
}

#[track_caller]
fn check_pack(repo: &Repo, pack: &[u8], tip: &str) {
    let got = objects_in_pack(Git::stock(), pack, HashKind::Sha1, None);
    let wanted = repo.git(&["rev-list", "--objects", "--no-object-names", tip]);
    assert!(wanted.lines().all(|id| got.contains(id)), "all that is wanted came");
}

#[test]
fn identical_requests_at_once_share_one_plan() {
    const CLIENTS: usize = 12;
    let repo = RepoBuilder::new(Size::Small).build();
    repo.git(&["repack", "-adq", "--no-write-bitmap-index"]);
    let (server, main) = (Server::new(), id(&repo, "main"));
    let barrier = Barrier::new(CLIENTS);
    let packs: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|number| {
            let (server, repo, main, barrier) = (&server, &repo, &main, &barrier);
            scope.spawn(move || {
                barrier.wait();
                match number % 3 {
                    // Frames are each client's own.
                    0 => server.fetch_raw(repo.path(), main),
                    _ => server.fetch(repo.path(), &clone_script(main)),
                }
            })
        });
        clients.collect::<Vec<_>>().into_iter().map(|client| client.join().unwrap()).collect()
    });
    check_pack(&repo, &packs[0], "main");
    assert!(packs.iter().all(|pack| *pack == packs[0]));
    server.check(1, CLIENTS as u64 - 1);
    // And later ones.
    assert!(server.fetch(repo.path(), &clone_script(&main)) == packs[0]);
    assert_eq!(server.status().misses, 1);
    server.clock.advance(Duration::from_secs(301));
    server.fetch(repo.path(), &clone_script(&main));
    assert_eq!(server.status().misses, 2);
    let names: Vec<_> = std::fs::read_dir(server.directory.path()).unwrap().collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn requests_that_differ_share_nothing() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    let (server, main, older) = (Server::new(), id(&repo, "main"), id(&repo, "main~1"));
    let want = |line: &[&str]| {
        let mut script = Script::new().line("command=fetch").line("object-format=sha1").delim();
        for line in line {
            script = script.line(line);
        }
        script.line("done").flush().flush()
    };
    let (want_main, want_older) = (format!("want {main}"), format!("want {older}"));
    let have_older = format!("have {older}");
    let scripts = [
        want(&[&want_main]),
        want(&[&want_older]),
        want(&[&want_main, &have_older]),
        want(&[&want_main, &have_older, "thin-pack"]),
        want(&[&want_main, "ofs-delta"]),
        want(&[&want_main, "include-tag"]),
        want(&[&want_main, "filter blob:none"]),
        want(&[&want_main, "deepen 1"]),
    ];
    let packs: Vec<_> = scripts.iter().map(|script| server.fetch(repo.path(), script)).collect();
    server.check(scripts.len() as u64, 0);
    for (script, pack) in scripts.iter().zip(&packs) {
        assert!(server.fetch(repo.path(), script) == *pack);
    }
    server.check(scripts.len() as u64, scripts.len() as u64);
    // The same, said otherwise.
    let twice = want(&[&want_older, &want_main, &want_older]);
    let swapped = want(&[&want_main, &want_older, "no-progress"]);
    assert!(server.fetch(repo.path(), &twice) == server.fetch(repo.path(), &swapped));
    server.check(scripts.len() as u64 + 1, scripts.len() as u64 + 1);
    // Another repository with the same content.
    let copy = packrace_testkit::scratch_dir();
    Git::stock().run(repo.path(), &["clone", "-q", "--mirror", ".", copy.path().to_str().unwrap()]);
    server.fetch(copy.path(), &scripts[0]);
    assert_eq!(server.status().misses, scripts.len() as u64 + 2);
}

#[test]
fn repacks_pushes_and_tags_are_noticed() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (server, main) = (Server::new(), id(&repo, "main"));
    let script = clone_script(&main);
    let mut misses = 0;
    let mut check = |change: &str| {
        let pack = server.fetch(repo.path(), &script);
        misses += 1;
        assert_eq!(server.status().misses, misses, "{change}");
        check_pack(&repo, &pack, &main);
        assert!(server.fetch(repo.path(), &script) == pack, "{change}");
        assert_eq!(server.status().misses, misses, "{change}");
        // What was kept of the version before is gone, but for requests with other tags.
        assert!(server.status().packs <= 2, "{change}");
    };
    check("nothing");
    repo.git(&["repack", "-adfq"]);
    check("repack");
    repo.git(&["repack", "-adq", "--write-bitmap-index"]);
    check("bitmap");
    repo.git(&["commit-graph", "write", "--reachable"]);
    check("commit-graph");
    repo.git(&["multi-pack-index", "write"]);
    check("multi-pack-index");
    repo.git(&["-c", "user.name=a", "-c", "user.email=a@b", "tag", "-a", "-m", "t", "new-tag", &main]);
    repo.git(&["repack", "-dq"]);
    check("tag and its pack");
    // A ref alone changes nothing for those who want what they wanted.
    repo.git(&["update-ref", "refs/heads/other", &main]);
    let hits = server.status().hits_kept;
    server.fetch(repo.path(), &script);
    assert_eq!((server.status().misses, server.status().hits_kept), (misses, hits + 1));
    let new = add_large_file(&repo, 100);
    let pack = server.fetch(repo.path(), &clone_script(&new));
    check_pack(&repo, &pack, &new);
    // Depth is told to the server in its own file.
    std::fs::write(repo.path().join("shallow"), format!("{main}\n")).unwrap();
    server.fetch(repo.path(), &clone_script(&new));
    assert_eq!(server.status().misses, misses + 2);
}

#[test]
fn a_running_pack_is_finished_when_its_repository_is_repacked_and_deleted() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let tip = add_large_file(&repo, 12 << 20);
    let server = Server::new();
    let expect = server.fetch(repo.path(), &clone_script(&tip));
    check_pack(&repo, &expect, &tip);
    let ((mut first, begun, go), (mut second, also_begun, go_too)) = (gated(), gated());
    let script = clone_script(&tip);
    std::thread::scope(|scope| {
        let (server, script, path) = (&server, &script, repo.path());
        let clients = [&mut first, &mut second];
        let clients =
            clients.map(|sink| scope.spawn(move || server.call(path, script, ProtocolVersion::V2, sink)));
        begun.recv_timeout(PATIENCE).unwrap();
        also_begun.recv_timeout(PATIENCE).unwrap();
        repo.git(&["repack", "-adfq"]);
        server.fetch(path, script);
        std::fs::remove_dir_all(path.join("objects")).unwrap();
        go.send(()).unwrap();
        go_too.send(()).unwrap();
        clients.into_iter().for_each(|client| client.join().unwrap().unwrap());
    });
    for sink in [first, second] {
        assert!(fetch_answer(&sink.bytes).unwrap().bands.pack == expect);
    }
}

#[test]
fn a_client_gets_no_more_batches_than_without_a_cache() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let tip = add_large_file(&repo, 12 << 20);
    let (server, without) = (Server::new(), Server { host: Arc::default(), ..Server::new() });
    let script = clone_script(&tip);
    let batches = |server: &Server| {
        let mut sink = Recorder::default();
        server.call(repo.path(), &script, ProtocolVersion::V2, &mut sink).unwrap();
        (sink.batches, sink.bytes.len())
    };
    let expect = batches(&without);
    assert!((12..=16).contains(&expect.0), "{expect:?}");
    assert_eq!([batches(&server), batches(&server)], [expect; 2]);
    server.check(1, 1);
    without.check(0, 0);
}

#[test]
fn others_get_their_pack_when_the_first_client_leaves() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let tip = add_large_file(&repo, 12 << 20);
    let server = Server::new();
    let (mut first, begun, leave) = gated();
    let (mut second, also_begun, go) = gated();
    let script = clone_script(&tip);
    std::thread::scope(|scope| {
        let (server, script, path) = (&server, &script, repo.path());
        let one = scope.spawn(|| server.call(path, script, ProtocolVersion::V2, &mut first));
        begun.recv_timeout(PATIENCE).unwrap();
        let other = scope.spawn(|| server.call(path, script, ProtocolVersion::V2, &mut second));
        also_begun.recv_timeout(PATIENCE).unwrap();
        drop(leave);
        assert_eq!(one.join().unwrap().unwrap_err().kind(), ErrorKind::PeerGone);
        go.send(()).unwrap();
        other.join().unwrap().unwrap();
    });
    check_pack(&repo, &fetch_answer(&second.bytes).unwrap().bands.pack, &tip);
}

/// A pack of version 2 over either transport.
#[test]
fn packs_of_clones_wait_for_memory_and_others_do_not() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let server = Server::new();
    server.host.admission.set(&AdmissionSettings { pack_memory_bytes: 1, ..Default::default() });
    let taken = server.host.admission.take(1);
    let (main, before) = (id(&repo, "main"), id(&repo, "main~1"));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cloning = scope.spawn(|| {
            let pack = server.fetch(repo.path(), &clone_script(&main));
            is_done.store(true, SeqCst);
            pack
        });
        // It has come as far as the pack; that of the fetch is made meanwhile.
        while server.status().misses == 0 {
            std::thread::yield_now();
        }
        server.fetch(repo.path(), &Script::new().fetch_v2("sha1", &[&main], &[&before]).flush());
        assert!(!is_done.load(SeqCst));
        drop(taken);
        check_pack(&repo, &cloning.join().unwrap(), &main);
    });
}

fn fetch_over(http_address: SocketAddr, git_address: SocketAddr, number: usize, script: &Script) -> Vec<u8> {
    let answer = match number % 2 {
        0 => {
            let head = "POST /a.git/git-upload-pack HTTP/1.1\nGit-Protocol: version=2\n\
                        Content-Type: application/x-git-upload-pack-request";
            http(http_address, head, script.bytes(), Feed::Whole).body
        }
        _ => {
            let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0");
            tcp(git_address, hello.raw(script.bytes()).bytes(), Feed::Whole)
        }
    };
    fetch_answer(&answer).unwrap().bands.pack
}

#[test]
fn clients_of_both_doors_get_the_same_pack_and_stock_git_a_whole_one() {
    const CLIENTS: usize = 16;
    let folder = packrace_testkit::scratch_dir();
    let path = folder.path().join("root/a.git");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let git = Git::stock();
    RepoBuilder::new(Size::Small).build_at(&path, git);
    git.run(&path, &["repack", "-adq", "--no-write-bitmap-index"]);
    let mut settings = served::settings(folder.path());
    // A server confines its process, and other tests here open repositories beside its folder.
    settings.rules.allowed_paths = folder.path().parent().map(Path::to_owned).into_iter().collect();
    let addresses = served::start(&folder.path().join("root"), settings);
    let (http_address, git_address) = (addresses[0], addresses[1]);
    let main = git.run(&path, &["rev-parse", "main"]).trim().to_owned();
    // Without offsets no stored pack does as it lies: all deltas get new headers.
    let script = Script::new().line("command=fetch").line("object-format=sha1").delim();
    let script = script.line("no-progress").line(&format!("want {main}")).line("done").flush();
    let barrier = Barrier::new(CLIENTS + 2);
    let packs: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let stock = [format!("git://{git_address}/a.git"), format!("http://{http_address}/a.git")];
        for (number, url) in stock.into_iter().enumerate() {
            let (barrier, to) = (&barrier, folder.path().join(format!("clone-{number}")));
            let here = folder.path();
            let source = &path;
            scope.spawn(move || {
                barrier.wait();
                git.run(here, &["clone", "-q", "--mirror", &url, to.to_str().unwrap()]);
                git.run(&to, &["fsck", "--strict"]);
                assert_eq!(reachable_objects(git, &to), reachable_objects(git, source));
            });
        }
        let clients = (0..CLIENTS).map(|number| {
            let (script, barrier) = (&script, &barrier);
            scope.spawn(move || {
                barrier.wait();
                fetch_over(http_address, git_address, number, script)
            })
        });
        clients.collect::<Vec<_>>().into_iter().map(|client| client.join().unwrap()).collect()
    });
    // One plan for the scripted clients; those of stock git are two, who ask for the same thing too.
    let metrics = http(http_address, "GET /-/metrics HTTP/1.1", b"", Feed::Whole).body;
    let count = |name: &str| -> u64 {
        let metrics = String::from_utf8_lossy(&metrics);
        let found = metrics.lines().find_map(|line| line.strip_prefix(&format!("packrace_{name}_total ")));
        found.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
    };
    assert_eq!(count("cache_misses"), 2);
    assert_eq!(count("cache_hits_running") + count("cache_hits_kept"), CLIENTS as u64);
    let got = objects_in_pack(git, &packs[0], HashKind::Sha1, None);
    let wanted = git.run(&path, &["rev-list", "--objects", "--no-object-names", "main"]);
    assert!(wanted.lines().all(|id| got.contains(id)));
    assert!(packs.iter().all(|pack| *pack == packs[0]));
}
