//! What `serve` can access in its sandbox, and files that become inaccessible.

use packrace_testkit::write_program;

use super::hostile::{PUSHING, push};
use super::*;

/// Whether the kernel supports no sandbox; then it is not tested.
fn has_no_landlock(server: &Server) -> bool {
    let has_none = server.log().contains("Landlock is missing or disabled");
    if has_none {
        eprintln!("NOT TESTED: this kernel has no Landlock");
    }
    has_none
}

/// As editors and `git config` write a file: a new one replaces it.
fn replace(path: &Path, text: &str) {
    let beside = path.with_file_name("beside");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

#[test]
fn configuration_that_cannot_be_read_any_more_counts_as_it_was() {
    let (home, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (config, included) = (home.path().join(".gitconfig"), home.path().join("included"));
    std::fs::write(&config, "[include]\n\tpath = included\n").unwrap();
    std::fs::write(&included, "[uploadpack]\n\tallowFilter = true\n").unwrap();
    let absent = home.path().join("absent");
    let variables = [
        ("GIT_CONFIG_GLOBAL", config.to_str().unwrap()),
        ("GIT_CONFIG_SYSTEM", absent.to_str().unwrap()),
        ("GIT_CONFIG_NOSYSTEM", "0"),
        ("TMPDIR", inside.path().to_str().unwrap()),
    ];
    let server = Server::start(LOOPBACK, &[], &variables);
    if has_no_landlock(&server) {
        return;
    }
    let has_filter = || {
        let reply = server.get("/a.git/info/refs?service=git-upload-pack");
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{body}{}", server.log());
        body.contains(" filter")
    };
    assert!(has_filter());
    // A file changed in place is read again.
    std::fs::write(&included, "[uploadpack]\n\tallowFilter = false\n").unwrap();
    assert!(!has_filter());
    assert!(!server.log().contains("unable to access"), "{}", server.log());
    for path in [&included, &config] {
        replace(path, "[uploadpack]\n\tallowFilter = true\n");
        assert!(!has_filter() && !has_filter());
    }
    // A file that did not exist at the start.
    std::fs::write(&absent, "[a]\n\tb\n").unwrap();
    assert!(!has_filter());
    let warning = format!(
        "unable to access '{}': Permission denied: keeping the last readable configuration",
        included.display()
    );
    let log = server.log();
    assert_eq!(log.matches(&warning).count(), 1, "{log}");
    assert_eq!(log.matches("keeping the last readable configuration").count(), 1, "{log}");
    // The server's settings stay unchanged, too.
    replace(&server.config(), "[listen]\nhttp = \"127.0.0.1:0\"\n[limits]\nmax-requests = 1\n");
    server.signal("-HUP");
    server.wait_until("what it says of its settings", |server| {
        server.log().contains("the sandbox denies access to a replaced file")
    });
    assert!(!has_filter());
}

#[test]
fn folders_that_settings_name_are_reached() {
    let (outside, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [pool, hooks, elsewhere] = ["pool.git", "hooks", "elsewhere"].map(|name| outside.path().join(name));
    RepoBuilder::new(Size::Tiny).seed(2).build_at(&pool, Git::stock());
    write_program(&hooks.join("pre-receive"), "#!/bin/sh\ncat >told\n");
    let config = format!(
        "{PUSHING}[serve]\nallowed-paths = [\"{}\"]\nhooks = \"{}\"\n",
        pool.display(),
        hooks.display()
    );
    let server = Server::start(&config, &[], &[("TMPDIR", inside.path().to_str().unwrap())]);
    if has_no_landlock(&server) {
        return;
    }
    let repo = server.repository();
    let alternates = repo.join("objects/info/alternates");
    std::fs::create_dir_all(alternates.parent().unwrap()).unwrap();
    std::fs::write(alternates, format!("{}\n", pool.join("objects").display())).unwrap();
    let tip = Git::stock().run(&pool, &["rev-parse", "main"]).trim().to_owned();
    Git::stock().run(&repo, &["update-ref", "refs/heads/borrowed", &tip]);
    let clone = outside.path().join("clone");
    let address = format!("http://{}/a.git", server.address("http"));
    let mut command = Command::new("git");
    clean_environment(&mut command);
    let cloned = output(command.args(["clone", "-q", "--bare", "-b", "borrowed", &address]).arg(&clone));
    assert!(cloned.status.success(), "{}{}", String::from_utf8_lossy(&cloned.stderr), server.log());
    assert_eq!(Git::stock().run(&clone, &["rev-parse", "HEAD"]).trim(), tip);
    let answer = push(&server, "refs/heads/new");
    assert!(answer.contains("ok refs/heads/new"), "{answer}{}", server.log());
    assert!(std::fs::read_to_string(repo.join("told")).unwrap().ends_with("refs/heads/new\n"));
    // A folder outside the sandbox is refused.
    write_program(&elsewhere.join("pre-receive"), "#!/bin/sh\nexit 1\n");
    std::fs::write(server.config(), config.replace(hooks.to_str().unwrap(), elsewhere.to_str().unwrap()))
        .unwrap();
    server.signal("-HUP");
    server.wait_until("what it says of the folder", |server| server.log().contains("settings unchanged"));
    assert!(
        server.log().contains("serve.hooks: ") && server.log().contains("the sandbox needs a restart"),
        "{}",
        server.log()
    );
    assert!(push(&server, "refs/heads/newer").contains("ok refs/heads/newer"));
}
