//! Contents of objects while deltas are resolved: in memory, or when they are large in files without names.

use std::ops::Deref;
use std::sync::Arc;

use packrace_format::pack::delta::{self, Instruction, Instructions};
use packrace_format::zlib::{Inflater, PieceInflater};
use packrace_object::Midstates;
use packrace_store::Mapped;
use packrace_store::publish::Scratch;

use super::error::Reason;
use super::unpacked::Unpacked;

/// Contents longer than this are put aside.
const IN_MEMORY_BYTES: u64 = 8 << 20;

/// Git makes no delta whose result is anywhere near as long (`core.bigFileThreshold`); somebody who does wants to fill the
/// disk.
const MAX_RESULT_BYTES: u64 = 1 << 32;

/// Inflated into a file at a time.
const ROOM_BYTES: usize = 1 << 18;

/// The content of an object, or a delta.
#[derive(Debug)]
pub(super) struct Content {
    bytes: Bytes,
    /// Of the object, for those that are deltas of it.
    pub(super) midstates: Midstates,
}

#[derive(Debug)]
enum Bytes {
    InMemory(Vec<u8>),
    Aside(Mapped),
}

impl Content {
    /// One that is in memory.
    pub(super) fn in_memory(bytes: Vec<u8>) -> Self {
        Content { bytes: Bytes::InMemory(bytes), midstates: Midstates::default() }
    }

    fn aside(map: Mapped) -> Self {
        Content { bytes: Bytes::Aside(map), midstates: Midstates::default() }
    }

    /// What it takes of the memory, without midstates.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::InMemory(bytes) => bytes.capacity(),
            Bytes::Aside(_) => 0,
        }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::InMemory(bytes) => bytes,
            Bytes::Aside(map) => map,
        }
    }
}

/// Makes contents; one a thread.
pub(super) struct Maker {
    inflater: Inflater,
    delta: Vec<u8>,
    /// Buffers that were used before.
    spare: Vec<Vec<u8>>,
    scratch: Option<Scratch>,
    unpacked: Arc<Unpacked>,
}

/// Buffers that are kept to be used again, and how large they may be.
const MAX_SPARE: usize = 8;
const MAX_SPARE_BYTES: usize = 1 << 20;

impl Maker {
    pub(super) fn new(scratch: Option<Scratch>, unpacked: Arc<Unpacked>) -> Self {
        Maker { inflater: Inflater::new(), delta: Vec::new(), spare: Vec::new(), scratch, unpacked }
    }

    /// Takes a buffer back.
    pub(super) fn recycle(&mut self, content: Content) {
        if let Bytes::InMemory(mut buffer) = content.bytes
            && self.spare.len() < MAX_SPARE
            && buffer.capacity() <= MAX_SPARE_BYTES
        {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// The content of a stream, which is all of `stream`.
    pub(super) fn inflate(&mut self, stream: &[u8], size: u64) -> Result<Content, Reason> {
        match &self.scratch {
            Some(scratch) if size > IN_MEMORY_BYTES => inflate_aside(scratch, stream, size),
            _ => {
                let mut out = self.spare.pop().unwrap_or_default();
                self.inflater.inflate_exact(stream, size as usize, &mut out).map_err(|_| changed())?;
                Ok(Content::in_memory(out))
            }
        }
    }

    /// The result of the delta that `stream` holds, or `None` if it cannot be applied to `base`.
    pub(super) fn apply(&mut self, base: &[u8], stream: &[u8], size: u64) -> Result<Option<Content>, Reason> {
        if size > IN_MEMORY_BYTES {
            let delta = self.inflate(stream, size)?;
            return self.apply_delta(base, &delta);
        }
        let mut delta = std::mem::take(&mut self.delta);
        let inflated = self.inflater.inflate_exact(stream, size as usize, &mut delta);
        let result = inflated.map_err(|_| changed()).and_then(|()| self.apply_delta(base, &delta));
        self.delta = delta;
        result
    }

    /// The same of a delta that is at hand.
    pub(super) fn apply_delta(&mut self, base: &[u8], delta: &[u8]) -> Result<Option<Content>, Reason> {
        let Ok(sizes) = delta::sizes(delta) else { return Ok(None) };
        if sizes.result > MAX_RESULT_BYTES {
            return Ok(None);
        }
        self.unpacked.add(sizes.result)?;
        match &self.scratch {
            Some(scratch) if sizes.result > IN_MEMORY_BYTES => apply_aside(scratch, base, delta, &sizes),
            _ => {
                let mut out = self.spare.pop().unwrap_or_default();
                Ok(delta::apply(base, delta, &mut out).ok().map(|()| Content::in_memory(out)))
            }
        }
    }
}

/// The first pass has inflated every stream, so that this is a file that changes under our hands.
fn changed() -> Reason {
    Reason::bad_object(0, "the pack has changed while it was read")
}

fn inflate_aside(scratch: &Scratch, stream: &[u8], size: u64) -> Result<Content, Reason> {
    let mut file = scratch.create()?;
    let (mut inflater, mut room) = (PieceInflater::new(), vec![0; ROOM_BYTES]);
    let (mut at, mut produced) = (0, 0);
    loop {
        let inflated = inflater.inflate(&stream[at..], &mut room).map_err(|_| changed())?;
        at += inflated.consumed;
        produced += inflated.produced as u64;
        file.write(&room[..inflated.produced])?;
        if inflated.is_over && produced == size {
            return Ok(Content::aside(file.finish()?));
        }
        if inflated.is_over || inflated.consumed == 0 && inflated.produced == 0 || produced > size {
            return Err(changed());
        }
    }
}

fn apply_aside(
    scratch: &Scratch,
    base: &[u8],
    delta: &[u8],
    sizes: &delta::Sizes,
) -> Result<Option<Content>, Reason> {
    if sizes.base != base.len() as u64 {
        return Ok(None);
    }
    // Looked at before the disk is filled with what does not add up.
    let mut total = 0u64;
    for instruction in Instructions::new(delta, sizes.length) {
        let Ok(instruction) = instruction else { return Ok(None) };
        let Some(piece) = piece(base, delta, instruction) else { return Ok(None) };
        total += piece.len() as u64;
    }
    if total != sizes.result {
        return Ok(None);
    }
    let mut file = scratch.create()?;
    for instruction in Instructions::new(delta, sizes.length).flatten() {
        file.write(piece(base, delta, instruction).unwrap_or_default())?;
    }
    Ok(Some(Content::aside(file.finish()?)))
}

/// What an instruction appends.
fn piece<'a>(base: &'a [u8], delta: &'a [u8], instruction: Instruction) -> Option<&'a [u8]> {
    match instruction {
        Instruction::Copy { offset, length } => base.get(offset as usize..)?.get(..length as usize),
        Instruction::Insert(range) => delta.get(range),
    }
}
