//! Limits the size of a repository: checked before objects are stored, and before hooks run.
//!
//! Two simultaneous pushes may both find room for one. Borrowed objects count for the repository that stores
//! them (alternates). Unreachable objects count until they are expired.

use std::ops::ControlFlow;
use std::path::Path;

use packrace_os::count::Role;
use packrace_os::{identity, is_absent, list_dir};
use packrace_store::Quarantine;
use packrace_store::refs::RefSnapshot;

use super::commands::Push;
use crate::error::Error;
use crate::metrics::Reason;

/// A push may always bring this much, as far as it is checked while it arrives: a new ref for an existing
/// object comes with an empty pack.
const LEAST_BYTES: u64 = 4 << 10;

/// The start of git's message for a pack that is too large; the quota is one of two causes.
const TOO_LARGE: &str = "pack exceeds maximum allowed size";

impl Push<'_> {
    /// How many bytes a pack may have so that the repository keeps its limit; `None` for any number.
    pub(super) fn room(&self) -> Result<Option<u64>, Error> {
        let max = self.call.budget.max_repository_bytes;
        if max == 0 {
            return Ok(None);
        }
        let held = stored_bytes(self.call.subject.repository.object_dir()).map_err(unreadable)?;
        Ok(Some(max.saturating_sub(held).max(LEAST_BYTES)))
    }

    /// Reports and counts a pack that was given up at this limit.
    pub(super) fn met_limit(&self, limit: &str, room: Option<u64>) {
        let configured = self.settings.unpack.max_bytes;
        let room = room.filter(|room| configured.is_none_or(|configured| *room < configured));
        match room.filter(|_| limit.starts_with(TOO_LARGE)) {
            Some(room) => {
                let [max, room] = [self.call.budget.max_repository_bytes, room].map(mebibytes);
                self.over_quota(&format!("repository is limited to {max}, and has {room} left"));
            }
            None => self.over_budget(limit),
        }
    }

    /// Rejects commands that would exceed the limit of bytes or of refs. Refs can always be deleted.
    pub(super) fn refuse_beyond_quota(
        &mut self,
        quarantine: Option<&Quarantine>,
        refs: &RefSnapshot,
    ) -> Result<(), Error> {
        if let Some(why) = self.too_many_bytes(quarantine)? {
            self.over_quota(&why);
            let brings = self.commands.iter_mut().filter(|command| !command.is_delete());
            brings.for_each(|command| command.reject("quota exceeded"));
        }
        let max = self.call.budget.max_repository_refs;
        if max == 0 {
            return Ok(());
        }
        let (mut new, mut gone) = (Vec::new(), 0);
        for (at, command) in self.commands.iter().enumerate().filter(|(_, command)| command.is_open()) {
            match refs.find(&command.full_name)? {
                None if !command.is_delete() => new.push(at),
                Some(_) if command.is_delete() => gone += 1,
                _ => {}
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let mut held = 0;
        refs.visit(b"", &mut |_| {
            held += 1;
            ControlFlow::Continue(())
        })?;
        if held + new.len() > max + gone {
            self.over_quota(&format!(
                "repository is limited to {max} refs: it has {held}, and this push creates {}",
                new.len()
            ));
            new.into_iter().for_each(|at| self.commands[at].reject("quota exceeded"));
        }
        Ok(())
    }

    fn too_many_bytes(&self, quarantine: Option<&Quarantine>) -> Result<Option<String>, Error> {
        let max = self.call.budget.max_repository_bytes;
        let Some(quarantine) = quarantine.filter(|_| max > 0) else { return Ok(None) };
        let brought = stored_bytes(quarantine.object_dir()).map_err(unreadable)?;
        let held = stored_bytes(self.call.subject.repository.object_dir()).map_err(unreadable)?;
        let is_too_much = brought > 0 && held.saturating_add(brought) > max;
        let [max, held, brought] = [max, held, brought].map(mebibytes);
        Ok(is_too_much
            .then(|| format!("repository is limited to {max}: it has {held}, and this push adds {brought}")))
    }

    /// Counts and logs a push over its quota, and tells the client.
    fn over_quota(&self, why: &str) {
        let transfer = &self.call.subject.transfer;
        transfer.metrics().refused(Reason::Quota);
        tracing::warn!("push from {} to {:?}: {why}", transfer.shown_peer(), transfer.repository());
        self.client.error(why);
    }
}

/// Bytes of packs, of the files beside them, and of loose objects.
fn stored_bytes(object_dir: &Path) -> std::io::Result<u64> {
    let mut bytes = bytes_in(&object_dir.join("pack"), Role::Pack)?;
    for first in 0..=u8::MAX {
        bytes += bytes_in(&object_dir.join(format!("{first:02x}")), Role::Objects)?;
    }
    Ok(bytes)
}

fn bytes_in(dir: &Path, role: Role) -> std::io::Result<u64> {
    let entries = match list_dir(dir, role) {
        Err(error) if is_absent(&error) => return Ok(0),
        entries => entries?,
    };
    let mut bytes = 0;
    for entry in entries {
        // A file that was deleted meanwhile does not count.
        bytes += identity(&dir.join(&entry.name), role)?.map_or(0, |file| file.length);
    }
    Ok(bytes)
}

fn unreadable(error: std::io::Error) -> Error {
    Error::caused("cannot determine the size of the repository", error)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
