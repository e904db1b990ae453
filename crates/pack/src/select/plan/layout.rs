//! Finds the pack of each object of a response.

use std::collections::BTreeMap;
use std::sync::Arc;

use packrace_store::{PackIx, Snapshot};

use crate::error::{Error, Reason};
use crate::marks::Marks;
use crate::names::{NameHashVersion, Names};
use crate::progress::{Phase, ProgressSink};
use crate::request_objects::RequestObjects;

use super::{MarkedObjects, Order, PackPlan, PackRequest, Selected};

/// The objects of a larger pack found by bitmaps are sent as they are stored, without a search for bases.
const MAX_SEARCHED_BY_BITMAP: u32 = 1 << 18;

/// The wanted objects by pack, in the order of their entries, and their total number.
fn select_by_pack(
    snapshot: &Snapshot,
    wanted: &Marks,
    progress: &dyn ProgressSink,
) -> Result<(Vec<(PackIx, Selected)>, u64), Error> {
    let mut by_pack: BTreeMap<u32, Selected> = BTreeMap::new();
    let mut objects = 0u64;
    for unit in snapshot.units() {
        let range = unit.range();
        let count = wanted.count_packed(range.clone());
        objects += count;
        if count == 0 {
            continue;
        }
        let is_whole = |pack: &PackIx| {
            let pack = &snapshot.packs()[pack.0 as usize];
            count == u64::from(pack.len()) && pack.is_usable()
        };
        if let Some(pack) = unit.single_pack().filter(is_whole) {
            by_pack.insert(pack.0, Selected::All);
            continue;
        }
        if progress.cancelled() {
            return Err(Reason::Cancelled.into());
        }
        let members = wanted.packed_in(range);
        for ix in members {
            let location = snapshot.locate(packrace_store::ObjectIx(ix.0));
            let position = snapshot.packs()[location.pack.0 as usize].position_of_offset(location.offset);
            let position = position.ok_or_else(|| Reason::DamagedEntry {
                pack: snapshot.packs()[location.pack.0 as usize].name().to_string(),
                offset: location.offset,
                what: "the offset is not in the pack's index".to_owned(),
            })?;
            if let Selected::Positions(positions) =
                by_pack.entry(location.pack.0).or_insert_with(|| Selected::Positions(Vec::new()))
            {
                positions.push(position);
            }
        }
    }
    let mut packs: Vec<(PackIx, Selected)> =
        by_pack.into_iter().map(|(pack, selected)| (PackIx(pack), selected)).collect();
    for (pack, selected) in &mut packs {
        if let Selected::Positions(positions) = selected {
            positions.sort_unstable();
            if positions.len() == snapshot.packs()[pack.0 as usize].len() as usize {
                *selected = Selected::All;
            }
        }
    }
    Ok((packs, objects))
}

/// Plans the pack of the marked objects.
pub(super) fn lay_out(
    request_objects: &Arc<RequestObjects>,
    request: &PackRequest,
    found: MarkedObjects,
    names: Names,
    progress: &dyn ProgressSink,
) -> Result<PackPlan, Error> {
    let snapshot = request_objects.snapshot();
    let (packs, in_packs) = select_by_pack(snapshot, &found.wanted, progress)?;
    let loose = found.wanted.extra();
    let objects = u32::try_from(in_packs + loose.len() as u64).map_err(|_| Reason::TooManyObjects)?;
    progress.report(Phase::Enumerating, u64::from(objects), 0);
    progress.report(Phase::Counting, u64::from(objects), u64::from(objects));
    let finds_bases_by_name =
        objects <= MAX_SEARCHED_BY_BITMAP && knows_names(request_objects, request, &found, &names);
    let may_lack = request.missing.is_lenient();
    let is_complete = !may_lack && request.shallow.is_empty() && snapshot.shallow()?.is_empty();
    let may_use_bitmap = is_complete && snapshot.has_bitmap_files();
    let asks_bitmap_for_had =
        may_use_bitmap && request.thin && request.filter.is_none() && !found.is_by_bitmap;
    Ok(PackPlan {
        request_objects: request_objects.clone(),
        packs,
        loose,
        wanted: found.wanted,
        had: request.thin.then_some(found.had),
        ofs_delta: request.ofs_delta,
        excluded: Vec::new(),
        settings: request.settings,
        order: Order::default(),
        is_by_bitmap: found.is_by_bitmap,
        counts_by_bitmap: may_use_bitmap,
        names,
        bases: if request.thin { found.bases } else { Vec::new() },
        had_tips: if asks_bitmap_for_had { request.haves.clone() } else { Vec::new() },
        finds_bases_by_name,
        islands: None,
        deltas: None,
        objects,
    })
}

/// Whether bitmaps tell which objects a client has, and at which paths. With a filter they do not: it lacks what the filter
/// leaves out.
fn knows_names(
    request_objects: &RequestObjects,
    request: &PackRequest,
    found: &MarkedObjects,
    names: &Names,
) -> bool {
    request.thin
        && request.filter.is_none()
        && found.is_by_bitmap
        && found.had.count_packed(0..request_objects.packed_end()) > 0
        && names.version() != NameHashVersion::V2
        && request_objects.snapshot().bitmap().is_some_and(|bitmap| bitmap.has_name_hashes())
}
