//! The settings of a repository about serving it. Names and defaults: git-config.

use std::time::Duration;

use packrace_store::{Config, Repository, parse_boolean};

use super::filter::FilterPolicy;
use crate::error::Error;
use crate::refs::view::HiddenRefs;
use crate::send::outbox::batch_bytes;

/// What each `uploadpack.allow*SHA1InWant` allows. `ANY` has a bit of its own: the other two together are less.
const TIP: u8 = 1;
const REACHABLE: u8 = 2;
const ANY: u8 = 7;

/// Settings of one call.
#[derive(Debug, Clone)]
pub(super) struct UploadSettings {
    /// `uploadpack.keepAlive`, in seconds; 0 turns it off.
    pub(super) keepalive: Option<Duration>,
    /// See [`batch_bytes`].
    pub(super) batch_bytes: usize,
    /// `transfer.hideRefs` and `uploadpack.hideRefs`, in the order of the configuration.
    pub(super) hidden: HiddenRefs,
    /// `uploadpack.allowTipSHA1InWant`, as the settings after it leave it.
    pub(super) allow_tip: bool,
    /// `uploadpack.allowReachableSHA1InWant`, likewise.
    pub(super) allow_reachable: bool,
    /// `uploadpack.allowAnySHA1InWant`, likewise.
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
        let keepalive = config.small_integer("uploadpack.keepAlive")?.unwrap_or(5);
        config.need_values(&["transfer.hideRefs", "uploadpack.hideRefs"])?;
        let hidden = config.strings_of(&["transfer.hideRefs", "uploadpack.hideRefs"]);
        let allowed = allowed_wants(config)?;
        Ok(UploadSettings {
            keepalive: u64::try_from(keepalive).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs),
            batch_bytes: batch_bytes(config)?,
            hidden: HiddenRefs::new(hidden),
            allow_tip: allowed & TIP != 0,
            allow_reachable: allowed & REACHABLE != 0,
            allow_any: allowed == ANY,
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

/// The three settings about wants. As in git, each sets or clears its bits, in the order of the configuration.
fn allowed_wants(config: &Config) -> Result<u8, Error> {
    const SETTINGS: [(&str, u8); 3] = [
        ("uploadpack.allowTipSHA1InWant", TIP),
        ("uploadpack.allowReachableSHA1InWant", REACHABLE),
        ("uploadpack.allowAnySHA1InWant", ANY),
    ];
    for (setting, _) in SETTINGS {
        config.boolean(setting)?;
    }
    let mut allowed: u8 = 0;
    for (name, value) in config.section("uploadpack") {
        let is_it = |setting: &&(&str, u8)| name.eq_ignore_ascii_case(setting.0.as_bytes());
        let Some((_, bits)) = SETTINGS.iter().find(is_it) else { continue };
        match value.map_or(Some(true), parse_boolean) {
            Some(true) => allowed |= *bits,
            Some(false) => allowed &= !*bits,
            // A later value replaces it: the last ones are booleans.
            None => {}
        }
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_wanted_depends_on_the_order_of_settings() {
        let check = |settings: &[&str], expect: u8| {
            let overrides = settings.iter().map(|setting| {
                let (name, value) =
                    setting.split_once('=').map_or((*setting, None), |(name, value)| (name, Some(value)));
                (format!("uploadpack.allow{name}SHA1InWant"), value.map(str::to_owned))
            });
            let overrides = overrides.collect();
            let sources = packrace_store::ConfigSources { overrides, ..Default::default() };
            let config = Config::outside(&sources).unwrap();
            assert_eq!(allowed_wants(&config).unwrap(), expect, "{settings:?}");
        };
        check(&[], 0);
        check(&["Tip"], TIP);
        check(&["Tip=true", "Reachable=true"], TIP | REACHABLE);
        check(&["Tip=true", "Any=false"], 0);
        check(&["Any=false", "Tip=true"], TIP);
        check(&["Any=true", "Tip=false"], ANY & !TIP);
        check(&["Any=true", "Tip=false", "Tip=true"], ANY);
        check(&["Any=true", "Any=x", "Any=no"], 0);
    }
}
