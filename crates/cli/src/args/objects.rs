//! Commands that make single objects.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches};
use packrace_commands::options::{CommitPart, CommitTreeOptions, HashObjectOptions, WriteTreeOptions};

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["stdin", "stdin_paths", "literally", "path"]))]
pub struct HashObject {
    /// Type of the object.
    #[arg(short = 't', value_name = "TYPE", allow_hyphen_values = true, default_value = "blob")]
    pub kind: String,
    /// Store the object.
    #[arg(short = 'w')]
    pub write: bool,
    /// Read the object from standard input.
    #[arg(long, action = ArgAction::Count)]
    pub stdin: u8,
    /// Read file names from standard input, one per line.
    #[arg(long)]
    pub stdin_paths: bool,
    /// Hash files as they are, without conversion.
    #[arg(long, overrides_with = "filters")]
    pub no_filters: bool,
    /// Convert files as their attributes specify (the default).
    #[arg(long, alias = "no-no-filters", overrides_with = "no_filters")]
    pub filters: bool,
    /// Accept invalid content.
    #[arg(long)]
    pub literally: bool,
    /// Convert as if the content were in this file.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub path: Option<OsString>,
    /// The files.
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(args = super::taken_back(&["missing_ok", "prefix", "ignore_cache_tree"]))]
pub struct WriteTree {
    /// Do not check that the objects in the index exist.
    #[arg(long)]
    pub missing_ok: bool,
    /// Write the tree of this directory.
    #[arg(long, value_name = "PREFIX/", allow_hyphen_values = true)]
    pub prefix: Option<OsString>,
    // No effect: trees that the index caches have the same content.
    #[arg(long, hide = true)]
    pub ignore_cache_tree: bool,
    /// Ignored, as in git.
    #[arg(hide = true)]
    pub rest: Vec<OsString>,
}

#[derive(Debug)]
pub struct CommitTree(pub CommitTreeOptions);

impl clap::FromArgMatches for CommitTree {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |name: &str| -> Vec<(usize, OsString)> {
            let raw = matches.get_raw(name).into_iter().flatten().map(OsString::from);
            matches.indices_of(name).into_iter().flatten().zip(raw).collect()
        };
        let parents = values("parent").into_iter().map(|(at, name)| (at, CommitPart::Parent(name)));
        let texts = values("message").into_iter().map(|(at, text)| (at, CommitPart::Text(text)));
        let files = values("file").into_iter().map(|(at, file)| (at, CommitPart::File(file.into())));
        let mut parts: Vec<(usize, CommitPart)> = parents.chain(texts).chain(files).collect();
        parts.sort_by_key(|(at, _)| *at);
        let parts = parts.into_iter().map(|(_, part)| part).collect();
        let trees = values("tree").into_iter().map(|(_, tree)| tree).collect();
        Ok(CommitTree(CommitTreeOptions { trees, parts }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = CommitTree::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for CommitTree {
    fn augment_args(command: clap::Command) -> clap::Command {
        let value = |name: &'static str, letter: char, value: &'static str, help: &'static str| {
            let arg = Arg::new(name).short(letter).action(ArgAction::Append).value_name(value).help(help);
            arg.value_parser(clap::value_parser!(OsString)).allow_hyphen_values(true)
        };
        let no_sign = Arg::new("no-gpg-sign").long("no-gpg-sign").action(ArgAction::Count);
        let tree = Arg::new("tree").num_args(0..).value_name("TREE").help("The tree");
        command
            .arg(value("parent", 'p', "PARENT", "Parent of the commit; may be repeated"))
            .arg(value("message", 'm', "MESSAGE", "Paragraph of the message; may be repeated"))
            .arg(value(
                "file",
                'F',
                "FILE",
                "Read the message from a file; `-` is standard input, the default without -m",
            ))
            .arg(no_sign.help("Do not sign the commit; git signs it with -S"))
            .arg(tree.value_parser(clap::value_parser!(OsString)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl From<HashObject> for HashObjectOptions {
    fn from(args: HashObject) -> Self {
        HashObjectOptions {
            kind: args.kind,
            write: args.write,
            stdin: args.stdin,
            stdin_paths: args.stdin_paths,
            no_filters: args.no_filters,
            literally: args.literally,
            path: args.path,
            files: args.files,
        }
    }
}

impl From<WriteTree> for WriteTreeOptions {
    fn from(args: WriteTree) -> Self {
        WriteTreeOptions { missing_ok: args.missing_ok, prefix: args.prefix }
    }
}
