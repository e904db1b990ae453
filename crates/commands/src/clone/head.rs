//! Chooses `HEAD` of a clone.

use packrace_object::ObjectId;
use packrace_protocol::session::fetch_client::ListedRefs;
use packrace_store::refs::{Peeled, RefObjects, is_good_name};

use crate::call::fatal::Fatal;

/// The target of `HEAD`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteHead {
    /// A branch, possibly unborn.
    Symbolic(Vec<u8>),
    /// An object, or the object that it tags.
    Detached(ObjectId),
}

type Refs = [(Vec<u8>, ObjectId)];

impl RemoteHead {
    /// In git's order: the requested branch or tag; the target of the server's `HEAD`; a branch at the same
    /// object; the object itself. `refs` are the cloned refs.
    pub fn choose(
        listed: &ListedRefs,
        refs: &Refs,
        branch: Option<&[u8]>,
        default: &[u8],
        origin: &[u8],
    ) -> Result<Self, Fatal> {
        if let Some(branch) = branch {
            return asked_for(refs, branch, origin);
        }
        let default = || RemoteHead::Symbolic(default.to_vec());
        let Some(head) = listed.find(b"HEAD") else { return Ok(default()) };
        Ok(match (head.id, head.symref_target) {
            (Some(_), Some(target)) if find(refs, target).is_some() && is_branch(target) => {
                RemoteHead::Symbolic(target.to_vec())
            }
            (Some(id), Some(_)) => RemoteHead::Detached(id),
            (None, Some(target)) if is_branch(target) && is_good_name(target) => {
                RemoteHead::Symbolic(target.to_vec())
            }
            (None, _) => default(),
            (Some(id), None) => {
                let RemoteHead::Symbolic(usual) = default() else { return Ok(RemoteHead::Detached(id)) };
                let usual = [usual, b"refs/heads/master".to_vec()];
                let mut usual = usual.into_iter().filter(|name| find(refs, name) == Some(id));
                let mut branches = refs.iter().filter(|(name, at)| is_branch(name) && *at == id);
                let found = usual.next().or_else(|| branches.next().map(|(name, _)| name.clone()));
                found.map_or(RemoteHead::Detached(id), RemoteHead::Symbolic)
            }
        })
    }

    /// An object that must be fetched besides the refs' objects.
    pub fn wanted(&self) -> Option<ObjectId> {
        match self {
            RemoteHead::Symbolic(_) => None,
            RemoteHead::Detached(id) => Some(*id),
        }
    }
}

fn asked_for(refs: &Refs, name: &[u8], origin: &[u8]) -> Result<RemoteHead, Fatal> {
    let full = [b"refs/heads/", name].concat();
    if find(refs, &full).is_some() {
        return Ok(RemoteHead::Symbolic(full));
    }
    match find(refs, &[b"refs/tags/", name].concat()) {
        Some(id) => Ok(RemoteHead::Detached(id)),
        None => {
            let [name, origin] = [name, origin].map(String::from_utf8_lossy);
            Err(Fatal::new(format!("Remote branch {name} not found in upstream {origin}")))
        }
    }
}

fn find(refs: &Refs, name: &[u8]) -> Option<ObjectId> {
    refs.iter().find(|(other, _)| other == name).map(|(_, id)| *id)
}

fn is_branch(name: &[u8]) -> bool {
    name.starts_with(b"refs/heads/")
}

/// The object that a tag finally points at; other objects stay.
pub fn peel(id: ObjectId, objects: &mut dyn RefObjects) -> Result<ObjectId, Fatal> {
    match objects.peel(&id)? {
        Peeled::To(id) => Ok(id),
        Peeled::NotATag | Peeled::Unknown => Ok(id),
    }
}
