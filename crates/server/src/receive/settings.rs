//! The settings of a repository about pushes (git-config, "receive" and "transfer").

use std::time::Duration;

use packrace_store::publish::LooseLimit;
use packrace_store::{Config, FsckSettings, FsckUse};

use crate::error::Error;
use crate::refs::view::HiddenRefs;
use crate::send::outbox::batch_bytes;

/// What happens on a push to a checked-out branch, or to the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deny {
    Ignore,
    Warn,
    Refuse,
    /// The work tree is updated.
    UpdateInstead,
    /// Nothing is configured: refused, and explained.
    Unconfigured,
}

/// Settings of one push.
#[derive(Debug, Clone)]
pub(super) struct PushSettings {
    pub(super) advertise_atomic: bool,
    pub(super) advertise_options: bool,
    pub(super) advertise_session_id: bool,
    /// `repack.useDeltaBaseOffset`.
    pub(super) ofs_delta: bool,
    pub(super) nonce_seed: Option<Vec<u8>>,
    pub(super) nonce_slop: i64,
    pub(super) keepalive: Option<Duration>,
    /// See [`batch_bytes`].
    pub(super) batch_bytes: usize,
    /// `transfer.hideRefs` and `receive.hideRefs`, in the order of the configuration.
    pub(super) hidden: HiddenRefs,
    pub(super) deny_current: Deny,
    pub(super) deny_delete_current: Deny,
    pub(super) deny_deletes: bool,
    pub(super) deny_non_fast_forwards: bool,
    pub(super) shallow_update: bool,
    pub(super) proc_receive: Vec<ProcReceive>,
    pub(super) update_server_info: bool,
    pub(super) unpack: UnpackSettings,
}

/// Settings about storing objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnpackSettings {
    /// What is checked of objects.
    pub(super) fsck: FsckSettings,
    /// Packs of fewer objects become loose objects.
    pub(super) unpack_limit: LooseLimit,
    /// Git's limit, for the words of failures.
    pub(super) git_unpack_limit: LooseLimit,
    /// `receive.maxInputSize`.
    pub(super) max_bytes: Option<u64>,
    /// Packs that are kept must have all their bases (`--reject-thin-pack-for-testing`).
    pub(super) refuses_thin: bool,
}

/// `receive.procReceiveRefs`: the commands that the hook executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcReceive {
    create: bool,
    modify: bool,
    delete: bool,
    is_negated: bool,
    prefix: Vec<u8>,
}

impl PushSettings {
    pub(super) fn of(config: &Config) -> Result<Self, Error> {
        let flag = |name: &str, default: bool| -> Result<bool, Error> {
            Ok(config.boolean(name)?.unwrap_or(default))
        };
        config.need_values(&[
            "transfer.hideRefs",
            "receive.hideRefs",
            "receive.certNonceSeed",
            "receive.procReceiveRefs",
        ])?;
        // Refused as by git, although another program uses it.
        config.boolean("receive.autogc")?;
        let hidden = config.strings_of(&["transfer.hideRefs", "receive.hideRefs"]);
        let keepalive = config.integer("receive.keepAlive")?.unwrap_or(5);
        let proc_receive = config.strings("receive.procReceiveRefs");
        Ok(PushSettings {
            advertise_atomic: flag("receive.advertiseAtomic", true)?,
            advertise_options: flag("receive.advertisePushOptions", false)?,
            advertise_session_id: flag("transfer.advertiseSID", false)?,
            ofs_delta: flag("repack.useDeltaBaseOffset", true)?,
            nonce_seed: config.string("receive.certNonceSeed"),
            nonce_slop: config.integer("receive.certNonceSlop")?.unwrap_or(0),
            keepalive: u64::try_from(keepalive).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs),
            batch_bytes: batch_bytes(config)?,
            hidden: HiddenRefs::new(hidden),
            deny_current: deny(config, "receive.denyCurrentBranch")?,
            deny_delete_current: deny(config, "receive.denyDeleteCurrent")?,
            deny_deletes: flag("receive.denyDeletes", false)?,
            deny_non_fast_forwards: flag("receive.denyNonFastForwards", false)?,
            shallow_update: flag("receive.shallowUpdate", false)?,
            proc_receive: proc_receive.iter().map(|value| ProcReceive::parse(value)).collect(),
            update_server_info: flag("receive.updateServerInfo", false)?,
            unpack: UnpackSettings::of(config)?,
        })
    }
}

impl PushSettings {
    /// The same for a repository in a bucket: objects are always stored as a pack, and nothing is written
    /// beside packs and refs.
    pub(super) fn of_bucket(mut self) -> Self {
        self.unpack.unpack_limit = LooseLimit::below(1);
        self.shallow_update = false;
        self.update_server_info = false;
        self
    }
}

impl UnpackSettings {
    fn of(config: &Config) -> Result<Self, Error> {
        let max_bytes = config.integer("receive.maxInputSize")?.unwrap_or(0);
        Ok(UnpackSettings {
            fsck: FsckSettings::of(config, FsckUse::Receive)?,
            unpack_limit: LooseLimit::of_pushes(config)?,
            git_unpack_limit: LooseLimit::of_pushes_to_git(config)?,
            max_bytes: u64::try_from(max_bytes).ok().filter(|bytes| *bytes > 0),
            refuses_thin: false,
        })
    }
}

fn deny(config: &Config, name: &str) -> Result<Deny, Error> {
    let Some(value) = config.string(name) else { return Ok(Deny::Unconfigured) };
    Ok(match value.to_ascii_lowercase().as_slice() {
        b"ignore" => Deny::Ignore,
        b"warn" => Deny::Warn,
        b"refuse" => Deny::Refuse,
        b"updateinstead" => Deny::UpdateInstead,
        _ => match config.boolean(&name.to_ascii_lowercase())? {
            Some(true) => Deny::Refuse,
            _ => Deny::Ignore,
        },
    })
}

impl ProcReceive {
    fn parse(value: &[u8]) -> Self {
        let (modifiers, prefix) = match value.iter().position(|byte| *byte == b':') {
            Some(colon) => (&value[..colon], &value[colon + 1..]),
            None => (&b""[..], value),
        };
        let has = |modifier: u8| modifiers.contains(&modifier);
        let is_any = !has(b'a') && !has(b'm') && !has(b'd');
        let end = prefix.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        ProcReceive {
            create: is_any || has(b'a'),
            modify: is_any || has(b'm'),
            delete: is_any || has(b'd'),
            is_negated: has(b'!'),
            prefix: prefix[..end].to_vec(),
        }
    }

    fn is_for(&self, name: &[u8], is_create: bool, is_delete: bool) -> bool {
        if is_create && !self.create || is_delete && !self.delete || !is_create && !is_delete && !self.modify
        {
            return false;
        }
        let rest = name.strip_prefix(self.prefix.as_slice());
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/') != self.is_negated
    }

    /// Whether the hook executes a command.
    pub(super) fn takes(all: &[ProcReceive], name: &[u8], is_create: bool, is_delete: bool) -> bool {
        all.iter().any(|one| one.is_for(name, is_create, is_delete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_commands_are_the_hooks() {
        let check = |values: &[&str], name: &str, (is_create, is_delete), expect| {
            let all: Vec<_> = values.iter().map(|value| ProcReceive::parse(value.as_bytes())).collect();
            let takes = ProcReceive::takes(&all, name.as_bytes(), is_create, is_delete);
            assert_eq!(takes, expect, "{values:?} {name}");
        };
        let (create, modify, delete) = ((true, false), (false, false), (false, true));
        check(&[], "refs/for/a", create, false);
        check(&["refs/for"], "refs/for/a", create, true);
        check(&["refs/for/"], "refs/for/a", delete, true);
        check(&["refs/fo"], "refs/for/a", create, false);
        check(&["refs/for"], "refs/for", modify, true);
        check(&["ad:refs/heads"], "refs/heads/a", modify, false);
        check(&["ad:refs/heads"], "refs/heads/a", create, true);
        check(&["ad:refs/heads"], "refs/heads/a", delete, true);
        check(&["m:refs/heads", "a:refs/tags"], "refs/tags/a", create, true);
        check(&["!:refs/heads"], "refs/heads/a", create, false);
        check(&["!:refs/heads"], "refs/for/a", create, true);
    }
}
