//! Abbreviated names of objects (gitrevisions, `<sha1>`; git-config, "core.abbrev").

use std::collections::BTreeSet;

use packrace_object::{ObjectId, oid};

use crate::config::Config;
use crate::error::Error;
use crate::objects::numbers::ObjectIx;
use crate::objects::pack_set::UnitIndex;
use crate::objects::snapshot::Snapshot;

/// Shorter abbreviations match nothing.
const LEAST_DIGITS: usize = 4;

/// Minimum length of abbreviations, unless configured.
const USUAL_DIGITS: usize = 7;

impl Snapshot {
    /// The objects whose names begin with these hex digits, sorted; fewer than four digits match none.
    pub fn abbreviated(&self, digits: &[u8]) -> Result<BTreeSet<ObjectId>, Error> {
        let hash = self.hash_kind();
        let whole = hash.len_in_hex();
        if !(LEAST_DIGITS..=whole).contains(&digits.len()) {
            return Ok(BTreeSet::new());
        }
        let mut padded = digits.to_ascii_lowercase();
        padded.resize(whole, b'0');
        let Ok(prefix) = ObjectId::from_hex(&padded) else { return Ok(BTreeSet::new()) };
        self.with_prefix(&prefix, digits.len(), usize::MAX)
    }

    /// The shortest length at which the name is unique, at least `least`.
    pub fn unique_digits(&self, id: &oid, least: usize) -> Result<usize, Error> {
        let whole = self.hash_kind().len_in_hex();
        for length in least.max(LEAST_DIGITS)..whole {
            if self.with_prefix(id, length, 2)?.iter().all(|other| **other == *id) {
                return Ok(length);
            }
        }
        Ok(whole)
    }

    /// The minimum length of abbreviations: as configured, or else long enough that few need more.
    pub fn usual_digits(&self, config: &Config) -> Result<usize, Error> {
        let whole = self.hash_kind().len_in_hex();
        match config.string("core.abbrev").map(|value| value.to_ascii_lowercase()).as_deref() {
            None | Some(b"auto") => {
                // Half as many hex digits as the count has bits: a collision is still unlikely.
                let bits = usize::BITS - self.packed_len().leading_zeros();
                Ok(USUAL_DIGITS.max(bits.div_ceil(2) as usize))
            }
            Some(b"" | b"no" | b"off" | b"false") => Ok(whole),
            Some(_) => {
                let digits = config.integer("core.abbrev")?.unwrap_or_default();
                let digits = usize::try_from(digits).ok().filter(|digits| *digits >= LEAST_DIGITS);
                let digits = digits.map(|digits| digits.min(whole));
                digits.ok_or_else(|| {
                    crate::error::Reason::Config("abbrev length out of range".to_owned()).into()
                })
            }
        }
    }

    /// At most so many objects, sorted.
    fn with_prefix(&self, prefix: &oid, hex_len: usize, most: usize) -> Result<BTreeSet<ObjectId>, Error> {
        let mut found = BTreeSet::new();
        let mut add = |id: ObjectId| {
            if found.len() < most {
                found.insert(id);
            }
        };
        for unit in self.units() {
            let mut add = |position| add(self.id(ObjectIx(unit.start + position)).to_owned());
            match &unit.index {
                UnitIndex::Pack(pack) => {
                    let index = self.packs()[pack.0 as usize].index();
                    index.range_of_prefix(prefix, hex_len).take(most.saturating_add(1)).for_each(&mut add);
                }
                UnitIndex::Multi { index, .. } => {
                    index
                        .positions_of_prefix(prefix, hex_len)
                        .take(most.saturating_add(1))
                        .for_each(&mut add);
                }
            }
        }
        let hex = prefix.to_hex().to_string();
        for id in self.loose_of_byte(prefix.first_byte())? {
            if id.to_hex().to_string().starts_with(&hex[..hex_len]) {
                add(id);
            }
        }
        Ok(found)
    }
}
