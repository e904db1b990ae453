//! Whatever changes a repository or its refs shows in what was kept of it, or what was kept is not believed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use packrace_object::ObjectId;
use packrace_store::refs::{RefSnapshot, RefStamp};
use packrace_store::{CachedRepository, ConfigSources, OpenOptions, Repository};
use packrace_testkit::{Git, Random, RefFormat, RepoBuilder, Size};

/// Tries until there is something, for longer than any machine takes.
fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn settled(path: &Path, options: &OpenOptions) -> CachedRepository {
    until("settled", || {
        Some(CachedRepository::open(path, options).unwrap()).filter(CachedRepository::is_current)
    })
}

fn settled_refs(repository: &Repository, prefixes: &[&[u8]]) -> (RefSnapshot, RefStamp) {
    until("settled", || {
        Some(repository.refs().stamped_snapshot(prefixes).unwrap()).filter(|(_, s)| s.holds())
    })
}

fn options(dir: &Path) -> OpenOptions {
    let global = vec![dir.join("global"), dir.join("second")];
    let config = ConfigSources { global, home: Some(dir.to_owned()), ..ConfigSources::default() };
    OpenOptions { check_ownership: true, config, ..OpenOptions::default() }
}

#[test]
fn changes_of_a_repository_show() {
    let home = packrace_testkit::scratch_dir();
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (path, options) = (repo.path().to_owned(), options(home.path()));
    let check = |what: &str, change: &dyn Fn()| {
        let kept = settled(&path, &options);
        change();
        assert!(!kept.is_current(), "{what}");
        kept
    };
    let git = |args: &[&str]| drop(repo.git(args));
    check("a setting", &|| git(&["config", "a.b", "c"]));
    check("a setting in place", &|| {
        let text = std::fs::read_to_string(path.join("config")).unwrap();
        std::fs::write(path.join("config"), text.replace("b = c", "b = d")).unwrap();
    });
    check("a global setting", &|| std::fs::write(home.path().join("global"), "[x]\ny = z\n").unwrap());
    check("another global file", &|| std::fs::write(home.path().join("second"), "[x]\ny = z\n").unwrap());
    check("an include", &|| git(&["config", "include.path", "../absent/included"]));
    let included = path.parent().unwrap().join("absent/included");
    std::fs::create_dir(included.parent().unwrap()).unwrap();
    check("a file to include that was not there", &|| {
        std::fs::write(&included, "[include]\npath = b\n").unwrap()
    });
    let second = included.with_file_name("b");
    check("a file that it includes", &|| std::fs::write(&second, "[x]\ny = 1\n").unwrap());
    check("the same in place", &|| std::fs::write(&second, "[x]\ny = 2\n").unwrap());
    let kept = check("no file to include any more", &|| std::fs::remove_file(&second).unwrap());
    assert_eq!(kept.repository().config().string("x.y").unwrap(), b"2");
    check("a pack", &|| git(&["repack", "-adq"]));
    check("a keep file", &|| {
        let pack = pack_of(&path);
        std::fs::write(pack.with_extension("keep"), "").unwrap();
    });
    check("a multi-pack-index", &|| git(&["multi-pack-index", "write"]));
    check("a commit-graph", &|| git(&["commit-graph", "write", "--reachable"]));
    check("a chain of commit-graphs", &|| git(&["commit-graph", "write", "--reachable", "--split=replace"]));
    check("a cut in history", &|| {
        let id = repo.git(&["rev-parse", "HEAD"]);
        std::fs::write(path.join("shallow"), id).unwrap();
    });
    check("no cut any more", &|| std::fs::remove_file(path.join("shallow")).unwrap());
    check("grafts", &|| std::fs::write(path.join("info/grafts"), "").unwrap());
    let other = RepoBuilder::new(Size::Tiny).seed(7).build();
    let alternates = path.join("objects/info/alternates");
    check("alternates", &|| {
        std::fs::write(
            &alternates,
            format!("{}\n../../later/objects\n", other.path().join("objects").display()),
        )
        .unwrap();
    });
    check("a pack of an alternate", &|| drop(other.git(&["repack", "-adq"])));
    check("an alternate of an alternate", &|| {
        std::fs::write(other.path().join("objects/info/alternates"), "/nowhere/objects\n").unwrap();
    });
    check("an alternate that was not there", &|| {
        std::fs::create_dir_all(path.parent().unwrap().join("later/objects")).unwrap();
    });
    check("HEAD", &|| git(&["symbolic-ref", "HEAD", "refs/heads/other"]));
    check("its place", &|| std::fs::rename(&path, path.with_extension("moved")).unwrap());
    std::fs::rename(path.with_extension("moved"), &path).unwrap();
    check("a link to where it was moved", &|| {
        std::fs::rename(&path, path.with_extension("moved")).unwrap();
        std::os::unix::fs::symlink(path.with_extension("moved"), &path).unwrap();
    });
}

fn pack_of(path: &Path) -> PathBuf {
    let files = std::fs::read_dir(path.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap()
}

#[test]
fn a_repository_in_the_way_shows() {
    let dir = packrace_testkit::scratch_dir();
    let git = |args: &[&str]| drop(Git::stock().run(dir.path(), args));
    git(&["init", "-q", "--bare", "r.git"]);
    let path = dir.path().join("r");
    let kept = settled(&path, &OpenOptions::default());
    git(&["init", "-q", "--bare", "r"]);
    assert!(!kept.is_current());
    let kept = settled(&path, &OpenOptions::default());
    git(&["init", "-q", "r"]);
    assert!(!kept.is_current() || !path.join(".git").exists());
    std::fs::remove_dir_all(&path).unwrap();
    assert!(!kept.is_current());
    // A gitfile that leads elsewhere.
    git(&["init", "-q", "--bare", "s.git"]);
    std::fs::write(&path, "gitdir: r.git\n").unwrap();
    let kept = settled(&path, &OpenOptions::default());
    std::fs::write(&path, "gitdir: s.git\n").unwrap();
    assert!(!kept.is_current());
}

#[test]
fn another_repository_of_the_same_name_shows() {
    let dir = packrace_testkit::scratch_dir();
    let path = dir.path().join("r.git");
    for hash in ["sha1", "sha256", "sha1"] {
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "--object-format", hash, "r.git"]);
        let kept = settled(&path, &OpenOptions::default());
        std::fs::remove_dir_all(&path).unwrap();
        assert!(!kept.is_current());
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "r.git"]);
        assert!(!kept.is_current());
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// What is kept is of one time, but for loose objects; what was packed since is found.
#[test]
fn cached_snapshots_see_new_objects() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    repo.git(&["repack", "-adq"]);
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    let first = repository.cached_snapshot().unwrap();
    let id = |text: &str| ObjectId::from_hex(text.trim().as_bytes()).unwrap();
    // Lists the directory of this object before it is there.
    let loose = id(&String::from_utf8(Git::stock().run_with_input(
        repo.path(),
        &["hash-object", "--stdin"],
        b"loose",
    ))
    .unwrap());
    assert!(!first.contains(&loose).unwrap());
    repo.git_with_input(&["hash-object", "-w", "--stdin"], b"loose");
    assert!(!first.contains(&loose).unwrap(), "a snapshot does not change");
    assert!(first.has_now(&loose).unwrap());
    let second = repository.cached_snapshot().unwrap();
    assert!(second.contains(&loose).unwrap());
    assert_eq!(second.packs().len(), first.packs().len());
    assert!(std::ptr::eq(second.packs(), first.packs()), "packs are mapped once");
    // Packed behind the back of both.
    repo.git_with_input(&["pack-objects", "-q", "objects/pack/pack"], loose.to_string().as_bytes());
    repo.git(&["prune-packed", "-q"]);
    assert!(first.has_now(&loose).unwrap());
    assert!(repository.cached_snapshot().unwrap().contains(&loose).unwrap());
}

fn value(refs: &RefSnapshot, name: &str) -> Option<ObjectId> {
    refs.resolve(name.as_bytes()).unwrap().map(|resolved| resolved.id)
}

/// Changes refs in every way that git has, and some that it has not.
fn changes_of_refs_show(format: RefFormat) {
    let repo = RepoBuilder::new(Size::Tiny).ref_format(format).build();
    let path = repo.path();
    let ids: Vec<String> = repo.git(&["rev-list", "--all", "-n", "2"]).lines().map(str::to_owned).collect();
    let repository = Repository::open(path, &OpenOptions::default()).unwrap();
    let check_at = |repository: &Repository, what: &str, change: &dyn Fn()| {
        let some: [&[u8]; 5] = [b"refs/heads/", b"refs/tags/", b"refs/new", b"refs/worktree/", b"HEAD"];
        for prefixes in [&[][..], &some] {
            // What alternates between two values now has another one next.
            change();
            let (_, stamp) = settled_refs(repository, prefixes);
            change();
            assert!(!stamp.holds(), "{what}, {prefixes:?}");
        }
    };
    let check = |what: &str, change: &dyn Fn()| check_at(&repository, what, change);
    let git = |args: &[&str]| drop(repo.git(args));
    let toggle = AtomicU64::new(0);
    let next = || toggle.fetch_add(1, SeqCst) as usize;
    check("a new ref", &|| git(&["update-ref", &format!("refs/heads/new{}", next()), &ids[0]]));
    check("a changed ref", &|| git(&["update-ref", "refs/heads/moving", &ids[next() % 2]]));
    check("a renamed ref", &|| {
        let n = next();
        git(&["branch", "-q", &format!("from{n}"), &ids[0]]);
        git(&["branch", "-m", &format!("from{n}"), &format!("to{n}")]);
    });
    check("packed refs", &|| {
        git(&["update-ref", &format!("refs/heads/pack{}", next()), &ids[0]]);
        git(&["pack-refs", "--all", "--prune"]);
    });
    check("a packed ref that changes", &|| {
        git(&["update-ref", "refs/heads/to-pack", &ids[next() % 2]]);
    });
    check("a symbolic ref", &|| git(&["symbolic-ref", "refs/heads/sym", &format!("refs/heads/s{}", next())]));
    check("HEAD", &|| git(&["symbolic-ref", "HEAD", &format!("refs/heads/h{}", next())]));
    git(&["symbolic-ref", "refs/heads/far", "refs/elsewhere/x"]);
    check("what a symbolic ref leads to, outside of what was asked for", &|| {
        git(&["update-ref", "refs/elsewhere/x", &ids[next() % 2]]);
    });
    check("a name below a new directory", &|| {
        git(&["update-ref", &format!("refs/new{}/deep/down", next()), &ids[0]]);
    });
    check("a deleted ref", &|| {
        git(&["update-ref", "refs/heads/gone", &ids[0]]);
        git(&["update-ref", "-d", "refs/heads/gone"]);
    });
    check("many at once", &|| {
        let script = format!("update refs/heads/b1 {0}\nupdate refs/heads/b2 {0}\n", ids[next() % 2]);
        repo.git_with_input(&["update-ref", "--stdin"], script.as_bytes());
    });
    if format == RefFormat::Reftable {
        check("a compaction", &|| {
            git(&["update-ref", "refs/heads/compact", &ids[next() % 2]]);
            git(&["pack-refs"]);
        });
    } else {
        check("a file written in place", &|| {
            let file = path.join("refs/heads/moving");
            std::fs::write(file, format!("{}\n", ids[next() % 2])).unwrap();
        });
        check("a file that was put back as old as it was", &|| {
            let file = path.join("refs/heads/moving");
            let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
            std::fs::write(&file, format!("{}\n", ids[next() % 2])).unwrap();
            std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        });
        check("a file that was removed", &|| {
            std::fs::write(path.join("refs/heads/removed"), format!("{}\n", ids[0])).unwrap();
            std::fs::remove_file(path.join("refs/heads/removed")).unwrap();
        });
    }
    // A linked work tree has refs of its own.
    let tree = path.parent().unwrap().join("tree");
    git(&["worktree", "add", "-q", "--detach", tree.to_str().unwrap(), &ids[0]]);
    let linked = Repository::open(&tree, &OpenOptions::default()).unwrap();
    check_at(&linked, "a ref of a work tree", &|| {
        drop(Git::stock().run(&tree, &["update-ref", "refs/worktree/own", &ids[next() % 2]]));
    });
    check_at(&linked, "its HEAD", &|| {
        drop(Git::stock().run(&tree, &["checkout", "-q", "--detach", &ids[next() % 2]]));
    });
    check_at(&linked, "a ref of all", &|| git(&["update-ref", "refs/heads/moving", &ids[next() % 2]]));
}

#[test]
fn changes_of_refs_in_files_show() {
    changes_of_refs_show(RefFormat::Files);
}

#[test]
fn changes_of_refs_in_reftables_show() {
    changes_of_refs_show(RefFormat::Reftable);
}

/// Where a further change might not show, nothing is believed, though nothing has changed.
#[test]
fn what_has_just_changed_is_not_believed() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    // A machine may take longer for these steps than it takes to settle, but not each time.
    until("unsettled", || {
        std::fs::write(repo.path().join("refs/heads/new"), repo.git(&["rev-parse", "HEAD"])).unwrap();
        let stamp = repository.refs().stamped_snapshot(&[]).unwrap().1;
        (!stamp.is_settled() && !stamp.holds()).then_some(())
    });
    until("unsettled", || {
        std::fs::write(repo.path().join("objects/pack/new"), "").unwrap();
        std::fs::remove_file(repo.path().join("objects/pack/new")).unwrap();
        let kept = CachedRepository::open(repo.path(), &OpenOptions::default()).unwrap();
        (!kept.is_current()).then_some(())
    });
}

/// Links below `refs` are never trusted: what they lead to shows nowhere.
#[test]
fn links_are_not_trusted() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
    settled_refs(&repository, &[]);
    std::os::unix::fs::symlink("heads", repo.path().join("refs/links")).unwrap();
    let old = repository.refs().stamped_snapshot(&[]).unwrap().1;
    assert!(!old.is_settled());
    assert!(settled_refs(&repository, &[b"refs/heads/"]).1.is_settled());
    std::fs::remove_file(repo.path().join("HEAD")).unwrap();
    std::os::unix::fs::symlink("refs/heads/absent", repo.path().join("HEAD")).unwrap();
    assert!(!repository.refs().stamped_snapshot(&[b"refs/heads/"]).unwrap().1.is_settled());
}

/// One that is told what was changed before it asks never sees anything older, however quickly changes follow each other.
#[test]
fn answers_are_never_older_than_what_was_acknowledged() {
    let repo = RepoBuilder::new(Size::Tiny).build();
    let (path, names) = (repo.path().to_owned(), ["refs/heads/a", "refs/heads/dir/b", "refs/tags/c"]);
    std::fs::create_dir_all(path.join("refs/heads/dir")).unwrap();
    let repository = Repository::open(&path, &OpenOptions::default()).unwrap();
    let (acknowledged, hits, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    // A number as an id, and back.
    let id_of = |number: u64| format!("{:040x}", number + 1);
    let number_of = |id: ObjectId| u64::from_str_radix(&id.to_string()[8..], 16).unwrap() - 1;
    for name in names {
        std::fs::write(path.join(name), id_of(0)).unwrap();
    }
    let write = |number: u64, random: &mut Random| {
        let text = format!("{}\n", id_of(number));
        for name in names {
            match random.below(3) {
                0 => std::fs::write(path.join(name), &text).unwrap(),
                1 => {
                    std::fs::write(path.join("new"), &text).unwrap();
                    std::fs::rename(path.join("new"), path.join(name)).unwrap();
                }
                // As `git pack-refs`: packed first.
                _ => {
                    let packed = std::fs::read_to_string(path.join("packed-refs")).unwrap_or_default();
                    let others =
                        packed.lines().filter(|line| !line.starts_with('#') && !line.ends_with(name));
                    let mut lines: Vec<String> = others.map(str::to_owned).collect();
                    lines.retain(|line| !line.starts_with('^'));
                    lines.push(format!("{} {name}", id_of(number)));
                    lines.sort_by(|a, b| a[41..].cmp(&b[41..]));
                    let packed =
                        format!("# pack-refs with: peeled fully-peeled sorted \n{}\n", lines.join("\n"));
                    std::fs::write(path.join("packed-refs.new"), packed).unwrap();
                    std::fs::rename(path.join("packed-refs.new"), path.join("packed-refs")).unwrap();
                    let _ = std::fs::remove_file(path.join(name));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut kept = repository.refs().stamped_snapshot(&[]).unwrap();
            while !is_over.load(SeqCst) {
                let before = acknowledged.load(SeqCst);
                match kept.1.holds() {
                    true => drop(hits.fetch_add(1, SeqCst)),
                    false => match repository.refs().stamped_snapshot(&[]) {
                        Ok(read) => kept = read,
                        Err(error) => panic!("{error}"),
                    },
                }
                for name in names {
                    // Between two steps of a change there may be half a file.
                    let Some(id) = value(&kept.0, name) else {
                        kept = repository.refs().stamped_snapshot(&[]).unwrap();
                        continue;
                    };
                    let found = number_of(id);
                    assert!(found >= before, "{name} is {found}, and {before} was acknowledged");
                }
            }
        });
        let mut random = Random::new(3);
        for number in 1..400 {
            write(number, &mut random);
            acknowledged.store(number, SeqCst);
            // Now and then nothing changes until what is kept is believed.
            if random.one_in(40) {
                let before = hits.load(SeqCst);
                until("believed", || (reader.is_finished() || hits.load(SeqCst) > before).then_some(()));
            }
        }
        is_over.store(true, SeqCst);
        reader.join().unwrap();
        assert!(hits.load(SeqCst) > 0, "nothing was ever believed");
    });
}
