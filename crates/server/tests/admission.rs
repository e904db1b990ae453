//! Clones that wait for each other, and fetches that do not.

mod served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use packrace_server::limits::admission::AdmissionSettings;
use packrace_server::settings::Settings;
use packrace_testkit::peer::{Feed, HttpReply, Script, http, tcp};
use packrace_testkit::{Git, RepoBuilder, Size};

const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    folder: tempfile::TempDir,
    http: SocketAddr,
    git: SocketAddr,
}

impl Served {
    /// `a.git`, whose pack fills all buffers on its way.
    fn new(admission: AdmissionSettings) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(Size::Medium).build_at(&root.join("a.git"), Git::stock());
        let settings = Settings { admission, ..served::settings(folder.path()) };
        let addresses = served::start(&root, settings);
        let (http, git) = (addresses[0], addresses[1]);
        Served { folder, http, git }
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("root/a.git")
    }

    fn id(&self, name: &str) -> String {
        Git::stock().run(&self.repository(), &["rev-parse", name]).trim().to_owned()
    }

    /// Everything, and progress.
    fn clone_request(&self) -> Script {
        let script = Script::new().line("command=fetch").line("object-format=sha1").delim().line("ofs-delta");
        script.line(&format!("want {}", self.id("HEAD"))).line("done").flush()
    }

    /// A client that asks for everything over git://.
    fn cloning(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.git).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0");
        stream.write_all(hello.raw(self.clone_request().bytes()).bytes()).unwrap();
        stream
    }

    fn post(&self, body: &Script) -> HttpReply {
        let head = "POST /a.git/git-upload-pack HTTP/1.1\nGit-Protocol: version=2\n\
                    Content-Type: application/x-git-upload-pack-request";
        http(self.http, head, body.bytes(), Feed::Whole)
    }
}

/// Reads until `text` has come; what came is given.
fn read_until(stream: &mut TcpStream, text: &str) -> Vec<u8> {
    let (start, mut got, mut byte) = (Instant::now(), Vec::new(), [0]);
    while !got.ends_with(text.as_bytes()) {
        assert!(start.elapsed() < PATIENCE, "no {text:?}: {}", String::from_utf8_lossy(&got));
        stream.read_exact(&mut byte).unwrap_or_else(|e| panic!("{e} before {text:?}"));
        got.push(byte[0]);
    }
    got
}

#[test]
fn clones_wait_in_line_and_fetches_go_past() {
    let served = Served::new(AdmissionSettings { max_clones: 1, max_queued: 1, ..Default::default() });
    // One that stops reading in the middle of its pack has the place, one waits and is told, for others there is none.
    let mut first = served.cloning();
    read_until(&mut first, "packfile\n");
    let mut second = served.cloning();
    let heard = read_until(&mut second, "Waiting in queue: 0 ahead");
    assert!(!heard.windows(4).any(|bytes| bytes == b"PACK"));

    let refused = served.post(&served.clone_request());
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    let script = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0");
    let refused = tcp(served.git, script.raw(served.clone_request().bytes()).bytes(), Feed::Whole);
    let refused = String::from_utf8_lossy(&refused);
    assert!(
        refused.ends_with("ERR server is busy: the queue for clones is full; try again later"),
        "{refused}"
    );
    let clone = served.folder.path().join("never");
    let url = format!("git://{}/a.git", served.git);
    let mut git = Git::stock().command(served.folder.path());
    let output = git.args(["clone", "-q", &url]).arg(&clone).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("server is busy"), "{said}");

    // Who has something already goes past all of them, and so does who only asks for refs.
    let fetch = Script::new().fetch_v2("sha1", &[&served.id("HEAD")], &[&served.id("HEAD~1")]);
    let fetched = served.post(&fetch);
    assert_eq!(fetched.status, 200);
    assert!(fetched.body.windows(4).any(|bytes| bytes == b"PACK"));
    let refs = served.post(&Script::new().line("command=ls-refs").flush());
    assert_eq!(refs.status, 200);

    // The place is free when its client has gone.
    drop(first);
    read_until(&mut second, "done.");
    // No other command follows.
    second.write_all(b"0000").unwrap();
    let mut rest = Vec::new();
    second.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0000"));
    let again = served.post(&served.clone_request());
    assert_eq!(again.status, 200);
}

#[test]
fn nobody_waits_for_ever_and_who_leaves_leaves_the_line() {
    let max_queue_time = Duration::from_secs(2);
    let served = Served::new(AdmissionSettings {
        max_clones_per_repository: 1,
        max_queued: 1,
        max_queue_time,
        ..Default::default()
    });
    let mut first = served.cloning();
    read_until(&mut first, "packfile\n");
    let mut second = served.cloning();
    read_until(&mut second, "Waiting in queue");
    drop(second);
    // Its place in the line is free within a moment; until then there is none.
    let start = Instant::now();
    let reply = loop {
        let reply = served.post(&served.clone_request());
        if reply.status == 200 {
            break reply;
        }
        assert_eq!(reply.status, 503);
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    };
    // The line has not moved: the side-band says so, and there is no pack.
    let text = String::from_utf8_lossy(&reply.body);
    assert!(text.contains("\x03server is busy") && !text.contains("PACK"), "{text}");
}
