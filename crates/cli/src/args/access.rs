//! `packrace access`.

use std::path::PathBuf;

use packrace_server::access::Operation;

/// Check who may do what, and make credentials, for `packrace serve`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ACCESS_HELP)]
pub struct Access {
    #[command(subcommand)]
    pub command: AccessCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum AccessCommand {
    /// Say whether a user may do something, and which rule decides. Ends with 1 if not.
    Check(AccessCheck),
    /// Make a token for a user, append its hash to a file of tokens, and print it.
    Token(AccessToken),
    /// Read a password from standard input, and print the line of a file of users for it.
    Hash(AccessHash),
    /// Print lines of authorized_keys by which sshd has packrace shell serve the users of ssh.user-keys and the like.
    Keys(AccessKeys),
    /// Make rules of a gitolite.conf, which never allow more than it did. Ends with 1 if they do not say all of it.
    FromGitolite(FromGitolite),
}

#[derive(Debug, clap::Args)]
pub struct FromGitolite {
    /// Write the rules also if they do not say all: what is missing is denied, and stands at their end.
    #[arg(long)]
    pub partial: bool,
    /// Where the rules go, instead of standard output. A file that is there already stays.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The file, as conf/gitolite.conf; what it includes lies beside it.
    pub conf: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct AccessCheck {
    /// The settings of the server, as for serve --config.
    #[arg(long, value_name = "FILE", required_unless_present = "rules")]
    pub config: Option<PathBuf>,
    /// The file of rules, instead of that of the settings.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// The user; "anyone" for somebody without credentials.
    pub user: String,
    /// The path of the repository below the served folder.
    pub repository: String,
    /// read, write, create, force or delete.
    pub operation: Operation,
    /// The full name of a ref; without it, what holds for all refs.
    #[arg(value_name = "REF")]
    pub name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct AccessToken {
    /// When it expires: 30d, 12h, or a time as 2027-01-01T00:00:00Z. Without it, never.
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,
    /// It allows no push.
    #[arg(long)]
    pub read_only: bool,
    /// It is for repositories with such paths only.
    #[arg(long = "repository", value_name = "PATTERN")]
    pub repositories: Vec<String>,
    /// Whose token it is.
    pub user: String,
    /// The file of tokens; it is made if it is not there.
    pub file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct AccessHash {
    /// Whose password it is.
    pub user: String,
}

#[derive(Debug, clap::Args)]
#[command(after_long_help = KEYS_HELP)]
pub struct AccessKeys {
    /// The settings, as for serve --config; the lines name them for packrace shell.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The keys of all users that files name.
    #[arg(long, conflicts_with = "key")]
    pub all: bool,
    /// This key alone, if it is somebody's: in base64, as sshd has it for %k. ssh.user-keys-command is asked, too.
    #[arg(long, value_name = "BASE64")]
    pub key: Option<String>,
    /// The folder whose repositories are served.
    pub root: PathBuf,
    /// The keys of this user, and authorities whose certificates may be for it.
    #[arg(required_unless_present_any = ["all", "key"], conflicts_with_all = ["all", "key"])]
    pub user: Option<String>,
}

/// How sshd is told, behind the help.
const KEYS_HELP: &str = "\
In sshd_config, for the account that owns the repositories:

    Match User git
        AuthorizedKeysFile none
        AuthorizedKeysCommand /usr/bin/packrace access keys --config /etc/packrace.toml --key %k /srv/git
        AuthorizedKeysCommandUser git

sshd wants the program, and all folders that it lies in, to belong to root and to be writable for nobody else. A key that is \
nobody's prints nothing, with exit code 0.";

/// How rules are written, behind the help.
const ACCESS_HELP: &str = "\
Rules stand in a file (TOML) that the setting access.rules names. The first rule that matches decides; what none matches is \
denied:

    admins = [\"alice\"]            # see the page at /-/, delete and rename repositories

    [groups]
    team = [\"alice\", \"bob\"]

    [[rule]]
    repository = \"public/**\"      # below the served folder, with or without .git
    who = \"anyone\"                # or \"users\" (all who are known), a name, \"@group\", a list
    allow = [\"read\"]

    [[rule]]
    repository = \"team/**\"
    who = \"@team\"
    deny = [\"force\", \"delete\"]
    refs = \"refs/heads/main\"      # full names; without refs: all

    [[rule]]
    repository = \"team/**\"
    who = \"@team\"
    allow = [\"read\", \"write\", \"create\", \"force\", \"delete\"]

write is for updates to descendants, create for new refs, force for any update, delete for refs that go. create without refs \
also allows to make the repository by a request (/-/api/v1/repositories), or by pushing to it (packrace.createOnPush); admins rename and \
delete repositories. In patterns, * and ? stop at slashes, ** \
does not, and a slash at the end stands for everything below.

SIGHUP has all files read again; if one has a mistake, what was read before stays.";
