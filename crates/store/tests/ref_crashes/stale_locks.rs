//! A process that is killed leaves its locks. Who comes next says what git says, and goes on once they are removed.

use std::path::Path;

use packrace_object::HashKind;
use packrace_os::simulated::DiskState;
use packrace_store::refs::{RefChange, RefEdit};
use packrace_testkit::{Extent, Git, RefFormat, in_newest_words, sampled};

use super::cases::{Case, small};
use super::matrix::{remove_locks, run};
use super::world::World;

fn script(edits: &[RefEdit]) -> String {
    let line = |edit: &RefEdit| {
        let name = String::from_utf8_lossy(&edit.name);
        let option = if edit.deref { "" } else { "option no-deref\n" };
        match &edit.change {
            RefChange::Verify => unreachable!("no case has it"),
            RefChange::Set(id) => format!("{option}update {name} {id}\n"),
            RefChange::SetSymbolic(target) => {
                format!("{option}symref-update {name} {}\n", String::from_utf8_lossy(target))
            }
            RefChange::Delete => format!("{option}delete {name}\n"),
        }
    };
    edits.iter().map(line).collect()
}

fn git(world: &World, edits: &[RefEdit]) -> Result<(), String> {
    use std::io::Write as _;
    let mut command = Git::stock().command(world.root.parent().unwrap());
    let patience = ["core.filesRefLockTimeout=0", "core.packedRefsTimeout=0", "reftable.lockTimeout=0"];
    command.args(patience.iter().flat_map(|setting| ["-c", setting]));
    command.arg("--git-dir").arg(&world.copy).args(["update-ref", "--stdin"]);
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script(edits).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = in_newest_words(&String::from_utf8(output.stderr).unwrap());
    let text = text.trim_end().strip_prefix("fatal: ").unwrap_or(&text);
    // Git 2.47 names `HEAD`, which is locked for its reflog; git 2.55 names the branch that is changed.
    let text = match edits.iter().any(|edit| edit.name == b"HEAD") {
        true => text.to_owned(),
        false => text.replace("cannot lock ref 'HEAD'", "cannot lock ref 'refs/heads/main'"),
    };
    if output.status.success() { Ok(()) } else { Err(text) }
}

/// All but directories, which are made for locks.
fn files(state: &DiskState) -> Vec<(&Path, Option<&[u8]>)> {
    state.entries().filter(|(_, content)| content.is_some()).collect()
}

/// Makes the transaction that a kill has interrupted again: by git and by us. Gives how often both were refused.
fn check_case(extent: Extent, world: &mut World, case: &Case) -> usize {
    let run = run(world, case, true);
    let copy = world.copy.clone();
    let mut refused = 0;
    let count = run.recording.changes().len();
    for done in (0..=count).step_by(extent.step(count, 6)) {
        let number = run.ends.iter().filter(|end| **end <= done).count();
        let Some(edits) = case.run.get(number) else { continue };
        let what = format!("{} ({:?}), killed after {done}", case.name, world.format);
        let state = run.recording.killed(done);
        state.lay_out(&copy).unwrap();
        let theirs = git(world, edits);
        state.lay_out(&copy).unwrap();
        let ours = world.transact_quickly(&copy, edits.clone());
        assert_eq!(ours, theirs, "{what}");
        if ours.is_err() {
            refused += 1;
            assert_eq!(files(&DiskState::of(&copy).unwrap()), files(&state), "{what}: nothing is changed");
        }
        remove_locks(&DiskState::of(&copy).unwrap(), &copy);
        world.transact_quickly(&copy, edits.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(world.view(&copy).unwrap().refs, run.views[number + 1].refs, "{what}");
    }
    refused
}

fn check(extent: Extent, format: RefFormat) {
    let mut refused = 0;
    for number in 0..small(&World::new(format, HashKind::Sha1).ids).len() {
        let mut world = World::new(format, HashKind::Sha1);
        let case = small(&world.ids).swap_remove(number);
        refused += check_case(extent, &mut world, &case);
    }
    println!("{format:?}: refused {refused} times");
    assert!(refused > extent.pick(5, 50), "{refused}");
}

sampled! {
    fn of_files(extent) {
        check(extent, RefFormat::Files);
    }
}

sampled! {
    fn of_reftables(extent) {
        check(extent, RefFormat::Reftable);
    }
}
