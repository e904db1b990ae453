//! The shell's side: passes its session to a running server.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use packrace_os::descriptors;

use super::message::{self, END_HEAD_BYTES, GO, READY};
use super::session::ShellRequest;

/// How long a server may take to accept a session.
const ACCEPT_TIME: Duration = Duration::from_secs(5);

/// Lets the server at `socket` serve a session on the standard streams of this process, if it serves `root`
/// for the same user. Fails only before the streams are used; afterwards it returns how the session ended,
/// like [`serve_alone`](super::serve_alone).
pub fn hand_over(socket: &Path, root: &Path, request: &ShellRequest) -> io::Result<Result<(), String>> {
    let invalid = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
    let root = packrace_os::real_path(root)?;
    let message = message::encode(&root, request).ok_or_else(|| invalid("message is too long"))?;
    let mut server = descriptors::connect(socket, ACCEPT_TIME)?;
    if !descriptors::is_peer_trusted(&server)? {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "server runs as another user"));
    }
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    descriptors::send(&server, &message, &[stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
    let mut answer = [0];
    server.read_exact(&mut answer)?;
    if answer != [READY] {
        return Err(invalid("unknown answer"));
    }
    server.write_all(&[GO])?;
    // From here on, the server uses the streams.
    Ok(wait(&mut server).unwrap_or_else(|_| Err("server closed the session".to_owned())))
}

/// How the session ended.
fn wait(server: &mut UnixStream) -> io::Result<Result<(), String>> {
    server.set_read_timeout(None)?;
    let mut head = [0; END_HEAD_BYTES];
    server.read_exact(&mut head)?;
    let (is_good, length) = message::decode_end(head).ok_or(io::ErrorKind::InvalidData)?;
    let mut text = vec![0; length];
    server.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(if is_good { Ok(()) } else { Err(text) })
}
