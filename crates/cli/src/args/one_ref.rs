//! Options of `refs create`, `delete`, `update` and `rename`.

use std::ffi::OsString;

use packrace_commands::options::RefsChangeOptions;

/// Options of `create` and `update`.
#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["create_reflog"]))]
pub struct RefsSet {
    #[command(flatten)]
    pub common: RefsDelete,
    /// Create a reflog even if the configuration does not ask for one.
    #[arg(long)]
    pub create_reflog: bool,
}

/// Options of `delete`.
#[derive(Debug, clap::Args)]
pub struct RefsDelete {
    #[command(flatten)]
    pub common: RefsRename,
    /// Change the ref itself, not the target of a symbolic ref.
    #[arg(long, overrides_with = "deref")]
    pub no_deref: bool,
    /// Change the target of a symbolic ref (the default).
    #[arg(long, alias = "no-no-deref", overrides_with = "no_deref")]
    pub deref: bool,
}

/// Options of `rename`.
#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["message"]))]
pub struct RefsRename {
    /// Reason, for the reflog.
    #[arg(long, value_name = "REASON", allow_hyphen_values = true)]
    pub message: Option<String>,
    /// The ref, then its new value and its expected old value; for a rename, the old and the new name.
    #[arg(value_name = "REF")]
    pub arguments: Vec<OsString>,
}

impl From<RefsRename> for RefsChangeOptions {
    fn from(args: RefsRename) -> Self {
        RefsChangeOptions { message: args.message, arguments: args.arguments, ..Default::default() }
    }
}

impl From<RefsDelete> for RefsChangeOptions {
    fn from(args: RefsDelete) -> Self {
        RefsChangeOptions { no_deref: args.no_deref, ..args.common.into() }
    }
}

impl From<RefsSet> for RefsChangeOptions {
    fn from(args: RefsSet) -> Self {
        RefsChangeOptions { create_reflog: args.create_reflog, ..args.common.into() }
    }
}
