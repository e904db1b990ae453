//! Writes packs and their companion files, and publishes them.

use std::path::{Path, PathBuf};

use packrace_format::pack_index::PackIndex;
use packrace_format::reverse_index::ReverseIndex;
use packrace_format::{mtimes, pack_index};
use packrace_object::{ObjectId, oid};
use packrace_store::publish::{PackName, PackWriter, PublishOptions, PublishedPack, WritePolicy};

use super::unreachable::Times;
use crate::encode::generate::PackStream;
use crate::error::Error;
use crate::maintain::bitmap_build::{
    BitOrder, BitmapOptions, BitmapTips, BuiltBitmap, PseudoMergeGroup, build,
};
use crate::progress::ProgressSink;
use crate::request_objects::RequestObjects;
use crate::select::plan::PackPlan;

/// How packs are stored.
#[derive(Debug, Clone, Copy)]
pub struct PackFiles {
    /// How files are written.
    pub policy: WritePolicy,
    /// Whether packs get a `.rev`.
    pub reverse_index: bool,
    /// The version of their indexes.
    pub index_version: pack_index::Version,
    /// The most bytes per pack (`pack.packSizeLimit`); a pack of a single object may be longer.
    pub max_bytes: Option<u64>,
}

/// The special properties of a pack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Special<'a> {
    /// The pack holds objects from a promisor.
    pub is_promisor: bool,
    /// The pack gets these bitmaps, unless it is split.
    pub bitmap: Option<&'a BitmapRequest>,
    /// The path prefix of the pack's files, if they are not stored with the repository's packs.
    pub prefix: Option<&'a Path>,
    /// The pack holds unreachable objects, last wanted at these times.
    pub times: Option<&'a Times>,
}

/// Which bitmaps to write.
#[derive(Debug, Clone)]
pub struct BitmapRequest {
    /// The targets of refs.
    pub refs: Vec<ObjectId>,
    /// Those that always get a bitmap (`pack.preferBitmapTips`).
    pub preferred: Vec<ObjectId>,
    /// Those that get bitmaps together (`bitmapPseudoMerge`).
    pub groups: Vec<PseudoMergeGroup>,
    /// What the file contains.
    pub options: BitmapOptions,
}

impl BitmapRequest {
    /// The commits that get bitmaps.
    pub fn tips(&self) -> BitmapTips<'_> {
        BitmapTips { refs: &self.refs, preferred: &self.preferred, groups: &self.groups }
    }
}

/// Why packs could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackFilesError {
    /// Objects cannot be read, or packs cannot be written.
    #[error(transparent)]
    Objects(#[from] Error),
    /// Bitmaps were requested, but this object is not in the pack.
    #[error("failed to write bitmap index")]
    NotClosed(ObjectId),
    /// The new pack has no usable index.
    #[error("failed to write bitmap index")]
    NoBitmap,
    /// A pack that must be compared with others has a damaged index.
    #[error("cannot open index for {0}")]
    DamagedIndex(PathBuf),
}

impl From<packrace_store::Error> for PackFilesError {
    fn from(error: packrace_store::Error) -> Self {
        PackFilesError::Objects(error.into())
    }
}

impl PackFiles {
    /// Writes the planned objects as one pack, or as several if the limit requires it. Each pack is durable
    /// before the next begins.
    pub fn write(
        &self,
        plan: PackPlan,
        special: &Special<'_>,
        progress: &dyn ProgressSink,
    ) -> Result<Vec<PublishedPack>, PackFilesError> {
        let request_objects = plan.request_objects.clone();
        let hash = request_objects.hash();
        let dir = request_objects.snapshot().own_pack_dir();
        let mut packs = Vec::new();
        let mut stream = match self.max_bytes {
            Some(bytes) => PackStream::new(plan).in_parts(bytes),
            None => PackStream::new(plan).with_index(),
        };
        loop {
            let mut writer = match self.max_bytes {
                Some(_) => PackWriter::create(&dir, hash, self.policy, None)?,
                None => PackWriter::receive(&dir, hash, self.policy)?,
            };
            while let Some(segment) = stream.next_segment(progress)? {
                writer.write(segment.bytes())?;
            }
            let mut entries = stream.take_entries();
            pack_index::sort(&mut entries);
            let sealed = writer.seal(entries.len() as u32)?;
            let mtimes = match special.times {
                Some(times) => {
                    let seconds = seconds(&request_objects, &entries, times)?;
                    Some(mtimes::write(seconds.into_iter(), sealed.checksum()))
                }
                None => None,
            };
            let is_whole = packs.is_empty() && !stream.has_more_parts();
            let bitmap = match special.bitmap.filter(|_| is_whole) {
                Some(request) => bitmap(&request_objects, &entries, sealed.checksum(), request, progress)?,
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
            packs.push(sealed.publish(&entries, &options)?);
            if !stream.has_more_parts() {
                progress.packed(&stream.totals());
                return Ok(packs);
            }
        }
    }
}

fn bitmap(
    request_objects: &RequestObjects,
    entries: &[pack_index::Entry],
    checksum: &oid,
    request: &BitmapRequest,
    progress: &dyn ProgressSink,
) -> Result<Option<Vec<u8>>, PackFilesError> {
    let index = pack_index::write(entries, request_objects.hash(), checksum, pack_index::Version::default());
    let index = PackIndex::open(index.map_err(|_| PackFilesError::NoBitmap)?, request_objects.hash());
    let index = index.map_err(|_| PackFilesError::NoBitmap)?;
    let order = BitOrder::of_pack(request_objects, &index, &ReverseIndex::<Vec<u8>>::compute(&index))?;
    match build(request_objects, &order, request.tips(), &request.options, progress)? {
        BuiltBitmap::File(bytes) => Ok(Some(bytes)),
        BuiltBitmap::Shallow => Ok(None),
        BuiltBitmap::NotClosed(id) => Err(PackFilesError::NotClosed(id)),
    }
}

fn seconds(
    request_objects: &RequestObjects,
    entries: &[pack_index::Entry],
    times: &Times,
) -> Result<Vec<u32>, Error> {
    entries.iter().map(|entry| Ok(times.of(request_objects.require(&entry.id)?))).collect()
}
