//! The settings of a repository about serving it. Names and defaults: git-config.

use std::time::Duration;

use packrace_store::Repository;

use super::filter::FilterPolicy;
use crate::error::Error;
use crate::refs::view::HiddenRefs;

/// Settings of one call.
#[derive(Debug, Clone)]
pub(super) struct UploadSettings {
    /// `uploadpack.keepAlive`, in seconds; 0 turns it off.
    pub(super) keepalive: Option<Duration>,
    /// `transfer.hideRefs` and `uploadpack.hideRefs`, in the order of the configuration.
    pub(super) hidden: HiddenRefs,
    /// `uploadpack.allowTipSHA1InWant`.
    pub(super) allow_tip: bool,
    /// `uploadpack.allowReachableSHA1InWant`.
    pub(super) allow_reachable: bool,
    /// `uploadpack.allowAnySHA1InWant`.
    pub(super) allow_any: bool,
    /// `uploadpack.allowFilter`.
    pub(super) allow_filter: bool,
    /// `packrace.requireReachableWants`: version 2 also serves only objects that refs reach that are not
    /// hidden.
    pub(super) require_reachable: bool,
    /// `uploadpackfilter.*`.
    pub(super) filters: FilterPolicy,
    /// `transfer.advertiseSID`.
    pub(super) advertise_session_id: bool,
    /// `uploadpack.packObjectsHook`, only from configuration that no repository can change.
    pub(super) hook: Option<Vec<u8>>,
}

impl UploadSettings {
    pub(super) fn of(repository: &Repository) -> Result<Self, Error> {
        let config = repository.config();
        let keepalive = config.integer("uploadpack.keepAlive")?.unwrap_or(5);
        config.need_values(&["transfer.hideRefs", "uploadpack.hideRefs"])?;
        let hidden = config.strings_of(&["transfer.hideRefs", "uploadpack.hideRefs"]);
        let allow_any = config.boolean("uploadpack.allowAnySHA1InWant")?.unwrap_or(false);
        Ok(UploadSettings {
            keepalive: u64::try_from(keepalive).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs),
            hidden: HiddenRefs::new(hidden),
            allow_tip: allow_any || config.boolean("uploadpack.allowTipSHA1InWant")?.unwrap_or(false),
            allow_reachable: allow_any
                || config.boolean("uploadpack.allowReachableSHA1InWant")?.unwrap_or(false),
            allow_any,
            require_reachable: config.boolean("packrace.requireReachableWants")?.unwrap_or(false),
            allow_filter: config.boolean("uploadpack.allowFilter")?.unwrap_or(false),
            filters: FilterPolicy::of(config)?,
            advertise_session_id: config.boolean("transfer.advertiseSID")?.unwrap_or(false),
            hook: config.protected_strings("uploadpack.packObjectsHook").pop(),
        })
    }
}

/// `pack.*`, for requests that need it: counting the processors takes some ten system calls.
pub(super) fn pack_settings(repository: &Repository) -> Result<packrace_pack::Settings, Error> {
    let threads = packrace_os::process::available_threads();
    Ok(packrace_pack::Settings::of(repository.config(), threads)?)
}
