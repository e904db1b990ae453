//! Writes bytes to a peer: one gathered write for many pieces, with a fallback.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::count::{self, Op, Role};
use crate::faults;
use crate::source::wait;
use crate::throughput::{MinThroughput, ThroughputWatch};

/// The most bytes in one call; git's MAX_IO_SIZE. Platforms that limit calls to SSIZE_MAX accept it.
pub const MAX_CALL_BYTES: usize = 8 << 20;

/// The most bytes in one call behind a [`WriteGate`]: half a millisecond of processor time that the kernel
/// cannot preempt.
const MAX_GATED_BYTES: usize = 512 << 10;

/// The most pieces in one gathered call: POSIX promises 16, Linux accepts 1,024 (IOV_MAX).
pub const MAX_CALL_PIECES: usize = 1024;

/// The capabilities of a sink in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherLimits {
    /// Pieces per call; 1 if the platform has no vectored write.
    pub pieces: usize,
    /// Bytes per call.
    pub bytes: usize,
}

/// A stream of bytes to a peer. Real: [`FdSink`]. Simulated: [`crate::simulated::SimulatedSink`].
pub trait Sink: Send {
    /// Writes a prefix of the concatenation of `pieces` in one call and returns how many bytes it took. May fail
    /// with `Interrupted` or `WouldBlock`; callers use [`write_all`], which handles both.
    fn write_gathered(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// The limits of one call.
    fn limits(&self) -> GatherLimits;

    /// Waits until a write may succeed again, after `WouldBlock`.
    fn wait_writable(&mut self) -> io::Result<()>;

    /// Whether the peer is known to be gone, without writing to it.
    fn peer_gone(&mut self) -> bool;

    /// Long output follows: from now on, each write waits for the gate, if there is one.
    fn demote_to_background(&mut self);
}

/// Limits the number of threads that write at the same time.
pub trait WriteGate: fmt::Debug + Send + Sync {
    /// Calls `write` once, on this thread, when it may write.
    fn pass(&self, write: &mut dyn FnMut());
}

/// Writes all `pieces` with as few calls as the sink's limits allow. Partial writes continue where they
/// stopped; `EINTR` repeats; `EAGAIN` waits; a call that accepts nothing fails with `WriteZero`. Data
/// that the kernel cannot read (`EFAULT`) is touched, which marks damaged maps and replaces them by
/// zeros, and writing continues: frames stay whole, and the owner of the map finds the mark before the
/// output is complete.
pub fn write_all(sink: &mut dyn Sink, pieces: &[&[u8]]) -> io::Result<()> {
    let limits = sink.limits();
    let (max_pieces, max_bytes) = (limits.pieces.max(1), limits.bytes.max(1));
    let mut next = 0; // first piece that is not completely written
    let mut skip = 0; // bytes of it that are written
    let mut has_touched = false; // since the last progress
    let mut batch: Vec<IoSlice<'_>> = Vec::with_capacity(max_pieces.min(pieces.len()));
    loop {
        batch.clear();
        let mut room = max_bytes;
        let mut from = skip;
        for piece in &pieces[next..] {
            let rest = &piece[from..];
            from = 0;
            if rest.is_empty() {
                continue;
            }
            let take = rest.len().min(room);
            batch.push(IoSlice::new(&rest[..take]));
            room -= take;
            if room == 0 || batch.len() == max_pieces {
                break;
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        let mut taken = match sink.write_gathered(&batch) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => taken,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                sink.wait_writable()?;
                continue;
            }
            Err(e) if faults::is_unreadable(&e) && !has_touched => {
                batch.iter().for_each(|piece| drop(faults::touch(piece)));
                has_touched = true;
                continue;
            }
            Err(e) => return Err(e),
        };
        has_touched = false;
        while taken > 0 {
            let rest = pieces[next].len() - skip;
            if taken < rest {
                skip += taken;
                break;
            }
            taken -= rest;
            next += 1;
            skip = 0;
        }
    }
}

/// A pipe, socket or file descriptor.
#[derive(Debug)]
pub struct FdSink {
    fd: OwnedFd,
    /// How long the peer may accept nothing after a write would block.
    stall_limit: Option<Duration>,
    peer_speed: Option<ThroughputWatch>,
    /// In the background, each write passes this gate.
    gate: Option<Arc<dyn WriteGate>>,
    is_background: bool,
    /// Whether the peer of a socket had finished sending at the first check.
    had_finished_sending: Option<bool>,
    is_socket: bool,
    /// Neither socket nor pipe, so a write may block indefinitely.
    blocks: bool,
    /// A socket; once its other end is gone, all writes fail.
    owner: Option<Arc<OwnedFd>>,
}

impl FdSink {
    /// Takes over `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        FdSink {
            fd,
            stall_limit: None,
            peer_speed: None,
            gate: None,
            is_background: false,
            had_finished_sending: None,
            is_socket: false,
            blocks: false,
            owner: None,
        }
    }

    /// Takes over a blocking socket; gives up on a peer that is slower than `min`.
    pub fn socket(fd: OwnedFd, min: MinThroughput) -> io::Result<Self> {
        use rustix::net::sockopt::{Timeout, set_socket_timeout};
        // A call that takes longer returns the bytes moved so far.
        set_socket_timeout(&fd, Timeout::Send, Some(min.time))?;
        Ok(FdSink {
            stall_limit: Some(min.time),
            peer_speed: Some(ThroughputWatch::new(min)),
            is_socket: true,
            ..FdSink::new(fd)
        })
    }

    /// Takes over a descriptor from another process: a socket, a pipe, or a substitute for one. Writes fail
    /// if the peer is slower than `min`, or if the other end of the socket `owner` is gone. A pipe becomes
    /// non-blocking.
    pub fn handed_over(fd: OwnedFd, min: MinThroughput, owner: Arc<OwnedFd>) -> io::Result<Self> {
        use rustix::fs::{FileType, fstat};
        let sink = match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::Socket => FdSink::socket(fd, min)?,
            FileType::Fifo => {
                rustix::io::ioctl_fionbio(&fd, true)?;
                let peer_speed = Some(ThroughputWatch::new(min));
                FdSink { stall_limit: Some(min.time), peer_speed, ..FdSink::new(fd) }
            }
            _ => FdSink { blocks: true, ..FdSink::new(fd) },
        };
        Ok(FdSink { owner: Some(owner), ..sink })
    }

    /// As above, for a descriptor with other writers: its settings are not changed. Use
    /// [`FdSink::write_in_steps`].
    pub fn shared(fd: OwnedFd, stall_limit: Duration, owner: Arc<OwnedFd>) -> Self {
        FdSink { stall_limit: Some(stall_limit), owner: Some(owner), ..FdSink::new(fd) }
    }

    /// Writes in non-blocking steps: a ready pipe accepts as much as POSIX writes to one atomically.
    pub fn write_in_steps(&mut self, bytes: &[u8]) -> io::Result<()> {
        const STEP_BYTES: usize = 512;
        let mut rest = bytes;
        while !rest.is_empty() {
            self.wait_writable()?;
            let taken = rustix::io::write(&self.fd, &rest[..rest.len().min(STEP_BYTES)])?;
            count::add(Role::Client, Op::Write, taken);
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Limits the wait after a write that would block. For a non-blocking descriptor, or a socket with a send
    /// timeout.
    pub fn with_stall_limit(self, stall_limit: Duration) -> Self {
        FdSink { stall_limit: Some(stall_limit), ..self }
    }

    /// In the background, writes pass this gate; no thread waits for a peer while it holds the gate.
    pub fn with_gate(self, gate: Option<Arc<dyn WriteGate>>) -> Self {
        FdSink { gate: gate.filter(|_| !self.blocks), ..self }
    }

    /// A duplicate of the process's standard output.
    pub fn stdout() -> io::Result<Self> {
        Ok(FdSink::new(io::stdout().as_fd().try_clone_to_owned()?))
    }

    /// Requests a pipe buffer of `bytes`; ignores it if this is not a pipe or not allowed.
    pub fn enlarge_pipe(&self, bytes: usize) {
        let _ = rustix::pipe::fcntl_setpipe_size(&self.fd, bytes);
    }

    fn poll(
        &self,
        events: rustix::event::PollFlags,
        timeout: Option<Duration>,
    ) -> io::Result<rustix::event::PollFlags> {
        wait(&self.fd, events, timeout, self.owner.as_deref())
    }
}

impl Sink for FdSink {
    fn write_gathered(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let gate = self.gate.as_deref().filter(|_| self.is_background);
        let is_at_once = self.is_socket && (gate.is_some() || self.owner.is_some());
        let mut since = None;
        let mut written = Ok(0);
        let mut write = || {
            since = self.peer_speed.is_some().then(Instant::now);
            written = match pieces {
                pieces if is_at_once => send_at_once(&self.fd, pieces),
                [one] => rustix::io::write(&self.fd, one),
                many => gathered_or_plain(
                    &LACKS_GATHERED_WRITES,
                    || rustix::io::writev(&self.fd, many),
                    || rustix::io::write(&self.fd, first_piece(many)),
                ),
            };
        };
        match gate {
            Some(gate) => gate.pass(&mut write),
            None => write(),
        }
        let taken = *written.as_ref().unwrap_or(&0);
        count::add(Role::Client, Op::Write, taken);
        if let (Some(speed), Some(since)) = (&mut self.peer_speed, since) {
            speed.waited(since, taken)?;
        }
        Ok(written?)
    }

    fn limits(&self) -> GatherLimits {
        let is_gated = self.is_background && self.gate.is_some();
        GatherLimits {
            pieces: MAX_CALL_PIECES,
            bytes: if is_gated { MAX_GATED_BYTES } else { MAX_CALL_BYTES },
        }
    }

    fn wait_writable(&mut self) -> io::Result<()> {
        use rustix::event::PollFlags;
        let since = Instant::now();
        let is_stalled = self.poll(PollFlags::OUT, self.stall_limit)?.is_empty();
        match &mut self.peer_speed {
            _ if is_stalled => Err(io::ErrorKind::TimedOut.into()),
            Some(speed) => speed.waited(since, 0),
            None => Ok(()),
        }
    }

    fn peer_gone(&mut self) -> bool {
        use rustix::event::PollFlags;
        // A pipe whose reader is gone shows ERR, a socket whose peer is gone HUP or ERR.
        let events = match self.poll(PollFlags::RDHUP, Some(Duration::ZERO)) {
            Ok(events) => events,
            Err(error) => return error.kind() == io::ErrorKind::ConnectionAborted,
        };
        if events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return true;
        }
        // RDHUP means that the client closed, or only finished sending. The latter happens right after its
        // request; a client that closes later is gone.
        let has_finished = events.contains(PollFlags::RDHUP);
        let had_finished = *self.had_finished_sending.get_or_insert(has_finished);
        has_finished && !had_finished
    }

    fn demote_to_background(&mut self) {
        self.is_background = true;
    }
}

/// Sends as much to a socket as it accepts without waiting.
fn send_at_once(socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    gathered_or_plain(
        &LACKS_GATHERED_WRITES,
        || sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags),
        || send(socket, first_piece(pieces), flags),
    )
}

/// Whether the kernel, or a sandbox in its place, has no gathered writes.
pub(crate) static LACKS_GATHERED_WRITES: AtomicBool = AtomicBool::new(false);

/// Whether gathered writes may be tried: no one has failed with `ENOSYS` yet.
pub fn has_gathered_writes() -> bool {
    !LACKS_GATHERED_WRITES.load(Ordering::Relaxed)
}

/// Whether a gathered write failed because the system has no such call. It is not tried again then.
pub fn lacks_gathered_writes(error: &io::Error) -> bool {
    let is_missing = error.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error());
    if is_missing {
        LACKS_GATHERED_WRITES.store(true, Ordering::Relaxed);
    }
    is_missing
}

/// Makes a gathered write, or a plain one once the system has said that it has no such call (`ENOSYS`).
pub(crate) fn gathered_or_plain(
    lacks_gathered: &AtomicBool,
    gathered: impl FnOnce() -> rustix::io::Result<usize>,
    plain: impl FnOnce() -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    if !lacks_gathered.load(Ordering::Relaxed) {
        match gathered() {
            Err(rustix::io::Errno::NOSYS) => lacks_gathered.store(true, Ordering::Relaxed),
            written => return written,
        }
    }
    plain()
}

/// The first piece that is not empty.
pub fn first_piece<'p>(pieces: &'p [IoSlice<'_>]) -> &'p [u8] {
    pieces.iter().find(|piece| !piece.is_empty()).map_or(&[], |piece| &piece[..])
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::simulated::{SimulatedSink, WriteStep};

    fn check(
        steps: &[WriteStep],
        limits: GatherLimits,
        pieces: &[&[u8]],
        expect: Result<(), io::ErrorKind>,
    ) -> SimulatedSink {
        let mut sink = SimulatedSink::new(limits, steps.to_vec());
        let got = write_all(&mut sink, pieces).map_err(|e| e.kind());
        assert_eq!(got, expect, "{steps:?}");
        if expect.is_ok() {
            assert_eq!(sink.received(), pieces.concat(), "{steps:?}");
        }
        sink
    }

    #[test]
    fn plain_writes_if_there_are_no_gathered_ones() {
        use rustix::io::Errno;
        let lacks = AtomicBool::new(false);
        let write = |gathered| gathered_or_plain(&lacks, || gathered, || Ok(1));
        assert_eq!(write(Ok(9)), Ok(9));
        assert_eq!(write(Err(Errno::AGAIN)), Err(Errno::AGAIN));
        assert_eq!(write(Err(Errno::NOSYS)), Ok(1));
        // For good.
        assert_eq!(write(Ok(9)), Ok(1));
        assert_eq!(first_piece(&[IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"c")]), b"ab");
        assert_eq!(first_piece(&[]), b"");
    }

    const WIDE: GatherLimits = GatherLimits { pieces: 1024, bytes: MAX_CALL_BYTES };

    #[test]
    fn whole_batches_are_one_call() {
        assert_eq!(check(&[], WIDE, &[b"ab", b"", b"cde"], Ok(())).calls(), 1);
        assert_eq!(check(&[], WIDE, &[], Ok(())).calls(), 0);
        assert_eq!(check(&[], WIDE, &[b"", b""], Ok(())).calls(), 0);
    }

    #[test]
    fn partial_writes_continue_at_every_byte() {
        for cut in 1..6 {
            check(&[WriteStep::Take(cut)], WIDE, &[b"ab", b"c", b"def"], Ok(()));
            check(&[WriteStep::Take(1), WriteStep::Take(cut)], WIDE, &[b"ab", b"c", b"def"], Ok(()));
        }
    }

    #[test]
    fn interruptions_and_full_buffers_are_waited_out() {
        let steps = [
            WriteStep::Fail(io::ErrorKind::Interrupted),
            WriteStep::Take(2),
            WriteStep::Fail(io::ErrorKind::WouldBlock),
        ];
        let sink = check(&steps, WIDE, &[b"abc", b"def"], Ok(()));
        assert_eq!(sink.waits(), 1);
    }

    #[test]
    fn a_gone_peer_and_a_zero_write_end_it() {
        check(&[WriteStep::Fail(io::ErrorKind::BrokenPipe)], WIDE, &[b"a"], Err(io::ErrorKind::BrokenPipe));
        check(&[WriteStep::Take(0)], WIDE, &[b"a"], Err(io::ErrorKind::WriteZero));
    }

    #[test]
    fn without_vectored_write_each_piece_is_a_call() {
        let plain = GatherLimits { pieces: 1, bytes: MAX_CALL_BYTES };
        assert_eq!(check(&[], plain, &[b"ab", b"cd", b"ef"], Ok(())).calls(), 3);
    }

    #[test]
    fn a_limit_below_a_frame_cuts_pieces() {
        let narrow = GatherLimits { pieces: 1024, bytes: 4 };
        let sink = check(&[], narrow, &[b"abcdefghij", b"kl"], Ok(()));
        assert_eq!(sink.calls(), 3);
    }

    #[test]
    fn a_pipe_takes_gathered_bytes_and_shows_a_reader_that_left() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut sink = FdSink::new(writer.into());
        sink.enlarge_pipe(1 << 20);
        write_all(&mut sink, &[b"hello ", b"world"]).unwrap();
        assert!(!sink.peer_gone());
        let mut reader = reader;
        let mut got = [0; 11];
        std::io::Read::read_exact(&mut reader, &mut got).unwrap();
        assert_eq!(&got, b"hello world");
        drop(reader);
        assert!(sink.peer_gone());
    }

    #[test]
    fn a_socket_that_closes_later_has_left_but_one_that_only_finished_sending_has_not() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, FdSink::new(listener.accept().unwrap().0.into()))
        };
        let closes = |sink: &mut FdSink| {
            (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                sink.peer_gone()
            })
        };
        let (client, mut sink) = connect();
        assert!(!sink.peer_gone());
        drop(client);
        assert!(closes(&mut sink));

        let (client, mut sink) = connect();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!sink.peer_gone() && !sink.peer_gone());
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up() {
        let (_reader, writer) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let mut sink = FdSink::new(writer.into()).with_stall_limit(Duration::from_millis(20));
        let result = write_all(&mut sink, &[&vec![0; 4 << 20]]);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn writes_end_with_their_owner() {
        use std::os::unix::net::UnixStream;
        let min = MinThroughput { time: Duration::from_secs(60), bytes: 0 };
        let (_reader, pipe) = std::io::pipe().unwrap();
        let (_peer, socket) = UnixStream::pair().unwrap();
        for fd in [OwnedFd::from(pipe), OwnedFd::from(socket)] {
            let (owner, other_end) = UnixStream::pair().unwrap();
            let owner: Arc<OwnedFd> = Arc::new(owner.into());
            let mut shared = FdSink::shared(fd.try_clone().unwrap(), min.time, owner.clone());
            shared.write_in_steps(&[b'x'; 2000]).unwrap();
            let mut sink = FdSink::handed_over(fd, min, owner).unwrap();
            assert!(!sink.peer_gone());
            let ends = std::thread::spawn(move || {
                let ended = write_all(&mut sink, &[&vec![0; 64 << 20]]).unwrap_err().kind();
                (ended, sink.peer_gone())
            });
            drop(other_end);
            assert_eq!(ends.join().unwrap(), (io::ErrorKind::ConnectionAborted, true));
            shared.write_in_steps(b"x").unwrap_err();
        }
    }

    #[derive(Debug)]
    struct OneAtATime(Mutex<()>);

    impl WriteGate for OneAtATime {
        fn pass(&self, write: &mut dyn FnMut()) {
            let _held = self.0.lock().unwrap();
            write();
        }
    }

    #[test]
    fn who_waits_for_a_peer_holds_up_nobody_at_the_gate() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gate: Arc<dyn WriteGate> = Arc::new(OneAtATime(Mutex::default()));
        let min = MinThroughput { time: Duration::from_secs(60), bytes: 0 };
        let connect = || {
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let sink = FdSink::socket(listener.accept().unwrap().0.into(), min).unwrap();
            let mut sink = sink.with_gate(Some(gate.clone()));
            sink.demote_to_background();
            (client, sink)
        };
        let (takes_nothing, mut waiting) = connect();
        let (_client, mut other) = connect();
        let waits = std::thread::spawn(move || write_all(&mut waiting, &[&vec![0; 64 << 20]]));
        // By now it has passed the gate and has more to send than a socket holds.
        std::thread::sleep(Duration::from_millis(100));
        write_all(&mut other, &[b"goes past"]).unwrap();
        assert!(!waits.is_finished());
        drop(takes_nothing);
        waits.join().unwrap().unwrap_err();
    }

    #[test]
    fn a_peer_of_a_socket_that_takes_a_byte_now_and_then_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let min = MinThroughput { time: Duration::from_millis(100), bytes: 64 << 10 };
        let mut sink = FdSink::socket(listener.accept().unwrap().0.into(), min).unwrap();
        // It continues to read after the test has ended.
        std::thread::spawn(move || {
            while matches!(std::io::Read::read(&mut client, &mut [0; 100]), Ok(1..)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let result = write_all(&mut sink, &[&vec![0; 64 << 20]]);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
