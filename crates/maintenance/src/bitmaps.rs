//! The inputs of reachability bitmaps and delta islands: refs and their configuration.

use std::ops::ControlFlow;
use std::sync::Arc;

use packrace_format::multi_pack_index::MultiPackIndexChain;
use packrace_object::ObjectId;
use packrace_os::{Mapped, trace};
use packrace_pack::islands::{IslandRules, Islands};
use packrace_pack::maintain::bitmap_build::{BitOrder, BitmapOptions, BuiltBitmap, build};
use packrace_pack::maintain::pack_files::BitmapRequest;
use packrace_pack::{ProgressSink, RequestObjects};
use packrace_store::refs::{RefRecord, Target};
use packrace_store::{Repository, Snapshot};

use crate::error::Error;
use crate::pseudo_merges::{self, NamedTips};

/// The configured request for bitmaps of the commits that `refs` point at.
pub fn bitmap_request(
    repository: &Repository,
    refs: &[ObjectId],
    threads: usize,
) -> Result<BitmapRequest, Error> {
    let config = repository.config();
    let mut preferred = Vec::new();
    if let Err(error) = config.need_values(&["pack.preferBitmapTips"]) {
        tracing::error!("{error}");
    }
    let prefixes = config.strings("pack.preferBitmapTips");
    if !prefixes.is_empty() {
        let snapshot = repository.refs().snapshot(&[])?;
        for prefix in prefixes {
            // A hierarchy, whether or not its name ends with a slash.
            let prefix = [prefix.strip_suffix(b"/").unwrap_or(&prefix), b"/"].concat();
            snapshot.visit(&prefix, &mut |record| {
                if let Target::Direct { id, .. } = record.target {
                    preferred.push(id);
                }
                ControlFlow::Continue(())
            })?;
        }
    }
    let options = BitmapOptions {
        name_hashes: config.boolean("pack.writeBitmapHashCache")?.unwrap_or(true),
        lookup_table: config.boolean("pack.writeBitmapLookupTable")?.unwrap_or(false),
        threads,
        ..BitmapOptions::default()
    };
    let groups = pseudo_merges::groups(config, || all_refs(repository))?;
    Ok(BitmapRequest { refs: refs.to_vec(), preferred, groups, options })
}

/// The bitmap file for a multi-pack-index about to be published, the topmost of `chain`; none in a shallow
/// repository.
pub fn bitmap_of_multi_pack_index(
    snapshot: &Arc<Snapshot>,
    chain: &MultiPackIndexChain<Mapped>,
    request: &BitmapRequest,
    progress: &dyn ProgressSink,
) -> Result<Option<Vec<u8>>, Error> {
    if chain.layers().last().is_some_and(|layer| layer.is_empty()) {
        tracing::warn!("refusing to write multi-pack .bitmap without any objects");
        return Ok(None);
    }
    let request_objects = RequestObjects::new(snapshot.clone());
    let region = trace::region("midx", "prepare_midx_packing_data");
    let order = BitOrder::of_multi_pack_index(&request_objects, chain).ok_or(Error::NoBitmap)??;
    drop(region);
    let _region = trace::region("midx", "write_midx_bitmap");
    match build(&request_objects, &order, request.tips(), &request.options, progress)? {
        BuiltBitmap::File(bytes) => Ok(Some(bytes)),
        BuiltBitmap::Shallow => Ok(None),
        BuiltBitmap::NotClosed(missing) => Err(Error::NotClosed(missing)),
    }
}

/// The delta islands of the configuration (`pack.island`).
pub fn islands(
    repository: &Repository,
    request_objects: &RequestObjects,
    watch: &dyn ProgressSink,
) -> Result<Arc<Islands>, Error> {
    let config = repository.config();
    let rules = IslandRules::parse(&config.strings("pack.island")).map_err(Error::Islands)?;
    let refs = all_refs(repository)?;
    let tips = refs.iter().map(|(name, id)| (name.as_slice(), *id));
    let core = config.string("pack.islandCore");
    Ok(Arc::new(Islands::find(request_objects, tips, &rules, core.as_deref(), watch)?))
}

/// The full names of all refs, with what they point at in the end.
fn all_refs(repository: &Repository) -> Result<NamedTips, Error> {
    let snapshot = repository.refs().snapshot(&[])?;
    let mut refs = Vec::new();
    let visit = &mut |record: RefRecord<'_>| {
        refs.push((record.name.to_vec(), record.target.id()));
        ControlFlow::Continue(())
    };
    snapshot.visit(b"refs/", visit)?;
    let mut found = Vec::with_capacity(refs.len());
    for (name, id) in refs {
        let id = match id {
            Some(id) => Some(id),
            None => snapshot.resolve(&name)?.map(|found| found.id),
        };
        found.extend(id.map(|id| (name, id)));
    }
    Ok(found)
}
