//! Git's own file system monitor (git-fsmonitor--daemon), asked over its socket (technical/api-simple-ipc).
//!
//! ```text
//! question: pkt-line of a token | flush
//! answer:   pkt-lines, together: token, NUL | (path, NUL) × n | flush      "/" is for all paths
//! ```

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use packrace_protocol::wire::pkt_line::{Decoder, PktLine, write_data};

use super::answer::{MAX_ANSWER_BYTES, MonitorAnswer};

/// The token of those who know none.
pub(super) const NO_TOKEN: &[u8] = b"builtin:fake";

/// How tokens of the daemon begin.
const TOKEN_PREFIX: &[u8] = b"builtin:";

/// The socket, in the git directory.
const SOCKET: &str = "fsmonitor--daemon.ipc";

/// The longest name of a socket that every system takes.
const MAX_NAME_BYTES: usize = 100;

/// The daemon that has not answered by then is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the daemon of a git directory what has changed since a token. If there is none, `start` starts one, or returns false. `None`
/// if it does not answer, or not well.
pub(super) fn ask(git_dir: &Path, token: &[u8], start: &dyn Fn() -> bool) -> Option<MonitorAnswer> {
    let said = match exchange(git_dir, token) {
        Err(error) if is_not_there(&error) && start() => exchange(git_dir, token),
        said => said,
    };
    answer(said.ok()?)
}

fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// A token of the daemon, and what has changed.
fn answer(mut said: Vec<u8>) -> Option<MonitorAnswer> {
    let end = said.iter().position(|byte| *byte == 0)?;
    let changed = said.split_off(end);
    let is_token = said.starts_with(TOKEN_PREFIX) && said != NO_TOKEN;
    is_token.then_some(MonitorAnswer { token: said, changed })
}

/// The answer, within a time limit: connecting, too, may block, which a thread can be left with.
fn exchange(git_dir: &Path, token: &[u8]) -> io::Result<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let (git_dir, token) = (git_dir.to_owned(), token.to_vec());
    std::thread::spawn(move || {
        // Nobody waits for it any more if that fails.
        let _ = sender.send(exchange_now(&git_dir, &token));
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn exchange_now(git_dir: &Path, token: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect(&git_dir.join(SOCKET))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = Vec::new();
    write_data(token, &mut question);
    question.extend_from_slice(b"0000");
    stream.write_all(&question)?;
    let (mut decoder, mut buffer, mut said) = (Decoder::default(), vec![0; 1 << 16], Vec::new());
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        decoder.push(&buffer[..count]);
        while let Some(packet) = decoder.next().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))? {
            match packet {
                PktLine::Data(data) if said.len() as u64 + data.len() as u64 <= MAX_ANSWER_BYTES => {
                    said.extend_from_slice(data);
                }
                PktLine::Flush => return Ok(said),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// A longer name than sockets have is one below the open directory.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (Some(dir), true) = (socket.parent(), socket.as_os_str().as_bytes().len() > MAX_NAME_BYTES) else {
        return UnixStream::connect(socket);
    };
    let dir = std::fs::File::open(dir)?;
    UnixStream::connect(PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Asks a daemon that answers with these bytes.
    fn check(said: &[u8], expect: Option<(&[u8], &[u8])>) {
        for name in ["short".to_owned(), "long".repeat(40)] {
            let dir = packrace_testkit::scratch_dir();
            let short = dir.path().join(SOCKET);
            let listener = UnixListener::bind(&short).unwrap();
            let git_dir = dir.path().join(name);
            std::os::unix::fs::symlink(dir.path(), &git_dir).unwrap();
            let bytes = said.to_vec();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = [0; 18];
                stream.read_exact(&mut question).unwrap();
                // The client may have gone by then.
                let _ = stream.write_all(&bytes);
                question
            });
            let found = ask(&git_dir, b"builtin:x1", &|| false);
            assert_eq!(&server.join().unwrap(), b"000ebuiltin:x10000");
            let found = found.as_ref().map(|found| (&found.token[..], &found.changed[..]));
            assert_eq!(found, expect, "{}", String::from_utf8_lossy(said));
        }
    }

    #[test]
    fn answers_are_whole_or_none() {
        check(b"000ebuiltin:2\x000000", Some((b"builtin:2", b"\0")));
        check(b"000ebuiltin:2\x00000ce\0e/f\0a\x000000", Some((b"builtin:2", b"\0e\0e/f\0a\0")));
        check(b"000ebuiltin:2\x000006/\x000000", Some((b"builtin:2", b"\0/\0")));
        check(b"000ebuiltin:2\x00000ce\0e/f\0a\0", None);
        check(b"000ebuiltin:2\0", None);
        check(b"000dbuiltin:20000", None);
        check(b"0009junk\x000000", None);
        check(b"0011builtin:fake\x000000", None);
        check(b"0000", None);
        check(b"", None);
        check(b"zzzz", None);
        check(b"0001", None);
        let started = std::cell::Cell::new(0);
        let dir = packrace_testkit::scratch_dir();
        let start = || {
            started.set(started.get() + 1);
            true
        };
        assert!(ask(dir.path(), NO_TOKEN, &start).is_none());
        assert_eq!(started.get(), 1);
    }
}
