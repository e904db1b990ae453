//! Whether the names of new refs are available: none may be a directory of another (git-check-ref-format, rule 1).

use std::collections::{BTreeMap, HashMap, HashSet};

use super::refusal::FailedStep;
use super::{Cause, Locks, PrepareError, RefStep, TransactionMode};

/// Checks all new names in one sorted pass; a shared directory is looked up once.
///
/// In a batch, edits already in `refused` do not conflict with others, nor does one refused here
/// conflict with later ones. As in git, what shows when files are locked comes first, in the order of the
/// locks; else, of two names the shorter is refused with files, and the earlier edit with reftables.
pub(super) fn conflicts(
    steps: &[RefStep],
    locks: &mut Locks,
    mode: TransactionMode,
    refused: &HashSet<usize>,
) -> Result<Vec<FailedStep>, PrepareError> {
    let mut problems = Vec::new();
    let is_in = |step: &RefStep| !refused.contains(&step.edit);
    let known = steps.iter().enumerate().filter(|(_, step)| is_in(step));
    // Each name, from when it is known, and its step.
    let mut changed: BTreeMap<&[u8], (usize, usize)> =
        known.map(|(at, step)| (step.name.as_slice(), (step.known_from, at))).collect();
    let is_new = |at: &usize| is_in(&steps[*at]) && steps[*at].needs_name();
    let mut created: Vec<usize> = (0..steps.len()).filter(is_new).collect();
    if mode == TransactionMode::Atomic || matches!(locks, Locks::Files(_)) {
        created.sort_by_key(|at| match locks.was_blocked(*at) {
            true => (false, *at, &b""[..]),
            false => (true, 0, steps[*at].name.as_slice()),
        });
    }
    let mut is_ref: HashMap<&[u8], bool> = HashMap::new();
    for at in created {
        let name = steps[at].name.as_slice();
        let before = problems.len();
        let is_at_lock = locks.was_blocked(at);
        // While a batch takes locks, it does not know what comes later.
        let last = if is_at_lock && mode == TransactionMode::Batch { at } else { usize::MAX };
        let is_known = |(from, step): &(usize, usize)| *from <= at && *step <= last;
        let mut add = |cause| problems.push(FailedStep { step: at, cause });
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for directory in slashes.map(|(end, _)| &name[..end]) {
            let exists = match is_ref.get(directory) {
                Some(known) => *known,
                None => {
                    let exists = locks.exists(directory)?;
                    is_ref.insert(directory, exists);
                    exists
                }
            };
            if exists {
                add(locks.conflict(at, name, directory.to_vec()));
            } else if changed.get(directory).is_some_and(|(from, _)| *from <= at) {
                add(Cause::Together { name: name.to_vec(), other: directory.to_vec(), is_at_lock });
            }
        }
        let below = [name, b"/"].concat();
        if let Some(existing) = locks.first_below(name)? {
            add(locks.conflict(at, name, existing));
        }
        let others = changed.range(below.as_slice()..).take_while(|(other, _)| other.starts_with(&below));
        if let Some((other, _)) = others.into_iter().find(|(_, known)| is_known(known)) {
            add(Cause::Together { name: name.to_vec(), other: other.to_vec(), is_at_lock });
        }
        if mode == TransactionMode::Batch && problems.len() > before {
            // The first step of an edit has the edit's number.
            let mut gone = Some(steps[at].edit);
            while let Some(step) = gone {
                changed.remove(steps[step].name.as_slice());
                gone = steps[step].to;
            }
        }
    }
    Ok(problems)
}
