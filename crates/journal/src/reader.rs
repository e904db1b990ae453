//! Reads a journal while it is written, rotated and shortened.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use packrace_os::is_absent;

use crate::event::number_of;
use crate::segments::{LineScanner, Segment, list};

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// How many lines before it are deleted or unreadable.
    pub missed: u64,
    /// The line, without its end.
    pub bytes: Vec<u8>,
}

/// A position in a journal.
#[derive(Debug)]
pub struct JournalReader {
    dir: PathBuf,
    /// The number of the next line.
    next: u64,
    current: Option<(Segment, LineScanner)>,
    /// A line that was read too early.
    held: VecDeque<Line>,
}

impl JournalReader {
    /// Starts at the line `from`; 0 is the first existing line.
    pub fn new(dir: &Path, from: u64) -> Self {
        JournalReader { dir: dir.to_owned(), next: from, current: None, held: VecDeque::new() }
    }

    /// The number of the next line.
    pub fn position(&self) -> u64 {
        self.held.front().map_or(self.next, |line| line.seq)
    }

    /// The next line up to the number `last`; with [`crate::Journal::durable`], only durable lines. `None` if
    /// there is none yet.
    pub fn next_up_to(&mut self, last: u64) -> io::Result<Option<Line>> {
        if self.position() > last {
            return Ok(None);
        }
        if let Some(line) = self.held.pop_front() {
            return Ok(Some(line));
        }
        match self.next_line()? {
            Some(line) if line.seq > last => {
                self.held.push_back(line);
                Ok(None)
            }
            line => Ok(line),
        }
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        let mut is_at_end = false;
        loop {
            let Some((segment, scanner)) = &mut self.current else {
                let segments = list(&self.dir)?;
                let begin = segments.iter().rev().find(|segment| segment.first <= self.next);
                let Some(segment) = begin.or(segments.first()) else { return Ok(None) };
                if !self.enter(&segment.clone())? {
                    return Ok(None);
                }
                continue;
            };
            if let Some(bytes) = scanner.next_line()? {
                match number_of(bytes) {
                    None => {
                        tracing::warn!(
                            "{}: skipped a damaged line after event {}",
                            segment.path.display(),
                            self.next.saturating_sub(1)
                        );
                    }
                    Some(seq) if seq < self.next => {}
                    Some(seq) => {
                        let missed = if self.next == 0 { 0 } else { seq - self.next };
                        let line = Line { seq, missed, bytes: bytes.to_vec() };
                        self.next = seq.saturating_add(1);
                        return Ok(Some(line));
                    }
                }
                continue;
            }
            let first = segment.first;
            let Some(later) = list(&self.dir)?.into_iter().find(|segment| segment.first > first) else {
                return Ok(None);
            };
            // Also read lines written between the end of this segment and the start of the next.
            if !std::mem::replace(&mut is_at_end, true) {
                continue;
            }
            is_at_end = false;
            if !self.enter(&later)? {
                self.current = None;
            }
        }
    }

    /// Opens a segment; false if it was just deleted.
    fn enter(&mut self, segment: &Segment) -> io::Result<bool> {
        match LineScanner::open(&segment.path) {
            Ok(scanner) => {
                self.current = Some((segment.clone(), scanner));
                Ok(true)
            }
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
