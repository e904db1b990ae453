//! The files `info/refs` and `HEAD` of the dumb protocol, generated (gitrepository-layout).

use packrace_store::Repository;

use super::view::{AdvertisedHead, HiddenRefs, RefsView, VisibleRef, namespace_prefix};
use crate::error::Error;

/// All refs of a namespace and their objects, one per line; hidden ones too, as in git.
pub fn ref_list(repository: &Repository, namespace: &str) -> Result<Vec<u8>, Error> {
    let namespace = namespace_prefix(namespace);
    let (refs, snapshot) = (repository.refs().snapshot(&[])?, repository.unlisted_snapshot()?);
    let hidden = HiddenRefs::default();
    let mut text = Vec::new();
    let mut line = |id: String, name: &[u8], end: &[u8]| {
        text.extend_from_slice(&[id.as_bytes(), b"\t", name, end].concat());
    };
    let view = RefsView::new(&refs, &snapshot, &hidden, &namespace);
    view.visit(&[], true, |VisibleRef { name, id, peeled, .. }| {
        line(id.to_id().to_string(), name, b"\n");
        if let Some(peeled) = peeled {
            line(peeled.to_id().to_string(), name, b"^{}\n");
        }
        Ok(())
    })?;
    view.check()?;
    Ok(text)
}

/// The target of `HEAD` in a namespace, as a line; empty before the first commit.
pub fn head_line(repository: &Repository, namespace: &str) -> Result<Vec<u8>, Error> {
    let namespace = namespace_prefix(namespace);
    let (refs, snapshot) = (repository.refs().snapshot(&[])?, repository.unlisted_snapshot()?);
    let hidden = HiddenRefs::default();
    Ok(match RefsView::new(&refs, &snapshot, &hidden, &namespace).head()? {
        Some(AdvertisedHead { id: Some(_), target: Some(target) }) => [b"ref: ", &*target, b"\n"].concat(),
        Some(AdvertisedHead { id: Some(id), target: None }) => format!("{id}\n").into_bytes(),
        _ => Vec::new(),
    })
}
