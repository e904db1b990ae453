//! Sets of objects that maintenance puts into packs.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_object::ObjectId;
use packrace_store::{PackIx, cache_bytes};

use crate::error::Error;
use crate::marks::Marks;
use crate::request_objects::{ObjectNo, RequestObjects};

/// Adds the objects with these ids, except those deleted in the meantime.
pub(crate) fn insert_all(
    request_objects: &RequestObjects,
    marks: &Marks,
    ids: &[ObjectId],
) -> Result<(), Error> {
    for id in ids {
        if let Some(ix) = request_objects.find(id)? {
            marks.insert(ix);
        }
    }
    Ok(())
}

/// Adds the loose objects of the repository itself. A damaged one stays where it is, and is told of as in git.
pub(crate) fn insert_loose(request_objects: &RequestObjects, marks: &Marks) -> Result<(), Error> {
    let snapshot = request_objects.snapshot();
    let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
    for id in snapshot.own_loose()? {
        match reader.kind(&id) {
            Ok(Some(_)) => insert_all(request_objects, marks, &[id])?,
            Ok(None) => {}
            Err(error) if error.kind() == packrace_store::ErrorKind::Corrupt => {
                let (lines, _) = error.in_git_words().unwrap_or_default();
                lines.lines().for_each(|line| tracing::error!("{}", line.trim_start_matches("error: ")));
                let path = snapshot.own_loose_path(&id);
                tracing::warn!("loose object at {} could not be examined", path.display());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes the objects that one of these packs has, too. The packs may be much larger than what is repacked, or much smaller:
/// either each object is looked up in each pack, or all objects of the packs are looked up.
pub(crate) fn subtract_packs(
    request_objects: &RequestObjects,
    wanted: &Marks,
    packs: &[PackIx],
) -> Result<(), Error> {
    let snapshot = request_objects.snapshot();
    let indexes: Vec<_> = packs.iter().map(|pack| snapshot.packs()[pack.0 as usize].index()).collect();
    let objects: u64 = indexes.iter().map(|index| u64::from(index.len())).sum();
    if wanted.packed().count() as u64 * packs.len() as u64 > objects {
        wanted.subtract(&Marks::of_packs(request_objects, packs)?);
        return Ok(());
    }
    for no in wanted.packed() {
        let id = request_objects.id(no);
        if indexes.iter().any(|index| index.position_of(&id).is_some()) {
            wanted.remove(no);
        }
    }
    Ok(())
}

/// When the `wanted` packed and loose objects were last wanted, in seconds since 1970: the time in a cruft
/// pack, or else of the pack or file. Of several copies, the latest counts; an object that none of them has was wanted
/// now.
pub(crate) fn times(
    request_objects: &RequestObjects,
    wanted: &Marks,
    packs: &[PackIx],
    loose: &[ObjectId],
    modified: impl Fn(&ObjectId) -> Option<SystemTime>,
) -> Result<HashMap<ObjectNo, u32>, Error> {
    let mut found: HashMap<ObjectNo, u32> = HashMap::new();
    let mut note = |ix: ObjectNo, seconds: u32| {
        if wanted.contains(ix) {
            let known = found.entry(ix).or_default();
            *known = seconds.max(*known);
        }
    };
    for pack in packs {
        let pack = &request_objects.snapshot().packs()[pack.0 as usize];
        let times = pack.times()?;
        let of_pack = pack.modified().map_or(0, seconds_of);
        for position in 0..pack.len() {
            let ix = request_objects.require(pack.index().id_at(position))?;
            note(ix, times.as_ref().map_or(of_pack, |times| times.seconds_at(position)));
        }
    }
    for id in loose {
        if let (Some(ix), Some(modified)) = (request_objects.find(id)?, modified(id)) {
            note(ix, seconds_of(modified));
        }
    }
    // The file has gone since it was listed: another process has just packed the object.
    let now = seconds_of(packrace_store::time_of_day());
    for no in wanted.members() {
        found.entry(no).or_insert(now);
    }
    Ok(found)
}

fn seconds_of(time: SystemTime) -> u32 {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use packrace_store::{OpenOptions, Repository};
    use packrace_testkit::{Git, RepoBuilder, Size};

    use super::*;

    /// Both ways have the same result: few objects beside a large pack, and all objects beside a small one.
    #[test]
    fn objects_of_packs_are_subtracted() {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let git = Git::stock();
        git.run(repo.path(), &["repack", "-adq"]);
        let some = git.run(repo.path(), &["rev-list", "--objects", "--max-count=1", "HEAD"]);
        let some: Vec<&str> = some.lines().map(|line| &line[..40]).collect();
        let stem = repo.path().join("objects/pack/pack").display().to_string();
        git.run_with_input(repo.path(), &["pack-objects", "-q", &stem], some.join("\n").as_bytes());

        let repository = Repository::open(repo.path(), &OpenOptions::default()).unwrap();
        let request_objects = RequestObjects::new(repository.snapshot().unwrap());
        let numbers: Vec<PackIx> = (0..request_objects.snapshot().packs().len() as u32).map(PackIx).collect();
        let lengths: Vec<usize> =
            request_objects.snapshot().packs().iter().map(|pack| pack.len() as usize).collect();
        let (small, large) = if lengths[0] < lengths[1] { (0, 1) } else { (1, 0) };
        assert_eq!((lengths[small], numbers.len()), (some.len(), 2));
        for (wanted, packs, left) in [
            (vec![small], vec![large], 0),
            (vec![large], vec![small], lengths[large] - lengths[small]),
            (vec![small], vec![], lengths[small]),
            (vec![large], vec![small, large], 0),
        ] {
            let of = |packs: &[usize]| packs.iter().map(|at| numbers[*at]).collect::<Vec<_>>();
            let marks = Marks::of_packs(&request_objects, &of(&wanted)).unwrap();
            subtract_packs(&request_objects, &marks, &of(&packs)).unwrap();
            assert_eq!(marks.packed().count(), left, "{wanted:?} without {packs:?}");
        }
    }
}
