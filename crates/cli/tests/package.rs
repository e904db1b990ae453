//! The Debian package in a scratch root: installed, started, upgraded, removed and purged, as far as this is possible without
//! systemd. `packaging/try` does the same on a machine that boots.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use packrace_testkit::clean_environment;

/// How long a server may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A root with nothing but the package and the libraries that its program loads.
struct Scratch {
    folder: tempfile::TempDir,
    /// The port, which stays open while the server restarts, as one of a socket unit does.
    listener: TcpListener,
}

/// A running server; killed at the end of a test that fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scratch {
    fn new() -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        for dir in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "run", "proc", "tmp", "etc", "srv"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
        Scratch { folder, listener }
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join("root").join(inside.trim_start_matches('/'))
    }

    fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap()
    }

    fn append(&self, inside: &str, text: &str) {
        fs::OpenOptions::new()
            .append(true)
            .open(self.path(inside))
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    #[track_caller]
    fn dpkg(&self, args: &[&str]) -> String {
        let mut dpkg = as_root("dpkg");
        dpkg.arg(format!("--root={}", self.path("").display()));
        dpkg.arg(format!("--log={}", self.folder.path().join("dpkg.log").display()));
        // The root has no shell and no other packages.
        dpkg.args(["--force-not-root,script-chrootless,depends,confold", "--no-triggers"]).args(args);
        succeeds(dpkg.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()))
    }

    /// The user `git` of the package: user and group.
    fn user(&self) -> (u32, u32) {
        let users = self.read("/etc/passwd");
        let line = users.lines().find(|line| line.starts_with("git:")).expect("the package makes a user");
        let mut fields = line.split(':').skip(2).map(|field| field.parse().unwrap());
        (fields.next().unwrap(), fields.next().unwrap())
    }

    /// A command in the root, as the user of the service if this is possible. It becomes the process that is started.
    fn as_service(&self, program: &[&str]) -> Command {
        let inside = "mount --rbind /proc \"$0/proc\" && exec chroot \"$@\"";
        let mut command = as_root("unshare");
        command.args(["--mount", "sh", "-c", inside]).arg(self.path(""));
        if is_root() {
            let (user, group) = self.user();
            command.args([format!("--userspec={user}:{group}"), format!("--groups={group}")]);
        }
        command.arg(self.path("")).args(program).env("HOME", "/srv/git");
        command
    }

    /// Starts what the unit starts, with its socket, and returns when the unit would be active.
    fn start(&self) -> Running {
        let unit = self.read("/usr/lib/systemd/system/packrace.service");
        assert!(unit.contains("\nType=notify\n"));
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let socket = self.read("/usr/lib/systemd/system/packrace.socket");
        let name = socket.lines().find_map(|line| line.strip_prefix("FileDescriptorName=")).unwrap();

        let notified = self.path("/run/notify");
        let _ = fs::remove_file(&notified);
        let notify = UnixDatagram::bind(&notified).unwrap();
        fs::set_permissions(&notified, fs::Permissions::from_mode(0o777)).unwrap();
        let service = self.as_service(&line.split(' ').collect::<Vec<_>>());
        let mut command = Command::new("sh");
        clean_environment(&mut command);
        command
            .args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh"])
            .arg(service.get_program())
            .args(service.get_args());
        command.env("LISTEN_FDS", "1").env("LISTEN_FDS_FIRST_FD", self.listener.as_raw_fd().to_string());
        command.env("LISTEN_FDNAMES", name).env("NOTIFY_SOCKET", "/run/notify").env("HOME", "/srv/git");
        let log = self.folder.path().join("log");
        let errors = fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut running = Running(command.spawn().unwrap());
        notify.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut message = [0; 64];
        let deadline = Instant::now() + PATIENCE;
        loop {
            match notify.recv(&mut message) {
                Ok(length) => break assert_eq!(&message[..length], b"READY=1"),
                Err(_) => {
                    let ended = running.0.try_wait().unwrap();
                    let is_late = Instant::now() > deadline;
                    assert!(ended.is_none() && !is_late, "{ended:?}: {}", fs::read_to_string(&log).unwrap());
                }
            }
        }
        running
    }

    fn git(&self, dir: &Path, args: &[&str]) -> Command {
        let mut git = Command::new("git");
        clean_environment(&mut git);
        git.current_dir(dir).env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
        git.args(["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"])
            .args(args);
        git
    }

    fn url(&self, user: &str, repository: &str) -> String {
        format!("http://{user}@{}/{repository}", self.listener.local_addr().unwrap())
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command of root, or of a user that is root in a namespace of its own.
fn as_root(program: &str) -> Command {
    let mut command = Command::new(if is_root() { program } else { "unshare" });
    clean_environment(&mut command);
    if !is_root() {
        command.args(["--user", "--map-root-user", program]);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Builds a release from the program under test, and returns its folder and the package.
fn build(folder: &Path) -> (PathBuf, PathBuf) {
    let release = folder.join("release");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/build");
    let mut build = Command::new(script);
    // Compressing takes longer than everything else.
    build.env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let programs = Path::new(env!("CARGO_BIN_EXE_packrace")).parent().unwrap();
    succeeds(build.arg("--binaries").args([programs, &release]));
    let named = |end: &str| {
        let mut found = fs::read_dir(&release).unwrap().map(|entry| entry.unwrap().path());
        found.find(|path| path.to_str().unwrap().ends_with(end)).unwrap_or_else(|| panic!("no {end}"))
    };
    succeeds(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&release));
    let bill: serde_json::Value = serde_json::from_slice(&fs::read(named(".cdx.json")).unwrap()).unwrap();
    let components = bill["components"].as_array().unwrap();
    let rustls =
        components.iter().find(|one| one["name"] == "rustls").expect("it is linked into the program");
    assert!(rustls["purl"].as_str().unwrap().starts_with("pkg:cargo/rustls@"), "{rustls}");
    assert_eq!(rustls["hashes"][0]["content"].as_str().unwrap().len(), 64, "{rustls}");
    assert!(components.iter().all(|one| one["licenses"][0]["expression"].is_string()));
    assert!(components.iter().all(|one| one["name"] != "packrace-testkit"), "tests alone need it");
    let package = named(".deb");
    (release, package)
}

/// The package of a later version: other settings, and another comment in the file of users.
fn next_version(folder: &Path, package: &Path) -> PathBuf {
    let tree = folder.join("next");
    succeeds(Command::new("dpkg-deb").arg("-R").args([package, &tree]));
    let replace = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(tree.join(path)).unwrap();
        assert!(text.contains(from), "{path}: {from}");
        fs::write(tree.join(path), text.replacen(from, to, 1)).unwrap();
    };
    replace("DEBIAN/control", concat!("Version: ", env!("CARGO_PKG_VERSION")), "Version: 999.0");
    replace("etc/packrace/serve.toml", "[cache]", "# Of the next version.\n[cache]");
    replace("etc/packrace/users", "# Users", "# Of the next version: users");
    let next = folder.join("next.deb");
    succeeds(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "--build"]).args([&tree, &next]));
    next
}

/// Copies the libraries that the program loads, and its loader.
fn add_libraries(scratch: &Scratch) {
    let listed = succeeds(Command::new("ldd").arg(env!("CARGO_BIN_EXE_packrace")));
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = scratch.path(library);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(library, copy).unwrap();
    }
}

#[test]
#[ignore = "needs dpkg"]
fn a_package_from_installation_to_purge() {
    let scratch = Scratch::new();
    let work = scratch.folder.path();
    let (_, package) = build(work);

    scratch.dpkg(&["--install", package.to_str().unwrap()]);
    add_libraries(&scratch);
    let mode = |path: &str| fs::metadata(scratch.path(path)).unwrap().mode() & 0o7777;
    assert_eq!([mode("/etc/packrace"), mode("/etc/packrace/users")], [0o2750, 0o640]);
    if is_root() {
        let owner = fs::metadata(scratch.path("/srv/git")).unwrap();
        assert_eq!(((owner.uid(), owner.gid()), mode("/srv/git")), (scratch.user(), 0o750));
    }
    let wanted = scratch.path("/etc/systemd/system/multi-user.target.wants/packrace.service");
    assert!(wanted.symlink_metadata().is_ok(), "it starts with the machine");

    // As an operator would: repositories, a user, a rule.
    for name in ["team/tool", "other"] {
        succeeds(&mut scratch.as_service(&["/usr/bin/packrace", "repo", "create", "/srv/git", name]));
    }
    let service = ["/usr/bin/packrace-service", "upload-pack", "--advertise-refs", "/srv/git/other.git"];
    assert!(succeeds(&mut scratch.as_service(&service)).contains("capabilities^{}"));
    let running = scratch.start();
    let closed =
        scratch.git(work, &["ls-remote", &scratch.url("alice:sesame", "other.git")]).output().unwrap();
    assert!(!closed.status.success(), "nobody may read yet: {}", said(&closed));
    let mut hash = scratch.as_service(&["/usr/bin/packrace", "access", "hash", "alice"]);
    let mut hash = hash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    hash.stdin.take().unwrap().write_all(b"sesame\n").unwrap();
    let hashed = hash.wait_with_output().unwrap();
    scratch.append("/etc/packrace/users", &String::from_utf8(hashed.stdout).unwrap());
    let rule = "[[rule]]\nrepository = \"**\"\nwho = \"alice\"\nallow = [\"read\", \"write\", \"create\"]\n";
    scratch.append("/etc/packrace/rules.toml", rule);
    drop(running);

    let mut running = scratch.start();
    succeeds(&mut scratch.git(work, &["init", "--quiet", "tool"]));
    let tool = work.join("tool");
    succeeds(&mut scratch.git(&tool, &["commit", "--quiet", "--allow-empty", "-m", "First"]));
    let tip = succeeds(&mut scratch.git(&tool, &["rev-parse", "HEAD"]));
    for name in ["team/tool.git", "other.git"] {
        succeeds(&mut scratch.git(&tool, &["push", "--quiet", &scratch.url("alice:sesame", name), "HEAD"]));
    }

    // An upgrade: settings that nobody changed are the new ones, and what the operator changed stays.
    let next = next_version(work, &package);
    scratch.dpkg(&["--install", next.to_str().unwrap()]);
    assert!(scratch.read("/etc/packrace/serve.toml").contains("# Of the next version."));
    assert!(scratch.read("/etc/packrace/rules.toml").ends_with(rule));
    assert!(scratch.read("/etc/packrace/users").contains("\nalice:"));
    assert!(scratch.read("/etc/packrace/users.dpkg-dist").starts_with("# Of the next version"));
    // The restart: the old server ends by itself, and a client that comes meanwhile waits for the new one.
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&running.0),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(running.0.wait().unwrap().success(), "it stops when asked to");
    let mut early = scratch.git(work, &["ls-remote", &scratch.url("alice:sesame", "team/tool.git"), "main"]);
    let early = early.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = scratch.start();
    let early = early.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&early.stdout).starts_with(tip.trim()), "{}", said(&early));
    drop(running);

    scratch.dpkg(&["--remove", "packrace"]);
    assert!(!scratch.path("/usr/bin/packrace").exists());
    assert!(scratch.read("/etc/packrace/rules.toml").ends_with(rule), "until a purge");
    scratch.dpkg(&["--purge", "packrace"]);
    assert!(!scratch.path("/etc/packrace").exists());
    assert!(wanted.symlink_metadata().is_err());
    let stays = ["--git-dir", scratch.path("/srv/git/team/tool.git").to_str().unwrap(), "rev-parse", "main"]
        .map(str::to_owned);
    let stays = stays.each_ref().map(String::as_str);
    assert_eq!(
        succeeds(&mut scratch.git(work, &["-c", "safe.directory=*", stays[0], stays[1], stays[2], stays[3]])),
        tip
    );
}

/// What the scripts of the package ask of systemd, which is not here: stand-ins note it.
#[test]
#[ignore = "needs dpkg"]
fn an_upgrade_restarts_and_a_removal_stops() {
    let folder = packrace_testkit::scratch_dir();
    let notes = folder.path().join("notes");
    for program in
        ["systemctl", "deb-systemd-helper", "deb-systemd-invoke", "systemd-sysusers", "systemd-tmpfiles"]
    {
        let path = folder.path().join(program);
        let script = format!("#!/bin/sh\necho {program} \"$@\" >>'{}'\n", notes.display());
        packrace_testkit::write_program(&path, &script);
    }
    let noted = |script: &str, args: &[&str]| {
        let _ = fs::remove_file(&notes);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/debian").join(script);
        let mut command = as_root("unshare");
        let inside =
            "mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH=\"$0:$PATH\" exec \"$@\"";
        command.args(["--mount", "sh", "-c", inside]).arg(folder.path()).arg(script).args(args);
        succeeds(&mut command);
        let notes = fs::read_to_string(&notes).unwrap_or_default();
        let asked = notes.lines().filter_map(|line| line.strip_prefix("deb-systemd-invoke "));
        asked.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(noted("postinst", &["configure"]), ["start packrace.socket packrace.service"]);
    // The sockets stay open.
    assert_eq!(noted("prerm", &["upgrade", "2"]), [""; 0]);
    assert_eq!(noted("postrm", &["upgrade", "2"]), [""; 0]);
    assert_eq!(noted("postinst", &["configure", "1"]), ["restart packrace.service"]);
    assert_eq!(noted("prerm", &["remove"]), ["stop packrace.socket packrace-https.socket packrace.service"]);
    assert_eq!(noted("postrm", &["remove"]), [""; 0]);
    assert_eq!(noted("postrm", &["purge"]), [""; 0]);
}
