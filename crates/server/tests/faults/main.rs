//! Files of a repository that are cut off, written over, replaced or cannot be read, while clients are served: who needs them
//! is told, everybody else notices nothing, and the process lives.

mod breaking;
mod clients;
mod pushes;
mod running;
#[path = "../served/mod.rs"]
mod served;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use packrace_object::HashKind;
use packrace_testkit::received::objects_in_pack;
use packrace_testkit::{Bitmap, Git, GraphLayout, RefFormat, RepoBuilder, Size, Storage, reachable_objects};

use breaking::{Broken, FAULTS, Fault, file};
use clients::{At, Got, PATIENCE, Server};

/// Held by each test: damage is counted for the whole process, and a test that counts must not see another's.
fn damage_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn main_of(repo: &Path) -> String {
    Git::stock().run(repo, &["rev-parse", "main"]).trim().to_owned()
}

/// Tries until it comes whole: what is mended in place may look damaged for one more.
#[track_caller]
fn recovers(what: &str, mut attempt: impl FnMut() -> Got) -> Vec<u8> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Got::Whole(bytes) = attempt() {
            return bytes;
        }
        assert!(Instant::now() < end, "{what}: never whole again");
    }
}

/// Each file of each kind of repository, each fault: while the repository is kept open, and opened anew. What a client gets is
/// right or an error; another repository is served all the time.
#[test]
fn what_needs_a_broken_file_fails_and_nothing_else() {
    let _turn = damage_turn();
    let server = Server::new();
    let storage = |multi_pack_index, packs| Storage {
        packs,
        multi_pack_index,
        bitmap: Bitmap::Plain,
        commit_graph: GraphLayout::Single,
        ..Storage::default()
    };
    let build = |name: &str, format, storage| {
        RepoBuilder::new(Size::Tiny)
            .ref_format(format)
            .storage(storage)
            .build_at(&server.path(name), Git::stock());
    };
    build("files.git", RefFormat::Files, storage(false, 1));
    build("multi.git", RefFormat::Files, storage(true, 3));
    build("tables.git", RefFormat::Reftable, storage(false, 1));
    build("well.git", RefFormat::Files, storage(false, 1));
    let well = server.path("well.git");
    let well_main = main_of(&well);
    let Got::Whole(expected) = server.clone(At::Git, "well.git", &well_main) else { panic!("it is well") };
    let pack = "objects/pack";
    for (name, folder, end) in [
        ("files.git", pack, ".pack"),
        ("files.git", pack, ".idx"),
        ("files.git", pack, ".rev"),
        ("files.git", pack, ".bitmap"),
        ("files.git", "objects/info", "commit-graph"),
        ("files.git", ".", "packed-refs"),
        ("multi.git", pack, "multi-pack-index"),
        ("multi.git", pack, ".pack"),
        ("multi.git", pack, ".bitmap"),
        ("tables.git", "reftable", ".ref"),
    ] {
        let repo = server.path(name);
        let (path, main) = (file(&repo, folder, end), main_of(&repo));
        let whole = |got: Got| if let Got::Whole(bytes) = got { bytes } else { panic!("{name} is well") };
        let refs = whole(server.refs(At::Git, name));
        let objects = Git::stock().run(&repo, &["rev-list", "--objects", "--no-object-names", "main"]);
        let objects: BTreeSet<String> = objects.lines().map(str::to_owned).collect();
        // Tags come with what they tag.
        let all = reachable_objects(Git::stock(), &repo);
        for (number, fault) in FAULTS.into_iter().enumerate() {
            let at = if number % 2 == 0 { At::Git } else { At::Http };
            let what = format!("{name} {end} {fault:?} {at:?}");
            // Now it is open, all of it is mapped, and its pack is kept.
            let good = recovers(&what, || server.clone(at, name, &main));
            let broken = Broken::new(&path, fault);
            let mut failures = 0;
            for _ in 0..2 {
                match server.clone(at, name, &main) {
                    Got::Whole(pack) if pack == good => {}
                    Got::Whole(pack) => {
                        let got = objects_in_pack(Git::stock(), &pack, HashKind::Sha1, None);
                        assert!(got.is_superset(&objects) && got.is_subset(&all), "{what}");
                    }
                    Got::Failed => failures += 1,
                }
                // Of an emptied list of refs nobody can tell that it was not empty before.
                if let Got::Whole(told) = server.refs(at, name)
                    && (end, fault) != ("packed-refs", Fault::Emptied)
                {
                    assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(&refs), "{what}");
                }
            }
            // Nothing takes the place of the only pack.
            if (name, end) == ("files.git", ".pack") {
                assert_eq!(failures, 2, "{what}");
            }
            assert_eq!(server.clone(at, "well.git", &well_main), Got::Whole(expected.clone()), "{what}");
            broken.mend();
            let after = recovers(&what, || server.clone(at, name, &main));
            if after != good {
                objects_in_pack(Git::stock(), &after, HashKind::Sha1, None);
            }
            assert_eq!(recovers(&what, || server.refs(at, name)), refs, "{what}");
        }
    }
}
