//! Moves the files that a head names to their place: in the head itself, or in one object beside it.

use std::path::Path;

use bytes::Bytes;
use packrace_format::head::{FilePlace, Head, ObjectKey, PackFileKind, StoredFile, StoredPack, StoredTable};
use packrace_format::reftable::{self, TableName};
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::{Mapped, list_dir, read_file};
use sha2::Digest as _;

use crate::bucket::{Bucket, PART_BYTES};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;

/// Packs up to this size are stored in the head, with their accompanying files.
const INLINE_PACK_BYTES: usize = 16 << 10;

/// Limit of all files stored in the head.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// Longest list of tables.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// Longest object: S3 accepts at most 10,000 parts.
const MAX_OBJECT_BYTES: u64 = 10_000 * PART_BYTES;

/// The contents of one object, back to back. Small files go into the head instead.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) key: ObjectKey,
    files: Vec<UploadFile>,
    bytes: u64,
    inline: usize,
}

#[derive(Debug)]
enum UploadFile {
    Mapped(Mapped),
    Bytes(Vec<u8>),
}

impl UploadFile {
    fn bytes(&self) -> &[u8] {
        match self {
            UploadFile::Mapped(map) => map,
            UploadFile::Bytes(bytes) => bytes,
        }
    }

    /// A mapped file that could not be read from disk reads as zeros.
    fn check(&self) -> Result<(), Error> {
        match self {
            UploadFile::Mapped(map) => check(map),
            UploadFile::Bytes(_) => Ok(()),
        }
    }
}

impl Upload {
    /// An empty object.
    pub(crate) fn new(key: ObjectKey) -> Self {
        Upload { key, files: Vec::new(), bytes: 0, inline: 0 }
    }

    /// Adds all packs of a repository.
    pub(crate) fn take_packs(&mut self, git_dir: &Path, hash: HashKind) -> Result<Vec<StoredPack>, Error> {
        let dir = git_dir.join("objects/pack");
        let found = list_dir(&dir, Role::Pack).map_err(|error| Error::disk(&dir, &error))?;
        let mut packs = Vec::new();
        for entry in found {
            let name = entry.name.to_string_lossy();
            let digits = name.strip_prefix("pack-").and_then(|rest| rest.strip_suffix(".idx"));
            let Some(digits) = digits else { continue };
            let checksum = ObjectId::from_hex(digits.as_bytes()).ok().filter(|id| id.kind() == hash);
            let path = dir.join(&entry.name);
            let checksum = checksum.ok_or_else(|| {
                Error::new(ErrorKind::Refused, format!("{}: unexpected file name", path.display()))
            })?;
            packs.push(self.take_pack(checksum, &path.with_extension(""))?);
        }
        Ok(packs)
    }

    /// Adds one pack. `stem` is the path of its files without their extensions.
    pub(crate) fn take_pack(&mut self, checksum: ObjectId, stem: &Path) -> Result<StoredPack, Error> {
        let mut maps = Vec::new();
        for kind in PackFileKind::ALL {
            let path = stem.with_extension(kind.extension());
            match Mapped::open(&path, Role::Pack) {
                Ok(map) => maps.push((kind, map)),
                Err(error) if packrace_os::is_absent(&error) && kind == PackFileKind::Reverse => {}
                Err(error) if packrace_os::is_absent(&error) && kind == PackFileKind::Bitmap => {}
                Err(error) => return Err(Error::disk(&path, &error)),
            }
        }
        let is_small =
            maps.iter().any(|(kind, map)| *kind == PackFileKind::Pack && map.len() <= INLINE_PACK_BYTES);
        let total: usize = maps.iter().map(|(_, map)| map.len()).sum();
        let is_inline = is_small && self.has_room_inline(total);
        let files = maps.into_iter().map(|(kind, map)| Ok((kind, self.take(map, is_inline)?)));
        Ok(StoredPack { checksum, files: files.collect::<Result<_, Error>>()? })
    }

    /// Adds the tables of a repository's stack, except those that are `known`.
    pub(crate) fn take_tables(
        &mut self,
        git_dir: &Path,
        known: &[StoredTable],
    ) -> Result<Vec<StoredTable>, Error> {
        let dir = git_dir.join("reftable");
        let list = dir.join("tables.list");
        let bytes =
            read_file(&list, Role::Refs, MAX_LIST_BYTES).map_err(|error| Error::disk(&list, &error))?;
        let names = reftable::parse_list(&bytes).map_err(|error| Error::damaged(error.to_string()))?;
        let mut tables = Vec::new();
        for name in names {
            if let Some(table) = known.iter().find(|table| table.name == name) {
                tables.push(table.clone());
                continue;
            }
            let text = String::from_utf8_lossy(name).into_owned();
            let path = dir.join(&text);
            // Heads accept only names of this form.
            if TableName::parse(name).is_none_or(|parsed| parsed.to_string() != text) {
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!("{}: unexpected file name", path.display()),
                ));
            }
            let map = Mapped::open(&path, Role::Refs).map_err(|error| Error::disk(&path, &error))?;
            let is_inline = self.has_room_inline(map.len());
            tables.push(StoredTable { name: name.to_vec(), file: self.take(map, is_inline)? });
        }
        Ok(tables)
    }

    /// Moves the files stored in a head into this object, if they exceed [`MAX_INLINE_BYTES`].
    pub(crate) fn spill(&mut self, head: &mut Head) -> Result<(), Error> {
        let packs = head.packs.iter_mut().flat_map(|pack| pack.files.iter_mut().map(|(_, file)| file));
        let tables = head.tables.iter_mut().map(|table| &mut table.file);
        let mut files: Vec<&mut StoredFile> =
            packs.chain(tables).filter(|file| matches!(file.place, FilePlace::Inline(_))).collect();
        if files.iter().map(|file| file.length).sum::<u64>() <= MAX_INLINE_BYTES as u64 {
            return Ok(());
        }
        for file in &mut files {
            let place = self.next_place(file.length)?;
            if let FilePlace::Inline(bytes) = std::mem::replace(&mut file.place, place) {
                self.files.push(UploadFile::Bytes(bytes));
            }
        }
        Ok(())
    }

    fn has_room_inline(&mut self, bytes: usize) -> bool {
        let has_room = bytes <= MAX_INLINE_BYTES - self.inline;
        self.inline += if has_room { bytes } else { 0 };
        has_room
    }

    fn take(&mut self, map: Mapped, is_inline: bool) -> Result<StoredFile, Error> {
        let length = map.len() as u64;
        let sha256 = sha2::Sha256::digest(&map[..]).into();
        check(&map)?;
        if is_inline {
            return Ok(StoredFile { length, sha256, place: FilePlace::Inline(map.to_vec()) });
        }
        let place = self.next_place(length)?;
        self.files.push(UploadFile::Mapped(map));
        Ok(StoredFile { length, sha256, place })
    }

    fn next_place(&mut self, length: u64) -> Result<FilePlace, Error> {
        let place = FilePlace::Object { key: self.key, offset: self.bytes };
        self.bytes = self.bytes.saturating_add(length);
        match self.bytes > MAX_OBJECT_BYTES {
            true => {
                let words = format!("larger than {MAX_OBJECT_BYTES} bytes, the limit for one object");
                Err(Error::new(ErrorKind::Refused, words))
            }
            false => Ok(place),
        }
    }

    /// Uploads the object, unless it is empty.
    pub(crate) fn send(&self, bucket: &Bucket, name: &BucketName) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let key = name.object_key(&self.key);
        let mut at = 0;
        if self.bytes <= PART_BYTES {
            return bucket.put_own(&key, &self.part(&mut at)?);
        }
        bucket.put_own_parts(&key, &mut || (at < self.bytes).then(|| self.part(&mut at)).transpose())
    }

    /// The next part, from `at` on; advances `at`.
    fn part(&self, at: &mut u64) -> Result<Bytes, Error> {
        let mut part = Vec::with_capacity(PART_BYTES.min(self.bytes - *at) as usize);
        let mut start = 0;
        for file in &self.files {
            let bytes = file.bytes();
            let end = start + bytes.len() as u64;
            if *at < end && (part.len() as u64) < PART_BYTES {
                let from = (*at - start) as usize;
                let length = (bytes.len() - from).min(PART_BYTES as usize - part.len());
                part.extend_from_slice(&bytes[from..from + length]);
                *at += length as u64;
                file.check()?;
            }
            start = end;
        }
        Ok(part.into())
    }
}

/// A mapped file that could not be read from disk reads as zeros.
fn check(map: &Mapped) -> Result<(), Error> {
    map.check().map_err(|damaged| Error::new(ErrorKind::Unavailable, damaged.to_string()))
}
