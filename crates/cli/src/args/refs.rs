use std::ffi::OsString;

/// Arguments of `update-ref`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "packrace update-ref [OPTIONS] -d REF [OLD]\n       packrace update-ref [OPTIONS] REF NEW [OLD]\n       packrace update-ref [OPTIONS] --stdin [-z] [--batch-updates]"
)]
pub struct UpdateRef {
    /// Why, for the reflog.
    #[arg(short = 'm', value_name = "REASON")]
    pub message: Option<String>,
    /// Delete the ref.
    #[arg(short = 'd')]
    pub delete: bool,
    /// Change the ref itself, not the one that it stands for.
    #[arg(long, overrides_with = "deref")]
    pub no_deref: bool,
    /// Change the ref that a symbolic one stands for (the default).
    #[arg(long)]
    pub deref: bool,
    /// Read changes from standard input, and make all of them or none.
    #[arg(long, overrides_with = "no_stdin")]
    pub stdin: bool,
    #[arg(long, hide = true)]
    pub no_stdin: bool,
    /// What is read has NUL in place of ends of lines.
    #[arg(short = 'z')]
    pub nul: bool,
    /// Make those that can be made, and say which were rejected.
    #[arg(long, short = '0', overrides_with = "no_batch_updates")]
    pub batch_updates: bool,
    #[arg(long, hide = true)]
    pub no_batch_updates: bool,
    /// Begin a reflog where the configuration would not.
    #[arg(long, overrides_with = "no_create_reflog")]
    pub create_reflog: bool,
    #[arg(long, hide = true)]
    pub no_create_reflog: bool,
    /// The ref, and what it shall and must point at.
    #[arg(value_name = "REF")]
    pub arguments: Vec<OsString>,
}

/// Arguments of `symbolic-ref`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "packrace symbolic-ref [-m REASON] NAME REF\n       packrace symbolic-ref [-q] [--short] [--no-recurse] NAME\n       packrace symbolic-ref --delete [-q] NAME"
)]
pub struct SymbolicRef {
    /// Do not complain of a ref that is not symbolic; only exit with 1.
    #[arg(long, short = 'q', overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true)]
    pub no_quiet: bool,
    /// Delete the symbolic ref.
    #[arg(long, short = 'd', overrides_with = "no_delete")]
    pub delete: bool,
    #[arg(long, hide = true)]
    pub no_delete: bool,
    /// Shorten what is written, as refs/heads/main to main.
    #[arg(long, overrides_with = "no_short")]
    pub short: bool,
    #[arg(long, hide = true)]
    pub no_short: bool,
    /// Follow symbolic refs to the last (the default).
    #[arg(long, overrides_with = "no_recurse")]
    pub recurse: bool,
    /// Follow one symbolic ref only.
    #[arg(long, overrides_with = "recurse")]
    pub no_recurse: bool,
    /// Why, for the reflog.
    #[arg(short = 'm', value_name = "REASON")]
    pub message: Option<String>,
    /// The symbolic ref, and what it shall stand for.
    #[arg(value_name = "NAME")]
    pub arguments: Vec<OsString>,
}

/// Arguments of `show-ref`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct ShowRef {
    /// How it is used.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Show only tags.
    #[arg(long, overrides_with = "no_tags")]
    pub tags: bool,
    #[arg(long, hide = true)]
    pub no_tags: bool,
    /// Show only branches.
    #[arg(long, visible_alias = "heads", overrides_with = "no_branches")]
    pub branches: bool,
    #[arg(long, hide = true, alias = "no-heads")]
    pub no_branches: bool,
    /// Say with the exit code whether a ref exists, without resolving it.
    #[arg(long, overrides_with = "no_exists")]
    pub exists: bool,
    #[arg(long, hide = true)]
    pub no_exists: bool,
    /// Take full names only, and complain of those that are not there.
    #[arg(long, overrides_with = "no_verify")]
    pub verify: bool,
    #[arg(long, hide = true)]
    pub no_verify: bool,
    /// Show HEAD, whatever is asked for.
    #[arg(long, overrides_with = "no_head")]
    pub head: bool,
    #[arg(long, hide = true)]
    pub no_head: bool,
    /// Show what tags point at, too.
    #[arg(long, short = 'd', overrides_with = "no_dereference")]
    pub dereference: bool,
    #[arg(long, hide = true)]
    pub no_dereference: bool,
    /// Show only names of objects, with at least N digits.
    #[arg(long, short = 's', value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "-1", allow_hyphen_values = true, overrides_with = "no_hash")]
    pub hash: Option<i64>,
    #[arg(long, hide = true)]
    pub no_hash: bool,
    /// Shorten names of objects, to at least N digits.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "-1", allow_hyphen_values = true, overrides_with = "no_abbrev")]
    pub abbrev: Option<i64>,
    #[arg(long, hide = true)]
    pub no_abbrev: bool,
    /// Show nothing.
    #[arg(long, short = 'q', overrides_with = "no_quiet")]
    pub quiet: bool,
    #[arg(long, hide = true)]
    pub no_quiet: bool,
    /// Show those lines of standard input whose refs do not exist, and begin with PATTERN.
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub exclude_existing: Option<OsString>,
    /// Ends of names, whole words each; with --verify and --exists, full names.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<OsString>,
}
