use std::ops::ControlFlow;
use std::path::Path;

use packrace_object::HashKind;
use packrace_testkit::Git;

use super::*;

const LINE: &str = "--format=%(refname) %(objectname) %(*objectname) %(symref)";
const BOTH: [Backend; 2] = [Backend::Files, Backend::Reftable];
const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

struct Repo {
    dir: tempfile::TempDir,
    backend: Backend,
    hash: HashKind,
}

impl Repo {
    /// One commit, a tag of it, and a tag of that tag.
    fn new(backend: Backend, hash: HashKind) -> Repo {
        let repo = Repo { dir: packrace_testkit::scratch_dir(), backend, hash };
        let object_format = format!("--object-format={hash}");
        let ref_format = match backend {
            Backend::Files => "--ref-format=files",
            Backend::Reftable => "--ref-format=reftable",
        };
        repo.git(&[
            "init",
            "--quiet",
            "--bare",
            "-b",
            "main",
            "--template=",
            &object_format,
            ref_format,
            ".",
        ]);
        let tree = repo.git_with_input(&["mktree"], "");
        let commit = repo.git(&["commit-tree", tree.trim(), "-m", "one"]);
        repo.git(&["update-ref", "refs/heads/main", commit.trim()]);
        repo.git(&["tag", "-a", "-m", "a tag", "inner"]);
        repo.git(&["tag", "-a", "-m", "a tag of a tag", "outer", "inner"]);
        repo
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn git(&self, args: &[&str]) -> String {
        Git::stock().run(self.path(), args)
    }

    fn git_with_input(&self, args: &[&str], input: &str) -> String {
        String::from_utf8(Git::stock().run_with_input(self.path(), args, input.as_bytes())).unwrap()
    }

    /// A write without compaction of tables.
    fn git_stacked(&self, args: &[&str]) {
        let mut command = Git::stock().command(self.path());
        command.env("GIT_TEST_REFTABLE_AUTOCOMPACTION", "false").args(args);
        assert!(command.status().unwrap().success(), "{args:?}");
    }

    fn id(&self, name: &str) -> String {
        self.git(&["rev-parse", name]).trim().to_owned()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn store(&self) -> RefStore {
        RefStore::open(self.path().into(), self.path().into(), self.backend, self.hash)
    }

    fn snapshot(&self, prefixes: &[&str]) -> RefSnapshot {
        self.try_snapshot(prefixes).unwrap()
    }

    fn try_snapshot(&self, prefixes: &[&str]) -> Result<RefSnapshot, RefError> {
        let prefixes: Vec<&[u8]> = prefixes.iter().map(|prefix| prefix.as_bytes()).collect();
        self.store().snapshot(&prefixes)
    }

    /// Compares everything below the prefixes with git's listing.
    fn check(&self) {
        check(&self.store(), self.path());
    }
}

/// Names below a prefix.
fn names(refs: &RefSnapshot, prefix: &str) -> Result<Vec<String>, RefError> {
    let mut names = Vec::new();
    refs.visit(prefix.as_bytes(), &mut |record| {
        names.push(String::from_utf8_lossy(record.name).into_owned());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

/// As git prints it with [`LINE`], if the snapshot knows the tagged object; `None` for a dangling
/// symbolic ref.
fn line(refs: &RefSnapshot, record: RefRecord<'_>, peeled_by_git: &str) -> Option<String> {
    let name = String::from_utf8_lossy(record.name);
    Some(match record.target {
        Target::Direct { id, peeled: Peeled::Unknown } => format!("{name} {id} {peeled_by_git} "),
        Target::Direct { id, peeled: Peeled::NotATag } => format!("{name} {id}  "),
        Target::Direct { id, peeled: Peeled::To(peeled) } => format!("{name} {id} {peeled} "),
        Target::Symbolic(_) => {
            let Resolved { name: last, id } = refs.resolve(record.name).unwrap()?;
            format!("{name} {id} {peeled_by_git} {}", String::from_utf8_lossy(&last))
        }
    })
}

fn check(store: &RefStore, dir: &Path) {
    let listing = Git::stock().run(dir, &["for-each-ref", LINE]);
    let head = Git::stock().run(dir, &["rev-parse", "HEAD"]);
    for prefix in ["refs/", "refs/tags/", "refs/heads/ma", "refs/tags/v1", "refs/worktree/", "refs/none/", ""]
    {
        let refs = store.snapshot(&[prefix.as_bytes()]).unwrap();
        let expect: Vec<&str> = listing.lines().filter(|line| line.starts_with(prefix)).collect();
        let mut found = Vec::new();
        refs.visit(prefix.as_bytes(), &mut |record| {
            let peeled = expect.get(found.len()).and_then(|line| line.split(' ').nth(2)).unwrap_or_default();
            found.extend(line(&refs, record, peeled));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, expect, "{prefix:?}");
        for line in expect {
            let mut words = line.split(' ');
            let (name, id) = (words.next().unwrap(), words.next().unwrap());
            let resolved = refs.resolve(name.as_bytes()).unwrap().unwrap();
            assert_eq!(resolved.id.to_string(), id);
            assert!(refs.find(name.as_bytes()).unwrap().is_some());
            let absent = format!("{name}0absent");
            assert_eq!(refs.find(absent.as_bytes()).unwrap(), None);
        }
        assert_eq!(refs.resolve(b"HEAD").unwrap().unwrap().id.to_string(), head.trim());
    }
    let mut visited = 0;
    let refs = store.snapshot(&[]).unwrap();
    refs.visit(b"refs/", &mut |_| {
        visited += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(visited, 1);
}

#[test]
fn refs_are_those_that_git_lists() {
    for backend in BOTH {
        for hash in HASHES {
            let repo = Repo::new(backend, hash);
            repo.check();
            let (commit, tag) = (repo.id("main"), repo.id("outer"));
            let mut commands = String::new();
            let count = if backend == Backend::Files { 200 } else { 1700 };
            for n in 0..count {
                commands += &format!(
                    "create refs/tags/v{n} {tag}\ncreate refs/changes/{}/{n}/head {commit}\n",
                    n % 13
                );
            }
            repo.git_with_input(&["update-ref", "--stdin"], &commands);
            repo.git(&["symbolic-ref", "refs/heads/link", "refs/tags/v7"]);
            repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nothing"]);
            repo.check();
            repo.git(&["pack-refs", "--all"]);
            repo.check();
            // Newer than the packed refs: changed, new, deleted and recreated.
            repo.git_stacked(&["update-ref", "refs/tags/v8", &commit]);
            repo.git_stacked(&["update-ref", "-d", "refs/tags/v9"]);
            repo.git_stacked(&["update-ref", "-d", "refs/tags/v10"]);
            repo.git_stacked(&["update-ref", "-d", "refs/changes/0/0/head"]);
            repo.git_stacked(&["update-ref", "refs/changes/0/00/head", &commit]);
            repo.git_stacked(&["update-ref", "refs/tags/v10", &repo.id("inner")]);
            repo.git_stacked(&["symbolic-ref", "refs/tags/v11", "refs/heads/main"]);
            repo.git_stacked(&["update-ref", "-d", "refs/tags/v99"]);
            repo.git_stacked(&["update-ref", "refs/zzz/last", &commit]);
            repo.check();
            let refs = repo.snapshot(&[]);
            assert_eq!(refs.find(b"refs/tags/v9").unwrap(), None);
            repo.git(&["pack-refs", "--all"]);
            repo.check();
            // The snapshot is unchanged.
            assert!(refs.find(b"refs/tags/v8").unwrap().is_some());
        }
    }
}

#[test]
fn work_trees_have_refs_of_their_own() {
    for backend in BOTH {
        let repo = Repo::new(backend, HashKind::Sha1);
        let tree = repo.path().join("tree");
        repo.git(&["worktree", "add", "--quiet", "-b", "other", tree.to_str().unwrap()]);
        let commit = repo.git(&["commit-tree", "main^{tree}", "-m", "two"]);
        for name in ["refs/worktree/own", "refs/bisect/bad", "refs/rewritten/own", "refs/heads/shared"] {
            Git::stock().run(&tree, &["update-ref", name, commit.trim()]);
        }
        repo.git(&["update-ref", "refs/worktree/main", "main"]);
        repo.git(&["update-ref", "refs/bisect/bad", "main"]);
        repo.check();
        let git_dir = repo.path().join("worktrees/tree");
        let store = RefStore::open(git_dir, repo.path().into(), backend, HashKind::Sha1);
        check(&store, &tree);
        let head = store.snapshot(&[b"refs/tags/"]).unwrap().resolve(b"HEAD").unwrap().unwrap();
        assert_eq!(head.name, b"refs/heads/other");
    }
}

#[test]
fn refs_outside_of_refs() {
    for backend in BOTH {
        let repo = Repo::new(backend, HashKind::Sha1);
        for name in ["ORIG_HEAD", "A-B_HEAD", "_HEAD", "A1_HEAD", "AUTO_MERGE", "NOTES_MERGE_REF", "X_Y"] {
            repo.git(&["update-ref", name, "main"]);
        }
        // These are files in both backends, and lists, not refs.
        repo.write("FETCH_HEAD", "something\n");
        repo.write("MERGE_HEAD", "something\n");
        let listed = repo.git(&["for-each-ref", "--include-root-refs", "--format=%(refname)"]);
        let expect: Vec<&str> = listed.lines().filter(|name| !name.starts_with("refs/")).collect();
        let found = repo.store().root_refs().unwrap();
        let found: Vec<&str> = found.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(found, expect);
        let main = ObjectId::from_hex(repo.id("main").as_bytes()).unwrap();
        let check =
            |name: &str, expect| assert_eq!(repo.store().read(name.as_bytes()).unwrap(), expect, "{name}");
        check("HEAD", Some(Value::Symbolic(b"refs/heads/main".to_vec())));
        check("ORIG_HEAD", Some(Value::Id(main)));
        check("refs/heads/main", Some(Value::Id(main)));
        check("refs/heads/nothing", None);
        check("refs/heads/../main", None);
        repo.git(&["pack-refs", "--all"]);
        check("refs/heads/main", Some(Value::Id(main)));
    }
}

#[test]
fn symbolic_refs_lead_as_far_as_in_git() {
    for backend in BOTH {
        let repo = Repo::new(backend, HashKind::Sha1);
        for n in 1..8 {
            let target = if n == 1 { "refs/heads/main".to_owned() } else { format!("refs/tags/s{}", n - 1) };
            repo.git(&["symbolic-ref", &format!("refs/tags/s{n}"), &target]);
        }
        repo.git(&["symbolic-ref", "refs/tags/round", "refs/tags/round"]);
        repo.check();
        // Their targets are outside the prefixes of the snapshot.
        let refs = repo.snapshot(&["refs/tags/s4"]);
        assert_eq!(refs.resolve(b"refs/tags/s4").unwrap().unwrap().name, b"refs/heads/main");
        let refs = repo.snapshot(&["refs/tags/"]);
        assert_eq!(refs.resolve(b"HEAD").unwrap().unwrap().name, b"refs/heads/main");
        assert_eq!(refs.resolve(b"refs/tags/s5").unwrap(), None);
        assert_eq!(refs.resolve(b"refs/tags/round").unwrap(), None);
        assert_eq!(refs.find(b"HEAD").unwrap().unwrap(), Target::Symbolic(b"refs/heads/main"));
        repo.git(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
        assert_eq!(repo.snapshot(&[]).resolve(b"HEAD").unwrap(), None);
        repo.git(&["update-ref", "--no-deref", "HEAD", "main"]);
        assert_eq!(repo.snapshot(&[]).resolve(b"HEAD").unwrap().unwrap().name, b"HEAD");
    }
}

#[test]
fn broken_loose_refs_are_left_out() {
    let repo = Repo::new(Backend::Files, HashKind::Sha1);
    let id = repo.id("main");
    repo.write("refs/heads/empty", "");
    repo.write("refs/heads/zero", &format!("{}\n", "0".repeat(40)));
    repo.write("refs/heads/short", &id[..39]);
    repo.write("refs/heads/a.lock", &id);
    repo.write("refs/heads/bad name", &id);
    repo.write("refs/heads/.hidden", &id);
    repo.write("refs/heads/out", "ref: ../../secret\n");
    repo.write("refs/heads/spaces", &format!("{id} \n\n"));
    std::os::unix::fs::symlink("main", repo.path().join("refs/heads/sym")).unwrap();
    std::os::unix::fs::symlink("../tags", repo.path().join("refs/heads/symdir")).unwrap();
    std::os::unix::fs::symlink("nowhere", repo.path().join("refs/heads/symlost")).unwrap();
    repo.check();
    assert_eq!(repo.snapshot(&[]).resolve(b"refs/heads/out").unwrap(), None);
    std::fs::remove_file(repo.path().join("HEAD")).unwrap();
    std::os::unix::fs::symlink("refs/heads/main", repo.path().join("HEAD")).unwrap();
    let refs = repo.snapshot(&["refs/none/"]);
    assert_eq!(refs.resolve(b"HEAD").unwrap().unwrap().name, b"refs/heads/main");
}

#[test]
fn prefixes_never_lead_out() {
    let repo = Repo::new(Backend::Files, HashKind::Sha1);
    let id = repo.id("main");
    repo.write("secret/refs", &id);
    for prefix in [
        "refs/../",
        "refs/../secret/",
        "refs/heads/../../secret/",
        "refs//",
        "refs/./",
        "refs/\0/",
        "../",
        "/",
    ] {
        let refs = repo.snapshot(&[prefix]);
        assert_eq!(names(&refs, prefix).unwrap(), [""; 0], "{prefix:?}");
    }
    assert_eq!(repo.snapshot(&["refs/heads/../../secret/"]).find(b"refs/../secret/refs").unwrap(), None);
}

#[test]
fn packed_files_of_every_kind() {
    let repo = Repo::new(Backend::Files, HashKind::Sha1);
    let (id, tag) = (repo.id("main"), repo.id("outer"));
    let check = |text: String, expect: Result<&[&str], &str>| {
        repo.write("packed-refs", &text);
        let found = repo.try_snapshot(&[]).and_then(|refs| names(&refs, "refs/heads/"));
        let path = repo.path().display().to_string();
        match expect {
            Ok(expect) => assert_eq!(found.unwrap(), expect, "{text:?}"),
            Err(expect) => {
                assert_eq!(found.unwrap_err().to_string().replace(&path, "."), expect, "{text:?}");
                let mut git = Git::stock().command(repo.path());
                let said = git.args(["for-each-ref"]).output().unwrap().stderr;
                assert_eq!(String::from_utf8_lossy(&said), format!("fatal: {expect}\n"));
            }
        }
    };
    check(String::new(), Ok(&["refs/heads/main"]));
    check(
        format!("{id} refs/heads/z\n{id} refs/heads/a\n"),
        Ok(&["refs/heads/a", "refs/heads/main", "refs/heads/z"]),
    );
    check(format!("{id} refs/heads/bad name\n{id} refs/heads/x\n"), Ok(&["refs/heads/main", "refs/heads/x"]));
    check("garbage\n".into(), Err("unexpected line in ./packed-refs: garbage"));
    check("# other\n".into(), Err("unexpected line in ./packed-refs: # other"));
    check(format!("{id} refs/heads/a\nx\n"), Err("unexpected line in ./packed-refs: x"));
    let cut = format!("{id} refs/heads/a");
    check(format!("{tag} refs/heads/t\n{cut}"), Err(&format!("unterminated line in ./packed-refs: {cut}")));
    repo.write(
        "packed-refs",
        &format!("# pack-refs with: peeled fully-peeled sorted \n{tag} refs/tags/t\n^{id}\n"),
    );
    repo.check();
}

#[test]
fn damaged_stacks() {
    let repo = Repo::new(Backend::Reftable, HashKind::Sha1);
    let list = repo.path().join("reftable/tables.list");
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, format!("{text}0x000000000001-0x000000000002-00000000.ref\n")).unwrap();
    assert!(
        matches!(repo.try_snapshot(&[]), Err(RefError::Io { path, .. }) if path.ends_with("0x000000000001-0x000000000002-00000000.ref"))
    );
    std::fs::write(&list, "../HEAD\n").unwrap();
    assert!(matches!(repo.try_snapshot(&[]), Err(RefError::Damaged { path, .. }) if path == list));
    std::fs::write(&list, &text).unwrap();
    let other = RefStore::open(repo.path().into(), repo.path().into(), Backend::Reftable, HashKind::Sha256);
    assert!(matches!(other.snapshot(&[]), Err(RefError::Line { what: "table of another hash", .. })));
    let table = repo.path().join("reftable").join(text.lines().next().unwrap());
    let bytes = std::fs::read(&table).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        // Not in place: a mapped file must not change.
        std::fs::remove_file(&table).unwrap();
        std::fs::write(&table, &damaged).unwrap();
        if let Ok(refs) = repo.try_snapshot(&[]) {
            let _ = names(&refs, "refs/");
            let _ = refs.resolve(b"HEAD");
        }
    }
    std::fs::remove_file(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(repo.try_snapshot(&[]), Err(RefError::Damaged { .. })));
    std::fs::remove_file(&list).unwrap();
    assert!(matches!(repo.try_snapshot(&[]), Err(RefError::Io { path, .. }) if path == list));
    let lock = list.with_extension("list.lock");
    std::fs::write(&lock, "").unwrap();
    assert_eq!(names(&repo.snapshot(&[]), "").unwrap(), [""; 0], "somebody writes the first table");
    std::fs::remove_file(&lock).unwrap();
    for name in text.lines() {
        std::fs::remove_file(list.with_file_name(name)).unwrap();
    }
    assert_eq!(names(&repo.snapshot(&[]), "").unwrap(), [""; 0]);
}

#[test]
fn compaction_beside_a_reader() {
    let repo = Repo::new(Backend::Reftable, HashKind::Sha1);
    let commit = repo.id("main");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..12 {
                repo.git_stacked(&["update-ref", &format!("refs/heads/b{n}"), &commit]);
                repo.git(&["pack-refs"]);
            }
        });
        let mut known = 1;
        while !writer.is_finished() {
            let found = names(&repo.snapshot(&[]), "refs/heads/").unwrap().len();
            assert!(found >= known, "{found} {known}");
            known = found;
        }
    });
    repo.check();
}

#[test]
fn plain_names_are_good_names() {
    let bytes = b"ab0./-_{~^: l*\\@\x7f";
    for first in bytes {
        for second in bytes {
            for third in bytes {
                let name = [b"refs/".as_slice(), &[*first, *second, *third]].concat();
                let is_good = gix_validate::reference::name(name.as_slice().into()).is_ok();
                assert!(is_good || !is_plain_name(&name), "{:?}", String::from_utf8_lossy(&name));
            }
        }
    }
    assert!(is_plain_name(b"refs/tags/v1.20.3-rc1") && !is_plain_name(b"refs/heads/a.lock"));
    assert!(!is_good_name(b"refs/heads/a.lock") && is_good_name(b"refs/heads/a.b") && is_good_name(b"HEAD"));
}
