//! The crash matrix: behind every change, every state that the disk may show.

use std::collections::{HashMap, HashSet};

use packrace_object::HashKind;
use packrace_os::simulated::{DiskState, Recording, changes_so_far, recorded};
use packrace_store::refs::{Expected, RefChange, RefEdit, Value};
use packrace_testkit::{Extent, RefFormat, sampled};

use super::cases::{Case, large, small};
use super::world::{View, World, edit};

/// A sample of a case has so many states, all of its kinds of crash points among them.
const SAMPLE: usize = 60;

/// So many states of a case stock git is shown too, chosen evenly among those that are looked at; of a sample fewer.
const MAX_GIT_STATES: usize = 30;
const GIT_SAMPLE: usize = 3;

/// So many of the refs that a case changed are changed again in each state.
const MAX_NEXT: usize = 6;

/// What a case came to.
#[derive(Debug, Default)]
struct Figures {
    crash_points: usize,
    states: usize,
    different: usize,
    with_git: usize,
}

/// What a case does, and what there is to see between its transactions.
pub struct Run {
    pub recording: Recording,
    /// Before the first transaction, and after each.
    pub views: Vec<View>,
    /// By how many changes each was made.
    pub ends: Vec<usize>,
}

pub fn run(world: &mut World, case: &Case, is_durable: bool) -> Run {
    case.prepare(world);
    let root = world.root.clone();
    let mut views = vec![world.view(&root).unwrap()];
    let mut ends = Vec::new();
    let transactions = || {
        for edits in &case.run {
            let done = match is_durable {
                true => world.transact(&root, edits.clone()),
                false => world.transact_quickly(&root, edits.clone()),
            };
            done.unwrap();
            ends.push(changes_so_far());
            views.push(world.view(&root).unwrap());
        }
    };
    let ((), recording) = recorded(&root, transactions).unwrap();
    assert_eq!(recording.killed(recording.changes().len()), DiskState::of(&root).unwrap());
    Run { recording, views, ends }
}

fn check_case(extent: Extent, format: RefFormat, hash: HashKind, choose: impl Fn(&World) -> Case) -> Figures {
    let mut world = World::new(format, hash);
    let case = choose(&world);
    let run = run(&mut world, &case, true);
    let mut figures = Figures::default();
    // In the order in which they were found, with the number of transactions that are acknowledged.
    let mut different: Vec<(DiskState, usize, usize)> = Vec::new();
    let mut seen: HashMap<usize, HashSet<DiskState>> = HashMap::new();
    for done in 0..=run.recording.changes().len() {
        let acknowledged = run.ends.iter().filter(|end| **end <= done).count();
        figures.crash_points += 1;
        for state in run.recording.crashed(done, case.max_states) {
            figures.states += 1;
            if seen.entry(acknowledged).or_default().insert(state.clone()) {
                different.push((state, done, acknowledged));
            }
        }
    }
    figures.different = different.len();
    let step = extent.step(different.len(), SAMPLE);
    let max_with_git = extent.pick(GIT_SAMPLE, MAX_GIT_STATES);
    let git_step = different.len().div_ceil(step).div_ceil(max_with_git) * step;
    for (number, (state, done, acknowledged)) in different.iter().enumerate().step_by(step) {
        let after = run.recording.changes()[..*done].last();
        let what = format!("{} ({format:?}), state {number} after {done} {after:?}", case.name);
        state.lay_out(&world.copy).unwrap();
        let view = check_state(&world, &run, state, *acknowledged, &what);
        if number % git_step == 0 {
            world.check_with_git(&world.copy, &view, &what);
            figures.with_git += 1;
        }
        check_next(&mut world, &case, &view, &what);
    }
    assert!((1..=max_with_git).contains(&figures.with_git));
    println!("{format:?} {hash:?} {}: {figures:?}", case.name);
    figures
}

/// The refs are as they were before the transaction that was not acknowledged, or as after it.
fn check_state(world: &World, run: &Run, state: &DiskState, acknowledged: usize, what: &str) -> View {
    let old = &run.views[acknowledged];
    let new = run.views.get(acknowledged + 1).unwrap_or(old);
    let view = check_refs(world, state, old, new, what);
    // Reflogs are not synced, but what is appended does no harm to what was there.
    let is_kept = |name: &&Vec<u8>| run.views.iter().all(|view| view.logs.contains_key(*name));
    let first = &run.views[0].logs;
    for name in first.keys().filter(is_kept).filter(|_| world.format == RefFormat::Files) {
        let log = view.logs.get(name);
        let name_text = String::from_utf8_lossy(name);
        assert!(log.is_some_and(|log| log.starts_with(&first[name])), "{what}: log {name_text}");
    }
    view
}

/// Every ref is old or new, those in one file together.
pub fn check_refs(world: &World, state: &DiskState, old: &View, new: &View, what: &str) -> View {
    let view = world.view(&world.copy).unwrap_or_else(|error| panic!("{what}: {error}\n{}", show(state)));
    if world.format == RefFormat::Reftable {
        assert!(
            view == *old || view == *new,
            "{what}: {view:?}\nis neither\n{old:?}\nnor\n{new:?}\n{}",
            show(state)
        );
        return view;
    }
    let names = [&view, old, new].into_iter().flat_map(|view| view.refs.keys());
    for name in names {
        let [is, was, will_be] = [&view, old, new].map(|view| view.refs.get(name));
        let name = String::from_utf8_lossy(name);
        assert!(
            is == was || is == will_be,
            "{what}: {name} is {is:?}, neither {was:?} nor {will_be:?}\n{}",
            show(state)
        );
    }
    assert!(view.packed == old.packed || view.packed == new.packed, "{what}: packed-refs\n{}", show(state));
    for (name, content) in state.entries() {
        let name = name.to_str().unwrap();
        let is_ref = (name == "HEAD" || name.starts_with("refs/")) && !name.ends_with(".lock");
        if let (true, Some(content)) = (is_ref, content) {
            let is_whole = content.ends_with(b"\n") && !content.contains(&0);
            assert!(is_whole, "{what}: {name} is broken\n{}", show(state));
        }
    }
    view
}

/// Once the locks of who was killed are away, refs can be changed and deleted.
pub fn check_next(world: &mut World, case: &Case, view: &View, what: &str) {
    let copy = world.copy.clone();
    remove_locks(&DiskState::of(&copy).unwrap(), &copy);
    let is_in_the_way = |name: &[u8], other: &[u8]| {
        let is_above =
            |above: &[u8], below: &[u8]| below.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/"));
        is_above(name, other) || is_above(other, name)
    };
    let mut names: Vec<Vec<u8>> = Vec::new();
    let touched = case.touched();
    for name in touched.iter().step_by(touched.len().div_ceil(MAX_NEXT)).cloned() {
        let mut others = view.refs.keys().chain(&names);
        if !others.any(|other| is_in_the_way(&name, other)) {
            names.push(name);
        }
    }
    assert!(!names.is_empty(), "{what}");
    let (id, mut expect) = (world.ids[3], view.refs.clone());
    let edits = |change: RefChange, expected: Expected| -> Vec<RefEdit> {
        let edit = |name: &Vec<u8>| edit(std::str::from_utf8(name).unwrap(), change.clone());
        names.iter().map(edit).map(|edit| RefEdit { expected: expected.clone(), ..edit }).collect()
    };
    world
        .transact_quickly(&copy, edits(RefChange::Set(id), Expected::Any))
        .unwrap_or_else(|error| panic!("{what}: next: {error}"));
    expect.extend(names.iter().map(|name| (name.clone(), Value::Id(id))));
    assert_eq!(world.view(&copy).unwrap().refs, expect, "{what}");
    world
        .transact_quickly(&copy, edits(RefChange::Delete, Expected::Id(id)))
        .unwrap_or_else(|error| panic!("{what}: deletion: {error}"));
    names.iter().for_each(|name| drop(expect.remove(name)));
    assert_eq!(world.view(&copy).unwrap().refs, expect, "{what}");
}

/// Removes all lock files, and says how many there were.
pub fn remove_locks(state: &DiskState, dir: &std::path::Path) -> usize {
    let names = state.entries().map(|(name, _)| name);
    let locks: Vec<_> =
        names.filter(|name| name.extension().is_some_and(|extension| extension == "lock")).collect();
    locks.iter().for_each(|name| std::fs::remove_file(dir.join(name)).unwrap());
    locks.len()
}

pub fn show(state: &DiskState) -> String {
    let line = |(name, content): (&std::path::Path, Option<&[u8]>)| match content {
        None => format!("{}/", name.display()),
        Some(bytes) if bytes.len() < 600 => format!("{}: {}", name.display(), bytes.escape_ascii()),
        Some(bytes) => format!("{}: {} bytes", name.display(), bytes.len()),
    };
    state.entries().map(line).collect::<Vec<_>>().join("\n")
}

/// Runs all cases of a kind and says how many different states there were at least.
fn check_all(
    extent: Extent,
    format: RefFormat,
    hash: HashKind,
    cases: fn(&[packrace_object::ObjectId]) -> Vec<Case>,
    least: usize,
) {
    let count = cases(&World::new(format, hash).ids).len();
    let figures = (0..count)
        .map(|number| check_case(extent, format, hash, |world| cases(&world.ids).swap_remove(number)));
    let different: usize = figures.map(|figures| figures.different).sum();
    assert!(different >= least, "only {different} states");
}

sampled! {
    fn small_transactions_on_files(extent) {
        check_all(extent, RefFormat::Files, HashKind::Sha1, small, 4_000);
    }
}

sampled! {
    fn large_transactions_on_files(extent) {
        check_all(extent, RefFormat::Files, HashKind::Sha1, large, 1_800);
    }
}

sampled! {
    fn small_transactions_on_reftables(extent) {
        check_all(extent, RefFormat::Reftable, HashKind::Sha1, small, 2_000);
    }
}

sampled! {
    fn large_transactions_on_reftables(extent) {
        check_all(extent, RefFormat::Reftable, HashKind::Sha1, large, 350);
    }
}

sampled! {
    fn sha256(extent) {
        for format in [RefFormat::Files, RefFormat::Reftable] {
            check_case(extent, format, HashKind::Sha256, |world| small(&world.ids).swap_remove(2));
        }
    }
}

sampled! {
    /// Where `core.fsync` says that nothing is synced, a crash may leave of new refs what it likes, but a kill may not.
    fn kills_where_nothing_is_synced(extent) {
        for format in [RefFormat::Files, RefFormat::Reftable] {
            for cases in [small, large] {
                for number in 0..cases(&World::new(format, HashKind::Sha1).ids).len() {
                    let mut world = World::new(format, HashKind::Sha1);
                    let case = cases(&world.ids).swap_remove(number);
                    let run = run(&mut world, &case, false);
                    let count = run.recording.changes().len();
                    for done in (0..=count).step_by(extent.step(count, 20)) {
                        let acknowledged = run.ends.iter().filter(|end| **end <= done).count();
                        let what = format!("{} ({format:?}), killed after {done}", case.name);
                        let state = run.recording.killed(done);
                        state.lay_out(&world.copy).unwrap();
                        let view = check_state(&world, &run, &state, acknowledged, &what);
                        check_next(&mut world, &case, &view, &what);
                    }
                }
            }
        }
    }
}
