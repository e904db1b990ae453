//! The state of a cached repository: its head, and the boot of the machine in which its files were written.
//!
//! ```text
//! packrace cache 1 LF | boot id LF | version LF | the head
//! ```
//!
//! Data written before a power cut may be lost although its file has its name: files of another boot are
//! verified before use.

use std::path::Path;

use bytes::Bytes;
use packrace_format::head::{self, MAX_HEAD_BYTES};
use packrace_os::count::Role;

use super::files::put;
use crate::bucket::ObjectVersion;
use crate::error::Error;
use crate::repository::ReadHead;

const FIRST_LINE: &[u8] = b"packrace cache 1";

/// Longest state: a head, and three short lines.
const MAX_STATE_BYTES: u64 = MAX_HEAD_BYTES as u64 + 4096;

/// Where Linux shows the id of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The id of this boot of the machine; `None` if unknown: then no earlier file is trusted.
pub(super) fn boot_id() -> Option<Vec<u8>> {
    let text = packrace_os::read_file_anywhere(Path::new(BOOT_ID), Role::Config, 100).ok()?;
    Some(text.trim_ascii().to_vec()).filter(|id| !id.is_empty())
}

/// The state of a repository when it was last brought up to its head.
#[derive(Debug)]
pub(super) struct CacheState {
    pub(super) read: ReadHead,
    /// Whether its files were written in this boot.
    pub(super) is_of_this_boot: bool,
}

/// Reads the state; `None` if there is none that is usable.
pub(super) fn read(path: &Path, boot: Option<&[u8]>) -> Option<CacheState> {
    let bytes = packrace_os::read_file(path, Role::Config, MAX_STATE_BYTES).ok()?;
    let mut parts = bytes.splitn(4, |byte| *byte == b'\n');
    let (first, of, version, head) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if first != FIRST_LINE {
        return None;
    }
    Some(CacheState {
        read: ReadHead {
            head: head::parse(head).ok()?,
            bytes: Bytes::copy_from_slice(head),
            version: ObjectVersion(String::from_utf8(version.to_vec()).ok()?),
        },
        is_of_this_boot: boot == Some(of),
    })
}

pub(super) fn write(path: &Path, read: &ReadHead, boot: Option<&[u8]>) -> Result<(), Error> {
    let version = read.version.0.as_bytes();
    let version = if version.contains(&b'\n') { &b""[..] } else { version };
    let head: &Bytes = &read.bytes;
    let text = [FIRST_LINE, b"\n", boot.unwrap_or_default(), b"\n", version, b"\n", head].concat();
    put(path, &text, Role::Config)
}
