//! The lists that clients of the dumb HTTP protocol read (git-update-server-info).

use std::ops::ControlFlow;

use packrace_object::ObjectId;
use packrace_store::Snapshot;
use packrace_store::refs::{self, RefSnapshot, Target};

use super::history::CommitReader;
use crate::request_objects::RequestObjects;

/// `info/refs`: every ref with its peeled object; refs to missing objects are left out.
pub fn refs(request_objects: &RequestObjects, refs: &RefSnapshot) -> Result<Vec<u8>, refs::RefError> {
    let mut found: Vec<(Vec<u8>, Option<ObjectId>)> = Vec::new();
    refs.visit(b"refs/", &mut |record| {
        let id = match record.target {
            Target::Direct { id, .. } => Some(id),
            Target::Symbolic(_) => None,
        };
        found.push((record.name.to_vec(), id));
        ControlFlow::Continue(())
    })?;
    let mut history = CommitReader::new(request_objects);
    let mut listing = Vec::new();
    for (name, id) in found {
        let id = match id {
            Some(id) => Some(id),
            None => refs.resolve(&name)?.map(|resolved| resolved.id),
        };
        let peeled = id.and_then(|id| history.peel_to_any(id).ok());
        let (Some(id), Some((peeled, _))) = (id, peeled) else { continue };
        let mut line = |id: ObjectId, suffix: &[u8]| {
            listing.extend_from_slice(id.to_string().as_bytes());
            listing.push(b'\t');
            listing.extend_from_slice(&name);
            listing.extend_from_slice(suffix);
            listing.push(b'\n');
        };
        line(id, b"");
        if peeled != id {
            line(peeled, b"^{}");
        }
    }
    Ok(listing)
}

/// `objects/info/packs`: the repository's own packs, newest first, then an empty line.
pub fn packs(snapshot: &Snapshot) -> Vec<u8> {
    let own = snapshot.packs().iter().filter(|pack| pack.is_local());
    let lines: String = own.map(|pack| format!("P {}.pack\n", pack.name())).collect();
    format!("{lines}\n").into_bytes()
}
