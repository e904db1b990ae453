//! Sets of objects that maintenance puts into packs.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_object::ObjectId;
use packrace_store::PackIx;

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

/// When the `wanted` packed and loose objects were last wanted, in seconds since 1970: the time in a cruft
/// pack, or else of the pack or file. Of several copies, the latest counts.
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
    Ok(found)
}

fn seconds_of(time: SystemTime) -> u32 {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u32::try_from(seconds).unwrap_or(u32::MAX)
}
