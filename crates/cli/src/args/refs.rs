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
