//! Where traces go (api-trace2, "Trace2 Targets").

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceTarget {
    StandardError,
    /// A file to append to, or a directory for files named by session.
    Path(PathBuf),
    /// A Unix socket; without a kind, a stream or else a datagram.
    Socket(Option<SocketKind>, PathBuf),
    Unknown(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketKind {
    Stream,
    Datagram,
}

impl TraceTarget {
    /// `None` if tracing is off.
    pub(super) fn parse(value: &OsString) -> Option<TraceTarget> {
        let path = Path::new(value);
        match value.to_str() {
            Some("" | "0") => None,
            Some(word) if word.eq_ignore_ascii_case("false") => None,
            Some("1" | "2") => Some(TraceTarget::StandardError),
            Some(word) if word.eq_ignore_ascii_case("true") => Some(TraceTarget::StandardError),
            Some(descriptor) if matches!(descriptor.as_bytes(), [b'3'..=b'9']) => {
                Some(TraceTarget::Path(Path::new("/dev/fd").join(descriptor)))
            }
            Some(text) if text.starts_with("af_unix:") => {
                let rest = &text["af_unix:".len()..];
                let (kind, path) = match (rest.strip_prefix("stream:"), rest.strip_prefix("dgram:")) {
                    (Some(path), _) => (Some(SocketKind::Stream), path),
                    (_, Some(path)) => (Some(SocketKind::Datagram), path),
                    _ => (None, rest),
                };
                match path.starts_with('/') {
                    true => Some(TraceTarget::Socket(kind, path.into())),
                    false => Some(TraceTarget::Unknown(text.to_owned())),
                }
            }
            _ if path.is_absolute() => Some(TraceTarget::Path(path.to_owned())),
            _ => Some(TraceTarget::Unknown(value.to_string_lossy().into_owned())),
        }
    }

    /// The file, directory or socket.
    pub(super) fn path(self) -> Option<PathBuf> {
        match self {
            TraceTarget::Path(path) | TraceTarget::Socket(_, path) => Some(path),
            TraceTarget::StandardError | TraceTarget::Unknown(_) => None,
        }
    }
}

/// Appends to a file, or to one of the session in a directory.
pub(super) fn append(path: &Path, sid: &str, text: &str) -> io::Result<()> {
    let path = match path.is_dir() {
        // git names files by the last part of the id.
        true => path.join(sid.rsplit('/').next().unwrap_or(sid)),
        false => path.to_owned(),
    };
    OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())
}

/// Sends to a socket; each line is a datagram, as in git.
pub(super) fn send(kind: Option<SocketKind>, path: &Path, text: &str) -> io::Result<()> {
    if kind != Some(SocketKind::Datagram) {
        match UnixStream::connect(path) {
            Ok(mut stream) => return stream.write_all(text.as_bytes()),
            Err(error) if kind.is_some() => return Err(error),
            Err(_) => {}
        }
    }
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    text.split_inclusive('\n').try_for_each(|line| socket.send(line.as_bytes()).map(drop))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn targets() {
        let check = |value: &str, expect: Option<TraceTarget>| {
            assert_eq!(TraceTarget::parse(&value.into()), expect, "{value}");
        };
        check("", None);
        check("0", None);
        check("False", None);
        check("1", Some(TraceTarget::StandardError));
        check("7", Some(TraceTarget::Path("/dev/fd/7".into())));
        check("/tmp/x", Some(TraceTarget::Path("/tmp/x".into())));
        check("x", Some(TraceTarget::Unknown("x".into())));
        check("af_unix:/tmp/x", Some(TraceTarget::Socket(None, "/tmp/x".into())));
        check("af_unix:stream:/x", Some(TraceTarget::Socket(Some(SocketKind::Stream), "/x".into())));
        check("af_unix:dgram:/x", Some(TraceTarget::Socket(Some(SocketKind::Datagram), "/x".into())));
        check("af_unix:x", Some(TraceTarget::Unknown("af_unix:x".into())));
    }

    #[test]
    fn sockets() {
        let dir = tempfile::tempdir().unwrap();
        let send = |kind, name: &str| send(kind, &dir.path().join(name), "one\ntwo\n");
        let listener = UnixListener::bind(dir.path().join("stream")).unwrap();
        send(None, "stream").unwrap();
        let mut read = String::new();
        listener.accept().unwrap().0.read_to_string(&mut read).unwrap();
        assert_eq!(read, "one\ntwo\n");
        let datagrams = UnixDatagram::bind(dir.path().join("dgram")).unwrap();
        send(None, "dgram").unwrap();
        let mut line = [0; 16];
        for expect in ["one\n", "two\n"] {
            let length = datagrams.recv(&mut line).unwrap();
            assert_eq!(&line[..length], expect.as_bytes());
        }
        send(Some(SocketKind::Stream), "none").unwrap_err();
    }
}
