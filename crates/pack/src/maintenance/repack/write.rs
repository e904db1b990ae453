//! Writes one pack of a repack and puts it where readers find it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_format::{mtimes, pack_index};
use packrace_object::{ObjectId, oid};
use packrace_store::publish::{PackName, PackWriter, PublishOptions, PublishedPack, WritePolicy};

use super::{BitmapRequest, RepackError, RepackRequest};
use crate::bitmap_build::{BitOrder, BitmapTips, BuiltBitmap, build};
use crate::error::Error;
use crate::generate::PackStream;
use crate::marks::Marks;
use crate::names::Names;
use crate::plan;
use crate::settings::Settings;
use crate::universe::{Ix, Universe};
use crate::watch::{Phase, Watch};

/// What all packs of one repack have in common.
pub(super) struct Shop<'a> {
    universe: &'a Arc<Universe>,
    settings: Settings,
    cruft_settings: Settings,
    ofs_delta: bool,
    policy: WritePolicy,
    reverse_index: bool,
    index_version: pack_index::Version,
    pub(super) watch: &'a dyn Watch,
}

/// What is special about a pack.
#[derive(Default)]
pub(super) struct Special<'a> {
    /// It holds what a promisor promised.
    pub(super) is_promisor: bool,
    /// It holds what nothing reaches, last wanted at these times.
    pub(super) times: Option<&'a HashMap<Ix, u32>>,
    /// It gets bitmaps, of what these lead to.
    pub(super) bitmap: Option<&'a BitmapRequest>,
    /// Its files begin with this, instead of standing with the repository's packs.
    pub(super) prefix: Option<&'a Path>,
}

impl<'a> Shop<'a> {
    pub(super) fn of(universe: &'a Arc<Universe>, request: &RepackRequest, watch: &'a dyn Watch) -> Self {
        Shop {
            universe,
            settings: request.settings,
            cruft_settings: request.cruft_settings,
            ofs_delta: request.ofs_delta,
            policy: request.policy,
            reverse_index: request.reverse_index,
            index_version: request.index_version,
            watch,
        }
    }
}

impl Shop<'_> {
    /// Writes a pack of these objects; none if there are no objects.
    pub(super) fn write(
        &self,
        wanted: Marks,
        names: Names,
        special: &Special<'_>,
    ) -> Result<Option<PublishedPack>, RepackError> {
        let hash = self.universe.hash();
        let settings = if special.times.is_some() { self.cruft_settings } else { self.settings };
        let plan = match special.times {
            None => plan::to_store(self.universe, wanted, names, settings, self.ofs_delta, self.watch)?,
            Some(_) => {
                let watch = Cruft(self.watch);
                plan::to_store(self.universe, wanted, names, settings, self.ofs_delta, &watch)?
            }
        };
        let objects = plan.objects();
        if objects == 0 {
            return Ok(None);
        }
        let dir = self.universe.snapshot().own_pack_dir();
        let mut writer = PackWriter::receive(&dir, hash, self.policy)?;
        let mut stream = PackStream::new(plan).with_index();
        while let Some(segment) = stream.next_segment(self.watch)? {
            writer.write(segment.bytes())?;
        }
        let mut entries: Vec<pack_index::Entry> = stream
            .take_entries()
            .into_iter()
            .map(|entry| pack_index::Entry { id: entry.id, crc32: entry.crc32, offset: entry.offset })
            .collect();
        pack_index::sort(&mut entries);
        let sealed = writer.seal(objects)?;
        let mtimes = match special.times {
            Some(times) => Some(mtimes::write(self.seconds(&entries, times)?.into_iter(), sealed.checksum())),
            None => None,
        };
        let bitmap = match special.bitmap {
            Some(request) => self.bitmap(&entries, sealed.checksum(), request)?,
            None => None,
        };
        let options = PublishOptions {
            name: special.prefix.map_or(PackName::Standard, PackName::Prefix),
            index_version: self.index_version,
            reverse_index: self.reverse_index,
            promisor: special.is_promisor.then_some(b"".as_slice()),
            mtimes: mtimes.as_deref(),
            bitmap: bitmap.as_deref(),
            ..PublishOptions::default()
        };
        let published = sealed.publish(&entries, &options)?;
        self.watch.packed(&stream.totals());
        Ok(Some(published))
    }

    fn bitmap(
        &self,
        entries: &[pack_index::Entry],
        checksum: &oid,
        request: &BitmapRequest,
    ) -> Result<Option<Vec<u8>>, RepackError> {
        let universe = self.universe;
        let index = pack_index::write(entries, universe.hash(), checksum, pack_index::Version::default());
        let index = PackIndex::open(index.map_err(|_| RepackError::NoBitmap)?, universe.hash());
        let index = index.map_err(|_| RepackError::NoBitmap)?;
        let order = BitOrder::of_pack(universe, &index, &ReverseIndex::<Vec<u8>>::compute(&index))?;
        let tips = BitmapTips { refs: &request.refs, preferred: &request.preferred };
        match build(universe, &order, tips, &request.options, self.watch)? {
            BuiltBitmap::File(bytes) => Ok(Some(bytes)),
            BuiltBitmap::Shallow => Ok(None),
            BuiltBitmap::NotClosed(id) => Err(RepackError::NotClosed(id)),
        }
    }

    fn seconds(&self, entries: &[pack_index::Entry], times: &HashMap<Ix, u32>) -> Result<Vec<u32>, Error> {
        let of = |id: &ObjectId| {
            let ix = self.universe.require(id)?;
            Ok(times.get(&ix).copied().unwrap_or_default())
        };
        entries.iter().map(|entry| of(&entry.id)).collect()
    }
}

/// Who looks on while a pack is planned of what nothing reaches.
struct Cruft<'a>(&'a dyn Watch);

impl Watch for Cruft<'_> {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let phase = if phase == Phase::Enumerating { Phase::EnumeratingCruft } else { phase };
        self.0.progress(phase, done, total);
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}
