//! The streams of a command. The caller provides all of them; no command opens a stream of the process.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Cursor, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use packrace_os::sink::{FdSink, GatherLimits, MAX_CALL_BYTES, MAX_CALL_PIECES, Sink};
use packrace_os::source::FdSource;
use packrace_os::trace::{self, TraceStep};

use crate::call::fatal::Fatal;

/// The input of a command.
pub trait Input: Read + Send {
    /// A duplicate of the underlying descriptor, if there is one. Packs are read from it in large pieces, and
    /// reads can have a timeout.
    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

/// An output of a command.
pub trait Output: Write + Send {
    /// Whether this is a terminal: enables progress and colours.
    fn is_terminal(&self) -> bool {
        false
    }

    /// A duplicate of the underlying descriptor, if there is one. Packs are written to it with gathered
    /// writes.
    fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

impl Input for Cursor<Vec<u8>> {}

impl Output for Written {}

/// An in-memory output. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// The bytes written so far.
    pub fn bytes(&self) -> Vec<u8> {
        locked(&self.0).clone()
    }

    /// The same as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&locked(&self.0)).into_owned()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        locked(&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Input, output and error output of one call.
pub struct Streams {
    input: Mutex<Box<dyn Input>>,
    output: Mutex<Box<dyn Output>>,
    /// The output for messages and progress.
    pub errors: ErrorOutput,
}

impl Streams {
    /// Bundles the streams of a call.
    pub fn new(
        input: impl Input + 'static,
        output: impl Output + 'static,
        errors: impl Output + 'static,
    ) -> Self {
        Streams {
            input: Mutex::new(Box::new(input)),
            output: Mutex::new(Box::new(output)),
            errors: ErrorOutput::new(errors),
        }
    }

    /// Streams that read `input` and write to memory, with handles to the output and the error output.
    pub fn in_memory(input: impl Into<Vec<u8>>) -> (Self, Written, Written) {
        let (output, errors) = (Written::default(), Written::default());
        (Streams::new(Cursor::new(input.into()), output.clone(), errors.clone()), output, errors)
    }

    /// The input.
    pub(crate) fn input(&self) -> InputReader<'_> {
        InputReader(&self.input)
    }

    /// The lines of the input. As in git, a directory has none.
    pub(crate) fn input_lines(&self) -> io::Result<Vec<String>> {
        match BufReader::new(self.input()).lines().collect() {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(Vec::new()),
            lines => lines,
        }
    }

    /// The input for packs and requests: read from its descriptor, if it has one. A read from a descriptor
    /// fails after `timeout`; other inputs have no time limit.
    pub(crate) fn source(&self, timeout: Option<Duration>) -> io::Result<InputSource<'_>> {
        Ok(match locked(&self.input).descriptor()? {
            Some(fd) => InputSource::Descriptor(FdSource::new(fd, timeout)),
            None => InputSource::Other(self.input()),
        })
    }

    /// The output, locked.
    pub(crate) fn output(&self) -> MutexGuard<'_, Box<dyn Output>> {
        locked(&self.output)
    }

    /// The output for packs and responses: written to its descriptor, if it has one.
    pub(crate) fn sink(&self) -> io::Result<OutputSink<'_>> {
        Ok(match self.output().descriptor()? {
            Some(fd) => OutputSink::Descriptor(FdSink::new(fd)),
            None => OutputSink::Other(&self.output),
        })
    }

    /// Writes to the output and flushes it.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Fatal> {
        let mut output = self.output();
        output.write_all(bytes).and_then(|()| output.flush()).map_err(not_written)
    }
}

/// The error for a command whose output cannot be written.
pub(crate) fn not_written(error: io::Error) -> Fatal {
    match error.kind() {
        // The reader is gone, as with `| head`; git dies of a signal then.
        io::ErrorKind::BrokenPipe => Fatal::silent(141),
        _ => Fatal::new(format!("write failure on standard output: {}", packrace_os::reason(&error))),
    }
}

/// The output for messages and progress. Clones share it, also across threads.
#[derive(Clone)]
pub struct ErrorOutput(Arc<Mutex<Box<dyn Output>>>);

impl ErrorOutput {
    /// Wraps an output.
    pub fn new(to: impl Output + 'static) -> Self {
        ErrorOutput(Arc::new(Mutex::new(Box::new(to))))
    }

    /// Writes a line. Errors are ignored: they cannot be reported anywhere.
    pub(crate) fn error_line(&self, line: fmt::Arguments<'_>) {
        let line = format!("{line}\n");
        trace::tell(TraceStep::Said(line.trim_end()));
        let _ = self.say(line.as_bytes());
    }

    /// Writes bytes unchanged.
    pub(crate) fn say(&self, bytes: &[u8]) -> io::Result<()> {
        locked(&self.0).write_all(bytes)
    }

    /// Whether it is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        locked(&self.0).is_terminal()
    }

    /// A duplicate of its descriptor, if it has one.
    pub(crate) fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        locked(&self.0).descriptor()
    }
}

impl Write for ErrorOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        locked(&self.0).write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        locked(&self.0).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        locked(&self.0).flush()
    }
}

/// Ignores poisoning: no state here can be half changed.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the input of a call. Holds the lock for one read at a time.
pub(crate) struct InputReader<'a>(&'a Mutex<Box<dyn Input>>);

impl Read for InputReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        locked(self.0).read(buffer)
    }

    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        locked(self.0).read_to_end(bytes)
    }
}

/// A descriptor, or the input itself.
pub(crate) enum InputSource<'a> {
    Descriptor(FdSource),
    Other(InputReader<'a>),
}

impl InputSource<'_> {
    /// Enlarges a pipe's buffer to this size, as far as the system allows.
    pub(crate) fn enlarge_pipe(&self, bytes: usize) {
        if let InputSource::Descriptor(source) = self {
            source.enlarge_pipe(bytes);
        }
    }

    /// The unread bytes of a regular file; `None` for anything else.
    pub(crate) fn rest_of_file(&self) -> io::Result<Option<u64>> {
        match self {
            InputSource::Descriptor(source) => source.rest_of_file(),
            InputSource::Other(_) => Ok(None),
        }
    }
}

impl Read for InputSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            InputSource::Descriptor(source) => source.read(buffer),
            InputSource::Other(input) => input.read(buffer),
        }
    }
}

/// A descriptor, or the output itself.
pub(crate) enum OutputSink<'a> {
    Descriptor(FdSink),
    Other(&'a Mutex<Box<dyn Output>>),
}

impl OutputSink<'_> {
    /// Enlarges a pipe's buffer to this size, as far as the system allows.
    pub(crate) fn enlarge_pipe(&self, bytes: usize) {
        if let OutputSink::Descriptor(sink) = self {
            sink.enlarge_pipe(bytes);
        }
    }
}

impl Sink for OutputSink<'_> {
    fn write_gathered(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            OutputSink::Descriptor(sink) => sink.write_gathered(pieces),
            OutputSink::Other(output) => {
                let mut output = locked(*output);
                let taken = output.write_vectored(pieces)?;
                output.flush()?;
                Ok(taken)
            }
        }
    }

    fn limits(&self) -> GatherLimits {
        match self {
            OutputSink::Descriptor(sink) => sink.limits(),
            OutputSink::Other(_) => GatherLimits { pieces: MAX_CALL_PIECES, bytes: MAX_CALL_BYTES },
        }
    }

    fn wait_writable(&mut self) -> io::Result<()> {
        match self {
            OutputSink::Descriptor(sink) => sink.wait_writable(),
            OutputSink::Other(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn peer_gone(&mut self) -> bool {
        match self {
            OutputSink::Descriptor(sink) => sink.peer_gone(),
            OutputSink::Other(_) => false,
        }
    }

    fn demote_to_background(&mut self) {
        if let OutputSink::Descriptor(sink) = self {
            sink.demote_to_background();
        }
    }
}
