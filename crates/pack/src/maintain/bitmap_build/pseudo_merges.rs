//! Chooses the commits that get a bitmap together: gitpacking, "Pseudo-merge bitmaps".

use packrace_object::ObjectId;

/// Below this many commits a group is not divided further; git does the same.
const MIN_COMMITS: usize = 8;

/// The most pseudo-merges of a file: each costs a bitmap of all objects.
const MAX_MERGES: usize = 1 << 16;

/// How the tips of a group become pseudo-merges (git-config, `bitmapPseudoMerge`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PseudoMergeRule {
    /// The n-th pseudo-merge of unstable commits has a share of n to the power of minus this; not negative.
    pub decay: f64,
    /// Which part of the unstable commits is used; above 0, at most 1.
    pub sample_rate: f64,
    /// Newer commits are not used, in seconds since 1970.
    pub threshold: i64,
    /// The most pseudo-merges of unstable commits.
    pub max_merges: u32,
    /// Commits that are not newer are stable, in seconds since 1970.
    pub stable_threshold: i64,
    /// The commits in a pseudo-merge of stable ones; at least 1.
    pub stable_size: u32,
}

impl PseudoMergeRule {
    /// Git's defaults, with these thresholds.
    pub fn new(threshold: i64, stable_threshold: i64) -> Self {
        let (decay, sample_rate) = (1.0, 1.0);
        PseudoMergeRule { decay, sample_rate, threshold, max_merges: 64, stable_threshold, stable_size: 512 }
    }
}

/// The targets of a group of refs.
#[derive(Debug, Clone, PartialEq)]
pub struct PseudoMergeGroup {
    /// How they are divided.
    pub rule: PseudoMergeRule,
    /// Commits, tags, trees or blobs; those that don't lead to commits are skipped.
    pub tips: Vec<ObjectId>,
}

/// The commits of a group.
#[derive(Debug)]
pub(super) struct CandidateGroup {
    rule: PseudoMergeRule,
    /// When each was committed, and its number; oldest first, each once.
    candidates: Vec<(i64, u32)>,
}

impl CandidateGroup {
    pub(super) fn new(rule: PseudoMergeRule, mut candidates: Vec<(i64, u32)>) -> Self {
        candidates.sort_unstable();
        candidates.dedup();
        CandidateGroup { rule, candidates }
    }

    /// The numbers of the commits of each pseudo-merge. Stable commits are used even if they have a bitmap, so that
    /// the same commits stay together.
    fn merges(&self, is_own: &dyn Fn(u32) -> bool, selected: &[u32]) -> Vec<Vec<u32>> {
        let rule = &self.rule;
        let own = self.candidates.iter().copied().filter(|(_, commit)| is_own(*commit));
        let (stable, mut others): (Vec<_>, Vec<_>) =
            own.partition(|(time, _)| *time <= rule.stable_threshold);
        others.retain(|(time, commit)| *time <= rule.threshold && selected.binary_search(commit).is_err());
        let stable: Vec<u32> = stable.into_iter().map(|(_, commit)| commit).collect();
        let unstable: Vec<u32> = others.into_iter().map(|(_, commit)| commit).collect();
        let mut merges: Vec<Vec<u32>> =
            stable.chunks(rule.stable_size.max(1) as usize).map(<[u32]>::to_vec).collect();
        let mut number = 0u32;
        let mut rest = unstable.as_slice();
        for size in sizes(unstable.len(), rule) {
            let (merge, after) = rest.split_at(size);
            rest = after;
            let mut sample = merge.to_vec();
            sample.retain(|_| {
                number += 1;
                let upto = |number: u32| (f64::from(number) * rule.sample_rate).ceil();
                upto(number) > upto(number - 1)
            });
            if !sample.is_empty() {
                merges.push(sample);
            }
        }
        merges
    }
}

/// How many of `count` commits, oldest first, each pseudo-merge gets; older ones are more together, because their refs
/// change less often.
fn sizes(count: usize, rule: &PseudoMergeRule) -> Vec<usize> {
    let share = |number: usize| (number as f64).powf(-rule.decay);
    let most = count.min(rule.max_merges as usize);
    let all: f64 = (1..=most).map(share).sum();
    let mut sizes = Vec::new();
    let mut rest = count;
    for number in 1..=most {
        let size = (count as f64 / all * share(number)).round() as usize;
        let is_last = size < MIN_COMMITS || number == most || size >= rest;
        sizes.push(if is_last { rest } else { size });
        if is_last {
            break;
        }
        rest -= size;
    }
    sizes
}

/// The numbers of the commits of each pseudo-merge, none of them empty. `is_own` says whether a commit can get a bitmap
/// in the new file; `selected` are those that get one of their own, ascending.
pub(super) fn choose(
    groups: &[CandidateGroup],
    is_own: &dyn Fn(u32) -> bool,
    selected: &[u32],
) -> Vec<Vec<u32>> {
    let mut merges: Vec<Vec<u32>> = groups.iter().flat_map(|group| group.merges(is_own, selected)).collect();
    if merges.len() > MAX_MERGES {
        tracing::warn!("more than {MAX_MERGES} pseudo-merges: the others are not written");
        merges.truncate(MAX_MERGES);
    }
    merges
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: PseudoMergeRule = PseudoMergeRule {
        decay: 1.0,
        sample_rate: 1.0,
        threshold: i64::MAX,
        max_merges: 64,
        stable_threshold: 0,
        stable_size: 512,
    };

    /// As git 2.55 divides as many commits, except that it leaves out one of them if there are ten merges.
    #[test]
    fn sizes_fall() {
        let check = |decay, max_merges, expect: &[usize]| {
            let sizes = sizes(886, &PseudoMergeRule { decay, max_merges, ..ALL });
            assert_eq!(sizes.iter().sum::<usize>(), if max_merges == 0 { 0 } else { 886 });
            assert_eq!(sizes, expect, "{decay} {max_merges}");
        };
        check(0.0, 1, &[886]);
        check(0.0, 4, &[222, 222, 222, 220]);
        check(1.0, 0, &[]);
        check(1.0, 4, &[425, 213, 142, 106]);
        check(1.0, 10, &[302, 151, 101, 76, 60, 50, 43, 38, 34, 31]);
        check(2.0, 4, &[622, 156, 69, 39]);
        check(2.0, 10, &[572, 143, 64, 36, 23, 16, 12, 9, 11]);
        assert_eq!(sizes(0, &ALL), Vec::<usize>::new());
        assert_eq!(sizes(5, &ALL), [5]);
        assert_eq!(sizes(10, &PseudoMergeRule { decay: f64::MAX, ..ALL }), [10]);
    }

    fn check(rule: PseudoMergeRule, selected: &[u32], expect: &[Vec<u32>]) {
        let candidates = (0..40).chain(5..9).rev().map(|number| (i64::from(number) * 10, number)).collect();
        let groups = [CandidateGroup::new(rule, candidates)];
        assert_eq!(choose(&groups, &|commit| commit < 39, selected), expect);
    }

    #[test]
    fn stable_and_unstable_commits() {
        check(PseudoMergeRule { threshold: -1, stable_threshold: -1, ..ALL }, &[], &[]);
        let rule = PseudoMergeRule { threshold: 200, stable_threshold: 100, stable_size: 6, ..ALL };
        let unstable = (11..=20).filter(|number| *number != 15).collect();
        check(rule, &[3, 15], &[(0..6).collect(), (6..11).collect(), unstable]);
        let rule = PseudoMergeRule { decay: 0.0, max_merges: 2, stable_threshold: -1, ..ALL };
        check(rule, &[0], &[(1..20).collect(), (20..39).collect()]);
    }

    #[test]
    fn samples_are_spread() {
        let rule = PseudoMergeRule { stable_threshold: -1, max_merges: 1, sample_rate: 0.25, ..ALL };
        check(rule, &[], &[(0..39).step_by(4).collect()]);
        check(PseudoMergeRule { sample_rate: 1e-9, ..rule }, &[], &[vec![0]]);
    }
}
