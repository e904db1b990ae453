//! Random transactions, by packrace on one repository and by stock git on another: the same refs, reflogs and refusals.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use packrace_format::reftable::{Deletions, RefValue, Stack, Table, parse_list};
use packrace_object::ObjectId;
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{Cause, Expected, RefChange, RefEdit, RefWrites, StoredObjects, TransactionMode};
use packrace_store::{OpenOptions, Repository};
use packrace_testkit::{
    Extent, Git, Random, RefFormat, RepoBuilder, Size, clean_environment, sampled, scratch_dir,
};

const WHO: &str = "A U Thor <author@example.com> 1112911993 +0000";

/// Names that are in each other's way, and symbolic ones.
const NAMES: [&str; 12] = [
    "HEAD",
    "refs/heads/main",
    "refs/heads/a",
    "refs/heads/a/b",
    "refs/heads/a/b/c",
    "refs/heads/b",
    "refs/heads/sym",
    "refs/heads/loop",
    "refs/tags/t",
    "refs/tags/t/u",
    "refs/other",
    "refs/bisect/own",
];

struct Both {
    ours: tempfile::TempDir,
    theirs: tempfile::TempDir,
    ids: Vec<ObjectId>,
}

fn git(dir: &Path, args: &[&str], input: &str) -> Result<String, String> {
    use std::io::Write as _;
    let mut command = Git::stock().command(dir);
    clean_environment(&mut command);
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "A U Thor")
            .env(format!("GIT_{who}_EMAIL"), "author@example.com");
        command.env(format!("GIT_{who}_DATE"), "1112911993 +0000");
    }
    let command: &mut Command = command.args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

impl Both {
    fn new(format: RefFormat, config: &[(&str, &str)]) -> Self {
        let [ours, theirs] = [0, 1].map(|_| {
            let dir = scratch_dir();
            let path = dir.path().join("r.git");
            RepoBuilder::new(Size::Tiny).ref_format(format).build_at(&path, Git::stock());
            for (name, value) in config {
                git(&path, &["config", name, value], "").unwrap();
            }
            dir
        });
        let ids = git(&theirs.path().join("r.git"), &["rev-list", "-n", "4", "HEAD"], "").unwrap();
        let mut ids: Vec<ObjectId> =
            ids.lines().map(|id| ObjectId::from_hex(id.as_bytes()).unwrap()).collect();
        let tag =
            git(&theirs.path().join("r.git"), &["for-each-ref", "--format=%(objecttype) %(objectname)"], "");
        let tag = tag.unwrap().lines().find_map(|line| line.strip_prefix("tag ").map(str::to_owned)).unwrap();
        ids.push(ObjectId::from_hex(tag.as_bytes()).unwrap());
        Both { ours, theirs, ids }
    }

    fn ours(&self) -> std::path::PathBuf {
        self.ours.path().join("r.git")
    }

    fn theirs(&self) -> std::path::PathBuf {
        self.theirs.path().join("r.git")
    }

    /// Makes the edits on both sides and compares what is said.
    fn run(&self, edits: Vec<RefEdit>) {
        let mut script = String::new();
        for edit in &edits {
            add_line(edit, &mut script);
        }
        let theirs = git(&self.theirs(), &["update-ref", "--stdin", "-m", "why  not\n"], &script);
        let ours = transact(&self.ours(), edits);
        let theirs = theirs.map(drop).map_err(|text| {
            let text = text.trim_end().strip_prefix("fatal: ").unwrap_or(&text).to_owned();
            text.strip_prefix("prepare: ").or(text.strip_prefix("commit: ")).unwrap_or(&text).to_owned()
        });
        // Since 2.55, git says of names in conflict that one cannot be locked only if a file is in the way.
        let is_conflict =
            |text: &str| text.contains("exists; cannot create") || text.ends_with("at the same time");
        let theirs = theirs.map_err(|text| match (&ours, text.split_once("': ")) {
            (Err(ours), Some((_, conflict))) if ours == conflict && is_conflict(ours) => conflict.to_owned(),
            _ => text,
        });
        // Since 2.55, git looks at objects first, and takes no dangling symbolic ref for absent.
        let is_newer =
            |text: &String| text.contains("dangling symref") || text.starts_with("trying to write");
        // It finds conflicts of names that no file shows after everything else.
        let is_late = ours.is_err() && theirs.as_ref().is_err_and(|text| is_conflict(text));
        match is_late || ours.as_ref().is_err_and(is_newer) {
            true if theirs.is_ok() => {
                std::fs::remove_dir_all(self.ours()).unwrap();
                let copied = Command::new("cp").arg("-a").args([self.theirs(), self.ours()]).status();
                assert!(copied.unwrap().success());
            }
            // Whatever the words, nothing has changed.
            true => {}
            false => assert_eq!(ours, theirs, "\n{script}"),
        }
        let (ours, theirs) = (self.state(&self.ours()), self.state(&self.theirs()));
        if ours == theirs {
            return;
        }
        let only = |a: &str, b: &str| -> String {
            a.lines().filter(|line| !b.lines().any(|other| other == *line)).collect::<Vec<_>>().join("\n")
        };
        let (more, less) = (only(&ours, &theirs), only(&theirs, &ours));
        let at = ours.lines().zip(theirs.lines()).position(|(a, b)| a != b).unwrap_or_default();
        let around = [&ours, &theirs]
            .map(|text| text.lines().skip(at.saturating_sub(3)).take(6).collect::<Vec<_>>().join("\n"))
            .join("\n-- theirs\n");
        panic!("{script}\nonly ours:\n{more}\nonly theirs:\n{less}\nline {at}:\n{around}\nafter:\n{theirs}");
    }

    fn state(&self, path: &Path) -> String {
        let format = "--format=%(refname) %(objectname) %(symref)";
        let mut state = git(path, &["for-each-ref", "--include-root-refs", format], "").unwrap();
        // Symbolic refs that lead nowhere are not listed.
        for name in ["refs/heads/sym", "refs/heads/loop", "refs/other"] {
            let found = std::fs::read_to_string(path.join(name)).unwrap_or_default();
            state.push_str(if found.starts_with("ref: ") { &found } else { "" });
        }
        if path.join("reftable").exists() {
            add_stack(&path.join("reftable"), &mut state);
        } else {
            add_files(&path.join("logs"), &mut state);
        }
        state
    }
}

/// Symbolic refs and all log records of a stack of reftables, which stock git could not show for refs that lead nowhere.
fn add_stack(dir: &Path, state: &mut String) {
    let list = std::fs::read(dir.join("tables.list")).unwrap();
    let tables: Vec<Table<Vec<u8>>> = parse_list(&list)
        .unwrap()
        .into_iter()
        .map(|name| std::fs::read(dir.join(std::str::from_utf8(name).unwrap())).unwrap())
        .map(|bytes| Table::open(bytes).unwrap())
        .collect();
    let mut refs = Stack::new(&tables).refs_from(b"", Deletions::Hide).unwrap();
    while refs.advance().unwrap() {
        let record = refs.current().unwrap();
        if let RefValue::Symbolic(target) = record.value {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            writeln!(state, "{}: {}", text(record.name), text(target)).unwrap();
        }
    }
    let mut logs = Stack::new(&tables).logs(Deletions::Hide).unwrap();
    while logs.advance().unwrap() {
        let record = logs.current().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let change = record.change.unwrap();
        let (name, email, message) = (text(change.name), text(change.email), text(change.message));
        let who = format!("{name} <{email}> {} {}", change.seconds, change.zone);
        writeln!(state, "{} {} {} {who} {message:?}", text(record.name), change.old, change.new).unwrap();
    }
}

/// All files below `dir` by name, and what is in them.
fn add_files(dir: &Path, state: &mut String) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_files(&path, state);
        } else {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            writeln!(state, "{name}:\n{}", std::fs::read_to_string(&path).unwrap()).unwrap();
        }
    }
}

fn transact(path: &Path, edits: Vec<RefEdit>) -> Result<(), String> {
    let repository = Repository::open(path, &OpenOptions::default()).unwrap();
    let writes =
        RefWrites::of(repository.config(), repository.hash_kind(), true, WHO.as_bytes().to_vec()).unwrap();
    let mut objects = StoredObjects::new(&repository.snapshot().unwrap());
    let prepared = repository.refs().prepare(edits, TransactionMode::Atomic, &writes, &mut objects);
    let prepared = prepared.map_err(|error| error.to_string())?;
    let refused = prepared.commit(&ObjectsStored::earlier(), &mut objects);
    assert_eq!(refused.map_err(|error| error.to_string())?, []);
    Ok(())
}

fn add_line(edit: &RefEdit, script: &mut String) {
    let name = String::from_utf8_lossy(&edit.name);
    if !edit.deref {
        script.push_str("option no-deref\n");
    }
    let null = "0".repeat(40);
    let old = match &edit.expected {
        Expected::Any => String::new(),
        Expected::Absent => format!(" {null}"),
        Expected::Id(id) => format!(" {id}"),
        Expected::Symbolic(target) => format!(" ref {}", String::from_utf8_lossy(target)),
    };
    match &edit.change {
        RefChange::Verify | RefChange::Delete if matches!(edit.expected, Expected::Symbolic(_)) => {
            let word = if edit.change == RefChange::Delete { "symref-delete" } else { "symref-verify" };
            writeln!(script, "{word} {name} {}", old.trim_start_matches(" ref "))
        }
        RefChange::Verify => writeln!(script, "verify {name}{old}"),
        RefChange::Set(id) => writeln!(script, "update {name} {id}{old}"),
        RefChange::SetSymbolic(target) => {
            let old = match &edit.expected {
                Expected::Absent => format!(" oid {null}"),
                Expected::Id(id) => format!(" oid {id}"),
                _ => old,
            };
            writeln!(script, "symref-update {name} {}{old}", String::from_utf8_lossy(target))
        }
        RefChange::Delete => writeln!(script, "delete {name}{old}"),
    }
    .unwrap();
}

/// Some forty edits, each of another name: enough for `packed-refs` to be written at once.
fn many_edits(random: &mut Random, ids: &[ObjectId]) -> Vec<RefEdit> {
    let mut edits = Vec::new();
    for number in 0..60 {
        if random.one_in(3) {
            continue;
        }
        let name = match random.below(30) {
            0 => format!("refs/heads/many/{number}/below"),
            1 => format!("refs/heads/sym{number}"),
            _ => format!("refs/heads/many/{number}"),
        };
        let mut edit = random_edit(random, ids);
        // So that most of it is accepted.
        edit.expected = Expected::Any;
        if edit.change == RefChange::Verify {
            edit.change = RefChange::Set(ids[0]);
        }
        edits.push(RefEdit { name: name.into_bytes(), ..edit });
    }
    edits
}

fn random_edit(random: &mut Random, ids: &[ObjectId]) -> RefEdit {
    let mut below = |count: usize| random.below(count);
    let name = NAMES[below(NAMES.len())];
    let id = ids[below(ids.len())];
    let target = NAMES[1 + below(7)].as_bytes().to_vec();
    let mut expected = match below(8) {
        0 => Expected::Absent,
        1 => Expected::Id(ids[below(ids.len())]),
        _ => Expected::Any,
    };
    let old_target = NAMES[1 + below(7)].as_bytes().to_vec();
    let change = match below(12) {
        0 => RefChange::Verify,
        // Without HEAD there is no repository.
        1..=2 if name != "HEAD" => RefChange::Delete,
        3 if name != "HEAD" => RefChange::SetSymbolic(target),
        _ => RefChange::Set(id),
    };
    match (&change, &expected) {
        (RefChange::Verify, Expected::Any) | (RefChange::Delete, Expected::Absent) => {
            expected = Expected::Id(id)
        }
        _ => {}
    }
    // Git's files backend tells in the reflog of HEAD that its branch was deleted, where that is only verified, through a
    // symbolic ref.
    let mut deref = below(3) > 0 && change != RefChange::Verify;
    // What a symbolic ref shall say is asked of symbolic refs only.
    let is_symbolic = matches!(change, RefChange::SetSymbolic(_));
    if expected != Expected::Any && below(3) == 0 && (is_symbolic || !matches!(change, RefChange::Set(_))) {
        expected = Expected::Symbolic(old_target);
        deref &= is_symbolic;
    }
    RefEdit {
        name: name.as_bytes().to_vec(),
        change,
        expected,
        deref,
        message: Arc::from(b"why  not\n".as_slice()),
        force_log: false,
    }
}

/// Transactions one after another, each of which takes some processes of git.
fn rounds(extent: Extent) -> usize {
    extent.pick(150, 1700)
}

fn check(format: RefFormat, config: &[(&str, &str)], seed: u64, count: usize) {
    let both = Both::new(format, config);
    let mut random = Random::new(seed);
    for number in 0..count {
        let edits = match number % 8 {
            // Tags are no branches: only commits.
            3 => many_edits(&mut random, &both.ids[..4]),
            _ => (0..=random.below(4)).map(|_| random_edit(&mut random, &both.ids)).collect(),
        };
        if number % 16 == 7 {
            for path in [both.ours(), both.theirs()] {
                git(&path, &["pack-refs", "--all"], "").unwrap();
            }
        }
        match number % 16 {
            5 => batch(&both, edits),
            11 => rename(&both, &mut random),
            _ => both.run(edits),
        }
    }
}

/// Renames a branch on both sides, to a name that is free or not.
fn rename(both: &Both, random: &mut Random) {
    // `git branch -m` takes HEAD along, which the library leaves to its caller.
    let head = git(&both.theirs(), &["symbolic-ref", "-q", "HEAD"], "").unwrap_or_default();
    let mut pick = || NAMES[1 + random.below(6)];
    let (old, new) = (pick(), pick());
    if head.trim() == old || head.trim() == new || old == new {
        return;
    }
    if git(&both.theirs(), &["symbolic-ref", "-q", "--no-recurse", new], "").is_ok() {
        // Git puts the branch in the place of a symbolic ref that leads nowhere.
        return;
    }
    let [short_old, short_new] = [old, new].map(|name| name.strip_prefix("refs/heads/").unwrap());
    let theirs = git(&both.theirs(), &["branch", "-m", short_old, short_new], "");
    let repository = Repository::open(&both.ours(), &OpenOptions::default()).unwrap();
    let writes =
        RefWrites::of(repository.config(), repository.hash_kind(), true, WHO.as_bytes().to_vec()).unwrap();
    let mut objects = StoredObjects::new(&repository.snapshot().unwrap());
    let message = format!("Branch: renamed {old} to {new}");
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let ours = repository.refs().rename(old, new, message.as_bytes(), &writes, &mut objects);
    let shown = format!("{message}: {ours:?} {theirs:?}");
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{shown}");
    assert_eq!(both.state(&both.ours()), both.state(&both.theirs()), "{shown}");
}

/// Edits of which some are refused: what is made is what git makes of the others, and git refuses each of the rest beside
/// them, for the same reason. (Git 2.50 and later have batches themselves.)
fn batch(both: &Both, edits: Vec<RefEdit>) {
    let repository = Repository::open(&both.ours(), &OpenOptions::default()).unwrap();
    let writes =
        RefWrites::of(repository.config(), repository.hash_kind(), true, WHO.as_bytes().to_vec()).unwrap();
    let mut objects = StoredObjects::new(&repository.snapshot().unwrap());
    let prepared = repository.refs().prepare(edits.clone(), TransactionMode::Batch, &writes, &mut objects);
    let script = |edits: &[&RefEdit]| {
        let mut script = String::new();
        edits.iter().for_each(|edit| add_line(edit, &mut script));
        script
    };
    let Ok(prepared) = prepared else {
        // What is wrong with all of it is wrong for git too.
        let all: Vec<&RefEdit> = edits.iter().collect();
        git(&both.theirs(), &["update-ref", "--stdin"], &script(&all)).unwrap_err();
        return;
    };
    let refused = prepared.commit(&ObjectsStored::earlier(), &mut objects).unwrap();
    let is_refused = |number: usize| refused.iter().find(|refusal| refusal.edit == number);
    let accepted: Vec<&RefEdit> = edits
        .iter()
        .enumerate()
        .filter(|(number, _)| is_refused(*number).is_none())
        .map(|(_, edit)| edit)
        .collect();
    for (number, edit) in edits.iter().enumerate() {
        let Some(refusal) = is_refused(number) else { continue };
        // With those that were accepted, aborted: nothing of this stays. Of two changes of one ref, as in git 2.55 the one
        // is refused for the other also if that is refused, too.
        let with: Vec<&RefEdit> = match refusal.cause {
            Cause::Duplicate { .. } | Cause::DuplicateHead(_) => edits.iter().collect(),
            _ => accepted.iter().copied().chain([edit]).collect(),
        };
        let input = format!("start\n{}prepare\nabort\n", script(&with));
        let said = git(&both.theirs(), &["update-ref", "--stdin"], &input);
        // Since 2.55, git takes no dangling symbolic ref for absent.
        assert!(said.is_err() || refusal.cause == Cause::ExistsDangling, "{refusal} {input}");
    }
    git(&both.theirs(), &["update-ref", "--stdin", "-m", "why  not\n"], &script(&accepted)).unwrap();
    let shown = format!("{} refused {refused:?}", script(&edits.iter().collect::<Vec<_>>()));
    assert_eq!(both.state(&both.ours()), both.state(&both.theirs()), "{shown}");
}

/// Both write at once, each its own refs; nothing is lost, and each can read what the other wrote.
fn concurrently(format: RefFormat) {
    const ROUNDS: usize = 40;
    let both = Both::new(format, &[("reftable.lockTimeout", "-1"), ("core.packedRefsTimeout", "-1")]);
    let (path, id) = (both.ours(), both.ids[0]);
    let name = |who: &str, number: usize| format!("refs/heads/{who}/{number}");
    std::thread::scope(|scope| {
        for who in ["git-a", "git-b"] {
            let path = &path;
            scope.spawn(move || {
                for number in 0..ROUNDS {
                    let mut script = format!("create {} {id}\n", name(who, number));
                    if number > 5 {
                        script.push_str(&format!("delete {} {id}\n", name(who, number - 5)));
                    }
                    git(path, &["update-ref", "--stdin"], &script).unwrap();
                    if number % 16 == 7 {
                        // Somebody else may just be at it.
                        let _ = git(path, &["pack-refs", "--all"], "");
                    }
                }
            });
        }
        for who in ["ours-a", "ours-b"] {
            let path = &path;
            scope.spawn(move || {
                for number in 0..ROUNDS {
                    let edit = |number, change, expected| RefEdit {
                        name: name(who, number).into_bytes(),
                        change,
                        expected,
                        deref: true,
                        message: Arc::from(b"".as_slice()),
                        force_log: false,
                    };
                    let mut edits = vec![edit(number, RefChange::Set(id), Expected::Absent)];
                    if number > 5 {
                        edits.push(edit(number - 5, RefChange::Delete, Expected::Id(id)));
                    }
                    transact(path, edits).unwrap();
                }
            });
        }
    });
    let listed = git(&path, &["for-each-ref", "--format=%(refname) %(objectname)"], "").unwrap();
    let repository = Repository::open(&path, &OpenOptions::default()).unwrap();
    let refs = repository.refs().snapshot(&[]).unwrap();
    for who in ["git-a", "git-b", "ours-a", "ours-b"] {
        for number in 0..ROUNDS {
            let is_there = number == 0 || number + 5 >= ROUNDS;
            let line = format!("{} {id}", name(who, number));
            assert_eq!(listed.lines().any(|found| found == line), is_there, "{line}");
            let found = refs.resolve(name(who, number).as_bytes()).unwrap();
            assert_eq!(found.map(|found| found.id), is_there.then_some(id), "{line}");
        }
    }
    git(&path, &["refs", "verify"], "").unwrap();
    for left in ["reftable/tables.list.lock", "packed-refs.lock", "packed-refs.new"] {
        assert!(!path.join(left).exists(), "{left}");
    }
}

#[test]
fn beside_stock_git() {
    concurrently(RefFormat::Files);
    concurrently(RefFormat::Reftable);
}

sampled! {
    fn reftables_as_stock_git(extent) {
        let count = rounds(extent);
        check(RefFormat::Reftable, &[], 1, count);
        check(RefFormat::Reftable, &[("core.logAllRefUpdates", "true")], 2, count);
        check(RefFormat::Reftable, &[("core.logAllRefUpdates", "always")], 3, count);
    }
}

sampled! {
    fn files_as_stock_git(extent) {
        let count = rounds(extent);
        check(RefFormat::Files, &[], 1, count);
        check(RefFormat::Files, &[("core.logAllRefUpdates", "true")], 2, count);
        check(RefFormat::Files, &[("core.logAllRefUpdates", "always")], 3, count);
    }
}

#[test]
fn refs_of_work_trees_have_several_names() {
    for format in [RefFormat::Files, RefFormat::Reftable] {
        let both = Both::new(format, &[]);
        let (main, tree) = (both.ours(), both.ours.path().join("tree"));
        git(&main, &["worktree", "add", "--quiet", "--detach", tree.to_str().unwrap()], "").unwrap();
        let linked = main.join("worktrees/tree");
        let set = |name: &str| RefEdit {
            name: name.into(),
            change: RefChange::Set(both.ids[1]),
            expected: Expected::Any,
            deref: true,
            message: Arc::from(&b"why"[..]),
            force_log: true,
        };
        let id = both.ids[1].to_string();
        for (from, name, dir, plain) in [
            (&main, "worktrees/tree/refs/bisect/a", &tree, "refs/bisect/a"),
            (&linked, "worktrees/tree/refs/bisect/b", &tree, "refs/bisect/b"),
            (&linked, "main-worktree/refs/bisect/c", &main, "refs/bisect/c"),
            (&main, "main-worktree/refs/bisect/d", &main, "refs/bisect/d"),
        ] {
            transact(from, vec![set(name), set("refs/heads/beside")]).unwrap();
            assert_eq!(git(dir, &["rev-parse", plain], "").unwrap().trim(), id, "{name}");
            let log = git(dir, &["reflog", "show", "--format=%gs", plain], "").unwrap();
            assert_eq!(log, "why\n", "{name}");
            transact(from, vec![RefEdit { change: RefChange::Delete, ..set(name) }]).unwrap();
            assert!(git(dir, &["rev-parse", "--verify", plain], "").is_err(), "{name}");
        }
        let multiple = "multiple updates for ref";
        let in_use = if format == RefFormat::Files { "Unable to create" } else { multiple };
        for (from, names, words) in [
            (&main, ["main-worktree/refs/bisect/x", "refs/bisect/x"], in_use),
            (&linked, ["refs/bisect/x", "worktrees/tree/refs/bisect/x"], in_use),
            (&linked, ["worktrees/tree/refs/bisect/x/y", "refs/bisect/x"], "at the same time"),
            (&main, ["worktrees/tree/refs/bisect/x", "worktrees/tree/refs/bisect/x"], multiple),
        ] {
            let error = transact(from, names.map(set).into()).unwrap_err();
            assert!(error.contains(words), "{names:?}: {error}");
        }
        for dir in [&main, &tree] {
            assert_eq!(git(dir, &["for-each-ref", "refs/bisect"], "").unwrap(), "");
        }
    }
}
