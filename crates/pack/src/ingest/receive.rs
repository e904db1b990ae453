//! The first pass: finds the bounds of entries while their bytes arrive, and names whole objects.

use std::sync::Arc;

use packrace_format::pack::{self, EntryHeader, EntryKind, HEADER_BYTES, MAX_ENTRY_HEADER_BYTES};
use packrace_format::zlib::{PieceInflater, StreamInflater};
use packrace_object::{HashKind, Kind, ObjectHasher, ObjectId};
use packrace_store::publish::PackWriter;

use super::IngestOptions;
use super::checks::Inspector;
use super::delta_buffer::DeltaBuffer;
use super::error::IngestReason;
use super::hasher_thread::{
    Arrived, ArrivedAs, BATCH_BYTES, Done, HashJob, HasherThread, PIECE_BYTES, Returned,
};
use super::table::{EntryNumber, EntryTable, MAX_ENTRIES};
use super::unpacked::Unpacked;

/// Bytes inflated at a time; whole objects up to this size are named in batches.
const ROOM_BYTES: usize = 1 << 20;

/// Objects in one job.
const BATCH_OBJECTS: usize = 1 << 9;

/// A longer pack gets another thread.
const WORTH_A_THREAD_BYTES: u64 = 2 << 20;

/// What comes next in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expecting {
    Header,
    EntryHeader,
    Body,
    Trailer,
    Over,
}

/// Takes a pack's bytes in pieces of any length.
pub(super) struct Receiver {
    hash: HashKind,
    state: Expecting,
    /// The bytes of an incomplete header or trailer.
    carry: Vec<u8>,
    pub(super) table: EntryTable,
    announced: u32,
    /// The offset of the next byte.
    position: u64,
    entry: Current,
    at_once: StreamInflater,
    inflater: PieceInflater,
    room: Vec<u8>,
    /// Pack bytes not handed on yet; then how many at the end belong to the trailer.
    piece: Vec<u8>,
    trailer_bytes: usize,
    /// Contents and deltas not handed on yet.
    contents: Vec<u8>,
    objects: Vec<Arrived>,
    pub(super) short_deltas: DeltaBuffer,
    hasher_thread: HasherThread,
    has_thread: bool,
    /// The most bytes of delta bases that the thread may cache.
    cache_bytes: usize,
    /// Set when the first pass ends; so is `checksum`, the trailer.
    writer: Option<Box<PackWriter>>,
    checksum: Option<ObjectId>,
    pub(super) inspector: Option<Inspector>,
    /// Whole objects that were not checked, because they were never completely in memory.
    pub(super) large: Vec<EntryNumber>,
    max_bytes: Option<u64>,
    max_objects: Option<u32>,
    pub(super) unpacked: Arc<Unpacked>,
}

/// The entry that is being inflated.
struct Current {
    header: EntryHeader,
    offset: u64,
    crc: crc32fast::Hasher,
    /// Whether the entry is inflated in pieces; then how many bytes were produced.
    is_in_pieces: bool,
    produced: u64,
    /// For a whole object that does not fit into `room`.
    hasher: Option<ObjectHasher>,
}

impl Receiver {
    /// `writer` gets the bytes; `None` if they come from a file.
    pub(super) fn new(options: &IngestOptions, writer: Option<PackWriter>) -> Self {
        let hash = options.hash;
        let header = EntryHeader { kind: EntryKind::Object(Kind::Blob), size: 0, length: 0 };
        let entry = Current {
            header,
            offset: 0,
            crc: crc32fast::Hasher::new(),
            is_in_pieces: false,
            produced: 0,
            hasher: None,
        };
        Receiver {
            hash,
            state: Expecting::Header,
            carry: Vec::new(),
            table: EntryTable::new(hash, 0),
            announced: 0,
            position: 0,
            entry,
            at_once: StreamInflater::new(),
            inflater: PieceInflater::new(),
            room: vec![0; ROOM_BYTES + 1],
            piece: Vec::new(),
            trailer_bytes: 0,
            contents: Vec::new(),
            objects: Vec::new(),
            short_deltas: DeltaBuffer::default(),
            hasher_thread: HasherThread::new(hash, writer, options.checks.as_ref()),
            // If no thread is allowed, this prevents one from starting.
            has_thread: options.threads < 2,
            cache_bytes: options.cache_bytes,
            writer: None,
            checksum: None,
            inspector: None,
            large: Vec::new(),
            max_bytes: options.max_bytes,
            max_objects: options.max_objects,
            unpacked: Arc::new(Unpacked::new(options.max_unpacked)),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == Expecting::Over
    }

    /// The number of entries that the header announces.
    pub(super) fn announced(&self) -> u32 {
        self.announced
    }

    /// The trailer, once the pack is complete.
    pub(super) fn checksum(&self) -> Option<ObjectId> {
        self.checksum
    }

    /// The file that the pack was written to, unless it was read from one.
    pub(super) fn take_writer(&mut self) -> Option<Box<PackWriter>> {
        self.writer.take()
    }

    /// Takes bytes, up to the end of the pack.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<usize, IngestReason> {
        let mut at = 0;
        self.unpacked.has_come(self.position + bytes.len() as u64);
        while at < bytes.len() && !self.has_everything() {
            let rest = &bytes[at..];
            let taken = match self.state {
                Expecting::Header => self.take_header(rest)?,
                Expecting::EntryHeader => self.take_entry_header(rest)?,
                Expecting::Body => self.take_body(rest)?,
                Expecting::Trailer => self.take_trailer(rest),
                Expecting::Over => 0,
            };
            at += taken;
            self.position += taken as u64;
            if let Some(max) = self.max_bytes.filter(|max| self.position > *max) {
                return Err(IngestReason::TooLarge(crate::meter::size(max)));
            }
        }
        self.hand_on(&bytes[..at])?;
        if self.state == Expecting::Trailer && self.has_everything() {
            self.finish()?;
        }
        Ok(at)
    }

    /// Whether the last byte of the trailer has arrived.
    fn has_everything(&self) -> bool {
        let is_whole = self.carry.len() == self.hash.len_in_bytes();
        self.state == Expecting::Over || self.state == Expecting::Trailer && is_whole
    }

    /// Hands on complete pieces of the pack, and starts the thread if the pack is long.
    fn hand_on(&mut self, mut bytes: &[u8]) -> Result<(), IngestReason> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE_BYTES {
                // The trailer bytes before those in later pieces.
                let trailer = self.trailer_bytes.saturating_sub(bytes.len());
                self.hand_on_piece(trailer)?;
                self.trailer_bytes -= trailer;
            }
        }
        if !self.has_thread && self.position > WORTH_A_THREAD_BYTES {
            self.has_thread = true;
            self.hasher_thread.part(self.cache_bytes, self.unpacked.clone());
        }
        Ok(())
    }

    fn hand_on_piece(&mut self, trailer_bytes: usize) -> Result<(), IngestReason> {
        let piece = std::mem::take(&mut self.piece);
        let counted = piece.len() - trailer_bytes;
        self.piece = self.give(HashJob::Piece(piece, counted))?;
        Ok(())
    }

    fn hand_on_objects(&mut self) -> Result<(), IngestReason> {
        let (contents, objects) = (std::mem::take(&mut self.contents), std::mem::take(&mut self.objects));
        self.contents = self.give(HashJob::Objects(contents, objects))?;
        Ok(())
    }

    /// Runs a job and returns an empty buffer; keeps the deltas that it left.
    fn give(&mut self, job: HashJob) -> Result<Vec<u8>, IngestReason> {
        let Returned { mut buffer, left } = self.hasher_thread.run(job)?;
        left.into_iter().for_each(|(entry, place)| self.short_deltas.keep(entry, &buffer[place]));
        buffer.clear();
        Ok(buffer)
    }

    /// Ends the first pass, after all bytes have arrived.
    fn finish(&mut self) -> Result<(), IngestReason> {
        self.hand_on_objects()?;
        self.hand_on_piece(self.trailer_bytes)?;
        let Done { writer, checksum, named, inspector } = self.hasher_thread.finish()?;
        if checksum.as_slice() != self.carry {
            return Err(IngestReason::Checksum(self.hash));
        }
        let offset = |entry: EntryNumber| self.table.entries[entry as usize].offset;
        self.table.name(&named.map_err(|entry| IngestReason::CollisionAttack(offset(entry)))?);
        (self.writer, self.checksum, self.inspector) = (writer, Some(checksum), inspector);
        self.state = Expecting::Over;
        Ok(())
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<usize, IngestReason> {
        let taken = bytes.len().min(HEADER_BYTES - self.carry.len());
        self.carry.extend_from_slice(&bytes[..taken]);
        let Some(header) = self.carry.first_chunk::<HEADER_BYTES>() else { return Ok(taken) };
        let header = pack::Header::read(header).map_err(|bad| match bad {
            pack::BadHeader::Signature => IngestReason::Signature,
            pack::BadHeader::Version(version) => IngestReason::Version(version),
        })?;
        self.announced = header.objects;
        if let Some(max) = self.max_objects.filter(|max| self.announced > *max) {
            return Err(IngestReason::ManyObjects { announced: self.announced, max });
        }
        if self.announced > MAX_ENTRIES {
            return Err(IngestReason::TooManyObjects);
        }
        self.table = EntryTable::new(self.hash, self.announced);
        self.table.end = HEADER_BYTES as u64;
        self.short_deltas = DeltaBuffer::new(self.announced);
        self.carry.clear();
        self.state = if self.announced == 0 { Expecting::Trailer } else { Expecting::EntryHeader };
        Ok(taken)
    }

    fn take_entry_header(&mut self, bytes: &[u8]) -> Result<usize, IngestReason> {
        let offset = self.position - self.carry.len() as u64;
        let had = self.carry.len();
        let taken = if had == 0 && bytes.len() >= MAX_ENTRY_HEADER_BYTES {
            let header = parse(bytes, self.hash).map_err(|what| IngestReason::bad_object(offset, what))?;
            self.begin(header, offset, &bytes[..header.length]);
            header.length
        } else {
            let more = bytes.len().min(MAX_ENTRY_HEADER_BYTES - had);
            self.carry.extend_from_slice(&bytes[..more]);
            let carried = std::mem::take(&mut self.carry);
            match parse(&carried, self.hash) {
                Ok(header) => {
                    self.begin(header, offset, &carried[..header.length]);
                    // The header was not complete before these bytes arrived.
                    header.length - had
                }
                Err(_) if carried.len() < MAX_ENTRY_HEADER_BYTES => {
                    self.carry = carried;
                    return Ok(more);
                }
                Err(what) => return Err(IngestReason::bad_object(offset, what)),
            }
        };
        Ok(taken)
    }

    fn begin(&mut self, header: EntryHeader, offset: u64, bytes: &[u8]) {
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes);
        let hasher = match header.kind {
            EntryKind::Object(kind) if header.size > ROOM_BYTES as u64 => {
                Some(ObjectHasher::new(self.hash, kind, header.size))
            }
            _ => None,
        };
        self.entry = Current { header, offset, crc, is_in_pieces: false, produced: 0, hasher };
        self.state = Expecting::Body;
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<usize, IngestReason> {
        let entry = &mut self.entry;
        if !entry.is_in_pieces {
            // Most entries end here. Damaged ones are inflated in pieces, to find out what is wrong.
            let room = usize::try_from(entry.header.size)
                .ok()
                .and_then(|size| self.room[..ROOM_BYTES].get_mut(..size));
            if let Some(taken) = room.and_then(|room| self.at_once.inflate(bytes, room)) {
                entry.produced = entry.header.size;
                self.unpacked.add(entry.produced)?;
                entry.crc.update(&bytes[..taken]);
                self.end_entry(taken)?;
                return Ok(taken);
            }
            entry.is_in_pieces = true;
            self.inflater.restart();
        }
        let mut at = 0;
        loop {
            let entry = &mut self.entry;
            let size = entry.header.size;
            // Room for one byte more than announced, to detect streams that are too long.
            let kept =
                if entry.hasher.is_some() || size > ROOM_BYTES as u64 { 0 } else { entry.produced as usize };
            let inflated = match self.inflater.inflate(&bytes[at..], &mut self.room[kept..]) {
                Ok(inflated) => inflated,
                Err(_) => return Err(IngestReason::bad_object(entry.offset, "inflate returned -3")),
            };
            at += inflated.consumed;
            entry.produced += inflated.produced as u64;
            self.unpacked.add(inflated.produced as u64)?;
            if entry.produced > size {
                return Err(IngestReason::bad_object(entry.offset, "inflate returned -5"));
            }
            if let Some(hasher) = &mut entry.hasher {
                hasher.update(&self.room[..inflated.produced]);
            }
            if inflated.is_over {
                if entry.produced < size {
                    return Err(IngestReason::bad_object(entry.offset, "inflate returned 1"));
                }
                entry.crc.update(&bytes[..at]);
                self.end_entry(at)?;
                return Ok(at);
            }
            if at == bytes.len() && (inflated.produced == 0 || kept + inflated.produced < self.room.len()) {
                entry.crc.update(bytes);
                return Ok(at);
            }
            if inflated.consumed == 0 && inflated.produced == 0 {
                // zlib's code for a stream that cannot make progress.
                return Err(IngestReason::bad_object(entry.offset, "inflate returned -5"));
            }
        }
    }

    /// Ends an entry; its last byte is the one before `at` in the new bytes.
    fn end_entry(&mut self, at: usize) -> Result<(), IngestReason> {
        let entry = &mut self.entry;
        let (offset, crc) = (entry.offset, std::mem::take(&mut entry.crc).finalize());
        match entry.header.kind {
            EntryKind::Object(kind) => {
                let id = match entry.hasher.take() {
                    Some(hasher) => {
                        self.large.push(self.table.len());
                        hasher.finish().map_err(|_| IngestReason::CollisionAttack(offset))?
                    }
                    None => {
                        self.arrive(self.table.len(), ArrivedAs::Whole(kind))?;
                        self.hash.null()
                    }
                };
                self.table.push_whole(kind, offset, crc, id);
            }
            EntryKind::OfsDelta { distance } => {
                let base = offset.checked_sub(distance).filter(|base| *base > 0);
                let bad = || IngestReason::bad_object(offset, "delta base offset is out of bound");
                let is_in_room = entry.header.size <= ROOM_BYTES as u64;
                let base = self.table.push_delta_at(base.ok_or_else(bad)?, offset, crc);
                if let Some(base) = base.filter(|_| is_in_room) {
                    let entry = self.table.len() - 1;
                    match self.hasher_thread.has_time() {
                        true => self.arrive(entry, ArrivedAs::Delta(base))?,
                        false => self.short_deltas.keep(entry, &self.room[..self.entry.produced as usize]),
                    }
                }
            }
            EntryKind::RefDelta { base } => self.table.push_named_delta(&base, offset, crc),
        }
        self.table.end = self.position + at as u64;
        self.state =
            if self.table.len() == self.announced { Expecting::Trailer } else { Expecting::EntryHeader };
        Ok(())
    }

    /// Hands on the content of an entry that has just ended.
    fn arrive(&mut self, entry: EntryNumber, form: ArrivedAs) -> Result<(), IngestReason> {
        let length = self.entry.produced as usize;
        self.contents.extend_from_slice(&self.room[..length]);
        self.objects.push(Arrived { entry, form, length });
        if self.contents.len() >= BATCH_BYTES || self.objects.len() >= BATCH_OBJECTS {
            self.hand_on_objects()?;
        }
        Ok(())
    }

    fn take_trailer(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.hash.len_in_bytes() - self.carry.len());
        self.carry.extend_from_slice(&bytes[..taken]);
        self.trailer_bytes += taken;
        taken
    }
}

/// Parses the header of an entry; errors are in git's words.
fn parse(bytes: &[u8], hash: HashKind) -> Result<EntryHeader, String> {
    pack::parse_entry_header(bytes, hash).map_err(|error| match (error.what, bytes.first()) {
        ("entry has no valid type", Some(first)) => format!("unknown object type {}", first >> 4 & 7),
        ("delta distance exceeds 63 bits", _) => "offset value overflow for delta base object".to_owned(),
        ("delta is its own base", _) => "delta base offset is out of bound".to_owned(),
        (what, _) => what.to_owned(),
    })
}
