//! Checks that the files that a pack is sent from did not change before it is complete.

use std::collections::HashMap;

use packrace_object::HashKind;
use packrace_os::{Mapped, faults};
use packrace_pack::generate::Segment;
use packrace_store::check_unchanged;

use crate::error::Error;

/// The maps of all segments of a pack so far.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// By the address of their bytes, which is not reused while the map is here.
    maps: HashMap<usize, Mapped>,
    last: Option<Mapped>,
    /// How many maps of the process were damaged when none of these was.
    damaged_maps_seen: u64,
}

impl Sources {
    /// Remembers the file that a segment comes from. Mostly it is the same as before.
    pub(crate) fn note(&mut self, segment: &Segment) {
        let Segment::Mapped(map, _) = segment else { return };
        if !map.is_file() || self.last.as_ref().is_some_and(|last| last.is_same_map(map)) {
            return;
        }
        self.last = Some(map.clone());
        self.maps.entry(map.as_ptr().addr()).or_insert_with(|| map.clone());
        // It may have been damaged before.
        self.damaged_maps_seen = 0;
    }

    /// Whether any segment came from a file.
    pub(crate) fn are_files(&self) -> bool {
        !self.maps.is_empty()
    }

    /// Fails if a fault occurred in one of the files.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let damaged_maps = faults::damaged_maps();
        if damaged_maps != self.damaged_maps_seen {
            let maps = self.maps.values();
            maps.into_iter().try_for_each(Mapped::check).map_err(packrace_store::Error::from)?;
            self.damaged_maps_seen = damaged_maps;
        }
        Ok(())
    }

    /// The same, and fails if a file was changed in place.
    pub(crate) fn check_unchanged(&self, hash: HashKind) -> Result<(), Error> {
        Ok(self.maps.values().try_for_each(|map| check_unchanged(map, hash))?)
    }
}
