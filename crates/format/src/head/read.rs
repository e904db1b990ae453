//! Parses a head.

use packrace_object::{HashKind, ObjectId, TrailerHasher};

use super::{
    DIGEST_BYTES, FORMAT, FilePlace, Head, MAX_ENTRIES, MAX_GENERATION, MAX_HEAD_BYTES, MAX_RECENT_TOKENS,
    ObjectKey, PackFileKind, SIGNATURE, StoredFile, StoredPack, StoredTable, TOKEN_BYTES, VERSION,
    WriteToken,
};
use crate::Error;
use crate::reftable::TableName;

/// Why bytes are not a head.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The bytes break the rules of the format.
    #[error(transparent)]
    Damaged(#[from] Error),
    /// The head is intact, but a later packrace wrote it.
    #[error("head: version {0} is not supported, this packrace knows version {VERSION}; upgrade packrace")]
    Newer(u32),
}

fn damaged(what: &'static str, at: usize) -> HeadError {
    Error::new(FORMAT, what, at as u64).into()
}

/// Parses a whole head and checks everything: [`super::write`] makes the same bytes from the result.
pub fn parse(bytes: &[u8]) -> Result<Head, HeadError> {
    if bytes.len() > MAX_HEAD_BYTES {
        return Err(damaged("longer than a head may be", MAX_HEAD_BYTES));
    }
    let Some((body, digest)) = bytes.split_last_chunk::<DIGEST_BYTES>() else {
        return Err(damaged("shorter than a head", bytes.len()));
    };
    if !body.starts_with(SIGNATURE) {
        return Err(damaged("signature is not PKRCHEAD", 0));
    }
    let mut hasher = TrailerHasher::new(HashKind::Sha256);
    hasher.update(body);
    if hasher.finish().as_bytes() != digest {
        return Err(damaged("does not match its checksum", body.len()));
    }
    let mut fields = Fields { body, at: SIGNATURE.len() };
    match fields.u32()? {
        VERSION => {}
        0 => return Err(damaged("version is 0", SIGNATURE.len())),
        newer => return Err(HeadError::Newer(newer)),
    }
    let head = fields.head()?;
    match fields.at == body.len() {
        true => Ok(head),
        false => Err(damaged("goes on behind its end", fields.at)),
    }
}

/// The bytes not read yet.
struct Fields<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn head(&mut self) -> Result<Head, HeadError> {
        let at = self.at;
        let hash = match self.u32()? {
            1 => HashKind::Sha1,
            2 => HashKind::Sha256,
            _ => return Err(damaged("unknown hash", at)),
        };
        let at = self.at;
        let generation = self.u64()?;
        if generation == 0 {
            return Err(damaged("generation is 0", at));
        }
        if generation > MAX_GENERATION {
            return Err(damaged("generation has more than 63 bits", at));
        }
        let token = self.token()?;
        let at = self.at;
        let (floor, shrunk) = (self.u64()?, self.u64()?);
        if floor > generation || shrunk > generation {
            return Err(damaged("floor or shrunk is beyond the generation", at));
        }
        Ok(Head {
            hash,
            generation,
            token,
            floor,
            shrunk,
            recent: self.list(MAX_RECENT_TOKENS, Self::token)?,
            config: self.list(MAX_ENTRIES, Self::setting)?,
            shallow: self.list(MAX_ENTRIES, |fields| fields.id(hash))?,
            packs: self.packs(hash)?,
            tables: self.tables()?,
            dropped: self.list(MAX_ENTRIES, Self::object_key)?,
        })
    }

    fn setting(&mut self) -> Result<(Vec<u8>, Vec<u8>), HeadError> {
        let at = self.at;
        let key_length = usize::from(self.u16()?);
        let key = self.take(key_length)?.to_vec();
        let value_length = self.u32()? as usize;
        let value = self.take(value_length)?.to_vec();
        if key.is_empty() || [&key, &value].iter().any(|text| text.contains(&0)) {
            return Err(damaged("a setting that cannot be", at));
        }
        Ok((key, value))
    }

    fn packs(&mut self, hash: HashKind) -> Result<Vec<StoredPack>, HeadError> {
        let at = self.at;
        let packs = self.list(MAX_ENTRIES, |fields| fields.pack(hash))?;
        let mut checksums: Vec<&ObjectId> = packs.iter().map(|pack| &pack.checksum).collect();
        checksums.sort_unstable();
        match checksums.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(damaged("a pack is named twice", at)),
            false => Ok(packs),
        }
    }

    fn pack(&mut self, hash: HashKind) -> Result<StoredPack, HeadError> {
        let at = self.at;
        let checksum = self.id(hash)?;
        let mut files: Vec<(PackFileKind, StoredFile)> = Vec::new();
        for _ in 0..self.u8()? {
            let number = self.u8()?;
            let kind = PackFileKind::ALL.into_iter().find(|kind| kind.number() == number);
            let kind = kind.filter(|kind| files.iter().all(|(other, _)| other != kind));
            let kind = kind.ok_or_else(|| damaged("a file of a pack is unknown or there twice", at))?;
            files.push((kind, self.file()?));
        }
        let has = |wanted| files.iter().any(|(kind, _)| *kind == wanted);
        match has(PackFileKind::Pack) && has(PackFileKind::Index) {
            true => Ok(StoredPack { checksum, files }),
            false => Err(damaged("a pack lacks the pack or the index", at)),
        }
    }

    fn tables(&mut self) -> Result<Vec<StoredTable>, HeadError> {
        let at = self.at;
        let tables = self.list(MAX_ENTRIES, |fields| {
            let at = fields.at;
            let length = usize::from(fields.u8()?);
            let name = fields.take(length)?.to_vec();
            // Only names in git's form, so that a name cannot lead into another directory.
            if TableName::parse(&name).is_none_or(|parsed| parsed.to_string().as_bytes() != name) {
                return Err(damaged("a table has no good name", at));
            }
            Ok(StoredTable { name, file: fields.file()? })
        })?;
        let mut names: Vec<&[u8]> = tables.iter().map(|table| table.name.as_slice()).collect();
        names.sort_unstable();
        match names.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(damaged("a table is named twice", at)),
            false => Ok(tables),
        }
    }

    fn file(&mut self) -> Result<StoredFile, HeadError> {
        let at = self.at;
        let length = self.u64()?;
        let sha256 = self.array()?;
        let place = match self.u8()? {
            0 => {
                let length = usize::try_from(length).map_err(|_| damaged("cut off", at))?;
                FilePlace::Inline(self.take(length)?.to_vec())
            }
            1 => {
                let (key, offset) = (self.object_key()?, self.u64()?);
                let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
                end.ok_or_else(|| damaged("a file goes on behind any object", at))?;
                FilePlace::Object { key, offset }
            }
            _ => return Err(damaged("a file is in an unknown kind of place", at)),
        };
        Ok(StoredFile { length, sha256, place })
    }

    fn object_key(&mut self) -> Result<ObjectKey, HeadError> {
        Ok(ObjectKey { generation: self.u64()?, token: self.token()? })
    }

    /// Reads a list. Each entry takes at least a byte, so the list grows no further than its bytes justify.
    fn list<T>(
        &mut self,
        most: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, HeadError>,
    ) -> Result<Vec<T>, HeadError> {
        let at = self.at;
        let count = usize::from(self.u16()?);
        if count > most {
            return Err(damaged("a list is longer than it may be", at));
        }
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(each(self)?);
        }
        Ok(found)
    }

    fn token(&mut self) -> Result<WriteToken, HeadError> {
        Ok(WriteToken(self.array::<TOKEN_BYTES>()?))
    }

    fn id(&mut self, hash: HashKind) -> Result<ObjectId, HeadError> {
        Ok(match hash {
            HashKind::Sha256 => ObjectId::Sha256(self.array()?),
            _ => ObjectId::Sha1(self.array()?),
        })
    }

    fn u8(&mut self) -> Result<u8, HeadError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, HeadError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, HeadError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, HeadError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeadError> {
        let found = self.body[self.at..].first_chunk::<N>().ok_or_else(|| damaged("cut off", self.at))?;
        self.at += N;
        Ok(*found)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], HeadError> {
        let found = self.body[self.at..].get(..length).ok_or_else(|| damaged("cut off", self.at))?;
        self.at += length;
        Ok(found)
    }
}
