//! What is no transaction: refs are packed and renamed, reflogs are rewritten, and the machine stops meanwhile.

use std::collections::{BTreeMap, HashSet};

use packrace_object::HashKind;
use packrace_os::simulated::{DiskState, recorded};
use packrace_store::refs::{
    LogEdit, LoggedChange, PackRefs, PrepareError, RefChange, RefStore, RefWrites, StoredObjects, Value,
};
use packrace_testkit::{Extent, RefFormat, sampled};

use super::matrix::{remove_locks, show};
use super::world::{View, World, edit};

/// How many states a crash may leave behind one change.
const MAX_STATES: usize = 60;

/// One state in so many is shown to git.
const GIT_STEP: usize = 10;

type Work<'a> = &'a dyn Fn(&RefStore, &RefWrites, &mut StoredObjects) -> Result<(), PrepareError>;

/// What a crash may leave of refs and reflogs, given those before, those afterwards and those found.
type Rule<'a> = &'a dyn Fn(&View, &View, &View) -> Result<(), String>;

/// Packed refs and loose ones, or several tables, with reflogs.
fn prepare(world: &mut World) {
    let (root, ids) = (world.root.clone(), world.ids.clone());
    let set = |name: &str, at: usize| edit(name, RefChange::Set(ids[at]));
    let mut first = vec![
        set("refs/heads/main", 0),
        set("refs/heads/p", 1),
        set("refs/tags/both", 4),
        set("refs/tags/heavy", 4),
    ];
    first.extend((0..6).map(|number| set(&format!("refs/heads/old/{number}"), number % 4)));
    world.transact_quickly(&root, first).unwrap();
    if world.format == RefFormat::Files {
        assert!(world.git(&root, &["pack-refs", "--all"]).status.success());
    }
    let second = vec![
        set("refs/heads/main", 1),
        set("refs/heads/d/e/l", 1),
        set("refs/tags/both", 2),
        set("refs/heads/l", 2),
        set("refs/bisect/bad", 0),
        edit("refs/heads/sym", RefChange::SetSymbolic(b"refs/heads/p".to_vec())),
    ];
    world.transact_quickly(&root, second).unwrap();
    world.transact_quickly(&root, vec![set("refs/heads/main", 2)]).unwrap();
}

/// A sample has one state in so many, and fewer of them are shown to git.
const SAMPLE_STEP: usize = 9;

/// Does `work` and looks at every state that a crash may leave.
fn check_work(
    extent: Extent,
    (format, hash): (RefFormat, HashKind),
    name: &str,
    work: Work<'_>,
    rule: Rule<'_>,
) {
    let mut world = World::new(format, hash);
    prepare(&mut world);
    let (root, copy) = (world.root.clone(), world.copy.clone());
    let before = world.view(&root).unwrap();
    let (store, mut objects) = (world.store(&root), world.objects());
    let (done, recording) = recorded(&root, || work(&store, &world.writes, &mut objects)).unwrap();
    done.unwrap();
    let after = world.view(&root).unwrap();
    assert_eq!(recording.killed(recording.changes().len()), DiskState::of(&root).unwrap());
    let mut seen = HashSet::new();
    let (mut number, step) = (0, extent.pick(SAMPLE_STEP, 1));
    for done in 0..=recording.changes().len() {
        let is_acknowledged = done == recording.changes().len();
        for state in recording.crashed(done, MAX_STATES) {
            if !seen.insert(state.clone()) && !is_acknowledged {
                continue;
            }
            number += 1;
            if number % step != 0 {
                continue;
            }
            let change = recording.changes()[..done].last();
            let what = format!("{name} ({format:?}), state {} after {done} {change:?}", seen.len());
            state.lay_out(&copy).unwrap();
            let mut view =
                world.view(&copy).unwrap_or_else(|error| panic!("{what}: {error}\n{}", show(&state)));
            // The lock of a reflog is beside it.
            view.logs.retain(|name, _| !name.ends_with(b".lock"));
            if let Err(words) = rule(&before, &after, &view) {
                panic!("{what}: {words}\n{}", show(&state));
            }
            assert!(!is_acknowledged || view.refs == after.refs, "{what}: lost\n{}", show(&state));
            if number % (step * GIT_STEP) == 0 {
                world.check_with_git(&copy, &view, &what);
            }
            go_on(&mut world, &view, &what);
        }
    }
    println!("{format:?} {hash:?} {name}: {} changes, {} states", recording.changes().len(), seen.len());
    assert!(seen.len() > 5, "{name}");
}

/// Refs can be changed and packed afterwards.
fn go_on(world: &mut World, view: &View, what: &str) {
    let copy = world.copy.clone();
    remove_locks(&DiskState::of(&copy).unwrap(), &copy);
    let (id, mut expect) = (world.ids[3], view.refs.clone());
    let names = ["refs/heads/main", "refs/heads/d/next", "refs/tags/both"];
    let edits = names.map(|name| edit(name, RefChange::Set(id))).to_vec();
    world.transact_quickly(&copy, edits).unwrap_or_else(|error| panic!("{what}: next: {error}"));
    expect.extend(names.map(|name| (name.as_bytes().to_vec(), Value::Id(id))));
    assert_eq!(world.view(&copy).unwrap().refs, expect, "{what}");
    pack(true)(&world.store(&copy), &world.writes, &mut world.objects())
        .unwrap_or_else(|error| panic!("{what}: packing: {error}"));
    assert_eq!(world.view(&copy).unwrap().refs, expect, "{what}");
}

fn pack(prunes: bool) -> impl Fn(&RefStore, &RefWrites, &mut StoredObjects) -> Result<(), PrepareError> {
    move |store, writes, objects| {
        let which = PackRefs { is_wanted: &|_| true, prunes, is_auto: false, tells_kept: false };
        store.pack(&which, writes, objects)
    }
}

fn rename<'a>(
    old: &'a str,
    new: &'a str,
) -> impl Fn(&RefStore, &RefWrites, &mut StoredObjects) -> Result<(), PrepareError> + 'a {
    move |store, writes, objects| store.rename(old.as_bytes(), new.as_bytes(), b"renamed", writes, objects)
}

fn edit_log<'a>(
    name: &'a str,
    to: impl Fn(&[LoggedChange]) -> LogEdit + 'a,
) -> impl Fn(&RefStore, &RefWrites, &mut StoredObjects) -> Result<(), PrepareError> + 'a {
    move |store, writes, _| {
        store.edit_log(name.as_bytes(), writes, &mut |log| to(log.expect("there is a reflog")))
    }
}

fn is_whole(before: &View, after: &View, found: &View) -> Result<(), String> {
    let is = |view: &View| found.refs == view.refs && found.logs == view.logs;
    if is(before) || is(after) { Ok(()) } else { Err(format!("neither nor: {found:?}")) }
}

/// Every ref and every reflog for itself is as before or as afterwards.
fn is_each(before: &View, after: &View, found: &View) -> Result<(), String> {
    each_of(&before.refs, &after.refs, &found.refs)?;
    each_of(&before.logs, &after.logs, &found.logs)
}

fn each_of<V: PartialEq + std::fmt::Debug>(
    before: &BTreeMap<Vec<u8>, V>,
    after: &BTreeMap<Vec<u8>, V>,
    found: &BTreeMap<Vec<u8>, V>,
) -> Result<(), String> {
    for name in before.keys().chain(after.keys()).chain(found.keys()) {
        let [was, will_be, is] = [before, after, found].map(|all| all.get(name));
        if is != was && is != will_be {
            return Err(format!("{}: {is:?}", String::from_utf8_lossy(name)));
        }
    }
    Ok(())
}

fn rule_of(format: RefFormat) -> Rule<'static> {
    if format == RefFormat::Files { &is_each } else { &is_whole }
}

const FORMATS: [(RefFormat, HashKind); 3] = [
    (RefFormat::Files, HashKind::Sha1),
    (RefFormat::Reftable, HashKind::Sha1),
    (RefFormat::Files, HashKind::Sha256),
];

sampled! {
    fn packing_loses_nothing(extent) {
        let is_same = |before: &View, _: &View, found: &View| match () {
            () if found.refs != before.refs => Err(format!("refs: {:?}", found.refs)),
            () if found.logs != before.logs => Err(format!("logs: {:?}", found.logs)),
            () => Ok(()),
        };
        for (format, hash) in FORMATS {
            check_work(extent, (format, hash), "packing", &pack(true), &is_same);
            check_work(extent, (format, hash), "packing without pruning", &pack(false), &is_same);
        }
    }
}

sampled! {
    fn a_rename_loses_no_value(extent) {
        for (format, hash) in FORMATS {
            for (old, new) in [("refs/heads/l", "refs/heads/n/e/w"), ("refs/heads/p", "refs/heads/q")] {
                let has_one = |before: &View, after: &View, found: &View| {
                    rule_of(format)(before, after, found)?;
                    let [old, new] = [old, new].map(|name| name.as_bytes().to_vec());
                    match (found.refs.get(&old), found.refs.get(&new)) {
                        (None, None) => Err("none of both names".to_owned()),
                        (None, Some(_)) if found.logs.get(&new) != after.logs.get(&new) => {
                            Err("no reflog".to_owned())
                        }
                        (Some(_), None) if found.logs.get(&old) != before.logs.get(&old) => {
                            Err("the reflog is gone before the ref".to_owned())
                        }
                        _ => Ok(()),
                    }
                };
                check_work(extent, (format, hash), &format!("{old} becomes {new}"), &rename(old, new), &has_one);
            }
            for (old, new) in [("refs/heads/d/e/l", "refs/heads/d/e"), ("refs/heads/l", "refs/heads/l/o/w")] {
                let name = format!("{old} becomes {new}");
                check_work(extent, (format, hash), &name, &rename(old, new), rule_of(format));
            }
        }
    }
}

sampled! {
    fn reflogs_are_rewritten_whole(extent) {
        for (format, hash) in FORMATS {
            let replace = |log: &[LoggedChange], value| {
                let changes = log[log.len() - 1..].to_vec();
                LogEdit::Replace { changes, value }
            };
            let id = World::new(format, hash).ids[1];
            let main = "refs/heads/main";
            let work = edit_log(main, |log| replace(log, Some(id)));
            check_work(extent, (format, hash), "a reflog gets shorter and its ref another value", &work, rule_of(format));
            let work = edit_log(main, |log| replace(log, None));
            check_work(extent, (format, hash), "a reflog gets shorter", &work, rule_of(format));
            let empty = |_: &[LoggedChange]| LogEdit::Replace { changes: Vec::new(), value: None };
            check_work(extent, (format, hash), "a reflog gets empty", &edit_log("refs/heads/l", empty), rule_of(format));
            let work = edit_log("refs/heads/d/e/l", |_| LogEdit::Drop);
            check_work(extent, (format, hash), "a reflog goes", &work, rule_of(format));
        }
    }
}
