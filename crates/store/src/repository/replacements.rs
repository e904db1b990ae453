//! Refs to objects that are read in place of others.

use std::ops::ControlFlow;
use std::sync::Arc;

use packrace_object::{HashKind, ObjectId};

use super::Repository;
use crate::error::{Error, Reason};
use crate::objects::replacements::{Replaced, Replacements};
use crate::refs::RefStore;

impl Repository {
    /// The replaced objects, if they are to be followed.
    pub(super) fn replacements(&self) -> Result<Option<Arc<Replacements>>, Error> {
        let Some(base) = self.replace_refs.clone() else { return Ok(None) };
        if self.config.boolean("core.useReplaceRefs")? == Some(false) {
            return Ok(None);
        }
        let (refs, hash) = (self.refs.clone(), self.hash);
        Ok(Some(Arc::new(Replacements::new(move || read(&refs, &base, hash)))))
    }
}

/// The rest of the name of such a ref is the object that is replaced, its value the other one.
fn read(refs: &RefStore, base: &[u8], hash: HashKind) -> Result<Replaced, Error> {
    let refs = refs.snapshot(&[base]).map_err(Reason::Refs)?;
    let mut named: Vec<(Vec<u8>, Option<ObjectId>)> = Vec::new();
    let visited = refs.visit(base, &mut |record| {
        named.push((record.name.to_vec(), record.target.id()));
        ControlFlow::Continue(())
    });
    visited.map_err(Reason::Refs)?;
    let mut replaced = Replaced::new();
    for (name, id) in named {
        let object = name.strip_prefix(base).and_then(|object| ObjectId::from_hex(object).ok());
        let Some(object) = object.filter(|object| object.kind() == hash) else {
            let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(&name);
            tracing::warn!("bad replace ref name: {}", String::from_utf8_lossy(last));
            continue;
        };
        let by = match id {
            Some(id) => Some(id),
            None => refs.resolve(&name).map_err(Reason::Refs)?.map(|found| found.id),
        };
        replaced.extend(by.map(|by| (object, by)));
    }
    Ok(replaced)
}
