//! Recovery after a kill: an announcement tells what was about to change, and the repository what did.

use std::path::Path;

use packrace_journal::{Action, JournalError, JournalEvent, RefEvent, Unfinished};
use packrace_object::ObjectId;
use packrace_store::Repository;
use packrace_store::refs::RefError;

use super::Events;
use crate::refs::view::namespace_prefix;

impl Events {
    /// Records the part of an announcement that happened.
    pub(super) fn recover(
        &self,
        unfinished: Unfinished,
        namespace: &str,
        repository: &dyn Fn(&Path) -> Option<Repository>,
    ) -> Result<(), JournalError> {
        let announced = &unfinished.event;
        let is_there = |below: &[u8]| packrace_os::owner(&self.path_of(below)).is_ok();
        let happened = match announced.action {
            Action::Push => {
                let found = repository(&self.path_of(&announced.repository));
                let refs = found
                    .and_then(|repository| refs_that_changed(&repository, namespace, &announced.refs).ok());
                refs.map(|refs| JournalEvent { refs, ..announced.clone() })
                    .filter(|event| !event.refs.is_empty())
            }
            Action::Create => Some(announced.clone()).filter(|event| is_there(&event.repository)),
            Action::Delete => Some(announced.clone()).filter(|event| !is_there(&event.repository)),
            Action::Rename => {
                let is_done = |event: &JournalEvent| {
                    !is_there(&event.repository) && event.to.as_deref().is_some_and(is_there)
                };
                Some(announced.clone()).filter(is_done)
            }
        };
        let happened = happened.map(|event| JournalEvent { is_recovered: true, ..event });
        let (action, path) = (announced.action, String::from_utf8_lossy(&announced.repository).into_owned());
        match happened.is_some() {
            true => tracing::warn!(
                "events: {action:?} of {path:?} was done before the server was killed: recorded now"
            ),
            false => {
                tracing::info!("events: {action:?} of {path:?} was not done before the server was killed")
            }
        }
        self.journal.resolve(unfinished, happened.as_ref())
    }
}

/// The refs whose value differs from the announced old one, with their current value. A later push may also
/// have changed them.
pub(crate) fn refs_that_changed(
    repository: &Repository,
    namespace: &str,
    announced: &[RefEvent],
) -> Result<Vec<RefEvent>, RefError> {
    let refs = repository.refs().snapshot(&[])?;
    let prefix = namespace_prefix(namespace);
    let none = ObjectId::null(repository.hash_kind());
    let mut changed = Vec::new();
    for one in announced {
        let full_name = [prefix.as_slice(), &one.name].concat();
        let now = refs.resolve(&full_name)?.map_or(none, |resolved| resolved.id).to_string();
        if now != one.old {
            changed.push(RefEvent { new: now, ..one.clone() });
        }
    }
    Ok(changed)
}
