use packrace_store::refs::{LogEdit, LoggedChange, PackRefs, RefWrites, StoredObjects};
use packrace_store::{Repository, WorkTreeReflogs, all_reflogs};

use crate::error::Error;
use crate::reflogs::ReflogExpiry;

/// No value changes here, so no reflog gets a line.
const NOBODY: &[u8] = b"packrace <packrace> 0 +0000";

fn writes(repository: &Repository) -> Result<RefWrites, Error> {
    let (config, hash) = (repository.config(), repository.hash_kind());
    Ok(RefWrites::of(config, hash, repository.is_bare()?, NOBODY.to_vec())?)
}

/// Packs all refs into one file, or all tables into one.
pub(super) fn pack(repository: &Repository) -> Result<(), Error> {
    let which = PackRefs { is_wanted: &|_| true, prunes: true, is_auto: false, tells_kept: false };
    let mut objects = StoredObjects::new(&repository.snapshot()?);
    Ok(repository.refs().pack(&which, &writes(repository)?, &mut objects)?)
}

/// Removes expired entries from all reflogs of all work trees.
pub(super) fn expire_logs(repository: &Repository) -> Result<(), Error> {
    let writes = writes(repository)?;
    let mut expiry = ReflogExpiry::new(repository, None, None)?;
    for WorkTreeReflogs { refs, names } in all_reflogs(repository)? {
        for name in names {
            let log = refs.log(&name)?.unwrap_or_default();
            if log.is_empty() {
                continue;
            }
            let expired = expiry.of(&refs, &name)?;
            let kept = |log: &[LoggedChange]| -> Vec<LoggedChange> {
                log.iter().filter(|change| !expired.has(change)).cloned().collect()
            };
            // Take no lock if nothing changes.
            if kept(&log).len() == log.len() {
                continue;
            }
            refs.edit_log(&name, &writes, &mut |log| match log {
                Some(log) => LogEdit::Replace { changes: kept(log), value: None },
                None => LogEdit::Keep,
            })?;
        }
    }
    Ok(())
}
