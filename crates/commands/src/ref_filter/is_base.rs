//! Which ref a commit was most likely started from (git-for-each-ref, `is-base:<committish>`): the one whose first-parent
//! history leaves the fewest commits of that of the commit.
//!
//! For each commit that is asked of, every commit is visited at most twice, however many refs there are.

use std::collections::HashMap;

use super::Collected;
use super::history::tips;
use super::objects::ListedObjects;
use crate::call::fatal::Fatal;
use crate::history::{CommitNo, LoadedHistory};

/// Of each commit that is asked of, the number of its ref, if it has one. Of equal refs it is the first.
pub fn find_all(
    objects: &ListedObjects<'_>,
    found: &Collected,
    derived: &[(Vec<u8>, bool)],
) -> Result<Vec<Option<usize>>, Fatal> {
    if derived.is_empty() {
        return Ok(Vec::new());
    }
    let mut history = LoadedHistory::new(objects.snapshot()?.clone()).with_gaps();
    let tips = tips(&mut history, found)?;
    let bases = derived.iter().map(|(name, _)| {
        let commit = history.load(objects.named_commit(name)?)?;
        let base = find(&mut history, &tips, commit)?;
        for gap in history.take_gaps() {
            objects.call.report_error(&format!("Could not read {gap}"));
        }
        Ok(base)
    });
    bases.collect()
}

fn find(
    history: &mut LoadedHistory,
    tips: &[Option<CommitNo>],
    commit: CommitNo,
) -> Result<Option<usize>, Fatal> {
    // As in git, a ref at the commit itself goes before all others that contain it.
    if let Some(number) = tips.iter().position(|tip| *tip == Some(commit)) {
        return Ok(Some(number));
    }
    // How many commits of its own history the commit has above each that was visited; `None` where histories do not meet.
    let mut above: HashMap<CommitNo, Option<usize>> = HashMap::new();
    let mut next = Some(commit);
    while let Some(commit) = next {
        above.insert(commit, Some(above.len()));
        next = history.parents(commit)?.first().copied();
    }
    let mut best: Option<(usize, usize)> = None;
    for (number, tip) in tips.iter().enumerate() {
        let Some(tip) = *tip else { continue };
        let mut path = Vec::new();
        let mut next = Some(tip);
        let met = loop {
            let Some(commit) = next else { break None };
            if let Some(known) = above.get(&commit) {
                break *known;
            }
            path.push(commit);
            next = history.parents(commit)?.first().copied();
        };
        above.extend(path.into_iter().map(|commit| (commit, met)));
        if let Some(met) = met
            && best.is_none_or(|(least, _)| met < least)
        {
            best = Some((met, number));
        }
    }
    Ok(best.map(|(_, number)| number))
}
