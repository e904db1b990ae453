//! Segments of a journal: their names and their lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use packrace_os::count::Role;
use packrace_os::{is_absent, list_dir, reach};

use crate::event::{LineHead, MAX_LINE_BYTES, number_of};

/// Prefix and suffix of a segment's file name, around the number of its first line.
const PREFIX: &str = "events-";
const SUFFIX: &str = ".ndjson";

/// Read size.
const READ_BYTES: usize = 64 << 10;

/// A segment of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The number of its first line.
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
}

impl Segment {
    pub(crate) fn new(dir: &Path, first: u64) -> Self {
        Segment { first, path: dir.join(format!("{PREFIX}{first:020}{SUFFIX}")) }
    }

    /// Its length, and the time of the last write; `None` if it was deleted.
    pub(crate) fn size_and_time(&self) -> io::Result<Option<(u64, SystemTime)>> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) => Ok(Some((metadata.len(), metadata.modified()?))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The segments of a journal, oldest first.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in list_dir(dir, Role::Config)? {
        let name = entry.name.to_string_lossy();
        let digits = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
        let number = digits.filter(|digits| digits.len() == 20).and_then(|digits| digits.parse().ok());
        found.extend(number.map(|first| Segment::new(dir, first)));
    }
    // Names sort like their numbers.
    Ok(found)
}

/// Bytes of all segments.
pub fn stored_bytes(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for segment in list(dir)? {
        bytes += segment.size_and_time()?.map_or(0, |(length, _)| length);
    }
    Ok(bytes)
}

/// Reads lines of a segment while it grows.
#[derive(Debug)]
pub(crate) struct LineScanner {
    file: File,
    /// Bytes that were read but not returned.
    buffer: Vec<u8>,
    /// The start of the next line in `buffer`.
    begin: usize,
    /// No line end in `buffer` before this position.
    searched: usize,
    /// The file offset of the end of `buffer`.
    read: u64,
    /// Inside an overlong line.
    is_skipping: bool,
}

impl LineScanner {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = reach::open_anywhere(path)?;
        Ok(LineScanner { file, buffer: Vec::new(), begin: 0, searched: 0, read: 0, is_skipping: false })
    }

    /// The file offset of the next line.
    fn offset(&self) -> u64 {
        self.read - (self.buffer.len() - self.begin) as u64
    }

    /// The next complete line without its end; `None` if there is none yet. Overlong lines are skipped.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + found;
                let begin = std::mem::replace(&mut self.begin, end + 1);
                self.searched = self.begin;
                if std::mem::take(&mut self.is_skipping) {
                    continue;
                }
                return Ok(Some(&self.buffer[begin..end]));
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            if self.buffer.len() > MAX_LINE_BYTES {
                self.is_skipping = true;
                self.buffer.clear();
            }
            let held = self.buffer.len();
            self.searched = held;
            self.buffer.resize(held + READ_BYTES, 0);
            let length = self.file.read_at(&mut self.buffer[held..], self.read);
            self.buffer.truncate(held + *length.as_ref().unwrap_or(&0));
            match length {
                Ok(0) => return Ok(None),
                Ok(length) => self.read += length as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The intact part of a segment that is no longer written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The end of the intact part. Lines after it, possibly partial, were never reported.
    pub(crate) length: u64,
    /// The number of the next line.
    pub(crate) next: u64,
    /// Damaged lines before the end.
    pub(crate) damaged: u64,
}

/// Finds the end of the last complete push. Good lines after a damaged one stay.
pub(crate) fn tail(segment: &Segment) -> io::Result<Tail> {
    let mut scanner = LineScanner::open(&segment.path)?;
    let mut tail = Tail { length: 0, next: segment.first, damaged: 0 };
    let mut damaged = 0;
    while let Some(line) = scanner.next_line()? {
        match LineHead::parse(line) {
            Some(head) if head.seq >= tail.next => {
                if head.part == head.parts {
                    tail = Tail { length: scanner.offset(), next: head.seq + 1, damaged };
                }
            }
            _ => damaged += 1,
        }
    }
    Ok(tail)
}

/// Calls `each` with the head of every line of a segment.
pub(crate) fn heads(segment: &Segment, each: &mut dyn FnMut(LineHead)) -> io::Result<()> {
    let mut scanner = LineScanner::open(&segment.path)?;
    while let Some(line) = scanner.next_line()? {
        if number_of(line).is_some() {
            LineHead::parse(line).map(&mut *each);
        }
    }
    Ok(())
}
