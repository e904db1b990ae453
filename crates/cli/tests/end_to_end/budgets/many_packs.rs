//! How much is opened of very many packs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_testkit::handmade::{HandmadeEntry, HandmadePack};
use packrace_testkit::peer::{self, Feed, Script};
use packrace_testkit::received::{fetch_answer, objects_in_pack};
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};

use super::receiving::{Report, counted};
use crate::running::{PACKRACE, upload_pack};

const PACKS: u64 = 1000;

/// The packs that a push or fetch of one commit reads: those of the newest commits.
const READ: u64 = 4;

/// Limit of open file descriptors.
const DESCRIPTORS: u64 = 24;

/// A branch whose commits arrived in one pack each, with the files that git writes beside them.
fn in_packs(root: &Path) -> PathBuf {
    let path = root.join("repo.git");
    Git::stock().run(root, &["init", "-q", "--bare", "--initial-branch=main", path.to_str().unwrap()]);
    let mut stream = String::new();
    for number in 0..PACKS {
        writeln!(
            stream,
            "commit refs/heads/main\ncommitter A U Thor <a@example.com> {} +0000",
            1_000_000 + number
        )
        .unwrap();
        writeln!(
            stream,
            "data <<.\n{number}\n.\nM 100644 inline file\ndata <<.\ncontent {number}\n.\n\ncheckpoint\n"
        )
        .unwrap();
    }
    let settings = ["-c", "fastimport.unpackLimit=0", "-c", "core.fsync=none"];
    let arguments = [&settings[..], &["fast-import", "--quiet"]].concat();
    Git::stock().run_with_input(&path, &arguments, stream.as_bytes());
    Git::stock().run(&path, &["pack-refs", "--all"]);
    Git::stock().run(&path, &["config", "receive.autogc", "false"]);
    let packs = std::fs::read_dir(path.join("objects/pack")).unwrap();
    let is_pack = |path: &Path| path.extension().is_some_and(|extension| extension == "pack");
    assert_eq!(packs.filter(|entry| is_pack(&entry.as_ref().unwrap().path())).count() as u64, PACKS);
    path
}

fn upload_counted(repo: &Path, script: &Script) -> (Vec<u8>, Report) {
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = upload_pack(repo, 2);
    command.env("PACKRACE_IO_REPORT", report.path());
    let reply = peer::stdio(&mut command, script.bytes(), Feed::Whole);
    assert!(reply.status.success(), "{}", reply.stderr);
    (reply.stdout, Report(std::fs::read_to_string(report.path()).unwrap()))
}

/// A push of one commit to the branch, and the commit.
fn push(repo: &Path) -> (Vec<u8>, ObjectId) {
    let git = |revision| Git::stock().run(repo, &["rev-parse", revision]).trim().to_owned();
    let (old, tree) = (git("main"), git("main^{tree}"));
    let who = "A U Thor <a@example.com> 2000000 +0000";
    let content = format!("tree {tree}\nparent {old}\nauthor {who}\ncommitter {who}\n\npushed\n");
    let id = object_id(HashKind::Sha1, Kind::Commit, content.as_bytes()).unwrap();
    let mut pack = HandmadePack::default();
    pack.entry(&id, HandmadeEntry::Whole(Kind::Commit), content.len() as u64, content.as_bytes());
    let command = format!("{old} {id} refs/heads/main\0 report-status agent=test");
    (Script::new().data(command.as_bytes()).flush().raw(&pack.sealed()).bytes().to_vec(), id)
}

#[test]
fn of_very_many_packs_only_what_is_needed_is_opened() {
    let folder = packrace_testkit::scratch_dir();
    let repo = in_packs(folder.path());
    let listing = Script::new().line("command=ls-refs").line("object-format=sha1").delim();
    let listing = listing.line("peel").line("symrefs").flush().flush();
    let (answer, report) = upload_counted(&repo, &listing);
    assert!(String::from_utf8_lossy(&answer).contains(" refs/heads/main\n"));
    assert_eq!((report.calls("index", "map"), report.calls("pack", "map")), (0, 0), "{}", report.0);
    // Nor is each pack examined.
    assert!(report.all("look") <= 100, "{}", report.0);

    // The newest packs are searched first, and the others are not.
    let [want, have] = ["main", "main~1"].map(|name| Git::stock().run(&repo, &["rev-parse", name]));
    let fetch = Script::new().fetch_v2("sha1", &[want.trim()], &[have.trim()]).flush();
    let (answer, report) = upload_counted(&repo, &fetch);
    assert!(fetch_answer(&answer).unwrap().bands.pack.starts_with(b"PACK"));
    assert!(report.calls("index", "map") <= 4 * READ, "{}", report.0);
    assert!(report.calls("pack", "map") <= 4 * READ, "{}", report.0);

    let (request, commit) = push(&repo);
    let (reply, report) = counted(&repo, &["receive-pack", "."], &request);
    assert!(String::from_utf8_lossy(&reply.stdout).contains("ok refs/heads/main"), "{:?}", reply.stdout);
    assert_eq!(Git::stock().run(&repo, &["rev-parse", "main"]).trim(), commit.to_string());
    // Each index once, and that of the new pack.
    assert!((PACKS..=PACKS + 2).contains(&report.calls("index", "map")), "{}", report.0);
    assert!(report.calls("pack", "map") <= READ + 1, "{}", report.0);
    // Two per pack to list the packs, and some; twice, if the folder was so young that a change might not
    // show.
    assert!(report.all("look") <= 4 * PACKS + 200, "{}", report.0);

    let have = Git::stock().run(&repo, &["rev-parse", "main~2"]);
    let fetch = Script::new().fetch_v2("sha1", &[&commit.to_string()], &[have.trim()]).flush();
    let (answer, report) = upload_counted(&repo, &fetch);
    assert!(fetch_answer(&answer).unwrap().bands.pack.starts_with(b"PACK"));
    // The pushed objects are loose, and packs are searched first.
    assert!(report.calls("index", "map") <= PACKS, "{}", report.0);
    assert!(report.calls("pack", "map") <= 4 * READ, "{}", report.0);

    // With a multi-pack-index, only the indexes of the packs that are read.
    Git::stock().run(&repo, &["multi-pack-index", "write"]);
    let (answer, report) = upload_counted(&repo, &fetch);
    assert!(fetch_answer(&answer).unwrap().bands.pack.starts_with(b"PACK"));
    assert!(report.calls("index", "map") <= 4 * READ + 1, "{}", report.0);

    // A clone reads every pack, with few descriptors.
    let clone = Script::new().fetch_v2("sha1", &[&commit.to_string()], &[]).flush();
    let script = format!("ulimit -n {DESCRIPTORS} && exec \"$0\" upload-pack \"$1\"");
    let mut command = Command::new("sh");
    clean_environment(&mut command);
    command.args(["-c", &script, PACKRACE]).arg(&repo).env("GIT_PROTOCOL", "version=2");
    let reply = peer::stdio(&mut command, clone.bytes(), Feed::Whole);
    let pack = fetch_answer(&reply.stdout).unwrap_or_else(|why| panic!("{why}: {}", reply.stderr)).bands.pack;
    let objects = objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None);
    let all = Git::stock().run(&repo, &["rev-list", "--objects", "--no-object-names", "main"]);
    assert_eq!(objects.len(), all.lines().count());
}

/// At most two calls for each of the 256 folders of loose objects.
#[test]
fn shallow_commits_that_are_not_here_cost_no_look_each() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let main = repo.git(&["rev-parse", "main"]);
    let looks = |unknown: u64| {
        let mut script = Script::new().line("command=fetch").line("object-format=sha1").delim();
        script = script.line(&format!("want {}", main.trim()));
        for number in 0..unknown {
            let content = number.to_string();
            let id = object_id(HashKind::Sha1, Kind::Blob, content.as_bytes()).unwrap();
            script = script.line(&format!("shallow {id}"));
        }
        let (_, report) = upload_counted(repo.path(), &script.line("done").flush());
        report.all("look") + report.all("list")
    };
    let (none, many) = (looks(0), looks(3000));
    assert!(many <= none + 2 * 256, "{many} calls, without such commits {none}");
}
