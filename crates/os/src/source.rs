//! Reads bytes from a peer.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::count::{self, Op, Role};
use crate::throughput::{MinThroughput, ThroughputWatch};

/// A file descriptor to read from, with a limit on the wait of a read.
#[derive(Debug)]
pub struct FdSource {
    fd: OwnedFd,
    timeout: Option<Duration>,
    peer_speed: Option<ThroughputWatch>,
    /// A socket; once its other end is gone, all reads fail.
    owner: Option<Arc<OwnedFd>>,
    /// Whether data of a TCP peer is acknowledged at once.
    quick_acknowledgements: bool,
    /// Whether the last read left room in its buffer: probably no more data is available.
    is_drained: bool,
}

impl FdSource {
    /// Takes over `fd`. A read that waits longer than `timeout` fails with [`io::ErrorKind::TimedOut`].
    pub fn new(fd: OwnedFd, timeout: Option<Duration>) -> Self {
        FdSource {
            fd,
            timeout,
            peer_speed: None,
            owner: None,
            quick_acknowledgements: false,
            is_drained: true,
        }
    }

    /// A duplicate of the process's standard input.
    pub fn stdin(timeout: Option<Duration>) -> io::Result<Self> {
        Ok(FdSource::new(io::stdin().as_fd().try_clone_to_owned()?, timeout))
    }

    /// Limits each read to the time of `min`, and all reads together to its throughput: gives up on
    /// a slower peer.
    pub fn with_min_throughput(self, min: MinThroughput) -> Self {
        FdSource { timeout: Some(min.time), peer_speed: Some(ThroughputWatch::new(min)), ..self }
    }

    /// Reads fail with [`io::ErrorKind::ConnectionAborted`] once the other end of the socket `owner` is gone
    /// or has sent anything.
    pub fn with_owner(self, owner: Arc<OwnedFd>) -> Self {
        FdSource { owner: Some(owner), ..self }
    }

    /// Acknowledges data of a TCP peer at once, so that a peer that writes in pieces with Nagle's
    /// algorithm (RFC 896), like stock git over git://, need not wait for delayed acknowledgements (40 ms
    /// each on Linux).
    pub fn with_quick_acknowledgements(self) -> Self {
        FdSource { quick_acknowledgements: true, ..self }
    }

    /// Requests a pipe buffer of this many bytes, as far as the system allows it.
    pub fn enlarge_pipe(&self, bytes: usize) {
        // Only pipes have a size; other descriptors are unaffected.
        let _ = rustix::pipe::fcntl_setpipe_size(&self.fd, bytes);
    }

    /// The unread bytes of a regular file; `None` for anything else.
    pub fn rest_of_file(&self) -> io::Result<Option<u64>> {
        let stat = rustix::fs::fstat(&self.fd)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(None);
        }
        let length = u64::try_from(stat.st_size).unwrap_or_default();
        Ok(Some(length.saturating_sub(rustix::fs::tell(&self.fd)?)))
    }

    /// The kernel returns to delayed acknowledgements whenever data is sent, so this is requested again
    /// before each wait.
    fn acknowledge(&self) {
        if self.quick_acknowledgements && self.is_drained {
            // Failure only makes the peer slower. Other descriptors than TCP sockets lack the option.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.fd, true);
        }
    }

    fn wait_readable(&self) -> io::Result<()> {
        match wait(&self.fd, PollFlags::IN, self.timeout, self.owner.as_deref())? {
            events if events.is_empty() => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

/// Waits for events of `fd`; returns none on timeout. Fails once the other end of the socket `owner` is gone.
pub(crate) fn wait(
    fd: &OwnedFd,
    events: PollFlags,
    timeout: Option<Duration>,
    owner: Option<&OwnedFd>,
) -> io::Result<PollFlags> {
    count::add(Role::Client, Op::Wait, 0);
    let timeout = timeout.map(|timeout| rustix::event::Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let Some(owner) = owner else {
        let mut fds = [PollFd::new(fd, events)];
        poll(&mut fds, timeout.as_ref())?;
        return Ok(fds[0].revents());
    };
    let mut fds = [PollFd::new(fd, events), PollFd::new(owner, PollFlags::IN | PollFlags::RDHUP)];
    poll(&mut fds, timeout.as_ref())?;
    if !fds[1].revents().is_empty() {
        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "client disconnected"));
    }
    Ok(fds[0].revents())
}

impl Read for FdSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let since = self.peer_speed.is_some().then(Instant::now);
        self.acknowledge();
        if self.timeout.is_some() || self.owner.is_some() {
            self.wait_readable()?;
        }
        let room = buffer.len();
        let length = rustix::io::read(&self.fd, buffer)?;
        count::add(Role::Client, Op::Read, length);
        self.is_drained = length < room;
        if let (Some(speed), Some(since)) = (&mut self.peer_speed, since) {
            speed.waited(since, length)?;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn reads_wait_no_longer_than_allowed() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut source = FdSource::new(reader.into(), Some(Duration::from_millis(20)));
        let mut buffer = [0; 8];
        assert_eq!(source.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::TimedOut);
        writer.write_all(b"abc").unwrap();
        assert_eq!(source.read(&mut buffer).unwrap(), 3);
        drop(writer);
        assert_eq!(source.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn acknowledgements_are_quick_again_after_an_answer() {
        use rustix::net::sockopt::{set_tcp_quickack, tcp_quickack};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = listener.accept().unwrap().0;
        let seen = socket.try_clone().unwrap();
        let mut source = FdSource::new(socket.into(), None).with_quick_acknowledgements();
        let mut buffer = [0; 4];
        for _ in 0..3 {
            // As sending an answer does.
            set_tcp_quickack(&seen, false).unwrap();
            peer.write_all(b"abc").unwrap();
            assert_eq!(source.read(&mut buffer).unwrap(), 3);
            assert!(tcp_quickack(&seen).unwrap());
        }
        // Consecutive reads without waiting do not request it each time.
        set_tcp_quickack(&seen, false).unwrap();
        peer.write_all(b"abcdefgh").unwrap();
        assert_eq!(source.read(&mut buffer[..1]).unwrap(), 1);
        set_tcp_quickack(&seen, false).unwrap();
        assert_eq!(source.read(&mut buffer[..1]).unwrap(), 1);
        assert!(!tcp_quickack(&seen).unwrap());
    }

    #[test]
    fn reads_end_with_their_owner() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (owner, other_end) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut source = FdSource::new(reader.into(), None).with_owner(Arc::new(owner.into()));
        let mut buffer = [0; 8];
        writer.write_all(b"abc").unwrap();
        assert_eq!(source.read(&mut buffer).unwrap(), 3);
        let ends = std::thread::spawn(move || source.read(&mut [0; 8]).unwrap_err().kind());
        drop(other_end);
        assert_eq!(ends.join().unwrap(), io::ErrorKind::ConnectionAborted);
    }

    #[test]
    fn only_a_file_has_a_rest() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abcdef").unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let mut source = FdSource::new(file.into(), None);
        assert_eq!(source.rest_of_file().unwrap(), Some(6));
        assert_eq!(source.read(&mut [0; 4]).unwrap(), 4);
        assert_eq!(source.rest_of_file().unwrap(), Some(2));
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"abc").unwrap();
        assert_eq!(FdSource::new(reader.into(), None).rest_of_file().unwrap(), None);
    }

    #[test]
    fn a_peer_that_trickles_is_given_up() {
        let (reader, mut writer) = io::pipe().unwrap();
        let time = Duration::from_millis(50);
        let mut source =
            FdSource::new(reader.into(), None).with_min_throughput(MinThroughput { time, bytes: 1000 });
        let trickle = std::thread::spawn(move || {
            while writer.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut buffer = [0; 8];
        let error = std::iter::repeat_with(|| source.read(&mut buffer)).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(source);
        trickle.join().unwrap();
    }
}
