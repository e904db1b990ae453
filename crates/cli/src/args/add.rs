use packrace_commands::options::AddOptions;

use super::{Interaction, chosen};
use std::ffi::OsString;

#[derive(Debug, Default, clap::Args)]
pub struct Add {
    /// Change nothing; only print what would change.
    #[arg(long, short = 'n', overrides_with = "no_dry_run")]
    pub dry_run: bool,
    #[arg(long, hide = true, overrides_with = "dry_run")]
    pub no_dry_run: bool,
    /// Print added and removed paths.
    #[arg(long, short = 'v', overrides_with = "no_verbose")]
    pub verbose: bool,
    #[arg(long, hide = true, overrides_with = "verbose")]
    pub no_verbose: bool,
    /// Choose interactively what to add; git does this, and must be installed.
    #[arg(long, short = 'i', overrides_with = "no_interactive")]
    pub interactive: bool,
    #[arg(long, hide = true, overrides_with = "interactive")]
    pub no_interactive: bool,
    #[command(flatten)]
    pub interaction: Interaction,
    /// Edit the differences and add the result; git does this, and must be installed.
    #[arg(long, short = 'e', overrides_with = "no_edit")]
    pub edit: bool,
    #[arg(long, hide = true, overrides_with = "edit")]
    pub no_edit: bool,
    /// Also add ignored files.
    #[arg(long, short = 'f', overrides_with = "no_force")]
    pub force: bool,
    #[arg(long, hide = true, overrides_with = "force")]
    pub no_force: bool,
    /// Update and remove tracked files only; add no new files.
    #[arg(long, short = 'u', overrides_with = "no_update")]
    pub update: bool,
    #[arg(long, hide = true, overrides_with = "update")]
    pub no_update: bool,
    /// Normalize the line endings of all tracked files again; implies -u.
    #[arg(long, overrides_with = "no_renormalize")]
    pub renormalize: bool,
    #[arg(long, hide = true, overrides_with = "renormalize")]
    pub no_renormalize: bool,
    /// Record only that new files will be added later.
    #[arg(long, short = 'N', overrides_with = "no_intent_to_add")]
    pub intent_to_add: bool,
    #[arg(long, hide = true, overrides_with = "intent_to_add")]
    pub no_intent_to_add: bool,
    /// Add, update and remove files (the default if paths are given); without paths, in the whole work tree.
    #[arg(long, short = 'A', visible_alias = "no-ignore-removal", overrides_with = "no_all")]
    pub all: bool,
    /// Remove no files from the index.
    #[arg(long, visible_alias = "ignore-removal", overrides_with = "all")]
    pub no_all: bool,
    /// Add nothing; only refresh the stat data of the index.
    #[arg(long, overrides_with = "no_refresh")]
    pub refresh: bool,
    #[arg(long, hide = true, overrides_with = "refresh")]
    pub no_refresh: bool,
    /// Continue after a file that cannot be read (default: add.ignoreErrors).
    #[arg(long, overrides_with = "no_ignore_errors")]
    pub ignore_errors: bool,
    #[arg(long, hide = true, overrides_with = "ignore_errors")]
    pub no_ignore_errors: bool,
    /// With -n, check whether paths would be ignored, even if they do not exist.
    #[arg(long, overrides_with = "no_ignore_missing")]
    pub ignore_missing: bool,
    #[arg(long, hide = true, overrides_with = "ignore_missing")]
    pub no_ignore_missing: bool,
    /// Also change paths outside the sparse checkout.
    #[arg(long, overrides_with = "no_sparse")]
    pub sparse: bool,
    #[arg(long, hide = true, overrides_with = "sparse")]
    pub no_sparse: bool,
    #[arg(long, hide = true, overrides_with = "no_warn_embedded_repo")]
    pub warn_embedded_repo: bool,
    #[arg(long, hide = true, overrides_with = "warn_embedded_repo")]
    pub no_warn_embedded_repo: bool,
    /// Set or clear the executable bit in the index.
    #[arg(long, value_name = "(+|-)x", allow_hyphen_values = true, overrides_with = "no_chmod")]
    pub chmod: Option<String>,
    #[arg(long, hide = true, overrides_with = "chmod")]
    pub no_chmod: bool,
    /// Read pathspecs from FILE, one per line; - is standard input.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, overrides_with = "no_pathspec_from_file")]
    pub pathspec_from_file: Option<OsString>,
    #[arg(long, hide = true, overrides_with = "pathspec_from_file")]
    pub no_pathspec_from_file: bool,
    /// With --pathspec-from-file, pathspecs end with NUL.
    #[arg(long, overrides_with = "no_pathspec_file_nul")]
    pub pathspec_file_nul: bool,
    #[arg(long, hide = true, overrides_with = "pathspec_file_nul")]
    pub no_pathspec_file_nul: bool,
    /// The paths to add.
    #[arg(value_name = "PATHSPEC")]
    pub pathspecs: Vec<OsString>,
}

impl Add {
    /// Whether the user is to choose what to add.
    pub fn is_interactive(&self) -> bool {
        self.interactive || self.edit || self.interaction.is_asked()
    }
}

impl From<Add> for AddOptions {
    fn from(args: Add) -> Self {
        AddOptions {
            dry_run: args.dry_run,
            verbose: args.verbose,
            force: args.force,
            update: args.update,
            renormalize: args.renormalize,
            intent_to_add: args.intent_to_add,
            all: chosen(args.all, args.no_all),
            refresh: args.refresh,
            ignore_errors: chosen(args.ignore_errors, args.no_ignore_errors),
            ignore_missing: args.ignore_missing,
            sparse: args.sparse,
            no_warn_embedded_repo: args.no_warn_embedded_repo,
            chmod: args.chmod,
            pathspec_from_file: args.pathspec_from_file,
            pathspec_file_nul: args.pathspec_file_nul,
            pathspecs: args.pathspecs,
        }
    }
}
