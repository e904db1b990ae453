//! Rejects ref changes that the access rules forbid. Hooks do not see rejected commands.

use std::sync::Arc;

use packrace_store::Snapshot;
use packrace_store::refs::RefSnapshot;

use super::commands::Push;
use super::decide::last_of_chain;
use crate::access::{ChangeKind, RefChange, RepositoryAccess};
use crate::error::Error;

impl Push<'_> {
    /// Rejects the commands that the access rules forbid.
    pub(super) fn refuse_forbidden(
        &mut self,
        snapshot: &Arc<Snapshot>,
        refs: &RefSnapshot,
    ) -> Result<(), Error> {
        let access = self.call.access.as_ref().filter(|access| access.has_rules());
        let Some(access) = access else { return Ok(()) };
        for at in 0..self.commands.len() {
            if self.commands[at].is_open()
                && let Some(why) = self.forbidden(access, at, snapshot, refs)?
            {
                self.commands[at].is_forbidden = true;
                self.commands[at].reject(&why);
            }
        }
        Ok(())
    }

    /// Why a command is forbidden: by the ref's name for the client, or by the ref that it points to.
    fn forbidden(
        &self,
        access: &RepositoryAccess,
        at: usize,
        snapshot: &Arc<Snapshot>,
        refs: &RefSnapshot,
    ) -> Result<Option<String>, Error> {
        let command = &self.commands[at];
        let target = last_of_chain(refs, &command.full_name)?.flatten();
        let target = target.as_deref().map(|target| target.strip_prefix(&*self.namespace).unwrap_or(target));
        for name in [Some(command.name.as_slice()), target].into_iter().flatten() {
            let refused = |kind| access.refusal(RefChange { name, kind });
            let why = match (command.old.is_null(), command.is_delete()) {
                (_, true) => refused(ChangeKind::Delete),
                (true, false) => refused(ChangeKind::Create),
                // The fast-forward check runs only where it decides.
                (false, false) if refused(ChangeKind::Force).is_none() => None,
                (false, false) => match refused(ChangeKind::FastForward) {
                    None if self.is_fast_forward(command, snapshot)? == Some(true) => None,
                    None => refused(ChangeKind::Force),
                    why => why,
                },
            };
            if why.is_some() {
                return Ok(why);
            }
        }
        Ok(None)
    }
}
