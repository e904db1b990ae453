//! Where traces go (api-trace2, "Trace2 Targets").

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

/// The file that stops further traces in a directory (git-config, "trace2.maxFiles").
const DISCARD: &str = "git-trace2-discard";

/// The size of the place that the system has for the path of a Unix socket, with a NUL at its end (unix(7)).
const SOCKET_PATH_BYTES: usize = 108;

/// How many names for a file are tried.
const MAX_ATTEMPTS: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceTarget {
    StandardError,
    /// A descriptor that the process was started with.
    Descriptor(u8),
    /// A file to append to, or a directory for files named by session.
    Path(PathBuf),
    /// A Unix socket; without a kind, a stream or else a datagram.
    Socket(Option<SocketKind>, PathBuf),
    /// A value for a Unix socket, and its path, which no socket can have.
    BadSocket(String, String),
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
        if let [digit @ b'3'..=b'9'] = value.as_encoded_bytes() {
            return Some(TraceTarget::Descriptor(*digit - b'0'));
        }
        let path = Path::new(value);
        match value.to_str() {
            Some("" | "0") => None,
            Some(word) if word.eq_ignore_ascii_case("false") => None,
            Some("1" | "2") => Some(TraceTarget::StandardError),
            Some(word) if word.eq_ignore_ascii_case("true") => Some(TraceTarget::StandardError),
            Some(text) if text.starts_with("af_unix:") => {
                let rest = &text["af_unix:".len()..];
                let (kind, path) = match (rest.strip_prefix("stream:"), rest.strip_prefix("dgram:")) {
                    (Some(path), _) => (Some(SocketKind::Stream), path),
                    (_, Some(path)) => (Some(SocketKind::Datagram), path),
                    _ => (None, rest),
                };
                match path.starts_with('/') && path.len() < SOCKET_PATH_BYTES {
                    true => Some(TraceTarget::Socket(kind, path.into())),
                    false => Some(TraceTarget::BadSocket(text.to_owned(), path.to_owned())),
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
            TraceTarget::StandardError
            | TraceTarget::Descriptor(_)
            | TraceTarget::BadSocket(..)
            | TraceTarget::Unknown(_) => None,
        }
    }
}

/// A target that is open.
#[derive(Debug, Default)]
pub(super) enum TraceWriter {
    #[default]
    StandardError,
    File(File),
    /// No descriptor: why nothing can be written to it.
    Closed(io::Error),
    Stream(UnixStream),
    Datagrams(UnixDatagram),
}

/// A target, opened.
#[derive(Debug)]
pub(super) struct OpenedTarget {
    pub(super) writer: TraceWriter,
    /// Whether it is the file that stops further traces in its directory.
    pub(super) is_last: bool,
}

/// Why nothing is written to a target.
#[derive(Debug)]
pub(super) enum TargetFailure {
    Unknown(String),
    TooManyFiles(PathBuf),
    NotOpened(PathBuf, io::Error),
    /// A value for a Unix socket, and its path.
    BadSocket(String, String),
    NotConnected(PathBuf, io::Error),
}

impl TargetFailure {
    /// Whether git reports it without being asked.
    pub(super) fn is_always_told(&self) -> bool {
        matches!(self, TargetFailure::Unknown(_))
    }

    /// Git's words for the older kinds of trace (`GIT_TRACE`, `GIT_TRACE_PACKET`).
    pub(super) fn classic_text(&self, variable: &str) -> String {
        match self {
            TargetFailure::NotOpened(path, error) => {
                format!("could not open '{}' for tracing: {}", path.display(), packrace_os::reason(error))
            }
            TargetFailure::Unknown(value) => format!(
                "unknown trace value for '{variable}': {value}\n         If you want to trace into a file, then please set \
                 {variable}\n         to an absolute pathname (starting with /)"
            ),
            TargetFailure::TooManyFiles(_)
            | TargetFailure::BadSocket(..)
            | TargetFailure::NotConnected(..) => self.text(variable),
        }
    }

    /// git's words.
    pub(super) fn text(&self, variable: &str) -> String {
        match self {
            TargetFailure::Unknown(value) => format!("unknown value for '{variable}': '{value}'"),
            TargetFailure::TooManyFiles(path) => format!(
                "not opening {variable} trace file due to too many files in target directory {}",
                path.display()
            ),
            TargetFailure::NotOpened(path, error) => {
                let reason = packrace_os::reason(error);
                format!("could not open '{}' for '{variable}' tracing: {reason}", path.display())
            }
            TargetFailure::BadSocket(value, path) => match path.is_empty() {
                true => format!("invalid AF_UNIX value '{value}' for '{variable}' tracing"),
                false => format!("invalid AF_UNIX path '{path}' for '{variable}' tracing"),
            },
            TargetFailure::NotConnected(path, error) => {
                let (path, reason) = (path.display(), packrace_os::reason(error));
                format!("could not connect to socket '{path}' for '{variable}' tracing: {reason}")
            }
        }
    }
}

impl TraceWriter {
    fn of_descriptor(number: u8) -> TraceWriter {
        match packrace_os::process::inherited_descriptor(number.into()) {
            Ok(descriptor) => TraceWriter::File(descriptor.into()),
            Err(error) => TraceWriter::Closed(error),
        }
    }

    /// Writes a line with one call. Each line is a datagram, as in git.
    pub(super) fn write(&mut self, line: &str, to_stderr: fn(&str)) -> io::Result<()> {
        if matches!(self, TraceWriter::StandardError) {
            to_stderr(line);
        }
        self.write_elsewhere(line.as_bytes())
    }

    /// Writes bytes with one call, unless they are for standard error, which has a writer of its own.
    pub(super) fn write_elsewhere(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            TraceWriter::StandardError => {}
            TraceWriter::File(file) => file.write_all(bytes)?,
            TraceWriter::Closed(error) => return Err(std::mem::replace(error, ErrorKind::NotFound.into())),
            TraceWriter::Stream(stream) => stream.write_all(bytes)?,
            TraceWriter::Datagrams(socket) => drop(socket.send(bytes)?),
        }
        Ok(())
    }
}

impl TraceTarget {
    /// Opens it for an older kind of trace, which knows neither directories nor sockets.
    pub(super) fn open_classic(&self) -> Result<TraceWriter, TargetFailure> {
        match self {
            TraceTarget::StandardError => Ok(TraceWriter::StandardError),
            TraceTarget::Descriptor(number) => Ok(TraceWriter::of_descriptor(*number)),
            TraceTarget::Unknown(value) | TraceTarget::BadSocket(value, _) => {
                Err(TargetFailure::Unknown(value.clone()))
            }
            TraceTarget::Socket(kind, path) => {
                let kind = match kind {
                    Some(SocketKind::Stream) => "stream:",
                    Some(SocketKind::Datagram) => "dgram:",
                    None => "",
                };
                Err(TargetFailure::Unknown(format!("af_unix:{kind}{}", path.display())))
            }
            TraceTarget::Path(path) => append_to(path).map(TraceWriter::File),
        }
    }

    /// Opens it. A directory gets a file named by the session, unless it has `max_files` entries, which 0 allows always.
    pub(super) fn open(&self, sid: &str, max_files: usize) -> Result<OpenedTarget, TargetFailure> {
        let opened = |writer| OpenedTarget { writer, is_last: false };
        match self {
            TraceTarget::StandardError => Ok(opened(TraceWriter::StandardError)),
            TraceTarget::Descriptor(number) => Ok(opened(TraceWriter::of_descriptor(*number))),
            TraceTarget::Unknown(value) => Err(TargetFailure::Unknown(value.clone())),
            TraceTarget::BadSocket(value, path) => Err(TargetFailure::BadSocket(value.clone(), path.clone())),
            TraceTarget::Socket(kind, path) => connect(*kind, path)
                .map(opened)
                .map_err(|error| TargetFailure::NotConnected(path.clone(), error)),
            // git names files by the last part of the id.
            TraceTarget::Path(path) if path.is_dir() => {
                open_in(path, sid.rsplit('/').next().unwrap_or(sid), max_files)
            }
            TraceTarget::Path(path) => append_to(path).map(|file| opened(TraceWriter::File(file))),
        }
    }
}

fn append_to(path: &Path) -> Result<File, TargetFailure> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| TargetFailure::NotOpened(path.to_owned(), error))
}

/// Opens a new file in a directory: one that stops further traces there, if it has too many files.
fn open_in(dir: &Path, name: &str, max_files: usize) -> Result<OpenedTarget, TargetFailure> {
    let create = |path: &Path| OpenOptions::new().append(true).create_new(true).open(path);
    let opened = |file, is_last| Ok(OpenedTarget { writer: TraceWriter::File(file), is_last });
    if max_files > 0 {
        let too_many = || Err(TargetFailure::TooManyFiles(dir.to_owned()));
        let last = dir.join(DISCARD);
        if last.symlink_metadata().is_ok() {
            return too_many();
        }
        // git counts `.` and `..`.
        let files = 2 + std::fs::read_dir(dir).map_or(0, |entries| entries.take(max_files).count());
        if files >= max_files {
            return match create(&last) {
                Ok(file) => opened(file, true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => too_many(),
                Err(error) => Err(TargetFailure::NotOpened(last, error)),
            };
        }
    }
    let mut path = dir.join(name);
    for attempt in 1..=MAX_ATTEMPTS {
        match create(&path) {
            Ok(file) => return opened(file, false),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => {
                path = dir.join(format!("{name}.{attempt}"));
            }
            Err(error) => return Err(TargetFailure::NotOpened(path, error)),
        }
    }
    Err(TargetFailure::NotOpened(path, io::ErrorKind::AlreadyExists.into()))
}

fn connect(kind: Option<SocketKind>, path: &Path) -> io::Result<TraceWriter> {
    if kind != Some(SocketKind::Datagram) {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(TraceWriter::Stream(stream)),
            Err(error) if kind.is_some() => return Err(error),
            Err(_) => {}
        }
    }
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    Ok(TraceWriter::Datagrams(socket))
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
        check("7", Some(TraceTarget::Descriptor(7)));
        check("2", Some(TraceTarget::StandardError));
        check("/tmp/x", Some(TraceTarget::Path("/tmp/x".into())));
        check("x", Some(TraceTarget::Unknown("x".into())));
        check("af_unix:/tmp/x", Some(TraceTarget::Socket(None, "/tmp/x".into())));
        check("af_unix:stream:/x", Some(TraceTarget::Socket(Some(SocketKind::Stream), "/x".into())));
        check("af_unix:dgram:/x", Some(TraceTarget::Socket(Some(SocketKind::Datagram), "/x".into())));
        check("af_unix:x", Some(TraceTarget::BadSocket("af_unix:x".into(), "x".into())));
        check("af_unix:dgram:", Some(TraceTarget::BadSocket("af_unix:dgram:".into(), String::new())));
        let long = format!("/{}", "x".repeat(107));
        let value = format!("af_unix:{long}");
        check(&value, Some(TraceTarget::BadSocket(value.clone(), long)));
    }

    /// Files of this process are no targets.
    #[test]
    fn descriptors() {
        let own = tempfile::tempfile().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&own);
        let mut writer = TraceWriter::of_descriptor(u8::try_from(number).unwrap());
        let error = writer.write("x", |_| {}).unwrap_err();
        assert_eq!(packrace_os::reason(&error), "Bad file descriptor");
    }

    #[test]
    fn sockets() {
        let dir = packrace_testkit::scratch_dir();
        let open = |kind, name: &str| TraceTarget::Socket(kind, dir.path().join(name)).open("sid", 0);
        let send = |kind, name: &str| {
            let mut writer = open(kind, name).unwrap().writer;
            ["one\n", "two\n"].iter().for_each(|line| writer.write(line, |_| {}).unwrap());
        };
        let listener = UnixListener::bind(dir.path().join("stream")).unwrap();
        send(None, "stream");
        let mut read = String::new();
        listener.accept().unwrap().0.read_to_string(&mut read).unwrap();
        assert_eq!(read, "one\ntwo\n");
        let datagrams = UnixDatagram::bind(dir.path().join("dgram")).unwrap();
        send(None, "dgram");
        let mut line = [0; 16];
        for expect in ["one\n", "two\n"] {
            let length = datagrams.recv(&mut line).unwrap();
            assert_eq!(&line[..length], expect.as_bytes());
        }
        open(Some(SocketKind::Stream), "none").unwrap_err();
    }

    #[test]
    fn files_in_a_directory() {
        let dir = packrace_testkit::scratch_dir();
        let open = |max_files| TraceTarget::Path(dir.path().to_owned()).open("parent/own", max_files);
        let names = || {
            let entries = std::fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert!(!open(0).unwrap().is_last);
        assert!(!open(4).unwrap().is_last);
        assert_eq!(names(), ["own", "own.1"]);
        assert!(open(4).unwrap().is_last);
        assert_eq!(names(), [DISCARD, "own", "own.1"]);
        assert!(matches!(open(9).unwrap_err(), TargetFailure::TooManyFiles(_)));
        // Without a limit the file stops nothing.
        assert!(!open(0).unwrap().is_last);
        for _ in 0..MAX_ATTEMPTS - 3 {
            open(0).unwrap();
        }
        assert!(matches!(open(0).unwrap_err(), TargetFailure::NotOpened(..)));
    }
}
