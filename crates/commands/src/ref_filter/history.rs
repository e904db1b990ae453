//! The commits of refs, and their ahead and behind counts.

use super::Collected;
use super::objects::ListedObjects;
use crate::call::fatal::Fatal;
use crate::history::{CommitNo, LoadedHistory};

/// For each ref, how many commits it has that a base lacks, and vice versa.
pub type AheadBehindCounts = Vec<Option<(usize, usize)>>;

/// Counts every ref against every base. `None` for a ref that leads to no commit.
pub fn count_all(
    objects: &ListedObjects<'_>,
    found: &Collected,
    bases: &[Vec<u8>],
) -> Result<Vec<AheadBehindCounts>, Fatal> {
    if bases.is_empty() {
        return Ok(Vec::new());
    }
    let mut history = LoadedHistory::new(objects.snapshot()?.clone());
    let bases = bases.iter().map(|base| history.load(objects.named_commit(base)?));
    let bases: Vec<CommitNo> = bases.collect::<Result<_, _>>()?;
    let tips = tips(&mut history, found)?;
    report_others(objects, found, &tips)?;
    let mut all = Vec::new();
    for base in bases {
        let counts = tips.iter().map(|tip| tip.map(|tip| history.count(tip, base)).transpose());
        all.push(counts.collect::<Result<_, _>>()?);
    }
    Ok(all)
}

/// Reports refs that lead to objects of other kinds.
fn report_others(
    objects: &ListedObjects<'_>,
    found: &Collected,
    tips: &[Option<CommitNo>],
) -> Result<(), Fatal> {
    for (item, _) in found.items().zip(tips).filter(|(_, tip)| tip.is_none()) {
        objects.commit(item.id)?;
    }
    Ok(())
}

/// The commit of each ref, if it leads to one.
pub fn tips(history: &mut LoadedHistory, found: &Collected) -> Result<Vec<Option<CommitNo>>, Fatal> {
    found.items().map(|item| history.commit(item.id)).collect()
}
