//! The pack on standard input, whose header may have been read already.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use packrace_os::count::Role;
use packrace_pack::ingest::{self, IndexedPack, Ingest, IngestOptions};
use packrace_store::{Mapped, Snapshot};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::streams::{InputSource, not_written};
use crate::progress::Progress;

/// Read size: the largest pipe buffer of an unprivileged user.
pub const READ_BYTES: usize = 1 << 20;

/// Standard input, preceded by the header from `--pack_header`, if given.
pub struct PackInput<'a> {
    header: Vec<u8>,
    source: InputSource<'a>,
}

impl<'a> PackInput<'a> {
    /// Reads `header` before the input.
    pub fn new(call: &'a Call, header: Vec<u8>) -> Result<Self, Fatal> {
        let source = call.streams.source(None).map_err(Fatal::new)?;
        source.enlarge_pipe(READ_BYTES);
        Ok(PackInput { header, source })
    }

    /// Reads available bytes into `buffer`, which is longer than a header; 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Fatal> {
        if !self.header.is_empty() {
            let length = self.header.len();
            buffer[..length].copy_from_slice(&std::mem::take(&mut self.header));
            return Ok(length);
        }
        loop {
            match self.source.read(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Fatal::new(format!("read error on input: {}", packrace_os::reason(&error))));
                }
                Ok(length) => return Ok(length),
            }
        }
    }

    /// Feeds `ingest` until the pack ends, and reports the bytes taken to `watch`. Returns the bytes after
    /// the pack that were already read, or `None` if the input ends inside the pack.
    pub fn feed(
        &mut self,
        ingest: &mut Ingest,
        watch: impl Fn(&Ingest, usize),
        refuse: impl Fn(ingest::IngestError) -> Fatal,
    ) -> Result<Option<Vec<u8>>, Fatal> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let length = self.read(&mut buffer)?;
            if length == 0 {
                return Ok(None);
            }
            let taken = ingest.push(&buffer[..length]).map_err(&refuse)?;
            watch(ingest, taken);
            if ingest.is_complete() {
                return Ok(Some(buffer[taken..length].to_vec()));
            }
        }
    }

    /// Refuses a file with bytes after its pack, of which `rest` was read: nobody would read them.
    pub fn refuse_junk(&self, rest: &[u8]) -> Result<(), Fatal> {
        let unread = self.source.rest_of_file().map_err(Fatal::new)?;
        match unread.is_some_and(|unread| unread != 0 || !rest.is_empty()) {
            true => Err(Fatal::new("pack has junk at the end")),
            false => Ok(()),
        }
    }

    /// Copies the bytes after the pack to `out`: `rest`, and the unread input. The caller's program reads on
    /// from there.
    pub fn pass_on(mut self, rest: &[u8], out: &mut dyn std::io::Write) -> Result<(), Fatal> {
        out.write_all(rest).map_err(not_written)?;
        // The error may also come from reading.
        std::io::copy(&mut self.source, out).map(drop).map_err(Fatal::new)?;
        out.flush().map_err(not_written)
    }
}

/// Prints the errors of a pack immediately.
pub fn refused(call: &Call, error: ingest::IngestError) -> Fatal {
    // Before progress prints anything. If standard error is closed, the message is lost.
    let _ = call.streams.errors.say(error.lines());
    Fatal::new(error)
}

/// Reads a pack from a file.
pub fn read_pack_file(
    call: &Call,
    path: &Path,
    options: IngestOptions,
    existing: Option<&Arc<Snapshot>>,
    progress: &Progress,
) -> Result<IndexedPack, Fatal> {
    let data = Mapped::open(path, Role::Pack).map_err(|error| {
        let why = packrace_os::reason(&error);
        Fatal::new(format!("could not open '{}' for reading: {why}", path.display()))
    })?;
    let indexed =
        Ingest::read_file(data, options, progress).and_then(|ingest| ingest.resolve(existing, progress));
    indexed.map_err(|error| refused(call, error))
}

/// The pack header that `--pack_header=VERSION,OBJECTS` describes.
pub fn parse_pack_header(text: &str) -> Result<Vec<u8>, Fatal> {
    let number = |digits: &str| digits.parse::<u32>().ok();
    let numbers =
        text.split_once(',').and_then(|(version, objects)| Some((number(version)?, number(objects)?)));
    let (version, objects) = numbers.ok_or_else(|| Fatal::new(format!("bad --pack_header={text}")))?;
    Ok([&b"PACK"[..], &version.to_be_bytes(), &objects.to_be_bytes()].concat())
}
