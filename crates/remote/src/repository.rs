//! Heads of repositories in a bucket: reading and swapping them, and importing a repository from disk.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use packrace_format::head::{self, Head, MAX_HEAD_BYTES, MAX_RECENT_TOKENS, ObjectKey, WriteToken};
use packrace_object::HashKind;

use crate::bucket::{Bucket, Looked, ObjectVersion, WriteOutcome};
use crate::error::{Error, ErrorKind};
use crate::layout::BucketName;
use crate::upload::Upload;

/// Rounds of [`Bucket::swap`], each with its own retries, before the outcome of a swap counts as unknown.
const MAX_SENDINGS: u32 = 4;

/// The pause between two rounds.
const SENDING_PAUSE: Duration = Duration::from_secs(2);

/// A head and its version.
#[derive(Debug, Clone)]
pub struct ReadHead {
    /// The head.
    pub head: Head,
    /// Its serialized form.
    pub bytes: Bytes,
    /// Its ETag.
    pub version: ObjectVersion,
}

impl ReadHead {
    /// The base of a swap to a later head.
    pub(crate) fn basis(&self) -> Basis {
        Basis { head: self.head.clone(), version: self.version.clone() }
    }
}

/// A head that can be swapped for another one, once.
#[derive(Debug)]
pub(crate) struct Basis {
    pub(crate) head: Head,
    version: ObjectVersion,
}

/// The outcome of a swap.
#[derive(Debug)]
pub(crate) enum Swapped {
    /// The swap won. This is the new head, or a later one.
    Won(Box<ReadHead>),
    /// The swap lost, for good: another head was swapped in.
    Lost,
    /// The outcome cannot be determined.
    Unknown(Error),
}

impl Basis {
    /// Swaps this head for another one. An error means that the new head was not written and never will be.
    pub(crate) fn swap(self, bucket: &Bucket, name: &BucketName, head: Head) -> Result<Swapped, Error> {
        let too_much = |error: packrace_format::Error| {
            let words = format!("'{}', of {} packs: {error}", name.as_str(), head.packs.len());
            Error::new(ErrorKind::Refused, words)
        };
        let bytes = Bytes::from(head::write(&head).map_err(too_much)?);
        let key = name.head_key();
        let mut doubt = None;
        for sending in 0..MAX_SENDINGS {
            if sending > 0 {
                bucket.wait(SENDING_PAUSE);
            }
            match bucket.swap(&key, &self.version, &bytes) {
                Ok(WriteOutcome::Won(version)) => {
                    return Ok(Swapped::Won(Box::new(ReadHead { head, bytes, version })));
                }
                Ok(WriteOutcome::Lost { in_doubt: false }) if doubt.is_none() => return Ok(Swapped::Lost),
                Ok(WriteOutcome::Lost { .. }) => return Ok(look_for(bucket, name, &head)),
                Ok(WriteOutcome::Unknown(error)) => doubt = Some(error),
                Err(error) if doubt.is_none() => return Err(error),
                Err(error) => doubt = Some(error),
            }
        }
        let nothing = || Error::new(ErrorKind::Unavailable, "store does not answer");
        Ok(Swapped::Unknown(doubt.unwrap_or_else(nothing)))
    }
}

/// Determines the outcome of a swap in doubt: it won if its token is in the current head, or among the head's
/// recent tokens. Unknown if more heads may have followed than those tokens cover.
fn look_for(bucket: &Bucket, name: &BucketName, head: &Head) -> Swapped {
    let unknown = |words: &str| Swapped::Unknown(Error::new(ErrorKind::Unavailable, words));
    match read_head(bucket, name, None) {
        Ok(Some(found)) if has_token(&found.head, head.token) => Swapped::Won(Box::new(found)),
        Ok(Some(found)) if found.head.generation > head.generation + MAX_RECENT_TOKENS as u64 => {
            unknown("too many concurrent changes since")
        }
        Ok(Some(_)) => Swapped::Lost,
        Ok(None) => unknown("store says that nothing has changed"),
        Err(error) => Swapped::Unknown(error),
    }
}

fn has_token(head: &Head, token: WriteToken) -> bool {
    head.token == token || head.recent.contains(&token)
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

/// A repository on disk that is to be put into a bucket.
#[derive(Debug)]
pub struct LocalRepository<'a> {
    /// A bare repository with reftables, all of whose objects are in packs.
    pub git_dir: &'a Path,
    /// The hash of its objects.
    pub hash: HashKind,
    /// The settings to keep; see [`allowed_setting`].
    pub config: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Settings of a repository that its head keeps: they control what clients may do and see, and name no file
/// and no program.
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

/// Whether a head keeps a setting. The name is in lower case.
pub fn allowed_setting(name: &[u8]) -> bool {
    ALLOWED_SETTINGS.iter().any(|allowed| allowed.as_bytes() == name)
}

/// Creates a repository in a bucket; its name must be free.
pub fn create(bucket: &Bucket, name: &BucketName, local: &LocalRepository<'_>) -> Result<Head, Error> {
    let taken = || Error::new(ErrorKind::Taken, format!("'{}' is in the bucket already", name.as_str()));
    match read_head(bucket, name, None) {
        Err(error) if error.kind() == ErrorKind::Absent => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(taken()),
    }
    let token = random_token()?;
    let key = ObjectKey { generation: 1, token };
    let mut upload = Upload::new(key);
    let packs = upload.take_packs(local.git_dir, local.hash)?;
    let tables = upload.take_tables(local.git_dir, &[])?;
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
        // The existing head may be ours: its token tells.
        WriteOutcome::Lost { in_doubt: true } => match read_head(bucket, name, None)? {
            Some(found) if has_token(&found.head, token) => Ok(head),
            _ => Err(taken()),
        },
        WriteOutcome::Lost { in_doubt: false } => {
            // No head names the uploaded object. If the deletion fails, the object only takes space.
            let _ = bucket.delete(&name.object_key(&key));
            Err(taken())
        }
        WriteOutcome::Unknown(error) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("unknown whether '{}' was created: {error}", name.as_str()),
        )),
    }
}

/// The successor of a head, naming the same files, and the key of the object that it may need.
pub(crate) fn next_head(basis: &Head) -> Result<(ObjectKey, Head), Error> {
    let key = ObjectKey { generation: basis.generation + 1, token: random_token()? };
    let recent = [basis.token].into_iter().chain(basis.recent.iter().copied());
    let recent = recent.take(MAX_RECENT_TOKENS).collect();
    Ok((key, Head { generation: key.generation, token: key.token, recent, ..basis.clone() }))
}

/// A unique token.
pub(crate) fn random_token() -> Result<WriteToken, Error> {
    let mut token = [0; 16];
    let failed = |error| Error::new(ErrorKind::Unavailable, format!("cannot get random numbers: {error}"));
    getrandom::fill(&mut token).map_err(failed)?;
    Ok(WriteToken(token))
}
