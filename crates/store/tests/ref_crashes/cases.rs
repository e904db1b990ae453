//! Transactions, one after another, each from a repository that is made for it.

use packrace_object::ObjectId;
use packrace_store::refs::{RefChange, RefEdit};

use super::world::{World, edit};

/// A name, and what is done in which order.
pub struct Case {
    pub name: &'static str,
    /// Before the refs are packed.
    packed: Vec<RefEdit>,
    /// After that.
    loose: Vec<RefEdit>,
    /// What is looked at.
    pub run: Vec<Vec<RefEdit>>,
    /// How many states a crash may leave behind one change; see `Recording::crashed`.
    pub max_states: usize,
}

/// So that `packed-refs` is written instead of a file a ref.
const MANY: usize = 34;

impl Case {
    /// Makes what is there before.
    pub fn prepare(&self, world: &mut World) {
        let root = world.root.clone();
        if !self.packed.is_empty() {
            world.transact_quickly(&root, self.packed.clone()).unwrap();
            assert!(world.git(&root, &["pack-refs", "--all"]).status.success());
        }
        if !self.loose.is_empty() {
            world.transact_quickly(&root, self.loose.clone()).unwrap();
        }
    }

    /// All refs that are changed.
    pub fn touched(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = self.run.iter().flatten().map(|edit| edit.name.clone()).collect();
        names.retain(|name| name != b"HEAD");
        names.sort();
        names.dedup();
        names
    }
}

fn set(name: &str, id: ObjectId) -> RefEdit {
    edit(name, RefChange::Set(id))
}

fn delete(name: &str) -> RefEdit {
    edit(name, RefChange::Delete)
}

fn symbolic(name: &str, target: &str) -> RefEdit {
    edit(name, RefChange::SetSymbolic(target.as_bytes().to_vec()))
}

fn many(directory: &str, change: &RefChange) -> Vec<RefEdit> {
    (0..MANY).map(|number| edit(&format!("refs/{directory}/{number}"), change.clone())).collect()
}

/// Those that take few steps.
pub fn small(ids: &[ObjectId]) -> Vec<Case> {
    let through = |name: &str, id| RefEdit { deref: true, ..set(name, id) };
    let main = || vec![set("refs/heads/main", ids[0])];
    vec![
        Case {
            name: "an update",
            packed: main(),
            loose: vec![],
            run: vec![vec![set("refs/heads/main", ids[1])]],
            max_states: 70,
        },
        Case {
            name: "a new ref in new directories, and one beside it",
            packed: vec![],
            loose: main(),
            run: vec![vec![set("refs/heads/new/deep/a", ids[1])], vec![set("refs/heads/new/b", ids[2])]],
            max_states: 70,
        },
        Case {
            name: "refs deleted, of which some are packed and some loose",
            packed: vec![
                set("refs/heads/main", ids[0]),
                set("refs/heads/p", ids[1]),
                set("refs/tags/both", ids[4]),
            ],
            loose: vec![set("refs/heads/d/e/l", ids[1]), set("refs/tags/both", ids[2])],
            run: vec![
                vec![delete("refs/heads/p"), delete("refs/heads/d/e/l"), delete("refs/tags/both")],
                vec![set("refs/heads/d/e/l", ids[2]), set("refs/heads/p", ids[2])],
            ],
            max_states: 70,
        },
        Case {
            name: "symbolic refs",
            packed: main(),
            loose: vec![set("refs/heads/other", ids[1]), symbolic("refs/heads/sym", "refs/heads/other")],
            run: vec![
                vec![symbolic("HEAD", "refs/heads/other"), set("refs/heads/another", ids[2])],
                vec![symbolic("refs/heads/main", "refs/heads/sym")],
                vec![through("HEAD", ids[2])],
                vec![set("HEAD", ids[3])],
            ],
            max_states: 70,
        },
        Case {
            name: "a ref where a directory was, and back",
            packed: vec![set("refs/heads/x/y/z", ids[0])],
            loose: vec![set("refs/heads/d/e/f", ids[0])],
            run: vec![
                vec![delete("refs/heads/d/e/f"), delete("refs/heads/x/y/z")],
                vec![set("refs/heads/d/e", ids[1]), set("refs/heads/x", ids[1])],
                vec![delete("refs/heads/d/e")],
                vec![set("refs/heads/d/e/f", ids[2])],
            ],
            max_states: 50,
        },
        Case {
            name: "one after another, so that tables are compacted",
            packed: vec![set("refs/heads/main", ids[0]), set("refs/tags/t", ids[4])],
            loose: vec![],
            run: (0..6)
                .map(|number| match number {
                    3 => vec![delete("refs/heads/n1"), delete("refs/tags/t")],
                    _ => vec![
                        set(&format!("refs/heads/n{number}"), ids[number % 4]),
                        set("refs/heads/main", ids[number % 4]),
                    ],
                })
                .collect(),
            max_states: 40,
        },
    ]
}

/// Those that take many.
pub fn large(ids: &[ObjectId]) -> Vec<Case> {
    let others = || vec![set("refs/heads/main", ids[0]), set("refs/heads/old/1", ids[0])];
    vec![
        Case {
            name: "many new refs",
            packed: others(),
            loose: vec![set("refs/heads/loose", ids[1])],
            run: vec![
                [
                    many("heads/many", &RefChange::Set(ids[1])),
                    vec![set("refs/heads/loose", ids[2]), delete("refs/heads/old/1")],
                ]
                .concat(),
                many("heads/many", &RefChange::Set(ids[2])),
            ],
            max_states: 40,
        },
        Case {
            name: "many packed refs deleted",
            packed: [others(), many("heads/many", &RefChange::Set(ids[1]))].concat(),
            loose: vec![set("refs/heads/many/3", ids[2])],
            run: vec![many("heads/many", &RefChange::Delete)],
            max_states: 40,
        },
        Case {
            name: "many loose refs changed and deleted",
            packed: others(),
            loose: (0..MANY)
                .flat_map(|number| (number % 2 == 0).then(|| set(&format!("refs/tags/l/{number}"), ids[1])))
                .collect(),
            run: vec![many("tags/l", &RefChange::Set(ids[2])), many("tags/l", &RefChange::Delete)],
            max_states: 12,
        },
    ]
}
