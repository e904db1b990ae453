//! `packrace access`.

use std::path::PathBuf;

use packrace_server::access::Operation;

/// Check access rules and create credentials for packrace serve.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ACCESS_HELP)]
pub struct Access {
    #[command(subcommand)]
    pub command: AccessCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum AccessCommand {
    /// Print whether a user may do something, and which rule decides; exit with 1 if it is denied.
    Check(AccessCheck),
    /// Create a token for a user, append its hash to a token file, and print the token.
    Token(AccessToken),
    /// Read a password from standard input, and print its line for the users file.
    Hash(AccessHash),
    /// Print authorized_keys lines that make sshd run packrace shell for its users.
    ///
    /// The keys come from the settings of the server: ssh.user-keys, ssh.user-keys-folder, ssh.user-keys-command and ssh.user-ca.
    Keys(AccessKeys),
    /// Convert a gitolite.conf to access rules.
    ///
    /// The rules never allow more than the file did. Lines that cannot be expressed in rules are listed; unless --partial is given,
    /// nothing is written then, and the exit code is 1. A line that is not understood is an error, with exit code 128.
    FromGitolite(FromGitolite),
}

#[derive(Debug, clap::Args)]
pub struct FromGitolite {
    /// Write the rules even if they are incomplete; what cannot be expressed is denied, and listed at the end.
    #[arg(long)]
    pub partial: bool,
    /// Write the rules to this file instead of standard output; fail if it exists.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The configuration, such as conf/gitolite.conf; included files are relative to its directory.
    pub conf: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct AccessCheck {
    /// The configuration file of the server, as for serve --config.
    #[arg(long, value_name = "FILE", required_unless_present = "rules")]
    pub config: Option<PathBuf>,
    /// The rules file, instead of access.rules of the configuration.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// The user; "anyone" for clients without credentials.
    pub user: String,
    /// Path of the repository below the served folder.
    pub repository: String,
    /// The operation: read, write, create, force or delete.
    pub operation: Operation,
    /// The full name of a ref; without it, only rules for all refs apply.
    #[arg(value_name = "REF")]
    pub name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub struct AccessToken {
    /// Make the token expire: 30d, 12h, 90m, or a time such as 2027-01-01T00:00:00Z (default: never).
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,
    /// Allow no pushes with this token.
    #[arg(long)]
    pub read_only: bool,
    /// Restrict the token to repositories that match PATTERN; may be repeated.
    #[arg(long = "repository", value_name = "PATTERN")]
    pub repositories: Vec<String>,
    /// The user of the token.
    pub user: String,
    /// The token file; created if it does not exist.
    pub file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct AccessHash {
    /// The user of the password.
    pub user: String,
}

#[derive(Debug, clap::Args)]
#[command(after_long_help = KEYS_HELP)]
pub struct AccessKeys {
    /// The configuration file, as for serve --config; the lines pass it to packrace shell.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print the keys of all users in key files.
    #[arg(long, conflicts_with = "key")]
    pub all: bool,
    /// Print only this key (base64, sshd's %k), if a user has it; also asks ssh.user-keys-command.
    #[arg(long, value_name = "BASE64")]
    pub key: Option<String>,
    /// The served folder.
    pub root: PathBuf,
    /// Print the keys of this user, and the authorities that may certify it.
    #[arg(required_unless_present_any = ["all", "key"], conflicts_with_all = ["all", "key"])]
    pub user: Option<String>,
}

/// How to configure sshd; shown after the help.
const KEYS_HELP: &str = "\
Add to sshd_config, for the account that owns the repositories:

    Match User git
        AuthorizedKeysFile none
        AuthorizedKeysCommand /usr/bin/packrace access keys --config /etc/packrace.toml --key %k /srv/git
        AuthorizedKeysCommandUser git

sshd requires that root owns the program and all its parent directories, and that nobody else can write to them. For a key \
without a user, nothing is printed, and the exit code is 0.";

/// How to write rules; shown after the help.
const ACCESS_HELP: &str = "\
Rules are in a file (TOML) that the setting access.rules names. The first rule that matches decides; without a match, access is \
denied:

    admins = [\"alice\"]            # see all of the page at /-/; delete and rename repositories

    [groups]
    team = [\"alice\", \"bob\"]

    [[rule]]
    repository = \"public/**\"      # below the served folder, with or without .git
    who = \"anyone\"                # or \"users\" (everyone with a name), a name, \"@group\", a list
    allow = [\"read\"]

    [[rule]]
    repository = \"team/**\"
    who = \"@team\"
    deny = [\"force\", \"delete\"]
    refs = \"refs/heads/main\"      # full names; default: all refs

    [[rule]]
    repository = \"team/**\"
    who = \"@team\"
    allow = [\"read\", \"write\", \"create\", \"force\", \"delete\"]

read allows fetching, write fast-forward updates, create new refs, force any update, and delete the deletion of refs. create without \
refs also allows creating the repository, by a request (/-/api/v1/repositories) or by a push (packrace.createOnPush). Only admins \
rename and delete repositories.

In patterns, * and ? do not match slashes, ** does, and a trailing slash matches everything below.

SIGHUP reloads all files. If one has an error, the previous content stays in effect, and the log says where the error is.";
