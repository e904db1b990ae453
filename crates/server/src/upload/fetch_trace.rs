//! What a client asks for, in a trace (git's `trace2`).

use std::collections::HashSet;

use packrace_object::ObjectId;
use packrace_os::trace::{self, TracedChild};
use packrace_pack::RequestObjects;
use packrace_pack::filter::Filter;
use packrace_protocol::session::{Deepen, FetchInfo, PackRequest};
use serde_json::json;

/// Tells what a fetch of version 2 asks for. Of haves, those that exist here count.
pub(super) fn tell_request(info: Option<FetchInfo<'_>>, request_objects: &RequestObjects) {
    let Some(info) = info else { return };
    trace::data_json("upload-pack", "fetch-info", || {
        let different = |ids: &[ObjectId]| ids.iter().collect::<HashSet<_>>().len();
        let haves: HashSet<_> = info.haves.iter().collect();
        let known = haves.iter().filter(|id| matches!(request_objects.contains(id), Ok(true))).count();
        let (depth, is_relative) = match info.deepen {
            Some(Deepen::Depth(depth)) => (*depth, false),
            Some(Deepen::Relative(depth)) => (*depth, true),
            _ => (0, false),
        };
        let (since, not) = match info.deepen {
            Some(Deepen::Since { seconds, not }) => {
                (seconds.is_some(), not.iter().collect::<HashSet<_>>().len())
            }
            _ => (false, 0),
        };
        let filter = info.filter.and_then(|spec| Filter::parse(spec).ok());
        // In git's order.
        let values = [
            ("haves", json!(known)),
            ("wants", json!(different(info.wants))),
            ("want-refs", json!(info.want_refs)),
            ("depth", json!(depth)),
            ("shallows", json!(different(info.client_shallow))),
            ("deepen-since", json!(since)),
            ("deepen-not", json!(not)),
            ("deepen-relative", json!(is_relative)),
            ("filter", json!(filter.as_ref().map(Filter::name))),
        ];
        let values: Vec<String> = values.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
        format!("{{{}}}", values.join(","))
    });
}

/// Begins the work for which git starts `pack-objects`. With `is_cut`, the client's history ends somewhere.
pub(super) fn begin_pack(request: &PackRequest, is_cut: bool) -> Option<TracedChild> {
    if !trace::is_on() {
        return None;
    }
    let filter = request.filter.as_ref().map(|spec| format!("--filter={}", String::from_utf8_lossy(spec)));
    // In git's order.
    let words = [
        ("git", true),
        ("--shallow-file", is_cut),
        ("", is_cut),
        ("pack-objects", true),
        ("--revs", true),
        ("--thin", request.thin_pack),
        ("--stdout", true),
        ("--shallow", is_cut),
        ("--progress", !request.no_progress),
        ("--delta-base-offset", request.ofs_delta),
        ("--include-tag", request.include_tag),
    ];
    let words = words.into_iter().filter(|(_, is_there)| *is_there).map(|(word, _)| word);
    trace::child_inside(&words.chain(filter.as_deref()).collect::<Vec<_>>())
}
