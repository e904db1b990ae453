//! `packrace serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use packrace_remote::BucketUrl;

use super::{DEFAULT_GIT, DEFAULT_HTTP, DEFAULT_HTTPS, DEFAULT_SSH};

/// What else `serve` does, behind its help.
pub(super) const SERVE_HELP: &str = "\
Sockets that listen already are taken from systemd (LISTEN_FDS): those that FileDescriptorName calls http, https, git or ssh, or \
without such names the first for HTTP and the second for git://. A unit for HTTP:

    # packrace.socket
    [Socket]
    ListenStream=80
    FileDescriptorName=http
    [Install]
    WantedBy=sockets.target

    # packrace.service
    [Service]
    ExecStart=/usr/bin/packrace serve /srv/git
    DynamicUser=yes
    LimitNOFILE=65536

For --inetd, the socket has Accept=yes, and the service is called packrace@.service, with StandardInput=socket.";

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Listen for HTTP here; with none of --http, --https, --git and --ssh, on 127.0.0.1:8417.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_HTTP)]
    pub http: Option<SocketAddr>,
    /// Listen for HTTP inside of TLS here, with the certificates of the settings (tls.certificates, tls.keys).
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_HTTPS)]
    pub https: Option<SocketAddr>,
    /// Listen for git:// here.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_GIT)]
    pub git: Option<SocketAddr>,
    /// Listen for SSH here, with the keys of the settings (ssh.host-keys, ssh.user-keys and others).
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_SSH)]
    pub ssh: Option<SocketAddr>,
    /// Let everybody push, but where http.receivepack or daemon.receivepack of a repository says no. With
    /// packrace.createOnPush, a push to a path that ends in .git makes a bare repository where nothing is.
    #[arg(long)]
    pub allow_push: bool,
    /// Let nobody push, whatever else is said, also by a repository; the same as --set serve.read-only=true.
    #[arg(long)]
    pub read_only: bool,
    /// Serve one connection of git:// on standard input and output, and end.
    #[arg(long, conflicts_with_all = ["http", "https", "git", "ssh"])]
    pub inetd: bool,
    /// Take settings from this file (TOML); SIGHUP has it read again. Variables (PACKRACE_SERVE_LIMITS_DRAIN_TIME for
    /// limits.drain-time) go before it, and what is said here before both.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Give a setting, as `limits.drain-time=30s`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Print an example of a file with every setting, its meaning and its default, and end.
    #[arg(long)]
    pub print_config: bool,
    /// Serve the repositories of this bucket, s3://BUCKET/PREFIX, instead of a folder. The same as bucket.url; see
    /// packrace-bucket(1).
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    pub bucket: Option<BucketUrl>,
    /// With a bucket, keep its repositories in this folder, which belongs to this server alone; the same as bucket.cache.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// With a bucket, keep no more bytes there; the same as bucket.cache-bytes.
    #[arg(long, value_name = "N")]
    pub cache_bytes: Option<String>,
    /// The folder whose repositories are served, all but those that lie in another.
    pub root: Option<PathBuf>,
}
