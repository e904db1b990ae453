//! Files of a repository that are cut off, written over, replaced or cannot be read, while clients are served: who needs them
//! is told, everybody else notices nothing, and the process lives.

mod served;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use packrace_object::HashKind;
use packrace_os::faults::{Scope, contain, damaged_maps};
use packrace_testkit::peer::Script;
use packrace_testkit::received::{Packet, objects_in_pack, packets};
use packrace_testkit::{
    Bitmap, CommitGraph, Git, Random, RefFormat, RepoBuilder, Size, Storage, reachable_objects,
};

/// Long enough for anything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// What stands at the end of a pack that could not be made, in band 3; git's words.
const ABORTING: &[u8] = b"aborting due to possible repository corruption on the remote side.";

/// More than sockets hold between a server and a client that does not read.
const LARGE_FILE_BYTES: usize = 12 << 20;

/// Where a client comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Git,
    Http,
}

struct Server {
    folder: tempfile::TempDir,
    http: SocketAddr,
    git: SocketAddr,
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    /// The payload of band 1, or for refs the whole answer.
    Whole(Vec<u8>),
    /// An end that a client takes for an error.
    Failed,
}

impl Server {
    fn new() -> Self {
        contain(Scope::Work).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let addresses = served::start(&root, served::settings(folder.path()));
        Server { folder, http: addresses[0], git: addresses[1] }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("root").join(name)
    }

    fn begin(&self, at: At, name: &str, request: &Script) -> Client {
        let (address, bytes) = match at {
            At::Git => {
                let hello =
                    Script::new().data(format!("git-upload-pack /{name}\0host=h\0\0version=2\0").as_bytes());
                (self.git, hello.raw(request.bytes()).bytes().to_vec())
            }
            At::Http => {
                let body = request.bytes();
                let head = format!(
                    "POST /{name}/git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\nConnection: close\r\n\
                     Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                (self.http, [head.as_bytes(), body].concat())
            }
        };
        let mut stream = TcpStream::connect(address).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&bytes).unwrap();
        if at == At::Git {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        Client { at, stream, bytes: Vec::new() }
    }

    /// A clone of all that `main` leads to.
    fn clone(&self, at: At, name: &str, main: &str) -> Got {
        self.begin(at, name, &clone_script(main)).pack()
    }

    fn refs(&self, at: At, name: &str) -> Got {
        let script = Script::new().line("command=ls-refs").line("object-format=sha1").delim().line("peel");
        self.begin(at, name, &script.line("symrefs").flush()).refs()
    }
}

fn clone_script(main: &str) -> Script {
    Script::new().fetch_v2("sha1", &[main], &[])
}

/// A client that reads when it likes.
struct Client {
    at: At,
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    fn read(&mut self, length: usize) {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        self.bytes.extend(bytes);
    }

    /// Everything that comes, and whether the connection says that this was all.
    fn answer(mut self) -> (Vec<u8>, bool) {
        let is_reset = self.stream.read_to_end(&mut self.bytes).is_err();
        let mut bytes = self.bytes;
        if self.at == At::Git {
            // The advertisement came first.
            bytes.drain(..flush_of(&bytes));
            return (bytes, !is_reset);
        }
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let is_good = head.starts_with("http/1.1 200");
        let rest = &bytes[end..];
        if !head.contains("transfer-encoding: chunked") {
            return (rest.to_vec(), is_good && !is_reset);
        }
        let (body, is_complete) = unchunked(rest);
        (body, is_good && is_complete)
    }

    /// The pack that came, which is whole only if all says so: the connection, the last packet and no word in band 3.
    fn pack(self) -> Got {
        let (body, is_complete) = self.answer();
        let (mut pack, mut error) = (Vec::new(), Vec::new());
        let Ok(found) = packets(&body) else { return Got::Failed };
        for packet in &found {
            match packet {
                Packet::Data([1, data @ ..]) => pack.extend_from_slice(data),
                Packet::Data([3, data @ ..]) => error.extend_from_slice(data),
                _ => {}
            }
        }
        let is_whole =
            is_complete && found.last() == Some(&Packet::Flush) && error.is_empty() && !pack.is_empty();
        if is_whole {
            return Got::Whole(pack);
        }
        assert!(error.is_empty() || error == ABORTING, "{}", String::from_utf8_lossy(&error));
        Got::Failed
    }

    fn refs(self) -> Got {
        let (body, is_complete) = self.answer();
        let ends_well = packets(&body).is_ok_and(|found| found.last() == Some(&Packet::Flush));
        if is_complete && ends_well { Got::Whole(body) } else { Got::Failed }
    }
}

/// What lies behind the first flush packet.
fn flush_of(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..at + 4).and_then(|head| std::str::from_utf8(head).ok()) {
        match usize::from_str_radix(length, 16) {
            Ok(0) => return at + 4,
            Ok(length) => at += length.max(4),
            Err(_) => break,
        }
    }
    bytes.len()
}

/// A body without its transfer coding, and whether its end came.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|part| part == b"\r\n") else { return (body, false) };
        let length =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length else { return (body, false) };
        if length == 0 {
            return (body, true);
        }
        let data = &rest[end + 2..];
        body.extend_from_slice(&data[..length.min(data.len())]);
        if data.len() < length + 2 {
            return (body, false);
        }
        rest = &data[length + 2..];
    }
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing is left.
    Emptied,
    /// Half is left: pages are gone.
    Halved,
    /// Some bytes less: no page is gone.
    Shortened,
    /// Other bytes, as many.
    Overwritten,
    /// Another file, with other bytes.
    Replaced,
    /// Something that cannot be read as a file.
    Unreadable,
}

const FAULTS: [Fault; 6] =
    [Fault::Emptied, Fault::Halved, Fault::Shortened, Fault::Overwritten, Fault::Replaced, Fault::Unreadable];

/// A file that something happens to, and what to put back.
struct Broken {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Broken {
    fn new(path: &Path, fault: Fault) -> Self {
        let bytes = std::fs::read(path).unwrap();
        // Git writes them read-only.
        let mut permissions = std::fs::metadata(path).unwrap().permissions();
        #[allow(clippy::permissions_set_readonly_false, reason = "in a folder of the test's own")]
        permissions.set_readonly(false);
        std::fs::set_permissions(path, permissions).unwrap();
        let other: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x55).collect();
        let cut = |length: usize| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(length as u64).unwrap();
        };
        match fault {
            Fault::Emptied => cut(0),
            Fault::Halved => cut(bytes.len() / 2),
            Fault::Shortened => cut(bytes.len() - 30),
            Fault::Overwritten => std::fs::write(path, other).unwrap(),
            Fault::Replaced => {
                let beside = path.with_file_name("other");
                std::fs::write(&beside, &other[..other.len() / 3]).unwrap();
                std::fs::rename(beside, path).unwrap();
            }
            Fault::Unreadable => {
                std::fs::remove_file(path).unwrap();
                std::fs::create_dir(path).unwrap();
            }
        }
        Broken { path: path.to_owned(), bytes }
    }

    /// In place, where something is.
    fn mend(&self) {
        if self.path.is_dir() {
            std::fs::remove_dir(&self.path).unwrap();
        }
        std::fs::write(&self.path, &self.bytes).unwrap();
    }
}

/// The file of a folder whose name ends so.
#[track_caller]
fn file(repo: &Path, folder: &str, end: &str) -> PathBuf {
    let entries = std::fs::read_dir(repo.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    found.sort();
    found.pop().unwrap_or_else(|| panic!("no {end} in {folder} of {}", repo.display()))
}

fn main_of(repo: &Path) -> String {
    Git::stock().run(repo, &["rev-parse", "main"]).trim().to_owned()
}

/// Tries until it comes whole: what is mended in place may look damaged for one more.
#[track_caller]
fn recovers(what: &str, mut attempt: impl FnMut() -> Got) -> Vec<u8> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Got::Whole(bytes) = attempt() {
            return bytes;
        }
        assert!(Instant::now() < end, "{what}: never whole again");
    }
}

/// Each file of each kind of repository, each fault: while the repository is kept open, and opened anew. What a client gets is
/// right or an error; another repository is served all the time.
#[test]
fn what_needs_a_broken_file_fails_and_nothing_else() {
    let server = Server::new();
    let storage = |multi_pack_index, packs| Storage {
        packs,
        multi_pack_index,
        bitmap: Bitmap::Plain,
        commit_graph: CommitGraph::Single,
        ..Storage::default()
    };
    let build = |name: &str, format, storage| {
        RepoBuilder::new(Size::Tiny)
            .ref_format(format)
            .storage(storage)
            .build_at(&server.path(name), Git::stock());
    };
    build("files.git", RefFormat::Files, storage(false, 1));
    build("multi.git", RefFormat::Files, storage(true, 3));
    build("tables.git", RefFormat::Reftable, storage(false, 1));
    build("well.git", RefFormat::Files, storage(false, 1));
    let well = server.path("well.git");
    let well_main = main_of(&well);
    let Got::Whole(expected) = server.clone(At::Git, "well.git", &well_main) else { panic!("it is well") };
    let pack = "objects/pack";
    for (name, folder, end) in [
        ("files.git", pack, ".pack"),
        ("files.git", pack, ".idx"),
        ("files.git", pack, ".rev"),
        ("files.git", pack, ".bitmap"),
        ("files.git", "objects/info", "commit-graph"),
        ("files.git", ".", "packed-refs"),
        ("multi.git", pack, "multi-pack-index"),
        ("multi.git", pack, ".pack"),
        ("multi.git", pack, ".bitmap"),
        ("tables.git", "reftable", ".ref"),
    ] {
        let repo = server.path(name);
        let (path, main) = (file(&repo, folder, end), main_of(&repo));
        let whole = |got: Got| if let Got::Whole(bytes) = got { bytes } else { panic!("{name} is well") };
        let refs = whole(server.refs(At::Git, name));
        let objects = Git::stock().run(&repo, &["rev-list", "--objects", "--no-object-names", "main"]);
        let objects: BTreeSet<String> = objects.lines().map(str::to_owned).collect();
        // Tags come with what they tag.
        let all = reachable_objects(Git::stock(), &repo);
        for (number, fault) in FAULTS.into_iter().enumerate() {
            let at = if number % 2 == 0 { At::Git } else { At::Http };
            let what = format!("{name} {end} {fault:?} {at:?}");
            // Now it is open, all of it is mapped, and its pack is kept.
            let good = recovers(&what, || server.clone(at, name, &main));
            let broken = Broken::new(&path, fault);
            let mut failures = 0;
            for _ in 0..2 {
                match server.clone(at, name, &main) {
                    Got::Whole(pack) if pack == good => {}
                    Got::Whole(pack) => {
                        let got = objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None);
                        assert!(got.is_superset(&objects) && got.is_subset(&all), "{what}");
                    }
                    Got::Failed => failures += 1,
                }
                // Of an emptied list of refs nobody can tell that it was not empty before.
                if let Got::Whole(told) = server.refs(at, name)
                    && (end, fault) != ("packed-refs", Fault::Emptied)
                {
                    assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(&refs), "{what}");
                }
            }
            // Nothing takes the place of the only pack.
            if (name, end) == ("files.git", ".pack") {
                assert_eq!(failures, 2, "{what}");
            }
            assert_eq!(server.clone(at, "well.git", &well_main), Got::Whole(expected.clone()), "{what}");
            broken.mend();
            let after = recovers(&what, || server.clone(at, name, &main));
            if after != good {
                objects_in_pack(Git::stock(), &after, HashKind::Sha1, None);
            }
            assert_eq!(recovers(&what, || server.refs(at, name)), refs, "{what}");
        }
    }
}

/// Up to 64 clients in the midst of clones of four repositories, through both doors, when the pack of one of them breaks.
#[test]
fn running_clones_of_others_end_well() {
    let server = Server::new();
    for number in 0..4u64 {
        let repo = server.path(&format!("{number}.git"));
        RepoBuilder::new(Size::Tiny).seed(number).build_at(&repo, Git::stock());
        add_large_file(&repo, number, if number == 0 { LARGE_FILE_BYTES } else { LARGE_FILE_BYTES / 2 });
    }
    let mains: Vec<String> = (0..4).map(|number| main_of(&server.path(&format!("{number}.git")))).collect();
    let expected: Vec<Got> =
        (0..4).map(|number| server.clone(At::Git, &format!("{number}.git"), &mains[number])).collect();
    assert!(expected.iter().all(|got| matches!(got, Got::Whole(pack) if pack.len() > LARGE_FILE_BYTES / 2)));
    let path = file(&server.path("0.git"), "objects/pack", ".pack");
    for (fault, many) in
        [(Fault::Halved, 64), (Fault::Emptied, 16), (Fault::Overwritten, 16), (Fault::Replaced, 16)]
    {
        let (begun, broke) = (Barrier::new(many + 1), Barrier::new(many + 1));
        let damaged_before = damaged_maps();
        let (broken, got) = std::thread::scope(|scope| {
            let clients = (0..many).map(|number| {
                let (server, mains, begun, broke, expected) = (&server, &mains, &begun, &broke, &expected);
                scope.spawn(move || {
                    let (of, at) = (number % 4, if number / 4 % 2 == 0 { At::Git } else { At::Http });
                    let name = format!("{of}.git");
                    let mut client = server.begin(at, &name, &clone_script(&mains[of]));
                    client.read(100_000);
                    begun.wait();
                    broke.wait();
                    let got = client.pack();
                    let is_same = got == expected[of];
                    (of, at, if is_same { None } else { Some(got) })
                })
            });
            let clients: Vec<_> = clients.collect();
            begun.wait();
            let broken = Broken::new(&path, fault);
            broke.wait();
            let got: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
            (broken, got)
        });
        for (of, at, got) in got {
            // A file that was replaced is there for those who have it open.
            let is_needed = of == 0 && fault != Fault::Replaced;
            let expect = if is_needed { Some(Got::Failed) } else { None };
            assert!(got == expect, "{fault:?}: a client of {of} at {at:?} fails, or got another pack");
        }
        assert_eq!(damaged_maps() > damaged_before, fault != Fault::Replaced, "{fault:?}");
        broken.mend();
        let again = recovers("0.git", || server.clone(At::Http, "0.git", &mains[0]));
        assert!(Got::Whole(again) == expected[0], "{fault:?}");
    }
}

/// A commit on top of main with a large file that nothing compresses; all in one pack.
fn add_large_file(repo: &Path, seed: u64, bytes: usize) {
    let git = |args: &[&str]| Git::stock().run(repo, args).trim().to_owned();
    std::fs::write(repo.join("large"), Random::new(seed + 1).bytes(bytes)).unwrap();
    let blob = git(&["hash-object", "-w", "large"]);
    std::fs::remove_file(repo.join("large")).unwrap();
    let list = format!("100644 blob {blob}\tlarge\n");
    let tree = Git::stock().run_with_input(repo, &["mktree"], list.as_bytes());
    let tree = String::from_utf8(tree).unwrap();
    let commit = git(&["commit-tree", "-m", "large", "-p", "main", tree.trim()]);
    git(&["update-ref", "refs/heads/main", &commit]);
    git(&["repack", "-adq", "--no-write-bitmap-index"]);
}
