//! Contents of objects while deltas are resolved: in memory or, if large, in unlinked files.

use std::ops::Deref;
use std::sync::Arc;

use packrace_format::pack::delta::{self, Instruction, Instructions};
use packrace_format::zlib::{Inflater, PieceInflater};
use packrace_object::{CollisionAttack, HashKind, Midstates, ObjectHasher, ObjectId, Unnamed};
use packrace_store::Mapped;
use packrace_store::publish::Scratch;

use super::error::IngestReason;
use super::unpacked::Unpacked;
use crate::progress::ProgressSink;

/// Longer contents go to unlinked files.
const IN_MEMORY_BYTES: u64 = 8 << 20;

/// Git makes no delta with a result nearly as long (`core.bigFileThreshold`); such a delta is an attempt to
/// fill the disk.
const MAX_RESULT_BYTES: u64 = 1 << 32;

/// Bytes inflated into a file at a time.
const ROOM_BYTES: usize = 1 << 18;

/// Longer contents are made and hashed in pieces of this length, with a check for cancellation between them:
/// a push has a deadline, and other requests need the processor.
pub(super) const PIECE_BYTES: usize = 1 << 17;

/// The content of an object, or a delta.
#[derive(Debug)]
pub(super) struct Content {
    bytes: ContentBytes,
    /// Hash states of the object, for hashing its deltas' results.
    pub(super) midstates: Midstates,
}

#[derive(Debug)]
enum ContentBytes {
    InMemory(Vec<u8>),
    Aside(Mapped),
}

impl Content {
    /// A content in memory.
    pub(super) fn in_memory(bytes: Vec<u8>) -> Self {
        Content { bytes: ContentBytes::InMemory(bytes), midstates: Midstates::default() }
    }

    fn aside(map: Mapped) -> Self {
        Content { bytes: ContentBytes::Aside(map), midstates: Midstates::default() }
    }

    /// Its bytes in memory, without midstates.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.bytes {
            ContentBytes::InMemory(bytes) => bytes.capacity(),
            ContentBytes::Aside(_) => 0,
        }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            ContentBytes::InMemory(bytes) => bytes,
            ContentBytes::Aside(map) => map,
        }
    }
}

/// Makes contents; each thread has one.
pub(super) struct Maker<'a> {
    inflater: Inflater,
    delta: Vec<u8>,
    /// Buffers to reuse.
    spare: Vec<Vec<u8>>,
    scratch: Option<Scratch>,
    unpacked: Arc<Unpacked>,
    progress: &'a dyn ProgressSink,
}

/// How many buffers are kept for reuse, and their maximum size.
const MAX_SPARE: usize = 8;
const MAX_SPARE_BYTES: usize = 1 << 20;

impl<'a> Maker<'a> {
    pub(super) fn new(
        scratch: Option<Scratch>,
        unpacked: Arc<Unpacked>,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        let (delta, spare) = (Vec::new(), Vec::new());
        Maker { inflater: Inflater::new(), delta, spare, scratch, unpacked, progress }
    }

    /// Takes a buffer back for reuse.
    pub(super) fn recycle(&mut self, content: Content) {
        if let ContentBytes::InMemory(mut buffer) = content.bytes
            && self.spare.len() < MAX_SPARE
            && buffer.capacity() <= MAX_SPARE_BYTES
        {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Inflates a zlib stream that fills `stream`.
    pub(super) fn inflate(&mut self, stream: &[u8], size: u64) -> Result<Content, IngestReason> {
        match &self.scratch {
            Some(scratch) if size > IN_MEMORY_BYTES => inflate_aside(scratch, stream, size),
            _ => {
                let mut out = self.spare.pop().unwrap_or_default();
                self.inflater.inflate_exact(stream, size as usize, &mut out).map_err(|_| changed())?;
                Ok(Content::in_memory(out))
            }
        }
    }

    /// Applies the delta in `stream`; `None` if it does not apply to `base`.
    pub(super) fn apply(
        &mut self,
        base: &[u8],
        stream: &[u8],
        size: u64,
    ) -> Result<Option<Content>, IngestReason> {
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

    /// The same for an inflated delta.
    pub(super) fn apply_delta(&mut self, base: &[u8], delta: &[u8]) -> Result<Option<Content>, IngestReason> {
        let Ok(sizes) = delta::sizes(delta) else { return Ok(None) };
        if sizes.result > MAX_RESULT_BYTES {
            return Ok(None);
        }
        self.unpacked.add(sizes.result)?;
        if sizes.result > PIECE_BYTES as u64 {
            return self.apply_in_pieces(base, delta, &sizes);
        }
        let mut out = self.spare.pop().unwrap_or_default();
        Ok(delta::apply(base, delta, &mut out).ok().map(|()| Content::in_memory(out)))
    }

    fn apply_in_pieces(
        &mut self,
        base: &[u8],
        delta: &[u8],
        sizes: &delta::Sizes,
    ) -> Result<Option<Content>, IngestReason> {
        // Checked before inconsistent instructions fill memory or disk.
        if !adds_up(base, delta, sizes) {
            return Ok(None);
        }
        let pieces = Instructions::new(delta, sizes.length)
            .flatten()
            .flat_map(|instruction| piece(base, delta, instruction).unwrap_or_default().chunks(PIECE_BYTES));
        let mut since_asked = 0;
        let mut go_on = |piece: &[u8]| {
            since_asked += piece.len();
            if since_asked < PIECE_BYTES {
                return Ok(());
            }
            since_asked = 0;
            go_on(self.progress)
        };
        if let Some(scratch) = &self.scratch
            && sizes.result > IN_MEMORY_BYTES
        {
            let mut file = scratch.create()?;
            for piece in pieces {
                file.write(piece)?;
                go_on(piece)?;
            }
            return Ok(Some(Content::aside(file.finish()?)));
        }
        let mut out = self.spare.pop().unwrap_or_default();
        if out.try_reserve_exact(sizes.result as usize).is_err() {
            return Ok(None);
        }
        for piece in pieces {
            out.extend_from_slice(piece);
            go_on(piece)?;
        }
        Ok(Some(Content::in_memory(out)))
    }

    /// Computes the id of a long object.
    pub(super) fn id_of_long(
        &self,
        hash: HashKind,
        object: &Unnamed<'_>,
    ) -> Result<Result<ObjectId, CollisionAttack>, IngestReason> {
        let mut hasher = ObjectHasher::new(hash, object.kind, object.content.len() as u64);
        for piece in object.content.chunks(PIECE_BYTES) {
            hasher.update(piece);
            go_on(self.progress)?;
        }
        Ok(hasher.finish())
    }
}

/// Whether an object is hashed in pieces; not if it is like another one, because then most of it need not be
/// hashed.
pub(super) fn is_long(object: &Unnamed<'_>) -> bool {
    object.content.len() > PIECE_BYTES && object.like.is_none()
}

fn go_on(progress: &dyn ProgressSink) -> Result<(), IngestReason> {
    if progress.cancelled() { Err(IngestReason::Cancelled) } else { Ok(()) }
}

/// The first pass has inflated every stream, so the file is being changed.
fn changed() -> IngestReason {
    IngestReason::bad_object(0, "the pack has changed while it was read")
}

fn inflate_aside(scratch: &Scratch, stream: &[u8], size: u64) -> Result<Content, IngestReason> {
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

/// Whether the instructions match the sizes in the delta.
fn adds_up(base: &[u8], delta: &[u8], sizes: &delta::Sizes) -> bool {
    let length =
        |instruction: Result<Instruction, _>| Some(piece(base, delta, instruction.ok()?)?.len() as u64);
    let total =
        Instructions::new(delta, sizes.length).map(length).try_fold(0, |sum, length| Some(sum + length?));
    sizes.base == base.len() as u64 && total == Some(sizes.result)
}

/// The bytes that an instruction appends.
fn piece<'a>(base: &'a [u8], delta: &'a [u8], instruction: Instruction) -> Option<&'a [u8]> {
    match instruction {
        Instruction::Copy { offset, length } => base.get(offset as usize..)?.get(..length as usize),
        Instruction::Insert(range) => delta.get(range),
    }
}
