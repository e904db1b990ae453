//! What is to be seen of a server while it runs: the routes below `/-/`, and how the page looks in a browser.

mod png;
#[path = "../served/mod.rs"]
mod served;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use packrace_server::settings::{Admin, Settings};
use packrace_testkit::peer::{Feed, HttpReply, Script, http};
use packrace_testkit::{Git, RepoBuilder, Size};

/// A served folder with `a.git` in it, and `-`; the server lives as long as the process.
struct Served {
    folder: tempfile::TempDir,
    http: SocketAddr,
    git: SocketAddr,
    /// Where the page is.
    admin: SocketAddr,
}

impl Served {
    fn new(size: Size, admin: Admin) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(size).build_at(&root.join("a.git"), Git::stock());
        RepoBuilder::new(Size::Tiny).build_at(&root.join("-"), Git::stock());
        let settings = Settings { admin, ..served::settings(folder.path()) };
        let addresses = served::start(&root, settings);
        let (http, git) = (addresses[0], addresses[1]);
        Served { folder, http, git, admin: addresses.get(2).copied().unwrap_or(http) }
    }

    /// A clone of `a.git` over git:// by somebody who reads its beginning and then waits.
    fn slow_clone(&self) -> TcpStream {
        let tip = Git::stock().run(&self.folder.path().join("root/a.git"), &["rev-parse", "HEAD"]);
        let hello = Script::new().data(b"git-upload-pack /a.git\0host=h\0\0version=2\0");
        let fetch = Script::new().fetch_v2("sha1", &[tip.trim()], &[]);
        let mut stream = TcpStream::connect(self.git).unwrap();
        stream.write_all(&[hello.bytes(), fetch.bytes()].concat()).unwrap();
        stream.read_exact(&mut [0; 256 << 10]).unwrap();
        stream
    }

    fn page(&self) -> String {
        String::from_utf8(get(self.admin, "/-/").body).unwrap()
    }

    fn metrics(&self) -> String {
        String::from_utf8(get(self.admin, "/-/metrics").body).unwrap()
    }
}

fn any() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn get(address: SocketAddr, path: &str) -> HttpReply {
    http(address, &format!("GET {path} HTTP/1.1"), b"", Feed::Whole)
}

/// Waits for what will come.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn routes_and_what_is_reached_beside_them() {
    let served = Served::new(Size::Tiny, Admin::OnHttp);
    let check = |head: &str, status: u16, content_type: &str| -> HttpReply {
        let reply = http(served.http, head, b"", Feed::Whole);
        assert_eq!((reply.status, reply.header("content-type")), (status, Some(content_type)), "{head}");
        reply
    };
    assert_eq!(check("GET /-/healthz HTTP/1.1", 200, "text/plain").body, b"ok\n");
    assert_eq!(check("GET /-/readyz HTTP/1.1", 200, "text/plain").body, b"ready\n");
    let open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(check("GET /-/metrics HTTP/1.1", 200, open_metrics).body.ends_with(b"# EOF\n"));
    let page = check("GET /-/ HTTP/1.1", 200, "text/html; charset=utf-8");
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    let posted = check("POST /-/ HTTP/1.1", 405, "text/plain");
    assert_eq!(posted.header("allow"), Some("GET, HEAD"));
    check("GET /- HTTP/1.1", 404, "text/plain; charset=utf-8");
    check("GET /-/metrics/x HTTP/1.1", 404, "text/plain; charset=utf-8");

    let advertisement = "application/x-git-upload-pack-advertisement";
    check("GET /-/info/refs?service=git-upload-pack HTTP/1.1", 200, advertisement);
    let post = "POST /-/git-upload-pack HTTP/1.1\nContent-Type: application/x-git-upload-pack-request\n\
                Git-Protocol: version=2";
    let ls_refs = Script::new().line("command=ls-refs").delim().flush();
    let reply = http(served.http, post, ls_refs.bytes(), Feed::Whole);
    assert!(reply.status == 200 && reply.body.ends_with(b"0000"), "{}", reply.status);
}

#[test]
fn an_address_of_its_own_keeps_numbers_and_names_there() {
    let served = Served::new(Size::Tiny, Admin::At(any()));
    let check = |address, path: &str, status: u16| assert_eq!(get(address, path).status, status, "{path}");
    for path in ["/-/healthz", "/-/readyz"] {
        check(served.http, path, 200);
        check(served.admin, path, 200);
    }
    for path in ["/-/", "/-/metrics"] {
        check(served.http, path, 404);
        check(served.admin, path, 200);
    }
    check(served.admin, "/a.git/info/refs?service=git-upload-pack", 404);
    let nowhere = Served::new(Size::Tiny, Admin::Nowhere);
    for path in ["/-/", "/-/metrics", "/-/healthz", "/-/readyz"] {
        check(nowhere.http, path, 404);
    }
}

#[test]
fn a_clone_is_seen_while_it_runs_and_counted_when_it_is_given_up() {
    let served = Served::new(Size::Medium, Admin::At(any()));
    let clone = served.slow_clone();
    let peer = clone.local_addr().unwrap().to_string();
    let page = served.page();
    for text in ["/a.git", &peer, "<td>clone</td><td>sending</td>", "Running transfers · 1", "test/1"] {
        assert!(page.contains(text), "no {text} in {page}");
    }
    let metrics = served.metrics();
    let check =
        |metrics: &str, line: &str| assert!(metrics.lines().any(|other| other == line), "{line}\n{metrics}");
    check(&metrics, "packrace_transfers_started_total{kind=\"clone\",door=\"git\"} 1");
    check(&metrics, "packrace_transfers_finished_total{kind=\"clone\",door=\"git\"} 0");
    check(&metrics, "packrace_connections{door=\"git\"} 1");
    check(&metrics, "packrace_phase_seconds_count{stage=\"plan\"} 1");
    drop(clone);
    wait_until("the end of the clone", || served.page().contains("Running transfers · 0"));
    let metrics = served.metrics();
    check(&metrics, "packrace_transfers_failed_total{kind=\"clone\",door=\"git\"} 1");
    check(&metrics, "packrace_transfers_finished_total{kind=\"advertisement\",door=\"git\"} 1");
    get(served.http, "/b.git/info/refs?service=git-upload-pack");
    let metrics = served.metrics();
    check(&metrics, "packrace_refusals_total{reason=\"not-found\"} 1");
    assert!(!metrics.contains("a.git") && !metrics.contains("b.git"), "{metrics}");
}

#[test]
#[ignore = "needs chromium"]
fn the_page_looks_like_something_in_a_browser_without_scripts() {
    let served = Served::new(Size::Medium, Admin::At(any()));
    let clones: Vec<TcpStream> = (0..3).map(|_| served.slow_clone()).collect();
    let whole = http(served.http, "GET /a.git/info/refs?service=git-upload-pack HTTP/1.1", b"", Feed::Whole);
    assert_eq!(whole.status, 200);
    // A plot needs two points.
    wait_until("the second sample", || served.page().matches("out line\" d=\"M").count() == 2);
    std::thread::sleep(Duration::from_millis(2500));
    let url = format!("http://{}/-/", served.admin);
    let script = "<body style='background:#fff'><script>document.body.style.background='#f00'</script>";
    let control = served.folder.path().join("control.html");
    std::fs::write(&control, script).unwrap();
    let control = screenshot(&format!("file://{}", control.display()), "control.png", None);
    assert_eq!(control.at(640, 500), [0xff; 3], "scripts are not off");
    let light = screenshot(&url, "page-light.png", None);
    let dark = screenshot(&url, "page-dark.png", Some("--blink-settings=preferredColorScheme=0"));
    let paper = [light.at(5, 5), dark.at(5, 5)];
    assert_eq!(paper, [[0xf7, 0xf7, 0xf5], [0x11, 0x14, 0x18]], "the style is not applied");
    for (image, line) in [(&light, [0x1f, 0x6f, 0xeb]), (&dark, [0x6a, 0xa8, 0xff])] {
        assert_eq!((image.width, image.height), (1280, 1100));
        let colours = image.colours();
        let line_pixels = colours.get(&line).copied().unwrap_or(0);
        assert!(colours.len() > 50, "{} colours: nothing is written", colours.len());
        assert!(line_pixels > 20, "{line_pixels} pixels have the colour of the plot");
        let most = colours.values().max().copied().unwrap_or(0);
        assert!(most < image.width * image.height * 9 / 10, "the page is blank");
    }
    drop(clones);
}

/// What chromium shows, which is kept in the target directory. Pages may run no script.
fn screenshot(url: &str, name: &str, more: Option<&str>) -> png::Image {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(name);
    let profile = packrace_testkit::scratch_dir();
    std::fs::create_dir(profile.path().join("Default")).unwrap();
    let preferences = r#"{"profile":{"default_content_setting_values":{"javascript":2}}}"#;
    std::fs::write(profile.path().join("Default/Preferences"), preferences).unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    command.args(["--disable-dev-shm-usage", "--window-size=1280,1100", "--force-device-scale-factor=1"]);
    command.args(["--force-color-profile=srgb"]).args(more);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--screenshot={}", path.display())).arg(url);
    let _ = std::fs::remove_file(&path);
    let mut child = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => panic!("this test needs chromium (Debian's package chromium): {error}"),
    };
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(180) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("chromium takes no screenshot");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    png::Image::read(&read(&path))
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
