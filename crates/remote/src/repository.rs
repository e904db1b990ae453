//! Repositories in a bucket: their heads, and how one comes into being from files on disk.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use packrace_format::head::{
    self, FilePlace, Head, MAX_HEAD_BYTES, ObjectKey, PackFileKind, StoredFile, StoredPack, StoredTable,
    WriteToken,
};
use packrace_format::reftable::{self, TableName};
use packrace_object::{HashKind, ObjectId};
use packrace_os::count::Role;
use packrace_os::{Mapped, list_dir, read_file};
use sha2::Digest as _;

use crate::bucket::{Bucket, Looked, ObjectVersion, PART_BYTES, WriteOutcome};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;

/// Packs up to this stand in the head itself, with their files.
const INLINE_PACK_BYTES: usize = 16 << 10;

/// All that stands in the head takes no more than this.
const MAX_INLINE_BYTES: usize = 256 << 10;

/// Longest list of tables.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// Longest object: S3 takes no more than 10,000 parts.
const MAX_OBJECT_BYTES: u64 = 10_000 * PART_BYTES;

/// A head that was read, and its version.
#[derive(Debug, Clone)]
pub struct ReadHead {
    /// What it says.
    pub head: Head,
    /// The bytes that say so.
    pub bytes: Bytes,
    /// What the store calls them.
    pub version: ObjectVersion,
}

/// Reads the head of a repository; `None` if it has the known version.
pub fn read_head(
    bucket: &Bucket,
    name: &BucketName,
    known: Option<&ObjectVersion>,
) -> Result<Option<ReadHead>, Error> {
    match bucket.get_if_changed(&name.head_key(), known, MAX_HEAD_BYTES)? {
        Looked::Unchanged => Ok(None),
        Looked::Absent => {
            Err(Error::new(ErrorKind::Absent, format!("'{}' is not in the bucket", name.as_str())))
        }
        Looked::Found(bytes, version) => {
            let said = |error| Error::damaged(format!("'{}': {error}", name.as_str()));
            Ok(Some(ReadHead { head: head::parse(&bytes).map_err(said)?, bytes, version }))
        }
    }
}

/// Calls `each` with the name of every repository in a bucket, once, until it breaks.
pub fn list(bucket: &Bucket, each: &mut dyn FnMut(&BucketName) -> ControlFlow<()>) -> Result<(), Error> {
    bucket.list(BucketName::root(), &mut |key| match BucketName::of_head_key(key) {
        Some(name) => each(&name),
        None => ControlFlow::Continue(()),
    })
}

/// What of a repository on disk is put into a bucket.
#[derive(Debug)]
pub struct LocalRepository<'a> {
    /// A bare one with reftables, all of whose objects are in packs.
    pub git_dir: &'a Path,
    /// The hash of its objects.
    pub hash: HashKind,
    /// The settings that go with it; see [`allowed_setting`].
    pub config: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Settings of a repository that are kept in its head: they say what its clients may do and see, and name no file and no program.
const ALLOWED_SETTINGS: [&str; 19] = [
    "core.logallrefupdates",
    "daemon.receivepack",
    "daemon.uploadpack",
    "http.receivepack",
    "http.uploadpack",
    "receive.advertisepushoptions",
    "receive.denydeletecurrent",
    "receive.denydeletes",
    "receive.denynonfastforwards",
    "receive.fsckobjects",
    "receive.hiderefs",
    "receive.maxinputsize",
    "transfer.fsckobjects",
    "transfer.hiderefs",
    "uploadpack.allowanysha1inwant",
    "uploadpack.allowfilter",
    "uploadpack.allowreachablesha1inwant",
    "uploadpack.allowtipsha1inwant",
    "uploadpack.hiderefs",
];

/// Whether a setting is kept in a head; its name in lower case.
pub fn allowed_setting(name: &[u8]) -> bool {
    ALLOWED_SETTINGS.iter().any(|allowed| allowed.as_bytes() == name)
}

/// Puts a repository into a bucket under a name that nothing has there.
pub fn create(bucket: &Bucket, name: &BucketName, local: &LocalRepository<'_>) -> Result<Head, Error> {
    let taken = || Error::new(ErrorKind::Taken, format!("'{}' is in the bucket already", name.as_str()));
    match read_head(bucket, name, None) {
        Err(error) if error.kind() == ErrorKind::Absent => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(taken()),
    }
    let token = random_token()?;
    let key = ObjectKey { generation: 1, token };
    let mut upload = Upload { key, files: Vec::new(), bytes: 0, inline: 0 };
    let packs = upload.take_packs(local)?;
    let tables = upload.take_tables(local)?;
    let head = Head {
        hash: local.hash,
        generation: key.generation,
        token,
        recent: Vec::new(),
        floor: 0,
        shrunk: 0,
        config: local.config.clone(),
        shallow: Vec::new(),
        packs,
        tables,
        dropped: Vec::new(),
    };
    let too_much = |error: packrace_format::Error| Error::new(ErrorKind::Refused, error.to_string());
    let bytes = Bytes::from(head::write(&head).map_err(too_much)?);
    upload.send(bucket, name)?;
    match bucket.put_new(&name.head_key(), &bytes)? {
        WriteOutcome::Won(_) => Ok(head),
        // Ours may be the one that is there: its token tells.
        WriteOutcome::Lost { in_doubt: true } => match read_head(bucket, name, None)? {
            Some(found) if found.head.token == token || found.head.recent.contains(&token) => Ok(head),
            _ => Err(taken()),
        },
        WriteOutcome::Lost { in_doubt: false } => {
            // No head names what was sent. If it stays nevertheless, it takes room and does no harm.
            let _ = bucket.delete(&name.object_key(&key));
            Err(taken())
        }
        WriteOutcome::Unknown(error) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("it is not known whether '{}' is there now: {error}", name.as_str()),
        )),
    }
}

/// One that nobody else has.
fn random_token() -> Result<WriteToken, Error> {
    let mut token = [0; 16];
    let failed = |error| Error::new(ErrorKind::Unavailable, format!("no random numbers: {error}"));
    getrandom::fill(&mut token).map_err(failed)?;
    Ok(WriteToken(token))
}

/// What goes into one object.
struct Upload {
    key: ObjectKey,
    files: Vec<(PathBuf, Mapped)>,
    bytes: u64,
    inline: usize,
}

impl Upload {
    fn take_packs(&mut self, local: &LocalRepository<'_>) -> Result<Vec<StoredPack>, Error> {
        let dir = local.git_dir.join("objects/pack");
        let found = list_dir(&dir, Role::Pack).map_err(|error| Error::disk(&dir, &error))?;
        let mut packs = Vec::new();
        for entry in found {
            let name = entry.name.to_string_lossy();
            let digits = name.strip_prefix("pack-").and_then(|rest| rest.strip_suffix(".idx"));
            let Some(digits) = digits else { continue };
            let checksum = ObjectId::from_hex(digits.as_bytes()).ok().filter(|id| id.kind() == local.hash);
            let path = dir.join(&entry.name);
            let checksum = checksum.ok_or_else(|| {
                Error::new(ErrorKind::Refused, format!("{}: is called oddly", path.display()))
            })?;
            packs.push(self.take_pack(checksum, &path)?);
        }
        Ok(packs)
    }

    fn take_pack(&mut self, checksum: ObjectId, index: &Path) -> Result<StoredPack, Error> {
        let mut maps = Vec::new();
        for kind in PackFileKind::ALL {
            let path = index.with_extension(kind.extension());
            match Mapped::open(&path, Role::Pack) {
                Ok(map) => maps.push((kind, path, map)),
                Err(error) if packrace_os::is_absent(&error) && kind == PackFileKind::Reverse => {}
                Err(error) if packrace_os::is_absent(&error) && kind == PackFileKind::Bitmap => {}
                Err(error) => return Err(Error::disk(&path, &error)),
            }
        }
        let is_small =
            maps.iter().any(|(kind, _, map)| *kind == PackFileKind::Pack && map.len() <= INLINE_PACK_BYTES);
        let total: usize = maps.iter().map(|(_, _, map)| map.len()).sum();
        let is_inline = is_small && self.has_room_inline(total);
        let files = maps.into_iter().map(|(kind, path, map)| Ok((kind, self.take(path, map, is_inline)?)));
        Ok(StoredPack { checksum, files: files.collect::<Result<_, Error>>()? })
    }

    fn take_tables(&mut self, local: &LocalRepository<'_>) -> Result<Vec<StoredTable>, Error> {
        let dir = local.git_dir.join("reftable");
        let list = dir.join("tables.list");
        let bytes =
            read_file(&list, Role::Refs, MAX_LIST_BYTES).map_err(|error| Error::disk(&list, &error))?;
        let names = reftable::parse_list(&bytes).map_err(|error| Error::damaged(error.to_string()))?;
        let mut tables = Vec::new();
        for name in names {
            let text = String::from_utf8_lossy(name).into_owned();
            let path = dir.join(&text);
            // A head only takes names of this form.
            if TableName::parse(name).is_none_or(|parsed| parsed.to_string() != text) {
                return Err(Error::new(ErrorKind::Refused, format!("{}: is called oddly", path.display())));
            }
            let map = Mapped::open(&path, Role::Refs).map_err(|error| Error::disk(&path, &error))?;
            let is_inline = self.has_room_inline(map.len());
            tables.push(StoredTable { name: name.to_vec(), file: self.take(path, map, is_inline)? });
        }
        Ok(tables)
    }

    fn has_room_inline(&mut self, bytes: usize) -> bool {
        let has_room = bytes <= MAX_INLINE_BYTES - self.inline;
        self.inline += if has_room { bytes } else { 0 };
        has_room
    }

    fn take(&mut self, path: PathBuf, map: Mapped, is_inline: bool) -> Result<StoredFile, Error> {
        let length = map.len() as u64;
        let sha256 = sha2::Sha256::digest(&map[..]).into();
        check(&map)?;
        if is_inline {
            return Ok(StoredFile { length, sha256, place: FilePlace::Inline(map.to_vec()) });
        }
        let place = FilePlace::Object { key: self.key, offset: self.bytes };
        self.bytes += length;
        if self.bytes > MAX_OBJECT_BYTES {
            let words = format!("more than {MAX_OBJECT_BYTES} bytes do not go into one object");
            return Err(Error::new(ErrorKind::Refused, words));
        }
        self.files.push((path, map));
        Ok(StoredFile { length, sha256, place })
    }

    fn send(&self, bucket: &Bucket, name: &BucketName) -> Result<(), Error> {
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

    /// The bytes from `at` on, as many as a part has; `at` is then behind them.
    fn part(&self, at: &mut u64) -> Result<Bytes, Error> {
        let mut part = Vec::with_capacity(PART_BYTES.min(self.bytes - *at) as usize);
        let mut start = 0;
        for (_, map) in &self.files {
            let end = start + map.len() as u64;
            if *at < end && (part.len() as u64) < PART_BYTES {
                let from = (*at - start) as usize;
                let length = (map.len() - from).min(PART_BYTES as usize - part.len());
                part.extend_from_slice(&map[from..from + length]);
                *at += length as u64;
                check(map)?;
            }
            start = end;
        }
        Ok(part.into())
    }
}

/// A file that the disk did not give reads as zeros.
fn check(map: &Mapped) -> Result<(), Error> {
    map.check().map_err(|damaged| Error::new(ErrorKind::Unavailable, damaged.to_string()))
}
