//! Which repositories below a folder are served, what they may decide, where links lead, and which requests of browsers are
//! taken: attempts of those who own a repository there, or a page in somebody's browser.

mod served;

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use packrace_server::settings::{Hosts, Pushing, ServeRules, Settings};
use packrace_store::HooksFrom;
use packrace_testkit::peer::{Feed, HttpReply, Script, http, tcp};
use packrace_testkit::{Git, RefFormat, RepoBuilder, Size};

/// A folder with a server; what is beside `root` is nobody's business.
struct World {
    dir: tempfile::TempDir,
    http: SocketAddr,
    git: SocketAddr,
}

impl World {
    fn new(make: impl FnOnce(&Path), change: impl FnOnce(&mut Settings, &Path)) -> Self {
        let dir = packrace_testkit::scratch_dir();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        make(&root);
        let mut settings = served::settings(dir.path());
        change(&mut settings, dir.path());
        let addresses = served::start(&root, settings);
        World { http: addresses[0], git: addresses[1], dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// What asks for the refs at a path, over HTTP and over git://, which have to agree.
    #[track_caller]
    fn check(&self, path: &str, expect: u16) {
        let reply = self.advertise(path, "git-upload-pack");
        assert_eq!(reply.status, expect, "{path}: {}", String::from_utf8_lossy(&reply.body));
        let hello = Script::new().data(format!("git-upload-pack /{path}\0host=h\0").as_bytes()).flush();
        let answer = String::from_utf8_lossy(&tcp(self.git, hello.bytes(), Feed::Whole)).into_owned();
        let is_refused = answer.get(4..).is_none_or(|answer| answer.starts_with("ERR "));
        assert_eq!(is_refused, expect != 200, "{path}: {answer}");
    }

    fn advertise(&self, path: &str, service: &str) -> HttpReply {
        http(self.http, &format!("GET /{path}/info/refs?service={service} HTTP/1.1"), b"", Feed::Whole)
    }

    /// Whether a clone gets all that is there.
    fn clones(&self, path: &str) -> bool {
        let to = packrace_testkit::scratch_dir();
        let url = format!("http://{}/{path}", self.http);
        let mut command = Git::stock().command(to.path());
        command.args(["clone", "-q", "--mirror", &url, "c"]).output().unwrap().status.success()
    }
}

fn git(dir: &Path, args: &[&str]) -> String {
    Git::stock().run(dir, args)
}

fn bare(path: &Path) {
    RepoBuilder::new(Size::Tiny).build_at(path, Git::stock());
}

fn work_tree(path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    git(path, &["init", "-q"]);
    git(path, &["commit", "-q", "--allow-empty", "-m", "x"]);
}

fn pushing(settings: &mut Settings) {
    settings.pushing = Pushing { is_allowed: true, ..settings.pushing.clone() };
}

#[test]
fn a_repository_turns_pushing_off_and_not_on_and_names_no_program() {
    let make = |root: &Path| {
        bare(&root.join("pool.git"));
        bare(&root.join("a.git"));
        let alternates = "../../pool.git/objects\n";
        std::fs::write(root.join("a.git/objects/info/alternates"), alternates).unwrap();
        let command = format!("touch {}; :", root.join("../ran").display());
        for (name, value) in [
            ("http.receivepack", "true"),
            ("daemon.receivepack", "true"),
            ("core.alternateRefsCommand", &command),
            ("core.fsmonitor", &command),
        ] {
            git(&root.join("a.git"), &["config", name, value]);
        }
    };
    let closed = World::new(make, |_, _| {});
    assert_eq!(closed.advertise("a.git", "git-receive-pack").status, 403);
    let open = World::new(make, |settings, _| pushing(settings));
    let advertised = open.advertise("a.git", "git-receive-pack");
    assert_eq!(advertised.status, 200);
    assert!(String::from_utf8_lossy(&advertised.body).contains("report-status"));
    let read_only = World::new(make, |settings, _| {
        pushing(settings);
        settings.rules.read_only = true;
        let overrides = &mut settings.open.config.overrides;
        overrides.push(("http.receivepack".to_owned(), Some("true".to_owned())));
    });
    assert_eq!(read_only.advertise("a.git", "git-receive-pack").status, 403);
    let configured = World::new(make, |settings, _| {
        let overrides = &mut settings.open.config.overrides;
        overrides.push(("http.receivepack".to_owned(), Some("true".to_owned())));
    });
    assert_eq!(configured.advertise("a.git", "git-receive-pack").status, 200);
    git(&configured.root().join("a.git"), &["config", "http.receivepack", "false"]);
    assert_eq!(configured.advertise("a.git", "git-receive-pack").status, 403);
    for world in [&closed, &open, &read_only, &configured] {
        let hello = Script::new().data(b"git-receive-pack /a.git\0host=h\0").flush();
        let answer = tcp(world.git, hello.bytes(), Feed::Whole);
        let is_open = String::from_utf8_lossy(&answer).contains("report-status");
        assert_eq!(is_open, std::ptr::eq(world, &raw const open), "{}", String::from_utf8_lossy(&answer));
        world.check("a.git", 200);
        assert!(!world.dir.path().join("ran").exists(), "a program of the repository ran");
    }
}

#[test]
fn what_lies_in_another_repository_is_not_served() {
    let make = |root: &Path| {
        let tree = root.join("tree");
        work_tree(&tree);
        // As a commit may bring it.
        bare(&tree.join("evil"));
        bare(&tree.join("deep/er/evil.git"));
        bare(&tree.join(".git/modules/sub"));
        work_tree(&tree.join("nested"));
        bare(&root.join("group/b.git"));
        bare(&root.join("group/b.git/inner.git"));
        symlink("tree/evil", root.join("by-link")).unwrap();
        symlink("tree/.git", root.join("good-link")).unwrap();
        git(&tree, &["worktree", "add", "-q", "--detach", "../linked"]);
        std::fs::create_dir(root.join("gitfile")).unwrap();
        std::fs::write(root.join("gitfile/.git"), "gitdir: ../tree/evil\n").unwrap();
        // A file of this name makes no repository.
        std::fs::write(root.join("group/HEAD"), "ref: refs/heads/main\n").unwrap();
    };
    let world = World::new(make, |_, _| {});
    for (path, expect) in [
        ("tree", 200),
        ("tree/.git", 200),
        ("good-link", 200),
        ("linked", 200),
        ("group/b.git", 200),
        ("tree/evil", 404),
        ("tree/deep/er/evil", 404),
        ("tree/.git/modules/sub", 404),
        ("tree/.git/worktrees/linked", 404),
        ("tree/nested", 404),
        ("group/b.git/inner.git", 404),
        ("by-link", 404),
        ("gitfile", 404),
    ] {
        world.check(path, expect);
        // Also where it was opened before.
        world.check(path, expect);
    }
    let (group, kept) = (world.root().join("group"), "group/b.git");
    std::thread::sleep(std::time::Duration::from_millis(60));
    world.check(kept, 200);
    std::fs::write(group.join(".git"), "gitdir: nowhere\n").unwrap();
    world.check(kept, 404);
    std::fs::remove_file(group.join(".git")).unwrap();
    world.check(kept, 200);
    for name in ["objects", "refs"] {
        std::fs::create_dir(group.join(name)).unwrap();
    }
    world.check(kept, 404);
    std::fs::remove_dir(group.join("refs")).unwrap();
    world.check(kept, 200);
}

#[test]
fn a_work_tree_may_be_the_folder_itself() {
    let make = |root: &Path| {
        work_tree(root);
        bare(&root.join("evil"));
    };
    let world = World::new(make, |_, _| {});
    world.check(".git", 200);
    world.check("evil", 404);
    let root = http(world.http, "GET /info/refs?service=git-upload-pack HTTP/1.1", b"", Feed::Whole);
    assert_eq!(root.status, 200);
}

/// Puts a link in the place of something in a copy of a repository, and what was there beside the served folder.
fn lead_out(root: &Path, name: &str, what: &str) {
    let repo = root.join(format!("{name}.git"));
    let private = root.join("../private").join(name);
    std::fs::create_dir_all(&private).unwrap();
    let to = private.join("x");
    std::fs::rename(repo.join(what), &to).unwrap();
    symlink(&to, repo.join(what)).unwrap();
}

#[test]
fn links_lead_nowhere_but_into_the_folder() {
    let names =
        ["objects", "pack", "refs", "heads", "packed", "file", "index", "head", "loose", "fan", "ref"];
    let make = |root: &Path| {
        for name in names.iter().chain(&["good", "pool", "near", "config"]) {
            bare(&root.join(format!("{name}.git")));
        }
        for (name, what) in [
            ("objects", "objects"),
            ("pack", "objects/pack"),
            ("refs", "refs"),
            ("heads", "refs/heads"),
            ("packed", "packed-refs"),
            ("head", "HEAD"),
            ("config", "config"),
        ] {
            if what == "packed-refs" {
                git(&root.join("packed.git"), &["pack-refs", "--all"]);
            }
            lead_out(root, name, what);
        }
        let in_packs = |name: &str, end: &str| {
            let repo = root.join(format!("{name}.git"));
            git(&repo, &["repack", "-adq"]);
            let entries = std::fs::read_dir(repo.join("objects/pack")).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let pack = names.into_iter().find(|name| name.ends_with(end)).unwrap();
            lead_out(root, name, &format!("objects/pack/{pack}"));
        };
        in_packs("file", ".pack");
        in_packs("index", ".idx");
        for (name, is_whole) in [("loose", false), ("fan", true)] {
            let repo = root.join(format!("{name}.git"));
            let tree = git(&repo, &["write-tree"]);
            let id = git(&repo, &["commit-tree", "-p", "HEAD", "-m", "loose", tree.trim()]);
            let id = id.trim();
            git(&repo, &["update-ref", "refs/heads/loose", id]);
            let fan = format!("objects/{}", &id[..2]);
            lead_out(root, name, &if is_whole { fan } else { format!("{fan}/{}", &id[2..]) });
        }
        git(&root.join("ref.git"), &["update-ref", "refs/heads/new", "HEAD"]);
        lead_out(root, "ref", "refs/heads/new");
        // Within the folder, also by absolute names.
        let near = root.join("near.git");
        std::fs::rename(near.join("objects"), root.join("shared-objects")).unwrap();
        symlink(root.join("shared-objects"), near.join("objects")).unwrap();
    };
    let world = World::new(make, |_, _| {});
    for name in ["good", "near"] {
        world.check(&format!("{name}.git"), 200);
        assert!(world.clones(&format!("{name}.git")), "{name}");
    }
    for name in names.iter().chain(&["config"]) {
        // Nothing but the link is wrong with it: git, which follows links but of HEAD, clones it.
        if *name != "head" {
            let clone = world.dir.path().join("clones").join(name);
            let from = format!("file://{}", world.root().join(format!("{name}.git")).display());
            git(world.dir.path(), &["clone", "-q", "--mirror", &from, clone.to_str().unwrap()]);
        }
        assert!(!world.clones(&format!("{name}.git")), "{name}: a link was followed");
    }
}

#[test]
fn reftables_are_not_read_through_links_either() {
    let make = |root: &Path| {
        let builder = || RepoBuilder::new(Size::Tiny).ref_format(RefFormat::Reftable);
        builder().build_at(&root.join("good.git"), Git::stock());
        for (name, what) in [("list", "reftable/tables.list"), ("all", "reftable")] {
            builder().build_at(&root.join(format!("{name}.git")), Git::stock());
            lead_out(root, name, what);
        }
        builder().build_at(&root.join("table.git"), Git::stock());
        let list = std::fs::read_to_string(root.join("table.git/reftable/tables.list")).unwrap();
        lead_out(root, "table", &format!("reftable/{}", list.lines().next().unwrap()));
    };
    let world = World::new(make, |_, _| {});
    assert!(world.clones("good.git"));
    for name in ["list", "all", "table"] {
        assert!(!world.clones(&format!("{name}.git")), "{name}: a link was followed");
    }
}

#[test]
fn refs_lie_in_the_repository() {
    let world = World::new(
        |root| {
            bare(&root.join("mine.git"));
            for name in ["inside", "beside", "plain"] {
                let path = root.join(format!("{name}.git"));
                bare(&path);
                let place = match name {
                    "inside" => "files://elsewhere".to_owned(),
                    "beside" => format!("files://{}", root.join("mine.git").display()),
                    _ => "files".to_owned(),
                };
                let text = std::fs::read_to_string(path.join("config")).unwrap();
                let text = text.replace("formatversion = 0", "formatversion = 1");
                std::fs::write(path.join("config"), format!("{text}[extensions]\n\trefStorage = {place}\n"))
                    .unwrap();
            }
        },
        |settings, _| pushing(settings),
    );
    world.check("plain.git", 200);
    for name in ["inside.git", "beside.git"] {
        world.check(name, 404);
        assert_eq!(world.advertise(name, "git-receive-pack").status, 404);
    }
}

#[test]
fn alternates_lie_in_the_folder_or_where_it_is_allowed() {
    let make = |root: &Path| {
        for (name, pool) in [("near", "root/pool.git"), ("allowed", "pool.git"), ("private", "private.git")] {
            let pool = root.join("..").join(pool);
            bare(&pool);
            let repo = root.join(format!("{name}.git"));
            git(root, &["clone", "-q", "--bare", "--shared", pool.to_str().unwrap(), repo.to_str().unwrap()]);
        }
    };
    let world = World::new(make, |settings, dir| {
        settings.rules = ServeRules { allowed_paths: vec![dir.join("pool.git")], ..ServeRules::default() };
    });
    for (name, expect) in [("near", true), ("allowed", true), ("private", false)] {
        assert_eq!(world.clones(&format!("{name}.git")), expect, "{name}");
    }
}

#[test]
fn configuration_comes_from_files_that_end() {
    let make = |root: &Path| {
        std::fs::write(root.join("common"), "[http]\n\tuploadpack = false\n").unwrap();
        std::fs::write(root.join("../secret"), "[http]\n\tuploadpack = false\n").unwrap();
        let status = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
        assert!(status.success());
        let loops = "[include]\n\tpath = config\n".repeat(2);
        for (name, include) in [
            ("near", "../common"),
            ("far", "../../secret"),
            ("pipe", "../pipe"),
            ("zero", "/dev/zero"),
            ("map", "/proc/self/pagemap"),
            ("folder", "../near.git"),
            ("none", "../nothing"),
        ] {
            let repo = root.join(format!("{name}.git"));
            bare(&repo);
            git(&repo, &["config", "include.path", include]);
        }
        bare(&root.join("loop.git"));
        let config = root.join("loop.git/config");
        let before = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, before + &loops).unwrap();
    };
    let world = World::new(make, |_, _| {});
    let status = |name: &str| world.advertise(&format!("{name}.git"), "git-upload-pack").status;
    assert_eq!(status("near"), 403, "what lies in the folder counts");
    // What leads out does not, and does no harm.
    for name in ["far", "zero", "map", "none"] {
        assert_eq!(status(name), 200, "{name}");
    }
    for name in ["pipe", "folder", "loop"] {
        assert_eq!(status(name), 404, "{name}");
    }
}

#[test]
fn only_what_is_exported() {
    let make = |root: &Path| ["a.git", "b.git"].iter().for_each(|name| bare(&root.join(name)));
    let world = World::new(make, |settings, _| settings.rules.require_export_ok = true);
    world.check("a.git", 404);
    std::fs::write(world.root().join("a.git/git-daemon-export-ok"), "").unwrap();
    world.check("a.git", 200);
    world.check("b.git", 404);
    std::fs::remove_file(world.root().join("a.git/git-daemon-export-ok")).unwrap();
    world.check("a.git", 404);
}

#[test]
fn hooks_are_the_repositorys_or_nobodys_or_those_of_a_folder() {
    let hook = |path: &Path, text: &str| {
        let script = format!("#!/bin/sh\necho {text} >>\"$(dirname \"$0\")/../ran\"\n");
        packrace_testkit::write_program(path, &script);
    };
    for (from, own, other, path) in [
        ("repository", true, false, None),
        ("none", false, false, None),
        ("folder", false, true, None),
        ("repository", false, false, Some("../elsewhere")),
        ("repository", true, false, Some("hooks")),
    ] {
        let make = |root: &Path| {
            bare(&root.join("a.git"));
            hook(&root.join("a.git/hooks/post-receive"), "own");
            hook(&root.join("elsewhere/post-receive"), "elsewhere");
            hook(&root.join("../all/hooks/post-receive"), "all");
            if let Some(path) = path {
                git(&root.join("a.git"), &["config", "core.hooksPath", path]);
            }
            work_tree(&root.join("w"));
        };
        let world = World::new(make, |settings, dir| {
            pushing(settings);
            settings.pushing.committer =
                packrace_server::receive::Committer::new(|_, _| Ok(b"A <a@b> 1 +0000".to_vec()));
            settings.rules.hooks = match from {
                "repository" => HooksFrom::Repository,
                "none" => HooksFrom::Nowhere,
                _ => HooksFrom::Dir(dir.join("all/hooks")),
            };
        });
        let url = format!("http://{}/a.git", world.http);
        git(&world.root().join("w"), &["push", "-q", &url, "HEAD:refs/heads/new"]);
        let ran = |path: &str| world.dir.path().join(path).exists();
        let got = (ran("root/a.git/ran"), ran("all/ran"), ran("root/ran"));
        // A folder of hooks outside of the repository is not one that it may name, and none is run then but its own.
        let own = own || path == Some("../elsewhere");
        assert_eq!(got, (own, other, false), "{from} {path:?}");
    }
}

#[test]
fn git_is_not_run_in_a_work_tree_whose_repository_names_programs() {
    let make = |root: &Path| {
        for (name, key) in [("good", "user.name"), ("evil", "filter.x.smudge")] {
            let tree = root.join(name);
            work_tree(&tree);
            git(&tree, &["config", "receive.denyCurrentBranch", "updateInstead"]);
            git(&tree, &["config", key, "touch ../ran; cat"]);
        }
        git(root, &["clone", "-q", "good", "client"]);
        std::fs::write(root.join("client/.gitattributes"), "f filter=x\n").unwrap();
        std::fs::write(root.join("client/f"), "f\n").unwrap();
        git(&root.join("client"), &["add", "."]);
        git(&root.join("client"), &["commit", "-q", "-m", "f"]);
    };
    let world = World::new(make, |settings, _| {
        pushing(settings);
        settings.pushing.committer =
            packrace_server::receive::Committer::new(|_, _| Ok(b"A <a@b> 1 +0000".to_vec()));
    });
    for (name, expect) in [("good", true), ("evil", false)] {
        let branch = git(&world.root().join(name), &["symbolic-ref", "HEAD"]);
        let url = format!("http://{}/{name}", world.http);
        let mut push = Git::stock().command(&world.root().join("client"));
        push.args(["push", "-q", "--force", &url, &format!("HEAD:{}", branch.trim())]);
        let output = push.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), expect, "{name}: {said}");
        assert_eq!(said.contains("updateInstead is not allowed by this server"), !expect, "{said}");
        assert_eq!(world.root().join(name).join("f").exists(), expect);
    }
    assert!(!world.root().join("ran").exists(), "a filter of the repository ran");
}

#[test]
fn pages_in_browsers_get_nothing() {
    let make = |root: &Path| bare(&root.join("a.git"));
    let local = World::new(make, |_, _| {});
    let named = World::new(make, |settings, _| settings.hosts = Hosts::Named(vec!["git.example".to_owned()]));
    let any = World::new(make, |settings, _| settings.hosts = Hosts::Any);
    let routes = ["/a.git/info/refs?service=git-upload-pack", "/-/", "/-/metrics", "/-/healthz"];
    for route in routes {
        let ask = |world: &World, lines: &str| {
            http(world.http, &format!("GET {route} HTTP/1.1{lines}"), b"", Feed::Whole).status
        };
        for (lines, expect) in [
            ("", [200, 200, 200]),
            ("\nHost: localhost:1", [200, 200, 200]),
            ("\nHost: evil.example", [403, 403, 200]),
            ("\nHost: git.example:8417", [403, 200, 200]),
            ("\nHost: 127.0.0.1.evil.example", [403, 403, 200]),
            ("\nHost: localhost\nHost: localhost", [400, 400, 400]),
            ("\nHost: a b", [400, 400, 400]),
            ("\nHost: localhost\nOrigin: http://evil.example", [403, 403, 403]),
            ("\nHost: localhost\nOrigin: null", [403, 403, 403]),
            ("\nHost: localhost:1\nOrigin: http://localhost:1", [200, 200, 200]),
            ("\nSec-Fetch-Site: cross-site", [403, 403, 403]),
            ("\nSec-Fetch-Site: same-site", [403, 403, 403]),
            ("\nSec-Fetch-Site: same-origin", [200, 200, 200]),
            ("\nSec-Fetch-Site: none", [200, 200, 200]),
        ] {
            let got = [&local, &named, &any].map(|world| ask(world, lines));
            assert_eq!(got, expect, "{route} {lines:?}");
        }
        let raw = |text: &str| {
            // Without closing the sending half, by which a client leaves.
            let mut stream = std::net::TcpStream::connect(local.http).unwrap();
            std::io::Write::write_all(&mut stream, text.as_bytes()).unwrap();
            let mut answer = Vec::new();
            std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
            String::from_utf8_lossy(&answer).split(' ').nth(1).map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(raw(&format!("GET {route} HTTP/1.1\r\nConnection: close\r\n\r\n")), "400");
        assert_eq!(raw(&format!("GET {route} HTTP/1.0\r\n\r\n")), "200");
        let target = format!("GET http://evil.example{route} HTTP/1.1\r\nHost: localhost\r\n");
        assert_eq!(raw(&format!("{target}Connection: close\r\n\r\n")), "403");
    }
    let post = "POST /a.git/git-upload-pack HTTP/1.1\nContent-Type: application/x-git-upload-pack-request";
    let post = format!("{post}\nHost: evil.example");
    assert_eq!(http(local.http, &post, b"0000", Feed::Whole).status, 403);
    assert!(local.clones("a.git") && named.clones("a.git"), "git notices nothing");
}
