//! Headers of bundles (gitformat-bundle). What follows the header is a pack.
//!
//! ```text
//! # v2 git bundle\n            SHA-1; or `# v3 git bundle\n`, any hash
//! @<key>[=<value>]\n           version 3: a capability that readers must know
//! -<hex id> <comment>\n        an object that the reader must have, with all that it reaches
//! <hex id> <name>\n            a ref
//! \n
//! ```

use packrace_object::{HashKind, ObjectId};

use crate::Error;

/// The longest header that is read or written.
pub const MAX_HEADER_BYTES: usize = 32 << 20;

const FORMAT: &str = "bundle";
const VERSION_2: &[u8] = b"# v2 git bundle";
const VERSION_3: &[u8] = b"# v3 git bundle";

/// What a bundle says of its pack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BundleHeader {
    /// Objects that the reader must have.
    pub prerequisites: Vec<ObjectId>,
    /// Names of refs and their objects.
    pub refs: Vec<(Vec<u8>, ObjectId)>,
}

/// A header that the format cannot hold, or that would be too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many refs, or too long names, for a bundle")]
pub struct UnwritableHeader;

impl BundleHeader {
    /// Reads the header at the start of a bundle whose objects have this hash. Returns it and its length.
    /// Bundles with a filter are refused: they lack objects.
    pub fn parse(bytes: &[u8], hash: HashKind) -> Result<(Self, usize), Error> {
        let mut lines = HeaderLines { bytes, at: 0 };
        let signature = lines.next()?;
        let is_version_3 = match signature {
            VERSION_2 => false,
            VERSION_3 => true,
            _ => return Err(Error::new(FORMAT, "bad signature", 0)),
        };
        let (mut header, mut named_hash) = (BundleHeader::default(), HashKind::Sha1);
        loop {
            let offset = lines.at as u64;
            let line = lines.next()?;
            let malformed = |what| Error::new(FORMAT, what, offset);
            match line {
                [] => break,
                [b'@', capability @ ..] if is_version_3 => {
                    let name = capability.strip_prefix(b"object-format=");
                    let name = name.ok_or_else(|| malformed("unknown capability"))?;
                    named_hash = match name {
                        b"sha1" => HashKind::Sha1,
                        b"sha256" => HashKind::Sha256,
                        _ => return Err(malformed("unknown hash")),
                    };
                }
                [b'-', prerequisite @ ..] => {
                    let (id, _) =
                        split_id(prerequisite, hash).ok_or_else(|| malformed("bad prerequisite"))?;
                    header.prerequisites.push(id);
                }
                line => {
                    let found = split_id(line, hash).filter(|(_, name)| !name.is_empty());
                    let (id, name) = found.ok_or_else(|| malformed("bad ref"))?;
                    header.refs.push((name.to_vec(), id));
                }
            }
        }
        match named_hash == hash {
            true => Ok((header, lines.at)),
            false => Err(Error::new(FORMAT, "another hash", 0)),
        }
    }

    /// The header of a bundle of objects with this hash.
    pub fn write(&self, hash: HashKind) -> Result<Vec<u8>, UnwritableHeader> {
        let mut out = match hash {
            HashKind::Sha1 => [VERSION_2, b"\n"].concat(),
            hash => [VERSION_3, format!("\n@object-format={hash}\n").as_bytes()].concat(),
        };
        for id in &self.prerequisites {
            out.extend_from_slice(format!("-{id} \n").as_bytes());
        }
        for (name, id) in &self.refs {
            if name.is_empty() || name.contains(&b'\n') {
                return Err(UnwritableHeader);
            }
            out.extend_from_slice(&[id.to_string().as_bytes(), b" ", name, b"\n"].concat());
        }
        out.push(b'\n');
        if out.len() > MAX_HEADER_BYTES { Err(UnwritableHeader) } else { Ok(out) }
    }
}

struct HeaderLines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> HeaderLines<'a> {
    /// The next line of the header, without its end.
    fn next(&mut self) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..self.bytes.len().min(MAX_HEADER_BYTES)];
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| Error::new(FORMAT, "unterminated header", self.at as u64))?;
        self.at += end + 1;
        Ok(&rest[..end])
    }
}

/// Splits a line into its id and what follows the space.
fn split_id(line: &[u8], hash: HashKind) -> Option<(ObjectId, &[u8])> {
    let (id, rest) = line.split_at_checked(hash.len_in_hex())?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(b" ")? };
    Some((ObjectId::from_hex(id).ok()?, rest))
}

#[cfg(test)]
mod tests;
