//! Chooses the commits that get a bitmap: docs/decisions/0009-bitmap-selection.md.

use super::history::CommitHistory;

/// As in git, each of so many newest commits gets a bitmap.
const NEWEST: u32 = 101;

/// Otherwise, a commit with n newer commits is at most about n / 50 commits away from a selected one.
const SPAN_DIVISOR: u32 = 50;

/// The most tips that no other tip reaches and that get a bitmap; if there are more, the newest.
const MAX_TIPS: usize = 512;

/// The numbers of the selected commits, ascending. Only commits of the pack are selected.
pub(super) fn select(history: &CommitHistory) -> Vec<u32> {
    let is_inside = |commit: &u32| history.is_own(*commit);
    let mut selected = vec![false; history.len() as usize];
    for commit in (0..history.len()).filter(|commit| history.is_preferred[*commit as usize]) {
        selected[commit as usize] = is_inside(&commit);
    }
    for commit in heads(history).take(MAX_TIPS) {
        selected[commit as usize] = true;
    }
    // Newest first: the best commit of each window. Windows grow with the number of newer commits.
    let mut newer = 0;
    let mut window: Vec<u32> = Vec::new();
    for commit in (0..history.len()).rev().filter(is_inside) {
        window.push(commit);
        newer += 1;
        if newer <= NEWEST || window.len() as u32 > newer / SPAN_DIVISOR {
            select_best(history, &window, &mut selected);
            window.clear();
        }
    }
    select_best(history, &window, &mut selected);
    (0..history.len()).filter(|commit| selected[*commit as usize]).collect()
}

/// The commits of the pack that are no parent of another commit of the pack, newest first. Where refs lead
/// outside the pack, these are the commits where their histories enter it.
fn heads(history: &CommitHistory) -> impl Iterator<Item = u32> {
    let is_inside = |commit: &u32| history.is_own(*commit);
    let mut has_child = vec![false; history.len() as usize];
    for commit in (0..history.len()).filter(is_inside) {
        history.parents(commit).iter().for_each(|parent| has_child[*parent as usize] = true);
    }
    (0..history.len()).rev().filter(move |commit| is_inside(commit) && !has_child[*commit as usize])
}

/// Selects one commit of the window, unless one is selected already. Prefers a commit that has a bitmap, then
/// a tip, then the longest chain, because clients come from there and branches fork there.
fn select_best(history: &CommitHistory, window: &[u32], selected: &mut [bool]) {
    if window.iter().any(|commit| selected[*commit as usize]) {
        return;
    }
    let rank = |commit: &&u32| {
        let commit = **commit as usize;
        (history.is_stored[commit], history.is_tip[commit], history.chains[commit])
    };
    if let Some(best) = window.iter().max_by_key(rank) {
        selected[*best as usize] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(length: u32) -> Vec<Vec<u32>> {
        (0..length).map(|number| number.checked_sub(1).into_iter().collect()).collect()
    }

    /// Every commit must have a selected commit close to it in its past.
    fn check(history: &CommitHistory) -> Vec<u32> {
        let selected = select(history);
        assert!(selected.is_sorted());
        for commit in 0..history.len() {
            let newer = history.len() - commit;
            let next = selected.partition_point(|other| *other <= commit).checked_sub(1);
            let distance = commit - next.map_or(0, |next| selected[next]);
            assert!(distance <= newer / SPAN_DIVISOR * 2 + 2, "{commit}: {distance}");
        }
        selected
    }

    #[test]
    fn densely_where_it_is_recent() {
        assert!(select(&CommitHistory::of_parents(&[])).is_empty());
        assert_eq!(check(&CommitHistory::of_parents(&line(1))), [0]);
        let history = CommitHistory::of_parents(&line(10_000));
        let selected = check(&history);
        assert!(selected.ends_with(&(9_899..10_000).collect::<Vec<_>>()));
        assert!((250..500).contains(&selected.len()), "{}", selected.len());
    }

    #[test]
    fn tips_and_preferred_tips() {
        let mut history = CommitHistory::of_parents(&line(10_000));
        history.is_tip[17] = true;
        (100..120).for_each(|number| history.is_preferred[number] = true);
        let selected = check(&history);
        assert!(selected.contains(&17) && (100..120).all(|number| selected.contains(&number)));
    }

    #[test]
    fn heads_but_not_too_many_of_them() {
        let mut parents = line(1000);
        parents.extend((0..700).map(|number| vec![number]));
        let history = CommitHistory::of_parents(&parents);
        let selected = check(&history);
        assert!((1700 - MAX_TIPS as u32..1700).all(|number| selected.contains(&number)));
        assert!(selected.len() < MAX_TIPS + 200, "{}", selected.len());
    }

    #[test]
    fn what_is_outside_the_pack_is_not_selected() {
        let mut history = CommitHistory::of_parents(&line(100));
        (90..100).for_each(|number| history.bits[number] = None);
        history.is_preferred[95] = true;
        let selected = select(&history);
        assert_eq!(selected.last(), Some(&89));
    }
}
