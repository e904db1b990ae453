//! Servers that break off or send nonsense: git's words, exit code 128, and no leftovers.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use packrace_testkit::peer::Script;
use packrace_testkit::{Git, clean_environment};

use super::servers::scripted;
use super::{Folder, said};
use crate::running::{PACKRACE, packrace};

/// A valid server, to be modified: its capabilities, its refs, and its pack.
struct Good {
    folder: Folder,
    id: String,
    pack: Vec<u8>,
}

impl Good {
    fn new() -> Self {
        let folder = Folder::new();
        let bare = folder.served().join("a.git");
        let id = Git::stock().run(&bare, &["rev-parse", "main"]).trim().to_owned();
        let pack = pack_of(&bare, &["--revs"], "main\n");
        Good { folder, id, pack }
    }

    fn capabilities(&self) -> Vec<u8> {
        let script =
            Script::new().line("version 2").line("agent=x").line("ls-refs=unborn").line("fetch=shallow");
        script.line("object-format=sha1").flush().bytes().to_vec()
    }

    fn refs(&self, more: &[&str]) -> Vec<u8> {
        let head = format!("{} HEAD symref-target:refs/heads/main", self.id);
        let mut script = Script::new().line(&head).line(&format!("{} refs/heads/main", self.id));
        for name in more {
            script = script.line(&format!("{} {name}", self.id));
        }
        script.flush().bytes().to_vec()
    }

    /// The pack in packets, without a flush.
    fn answer(&self) -> Vec<u8> {
        band(Script::new().line("packfile"), 1, &self.pack).bytes().to_vec()
    }

    /// Clones from a server with these responses. Returns the output after the first line, the exit code, and
    /// whether anything is left.
    fn clone(&self, answers: &[&[u8]]) -> (String, Option<i32>, bool) {
        let address = scripted(answers.iter().map(|answer| answer.to_vec()).collect());
        let place = self.folder.place("place");
        let output = packrace(&place, &["clone", "--bare", &format!("git://{address}/x.git")], "");
        let said = said(&output);
        let (first, rest) = said.split_once('\n').unwrap();
        assert_eq!(first, "Cloning into bare repository 'x.git'...");
        (rest.to_owned(), output.status.code(), std::fs::read_dir(&place).unwrap().count() > 0)
    }

    fn check(&self, answers: &[&[u8]], expect: &str) {
        assert_eq!(self.clone(answers), (expect.to_owned(), Some(128), false));
    }
}

fn pack_of(bare: &Path, options: &[&str], input: &str) -> Vec<u8> {
    let arguments = [&["pack-objects", "--stdout", "-q"], options].concat();
    Git::stock().run_with_input(bare, &arguments, input.as_bytes())
}

fn band(mut script: Script, band: u8, bytes: &[u8]) -> Script {
    for chunk in bytes.chunks(65_515) {
        script = script.data(&[&[band], chunk].concat());
    }
    script
}

const FLUSH: &[u8] = b"0000";

#[test]
fn a_server_that_behaves_and_one_that_names_odd_refs() {
    let good = Good::new();
    let (caps, refs, answer) = (good.capabilities(), good.refs(&[]), [&good.answer()[..], FLUSH].concat());
    assert_eq!(good.clone(&[&caps, &refs, &answer]), (String::new(), Some(0), true));
    let odd = good.refs(&["refs/heads/../../x", "refs/heads/a..b", "refs/heads/", "refs/other/x", "x"]);
    let words = "error: * Ignoring funny ref 'refs/heads/../../x' locally\n\
                 error: * Ignoring funny ref 'refs/heads/a..b' locally\n\
                 error: * Ignoring funny ref 'refs/heads/' locally\n";
    assert_eq!(good.clone(&[&caps, &odd, &answer]), (words.to_owned(), Some(0), true));
    let refs = Git::stock()
        .run(&good.folder.dir.path().join("place/x.git"), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main\n");
    good.check(
        &[&caps, &good.refs(&["refs/heads/main"]), &answer],
        "fatal: multiple updates for ref 'refs/heads/main' not allowed\n",
    );
    good.check(
        &[&caps, &good.refs(&["refs/heads/main/x"]), &answer],
        "fatal: cannot process 'refs/heads/main/x' and 'refs/heads/main' at the same time\n",
    );
}

#[test]
fn packs_that_break_off_or_are_none() {
    let good = Good::new();
    let (caps, refs, answer) = (good.capabilities(), good.refs(&[]), good.answer());
    let check = |answer: &[u8], expect: &str| good.check(&[&caps, &refs, answer], expect);
    let start = || Script::new().line("packfile");
    let no_index = "fatal: fetch-pack: invalid index-pack output\n";
    let early = format!("fatal: early EOF\n{no_index}");
    let cut = "fetch-pack: unexpected disconnect while reading sideband packet\n";
    for length in [20, 200, answer.len() - 30] {
        check(&answer[..length], &format!("{cut}{early}"));
    }
    check(&answer, &format!("{cut}fatal: error in sideband demultiplexer\n"));
    check(band(start(), 1, &good.pack[..200]).flush().bytes(), &early);
    check(start().flush().bytes(), &early);
    let last = band(band(start(), 1, &good.pack[..100]), 3, b"disk on \x1b[2J\xc2\x9b2J\x9b2Jfire\n");
    check(last.bytes(), &format!("remote: disk on ?[2J?2J?2Jfire\n{early}"));
    check(start().data(b"\x04x").bytes(), &format!("fetch-pack: protocol error: bad band #4\n{early}"));
    let junk = band(start(), 1, b"hello hello hello hello").flush();
    check(junk.bytes(), &format!("fatal: pack signature mismatch\n{no_index}"));
    let more = band(start(), 1, &[&good.pack[..], b"more"].concat()).flush();
    check(more.bytes(), "fatal: pack has junk at the end\n");
    let mut flipped = good.pack.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let flipped = band(start(), 1, &flipped).flush();
    check(flipped.bytes(), &format!("fatal: pack is corrupted (SHA1 mismatch)\n{no_index}"));
    let bare = good.folder.served().join("a.git");
    let blob = Git::stock().run(&bare, &["rev-parse", "main:one"]);
    let other = band(start(), 1, &pack_of(&bare, &[], &blob)).flush();
    let words = format!("fatal: bad object {}\nfatal: remote did not send all necessary objects\n", good.id);
    check(other.bytes(), &words);
    // A commit without its tree: the missing object is noticed.
    let tree = Git::stock().run(&bare, &["rev-parse", "main^{tree}"]);
    let single = Git::stock().run(&bare, &["commit-tree", "-m", "x", tree.trim()]).trim().to_owned();
    let alone =
        Good { id: single.clone(), folder: Folder::new(), pack: pack_of(&bare, &[], &format!("{single}\n")) };
    let alone_answer = [&alone.answer()[..], FLUSH].concat();
    let words = format!("fatal: did not receive expected object {}\n{no_index}", tree.trim());
    alone.check(&[&caps, &alone.refs(&[]), &alone_answer], &words);
}

#[test]
fn conversations_that_go_wrong() {
    let good = Good::new();
    let (caps, refs) = (good.capabilities(), good.refs(&[]));
    let said = |text: &str| Script::new().line(text).flush().bytes().to_vec();
    let silent = "fatal: Could not read from remote repository.\n\n\
                  Please make sure you have the correct access rights\nand the repository exists.\n";
    good.check(&[b""], silent);
    good.check(&[&caps[..20]], "fatal: expected flush after capabilities\n");
    good.check(&[b"zzzzhello"], "fatal: protocol error: bad line length character: zzzz\n");
    good.check(&[&said("ERR go away")], "fatal: remote error: go away\n");
    let old = said(&format!("{} HEAD\0side-band-64k", good.id));
    good.check(&[&old], "fatal: the server does not speak protocol version 2\n");
    good.check(&[&caps, &refs[..50]], "fatal: expected flush after ref listing\n");
    good.check(&[&caps, &said("hello")], "fatal: invalid ls-refs response: hello\n");
    let foo = Script::new().line("version 2").line("object-format=foo").flush();
    good.check(&[foo.bytes()], "fatal: unknown object format 'foo' specified by server\n");
    let long =
        Script::new().line("version 2").line("ls-refs").line("fetch").line("object-format=sha256").flush();
    let line = format!("{} HEAD symref-target:refs/heads/main", good.id);
    good.check(&[long.bytes(), &refs], &format!("fatal: invalid ls-refs response: {line}\n"));
    good.check(&[&caps, &refs, &said("ERR not today")], "fatal: remote error: not today\n");
    good.check(&[&caps, &refs, &said("hello")], "fatal: expected 'packfile', received 'hello'\n");
    good.check(&[&caps, &refs, FLUSH], "fatal: expected 'packfile'\n");
    let shallow = Script::new().line("shallow-info").line(&format!("shallow {}", good.id)).delim();
    good.check(&[&caps, &refs, shallow.bytes()], "fatal: source repository is shallow, reject to clone.\n");
}

/// An interrupted clone that waits for its server leaves nothing behind.
#[test]
fn a_clone_that_is_broken_off_leaves_nothing() {
    let good = Good::new();
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let place = good.folder.place("place");
        let mut command = Command::new(PACKRACE);
        clean_environment(&mut command);
        command.current_dir(&place).args(["clone", "--mirror", "-q", &format!("git://{address}/x.git")]);
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        // Up to the middle of the pack: everything made before that exists.
        let answers = [&good.capabilities()[..], &good.refs(&[]), &good.answer()[..400]].concat();
        std::io::Write::write_all(&mut stream, &answers[..good.capabilities().len()]).unwrap();
        wait_for(&mut stream);
        std::io::Write::write_all(&mut stream, &good.refs(&[])).unwrap();
        wait_for(&mut stream);
        std::io::Write::write_all(&mut stream, &good.answer()[..400]).unwrap();
        assert!(place.join("x.git/HEAD").exists());
        let kill = Command::new("sh")
            .args(["-c", "kill \"$@\"", "kill", &format!("-{signal}"), &child.id().to_string()])
            .status()
            .unwrap();
        assert!(kill.success());
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "{signal}");
    }
}

/// Reads a request to its flush.
fn wait_for(stream: &mut std::net::TcpStream) {
    use std::io::Read as _;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut request, mut byte) = (Vec::new(), [0; 1]);
    while !request.ends_with(b"0000") {
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
}
