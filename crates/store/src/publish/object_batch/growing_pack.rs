use std::io::Read;
use std::path::{Path, PathBuf};

use packrace_format::pack::{EntryHeaderBytes, EntryKind};
use packrace_format::pack_index::{self, Entry};
use packrace_format::zlib::{Deflater, PieceDeflater};
use packrace_object::{HashKind, Kind, ObjectHasher, ObjectId};

use super::{BatchOptions, StreamError, leftovers};
use crate::error::{Error, Reason};
use crate::publish::{PackWriter, PublishedPack};

/// Bytes of a streamed content in memory at a time.
const STREAM_BYTES: usize = 256 << 10;

/// Packs of whole objects, of which the last one grows.
#[derive(Debug)]
pub(super) struct GrowingPacks {
    dir: PathBuf,
    hash: HashKind,
    options: BatchOptions,
    packs: Vec<GrowingPack>,
}

/// A growing pack of whole objects.
#[derive(Debug)]
struct GrowingPack {
    writer: PackWriter,
    entries: Vec<Entry>,
    hash: HashKind,
}

/// The entry of an object, ready to be appended.
#[derive(Default)]
pub(super) struct PreparedEntry {
    bytes: Vec<u8>,
    crc32: u32,
}

impl PreparedEntry {
    /// Replaces the previous entry.
    pub(super) fn prepare(&mut self, deflater: &mut Deflater, kind: Kind, content: &[u8]) {
        let header = EntryHeaderBytes::new(EntryKind::Object(kind), content.len() as u64);
        self.bytes.clear();
        self.bytes.extend_from_slice(header.as_slice());
        deflater.deflate(content, &mut self.bytes);
        self.crc32 = crc32fast::hash(&self.bytes);
    }
}

impl GrowingPacks {
    /// The first pack of new objects of the object directory `dir`.
    pub(super) fn create(dir: &Path, hash: HashKind, options: &BatchOptions) -> Result<Self, Error> {
        let dir = dir.join("pack");
        let first = GrowingPack::create(&dir, hash, options)?;
        leftovers::remove(&dir, first.writer.path());
        Ok(GrowingPacks { dir, hash, options: *options, packs: vec![first] })
    }

    /// The pack that grows.
    fn last(&mut self) -> &mut GrowingPack {
        self.packs.last_mut().expect("there is a first one")
    }

    fn begin_another(&mut self) -> Result<&mut GrowingPack, Error> {
        let next = GrowingPack::create(&self.dir, self.hash, &self.options)?;
        self.packs.push(next);
        Ok(self.last())
    }

    /// Whether a pack is too long with so many bytes more.
    fn is_too_long(&mut self, more: usize) -> bool {
        let limit = self.options.max_pack_bytes;
        let end = self.last().writer.position() + more as u64 + self.hash.len_in_bytes() as u64;
        limit > 0 && end > limit
    }

    pub(super) fn append(&mut self, id: &ObjectId, entry: &PreparedEntry) -> Result<(), Error> {
        match !self.last().entries.is_empty() && self.is_too_long(entry.bytes.len()) {
            true => self.begin_another()?.append(id, entry),
            false => self.last().append(id, entry),
        }
    }

    /// Appends a content whose name is known only after reading it; `is_new` then decides whether to keep it.
    pub(super) fn append_stream(
        &mut self,
        size: u64,
        source: &mut dyn Read,
        is_new: impl FnOnce(&ObjectId) -> bool,
    ) -> Result<ObjectId, StreamError> {
        let level = self.options.pack_compression;
        let id = self.last().append_stream(size, source, level, is_new)?;
        if self.last().entries.len() > 1 && self.is_too_long(0) {
            self.move_last().map_err(StreamError::Store)?;
        }
        Ok(id)
    }

    /// Begins another pack with the last object.
    fn move_last(&mut self) -> Result<(), Error> {
        let entry = self.last().entries.pop().expect("it has an object");
        self.begin_another()?;
        let [.., full, next] = self.packs.as_mut_slice() else { unreachable!("there are two") };
        let offset = next.writer.position();
        full.writer.move_last(entry.offset, &mut next.writer)?;
        next.entries.push(Entry { offset, ..entry });
        Ok(())
    }

    /// Publishes the packs that have objects.
    pub(super) fn publish(self) -> Result<Vec<PublishedPack>, Error> {
        let published = self.packs.into_iter().map(|pack| pack.publish(&self.options));
        published.filter_map(Result::transpose).collect()
    }
}

impl GrowingPack {
    /// The number of objects is not known yet, so the pack is hashed when complete.
    fn create(dir: &Path, hash: HashKind, options: &BatchOptions) -> Result<Self, Error> {
        let writer = PackWriter::create(dir, hash, options.policy, None)?;
        Ok(GrowingPack { writer, entries: Vec::new(), hash })
    }

    fn append(&mut self, id: &ObjectId, entry: &PreparedEntry) -> Result<(), Error> {
        let offset = self.writer.position();
        self.writer.write(&entry.bytes)?;
        self.entries.push(Entry { id: *id, crc32: entry.crc32, offset });
        Ok(())
    }

    fn append_stream(
        &mut self,
        size: u64,
        source: &mut dyn Read,
        level: i32,
        is_new: impl FnOnce(&ObjectId) -> bool,
    ) -> Result<ObjectId, StreamError> {
        let offset = self.writer.position();
        let streamed = self.stream(size, source, level);
        let (id, crc32) = match streamed {
            Ok(streamed) => streamed,
            Err(StreamError::Store(error)) => return Err(StreamError::Store(error)),
            Err(error) => {
                self.writer.cut_back(offset).map_err(StreamError::Store)?;
                return Err(error);
            }
        };
        match is_new(&id) {
            true => self.entries.push(Entry { id, crc32, offset }),
            false => self.writer.cut_back(offset).map_err(StreamError::Store)?,
        }
        Ok(id)
    }

    fn stream(
        &mut self,
        size: u64,
        source: &mut dyn Read,
        level: i32,
    ) -> Result<(ObjectId, u32), StreamError> {
        let mut hasher = ObjectHasher::new(self.hash, Kind::Blob, size);
        let (mut deflater, mut crc) = (PieceDeflater::new(level), crc32fast::Hasher::new());
        let mut out = EntryHeaderBytes::new(EntryKind::Object(Kind::Blob), size).as_slice().to_vec();
        let mut put = |out: &mut Vec<u8>| {
            crc.update(out);
            self.writer.write(out).map_err(StreamError::Store)?;
            out.clear();
            Ok(())
        };
        for_each_piece(size, source, |piece| {
            hasher.update(piece);
            deflater.deflate(piece, &mut out);
            if out.len() >= STREAM_BYTES { put(&mut out) } else { Ok(()) }
        })?;
        deflater.finish(&mut out);
        put(&mut out)?;
        let id = hasher.finish().map_err(StreamError::Attack)?;
        Ok((id, crc.finalize()))
    }

    /// Publishes the pack; `None` if no object was kept.
    fn publish(mut self, options: &BatchOptions) -> Result<Option<PublishedPack>, Error> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let count = u32::try_from(self.entries.len())
            .map_err(|_| Reason::Damaged("too many objects for a pack".to_owned()))?;
        pack_index::sort(&mut self.entries);
        self.writer.seal(count)?.publish(&self.entries, &options.beside).map(Some)
    }
}

/// The name of a blob of `size` bytes from `source`, which is never in memory as a whole. Reads at most
/// `size` bytes.
pub fn name_blob_stream(hash: HashKind, size: u64, source: &mut dyn Read) -> Result<ObjectId, StreamError> {
    let mut hasher = ObjectHasher::new(hash, Kind::Blob, size);
    for_each_piece(size, source, |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    hasher.finish().map_err(StreamError::Attack)
}

fn for_each_piece(
    size: u64,
    source: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let mut buffer = vec![0; STREAM_BYTES.min(usize::try_from(size).unwrap_or(STREAM_BYTES)).max(1)];
    let mut left = size;
    while left > 0 {
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let piece = match source.read(&mut buffer[..room]) {
            Ok(0) => return Err(StreamError::Source(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(length) => &buffer[..length],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(StreamError::Source(error)),
        };
        left -= piece.len() as u64;
        take(piece)?;
    }
    Ok(())
}
