//! `packrace serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use packrace_remote::BucketUrl;
use packrace_server::serve_config::{LISTENING_ADDRESSES, listening_address};

use super::{DEFAULT_GIT, DEFAULT_HTTP, DEFAULT_HTTPS, DEFAULT_SSH};

/// Shown after the help.
pub(super) const SERVE_HELP: &str = "\
Listening sockets are accepted from systemd (LISTEN_FDS). FileDescriptorName sets the protocol of a socket: http, https, git or \
ssh. Without these names, the first socket is for HTTP and the second for git://. Units for HTTP:

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

For --inetd, set Accept=yes in the socket unit, and StandardInput=socket in a service unit named packrace@.service.";

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Serve HTTP at this address and port (default: 127.0.0.1:8417).
    ///
    /// A port alone (`8417`, `:8417`) is one of 127.0.0.1, and so is `localhost:8417`; this holds for all addresses. A folder whose name is a number is `./8417`.
    ///
    /// Without any address in options and settings, socket from systemd, or listen.shell, HTTP is served at the default address.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_HTTP, value_parser = address)]
    pub http: Option<SocketAddr>,
    /// Serve HTTPS at this address and port (default: 127.0.0.1:8443); requires tls.certificates and tls.keys.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_HTTPS, value_parser = address)]
    pub https: Option<SocketAddr>,
    /// Serve git:// at this address and port (default: 127.0.0.1:9418).
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_GIT, value_parser = address)]
    pub git: Option<SocketAddr>,
    /// Serve SSH at this address and port (default: 127.0.0.1:8422); requires ssh.host-keys.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = false, default_missing_value = DEFAULT_SSH, value_parser = address)]
    pub ssh: Option<SocketAddr>,
    /// Allow everybody to push, if there are no access rules; same as --set push.allowed=true.
    ///
    /// A repository can still refuse, with http.receivepack or daemon.receivepack. With packrace.createOnPush in git's
    /// configuration, a push to an unused path that ends in .git creates a bare repository.
    #[arg(long)]
    pub allow_push: bool,
    /// Refuse all pushes, whatever other settings and repositories say; same as --set serve.read-only=true.
    #[arg(long)]
    pub read_only: bool,
    /// Serve one git:// connection on standard input and output, then exit.
    #[arg(long, conflicts_with_all = ["http", "https", "git", "ssh"])]
    pub inetd: bool,
    /// Read settings from this file (TOML); SIGHUP reloads it.
    ///
    /// Environment variables (PACKRACE_SERVE_LIMITS_DRAIN_TIME for limits.drain-time) override the file, and command-line
    /// options override both. If a reloaded file has an error, the previous settings stay in effect and the error is logged.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set a configuration key, such as `limits.drain-time=30s`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Print an example configuration file with every setting, its meaning and default, then exit.
    #[arg(long)]
    pub print_config: bool,
    /// Serve the repositories of this bucket (s3://BUCKET/PREFIX) instead of a folder; same as bucket.url.
    ///
    /// See packrace-bucket(1).
    #[arg(long, value_name = "URL", conflicts_with = "root")]
    pub bucket: Option<BucketUrl>,
    /// Cache the bucket's repositories in this directory; required with a bucket; same as bucket.cache.
    ///
    /// Servers must not share the directory. Its content may be lost at any time and needs no backup.
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Limit the cache to N bytes, with k, m or g as units (default: 10g); same as bucket.cache-bytes.
    #[arg(long, value_name = "N")]
    pub cache_bytes: Option<String>,
    /// The folder whose repositories are served; repositories inside other repositories are not.
    pub root: Option<PathBuf>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    listening_address(text).ok_or_else(|| format!("expected {LISTENING_ADDRESSES}"))
}
