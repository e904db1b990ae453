//! Every byte of a file of refs flipped, every length cut: an error that names the file, or an answer that git gives too.
//!
//! `packed-refs`, loose refs and blocks of refs in a reftable have no checksum: another hex digit there is another object, and
//! another letter another ref. Nobody can tell, git included, so what differs is compared with what git says.

use std::path::Path;

use packrace_object::{HashKind, ObjectId};
use packrace_store::refs::{PrepareError, RefChange, RefEdit, Value};
use packrace_testkit::{Extent, RefFormat, sampled};

use super::world::{LIST, World, edit, listed};

const FLIPS: [u8; 3] = [0x01, 0x20, 0xff];

/// So many damages of a file are a sample.
const SAMPLE: usize = 150;

/// What became of the damages of a file.
#[derive(Debug, Default)]
struct Figures {
    errors: usize,
    /// Nothing else is seen than before.
    same: usize,
    /// Something else, as by git.
    other: usize,
}

fn world(format: RefFormat) -> World {
    let mut world = World::new(format, HashKind::Sha1);
    let root = world.root.clone();
    let ids = world.ids.clone();
    let set = |name: &str, id: ObjectId| edit(name, RefChange::Set(id));
    let symbolic = |name: &str, target: &str| edit(name, RefChange::SetSymbolic(target.into()));
    let mut write = |edits: Vec<RefEdit>| world.transact_quickly(&root, edits).unwrap();
    write(vec![
        set("refs/heads/main", ids[0]),
        set("refs/heads/other", ids[1]),
        set("refs/heads/p", ids[1]),
        set("refs/tags/t", ids[4]),
    ]);
    if format == RefFormat::Files {
        assert!(world.git(&root, &["pack-refs", "--all"]).status.success());
        let loose = vec![set("refs/heads/other", ids[2]), symbolic("refs/heads/sym", "refs/heads/other")];
        world.transact_quickly(&root, loose).unwrap();
        return world;
    }
    // A stack of three tables, of which none is too small for the next.
    write((0..40).map(|number| set(&format!("refs/heads/many/{number}"), ids[0])).collect());
    write(vec![
        set("refs/heads/other", ids[2]),
        symbolic("refs/heads/sym", "refs/heads/other"),
        set("refs/x", ids[3]),
    ]);
    write(vec![edit("refs/heads/p", RefChange::Delete)]);
    world
}

/// Damages a file in every way, and looks at the refs each time.
fn check_file(extent: Extent, world: &mut World, name: &Path) -> Figures {
    let path = world.root.join(name);
    let intact = std::fs::read(&path).unwrap();
    let right = world.records(&world.root).unwrap();
    let mut figures = Figures::default();
    let flipped = (0..intact.len()).flat_map(|at| {
        let intact = &intact;
        FLIPS.into_iter().map(move |flip| {
            let mut bytes = intact.clone();
            bytes[at] ^= flip;
            (format!("{} flipped by {flip:#x} at {at}", name.display()), bytes)
        })
    });
    let cut = (0..intact.len())
        .map(|length| (format!("{} cut at {length}", name.display()), intact[..length].to_vec()));
    let damages: Vec<_> = flipped.chain(cut).collect();
    for (what, bytes) in damages.iter().step_by(extent.step(damages.len(), SAMPLE)) {
        std::fs::write(&path, bytes).unwrap();
        look(world, &right, &path, what, &mut figures);
    }
    std::fs::write(&path, &intact).unwrap();
    assert_eq!(world.records(&world.root).unwrap(), right);
    println!("{}: {figures:?}", name.display());
    figures
}

fn look(world: &mut World, right: &[(Vec<u8>, Value)], path: &Path, what: &str, figures: &mut Figures) {
    let root = world.root.clone();
    match world.records(&root) {
        Err(text) => {
            assert!(names(&text, path), "{what}: {text}");
            figures.errors += 1;
        }
        Ok(refs) if refs == right => figures.same += 1,
        Ok(refs) => {
            let theirs = world.git(&root, &LIST);
            let (said, theirs) =
                [theirs.stderr, theirs.stdout].map(|text| String::from_utf8_lossy(&text).into_owned()).into();
            let ours = listed(&refs);
            let [ours, theirs] = [&ours, &theirs].map(|listing| comparable(listing, path));
            assert_eq!(ours, theirs, "{what}: {said}");
            figures.other += 1;
        }
    }
    for (name, value) in right {
        let Value::Id(id) = value else { continue };
        let name = std::str::from_utf8(name).unwrap();
        match world.can_change(&root, name, *id) {
            Ok(()) | Err(PrepareError::Refused(_)) => {}
            Err(error) => assert!(names(&error.to_string(), path), "{what}: {error}"),
        }
    }
}

/// Whether an error names the damaged file, or, where that is a list of tables, the table that is not there.
fn names(text: &str, path: &Path) -> bool {
    let named = if path.ends_with("tables.list") { path.parent().unwrap() } else { path };
    text.contains(named.to_str().unwrap())
}

/// Refs in `packed-refs` that are not below `refs/` are seen on the way, or not. And whether git lists `HEAD`, for which it
/// searches, depends on where it comes by in a file whose order is damaged, as does whether a packed ref is listed behind
/// the loose one of the same name.
fn comparable<'l>(listing: &'l str, path: &Path) -> Vec<&'l str> {
    let is_packed = path.ends_with("packed-refs");
    let is_compared = |line: &&str| line.starts_with("refs/") || !is_packed && line.starts_with("HEAD ");
    let mut lines: Vec<&str> = listing.lines().filter(is_compared).collect();
    lines.dedup_by_key(|line| line.split(' ').next());
    lines
}

sampled! {
    fn of_files(extent) {
        let mut world = world(RefFormat::Files);
        let packed = check_file(extent, &mut world, Path::new("packed-refs"));
        let [errors, other] = extent.pick([30, 10], [500, 200]);
        assert!(packed.errors > errors && packed.other > other, "{packed:?}");
        for name in ["refs/heads/other", "refs/heads/sym"] {
            // Nothing is listed of a broken one, not even what is packed under its name.
            let loose = check_file(extent, &mut world, Path::new(name));
            assert!(loose.errors == 0 && loose.other > extent.pick(25, 80), "{loose:?}");
        }
    }
}

sampled! {
    fn of_reftables(extent) {
        let mut world = world(RefFormat::Reftable);
        let list = std::fs::read_to_string(world.root.join("reftable/tables.list")).unwrap();
        let tables: Vec<&str> = list.lines().collect();
        assert_eq!(tables.len(), 3, "{list}");
        let list = check_file(extent, &mut world, Path::new("reftable/tables.list"));
        assert!(list.errors > extent.pick(100, 500) && list.other < 10, "{list:?}");
        let table = check_file(extent, &mut world, &Path::new("reftable").join(tables[1]));
        assert!(table.errors > extent.pick(60, 600) && table.errors > 2 * table.other, "{table:?}");
    }
}
