//! A disk with read errors: `serve` on a file system whose reads fail.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;

use packrace_object::HashKind;
use packrace_testkit::mounted::Mount;
use packrace_testkit::raw_client::{Take, Target, Transport};
use packrace_testkit::received::{Packet, objects_in_pack, packets};
use packrace_testkit::{Bitmap, GraphLayout, Random, RefFormat, Storage};

use super::*;

/// More than the sockets between a server and a client that does not read can hold.
const LARGE_FILE_BYTES: usize = 12 << 20;

/// Time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of a pack that could not be made, in band 3; git's words.
const ABORTING: &[u8] = b"aborting due to possible repository corruption on the remote side.";

/// The repositories, and their server.
struct Disk {
    // Before the mount: what it maps keeps that mounted.
    server: Server,
    mount: Mount,
    behind: tempfile::TempDir,
    _place: tempfile::TempDir,
}

impl Disk {
    fn new(build: impl Fn(&Path)) -> Self {
        let (behind, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        build(behind.path());
        let mount = Mount::new(behind.path(), place.path()).unwrap();
        // Without caches, so that every request reads.
        let config = "[listen]\nhttp = \"127.0.0.1:0\"\ngit = \"127.0.0.1:0\"\n[cache]\nenabled = false\n";
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start_for(folder, mount.place(), config, &[], &[]);
        Disk { mount, server, behind, _place: place }
    }

    fn main_of(&self, name: &str) -> String {
        Git::stock().run(&self.path(name), &["rev-parse", "main"]).trim().to_owned()
    }

    /// A repository, bypassing the failing file system.
    fn path(&self, name: &str) -> PathBuf {
        self.behind.path().join(name)
    }

    /// The pack of a clone, or why there is none.
    fn clone(&self, transport: Transport, name: &str) -> Result<Vec<u8>, String> {
        let address = self.server.address(if transport == Transport::Git { "git" } else { "http" });
        let target = Target { transport, address, path: format!("/{name}"), patience: PATIENCE };
        let script = Script::new().fetch_v2("sha1", &[&self.main_of(name)], &[]);
        let got = target.fetch(&target.request(script.bytes()), Take::Keep);
        got.map(|got| got.pack.kept).map_err(|failure| failure.to_string())
    }

    /// The response to `ls-refs` over git://, with the capabilities before it.
    fn refs(&self, name: &str) -> String {
        let script = Script::new().data(format!("git-upload-pack /{name}\0host=h\0\0version=2\0").as_bytes());
        let script = script.line("command=ls-refs").line("object-format=sha1").delim().line("peel");
        let answer = tcp(self.server.address("git"), script.line("symrefs").flush().bytes(), Feed::Whole);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A git:// client in the middle of a clone.
    fn begin(&self, name: &str) -> TcpStream {
        let script = Script::new().data(format!("git-upload-pack /{name}\0host=h\0\0version=2\0").as_bytes());
        let script = script.raw(Script::new().fetch_v2("sha1", &[&self.main_of(name)], &[]).bytes());
        let mut stream = TcpStream::connect(self.server.address("git")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(script.bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        stream
    }

    fn fail(&self, path: &Path, from: u64) {
        let name = path.strip_prefix(self.behind.path()).unwrap().to_owned();
        self.mount.fail_reads(move |path, range| path == name && range.end > from).unwrap();
    }

    /// Clones until it succeeds: one more request may still see the damage.
    fn recovers(&self, what: &str, transport: Transport, name: &str) -> Vec<u8> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.clone(transport, name) {
                Ok(pack) => return pack,
                Err(why) => assert!(Instant::now() < end, "{what}: never whole again: {why}"),
            }
        }
    }
}

/// The largest file in a folder whose name ends like this.
fn file(repo: &Path, folder: &str, end: &str) -> PathBuf {
    let entries = std::fs::read_dir(repo.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.filter(|path| path.to_str().unwrap().ends_with(end));
    found.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}

/// Bands 1 and 3 of the rest of a client's response.
fn rest(mut stream: TcpStream) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    // The rest of the packet in progress, and of the capabilities.
    let flush = bytes.windows(4).position(|part| part == b"0000").unwrap() + 4;
    let (mut pack, mut error) = (Vec::new(), Vec::new());
    for packet in packets(&bytes[flush..]).unwrap() {
        match packet {
            Packet::Data([1, data @ ..]) => pack.extend_from_slice(data),
            Packet::Data([3, data @ ..]) => error.extend_from_slice(data),
            _ => {}
        }
    }
    (pack, error)
}

fn add_large_file(repo: &Path) {
    let git = |args: &[&str]| Git::stock().run(repo, args).trim().to_owned();
    std::fs::write(repo.join("large"), Random::new(1).bytes(LARGE_FILE_BYTES)).unwrap();
    let blob = git(&["hash-object", "-w", "large"]);
    std::fs::remove_file(repo.join("large")).unwrap();
    let list = format!("100644 blob {blob}\tlarge\n");
    let tree = String::from_utf8(Git::stock().run_with_input(repo, &["mktree"], list.as_bytes())).unwrap();
    let commit = git(&["commit-tree", "-m", "large", "-p", "main", tree.trim()]);
    git(&["update-ref", "refs/heads/main", &commit]);
    git(&["repack", "-adq"]);
}

#[test]
#[ignore = "needs FUSE"]
fn a_read_error_under_running_clones_ends_those_of_that_repository() {
    let disk = Disk::new(|root| {
        for name in ["bad.git", "well.git"] {
            RepoBuilder::new(Size::Tiny).build_at(&root.join(name), Git::stock());
            add_large_file(&root.join(name));
        }
    });
    let well = disk.clone(Transport::Git, "well.git").unwrap();
    let begin = |name| (0..8).map(|_| disk.begin(name)).collect::<Vec<_>>();
    let (of_bad, of_well) = (begin("bad.git"), begin("well.git"));
    disk.fail(&file(&disk.path("bad.git"), "objects/pack", ".pack"), 1 << 20);
    for client in of_bad {
        let (pack, error) = rest(client);
        // Unreadable bytes may become zeros, but the trailer is not sent.
        assert_eq!((error.as_slice(), pack.len() < well.len()), (ABORTING, true));
    }
    for client in of_well {
        assert!(rest(client) == (well.clone(), Vec::new()), "a client of a repository that can be read");
    }
    for transport in [Transport::Git, Transport::Http] {
        disk.clone(transport, "bad.git").unwrap_err();
        assert!(disk.clone(transport, "well.git").as_ref() == Ok(&well), "{transport:?}");
    }
    disk.mount.heal().unwrap();
    // The repositories have the same history and the same pack.
    assert!(disk.recovers("bad.git", Transport::Http, "bad.git") == well);
    let log = disk.server.log();
    assert!(log.contains(".pack: the file was truncated, changed or could not be read"), "{log}");
    assert!(!log.contains("panic"), "{log}");
}

#[test]
#[ignore = "needs FUSE"]
fn a_file_that_cannot_be_read_fails_what_needs_it_and_nothing_else() {
    let storage = |multi_pack_index, packs| Storage {
        packs,
        multi_pack_index,
        bitmap: Bitmap::Plain,
        commit_graph: GraphLayout::Single,
        ..Storage::default()
    };
    let disk = Disk::new(|root| {
        for (name, format, storage) in [
            ("files.git", RefFormat::Files, storage(false, 1)),
            ("multi.git", RefFormat::Files, storage(true, 3)),
            ("tables.git", RefFormat::Reftable, storage(false, 1)),
            ("well.git", RefFormat::Files, storage(false, 1)),
        ] {
            RepoBuilder::new(Size::Tiny)
                .ref_format(format)
                .storage(storage)
                .build_at(&root.join(name), Git::stock());
        }
    });
    let well = disk.clone(Transport::Git, "well.git").unwrap();
    let pack = "objects/pack";
    for (number, (name, folder, end)) in [
        ("files.git", pack, ".pack"),
        ("files.git", pack, ".idx"),
        ("files.git", pack, ".rev"),
        ("files.git", pack, ".bitmap"),
        ("files.git", "objects/info", "commit-graph"),
        ("files.git", ".", "packed-refs"),
        ("files.git", ".", "HEAD"),
        ("files.git", ".", "config"),
        ("multi.git", pack, "multi-pack-index"),
        ("multi.git", pack, ".pack"),
        ("multi.git", pack, ".bitmap"),
        ("tables.git", "reftable", ".ref"),
        ("tables.git", "reftable", "tables.list"),
    ]
    .into_iter()
    .enumerate()
    {
        let transport = if number % 2 == 0 { Transport::Git } else { Transport::Http };
        let what = format!("{name} {end} {transport:?}");
        let good = disk.recovers(&what, transport, name);
        let refs = disk.refs(name);
        disk.fail(&file(&disk.path(name), folder, end), 0);
        for _ in 0..2 {
            if let Ok(pack) = disk.clone(transport, name) {
                let [got, expect] = [pack, good.clone()]
                    .map(|pack| objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None));
                assert!(got.is_superset(&expect), "{what}");
                assert!((name, end) != ("files.git", ".pack"), "{what}: nothing takes its place");
            }
            let listed = disk.refs(name);
            assert!(listed == refs || !listed.ends_with("0000"), "{what}: {listed}");
            assert!(disk.clone(transport, "well.git").as_ref() == Ok(&well), "{what}");
        }
        disk.mount.heal().unwrap();
        disk.recovers(&what, transport, name);
    }
    assert!(!disk.server.log().contains("panic"), "{}", disk.server.log());
}
