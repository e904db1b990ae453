use std::io::{self, Cursor};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use packrace_os::clock::{Clock, RealClock};
use packrace_os::simulated::SimulatedClock;
use packrace_store::{ConfigSources, OpenOptions, Repository};
use packrace_testkit::peer::Script;
use packrace_testkit::received::{FetchAnswer, fetch_answer};
use packrace_testkit::{Git, Repo, RepoBuilder, Size};

use super::*;
use crate::send::outbox::{BATCH_BYTES, ClientSink, GatherBatch};
use crate::subject::{CallMode, Subject};
use crate::transfers::Transfer;
use crate::upload::{UploadPack, upload_pack};

/// Long enough for anything but a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Within this, the server has looked at the clock.
const TWO_LOOKS: Duration = CLIENT_CHECK_INTERVAL.saturating_mul(2);

/// So that nothing depends on the speed of the machine.
const NO_KEEPALIVE: (&str, &str) = ("uploadpack.keepAlive", "0");

/// Keeps what it gets, one entry per batch, and reports each.
#[derive(Clone, Default)]
struct Recorder {
    batches: Arc<Mutex<Vec<Vec<u8>>>>,
    told: Option<Sender<Vec<u8>>>,
    is_gone: Arc<AtomicBool>,
}

impl ClientSink for Recorder {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        if self.is_gone.load(Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let bytes: Vec<u8> = batch.pieces().flatten().copied().collect();
        self.told.iter().for_each(|told| drop(told.send(bytes.clone())));
        self.batches.lock().unwrap().push(bytes);
        Ok(())
    }

    fn peer_gone(&mut self) -> bool {
        self.is_gone.load(Relaxed)
    }

    fn demote_to_background(&mut self) {}
}

/// A call of upload-pack with a hook, after the advertisement.
fn call(path: &Path, hook: &str, config: &[(&str, &str)]) -> UploadPack {
    let mut overrides = vec![("uploadpack.packObjectsHook".to_owned(), Some(hook.to_owned()))];
    overrides.extend(config.iter().map(|(name, value)| (name.to_string(), Some(value.to_string()))));
    let config = ConfigSources { overrides, ..ConfigSources::default() };
    let options = OpenOptions { config, ..OpenOptions::default() };
    let subject = Subject {
        repository: Arc::new(Repository::open(path, &options).unwrap()),
        version: ProtocolVersion::V2,
        mode: CallMode::StatelessRpc,
        namespace: String::new(),
        agent: "packrace/test".into(),
        transfer: Transfer::unlisted("1"),
        host: Arc::default(),
        confinement: Default::default(),
        paths: Default::default(),
    };
    UploadPack { subject, hook_environment: vec![("PACKRACE_X".into(), "x".into())], bundles: None }
}

fn repo() -> Repo {
    RepoBuilder::new(Size::Tiny).build()
}

fn one_want() -> (Repo, Vec<u8>) {
    let repo = repo();
    let script = clone_script(&repo);
    (repo, script)
}

fn clone_script(repo: &Repo) -> Vec<u8> {
    let main = repo.git(&["rev-parse", "main"]);
    Script::new().fetch_v2("sha1", &[main.trim()], &[]).flush().bytes().to_vec()
}

/// What a client gets, and how the call ended.
fn answer_to(call: &UploadPack, script: &[u8]) -> (Vec<Vec<u8>>, Result<(), Error>) {
    let mut client = Recorder::default();
    let result = upload_pack(call, &mut Cursor::new(script), &mut client, &RealClock::default());
    let batches = client.batches.lock().unwrap().clone();
    (batches, result)
}

/// What a client gets from a hook that fails. No flush packet ends it.
fn cut_short(hook: &str) -> (FetchAnswer, Result<(), Error>) {
    let repo = repo();
    let (batches, result) = answer_to(&call(repo.path(), hook, &[]), &clone_script(&repo));
    let answer = batches.concat();
    assert_eq!(fetch_answer(&answer).err().as_deref(), Some("no flush at the end"), "{hook}");
    (fetch_answer(&[answer, b"0000".to_vec()].concat()).unwrap(), result)
}

/// A hook that fails: the client gets this much of a pack, these messages, and git's words.
#[track_caller]
fn check_failure(hook: &str, pack: &[u8], progress: &str, error: &str) {
    let (answer, result) = cut_short(hook);
    assert_eq!(String::from_utf8_lossy(&answer.bands.pack), String::from_utf8_lossy(pack), "{hook}");
    assert_eq!(String::from_utf8_lossy(&answer.bands.progress), progress, "{hook}");
    let aborting = "aborting due to possible repository corruption on the remote side.";
    assert_eq!(String::from_utf8_lossy(&answer.bands.error), aborting, "{hook}");
    let result = result.unwrap_err();
    assert!(result.was_told(), "{hook}");
    assert_eq!(result.to_string(), error, "{hook}");
}

const DIED: &str = "git upload-pack: git-pack-objects died with error.";
const NO_PACK: &str = "git upload-pack: uploadpack.packObjectsHook did not write a pack";

#[test]
fn a_hook_gets_what_git_gives_it() {
    let repo = repo();
    let log = tempfile::NamedTempFile::new().unwrap();
    let hook = format!(
        r#"t='{}'; f() {{ {{ for a in "$@"; do echo "[$a]"; done; echo "$0 $PWD $GIT_DIR $GIT_PROTOCOL $PACKRACE_X"; cat; }} >>"$t"; printf PACK; }}; f"#,
        log.path().display()
    );
    let [main, old, ancestor] = ["main", "old", "main~3"].map(|rev| repo.git(&["rev-parse", rev]));
    let [main, old, ancestor] = [main.trim(), old.trim(), ancestor.trim()];
    let script = Script::new().line("command=fetch").line("object-format=sha1").delim();
    let script = ["thin-pack", "ofs-delta", "include-tag", "filter blob:limit=2k"]
        .into_iter()
        .fold(script, Script::line)
        .line(&format!("want {main}"))
        .line(&format!("want {old}"))
        .line(&format!("want {main}"))
        .line(&format!("shallow {ancestor}"))
        .line(&format!("have {ancestor}"))
        .line("done")
        .flush();
    let config = [("uploadpack.allowFilter", "true")];
    let call = call(repo.path(), &hook, &config);
    answer_to(&call, script.bytes()).1.unwrap();
    let dir = repo.path().canonicalize().unwrap();
    let expect = format!(
        "[git]\n[--shallow-file]\n[]\n[pack-objects]\n[--revs]\n[--thin]\n[--stdout]\n[--shallow]\n[--progress]\n\
         [--delta-base-offset]\n[--include-tag]\n[--filter=blob:limit=2048]\n\
         {hook} {} . version=2 x\n--shallow {ancestor}\n{main}\n{old}\n--not\n{ancestor}\n\n",
        dir.display()
    );
    assert_eq!(std::fs::read_to_string(log.path()).unwrap(), expect);
}

#[test]
fn a_repository_cannot_name_a_hook() {
    let repo = repo();
    repo.git(&["config", "uploadpack.packObjectsHook", "echo a trap; exit 1;"]);
    let mut call = call(repo.path(), "", &[]);
    call.subject.repository = Arc::new(Repository::open(repo.path(), &OpenOptions::default()).unwrap());
    let (batches, result) = answer_to(&call, &clone_script(&repo));
    result.unwrap();
    assert!(fetch_answer(&batches.concat()).unwrap().bands.pack.starts_with(b"PACK"));
}

#[test]
fn failures_in_gits_words() {
    check_failure("exit 3;", b"", "", DIED);
    check_failure("kill -9 $$;", b"", "", DIED);
    check_failure("exit 0;", b"", "", NO_PACK);
    check_failure("printf PAC;:", b"", "", NO_PACK);
    check_failure("printf 'PAXK and so on';:", b"", "", NO_PACK);
    check_failure("echo garbage; \"$@\"; :", b"", "", NO_PACK);
    check_failure("echo no room >&2; exit 1;", b"", "no room\n", DIED);
    // Bytes that may be the trailer are never sent: 20 of 30 bytes.
    check_failure("printf PACK00000000001111111111222222; exit 1;", b"PACK000000", "", DIED);
    check_failure("printf PACK00000000001111111111222222; kill -15 $$;", b"PACK000000", "", DIED);
    // Not even if everything but a successful exit is there.
    let whole = "git --git-dir=\"$PWD\" pack-objects --stdout --all -q </dev/null; exit 1;";
    let (answer, result) = cut_short(whole);
    assert_eq!(result.unwrap_err().to_string(), DIED);
    assert!(answer.bands.pack.len() > 1000);
    let repo = repo();
    let pack = Git::stock().run_with_input(repo.path(), &["pack-objects", "--stdout", "--all", "-q"], b"");
    assert_eq!(answer.bands.pack, pack[..pack.len() - 20]);
}

/// Without a side-band the client cannot be told: the pack ends early.
#[test]
fn a_client_without_a_side_band() {
    let (repo, _) = one_want();
    let main = repo.git(&["rev-parse", "main"]);
    let script = Script::new().line(&format!("want {} ofs-delta", main.trim())).flush().line("done");
    for (end, expect, is_good) in
        [("exit 1;", "0008NAK\nPACK000000", false), (":", "0008NAK\nPACK00000000001111111111222222", true)]
    {
        let hook = format!("printf PACK00000000001111111111222222; {end}");
        let mut call = call(repo.path(), &hook, &[]);
        call.subject.version = ProtocolVersion::V0;
        let (batches, result) = answer_to(&call, script.bytes());
        assert_eq!(String::from_utf8(batches.concat()).unwrap(), expect);
        assert_eq!(result.is_ok(), is_good);
    }
}

/// A hook that writes `total` bytes and four more, in pieces of `piece`.
fn writer(total: usize, piece: usize) -> String {
    format!(
        "printf PACK; head -c {total} /dev/zero | dd ibs={piece} obs={piece} iflag=fullblock 2>/dev/null; :"
    )
}

#[test]
fn frames_are_full_whatever_the_pieces() {
    let repo = repo();
    let third_less_one = 65_515 * 2 / 3 - 1;
    for (total, piece) in [(300_000, 1), (3 << 20, 8192), (50 << 20, 8192), (3 << 20, third_less_one)] {
        let (batches, result) =
            answer_to(&call(repo.path(), &writer(total, piece), &[NO_KEEPALIVE]), &clone_script(&repo));
        result.unwrap();
        let all = batches.concat();
        let answer = fetch_answer(&all).unwrap();
        assert_eq!(answer.bands.pack.len(), total + 4);
        let packets = all.len() - answer.bands.pack.len();
        let frames = (total + 4).div_ceil(65_515);
        // 5 bytes a frame, `packfile`, and two flushes.
        assert_eq!(packets, frames * 5 + 13 + 4, "pieces of {piece}");
        let budget = all.len() / BATCH_BYTES + 3;
        assert!(batches.len() <= budget, "{} writes of pieces of {piece}", batches.len());
    }
}

/// A repository and a request for 50,000 of its commits: 2 MB, more than any pipe holds.
fn many_wants() -> (Repo, Vec<u8>) {
    let repo = repo();
    let mut commands = Vec::new();
    for number in 0..50_000 {
        use std::io::Write as _;
        writeln!(commands, "commit refs/heads/many\ncommitter a <a@b> {number} +0000\ndata 1\nx").unwrap();
    }
    repo.git_with_input(&["fast-import", "--quiet", "--force"], &commands);
    let wants = repo.git(&["rev-list", "many"]);
    let wants: Vec<&str> = wants.lines().collect();
    assert_eq!(wants.len(), 50_000);
    let script = Script::new().fetch_v2("sha1", &wants, &[]).flush().bytes().to_vec();
    (repo, script)
}

#[test]
fn feeding_and_reading_do_not_wait_for_each_other() {
    let (repo, script) = many_wants();
    for (hook, lines) in [
        // Never reads; reads last; answers while it reads.
        ("printf PACK; head -c 3000000 /dev/zero; :", None),
        ("printf PACK; head -c 3000000 /dev/zero; wc -l >&2; :", Some(50_002)),
        ("printf PACK; tee /dev/null; :", None),
        ("exec <&-; sleep 0.1; printf PACK; :", None),
        ("head -c 1000000 >/dev/null; printf PACK; :", None),
    ] {
        let began = Instant::now();
        let (batches, result) = answer_to(&call(repo.path(), hook, &[]), &script);
        result.unwrap();
        let answer = fetch_answer(&batches.concat()).unwrap();
        assert!(answer.bands.pack.starts_with(b"PACK"), "{hook}");
        if let Some(lines) = lines {
            let said = String::from_utf8(answer.bands.progress).unwrap();
            assert_eq!(said.trim().parse(), Ok(lines), "{hook}");
        }
        assert!(began.elapsed() < PATIENCE, "{hook}");
    }
}

/// A file that a hook waits for.
struct Gate(tempfile::TempDir);

impl Gate {
    fn new() -> Self {
        Gate(packrace_testkit::scratch_dir())
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Shell commands that report that they are running, and wait.
    fn wait(&self) -> String {
        let [started, open] = ["started", "open"].map(|name| self.file(name).display().to_string());
        format!(": >'{started}'; while ! test -e '{open}'; do sleep 0.02; done")
    }

    /// Returns when the hook runs.
    fn wait_for_start(&self) {
        let began = Instant::now();
        while !self.file("started").exists() {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Opens it when dropped, also when an assertion fails.
    fn opener(&self) -> OpenWhenDropped<'_> {
        OpenWhenDropped(self)
    }

    fn open(&self) {
        std::fs::write(self.file("open"), "").unwrap();
    }
}

struct OpenWhenDropped<'a>(&'a Gate);

impl Drop for OpenWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Keepalives while a hook computes, through the whole engine and with a simulated clock.
fn check_keepalive(request: (Repo, Vec<u8>), hook: &str, gate: &Gate, expect: &[&[u8]]) {
    let (repo, script) = request;
    let call = call(repo.path(), hook, &[]);
    let (told, sent) = mpsc::channel();
    let clock = SimulatedClock::default();
    let mut client = Recorder { told: Some(told), ..Recorder::default() };
    std::thread::scope(|scope| {
        let server = {
            let clock: &dyn Clock = &clock;
            scope.spawn(move || upload_pack(&call, &mut Cursor::new(script), &mut client, clock))
        };
        let _opener = gate.opener();
        let next = || sent.recv_timeout(PATIENCE).expect("something is sent");
        assert_eq!(next(), b"000dpackfile\n");
        gate.wait_for_start();
        for batch in expect {
            // A second before it is due nothing is sent; time does not pass by itself.
            clock.advance(Duration::from_secs(4));
            assert!(sent.recv_timeout(TWO_LOOKS).is_err(), "too early for {batch:?}");
            clock.advance(Duration::from_secs(1));
            assert_eq!(next(), *batch);
        }
        gate.open();
        let rest = next();
        assert!(rest.ends_with(b"0000"), "{rest:?}");
        server.join().unwrap().unwrap();
    });
}

#[test]
fn keepalives_through_the_whole_engine() {
    let gate = Gate::new();
    let hook = format!("{}; printf PACK; :", gate.wait());
    check_keepalive(one_want(), &hook, &gate, &[b"0005\x01", b"0005\x01", b"0005\x01"]);

    // While the hook does not read its input.
    let gate = Gate::new();
    let hook = format!("{}; cat >/dev/null; printf PACK; :", gate.wait());
    check_keepalive(many_wants(), &hook, &gate, &[b"0005\x01", b"0005\x01"]);

    // From the last byte sent; held bytes are sent instead, without those that may be the trailer.
    let gate = Gate::new();
    let hook = format!("printf PACK00000000001111111111222222; {}; :", gate.wait());
    check_keepalive(one_want(), &hook, &gate, &[b"000f\x01PACK000000", b"0005\x01"]);
}

#[test]
fn no_keepalive_where_it_is_turned_off() {
    let repo = repo();
    let gate = Gate::new();
    let hook = format!("{}; printf PACK; :", gate.wait());
    let call = call(repo.path(), &hook, &[NO_KEEPALIVE]);
    let script = clone_script(&repo);
    let (told, sent) = mpsc::channel();
    let clock = SimulatedClock::default();
    let mut client = Recorder { told: Some(told), ..Recorder::default() };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| upload_pack(&call, &mut Cursor::new(script), &mut client, &clock));
        let _opener = gate.opener();
        assert_eq!(sent.recv_timeout(PATIENCE).unwrap(), b"000dpackfile\n");
        clock.advance(Duration::from_secs(1000));
        assert!(sent.recv_timeout(TWO_LOOKS).is_err());
        gate.open();
        assert_eq!(sent.recv_timeout(PATIENCE).unwrap(), b"0009\x01PACK0000");
        server.join().unwrap().unwrap();
    });
}

#[test]
fn a_client_that_leaves_ends_the_hook_and_what_it_started() {
    let repo = repo();
    let gate = Gate::new();
    let pids = gate.file("pids");
    let hook = format!("sleep 1000 & echo $$ $! >'{0}.new'; mv '{0}.new' '{0}'; wait; :", pids.display());
    let (call, script) = (call(repo.path(), &hook, &[]), clone_script(&repo));
    let mut client = Recorder::default();
    let is_gone = Arc::clone(&client.is_gone);
    std::thread::scope(|scope| {
        let server = scope
            .spawn(move || upload_pack(&call, &mut Cursor::new(script), &mut client, &RealClock::default()));
        let started = Instant::now();
        while !pids.exists() {
            assert!(started.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
        is_gone.store(true, Relaxed);
        let error = server.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PeerGone);
    });
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let has_ended = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !is_running()
        });
        assert!(has_ended, "{pid}");
    }
}

/// What a client that knows `https` gets when this hook runs.
fn with_uris(hook: &str) -> (Vec<u8>, Result<(), Error>) {
    let repo = repo();
    let main = repo.git(&["rev-parse", "main"]);
    let script = Script::new().line("command=fetch").line("object-format=sha1").delim();
    let script =
        script.line(&format!("want {}", main.trim())).line("packfile-uris https").line("done").flush();
    let value = format!("{} {} https://a/b", "1".repeat(40), "2".repeat(40));
    let call = call(repo.path(), hook, &[("uploadpack.blobPackfileUri", &value)]);
    let (batches, result) = answer_to(&call, script.bytes());
    (batches.concat(), result)
}

#[test]
fn a_hook_may_name_packs_elsewhere() {
    let hash = "3".repeat(40);
    let (answer, result) = with_uris(&format!(
        "case \"$*\" in *--uri-protocol=https*) printf '{hash} '; sleep 0.1; echo https://c/d; printf PACK;; esac; :"
    ));
    result.unwrap();
    let line = format!("{hash} https://c/d\n");
    let expect = format!("0012packfile-uris\n{:04x}{line}0001000dpackfile\n0009\x01PACK0000", line.len() + 4);
    assert_eq!(String::from_utf8(answer).unwrap(), expect);

    let (answer, result) = with_uris("echo hello >&2; printf PACK; :");
    result.unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "000dpackfile\n000b\x02hello\n0009\x01PACK0000");

    for hook in [
        format!("printf '{hash} https://c'; :"),
        format!("printf '{hash} htt'; exit 1;"),
        format!("echo {hash} http://c; printf PACK; :"),
        "echo x https://c; printf PACK; :".to_owned(),
        "head -c 1000000 /dev/zero; :".to_owned(),
    ] {
        let (answer, result) = with_uris(&hook);
        let answer = String::from_utf8(answer).unwrap();
        assert!(result.unwrap_err().was_told(), "{hook}");
        assert!(answer.contains("aborting due to possible repository corruption"), "{hook}: {answer}");
        assert!(!answer.contains("PACK"), "{hook}: {answer}");
    }
}
