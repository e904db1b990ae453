//! Streams the contents of objects that are stored whole: for objects too large for memory.

use packrace_format::loose_object;
use packrace_format::pack::{EntryKind, parse_entry_header};
use packrace_format::zlib::{Inflater, PieceInflater};
use packrace_object::{Kind, oid};
use packrace_os::Mapped;

use crate::error::{Error, Reason};
use crate::objects::reader::damaged_loose;
use crate::objects::snapshot::Snapshot;

/// The content of an object.
pub struct ObjectStream {
    /// Its kind.
    pub kind: Kind,
    /// Its size.
    pub size: u64,
    file: Mapped,
    at: usize,
    /// Bytes of the stream before the content.
    skipped: usize,
    inflater: PieceInflater,
    left: u64,
}

impl Snapshot {
    /// An object that is stored whole; `None` for a delta or a missing object.
    pub fn stream(&self, id: &oid) -> Result<Option<ObjectStream>, Error> {
        let id = &*self.replacement(id)?;
        if let Some(ix) = self.lookup(id) {
            let at = self.locate(ix);
            let pack = &self.packs()[at.pack.0 as usize];
            let start = usize::try_from(at.offset).unwrap_or(usize::MAX);
            let header = pack.bytes().get(start..).map(|entry| parse_entry_header(entry, self.hash_kind()));
            return Ok(match header {
                Some(Ok(header)) => match header.kind {
                    EntryKind::Object(kind) => Some(ObjectStream::new(
                        kind,
                        header.size,
                        pack.map().clone(),
                        start + header.length,
                        0,
                    )),
                    _ => None,
                },
                _ => None,
            });
        }
        let Some(file) = self.open_loose(id)? else { return Ok(None) };
        let header = loose_object::inflate_header(&mut Inflater::new(), &file)
            .map_err(|error| damaged_loose(self, id, error, true))?;
        Ok(Some(ObjectStream::new(header.kind, header.size, file, 0, header.length)))
    }
}

impl ObjectStream {
    fn new(kind: Kind, size: u64, file: Mapped, at: usize, skipped: usize) -> Self {
        ObjectStream { kind, size, file, at, skipped, inflater: PieceInflater::new(), left: size }
    }

    /// Fills `room` as far as content is left; an error if the stream does not match its announced size.
    pub fn read(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        let wanted = room.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        while filled < wanted {
            let mut header = [0; 64];
            let out = match self.skipped {
                0 => &mut room[filled..wanted],
                skipped => &mut header[..skipped.min(64)],
            };
            let inflated = self.inflater.inflate(&self.file[self.at..], out);
            let damaged = || Error::from(Reason::Damaged("an object is damaged".to_owned()));
            let inflated = inflated.map_err(|_| damaged())?;
            if inflated.consumed == 0 && inflated.produced == 0 {
                return Err(damaged());
            }
            self.at += inflated.consumed;
            match self.skipped {
                0 => filled += inflated.produced,
                _ => self.skipped -= inflated.produced,
            }
        }
        self.left -= filled as u64;
        self.file.check()?;
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use packrace_object::{HashKind, object_id};
    use packrace_testkit::Git;

    use super::*;
    use crate::{OpenOptions, Repository};

    #[test]
    fn packed_and_loose_contents_come_in_pieces() {
        let dir = packrace_testkit::scratch_dir();
        Git::stock().run(dir.path(), &["init", "-q", "--bare", "."]);
        let content: Vec<u8> = (0..100_000u32).flat_map(|n| (n ^ n >> 3).to_be_bytes()).collect();
        let id = object_id(HashKind::Sha1, Kind::Blob, &content).unwrap();
        Git::stock().run_with_input(dir.path(), &["hash-object", "-w", "--stdin"], &content);
        for is_packed in [false, true] {
            if is_packed {
                let list = format!("{id}\n");
                let arguments = ["pack-objects", "-q", "objects/pack/pack"];
                Git::stock().run_with_input(dir.path(), &arguments, list.as_bytes());
                Git::stock().run(dir.path(), &["prune-packed", "-q"]);
            }
            let repository = Repository::open(dir.path(), &OpenOptions::default()).unwrap();
            let mut stream = repository.snapshot().unwrap().stream(&id).unwrap().unwrap();
            assert_eq!((stream.kind, stream.size), (Kind::Blob, content.len() as u64));
            let (mut found, mut room) = (Vec::new(), [0; 777]);
            loop {
                match stream.read(&mut room).unwrap() {
                    0 => break,
                    length => found.extend_from_slice(&room[..length]),
                }
            }
            assert!(found == content, "packed: {is_packed}");
        }
    }
}
