//! Files that break while clients are in the midst of their answers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use packrace_object::HashKind;
use packrace_os::faults::damaged_maps;
use packrace_testkit::received::objects_in_pack;
use packrace_testkit::{Git, Random, RefFormat, RepoBuilder, Size, Storage};

use super::breaking::{Broken, Fault, file};
use super::clients::{At, Client, Got, Server, clone_script};
use super::{damage_turn, main_of, recovers};

/// More than sockets hold between a server and a client that does not read.
const LARGE_FILE_BYTES: usize = 12 << 20;

/// The same for many clients, most of which are not to fail.
const RUNNING_FILE_BYTES: usize = LARGE_FILE_BYTES / 2;

/// Up to 64 clients in the midst of clones of four repositories, over both transports, when the pack of one of them breaks.
#[test]
fn running_clones_of_others_end_well() {
    let _turn = damage_turn();
    let server = Server::new();
    for number in 0..4u64 {
        let repo = server.path(&format!("{number}.git"));
        RepoBuilder::new(Size::Tiny).seed(number).build_at(&repo, Git::stock());
        add_large_file(&repo, number, if number == 0 { LARGE_FILE_BYTES } else { LARGE_FILE_BYTES / 2 });
        Git::stock().run(&repo, &["repack", "-adq", "--no-write-bitmap-index"]);
    }
    let mains: Vec<String> = (0..4).map(|number| main_of(&server.path(&format!("{number}.git")))).collect();
    let expected: Vec<Got> =
        (0..4).map(|number| server.clone(At::Git, &format!("{number}.git"), &mains[number])).collect();
    assert!(expected.iter().all(|got| matches!(got, Got::Whole(pack) if pack.len() > LARGE_FILE_BYTES / 2)));
    let path = file(&server.path("0.git"), "objects/pack", ".pack");
    for (fault, many) in
        [(Fault::Halved, 64), (Fault::Emptied, 16), (Fault::Overwritten, 16), (Fault::Replaced, 16)]
    {
        let (begun, broke) = (Barrier::new(many + 1), Barrier::new(many + 1));
        let damaged_before = damaged_maps();
        let (broken, got) = std::thread::scope(|scope| {
            let clients = (0..many).map(|number| {
                let (server, mains, begun, broke, expected) = (&server, &mains, &begun, &broke, &expected);
                scope.spawn(move || {
                    let (of, at) = (number % 4, if number / 4 % 2 == 0 { At::Git } else { At::Http });
                    let name = format!("{of}.git");
                    let mut client = server.begin(at, &name, &clone_script(&mains[of]));
                    client.read(100_000);
                    begun.wait();
                    broke.wait();
                    let got = client.pack();
                    let is_same = got == expected[of];
                    (of, at, if is_same { None } else { Some(got) })
                })
            });
            let clients: Vec<_> = clients.collect();
            begun.wait();
            let broken = Broken::new(&path, fault);
            broke.wait();
            let got: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
            (broken, got)
        });
        for (of, at, got) in got {
            // A file that was replaced is there for those who have it open.
            let is_needed = of == 0 && fault != Fault::Replaced;
            let expect = if is_needed { Some(Got::Failed) } else { None };
            assert!(got == expect, "{fault:?}: a client of {of} at {at:?} fails, or got another pack");
        }
        assert_eq!(damaged_maps() > damaged_before, fault != Fault::Replaced, "{fault:?}");
        broken.mend();
        let again = recovers("0.git", || server.clone(At::Http, "0.git", &mains[0]));
        assert!(Got::Whole(again) == expected[0], "{fault:?}");
    }
}

/// A commit on top of main with a large file that nothing compresses; loose.
fn add_large_file(repo: &Path, seed: u64, bytes: usize) {
    let git = |args: &[&str]| Git::stock().run(repo, args).trim().to_owned();
    std::fs::write(repo.join("large"), Random::new(seed + 1).bytes(bytes)).unwrap();
    let blob = git(&["hash-object", "-w", "large"]);
    std::fs::remove_file(repo.join("large")).unwrap();
    let list = format!("100644 blob {blob}\tlarge\n");
    let tree = Git::stock().run_with_input(repo, &["mktree"], list.as_bytes());
    let tree = String::from_utf8(tree).unwrap();
    let commit = git(&["commit-tree", "-m", "large", "-p", "main", tree.trim()]);
    git(&["update-ref", "refs/heads/main", &commit]);
}

/// Each file of each kind of repository, cut off, replaced and unreadable: a repository of its own for each, and three clients
/// that are being served from it: two that are in the midst of a pack, which is kept or was made for them alone, and one that
/// asks for a pack only then. The files break one after the other while all are under way, and others come.
#[test]
fn each_file_breaks_under_64_running_clones() {
    let _turn = damage_turn();
    let server = Server::new();
    let without_cache = server.beside(|settings| settings.cache.enabled = false);
    let models = server.path("../models");
    build_models(&models);
    RepoBuilder::new(Size::Tiny).build_at(&server.path("small.git"), Git::stock());
    link_all(&models.join("files"), &server.path("well.git"));
    let small = main_of(&server.path("small.git"));
    let expected_small = server.clone(At::Git, "small.git", &small);
    let well = server.clone(At::Git, "well.git", &main_of(&server.path("well.git")));
    assert!(matches!((&expected_small, &well), (Got::Whole(_), Got::Whole(_))));

    let pack = "objects/pack";
    let faults = [Fault::Halved, Fault::Replaced, Fault::Unreadable];
    let mut to_break = Vec::new();
    for (model, folder, end, is_needed) in [
        ("files", pack, ".pack", Needed::AsContent),
        ("files", pack, ".idx", Needed::AsOnlyWay),
        ("files", pack, ".rev", Needed::AsHelp),
        ("files", pack, ".bitmap", Needed::AsHelp),
        ("files", "objects/info", "commit-graph", Needed::AsHelp),
        ("files", ".", "packed-refs", Needed::No),
        ("multi", pack, ".pack", Needed::AsContent),
        ("multi", pack, "multi-pack-index", Needed::AsHelp),
        ("multi", pack, ".bitmap", Needed::AsHelp),
        ("tables", "reftable", ".ref", Needed::No),
        ("tables", "reftable", "tables.list", Needed::No),
    ] {
        for fault in faults {
            let name = format!("{}.git", to_break.len());
            link_all(&models.join(model), &server.path(&name));
            let file = file(&server.path(&name), folder, end);
            let bytes = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, bytes).unwrap();
            to_break.push((format!("{model} {end} {fault:?}"), name, file, fault, is_needed));
        }
    }
    let mut running = Vec::new();
    for (what, name, file, fault, is_needed) in to_break {
        let at = if running.len() % 2 == 0 { At::Git } else { At::Http };
        let what = format!("{what} {at:?}");
        let main = main_of(&server.path(&name));
        let refs = server.refs(at, &name);
        assert!(matches!(refs, Got::Whole(_)), "{what}");
        // From here on the first server has it.
        let whole = server.clone(at, &name, &main);
        assert!(matches!(&whole, Got::Whole(pack) if pack.len() > RUNNING_FILE_BYTES), "{what}");
        let clients = [&server, &without_cache].map(|server| {
            let mut client = server.begin(at, &name, &clone_script(&main));
            client.read(100_000);
            client
        });
        let session = without_cache.begin_session(&name);
        running.push(Running { what, name, at, file, fault, is_needed, refs, whole, clients, session, main });
    }
    assert!(2 * running.len() >= 64);
    let main = main_of(&server.path("well.git"));
    let others = [At::Git, At::Http].map(|at| {
        let mut client = without_cache.begin(at, "well.git", &clone_script(&main));
        client.read(100_000);
        client
    });

    for Running { what, name, at, file, fault, refs, .. } in &running {
        drop(Broken::new(file, *fault));
        assert!(server.clone(*at, "small.git", &small) == expected_small, "{what}");
        let now = server.refs(*at, name);
        assert!(now == *refs || now == Got::Failed, "{what}: {now:?}");
    }
    for client in others {
        assert!(client.pack() == well, "a client of a repository where nothing broke");
    }
    for Running { what, fault, is_needed, whole, clients, mut session, main, .. } in running {
        // A file that was replaced, or removed, is there for those who have it open.
        let is_gone = fault == Fault::Halved;
        let is_sent = is_gone && is_needed == Needed::AsContent;
        // Mostly these two packs were made before.
        let may_fail = is_gone && is_needed != Needed::No;
        for client in clients {
            let got = client.pack();
            let is_right =
                if is_sent { got == Got::Failed } else { got == whole || may_fail && got == Got::Failed };
            assert!(is_right, "{what}: failed: {}", got == Got::Failed);
        }
        session.ask(&clone_script(&main));
        let must_fail = is_gone && matches!(is_needed, Needed::AsContent | Needed::AsOnlyWay);
        match session.pack() {
            // Refs are looked up anew, and what finds objects is opened only now.
            Got::Failed => {}
            got => {
                assert!(!must_fail, "{what}");
                assert!(got == whole || objects_in(&got).is_superset(&objects_in(&whole)), "{what}");
            }
        }
    }
    assert!(server.clone(At::Http, "small.git", &small) == expected_small);
}

/// All that is in a pack that came whole.
fn objects_in(got: &Got) -> BTreeSet<String> {
    let Got::Whole(pack) = got else { panic!("it did not come") };
    objects_in_pack(Git::stock(), pack, HashKind::Sha1, None)
}

/// How running clones need a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needed {
    /// Its bytes are sent.
    AsContent,
    /// Nothing is found without it.
    AsOnlyWay,
    /// Without it there is another way.
    AsHelp,
    /// By those who ask for refs.
    No,
}

/// A repository of which a file breaks, and its clients.
struct Running {
    what: String,
    name: String,
    at: At,
    file: PathBuf,
    fault: Fault,
    is_needed: Needed,
    refs: Got,
    whole: Got,
    clients: [Client; 2],
    session: Client,
    main: String,
}

/// One of each kind, with a large file each.
fn build_models(folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    let storage = |multi_pack_index, packs| Storage { packs, multi_pack_index, ..Storage::default() };
    for (name, format, storage) in [
        ("files", RefFormat::Files, storage(false, 1)),
        ("multi", RefFormat::Files, storage(true, 3)),
        ("tables", RefFormat::Reftable, storage(false, 1)),
    ] {
        let repo = folder.join(name);
        RepoBuilder::new(Size::Tiny).ref_format(format).storage(storage).build_at(&repo, Git::stock());
        add_large_file(&repo, 1, RUNNING_FILE_BYTES);
        let git = |args: &[&str]| drop(Git::stock().run(&repo, args));
        match name {
            "multi" => {
                git(&["repack", "-dq"]);
                git(&["multi-pack-index", "write", "--bitmap"]);
            }
            _ => git(&["repack", "-adbq"]),
        }
        git(&["commit-graph", "write", "--reachable"]);
        git(&["pack-refs", "--all"]);
    }
}

/// The same repository again, at the cost of its names.
fn link_all(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match from.is_dir() {
            true => link_all(&from, &to),
            false => std::fs::hard_link(&from, &to).unwrap(),
        }
    }
}
