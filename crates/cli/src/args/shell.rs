//! `packrace shell`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_long_help = SHELL_HELP)]
pub struct Shell {
    /// Take settings from this file (TOML), the same as serve --config. Variables (PACKRACE_SERVE_…) do not count.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder whose repositories are served, as for serve.
    pub root: PathBuf,
    /// Who it is that sshd has let in: a user of access.rules.
    pub user: String,
}

/// How sshd is told, behind the help.
const SHELL_HELP: &str = "\
A line of authorized_keys for each key of a user:

    command=\"packrace shell --config /etc/packrace.toml /srv/git alice\",restrict ssh-ed25519 AAAA… alice@laptop

What the client wants to run stands in SSH_ORIGINAL_COMMAND. git-upload-pack 'PATH' and git-receive-pack 'PATH' are \
served, for a PATH below ROOT, with or without a slash at its beginning; all else is refused. GIT_PROTOCOL counts where \
sshd lets it through (AcceptEnv GIT_PROTOCOL). What the user may do is decided as by serve: access.rules, or else \
push.allowed, and serve.*. Hooks get the user as REMOTE_USER and the address of SSH_CONNECTION as REMOTE_ADDR.

Where listen.shell names the socket of a running server (packrace serve) of the same user and the same ROOT, that server \
does the work, with its caches, queue and limits. Without one this process serves alone.

Exit code: 0, or 128 if something was refused or failed.";
