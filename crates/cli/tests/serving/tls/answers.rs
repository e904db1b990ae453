//! Long answers over TLS: the number of calls, and damage of their files.

use std::io::{Read as _, Write as _};

use super::*;

/// More than the buffers of a loopback connection hold.
const LARGE_BYTES: usize = 32 << 20;

/// Enough for several batches.
const SOME_BYTES: usize = 8 << 20;

impl TlsServer {
    /// Adds a pack with a commit of an incompressible file of this size; returns the commit.
    fn add_large(&self, bytes: usize) -> String {
        let git = |args: &[&str], input: &[u8]| {
            text(&Git::stock().run_with_input(&self.server.repository(), args, input)).trim().to_owned()
        };
        let blob = git(&["hash-object", "-w", "--stdin"], &packrace_testkit::Random::new(3).bytes(bytes));
        let tree = git(&["mktree"], format!("100644 blob {blob}\tlarge\n").as_bytes());
        let commit = git(&["commit-tree", "-m", "Large", &tree], b"");
        git(&["update-ref", "refs/heads/large", &commit], b"");
        git(&["repack", "-adq"], b"");
        commit
    }

    /// Requests everything that a commit reaches.
    fn ask_for(&self, commit: &str) -> TlsClient {
        let body = Script::new().fetch_v2("sha1", &[commit], &[]).bytes().to_vec();
        let head = format!(
            "POST /a.git/git-upload-pack HTTP/1.1\r\nHost: localhost\r\nGit-Protocol: version=2\r\n\
             Connection: close\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut client = self.connect("localhost");
        client.0.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        client
    }

    /// Gathered writes to clients so far.
    fn writes(&self) -> u64 {
        let metrics = text(&self.server.get("/-/metrics").body);
        let line = "packrace_os_calls_total{role=\"client\",op=\"write\"} ";
        // There is no line before the first one.
        metrics.lines().find_map(|other| other.strip_prefix(line)).map_or(0, |count| count.parse().unwrap())
    }
}

/// The last chunk of a complete body.
const END: &[u8] = b"0\r\n\r\n";

#[test]
fn a_batch_leaves_in_few_writes() {
    let served = start("");
    let commit = served.add_large(SOME_BYTES);
    let before = served.writes();
    let mut answer = Vec::new();
    served.ask_for(&commit).0.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > SOME_BYTES && answer.ends_with(END));
    let (writes, batches) = (served.writes() - before, answer.len() as u64 / (1 << 20) + 1);
    // Four if the socket has room, sixteen with rustls's default limit; sockets accept as much as they have
    // room for.
    println!("{writes} writes for {batches} batches");
    assert!(writes <= 10 * batches + 16, "{writes} writes for {batches} batches");
}

#[test]
fn an_answer_from_a_file_that_is_cut_off_is_not_complete() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = start("[cache]\nenabled = false\n");
    let commit = served.add_large(LARGE_BYTES);
    let mut client = served.ask_for(&commit);
    let mut answer = vec![0; 1 << 20];
    client.0.read_exact(&mut answer).unwrap();
    let packs = std::fs::read_dir(served.server.repository().join("objects/pack")).unwrap();
    for path in
        packs.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("pack".as_ref()))
    {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    }
    let ended = client.0.read_to_end(&mut answer);
    assert!(ended.is_err() || !answer.ends_with(END), "{} bytes", answer.len());
    served.server.wait_until("the damage", |server| server.log().contains("response cut off: "));
    assert_eq!(served.server.get("/-/healthz").status, 200);
}
