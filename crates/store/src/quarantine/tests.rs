use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use packrace_object::{HashKind, Kind, object_id};
use packrace_os::simulated::{DiskFault, DiskOp, DiskStep, on_disk};
use packrace_testkit::{Git, Repo, RepoBuilder, Size};

use super::*;
use crate::OpenOptions;

/// A repository with objects, and an empty one to receive them.
struct Push {
    source: Repo,
    _dir: tempfile::TempDir,
    target: PathBuf,
    pack: Vec<u8>,
    objects: usize,
}

impl Push {
    fn new(hash: HashKind) -> Self {
        let source = RepoBuilder::new(Size::Tiny).hash(hash).build();
        let dir = packrace_testkit::scratch_dir();
        let target = dir.path().join("t.git");
        let format = format!("--object-format={hash}");
        Git::stock()
            .run(dir.path(), &["init", "-q", "--bare", "--template=", &format, target.to_str().unwrap()]);
        let pack = Git::stock().run_with_input(
            source.path(),
            &["pack-objects", "--stdout", "--revs", "-q"],
            b"HEAD~30\n",
        );
        let objects = u32::from_be_bytes(pack[8..12].try_into().unwrap()) as usize;
        Push { source, _dir: dir, target, pack, objects }
    }

    fn open(&self) -> Repository {
        Repository::open(&self.target, &OpenOptions::default()).unwrap()
    }

    fn configure(&self, name: &str, value: &str) {
        Git::stock().run(&self.target, &["config", name, value]);
    }

    /// Stores the pack in the quarantine with stock git, as a program of a hook would.
    fn stage(&self, quarantine: &Quarantine, args: &[&str]) {
        let mut command = Git::stock().command(&self.target);
        command.args(args).envs(quarantine.environment());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&self.pack).unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn objects(&self) -> PathBuf {
        self.target.join("objects")
    }

    fn count(&self) -> usize {
        let args = ["cat-file", "--batch-all-objects", "--batch-check", "--unordered"];
        Git::stock().run(&self.target, &args).lines().count()
    }

    fn check_clean(&self) {
        Git::stock().run(&self.target, &["fsck", "--full", "--strict", "--no-dangling"]);
        let left = names(&self.objects());
        assert!(!left.iter().any(|name| name.starts_with("tmp_")), "{left:?}");
    }
}

const UNPACK: [&str; 2] = ["unpack-objects", "-q"];
const INDEX: [&str; 3] = ["index-pack", "--stdin", "--keep=why"];

fn names(dir: &Path) -> Vec<String> {
    let listing = packrace_os::list_dir(dir, Role::Objects).unwrap();
    listing.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn objects_are_seen_before_they_come_and_come_as_they_are() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        for how in [&UNPACK[..], &INDEX] {
            let push = Push::new(hash);
            let repository = push.open();
            let quarantine = Quarantine::create(&repository).unwrap();
            let name = quarantine.object_dir().file_name().unwrap().to_str().unwrap().to_owned();
            assert!(name.starts_with("tmp_objdir-incoming-") && name.len() == 26, "{name}");
            assert_eq!(mode(quarantine.object_dir()), 0o700);
            assert_eq!(names(quarantine.object_dir()), ["pack"]);
            push.stage(&quarantine, how);

            let head = push.source.git(&["rev-parse", "HEAD~30"]);
            let head = packrace_object::ObjectId::from_hex(head.trim().as_bytes()).unwrap();
            let is_there = |repository: &Repository| {
                let snapshot = repository.snapshot().unwrap();
                snapshot.reader(0).kind(&head).unwrap().is_some()
            };
            assert!(is_there(quarantine.view()) && !is_there(&repository));
            assert!(quarantine.snapshot().unwrap().reader(0).read(&head).is_ok());
            assert_eq!(push.count(), 0);

            let migrated = quarantine.migrate().unwrap();
            assert!(is_there(&repository));
            assert_eq!(push.count(), push.objects);
            assert_eq!(migrated.keeps.len(), usize::from(how == INDEX));
            assert!(migrated.keeps.iter().all(|keep| keep.exists()));
            migrated.release().unwrap();
            assert!(!names(&push.objects().join("pack")).iter().any(|name| name.ends_with(".keep")));
            push.check_clean();
        }
    }
}

#[test]
fn what_is_dropped_is_gone_and_links_in_it_lead_nowhere() {
    let push = Push::new(HashKind::Sha1);
    let outside = packrace_testkit::scratch_dir();
    std::fs::write(outside.path().join("precious"), "x").unwrap();
    let repository = push.open();
    for discards in [true, false] {
        let quarantine = Quarantine::create(&repository).unwrap();
        push.stage(&quarantine, &UNPACK);
        push.stage(&quarantine, &INDEX);
        let dir = quarantine.object_dir().to_owned();
        symlink(outside.path(), dir.join("00link")).unwrap();
        symlink(outside.path(), dir.join("pack/sub")).unwrap();
        symlink("/nowhere", dir.join("broken")).unwrap();
        std::fs::create_dir_all(dir.join("deep/er/still")).unwrap();
        match discards {
            true => quarantine.discard().unwrap(),
            false => drop(quarantine),
        }
        assert!(!dir.exists());
        assert_eq!(push.count(), 0);
        assert!(outside.path().join("precious").exists());
    }
}

/// Stock git 2.47 moves everything, and through a link even files from elsewhere.
#[test]
fn only_objects_come_out() {
    let push = Push::new(HashKind::Sha1);
    let outside = packrace_testkit::scratch_dir();
    let id = "0123456789012345678901234567890123456789";
    std::fs::write(outside.path().join(&id[2..]), "x").unwrap();
    let before = names(&push.objects());
    let quarantine = Quarantine::create(&push.open()).unwrap();
    let dir = quarantine.object_dir().to_owned();
    symlink(outside.path(), dir.join("01")).unwrap();
    std::fs::create_dir(dir.join("02")).unwrap();
    symlink(outside.path().join(&id[2..]), dir.join("02").join(&id[2..])).unwrap();
    for name in ["02/tmp_obj_abcdef", "02/short", "foo", "pack/tmp_pack_abcdef", "pack/pack-1.pack", "pack/x"]
    {
        std::fs::write(dir.join(name), "x").unwrap();
    }
    for name in ["pack-2.pack", "pack-2.idx"] {
        symlink(outside.path().join(&id[2..]), dir.join("pack").join(name)).unwrap();
    }
    for name in ["03/ff", "zz", "info"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("03").join(id[2..].to_uppercase().replace('0', "F")), "x").unwrap();
    std::fs::write(dir.join("info/alternates"), "/somewhere\n").unwrap();
    quarantine.migrate().unwrap();
    assert_eq!(names(&push.objects()), before);
    assert_eq!(names(&push.objects().join("pack")), [""; 0]);
    assert_eq!(names(outside.path()), [&id[2..]]);
}

/// Another process removes empty directories, like `git prune-packed`, which a repack runs.
#[test]
fn directories_that_somebody_removes_are_made_again() {
    let push = Push::new(HashKind::Sha1);
    let dirs: Vec<PathBuf> = (0..=255u8).map(|first| push.objects().join(format!("{first:02x}"))).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                dirs.iter().for_each(|dir| drop(std::fs::remove_dir(dir)));
            }
        });
        let migrated = (0..10).map(|_| {
            let quarantine = Quarantine::create(&push.open()).unwrap();
            push.stage(&quarantine, &UNPACK);
            let migrated = quarantine.migrate();
            for dir in dirs.iter().filter(|dir| dir.exists()) {
                names(dir).iter().for_each(|name| std::fs::remove_file(dir.join(name)).unwrap());
            }
            migrated
        });
        let failed: Vec<Error> = migrated.filter_map(Result::err).collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(failed.is_empty(), "{failed:?}");
    });
}

#[test]
fn what_is_there_already_stays() {
    let push = Push::new(HashKind::Sha1);
    for how in [&UNPACK[..], &INDEX] {
        let quarantine = Quarantine::create(&push.open()).unwrap();
        push.stage(&quarantine, how);
        quarantine.migrate().unwrap();
    }
    let dir = push.objects();
    let pack_dir = dir.join("pack");
    let fan_out = names(&dir).into_iter().find(|name| name.len() == 2).unwrap();
    let loose = dir.join(&fan_out).join(&names(&dir.join(&fan_out))[0]);
    let keep = names(&pack_dir).into_iter().find(|name| name.ends_with(".keep")).unwrap();
    std::fs::write(pack_dir.join(&keep), "theirs\n").unwrap();
    let mtimes = pack_dir.join(keep.replace(".keep", ".mtimes"));
    std::fs::write(&mtimes, "times").unwrap();
    std::fs::set_permissions(&loose, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(&loose, "theirs").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::open(&loose).unwrap().set_modified(old).unwrap();

    // Staged beside them by a process that does not see them.
    let quarantine = Quarantine::create(&push.open()).unwrap();
    let staged = quarantine.object_dir().join(&fan_out);
    std::fs::create_dir(&staged).unwrap();
    std::fs::write(staged.join(loose.file_name().unwrap()), "ours").unwrap();
    push.stage(&quarantine, &INDEX);
    let migrated = quarantine.migrate().unwrap();
    assert_eq!(migrated.keeps, [""; 0].map(PathBuf::from));
    migrated.release().unwrap();
    assert_eq!(std::fs::read(&loose).unwrap(), b"theirs");
    assert!(std::fs::metadata(&loose).unwrap().modified().unwrap() > old);
    assert_eq!(std::fs::read(pack_dir.join(&keep)).unwrap(), b"theirs\n");
    assert!(!mtimes.exists());

    // A different pack of the same name.
    let quarantine = Quarantine::create(&push.open()).unwrap();
    push.stage(&quarantine, &INDEX);
    std::fs::remove_file(pack_dir.join(&keep)).unwrap();
    let pack = pack_dir.join(keep.replace(".keep", ".pack"));
    std::fs::set_permissions(&pack, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(&pack, "theirs").unwrap();
    let error = quarantine.migrate().unwrap_err();
    assert!(error.to_string().ends_with("differ in contents"), "{error}");
    assert!(!pack_dir.join(&keep).exists());
    assert!(!names(&dir).iter().any(|name| name.starts_with("tmp_")));
}

/// Compares with the view of a hook of stock git.
#[test]
fn hooks_see_what_those_of_git_see() {
    let parent = packrace_testkit::scratch_dir();
    let push = Push::new(HashKind::Sha1);
    for name in ["plain.git", "col:on.git", "quo\"te.git", "s p.git"] {
        let target = parent.path().join(name);
        std::fs::create_dir(&target).unwrap();
        Git::stock().run(&target, &["init", "-q", "--bare", "--template="]);
        let said = parent.path().join("said");
        let hook = target.join("hooks/pre-receive");
        let script = format!("#!/bin/sh\nenv >'{}'\n", said.display());
        packrace_testkit::write_program(&hook, &script);
        let borrowed = [parent.path().join("col:on.git/objects"), push.objects()];
        let text = join_alternates(borrowed.iter().map(PathBuf::as_path));
        let receive =
            format!("env GIT_ALTERNATE_OBJECT_DIRECTORIES='{}' git-receive-pack", text.to_str().unwrap());
        let to = format!("./{name}");
        let args = ["push", "-q", &format!("--receive-pack={receive}"), &to, "HEAD~30:refs/heads/new"];
        Git::stock().command(parent.path()).env("GIT_DIR", push.source.path()).args(args).output().unwrap();
        let said = std::fs::read_to_string(&said).unwrap();
        let options = OpenOptions { alternates: borrowed.to_vec(), ..OpenOptions::default() };
        let quarantine = Quarantine::create(&Repository::open(&target, &options).unwrap()).unwrap();
        for (name, value) in quarantine.environment() {
            let prefix = format!("{}=", name.to_str().unwrap());
            let theirs = said.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap();
            let value = value.to_str().unwrap();
            let letters = |text: &str| match text.rfind("incoming-") {
                Some(at) => text[..at].replace("/./", "/"),
                None => text.replace("/./", "/"),
            };
            assert_eq!(letters(value), letters(theirs), "{prefix}");
        }
    }
}

#[test]
fn shared_repositories_get_shared_files() {
    let push = Push::new(HashKind::Sha1);
    push.configure("core.sharedRepository", "group");
    for how in [&UNPACK[..], &INDEX] {
        let quarantine = Quarantine::create(&push.open()).unwrap();
        assert_eq!([quarantine.object_dir(), &quarantine.pack_dir()].map(mode), [0o700, 0o755]);
        push.stage(&quarantine, how);
        quarantine.migrate().unwrap();
    }
    let dir = push.objects();
    for fan_out in names(&dir).into_iter().filter(|name| name.len() == 2) {
        assert_eq!(mode(&dir.join(&fan_out)), 0o2775, "{fan_out}");
        let files = names(&dir.join(&fan_out));
        assert!(files.iter().all(|name| mode(&dir.join(&fan_out).join(name)) == 0o444));
    }
    for name in names(&dir.join("pack")) {
        let expect = if name.ends_with(".keep") { 0o660 } else { 0o444 };
        assert_eq!(mode(&dir.join("pack").join(&name)), expect, "{name}");
    }
}

/// The order that matters: content, names with the index last, directories, and only then the quarantine.
#[test]
fn everything_is_durable_before_the_proof_is_given() {
    let push = Push::new(HashKind::Sha1);
    push.configure("core.fsync", "committed");
    let quarantine = Quarantine::create(&push.open()).unwrap();
    push.stage(&quarantine, &UNPACK);
    push.stage(&quarantine, &INDEX);
    let (migrated, steps) = on_disk(DiskFault::None, || quarantine.migrate().unwrap());
    drop(migrated);
    let at = |wanted: &dyn Fn(&DiskStep) -> bool| -> Vec<usize> {
        (0..steps.len()).filter(|at| wanted(&steps[*at])).collect()
    };
    let is_name = |step: &DiskStep| matches!(step.op, DiskOp::Rename(_));
    let (files, names) = (at(&|step| step.op == DiskOp::Sync), at(&is_name));
    let dirs = at(&|step| step.op == DiskOp::SyncDir);
    assert_eq!(files.len(), push.objects + 4);
    assert_eq!(names.len(), push.objects + 4);
    assert!(files.last() < names.first() && names.last() < dirs.first());
    let made = at(&|step| step.op == DiskOp::MakeDir).len();
    assert_eq!(dirs.len(), made + 2, "each new directory, that which they are in, and that of packs");
    let extension = |at: &usize| steps[*at].path.extension().map(|extension| extension.to_str().unwrap());
    let order: Vec<_> = names.iter().filter_map(extension).collect();
    assert_eq!(order, ["keep", "pack", "rev", "idx"]);
    assert!(at(&|step| step.op == DiskOp::Remove).first() > dirs.last());
}

#[test]
fn by_default_what_was_received_is_synced_and_nothing_where_it_is_turned_off() {
    for (value, is_synced) in [(None, true), (Some("none"), false), (Some("-pack"), false)] {
        let push = Push::new(HashKind::Sha1);
        if let Some(value) = value {
            push.configure("core.fsync", value);
        }
        let quarantine = Quarantine::create(&push.open()).unwrap();
        push.stage(&quarantine, &UNPACK);
        let (result, steps) = on_disk(DiskFault::None, || quarantine.migrate());
        result.unwrap();
        let syncs = steps.iter().filter(|step| matches!(step.op, DiskOp::Sync | DiskOp::SyncDir));
        assert_eq!(syncs.count() > push.objects, is_synced, "{value:?}");
    }
}

/// The same objects and others arrive concurrently: every writer is told that its objects exist, and they do.
#[test]
fn many_at_once() {
    let push = Push::new(HashKind::Sha1);
    push.configure("core.fsync", "committed");
    let blobs = |thread: usize| {
        let content = move |number: usize| format!("{thread} {number}\n").into_bytes();
        (0..5).map(content).map(|content| (object_id(HashKind::Sha1, Kind::Blob, &content).unwrap(), content))
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let push = &push;
            scope.spawn(move || {
                let repository = push.open();
                let mut quarantine = Quarantine::create(&repository).unwrap();
                push.stage(&quarantine, if thread % 2 == 0 { &UNPACK } else { &INDEX });
                let mut batch = quarantine.loose_batch().unwrap();
                for (id, content) in blobs(thread) {
                    batch.add(&id, Kind::Blob, &content).unwrap();
                }
                quarantine.note_loose(batch.publish().unwrap());
                quarantine.migrate().unwrap().release().unwrap();
                let snapshot = repository.snapshot().unwrap();
                assert!(blobs(thread).all(|(id, _)| snapshot.has_loose(&id).unwrap()));
            });
        }
    });
    assert_eq!(push.count(), push.objects + 8 * 5);
    push.check_clean();
    assert!(!names(&push.objects().join("pack")).iter().any(|name| name.ends_with(".keep")));
}
