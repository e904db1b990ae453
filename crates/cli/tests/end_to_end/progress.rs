//! Progress on standard error: the titles and final numbers of stock git.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use packrace_object::HashKind;
use packrace_testkit::{Bitmap, Git, Loose, Repo, RepoBuilder, Size, Storage, clean_environment};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::running::{PACKRACE, assert_no_panic, copy};

/// The kind of standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Pipe,
    Terminal,
}

/// Work that stock git does and shows, and that packrace does not do or does not show.
const ONLY_GIT: [&str; 11] = [
    // One may need a search that the other does not.
    "Delta compression using up to",
    "Compressing objects",
    "Loading known commits in commit graph",
    "Clearing commit marks in commit graph",
    "Finding extra edges in commit graph",
    "Computing commit graph topological levels",
    "Computing commit graph generation numbers",
    "Writing out commit graph in",
    "Scanning merged commits",
    "Sorting objects by packfile",
    // git counts all objects there; packrace counts unreachable ones, and only if there are any.
    "Enumerating cruft objects",
];

/// The reverse.
const ONLY_PACKRACE: [&str; 5] = [
    "Delta compression using up to",
    "Compressing objects",
    "Reading trees for bitmaps",
    "Selecting bitmap commits",
    "Enumerating cruft objects",
];

/// The last state of every line shown.
fn lines(stderr: &str) -> Vec<&str> {
    let shown = stderr.split_terminator('\n').map(|line| line.trim_end_matches('\r'));
    shown.map(|line| line.rsplit('\r').next().unwrap_or_default()).collect()
}

/// Titles whose numbers may differ: the objects tried as deltas, the commits that get a bitmap; and git
/// counts packs that it does not add, and refs of one commit once.
const OWN_NUMBERS: [&str; 4] = [
    "Compressing objects",
    "Building bitmaps",
    "Adding packfiles to multi-pack-index",
    "Collecting referenced commits",
];

/// The part that both must print. Numbers of deltas and speeds are not compared either.
fn comparable(line: &str) -> String {
    let line = line.split(" (delta ").next().unwrap_or_default();
    match line.split_once(':') {
        Some((title, _)) if OWN_NUMBERS.contains(&title) => title.to_owned(),
        Some(_) if line.contains(" | ") => {
            let (counts, rest) = line.split_once(", ").expect("sizes come behind a comma");
            assert!(rest.contains("iB/s, done.") || rest.contains("bytes/s, done."), "{line}");
            format!("{counts}, done.")
        }
        _ => line.to_owned(),
    }
}

/// What `program` prints to standard error, run on a copy of `repo`.
fn said(program: &str, repo: &Path, args: &[&str], input: impl AsRef<[u8]>, to: To, delay: &str) -> String {
    let dir = packrace_testkit::scratch_dir();
    let path = dir.path().join("r");
    copy(repo, &path);
    let mut command = Command::new(program);
    clean_environment(&mut command);
    if program != PACKRACE {
        command = Git::stock().command(&path);
    }
    command.current_dir(&path).args(args).env("GIT_PROGRESS_DELAY", delay);
    std::fs::write(dir.path().join("input"), input).unwrap();
    command.stdin(File::open(dir.path().join("input")).unwrap()).stdout(Stdio::null());
    match to {
        To::Pipe => {
            let output = command.stderr(Stdio::piped()).output().unwrap();
            String::from_utf8(output.stderr).unwrap()
        }
        To::Terminal => {
            let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&terminal).unwrap();
            unlockpt(&terminal).unwrap();
            let name = ptsname(&terminal, Vec::new()).unwrap();
            let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
            let mut child = command.stderr(side).spawn().unwrap();
            drop(command);
            let mut text = Vec::new();
            // When the other side is closed, reading ends in an error.
            let _ = File::from(terminal).read_to_end(&mut text);
            child.wait().unwrap();
            String::from_utf8(text).unwrap()
        }
    }
}

/// Both print the same for the same work, except for the delta search; returns what packrace prints.
fn check(repo: &Path, args: &[&str], input: impl AsRef<[u8]>, to: To) -> Vec<String> {
    check_but(repo, args, input, to, &ONLY_GIT, &ONLY_PACKRACE)
}

/// The same, without these lines.
fn check_but(
    repo: &Path,
    args: &[&str],
    input: impl AsRef<[u8]>,
    to: To,
    only_git: &[&str],
    only_packrace: &[&str],
) -> Vec<String> {
    let [git, packrace] = ["git", PACKRACE].map(|program| said(program, repo, args, &input, to, "0"));
    assert_no_panic(&packrace);
    let without = |text: &str, left_out: &[&str]| -> Vec<String> {
        let lines = lines(text).into_iter();
        lines.filter(|line| !left_out.iter().any(|out| line.starts_with(out))).map(comparable).collect()
    };
    assert_eq!(without(&packrace, only_packrace), without(&git, only_git), "{args:?} to {to:?}: {packrace}");
    lines(&packrace).into_iter().map(str::to_owned).collect()
}

fn repo(hash: HashKind, storage: Storage) -> Repo {
    RepoBuilder::new(Size::Tiny).hash(hash).storage(storage).build()
}

/// Four packs and many loose objects.
fn untidy() -> Repo {
    repo(HashKind::Sha1, Storage { packs: 5, loose: Loose::Newest, ..Storage::default() })
}

#[test]
fn pack_objects() {
    let repo = untidy();
    let all = |options: &[&str]| -> Vec<String> {
        let args = [&["pack-objects", "--all"], options].concat();
        check_but(repo.path(), &args, "", To::Pipe, &[], &[])
    };
    let shown = all(&["--progress", "x"]);
    assert!(shown[0].starts_with("Enumerating objects: ") && shown[0].ends_with(", done."), "{shown:?}");
    assert!(shown.last().unwrap().starts_with("Total "), "{shown:?}");
    all(&["--progress", "--stdout"]);
    all(&["--all-progress", "--stdout"]);
    all(&["--progress", "--all-progress-implied", "--stdout"]);
    all(&["-q", "--progress", "--stdout"]);
    all(&["--no-progress", "--progress", "x"]);
    all(&["--threads=1", "--progress", "x"]);
    for silent in [
        &["x"][..],
        &["--all-progress-implied", "x"],
        &["--progress", "-q", "x"],
        &["--progress", "--no-progress", "--stdout"],
        &["--all-progress", "-q", "--stdout"],
    ] {
        assert_eq!(all(silent), [""; 0], "{silent:?}");
    }
    for to_terminal in [&["x"][..], &["-q", "x"], &["--no-progress", "x"], &["--all-progress-implied", "x"]] {
        check(repo.path(), &[&["pack-objects", "--all"], to_terminal].concat(), "", To::Terminal);
    }
}

#[test]
fn pack_objects_of_nothing_and_of_little() {
    let repo = untidy();
    check(repo.path(), &["pack-objects", "--revs", "--progress", "--stdout"], "", To::Pipe);
    let list = repo.git(&["rev-parse", "main", "main^{tree}"]);
    check(repo.path(), &["pack-objects", "--progress", "x"], &list, To::Pipe);
    check(repo.path(), &["pack-objects", "--revs", "--progress", "--stdout"], "main\n^main~3\n", To::Pipe);
}

#[test]
fn multi_pack_index() {
    let repo = untidy();
    for to in [To::Pipe, To::Terminal] {
        check(repo.path(), &["multi-pack-index", "write"], "", to);
        check(repo.path(), &["multi-pack-index", "write", "--no-progress"], "", to);
    }
    let shown = check(repo.path(), &["multi-pack-index", "write", "--progress"], "", To::Pipe);
    assert_eq!(shown, ["Adding packfiles to multi-pack-index: 4, done."]);
    repo.git(&["multi-pack-index", "write"]);
    for command in ["verify", "expire", "repack"] {
        let shown = check(repo.path(), &["multi-pack-index", command, "--progress"], "", To::Pipe);
        assert!(!shown.is_empty());
        check(repo.path(), &["multi-pack-index", command], "", To::Pipe);
    }
    repo.git(&["multi-pack-index", "repack"]);
    check(repo.path(), &["multi-pack-index", "expire", "--progress"], "", To::Pipe);
    let packed = self::repo(HashKind::Sha256, Storage { packs: 3, ..Storage::default() });
    let shown = check(packed.path(), &["multi-pack-index", "write", "--bitmap", "--progress"], "", To::Pipe);
    assert!(shown.iter().any(|line| line.starts_with("Building bitmaps: 100%")), "{shown:?}");
}

#[test]
fn commit_graph() {
    let repo = repo(HashKind::Sha1, Storage { packs: 3, ..Storage::default() });
    let write = |options: &[&str], input: &str| {
        let args = [&["commit-graph", "write", "--progress"], options].concat();
        check(repo.path(), &args, input, To::Pipe)
    };
    assert!(write(&[], "").len() >= 2);
    assert!(write(&["--reachable"], "").len() >= 2);
    write(&["--split", "--reachable"], "");
    write(&["--stdin-commits"], &repo.git(&["rev-parse", "main", "main~3"]));
    let names = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".idx")).collect();
    names.sort();
    write(&["--stdin-packs"], &format!("{}\n", names[0]));
    write(&["--stdin-packs"], &format!("{}\n", names.join("\n")));
    repo.git(&["commit-graph", "write", "--reachable"]);
    for to in [To::Pipe, To::Terminal] {
        check(repo.path(), &["commit-graph", "verify"], "", to);
        check(repo.path(), &["commit-graph", "verify", "--progress"], "", to);
        check(repo.path(), &["commit-graph", "verify", "--no-progress"], "", to);
        check(repo.path(), &["commit-graph", "write", "--reachable"], "", to);
    }
}

#[test]
fn repack() {
    let repo = untidy();
    let tips = repo.git(&["rev-parse", "main"]);
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    let unreachable = ["commit-tree", tree.trim(), "-p", tips.trim(), "-m", "nobody knows"];
    repo.git(&unreachable);
    for args in [
        &["repack"][..],
        &["repack", "-d"],
        &["repack", "-ad"],
        &["repack", "-adf"],
        &["repack", "-ad", "--write-midx", "-b"],
        &["repack", "-Ad"],
        &["repack", "-adq"],
    ] {
        let shown = check(repo.path(), args, "", To::Terminal);
        assert_eq!(shown.is_empty(), args.contains(&"-adq"), "{args:?}");
        assert_eq!(check(repo.path(), args, "", To::Pipe), [""; 0], "{args:?}");
    }
    // Git counts a packed object that is loose, too, twice.
    let [only_git, only_packrace] =
        [&ONLY_GIT[..], &ONLY_PACKRACE].map(|lines| [lines, &["Enumerating objects"]].concat());
    let geometric = ["repack", "-d", "--geometric=2", "--write-midx"];
    check_but(repo.path(), &geometric, "", To::Terminal, &only_git, &only_packrace);
    let bitmapped = self::repo(HashKind::Sha1, Storage { bitmap: Bitmap::Plain, ..Storage::default() });
    check(bitmapped.path(), &["repack", "-ad"], "", To::Terminal);
}

/// Unreachable objects get a pack, which has lines of its own.
#[test]
fn repack_with_cruft() {
    let repo = repo(HashKind::Sha1, Storage::default());
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    repo.git(&["commit-tree", tree.trim(), "-m", "nobody knows"]);
    let shown = check(repo.path(), &["repack", "-d", "--cruft"], "", To::Terminal);
    assert!(shown.contains(&"Enumerating cruft objects: 1, done.".to_owned()), "{shown:?}");
    assert_eq!(shown.iter().filter(|line| line.starts_with("Total ")).count(), 2);
}

#[test]
fn index_pack() {
    let repo = repo(HashKind::Sha1, Storage::default());
    let names = std::fs::read_dir(repo.path().join("objects/pack")).unwrap();
    let mut packs =
        names.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "pack");
    let pack = packs.next().unwrap();
    let content = std::fs::read(&pack).unwrap();
    let from_file = |options: &[&str]| {
        let args = [&["index-pack", "-o", "x.idx"], options, &[pack.to_str().unwrap()]].concat();
        check(repo.path(), &args, "", To::Pipe)
    };
    let from_stdin = |options: &[&str]| {
        check(repo.path(), &[&["index-pack", "--stdin"], options].concat(), &content, To::Pipe)
    };
    for run in [&from_file as &dyn Fn(&[&str]) -> Vec<String>, &from_stdin] {
        assert_eq!(run(&[]), [""; 0]);
        assert_eq!(run(&["--progress-title", "Taking"]), [""; 0]);
        let [plain, titled] = [run(&["-v"]), run(&["-v", "--progress-title", "Taking them"])];
        assert!(plain[0].ends_with("done.") && plain[1].starts_with("Resolving deltas: 100%"), "{plain:?}");
        assert!(titled[0].starts_with("Taking them: 100%"), "{titled:?}");
        assert_eq!(run(&["--show-resolving-progress"]).len(), 1);
        assert_eq!(run(&["-v", "--show-resolving-progress"]).len(), 2);
    }
}

/// Progress of usually short work is shown if it lasts longer than `GIT_PROGRESS_DELAY`.
#[test]
fn delay() {
    let repo = untidy();
    let write = ["multi-pack-index", "write", "--progress"];
    for program in ["git", PACKRACE] {
        assert_eq!(said(program, repo.path(), &write, "", To::Pipe, "100"), "", "{program}");
        assert_ne!(said(program, repo.path(), &write, "", To::Pipe, "0"), "", "{program}");
        let expect = "fatal: failed to parse GIT_PROGRESS_DELAY\n";
        assert_eq!(said(program, repo.path(), &write, "", To::Pipe, "x"), expect, "{program}");
    }
}
