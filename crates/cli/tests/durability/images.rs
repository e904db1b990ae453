//! Real file systems: ext4 in an image file, which is copied right after a command reported success. The copy
//! is what a power cut would leave; the kernel replays its journal, and stock git inspects it. A second copy
//! is made once another program has synced a file of its own: the journal then has all names, but not the
//! unsynced contents behind them.
//!
//! Needs root, loop devices and `mkfs.ext4`: `cargo test -p packrace --test durability images -- --ignored`.
//! `PACKRACE_TRIED` names another binary to test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{PACKRACE, ask_git, git};

/// Existing refs of the repository that receives pushes.
const OLD_REFS: usize = 2_000;

/// New refs: enough to go into `packed-refs`.
const NEW_REFS: usize = 40;

/// How long the journal may hold back unsynced changes: longer than a case takes.
const MOUNT: &str = "loop,commit=600";

/// Delayed allocation, with and without ext4's heuristics for renames; and no delayed allocation.
const OPTIONS: [&str; 3] = ["", ",noauto_da_alloc", ",nodelalloc"];

struct Case {
    name: &'static str,
    prepare: fn(&Path),
    run: fn(&Path) -> Output,
    /// Checks the result; the error says what is wrong.
    check: fn(&Path) -> Result<(), String>,
}

const CASES: [Case; 13] = [
    Case {
        name: "push of many new refs",
        prepare: |top| prepare_server(top, "files"),
        run: |top| push(top, NEW_REFS),
        check: |top| check_refs(top, NEW_REFS),
    },
    Case {
        name: "push of one new ref",
        prepare: |top| prepare_server(top, "files"),
        run: |top| push(top, 1),
        check: |top| check_refs(top, 1),
    },
    Case {
        name: "push to reftables",
        prepare: |top| prepare_server(top, "reftable"),
        run: |top| push(top, 2),
        check: |top| check_refs(top, 2),
    },
    Case {
        name: "pack-refs",
        prepare: |top| {
            prepare_server(top, "files");
            let server = top.join("srv.git");
            let input: String =
                (0..NEW_REFS).map(|number| format!("create {} main\n", new_ref(number))).collect();
            packrace_testkit::Git::stock().run_with_input(
                &server,
                &["update-ref", "--stdin"],
                input.as_bytes(),
            );
        },
        run: |top| tried(&top.join("srv.git"), &["pack-refs", "--all"]),
        check: |top| check_refs(top, NEW_REFS),
    },
    Case {
        name: "update-ref of a ref that was there",
        prepare: |top| prepare_server(top, "files"),
        run: |top| tried(&top.join("srv.git"), &["update-ref", "refs/heads/old/7", "main~1"]),
        check: |top| {
            check_refs(top, 0)?;
            let ids = said(&top.join("srv.git"), &["rev-parse", "old/7", "main~1"])?;
            let (is, expect) = ids.split_once('\n').unwrap_or_default();
            if is == expect.trim() { Ok(()) } else { Err("the old value is back".into()) }
        },
    },
    Case {
        name: "update-ref among reftables",
        prepare: |top| prepare_server(top, "reftable"),
        run: |top| tried(&top.join("srv.git"), &["update-ref", &new_ref(0), "main"]),
        check: |top| check_refs(top, 1),
    },
    Case {
        name: "symbolic-ref",
        prepare: |top| prepare_server(top, "files"),
        run: |top| tried(&top.join("srv.git"), &["symbolic-ref", "HEAD", "refs/heads/old/1"]),
        check: |top| {
            check_refs(top, 0)?;
            let head = said(&top.join("srv.git"), &["symbolic-ref", "HEAD"])?;
            if head.trim() == "refs/heads/old/1" { Ok(()) } else { Err(head) }
        },
    },
    Case { name: "init", prepare: |_| {}, run: |top| init(top, "files"), check: check_made },
    Case {
        name: "init with reftables",
        prepare: |_| {},
        run: |top| init(top, "reftable"),
        check: check_made,
    },
    Case {
        name: "add of 1",
        prepare: |top| prepare_work(top, 1),
        run: add,
        check: |top| check_added(top, 1),
    },
    Case {
        name: "add of 5",
        prepare: |top| prepare_work(top, 5),
        run: add,
        check: |top| check_added(top, 5),
    },
    Case {
        name: "add of 50",
        prepare: |top| prepare_work(top, 50),
        run: add,
        check: |top| check_added(top, 50),
    },
    Case {
        name: "stash of 1",
        prepare: |top| prepare_work(top, 1),
        run: |top| tried(&top.join("work"), &["stash", "push", "-u"]),
        check: |top| {
            said(&top.join("work"), &["fsck", "--full", "--strict", "--no-dangling"])?;
            let list = said(&top.join("work"), &["stash", "list"])?;
            let tracked = said(&top.join("work"), &["show", "stash:tracked"])?;
            let new = said(&top.join("work"), &["show", "stash^3:new-0"])?;
            match (list.lines().count(), tracked.as_str(), new.as_str()) {
                (1, "changed\n", "new 0\n") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    },
];

fn init(top: &Path, format: &str) -> Output {
    let format = format!("--ref-format={format}");
    tried(top, &["init", "-q", "--bare", "-b", "main", &format, "new.git"])
}

fn check_made(top: &Path) -> Result<(), String> {
    let head = match top.join("new.git").is_dir() {
        true => said(&top.join("new.git"), &["symbolic-ref", "HEAD"])?,
        false => "no directory".to_owned(),
    };
    if head == "refs/heads/main\n" { Ok(()) } else { Err(head) }
}

/// The binary under test.
fn binary() -> PathBuf {
    std::env::var_os("PACKRACE_TRIED").map_or(PACKRACE.into(), PathBuf::from)
}

fn tried(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    packrace_testkit::clean_environment(&mut command);
    command.current_dir(dir).args(args).output().unwrap()
}

/// The output of stock git, if it finds nothing wrong.
fn said(dir: &Path, args: &[&str]) -> Result<String, String> {
    let output = ask_git(dir, args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() && errors.is_empty() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("git {}: {errors:.300}", args.join(" "))),
    }
}

fn new_ref(number: usize) -> String {
    format!("refs/heads/new/{number}")
}

/// `srv.git` with two commits and many refs, and `src`, which has one more commit.
fn prepare_server(top: &Path, format: &str) {
    git(top, &["init", "-q", "-b", "main", "--template=", "src"]);
    let src = top.join("src");
    for round in 0..2 {
        std::fs::write(src.join("file"), format!("{round}\n")).unwrap();
        git(&src, &["add", "."]);
        git(&src, &["commit", "-q", "-m", "some"]);
    }
    let format = format!("--ref-format={format}");
    git(top, &["init", "-q", "--bare", "-b", "main", "--template=", &format, "srv.git"]);
    git(&src, &["push", "-q", "../srv.git", "main"]);
    let input: String =
        (0..OLD_REFS).map(|number| format!("create refs/heads/old/{number} main\n")).collect();
    let server = top.join("srv.git");
    packrace_testkit::Git::stock().run_with_input(&server, &["update-ref", "--stdin"], input.as_bytes());
    git(&server, &["pack-refs", "--all"]);
    std::fs::write(src.join("file"), "2\n").unwrap();
    git(&src, &["commit", "-q", "-a", "-m", "new"]);
}

fn push(top: &Path, refs: usize) -> Output {
    let receiver = format!("--receive-pack={} receive-pack", binary().display());
    let specs: Vec<String> = (0..refs).map(|number| format!("main:{}", new_ref(number))).collect();
    let mut args = vec!["push", "-q", &receiver, "../srv.git"];
    args.extend(specs.iter().map(String::as_str));
    ask_git(&top.join("src"), &args)
}

/// Checks that all old refs exist, and this many new ones, and that nothing is broken.
fn check_refs(top: &Path, new: usize) -> Result<(), String> {
    let server = top.join("srv.git");
    let count = |pattern: &str| Ok::<_, String>(said(&server, &["for-each-ref", pattern])?.lines().count());
    let found = (count("refs/heads/old")?, count("refs/heads/new")?);
    if found != (OLD_REFS, new) {
        return Err(format!("{} old refs and {} new ones", found.0, found.1));
    }
    said(&server, &["fsck", "--full", "--strict", "--no-dangling"]).map(drop)
}

/// A work tree with a commit, a changed file, and this many new files.
fn prepare_work(top: &Path, files: usize) {
    git(top, &["init", "-q", "-b", "main", "--template=", "work"]);
    let work = top.join("work");
    std::fs::write(work.join("tracked"), "before\n").unwrap();
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "some"]);
    std::fs::write(work.join("tracked"), "changed\n").unwrap();
    for number in 0..files {
        std::fs::write(work.join(format!("new-{number}")), format!("new {number}\n")).unwrap();
    }
}

/// Adds the new files, but not the changed one.
fn add(top: &Path) -> Output {
    let work = top.join("work");
    let names: Vec<String> = std::fs::read_dir(&work)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("new-"))
        .collect();
    tried(&work, &[&["add"][..], &names.iter().map(String::as_str).collect::<Vec<_>>()].concat())
}

fn check_added(top: &Path, files: usize) -> Result<(), String> {
    let work = top.join("work");
    let listed = said(&work, &["ls-files"])?;
    said(&work, &["write-tree"])?;
    said(&work, &["fsck", "--full", "--strict", "--no-dangling"])?;
    for number in 0..files {
        let content = said(&work, &["show", &format!(":new-{number}")])?;
        if content != format!("new {number}\n") {
            return Err(format!("new-{number} is {content:?}"));
        }
    }
    match listed.lines().count() {
        found if found == files + 1 => Ok(()),
        found => Err(format!("{found} files in the index")),
    }
}

fn system(program: &str, args: &[&str]) {
    let output =
        Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
}

/// A mounted image.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: &Path, options: &str) -> Self {
        let options = format!("{MOUNT}{options}");
        system("mount", &["-o", &options, image.to_str().unwrap(), at.to_str().unwrap()]);
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

/// What is wrong after a power cut right after success.
fn check_case(case: &Case, options: &str) -> Result<(), String> {
    let dir = packrace_testkit::scratch_dir();
    let [image, first, second, place] =
        ["image", "first", "second", "place"].map(|name| dir.path().join(name));
    std::fs::create_dir(&place).unwrap();
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    system("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
    let mounted = Mounted::new(&image, &place, options);
    (case.prepare)(&place);
    system("sync", &["-f", place.to_str().unwrap()]);
    let output = (case.run)(&place);
    std::fs::copy(&image, &first).unwrap();
    std::fs::File::create(place.join("other")).and_then(|file| file.sync_all()).unwrap();
    std::fs::copy(&image, &second).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", case.name);
    assert_eq!((case.check)(&place), Ok(()), "{}", case.name);
    drop(mounted);
    let mut faults = Vec::new();
    for (copy, when) in [(first, "right behind success"), (second, "behind another's sync")] {
        let _mounted = Mounted::new(&copy, &place, options);
        faults.extend((case.check)(&place).err().map(|words| format!("{when}: {words}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

#[test]
#[ignore = "needs root, loop devices and mkfs.ext4"]
fn images() {
    let mut faults = Vec::new();
    for options in OPTIONS {
        for case in &CASES {
            let result = check_case(case, options);
            println!("{}{options}: {result:?}", case.name);
            faults.extend(result.err().map(|words| format!("{}{options}: {words}", case.name)));
        }
    }
    assert_eq!(faults, [""; 0]);
}
