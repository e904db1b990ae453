//! Clients that disconnect or send nonsense, and hooks that misbehave: refs and objects stay unchanged.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use packrace_testkit::peer::{self, Feed};
use packrace_testkit::{Git, clean_environment};

use super::{OPEN, Pair, ZERO, commands, fed, said, text};
use crate::running::{PACKRACE, Server};
use packrace_testkit::write_program;

fn push_of(pair: &Pair) -> Vec<u8> {
    let (old, new) = (pair.id("HEAD~2"), pair.id("HEAD"));
    let line = format!("{old} {new} refs/heads/main");
    let script = commands("report-status side-band-64k", &[&line]);
    script.raw(&pair.pack(&format!("{new}\n^{old}\n"))).bytes().to_vec()
}

#[test]
fn a_client_that_leaves() {
    let pair = Pair::new();
    let request = push_of(&pair);
    let before = pair.refs();
    let server = Server::start_that(pair.root(), &OPEN, &[]);
    let head =
        "POST /srv.git/git-receive-pack HTTP/1.1\nContent-Type: application/x-git-receive-pack-request";
    for end in (0..request.len()).step_by(request.len() / 17) {
        let output = pair.answer("packrace", &request[..end], &[]);
        assert!(!text(&output.stdout).contains("unpack ok"), "{end}");
        let announced = format!("{head}\nContent-Length: {}", request.len());
        let mut stream = std::net::TcpStream::connect(server.http).unwrap();
        let head = format!("{}\r\nHost: localhost\r\n\r\n", announced.replace('\n', "\r\n"));
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&request[..end]).unwrap();
        drop(stream);
        let greeting = b"0028git-receive-pack /srv.git\0host=h:1\0\0";
        let answer = peer::tcp(server.git, &[greeting, &request[..end]].concat(), Feed::Whole);
        assert!(!text(&answer).contains("unpack ok"), "{end}");
    }
    wait_until(|| !has_quarantine(&pair), "quarantines are gone");
    assert_eq!(pair.refs(), before);
    pair.check_sound();
    assert!(text(&pair.answer("packrace", &request, &[]).stdout).contains("unpack ok"));
}

fn has_quarantine(pair: &Pair) -> bool {
    let entries = std::fs::read_dir(pair.server().join("objects")).unwrap();
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("tmp_objdir"))
}

fn wait_until(is_so: impl Fn() -> bool, what: &str) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_byte_changed_by_chance() {
    let pair = Pair::new();
    let request = push_of(&pair);
    let before = pair.refs();
    let new = pair.id("HEAD");
    let mut random = packrace_testkit::Random::new(5);
    let mut refused = 0;
    for _ in 0..60 {
        let mut damaged = request.clone();
        let at = random.below(damaged.len());
        damaged[at] ^= 1 << random.below(8);
        let ours = pair.answer("packrace", &damaged, &[]);
        if pair.refs() == before {
            refused += 1;
        } else {
            // A flipped bit in a ref's name makes another ref.
            assert!(at < 200, "{at}: {}", said(&ours));
            for line in pair.refs().lines().filter(|line| !before.contains(line)) {
                assert!(line.ends_with(&new), "{line}");
                let name = line.split(' ').next().unwrap();
                Git::stock().run(&pair.server(), &["update-ref", "-d", name]);
            }
            Git::stock().run(&pair.server(), &["update-ref", "refs/heads/main", &pair.id("HEAD~2")]);
        }
        pair.check_sound();
    }
    assert!(refused > 40, "{refused}");
}

#[test]
fn packs_that_lack_something() {
    let pair = Pair::new();
    let new = pair.id("HEAD");
    let tree = pair.id("HEAD^{tree}");
    // The commit alone, without its tree.
    let arguments = ["pack-objects", "--stdout", "-q"];
    let pack = Git::stock().run_with_input(&pair.work(), &arguments, format!("{new}\n").as_bytes());
    let line = format!("{ZERO} {new} refs/heads/new");
    let request = commands("report-status", &[&line]).raw(&pack);
    let output = pair.answer("packrace", request.bytes(), &[]);
    let expect = "ng refs/heads/new missing necessary objects";
    assert!(text(&output.stdout).contains(expect), "{}", said(&output));
    // The operator sees it, too.
    let lacking = format!("fatal: Failed to traverse parents of commit {new}: unable to read ");
    assert!(text(&output.stderr).contains(&lacking), "{}", said(&output));
    let found = Git::stock().command(&pair.server()).args(["cat-file", "-e", &new]).output().unwrap();
    assert!(!found.status.success());
    let line = format!("{ZERO} {tree} refs/heads/new");
    let request = commands("report-status", &[&line]).raw(&pair.pack(&format!("{new}\n")));
    let output = pair.answer("packrace", request.bytes(), &[]);
    assert!(
        text(&output.stdout).contains("ng refs/heads/new invalid new value provided"),
        "{}",
        said(&output)
    );
    pair.check_sound();
}

/// Starts a push whose hook sleeps, and disconnects.
#[test]
fn a_hook_that_hangs_ends_with_its_client() {
    let pair = Pair::new();
    pair.config(&[("receive.keepAlive", "1")]);
    let hook = pair.server().join("hooks/pre-receive");
    write_program(&hook, "#!/bin/sh\necho begun\necho $$ >pid\nexec sleep 1000\n");
    let before = pair.refs();
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.args(["receive-pack", "--stateless-rpc"]).arg(pair.server());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&push_of(&pair)).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The hook prints a line; then keepalives follow.
    let mut heard = [0; 17];
    stdout.read_exact(&mut heard).unwrap();
    assert_eq!(text(&heard), "000b\x02begun\n0005\x01\u{30}"[..17].to_owned());
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let pid = std::fs::read_to_string(pair.server().join("pid")).unwrap();
    let status = format!("/proc/{}/stat", pid.trim());
    wait_until(
        || !std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")),
        "the hook has ended",
    );
    assert_eq!(pair.refs(), before);
    std::fs::remove_file(&hook).unwrap();
    pair.check_sound();
}

/// Once refs have changed, the remaining hooks run to their end.
#[test]
fn hooks_go_on_when_the_client_has_left() {
    let pair = Pair::new();
    pair.config(&[("receive.keepAlive", "1")]);
    write_program(
        &pair.server().join("hooks/post-receive"),
        "#!/bin/sh\ncat >told\nsleep 3\necho done >>told\n",
    );
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    command.args(["receive-pack", "--stateless-rpc"]).arg(pair.server());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&push_of(&pair)).unwrap();
    let mut heard = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    while !text(&heard).contains("ok refs/heads/main") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        heard.push(byte[0]);
    }
    drop(stdout);
    child.wait_with_output().unwrap();
    let log = std::fs::read_to_string(pair.server().join("told")).unwrap();
    assert!(log.contains("refs/heads/main\n") && log.ends_with("done\n"), "{log}");
    pair.check_sound();
}

#[test]
fn hooks_that_say_much_or_read_nothing() {
    let pair = Pair::new();
    let hooks = pair.server().join("hooks");
    write_program(
        &hooks.join("pre-receive"),
        "#!/bin/sh\nexec <&-\nhead -c 30000000 /dev/zero | tr '\\0' x; echo; exit 0\n",
    );
    write_program(&hooks.join("post-receive"), "#!/bin/sh\nexec <&-\nhead -c 3000000 /dev/zero >&2\n");
    let many: Vec<String> = (0..5000).map(|number| format!("HEAD:refs/heads/many/{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let output = pair.push(&[&["-q"], many.as_slice()].concat());
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert!(output.stderr.len() > 30_000_000);
    assert_eq!(pair.refs().lines().count(), 5001);
    pair.check_sound();
}

#[test]
fn nonsense() {
    let pair = Pair::new();
    let before = pair.refs();
    let zeros = [0; 100];
    let long = [b"fff0".as_slice(), &[b'a'; 65_516]].concat();
    for request in [b"".as_slice(), b"PACK", b"0003", b"zzzz", b"0004", b"0009hello0000", &zeros, &long] {
        let output = pair.answer("packrace", request, &[]);
        assert_eq!(output.status.code(), Some(128), "{}", said(&output));
        assert!(text(&output.stderr).starts_with("fatal: "), "{}", said(&output));
    }
    let mut command = Command::new(PACKRACE);
    clean_environment(&mut command);
    let output = fed(command.args(["receive-pack", "/no/such/place"]), b"");
    assert_eq!(text(&output.stderr), "fatal: '/no/such/place' does not appear to be a git repository\n");
    assert_eq!(output.status.code(), Some(128));
    assert_eq!(pair.refs(), before);
    pair.check_sound();
}
