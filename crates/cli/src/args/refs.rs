use std::ffi::OsString;

use packrace_commands::numbers;
use packrace_commands::options::{
    PackRefsOptions, RefChangeKind, RefsMigrateOptions, RefsOptions, RefsVerifyOptions, ShowRefOptions,
    SymbolicRefOptions, UpdateRefOptions,
};

use super::ForEachRef;
use super::one_ref::{RefsDelete, RefsRename, RefsSet};

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["stdin", "batch_updates", "create_reflog"]))]
pub struct UpdateRef {
    /// Reason for the change, for the reflog.
    #[arg(short = 'm', value_name = "REASON", allow_hyphen_values = true)]
    pub message: Option<String>,
    /// Delete the ref.
    #[arg(short = 'd')]
    pub delete: bool,
    /// Change the ref itself, not the target of a symbolic ref.
    #[arg(long, overrides_with = "deref")]
    pub no_deref: bool,
    /// Change the target of a symbolic ref (the default).
    #[arg(long, alias = "no-no-deref")]
    pub deref: bool,
    /// Read changes from standard input, and apply all of them or none.
    #[arg(long)]
    pub stdin: bool,
    /// With --stdin, input is terminated by NUL instead of newline.
    #[arg(short = 'z')]
    pub nul: bool,
    /// With --stdin, apply the possible changes, and print the rejected ones.
    #[arg(long, short = '0')]
    pub batch_updates: bool,
    /// Create a reflog even if core.logAllRefUpdates does not ask for it.
    #[arg(long)]
    pub create_reflog: bool,
    /// The ref, its new value, and its expected old value.
    #[arg(value_name = "REF")]
    pub arguments: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["quiet", "delete", "short"]))]
pub struct SymbolicRef {
    /// Print no error if NAME is not a symbolic ref; only exit with 1.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// Delete the symbolic ref.
    #[arg(long, short = 'd')]
    pub delete: bool,
    /// Shorten the printed ref, such as refs/heads/main to main.
    #[arg(long)]
    pub short: bool,
    /// Follow chains of symbolic refs to the end (the default).
    #[arg(long, overrides_with = "no_recurse")]
    pub recurse: bool,
    /// Follow only one symbolic ref.
    #[arg(long, overrides_with = "recurse")]
    pub no_recurse: bool,
    /// Reason for the change, for the reflog.
    #[arg(short = 'm', value_name = "REASON", allow_hyphen_values = true)]
    pub message: Option<String>,
    /// The symbolic ref, and its new target.
    #[arg(value_name = "NAME")]
    pub arguments: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[command(args = super::taken_back(&[
    "tags", "exists", "verify", "head", "dereference", "abbrev", "quiet",
]))]
pub struct ShowRef {
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Show only tags.
    #[arg(long)]
    pub tags: bool,
    /// Show only branches.
    #[arg(long, alias = "heads", overrides_with = "no_branches")]
    pub branches: bool,
    #[arg(long, hide = true, alias = "no-heads")]
    pub no_branches: bool,
    /// Exit with 0 if the ref exists, without resolving it, and with 2 if not.
    #[arg(long)]
    pub exists: bool,
    /// Accept only full names, and fail if one is missing.
    #[arg(long)]
    pub verify: bool,
    /// Show HEAD even if filters exclude it.
    #[arg(long, short_alias = 'h')]
    pub head: bool,
    /// Also show the objects that tags point at.
    #[arg(long, short = 'd')]
    pub dereference: bool,
    /// Show only object IDs, with at least N digits.
    #[arg(long, short = 's', value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0", allow_hyphen_values = true, value_parser = numbers::decimal)]
    pub hash: Option<i64>,
    #[arg(long, hide = true)]
    pub no_hash: bool,
    /// Abbreviate object IDs to at least N digits.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "-9223372036854775808", allow_hyphen_values = true, value_parser = numbers::decimal)]
    pub abbrev: Option<i64>,
    /// Print nothing; the exit code has the result.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// Print lines of standard input whose refs begin with PATTERN and do not exist.
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub exclude_existing: Option<OsString>,
    /// Trailing components of ref names; with --verify and --exists, full names.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["all", "auto", "include", "exclude"]))]
pub struct PackRefs {
    /// Pack all refs, not only tags.
    #[arg(long)]
    pub all: bool,
    /// Delete loose refs that were packed (the default).
    #[arg(long, overrides_with = "no_prune")]
    pub prune: bool,
    /// Keep loose refs that were packed.
    #[arg(long)]
    pub no_prune: bool,
    /// Pack only if it is worthwhile.
    #[arg(long)]
    pub auto: bool,
    /// Pack refs that match PATTERN, instead of tags; may be repeated.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub include: Vec<OsString>,
    /// Do not pack refs that match PATTERN; may be repeated.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub exclude: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub struct Refs {
    #[command(subcommand)]
    pub command: RefsCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum RefsCommand {
    /// Exit with 0 if a ref exists, and with 2 if not.
    Exists {
        /// The full name of the ref.
        #[arg(value_name = "REF")]
        names: Vec<OsString>,
    },
    /// List refs, as for-each-ref does.
    List(Box<ForEachRef>),
    /// Pack refs, as pack-refs does.
    Optimize(PackRefs),
    /// Create a ref, which must not exist.
    #[command(
        override_usage = "packrace refs create [--message=REASON] [--no-deref] [--create-reflog] REF NEW"
    )]
    Create(RefsSet),
    /// Delete a ref, if it has the expected value.
    #[command(override_usage = "packrace refs delete [--message=REASON] [--no-deref] REF [OLD]")]
    Delete(RefsDelete),
    /// Set a ref to a new value, if it has the expected one.
    #[command(
        override_usage = "packrace refs update [--message=REASON] [--no-deref] [--create-reflog] REF NEW [OLD]"
    )]
    Update(RefsSet),
    /// Rename a ref and its reflog.
    #[command(override_usage = "packrace refs rename [--message=REASON] OLD-REF NEW-REF")]
    Rename(RefsRename),
    /// Migrate refs to another format.
    Migrate(RefsMigrate),
    /// Check the stored refs for errors.
    Verify(RefsVerify),
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["dry_run"]))]
pub struct RefsMigrate {
    /// The new ref format: files or reftable.
    #[arg(long, value_name = "FORMAT", allow_hyphen_values = true)]
    pub ref_format: Option<String>,
    /// Only write the migrated refs to a directory, and print its name.
    #[arg(long)]
    pub dry_run: bool,
    /// Also migrate reflogs (the default).
    #[arg(long, overrides_with = "no_reflog")]
    pub reflog: bool,
    /// Do not migrate reflogs; they are deleted.
    #[arg(long, overrides_with = "reflog")]
    pub no_reflog: bool,
    #[arg(hide = true)]
    pub arguments: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["strict", "verbose"]))]
pub struct RefsVerify {
    /// Treat warnings as errors.
    #[arg(long)]
    pub strict: bool,
    /// Print what is checked.
    #[arg(long)]
    pub verbose: bool,
}

impl From<UpdateRef> for UpdateRefOptions {
    fn from(args: UpdateRef) -> Self {
        UpdateRefOptions {
            message: args.message,
            delete: args.delete,
            no_deref: args.no_deref,
            stdin: args.stdin,
            nul: args.nul,
            batch_updates: args.batch_updates,
            create_reflog: args.create_reflog,
            arguments: args.arguments,
        }
    }
}

impl From<SymbolicRef> for SymbolicRefOptions {
    fn from(args: SymbolicRef) -> Self {
        SymbolicRefOptions {
            quiet: args.quiet,
            delete: args.delete,
            short: args.short,
            no_recurse: args.no_recurse,
            message: args.message,
            arguments: args.arguments,
        }
    }
}

impl From<ShowRef> for ShowRefOptions {
    fn from(args: ShowRef) -> Self {
        ShowRefOptions {
            tags: args.tags,
            branches: args.branches,
            exists: args.exists,
            verify: args.verify,
            head: args.head,
            dereference: args.dereference,
            // What seems to take it back is another name.
            hash: args.hash.or(args.no_hash.then_some(0)),
            abbrev: args.abbrev,
            quiet: args.quiet,
            exclude_existing: args.exclude_existing,
            patterns: args.patterns,
        }
    }
}

impl From<PackRefs> for PackRefsOptions {
    fn from(args: PackRefs) -> Self {
        PackRefsOptions {
            all: args.all,
            no_prune: args.no_prune && !args.prune,
            auto: args.auto,
            include: args.include,
            exclude: args.exclude,
        }
    }
}

impl From<RefsMigrate> for RefsMigrateOptions {
    fn from(args: RefsMigrate) -> Self {
        RefsMigrateOptions {
            ref_format: args.ref_format,
            dry_run: args.dry_run,
            no_reflog: args.no_reflog,
            arguments: args.arguments,
        }
    }
}

impl From<RefsVerify> for RefsVerifyOptions {
    fn from(args: RefsVerify) -> Self {
        RefsVerifyOptions { strict: args.strict, verbose: args.verbose }
    }
}

impl From<Refs> for RefsOptions {
    fn from(args: Refs) -> Self {
        let change = |kind, options| RefsOptions::Change { kind, options };
        match args.command {
            RefsCommand::Exists { names } => RefsOptions::Exists { names },
            RefsCommand::List(args) => RefsOptions::List(Box::new((*args).into())),
            RefsCommand::Optimize(args) => RefsOptions::Optimize(args.into()),
            RefsCommand::Create(args) => change(RefChangeKind::Create, args.into()),
            RefsCommand::Delete(args) => change(RefChangeKind::Delete, args.into()),
            RefsCommand::Update(args) => change(RefChangeKind::Update, args.into()),
            RefsCommand::Rename(args) => change(RefChangeKind::Rename, args.into()),
            RefsCommand::Migrate(args) => RefsOptions::Migrate(args.into()),
            RefsCommand::Verify(args) => RefsOptions::Verify(args.into()),
        }
    }
}
