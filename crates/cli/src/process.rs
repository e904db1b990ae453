//! The process: environment variables, standard streams, and inherited sockets.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use packrace_commands::trace2::TraceVariables;
use packrace_commands::{Environment, Fatal, Input, Output, Streams};
use packrace_server::listen::Scheme;

use crate::args::VariableOptions;
use packrace_server::serve_config::VARIABLE_PREFIX;

/// Writes a line to standard error. Errors are ignored: they cannot be reported anywhere.
macro_rules! eprint_line {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($line)*);
    }};
}

/// The environment for commands; some options override variables.
pub fn environment(typed: &VariableOptions) -> Environment {
    Environment::from_lookup(&|name| typed.value(name, std::env::var_os(name)))
}

/// Where the process writes reports on itself.
pub struct Reports {
    /// `GIT_TRACE2` and the like, and the older kinds.
    pub trace2: TraceVariables,
    /// `PACKRACE_IO_REPORT`.
    pub io_report: Option<PathBuf>,
}

impl Reports {
    /// The reports that variables request.
    pub fn asked_for() -> Self {
        let named = variables(&["GIT_TRACE*", "PATH"]).into_iter();
        let named = named.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let io_report = std::env::var_os("PACKRACE_IO_REPORT").filter(|path| !path.is_empty());
        Reports {
            trace2: TraceVariables { variables: named.collect() },
            io_report: io_report.map(PathBuf::from),
        }
    }
}

/// A session's variables from sshd.
pub struct SshSession {
    /// `SSH_ORIGINAL_COMMAND`; `None` if the client wants a shell.
    pub command: Option<OsString>,
    /// The client's address in `SSH_CONNECTION`, or in `SSH_CLIENT`.
    pub client: Option<SocketAddr>,
}

/// The SSH session whose forced command this process is.
pub fn ssh_session() -> SshSession {
    let connection = ["SSH_CONNECTION", "SSH_CLIENT"].into_iter().find_map(std::env::var_os);
    SshSession {
        command: std::env::var_os("SSH_ORIGINAL_COMMAND"),
        client: connection.and_then(|connection| ssh_client(connection.to_str()?)),
    }
}

/// Address and port, the first words of both variables.
fn ssh_client(connection: &str) -> Option<SocketAddr> {
    let mut words = connection.split(' ');
    // Link-local addresses end with the name of the link.
    let address: IpAddr = words.next()?.split('%').next()?.parse().ok()?;
    Some(SocketAddr::new(address, words.next()?.parse().ok()?))
}

/// Variables with settings of `serve`, and their values.
pub fn serve_variables() -> Vec<(String, String)> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let mut found: Vec<(String, String)> =
        all.filter(|(name, _)| name.starts_with(VARIABLE_PREFIX)).collect();
    found.sort();
    found
}

/// Variables for access to a bucket.
pub fn aws_variables() -> Vec<(String, String)> {
    let named = variables(&["AWS_*"]).into_iter();
    named.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

/// The variables of this process with one of these names; a final `*` matches any text.
pub fn variables(names: &[&str]) -> Vec<(OsString, OsString)> {
    let is_named = |name: &OsString| {
        names.iter().any(|named| match named.strip_suffix('*') {
            Some(beginning) => name.as_encoded_bytes().starts_with(beginning.as_bytes()),
            None => name == named,
        })
    };
    std::env::vars_os().filter(|(name, _)| is_named(name)).collect()
}

/// Listening sockets that the parent process passed on (sd_listen_fds). Returns them once.
pub fn inherited_listeners() -> Result<Vec<(Scheme, TcpListener)>, Fatal> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut handed_over = ListenFd::from_env();
    let schemes = schemes_of(&names, handed_over.len()).map_err(Fatal::new)?;
    let mut listeners = Vec::new();
    for (at, scheme) in schemes.into_iter().enumerate() {
        let listener = handed_over
            .take_tcp_listener(at)
            .map_err(|error| Fatal::new(format!("inherited socket {at} is not a TCP socket: {error}")))?;
        listeners.extend(listener.map(|listener| (scheme, listener)));
    }
    Ok(listeners)
}

/// Tells the service manager that the server is ready, if it wants to know (`Type=notify`, sd_notify(3)).
pub fn tell_ready() {
    // Abstract names, which begin with `@`, are for managers without a file system.
    let socket = std::env::var_os("NOTIFY_SOCKET").filter(|socket| Path::new(socket).is_absolute());
    let Some(socket) = socket else { return };
    let sent = UnixDatagram::unbound().and_then(|datagram| datagram.send_to(b"READY=1", socket));
    if let Err(error) = sent {
        tracing::warn!("cannot tell the service manager that the server is ready: {error}");
    }
}

/// The protocols of `count` sockets: by their names, else by their order.
fn schemes_of(names: &str, count: usize) -> Result<Vec<Scheme>, String> {
    let in_order = [Scheme::Http, Scheme::Git];
    let known = [Scheme::Http, Scheme::Https, Scheme::Git, Scheme::Ssh];
    let named: Vec<Option<Scheme>> =
        names.split(':').map(|name| known.into_iter().find(|scheme| scheme.name() == name)).collect();
    if named.iter().any(Option::is_some) {
        let all: Option<Vec<Scheme>> = named.into_iter().collect();
        return all.filter(|all| all.len() == count).ok_or_else(|| {
            format!("inherited sockets must be named http, https, git or ssh, not '{names}'")
        });
    }
    match count {
        0..=2 => Ok(in_order[..count].to_vec()),
        _ => Err(format!("{count} inherited sockets have no names")),
    }
}

/// Standard input, output and error. They may be closed or full.
pub fn streams() -> Streams {
    Streams::new(StandardInput, StandardOutput, StandardError)
}

struct StandardInput;

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().read(buffer)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        io::stdin().read_to_end(bytes)
    }
}

impl Input for StandardInput {
    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        io::stdin().as_fd().try_clone_to_owned().map(Some)
    }
}

struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::stdout().write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

impl Output for StandardOutput {
    fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        io::stdout().as_fd().try_clone_to_owned().map(Some)
    }
}

struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::stderr().write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl Output for StandardError {
    fn is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        io::stderr().as_fd().try_clone_to_owned().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_ssh() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(ssh_client(text).map(|client| client.to_string()).as_deref(), expect, "{text}");
        };
        check("192.0.2.1 50122 192.0.2.9 22", Some("192.0.2.1:50122"));
        check("2001:db8::1 50122 22", Some("[2001:db8::1]:50122"));
        check("fe80::1%eth0 50122 fe80::2%eth0 22", Some("[fe80::1]:50122"));
        for bad in ["", "UNKNOWN 65535 UNKNOWN 65535", "192.0.2.1", "192.0.2.1 x", "192.0.2.1 70000 22"] {
            check(bad, None);
        }
    }
}
