//! The files that ranges of a pack were sent from: whether they are what they were, before the pack is complete.

use std::collections::HashMap;

use packrace_object::HashKind;
use packrace_os::{Mapped, faults};
use packrace_pack::generate::Segment;
use packrace_store::check_unchanged;

use crate::error::Error;

/// The maps of all segments of a pack so far.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// By the addresses of their bytes, which stay taken as long as a map is here.
    maps: HashMap<usize, Mapped>,
    last: Option<Mapped>,
    /// How many maps of the process were damaged when none of these was.
    damaged_maps_seen: u64,
}

impl Sources {
    /// Takes a note of the file that a segment comes from. Mostly it is the same as before.
    pub(crate) fn note(&mut self, segment: &Segment) {
        let Segment::Mapped(map, _) = segment else { return };
        if !map.is_file() || self.last.as_ref().is_some_and(|last| last.is_same_map(map)) {
            return;
        }
        self.last = Some(map.clone());
        self.maps.entry(map.as_ptr().addr()).or_insert_with(|| map.clone());
        // It may have been damaged before it came.
        self.damaged_maps_seen = 0;
    }

    /// Whether anything came from a file.
    pub(crate) fn are_files(&self) -> bool {
        !self.maps.is_empty()
    }

    /// An error if a fault was met in one of them.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let damaged_maps = faults::damaged_maps();
        if damaged_maps != self.damaged_maps_seen {
            let maps = self.maps.values();
            maps.into_iter().try_for_each(Mapped::check).map_err(packrace_store::Error::from)?;
            self.damaged_maps_seen = damaged_maps;
        }
        Ok(())
    }

    /// The same, and an error if one was changed in place.
    pub(crate) fn check_unchanged(&self, hash: HashKind) -> Result<(), Error> {
        Ok(self.maps.values().try_for_each(|map| check_unchanged(map, hash))?)
    }
}
