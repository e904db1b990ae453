//! What was typed, and what it means. Exit codes are git's: 129 for usage, 0 for help that was asked for.

mod access;
mod add;
mod bucket;
mod clone;
mod commit_graph;
mod events;
mod for_each_ref;
mod fsck;
mod globals;
mod index_pack;
mod init;
mod maintenance;
mod multi_pack_index;
mod objects;
mod one_ref;
mod pack_objects;
mod packing;
mod reflog;
mod refs;
mod refusal;
mod repack;
mod repo;
mod serve;
mod shell;
mod stash;
#[cfg(test)]
mod tests;
mod unpack_objects;
mod update_index;

use std::ffi::OsString;
use std::path::PathBuf;

pub use access::{Access, AccessCheck, AccessCommand, AccessHash, AccessKeys, AccessToken, FromGitolite};
pub use add::Add;
pub use bucket::{Bucket, BucketCheck, BucketCollect, BucketCommand, BucketExport, BucketFold, BucketImport};
pub use clone::CloneRepository;
pub use commit_graph::CommitGraphArgs;
pub use events::{EventsArgs, EventsCommand, EventsFollow};
pub use for_each_ref::ForEachRef;
pub use globals::{Globals, VariableOptions, before_checked_command};
pub use index_pack::{IndexPack, VerifyPack};
pub use init::Init;
pub use maintenance::Maintenance;
pub use multi_pack_index::MultiPackIndex;
pub use objects::{CommitTree, HashObject, WriteTree};
pub use pack_objects::PackObjects;
pub use reflog::Reflog;
pub use refs::{PackRefs, Refs, ShowRef, SymbolicRef, UpdateRef};
pub use refusal::usage_of;
pub use repack::Repack;
pub use repo::{Repo, RepoCommand, RepoCreate, RepoDelete, RepoDescribe, RepoList, RepoRename};
use serve::SERVE_HELP;
pub use serve::Serve;
pub use shell::Shell;
pub use stash::Stash;
use stash::StashCommand;
pub use unpack_objects::UnpackObjects;
pub use update_index::UpdateIndex;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use packrace_commands::Fatal;
use packrace_commands::command_words::{
    add_default_addresses, command_position, end_options, expand_counts, join_cache_info, with_push,
};
use packrace_commands::left_to_git::{has_more_options, has_paths};
use packrace_commands::numbers;
use packrace_commands::options::{ReceivePackOptions, UploadPackOptions};

use crate::FATAL;

/// Exit code for a command line that makes no sense.
pub const USAGE: u8 = 129;

/// Where `--http` listens unless an address follows it.
pub const DEFAULT_HTTP: &str = "127.0.0.1:8417";

/// Where `--https` listens unless an address follows it.
pub const DEFAULT_HTTPS: &str = "127.0.0.1:8443";

/// Where `--git` listens unless an address follows it.
pub const DEFAULT_GIT: &str = "127.0.0.1:9418";

/// Where `--ssh` listens unless an address follows it.
pub const DEFAULT_SSH: &str = "127.0.0.1:8422";

/// Git's data path for people who host Git.
#[derive(Debug, Parser)]
#[command(
    name = "packrace",
    version,
    args_override_self = true,
    disable_help_subcommand = true,
    subcommand_required = true
)]
pub struct Cli<C: Subcommand> {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: C,
}

/// The commands of `packrace-service`.
#[derive(Debug, Subcommand)]
pub enum Service {
    UploadPack(UploadPack),
    ReceivePack(ReceivePack),
}

/// The commands. Only the options of the one that runs are put together: those of all would take half of the time of a quick one.
/// What stands here of a command is its description then only if the type of its options has no doc comment.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Send packed objects to git fetch-pack (drop-in for git upload-pack).
    UploadPack(UploadPack),
    /// Receive a push into a repository (drop-in for git receive-pack).
    ReceivePack(ReceivePack),
    /// Answer one request of a web server as a CGI program (drop-in for git http-backend).
    #[command(after_long_help = HTTP_BACKEND_HELP)]
    HttpBackend,
    /// Serve the repositories of a folder or a bucket over HTTP, SSH and git://.
    #[command(after_long_help = SERVE_HELP)]
    Serve(Box<Serve>),
    /// Serve one user's SSH session, as a forced command of sshd.
    Shell(Box<Shell>),
    /// Check access rules and create credentials for packrace serve.
    Access(Box<Access>),
    /// Create, list, delete, rename and describe repositories of a served folder.
    Repo(Box<Repo>),
    /// Check a bucket, and import, export and maintain its repositories.
    Bucket(Box<Bucket>),
    /// Read the event journal of packrace serve.
    Events(Box<EventsArgs>),
    /// Add file contents to the index (drop-in for git add).
    Add(Box<Add>),
    /// Clone a repository (drop-in for git clone; git makes all but bare repositories from servers).
    Clone(Box<CloneRepository>),
    /// Write and verify commit-graphs (drop-in for git commit-graph).
    CommitGraph(CommitGraphArgs),
    /// Print information about each ref (drop-in for git for-each-ref).
    ForEachRef(Box<ForEachRef>),
    /// Build the index of a pack (drop-in for git index-pack).
    IndexPack(Box<IndexPack>),
    /// Create an empty repository or reinitialize an existing one (drop-in for git init).
    Init(Box<Init>),
    /// Run tasks that keep a repository fast (drop-in for git maintenance).
    Maintenance(Box<Maintenance>),
    /// Write and verify multi-pack-indexes (drop-in for git multi-pack-index).
    MultiPackIndex(MultiPackIndex),
    /// Create a pack of objects (drop-in for git pack-objects).
    PackObjects(Box<PackObjects>),
    /// Repack a repository into fewer, better packs (drop-in for git repack).
    Repack(Box<Repack>),
    /// Unpack the objects of a pack from standard input (drop-in for git unpack-objects).
    UnpackObjects(UnpackObjects),
    /// Compute object IDs and optionally store objects (drop-in for git hash-object).
    HashObject(Box<HashObject>),
    /// Create a tree from the index (drop-in for git write-tree).
    WriteTree(WriteTree),
    /// Create a commit from a tree (drop-in for git commit-tree).
    CommitTree(CommitTree),
    /// Update entries of the index (drop-in for git update-index).
    UpdateIndex(UpdateIndex),
    /// Update refs, one or several in a transaction (drop-in for git update-ref).
    UpdateRef(UpdateRef),
    /// Read, change or delete symbolic refs (drop-in for git symbolic-ref).
    SymbolicRef(SymbolicRef),
    /// List refs and the objects they point at (drop-in for git show-ref).
    ShowRef(ShowRef),
    /// Pack refs into fewer files (drop-in for git pack-refs).
    PackRefs(PackRefs),
    /// Low-level access to refs (drop-in for git refs).
    Refs(Refs),
    /// Show, expire and delete reflog entries (drop-in for git reflog).
    Reflog(Box<Reflog>),
    /// Stash changes of the work tree and restore them (drop-in for git stash).
    Stash(Box<Stash>),
    /// Verify packs and their indexes (drop-in for git verify-pack).
    VerifyPack(VerifyPack),
    /// Print completions for a shell.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(Completions),
    /// Write the man pages to a directory.
    #[command(hide = true)]
    Man(Man),
}

impl Command {
    /// Whether the user is asked what to do, which git does.
    fn is_interactive(&self) -> bool {
        match self {
            Command::Add(args) => args.is_interactive(),
            Command::Stash(args) => args.is_interactive(),
            _ => false,
        }
    }

    /// Whether it looks up what options name while it reads them.
    fn looks_at_options(&self) -> bool {
        use Command::{CommitTree, ForEachRef, Refs, UpdateIndex};
        matches!(self, CommitTree(_) | ForEachRef(_) | Refs(_) | UpdateIndex(_))
    }

    /// Whether no repository is named where one must be.
    fn lacks_directory(&self) -> bool {
        let (Command::UploadPack(UploadPack { directory, .. })
        | Command::ReceivePack(ReceivePack { directory, .. })) = self
        else {
            return false;
        };
        directory.is_none()
    }
}

#[derive(Debug, clap::Args)]
#[command(args = taken_back(&["stateless_rpc", "http_backend_info_refs", "timeout"]))]
pub struct UploadPack {
    /// Use DIRECTORY as it is: do not try DIRECTORY/.git or DIRECTORY.git.
    #[arg(long, overrides_with = "no_strict")]
    pub strict: bool,
    /// Also try DIRECTORY/.git and DIRECTORY.git (the default).
    #[arg(long)]
    pub no_strict: bool,
    /// Abort the transfer after N seconds without input from the client; 0: no limit.
    #[arg(long, value_name = "N", default_value = "0", allow_hyphen_values = true, value_parser = numbers::integer)]
    pub timeout: i64,
    /// Answer one request, then exit (for HTTP).
    #[arg(long)]
    pub stateless_rpc: bool,
    /// Only advertise refs, then exit (for HTTP).
    #[arg(long, visible_alias = "advertise-refs")]
    pub http_backend_info_refs: bool,
    /// Path of the repository.
    pub directory: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(args = taken_back(&[
    "skip_connectivity_check", "reject_thin_pack_for_testing", "stateless_rpc", "http_backend_info_refs",
]))]
pub struct ReceivePack {
    /// Show no progress.
    #[arg(short, long, overrides_with = "no_quiet")]
    pub quiet: bool,
    /// Show progress (the default).
    #[arg(long)]
    pub no_quiet: bool,
    /// Do not check that all objects reachable from new tips exist: for hosts that check it otherwise.
    #[arg(long)]
    pub skip_connectivity_check: bool,
    /// Answer one request, then exit (for HTTP).
    #[arg(long)]
    pub stateless_rpc: bool,
    /// Only advertise refs, then exit (for HTTP).
    #[arg(long, visible_alias = "advertise-refs")]
    pub http_backend_info_refs: bool,
    #[arg(long, hide = true)]
    pub reject_thin_pack_for_testing: bool,
    /// Path of the repository.
    pub directory: Option<PathBuf>,
}

/// How `http-backend` gets its request; shown after the help.
const HTTP_BACKEND_HELP: &str = "\
The web server describes the request in the CGI variables REQUEST_METHOD, QUERY_STRING, CONTENT_TYPE, CONTENT_LENGTH, \
SERVER_PROTOCOL, HTTP_CONTENT_ENCODING, REMOTE_USER and REMOTE_ADDR, and the protocol version in GIT_PROTOCOL or else \
HTTP_GIT_PROTOCOL.

The repository is PATH_INFO below GIT_PROJECT_ROOT, or else PATH_TRANSLATED. It must contain a file git-daemon-export-ok unless \
GIT_HTTP_EXPORT_ALL is set.

http.uploadpack, http.receivepack and http.getanyfile of the repository enable and disable services. Clients with a REMOTE_USER \
may push unless http.receivepack is false. GIT_HTTP_MAX_REQUEST_BUFFER, or else http.maxRequestBuffer, limits the size of requests \
other than pushes (default: 10m); the response to larger ones is 413.";

#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Where shells look for completions; shown after the help.
const COMPLETIONS_HELP: &str = "\
Where to install them:
  bash  packrace completions bash >~/.local/share/bash-completion/completions/packrace
  zsh   packrace completions zsh >DIRECTORY/_packrace, where DIRECTORY is in $fpath
  fish  packrace completions fish >~/.config/fish/completions/packrace.fish";

#[derive(Debug, clap::Args)]
pub struct Man {
    /// The target directory.
    pub directory: PathBuf,
}

/// What a command line comes down to.
#[derive(Debug)]
pub enum Parsed<C> {
    /// Run a command.
    Run {
        /// The options before the command.
        globals: Box<Globals>,
        /// What the command is called.
        name: String,
        /// The command with its options.
        command: C,
        /// What is wrong behind them: only what comes before it is looked at.
        refusal: Option<Fatal>,
    },
    /// Let git do it, or say this if there is no git.
    HandOver(Option<String>),
    /// Say something and end.
    Answer {
        /// What goes to standard error.
        text: String,
        /// What goes to standard output.
        shown: String,
        /// The exit code.
        code: u8,
    },
}

impl<C> Parsed<C> {
    fn shown(shown: String, code: u8) -> Self {
        Parsed::Answer { text: String::new(), shown, code }
    }

    fn refused(text: String, code: u8) -> Self {
        Parsed::Answer { text, shown: String::new(), code }
    }
}

/// Commands of git that know no abbreviations of options.
const WITHOUT_ABBREVIATIONS: [&str; 2] = ["index-pack", "unpack-objects"];

/// What all options begin with that take others back. It is short for none of them, even where there is only one.
const NO: &str = "no-";

/// The command line as clap knows it. As in git, long options can be abbreviated behind the command, and not before it.
pub fn command_line() -> clap::Command {
    command_line_of::<Command>()
}

fn command_line_of<C: Subcommand>() -> clap::Command {
    Cli::<C>::command().mut_subcommands(|command| {
        let has_abbreviations = !WITHOUT_ABBREVIATIONS.contains(&command.get_name());
        command.infer_long_args(has_abbreviations)
    })
}

/// Reads a command line, the program's own name first, and then the command or options before it.
pub fn parse(mut argv: Vec<OsString>) -> Parsed<Command> {
    if let Some(usage) = refusal::asked_usage(&argv) {
        return usage;
    }
    if let Some(path) = globals::asked_exec_path(&argv) {
        return Parsed::shown(format!("{}\n", path.display()), 0);
    }
    let (http, https) = (("--http", DEFAULT_HTTP), ("--https", DEFAULT_HTTPS));
    add_default_addresses(&mut argv, &[http, https, ("--git", DEFAULT_GIT), ("--ssh", DEFAULT_SSH)]);
    let is_assumed_push = match with_push(&mut argv, &StashCommand::has_subcommand) {
        Ok(is_assumed) => is_assumed,
        Err(token) => {
            // As in git, options that it does not know are told first.
            let end = argv.iter().rposition(|word| *word == token).unwrap_or_default();
            if let refused @ Parsed::Answer { code: USAGE, .. } = parse(argv[..end].to_vec()) {
                return refused;
            }
            let token = token.to_string_lossy();
            let text = format!(
                "fatal: subcommand wasn't specified; 'push' can't be assumed due to unexpected token '{token}'\n"
            );
            return Parsed::refused(text, FATAL);
        }
    };
    end_options(&mut argv);
    expand_counts(&mut argv);
    refusal::expand_beginning_of_help(&mut argv);
    join_cache_info(&mut argv);
    let words = argv.get(command_position(&argv)..).unwrap_or_default();
    match typed::<Command>(&argv) {
        Ok((name, cli)) if cli.globals.git_dir.is_none() && cli.command.lacks_directory() => {
            let reason = if name == "receive-pack" { "fatal: you must specify a directory\n\n" } else { "" };
            Parsed::refused(format!("{reason}{}", usage_of(&name)), USAGE)
        }
        Ok((_, cli)) if cli.command.is_interactive() => Parsed::HandOver(None),
        Ok(_) if has_paths(words) => Parsed::HandOver(Some("fatal: paths are not supported\n".to_owned())),
        Ok((name, cli)) => {
            Parsed::Run { globals: Box::new(cli.globals), name, command: cli.command, refusal: None }
        }
        Err(error)
            if error.kind() == ErrorKind::UnknownArgument
                && matches!(words, [stash, store, _, ..] if stash == "stash" && store == "store") =>
        {
            refusal::not_stored(&words[2..])
        }
        Err(error) => match refused(refusal::told_first(error, &argv), &argv) {
            Parsed::Answer { text, code: USAGE, .. } if has_more_options(words) => {
                Parsed::HandOver(Some(text))
            }
            // As it was typed.
            Parsed::Answer { text, shown, code } if is_assumed_push => {
                let [text, shown] =
                    [text, shown].map(|text| text.replace(&usage_of("stash push"), &usage_of("stash")));
                Parsed::Answer { text, shown, code }
            }
            answer => answer,
        },
    }
}

/// What becomes of a command line that clap refuses: some commands look at what stands before an option that is wrong.
fn refused(error: clap::Error, argv: &[OsString]) -> Parsed<Command> {
    let answer = refusal::answer(&error, argv);
    let end = refusal::refused_option(&error, argv).filter(|end| *end > command_position(argv) + 1);
    match (end.map(|end| parse(argv[..end].to_vec())), &answer) {
        (Some(Parsed::Run { globals, name, command, .. }), Parsed::Answer { text, shown, code })
            if command.looks_at_options() =>
        {
            let refusal = Some(Fatal::silent(*code).after(text.as_bytes()).showing(shown.clone()));
            Parsed::Run { globals, name, command, refusal }
        }
        _ => answer,
    }
}

/// Reads a command line of `packrace-service`. `None`: `packrace` has the command, or knows what is wrong.
pub fn parse_service(argv: &[OsString]) -> Option<Parsed<Service>> {
    if globals::asked_exec_path(argv).is_some() {
        return None;
    }
    let (name, Cli { globals, command }) = typed(argv).ok()?;
    let (Service::UploadPack(UploadPack { directory, .. })
    | Service::ReceivePack(ReceivePack { directory, .. })) = &command;
    directory.is_some().then(|| Parsed::Run { globals: Box::new(globals), name, command, refusal: None })
}

/// What clap makes of a command line, and the name of the command.
fn typed<C: Subcommand>(argv: &[OsString]) -> Result<(String, Cli<C>), clap::Error> {
    refuse_no::<C>(argv)?;
    let mut matches = command_line_of::<C>().try_get_matches_from(argv)?;
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    // The last one counts.
    let config = globals::in_order(&matches, &["config", "config_env"]);
    let mut cli =
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command_line_of::<C>()))?;
    cli.globals.config = config;
    Ok((name, cli))
}

/// Refuses `--no-`, unless it is a value: what is no option in its place is accepted then, too.
fn refuse_no<C: Subcommand>(argv: &[OsString]) -> Result<(), clap::Error> {
    let is_no = |word: &OsString| word.to_str().and_then(|word| word.strip_prefix("--")) == Some(NO);
    if !argv.iter().any(is_no) {
        return Ok(());
    }
    let others = argv.iter().map(|word| if is_no(word) { "--no--".into() } else { word.clone() });
    match command_line_of::<C>().try_get_matches_from(others) {
        Err(mut error) if error.kind() == ErrorKind::UnknownArgument => {
            error.insert(ContextKind::InvalidArg, ContextValue::String(format!("--{NO}")));
            Err(error)
        }
        _ => Ok(()),
    }
}

impl From<UploadPack> for UploadPackOptions {
    fn from(args: UploadPack) -> Self {
        UploadPackOptions {
            strict: args.strict,
            timeout: args.timeout.try_into().unwrap_or(0),
            stateless_rpc: args.stateless_rpc,
            http_backend_info_refs: args.http_backend_info_refs,
            directory: args.directory,
        }
    }
}

impl From<ReceivePack> for ReceivePackOptions {
    fn from(args: ReceivePack) -> Self {
        ReceivePackOptions {
            quiet: args.quiet,
            skip_connectivity_check: args.skip_connectivity_check,
            reject_thin_packs: args.reject_thin_pack_for_testing,
            maintenance_program: std::env::current_exe().ok(),
            stateless_rpc: args.stateless_rpc,
            http_backend_info_refs: args.http_backend_info_refs,
            directory: args.directory,
        }
    }
}

/// `--no-…` of these options, or of `no_…` the name without, which does nothing but take them back: of both, the last that was
/// typed is left. Names of files stay, as in git 2.55.
fn taken_back(options: &'static [&'static str]) -> impl Iterator<Item = clap::Arg> {
    options.iter().map(|option| {
        let name = option.strip_prefix("no_").map_or_else(|| format!("no_{option}"), str::to_owned);
        let opposite = clap::Arg::new(name.clone()).long(name.replace('_', "-")).hide(true);
        // It has another name.
        let opposite = opposite.aliases((*option == "http_backend_info_refs").then_some("no-advertise-refs"));
        let taken = Some(*option).filter(|option| !["pathspec_from_file", "refs_snapshot"].contains(option));
        opposite.action(clap::ArgAction::SetTrue).overrides_with_all(taken)
    })
}

/// What an option and its opposite come to, of which the last that was typed is left.
fn chosen(yes: bool, no: bool) -> Option<bool> {
    (yes || no).then_some(yes)
}

// Options with which git lets users choose among changes. No documentation: clap would take it for that of the command.
#[derive(Debug, Default, clap::Args)]
pub struct Interaction {
    /// Choose the changes one by one; git does this, and must be installed.
    #[arg(long, short = 'p', overrides_with = "no_patch")]
    patch: bool,
    #[arg(long, hide = true, overrides_with = "patch")]
    no_patch: bool,
    /// With -p, show N lines around each change.
    #[arg(long, short = 'U', value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer)]
    unified: Option<i64>,
    /// With -p, show changes together with at most N lines between them.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::integer)]
    inter_hunk_context: Option<i64>,
    /// With -p, go on with the next file after the last change of one (the default).
    #[arg(long, overrides_with = "no_auto_advance")]
    auto_advance: bool,
    #[arg(long, hide = true, overrides_with = "auto_advance")]
    no_auto_advance: bool,
}

impl Interaction {
    fn is_asked(&self) -> bool {
        let has_number = self.unified.is_some() || self.inter_hunk_context.is_some();
        self.patch || has_number || self.no_auto_advance
    }
}
