//! `packrace shell`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_long_help = SHELL_HELP)]
pub struct Shell {
    /// Read settings from this file (TOML), as for serve --config; PACKRACE_SERVE_… variables are ignored.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Maintain the repository in the current directory, and serve nothing: what a push starts.
    #[arg(long, hide = true)]
    pub maintain: bool,
    /// The folder whose repositories are served, as for serve.
    pub root: PathBuf,
    /// The user that sshd has authenticated, as named in access.rules.
    pub user: String,
}

/// How to configure sshd; shown after the help.
const SHELL_HELP: &str = "\
Add a line to authorized_keys for each key of a user:

    command=\"packrace shell --config /etc/packrace.toml /srv/git alice\",restrict ssh-ed25519 AAAA… alice@laptop

The client's command is in SSH_ORIGINAL_COMMAND. git-upload-pack 'PATH' and git-receive-pack 'PATH' are served, for a PATH below \
ROOT, with or without a leading slash. Other commands are refused. For protocol version 2, sshd must pass GIT_PROTOCOL on (AcceptEnv \
GIT_PROTOCOL). Access is decided as by serve: by access.rules, or else push.allowed, and by serve.*. Hooks get the user as \
REMOTE_USER, and the client address of SSH_CONNECTION as REMOTE_ADDR.

If listen.shell is the socket of a running server (packrace serve) with the same user and ROOT, that server handles the session, with \
its caches, queue and limits. Otherwise, this process handles the session itself.

The exit code is 0, or 128 if the command was refused or failed.";
