mod attempts;

use std::collections::HashMap;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use packrace_journal::{Action, Journal, JournalEvent, JournalOptions, RefEvent};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::delivery::{Attempted, Message, post, signature};
use super::task::{DeliveryRules, HookTask};
use super::*;
use crate::events::RepositoryFilter;
use crate::metrics::{AttemptOutcome, LossReason};

/// Longer than anything takes, unless it hangs.
const HANG: Duration = Duration::from_secs(60);

const SECRET: &[u8] = b"It's a Secret to Everybody";

/// A request as received.
struct Posted {
    line: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Posted {
    /// `None` if the sender disconnects before the end.
    fn read(stream: &mut impl Read) -> Option<Self> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().lines();
        let line = lines.next().unwrap().to_owned();
        let headers: HashMap<String, String> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(k, v)| (k.to_lowercase(), v.to_owned()))
            .collect();
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        stream.read_exact(&mut body).ok()?;
        Some(Posted { line, headers, body })
    }

    fn id(&self) -> &str {
        &self.headers["x-packrace-event-id"]
    }
}

/// How a receiver responds to a request.
type Answer = Box<dyn FnMut(usize, &mut TcpStream) + Send>;

/// A receiver on loopback; it passes each request to the channel before it responds.
fn receiver(mut answer: Answer) -> (SocketAddr, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, posted): (Sender<Posted>, _) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let Some(request) = Posted::read(&mut stream) else { continue };
            if sender.send(request).is_err() {
                return;
            }
            answer(number, &mut stream);
        }
    });
    (address, posted)
}

/// The sender may have disconnected already.
fn says(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

fn takes_all() -> Answer {
    Box::new(|_, stream| says(stream, "HTTP/1.1 204 OK\r\n\r\n"))
}

/// Silent until the sender disconnects.
fn hangs(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0]);
}

fn hook(address: SocketAddr, allowed: &[&str]) -> Webhook {
    Webhook {
        name: "ci".to_owned(),
        url: format!("http://{address}/hook?token=t0ken").parse().ok().unwrap(),
        secret_file: PathBuf::new(),
        secret: SECRET.to_vec(),
        filter: RepositoryFilter::default(),
        actions: None,
        allowed: allowed.iter().map(|range| range.parse().unwrap()).collect(),
    }
}

/// Trusts these authorities, in PEM.
fn trusting(authorities: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for pem in authorities {
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn event(repository: &str) -> JournalEvent {
    let change = RefEvent { name: b"refs/heads/main".to_vec(), old: "0".repeat(40), new: "1".repeat(40) };
    JournalEvent {
        action: Action::Push,
        time: "2026-11-24T09:00:00Z".into(),
        repository: repository.as_bytes().to_vec(),
        to: None,
        user: Some("alice".into()),
        peer: "192.0.2.7:1".into(),
        door: "http".into(),
        session: "s/1".into(),
        refs: vec![change],
        options: Vec::new(),
        is_recovered: false,
    }
}

/// A journal, and hooks that read it.
struct Hooked {
    dir: tempfile::TempDir,
    journal: Arc<Journal>,
    durable: watch::Receiver<u64>,
    stopping: watch::Sender<bool>,
    runtime: Runtime,
    rules: DeliveryRules,
    counts: Arc<WebhookCounts>,
}

impl Hooked {
    fn new(options: JournalOptions) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let (sender, durable) = watch::channel(0);
        let on_durable = Box::new(move |seq| {
            sender.send_replace(seq);
        });
        let (journal, _) = Journal::open(dir.path(), options, on_durable).unwrap();
        let rules = DeliveryRules { max_time: HANG, first_delay: Duration::from_millis(1), retry_time: HANG };
        Hooked {
            dir,
            journal,
            durable,
            stopping: watch::Sender::new(false),
            runtime: runtime(),
            rules,
            counts: Arc::new(WebhookCounts::new("ci")),
        }
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn start(&self, hook: Webhook) -> JoinHandle<()> {
        let (durable, counts) = (self.durable.clone(), self.counts.clone());
        let _entered = self.runtime.enter();
        let task =
            HookTask::new(Arc::new(hook), trusting(&[]), self.rules, self.dir(), durable, counts).unwrap();
        let (never, ending) = oneshot::channel();
        let running = task.run(self.stopping.subscribe(), ending);
        self.runtime.spawn(async move {
            running.await;
            drop(never);
        })
    }

    fn record(&self, event: &JournalEvent) {
        self.journal.record(self.journal.announce(event).unwrap(), event).unwrap();
    }

    /// Stops all hooks and waits for their end.
    fn stop(&mut self, running: Vec<JoinHandle<()>>) {
        self.stopping.send_replace(true);
        for one in running {
            self.runtime.block_on(async { tokio::time::timeout(HANG, one).await.unwrap().unwrap() });
        }
        self.stopping = watch::Sender::new(false);
    }

    fn cursor(&self) -> String {
        std::fs::read_to_string(self.dir().join("webhook-ci")).unwrap()
    }
}

#[test]
fn signatures_are_those_of_others() {
    // "Testing the webhook payload validation" in GitHub's documentation; RFC 4231, test case 2.
    let expect = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(signature(SECRET, b"Hello, World!"), expect);
    let expect = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(signature(b"Jefe", b"what do ya want for nothing?"), expect);
}

#[test]
fn an_event_is_posted_and_signed() {
    let mut hooked = Hooked::new(JournalOptions::default());
    hooked.record(&event("before.git"));
    let (address, posted) = receiver(takes_all());
    let running = hooked.start(hook(address, &["127.0.0.0/8"]));
    hooked.record(&event("a.git"));
    let request = posted.recv_timeout(HANG).unwrap();
    assert_eq!(request.line, "POST /hook?token=t0ken HTTP/1.1");
    let header = |name: &str| request.headers[name].as_str();
    assert_eq!((header("host"), header("content-type")), (address.to_string().as_str(), "application/json"));
    assert_eq!((header("x-packrace-hook"), header("x-packrace-event"), request.id()), ("ci", "push", "2"));
    assert_eq!(header("x-packrace-signature-256"), signature(SECRET, &request.body));
    assert_eq!(header("x-packrace-delivery").len(), 32);
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        (&body["seq"], &body["repository"], &body["user"]),
        (&2.into(), &"a.git".into(), &"alice".into())
    );
    assert_eq!(body["refs"][0]["ref"], "refs/heads/main");
    for hidden in ["peer", "door", "session"] {
        assert_eq!(body.get(hidden), None);
    }
    // The next one is sent only after the response to this one.
    hooked.record(&event("a.git"));
    assert_eq!(posted.recv_timeout(HANG).unwrap().id(), "3");
    hooked.stop(vec![running]);
    let failed = [AttemptOutcome::Failed, AttemptOutcome::Rejected, AttemptOutcome::TimedOut];
    assert_eq!(failed.map(|outcome| hooked.counts.attempts_so_far(outcome)), [0; 3]);
}

#[test]
fn a_hook_gets_what_it_wants() {
    let mut hooked = Hooked::new(JournalOptions::default());
    let (address, posted) = receiver(takes_all());
    let wants = Webhook {
        filter: RepositoryFilter::new(&["team/**"]).unwrap(),
        actions: Some(vec![Action::Push, Action::Rename]),
        ..hook(address, &["127.0.0.0/8"])
    };
    let running = hooked.start(wants);
    hooked.record(&event("other.git"));
    hooked.record(&JournalEvent { action: Action::Delete, ..event("team/a.git") });
    hooked.record(&event("team/a.git"));
    let renamed = JournalEvent { action: Action::Rename, to: Some(b"team/b.git".to_vec()), ..event("c.git") };
    hooked.record(&renamed);
    let got = [(); 2].map(|()| posted.recv_timeout(HANG).unwrap());
    let got = got.each_ref().map(|posted| (posted.id(), posted.headers["x-packrace-event"].as_str()));
    assert_eq!(got, [("3", "push"), ("4", "rename")]);
    hooked.stop(vec![running]);
}

#[test]
fn what_fails_is_tried_again_and_has_the_same_id() {
    let mut hooked = Hooked::new(JournalOptions::default());
    // The hanging one uses up the time limit. On a busy machine, others may as well.
    hooked.rules.max_time = Duration::from_millis(500);
    let (address, posted) = receiver(Box::new(|number, stream| match number {
        0 => says(stream, "HTTP/1.1 500 No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"),
        1 => hangs(stream),
        2 => {}
        3 => says(stream, "SSH-2.0-x\r\n"),
        _ => says(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    }));
    let running = hooked.start(hook(address, &["127.0.0.1"]));
    hooked.record(&event("a.git"));
    hooked.record(&event("a.git"));
    let mut got = vec![posted.recv_timeout(HANG).unwrap()];
    while got[got.len() - 1].id() == "1" {
        got.push(posted.recv_timeout(HANG).unwrap());
    }
    assert!(got.len() >= 6 && got[got.len() - 1].id() == "2", "{}", got.len());
    let mut deliveries: Vec<&str> =
        got.iter().map(|one| one.headers["x-packrace-delivery"].as_str()).collect();
    deliveries.sort_unstable();
    deliveries.dedup();
    assert_eq!(deliveries.len(), got.len());
    assert!(got[..got.len() - 1].iter().all(|one| one.body == got[0].body));
    hooked.stop(vec![running]);
    assert!(hooked.counts.attempts_so_far(AttemptOutcome::TimedOut) > 0);
    assert_eq!(hooked.counts.lost_so_far(LossReason::GivenUp), 0);
}

#[test]
fn a_hook_goes_on_at_its_cursor() {
    let mut hooked = Hooked::new(JournalOptions::default());
    let (address, posted) = receiver(Box::new(|number, stream| match number {
        2 => hangs(stream),
        _ => says(stream, "HTTP/1.1 204 OK\r\n\r\n"),
    }));
    let hook = || hook(address, &["127.0.0.1"]);
    let running = hooked.start(hook());
    assert_eq!(hooked.cursor(), "1\n");
    (0..3).for_each(|_| hooked.record(&event("a.git")));
    let ids = [(); 3].map(|()| posted.recv_timeout(HANG).unwrap().id().to_owned());
    assert_eq!(ids, ["1", "2", "3"]);
    // The third has no response when the server stops, and is sent again with the fourth.
    hooked.stop(vec![running]);
    assert_eq!(hooked.cursor(), "3\n");
    hooked.record(&event("a.git"));
    let running = hooked.start(hook());
    let ids = [(); 2].map(|()| posted.recv_timeout(HANG).unwrap().id().to_owned());
    assert_eq!(ids, ["3", "4"]);
    hooked.stop(vec![running]);
    // The cursor of another journal.
    std::fs::write(hooked.dir().join("webhook-ci"), "1000\n").unwrap();
    let running = hooked.start(hook());
    hooked.record(&event("a.git"));
    assert_eq!(posted.recv_timeout(HANG).unwrap().id(), "5");
    hooked.stop(vec![running]);
}

#[test]
fn the_cursor_is_written_while_an_event_is_not_answered() {
    let mut hooked = Hooked::new(JournalOptions::default());
    let (address, posted) = receiver(Box::new(|number, stream| match number {
        2 => hangs(stream),
        _ => says(stream, "HTTP/1.1 204 OK\r\n\r\n"),
    }));
    let running = hooked.start(hook(address, &["127.0.0.1"]));
    (0..3).for_each(|_| hooked.record(&event("a.git")));
    let ids = [(); 3].map(|()| posted.recv_timeout(HANG).unwrap().id().to_owned());
    assert_eq!(ids, ["1", "2", "3"]);
    // The third is in flight meanwhile; a kill now must not send the second again.
    let started = std::time::Instant::now();
    while hooked.cursor() != "3\n" {
        assert!(started.elapsed() < HANG / 2, "{}", hooked.cursor());
        std::thread::sleep(Duration::from_millis(10));
    }
    hooked.stop(vec![running]);
}

#[test]
fn a_cursor_that_is_there_is_left_alone_at_the_start() {
    let mut hooked = Hooked::new(JournalOptions::default());
    let (address, _posted) = receiver(takes_all());
    let running = hooked.start(hook(address, &["127.0.0.1"]));
    hooked.stop(vec![running]);
    let file = || std::os::unix::fs::MetadataExt::ino(&hooked.dir().join("webhook-ci").metadata().unwrap());
    let before = file();
    let running = hooked.start(hook(address, &["127.0.0.1"]));
    assert_eq!(file(), before);
    hooked.stop(vec![running]);
}

#[test]
fn what_is_not_taken_for_too_long_is_given_up() {
    let mut hooked = Hooked::new(JournalOptions::default());
    hooked.rules.retry_time = Duration::ZERO;
    let (address, posted) = receiver(Box::new(|number, stream| match number {
        0 => says(stream, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"),
        _ => says(stream, "HTTP/1.1 204 OK\r\n\r\n"),
    }));
    let running = hooked.start(hook(address, &["127.0.0.1"]));
    (0..2).for_each(|_| hooked.record(&event("a.git")));
    let ids = [(); 2].map(|()| posted.recv_timeout(HANG).unwrap().id().to_owned());
    assert_eq!(ids, ["1", "2"]);
    hooked.stop(vec![running]);
    assert_eq!(hooked.counts.lost_so_far(LossReason::GivenUp), 1);
    assert_eq!(hooked.counts.lost_so_far(LossReason::Gone), 0);
}

#[test]
fn what_the_journal_no_longer_has_is_counted() {
    // Every event has a segment of its own, and only the last few are kept.
    let options = JournalOptions { segment_bytes: 1, max_bytes: 1000, ..JournalOptions::default() };
    let mut hooked = Hooked::new(options);
    let (address, posted) = receiver(takes_all());
    std::fs::write(hooked.dir().join("webhook-ci"), "1\n").unwrap();
    (0..20).for_each(|_| hooked.record(&event("a.git")));
    let running = hooked.start(hook(address, &["127.0.0.1"]));
    let first: u64 = posted.recv_timeout(HANG).unwrap().id().parse().unwrap();
    assert!(first > 1, "{first}");
    for expect in first + 1..=20 {
        assert_eq!(posted.recv_timeout(HANG).unwrap().id(), expect.to_string());
    }
    assert_eq!(hooked.counts.lost_so_far(LossReason::Gone), first - 1);
    hooked.stop(vec![running]);
}

#[test]
fn a_receiver_that_hangs_delays_nobody_else() {
    let mut hooked = Hooked::new(JournalOptions::default());
    let (hanging, waiting) = receiver(Box::new(|_, stream| hangs(stream)));
    let (good, posted) = receiver(takes_all());
    let slow = Webhook { name: "slow".to_owned(), ..hook(hanging, &["127.0.0.1"]) };
    let running = vec![hooked.start(slow), hooked.start(hook(good, &["127.0.0.1"]))];
    hooked.record(&event("a.git"));
    waiting.recv_timeout(HANG).unwrap();
    for expect in 1..=50 {
        assert_eq!(posted.recv_timeout(HANG).unwrap().id(), expect.to_string());
        hooked.record(&event("a.git"));
    }
    // The server does not wait for it either.
    hooked.stop(running);
    assert_eq!(std::fs::read_to_string(hooked.dir().join("webhook-slow")).unwrap(), "1\n");
}

/// The metrics of all hooks.
fn shown(metrics: &Metrics) -> Vec<String> {
    let text = metrics.text();
    text.lines().filter(|line| line.starts_with("packrace_webhook_lag{")).map(str::to_owned).collect()
}

#[test]
fn other_hooks_count_while_the_server_runs() {
    let mut hooked = Hooked::new(JournalOptions::default());
    let metrics = Arc::<Metrics>::default();
    let numbers = WebhookNumbers::new(hooked.durable.clone());
    metrics.webhooks.set(numbers.clone()).unwrap();
    let mut all = RunningWebhooks {
        rules: hooked.rules,
        dir: hooked.dir().to_owned(),
        durable: hooked.durable.clone(),
        metrics: metrics.clone(),
        numbers,
        stopping: hooked.stopping.clone(),
        runtime: hooked.runtime.handle().clone(),
        running: Vec::new(),
    };
    let runtime = runtime();
    let set = |all: &mut RunningWebhooks, hooks| runtime.block_on(all.set(&Webhooks::of(hooks)));
    let [(wrong, misled), (slow, waiting)] = [(); 2].map(|()| receiver(Box::new(|_, stream| hangs(stream))));
    let (good, posted) = receiver(takes_all());
    let to = |name: &str, address| Webhook { name: name.to_owned(), ..hook(address, &["127.0.0.1"]) };
    set(&mut all, vec![to("ci", wrong), to("slow", slow)]);
    hooked.record(&event("a.git"));
    assert_eq!(misled.recv_timeout(HANG).unwrap().id(), "1");
    assert_eq!(waiting.recv_timeout(HANG).unwrap().id(), "1");
    let before = all.running[1].hook.clone();
    assert_eq!(before.name, "slow");

    // A changed hook immediately sends what the other receiver did not accept; the other hook is not
    // disturbed.
    set(&mut all, vec![to("ci", good), to("slow", slow)]);
    assert_eq!(posted.recv_timeout(HANG).unwrap().id(), "1");
    assert!(all.running.iter().any(|one| Arc::ptr_eq(&one.hook, &before)));
    // A new secret is a change, too.
    set(&mut all, vec![to("slow", slow), Webhook { secret: b"another secret".to_vec(), ..to("ci", good) }]);
    hooked.record(&event("a.git"));
    let find = |id: &str| {
        // A delivery in flight when a hook ended is sent twice.
        let mut requests = std::iter::from_fn(|| posted.recv_timeout(HANG).ok());
        requests.find(|request| request.id() == id).unwrap()
    };
    let request = find("2");
    let signature = signature(b"another secret", &request.body);
    assert_eq!(request.headers["x-packrace-signature-256"], signature);

    // A removed hook has no metrics; when it is added again, it continues at its cursor.
    set(&mut all, vec![to("slow", slow)]);
    assert_eq!(shown(&metrics), ["packrace_webhook_lag{hook=\"slow\"} 2"]);
    set(&mut all, Vec::new());
    assert_eq!(shown(&metrics), Vec::<String>::new());
    hooked.record(&event("a.git"));
    set(&mut all, vec![to("ci", good)]);
    find("3");
    let ended = std::mem::take(&mut all.running).into_iter().map(|one| one.ended).collect();
    hooked.stop(ended);
}
