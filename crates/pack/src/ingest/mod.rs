//! Turns the bytes of a pack into an indexed pack.
//!
//! ```text
//! bytes ─push→ receive: where entries begin, CRCs   (while they arrive; written in large pieces)
//!              hasher_thread: names of whole objects, and in idle time (eager_deltas) of some deltas
//!       ─resolve→ deltas applied and named on several threads, from the mapped pack, the short ones from delta_buffer
//!               → thin pack completed from what the repository has; received objects compared with existing ones
//!       → IndexedPack ─publish→ .pack, .rev and .idx in place, durable
//! ```
//!
//! No system call reads the pack again, unless a map of it would take too much of a limited address space:
//! then its entries are read one by one. Memory: 64 bytes per entry, 28 per entry for the index when it is
//! written, 32 MiB for short deltas, 16 MiB for eager ones, and `cache_bytes` per thread, with an eighth more
//! for midstates of trees; contents above 8 MiB go to unlinked files.

mod checks;
mod content;
mod contradiction;
mod delta_buffer;
mod eager_deltas;
mod error;
mod existing;
mod hasher_thread;
mod listing;
mod receive;
mod resolve;
mod table;
pub mod unpack;
mod unpacked;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use packrace_format::pack::{EntryKind, write_entry_header};
use packrace_format::pack_index::{self, Entry};
use packrace_format::zlib::Deflater;
use packrace_object::{HashKind, Kind, ObjectId};
use packrace_store::publish::{
    PackWriter, PublishOptions, PublishedPack, Scratch, SealedPack, WrittenPack, pack_compression,
};
use packrace_store::{Config, Mapped, ObjectReader, ObjectStream, Snapshot};

use self::content::Maker;
use self::receive::Receiver;
use self::resolve::{Outcome, Resolver, Root};
use self::table::{EntryTable, NamedDelta};
use crate::progress::{Phase, ProgressSink};
use crate::settings;

pub use checks::{CheckResults, Checks};
use error::IngestReason;
pub use error::{IngestError, IngestErrorKind, Unpacking};
use existing::ExistingReader;
pub use listing::Listed;
pub use unpacked::MaxUnpacked;

/// Bytes of a file between two progress reports.
const STEP_BYTES: usize = 1 << 20;

/// Longer objects are compared piece by piece if they are stored whole.
const IN_PIECES_BYTES: u64 = 1 << 20;

/// A longer pack is synced to disk while its deltas are resolved.
const WORTH_SYNCING_AHEAD_BYTES: u64 = 32 << 20;

/// The settings for receiving a pack.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// The repository's hash.
    pub hash: HashKind,
    /// Threads that resolve deltas (`pack.threads`).
    pub threads: usize,
    /// Bytes of delta bases that each thread caches (`core.deltaBaseCacheLimit`), besides the current
    /// objects.
    pub cache_bytes: usize,
    /// The longest accepted pack.
    pub max_bytes: Option<u64>,
    /// The most accepted objects.
    pub max_objects: Option<u32>,
    /// The limit for the contents of all objects.
    pub max_unpacked: Option<MaxUnpacked>,
    /// Whether the pack may lack bases that the repository has.
    pub fix_thin: bool,
    /// The zlib level for bases that a thin pack lacks (`pack.compression`).
    pub level: i32,
    /// Whether to refuse a pack that contains an object more than once.
    pub refuse_duplicates: bool,
    /// Whether an object that the repository has, but that cannot be read, stays as it is. Else it is an error.
    pub skip_unreadable: bool,
    /// Which checks to run on objects.
    pub checks: Option<Checks>,
}

impl IngestOptions {
    /// Reads the settings from the configuration; for one thread, without limits and checks.
    pub fn of(config: &Config, hash: HashKind) -> Result<Self, crate::Error> {
        Ok(IngestOptions {
            hash,
            threads: 1,
            cache_bytes: settings::base_cache_bytes(config)?,
            max_bytes: None,
            max_objects: None,
            max_unpacked: None,
            fix_thin: false,
            level: pack_compression(config)?,
            refuse_duplicates: false,
            skip_unreadable: false,
            checks: None,
        })
    }
}

/// Fetches objects; gives a snapshot that has them.
pub type FetchBases<'a> = &'a dyn Fn(&[ObjectId]) -> Option<Arc<Snapshot>>;

/// A pack that is being received; dropping it leaves nothing behind.
pub struct Ingest {
    receiver: Receiver,
    /// The bytes of an existing pack file.
    file: Option<Mapped>,
    options: IngestOptions,
}

/// A pack whose objects all have names.
#[derive(Debug)]
pub struct IndexedPack {
    sealed: Option<SealedPack>,
    data: WrittenPack,
    /// Sorted by id.
    entries: Vec<Entry>,
    checksum: ObjectId,
    completed: u32,
    found: CheckResults,
}

impl Ingest {
    /// Starts to receive a pack into `writer`.
    pub fn new(writer: PackWriter, options: IngestOptions) -> Self {
        let receiver = Receiver::new(&options, Some(writer));
        Ingest { receiver, file: None, options }
    }

    /// Reads an existing pack.
    pub fn read_file(
        data: Mapped,
        options: IngestOptions,
        progress: &dyn ProgressSink,
    ) -> Result<Self, IngestError> {
        let mut receiver = Receiver::new(&options, None);
        data.advise_sequential();
        for step in data.chunks(STEP_BYTES) {
            let taken = receiver.push(step)?;
            progress.report(Phase::Indexing, receiver.table.len().into(), receiver.announced().into());
            if taken < step.len() {
                return Err(IngestReason::Junk.into());
            }
            if progress.cancelled() {
                return Err(IngestReason::Cancelled.into());
            }
        }
        Ok(Ingest { receiver, file: Some(data), options })
    }

    /// Starts to check a pack without storing it; it can be neither resolved nor published.
    pub fn check_only(options: IngestOptions) -> Self {
        let options = IngestOptions { checks: None, ..options };
        let receiver = Receiver::new(&options, None);
        Ingest { receiver, file: None, options }
    }

    /// Takes the bytes that belong to the pack, which are all unless the pack ends among them. They are
    /// written to the file in pieces of 1 MiB.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, IngestError> {
        Ok(self.receiver.push(bytes)?)
    }

    /// Whether the pack is complete and its checksum correct.
    pub fn is_complete(&self) -> bool {
        self.receiver.is_over()
    }

    /// The number of entries received and the number announced.
    pub fn received(&self) -> (u32, u32) {
        (self.receiver.table.len(), self.receiver.announced())
    }

    /// Resolves deltas and completes the pack. `existing` is the repository's content: bases that the pack
    /// lacks, and objects that must equal received ones with the same id.
    pub fn resolve(
        self,
        existing: Option<&Arc<Snapshot>>,
        progress: &dyn ProgressSink,
    ) -> Result<IndexedPack, IngestError> {
        self.resolve_fetching(existing, &|_| None, progress)
    }

    /// The same for a repository that is a partial clone: `fetch` fetches bases of a thin pack that neither the pack nor the
    /// repository has, and gives a snapshot with them.
    pub fn resolve_fetching(
        mut self,
        existing: Option<&Arc<Snapshot>>,
        fetch: FetchBases<'_>,
        progress: &dyn ProgressSink,
    ) -> Result<IndexedPack, IngestError> {
        let mut existing = existing.cloned();
        let Some(checksum) = self.receiver.checksum() else { return Err(IngestReason::CutOff.into()) };
        let mut writer = self.receiver.take_writer();
        let data = match (&mut writer, self.file.take()) {
            (Some(writer), _) => writer.written()?,
            (None, file) => file.expect("what is only checked is not resolved").into(),
        };
        let mut table = std::mem::replace(&mut self.receiver.table, EntryTable::new(self.options.hash, 0));
        let scratch = writer.as_ref().map(|writer| writer.scratch());
        self.inspect_large(&table, &data, scratch.clone(), progress)?;
        let long = writer.as_deref_mut().filter(|writer| writer.position() > WORTH_SYNCING_AHEAD_BYTES);
        let lacking = while_syncing(long, || {
            self.resolve_deltas(&mut table, &data, scratch, &mut existing, fetch, progress)
        })?;
        let existing = existing.as_ref();
        let EntryTable { mut entries, .. } = table;
        pack_index::sort(&mut entries);
        let options = self.options;
        let bases = lacking.clone();
        let mut indexed = match writer {
            None => IndexedPack {
                sealed: None,
                data,
                entries,
                checksum,
                completed: 0,
                found: CheckResults::default(),
            },
            Some(writer) => complete(*writer, data, entries, lacking, existing, &options)?,
        };
        if options.refuse_duplicates
            && let Some(pair) = indexed.entries.windows(2).find(|pair| pair[0].id == pair[1].id)
        {
            return Err(IngestReason::Twice(pair[0].id).into());
        }
        if let Some(inspector) = self.receiver.inspector {
            let entries = &indexed.entries;
            let pack = &mut || indexed.snapshot().map_err(IngestReason::from);
            indexed.found = inspector.finish(entries, pack, existing)?;
            if options.checks.as_ref().is_some_and(|checks| checks.lists_links) {
                indexed.found.linked.extend(bases);
            }
        }
        if let Some(existing) = existing {
            indexed.compare(existing, &options)?;
        }
        Ok(indexed)
    }

    /// Inspects whole objects that were never completely in memory when they arrived.
    fn inspect_large(
        &mut self,
        table: &EntryTable,
        data: &WrittenPack,
        scratch: Option<Scratch>,
        progress: &dyn ProgressSink,
    ) -> Result<(), IngestReason> {
        let Some(inspector) = &mut self.receiver.inspector else { return Ok(()) };
        let mut maker = Maker::new(scratch, self.receiver.unpacked.clone(), progress);
        let mut packed = Vec::new();
        for entry in std::mem::take(&mut self.receiver.large) {
            let kind = table.whole_kind(entry).expect("deltas are looked at when they are resolved");
            let id = &table.entries[entry as usize].id;
            if kind == Kind::Blob {
                inspector.note_kind(id, kind);
                continue;
            }
            let (stream, size) = table.stream(entry, data, &mut packed)?;
            let content = maker.inflate(stream, size)?;
            inspector.inspect(kind, id, &content)?;
        }
        Ok(())
    }

    /// Names every delta; returns the objects of the repository that are bases of `REF_DELTA` entries. `existing` is another
    /// snapshot afterwards if bases were fetched.
    fn resolve_deltas(
        &mut self,
        table: &mut EntryTable,
        data: &WrittenPack,
        scratch: Option<Scratch>,
        existing: &mut Option<Arc<Snapshot>>,
        fetch: FetchBases<'_>,
        progress: &dyn ProgressSink,
    ) -> Result<Vec<ObjectId>, IngestReason> {
        let total = (0..table.len()).filter(|entry| table.whole_kind(*entry).is_none()).count() as u64;
        let left = (0..table.len()).filter(|entry| table.is_unnamed(*entry)).count() as u64;
        if total > 0 {
            progress.report(Phase::Resolving, total - left, total);
        }
        if left == 0 {
            return Ok(Vec::new());
        }
        let children = table.children();
        let mut named = std::mem::take(&mut table.named);
        named.sort_unstable_by(|a, b| a.base.cmp(&b.base).then(a.entry.cmp(&b.entry)));
        let claimed: Vec<AtomicBool> = named.iter().map(|_| AtomicBool::new(false)).collect();
        let done = AtomicU64::new(total - left);
        let has_deltas = |entry: &u32| !named.is_empty() || !children.of(*entry).is_empty();
        let is_whole = |entry: &u32| table.whole_kind(*entry).is_some();
        let roots = (0..table.len()).filter(|entry| is_whole(entry) && has_deltas(entry));
        let roots: Vec<Root> = roots.map(Root::Entry).collect();
        let may_lack = existing.as_mut().filter(|_| self.options.fix_thin);
        let short_deltas = std::mem::take(&mut self.receiver.short_deltas);
        let mut resolver = Resolver {
            pack: data,
            short_deltas: &short_deltas,
            table,
            children: &children,
            named: &named,
            claimed: &claimed,
            scratch,
            unpacked: &self.receiver.unpacked,
            existing: may_lack.as_deref().cloned(),
            completes: false,
            cache_bytes: self.options.cache_bytes,
            checks: self.options.checks.as_ref(),
            progress,
            done: &done,
            total,
            left,
        };
        let mut outcome = resolver.run(&roots, self.options.threads)?;
        let mut lacking = Vec::new();
        if let Some(existing) = may_lack {
            let unclaimed = unclaimed_bases(&named, &claimed);
            let threads = self.options.threads;
            lacking =
                resolve_with_existing(&mut resolver, threads, unclaimed, existing, fetch, &mut outcome)?;
        }
        let Outcome { resolved, inspectors } = outcome;
        for inspector in inspectors {
            self.receiver.inspector.as_mut().expect("where there is one there are all").merge(inspector);
        }
        table.name(&resolved);
        match left - resolved.len() as u64 {
            0 => Ok(lacking),
            unresolved => Err(IngestReason::Unresolved(unresolved)),
        }
    }
}

/// Resolves deltas whose bases the repository has, or after they were fetched. Returns these bases.
fn resolve_with_existing(
    resolver: &mut Resolver<'_>,
    threads: usize,
    mut unclaimed: Vec<ObjectId>,
    existing: &mut Arc<Snapshot>,
    fetch: FetchBases<'_>,
    outcome: &mut Outcome,
) -> Result<Vec<ObjectId>, IngestReason> {
    let mut bases = Vec::new();
    resolver.completes = true;
    loop {
        let (found, missing) = parted(unclaimed, existing)?;
        let roots: Vec<Root> = found.iter().map(|id| Root::Existing(*id)).collect();
        bases.extend(found);
        let more = resolver.run(&roots, threads)?;
        outcome.resolved.extend(more.resolved);
        outcome.inspectors.extend(more.inspectors);
        if outcome.resolved.len() as u64 == resolver.left {
            return Ok(bases);
        }
        let mut missing: HashSet<ObjectId> = missing.into_iter().collect();
        let in_pack = resolver.table.entries.iter().map(|entry| &entry.id);
        for id in in_pack.chain(outcome.resolved.iter().map(|named| &named.id)) {
            missing.remove(id);
        }
        unclaimed = missing.into_iter().collect();
        unclaimed.sort_unstable();
        let later = if unclaimed.is_empty() { None } else { fetch(&unclaimed) };
        let Some(later) = later else { return Ok(bases) };
        resolver.existing = Some(later.clone());
        *existing = later;
    }
}

/// Bases of `REF_DELTA` entries that were not found yet. Only the first delta of a base is marked, so this has bases that were
/// found, too: each costs one look-up.
fn unclaimed_bases(named: &[NamedDelta], claimed: &[AtomicBool]) -> Vec<ObjectId> {
    let unclaimed = named.iter().zip(claimed).filter(|(_, claimed)| !claimed.load(Ordering::Relaxed));
    let mut bases: Vec<ObjectId> = unclaimed.map(|(delta, _)| delta.base).collect();
    bases.dedup();
    bases
}

/// The objects that the repository has, and those that it lacks.
fn parted(ids: Vec<ObjectId>, existing: &Snapshot) -> Result<(Vec<ObjectId>, Vec<ObjectId>), IngestReason> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        if existing.contains(&id)? {
            found.push(id);
        } else {
            missing.push(id);
        }
    }
    Ok((found, missing))
}

/// Runs `work` while the file is synced to disk.
fn while_syncing<T>(
    writer: Option<&mut PackWriter>,
    work: impl FnOnce() -> Result<T, IngestReason>,
) -> Result<T, IngestReason> {
    std::thread::scope(|scope| {
        // If no thread starts, only the final sync takes longer.
        let thread = std::thread::Builder::new();
        let syncing = writer.and_then(|writer| thread.spawn_scoped(scope, || writer.sync_ahead()).ok());
        let done = work()?;
        match syncing.map(|thread| thread.join()) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(synced)) => synced?,
            None => {}
        }
        Ok(done)
    })
}

/// Appends the bases that a thin pack lacks, and ends the pack. If any are appended, the checksum is computed
/// again from the file, because the pack begins with the number of objects.
fn complete(
    mut writer: PackWriter,
    data: WrittenPack,
    mut entries: Vec<Entry>,
    mut lacking: Vec<ObjectId>,
    existing: Option<&Arc<Snapshot>>,
    options: &IngestOptions,
) -> Result<IndexedPack, IngestError> {
    lacking.retain(|id| entries.binary_search_by(|entry| entry.id.cmp(id)).is_err());
    lacking.sort_unstable();
    let count = entries.len() as u32;
    let completed = lacking.len() as u32;
    let sum = count.checked_add(completed).ok_or(IngestReason::TooManyObjects)?;
    let mut data = Some(data);
    if let Some(existing) = existing.filter(|_| completed > 0) {
        data = None;
        writer.continue_received()?;
        let mut reader = ExistingReader::new(existing, options.cache_bytes);
        let (mut deflater, mut bytes) = (Deflater::new(options.level), Vec::new());
        for id in lacking {
            let object = reader.read(&id)?;
            let offset = writer.position();
            bytes.clear();
            write_entry_header(EntryKind::Object(object.kind), object.data.len() as u64, &mut bytes);
            deflater.deflate(&object.data, &mut bytes);
            writer.write(&bytes)?;
            entries.push(Entry { id, crc32: crc32fast::hash(&bytes), offset });
        }
        pack_index::sort(&mut entries);
    }
    let mut sealed = writer.seal(sum)?;
    let checksum = *sealed.checksum();
    Ok(IndexedPack {
        data: data.map_or_else(|| sealed.written(), Ok)?,
        sealed: Some(sealed),
        entries,
        checksum,
        completed,
        found: CheckResults::default(),
    })
}

impl IndexedPack {
    /// The entries, sorted by id.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The trailer.
    pub fn checksum(&self) -> &ObjectId {
        &self.checksum
    }

    /// The number of objects appended because the pack lacked them.
    pub fn completed(&self) -> u32 {
        self.completed
    }

    /// Findings that do not cause a refusal.
    pub fn found(&self) -> &CheckResults {
        &self.found
    }

    /// All bytes of the pack.
    pub fn data(&self) -> Result<&Mapped, IngestError> {
        Ok(self.data.map()?)
    }

    /// Whether its bytes are not mapped: that would take too much of the address space that the process may have.
    pub fn is_in_ranges(&self) -> bool {
        self.data.is_in_ranges()
    }

    /// The space and delta chain of every object, in pack order.
    pub fn list(&self) -> Result<Vec<Listed>, IngestError> {
        if self.entries.is_empty() { Ok(Vec::new()) } else { listing::list(self) }
    }

    /// A snapshot of this pack alone.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, IngestError> {
        let version = pack_index::Version::default();
        let index = pack_index::write(&self.entries, self.checksum.kind(), &self.checksum, version);
        let index = index.map_err(|_| IngestReason::TooManyObjects)?;
        Ok(Arc::new(Snapshot::of_pack(self.data.map()?.clone(), Mapped::from(index), self.checksum.kind())?))
    }

    /// Publishes a received pack with its companion files, durably.
    ///
    /// # Panics
    /// If the pack was read from a file.
    pub fn publish(self, options: &PublishOptions<'_>) -> Result<PublishedPack, IngestError> {
        let sealed = self.sealed.expect("a pack that was received");
        // If a part of it was read as zeros, its content is unknown.
        self.data.mapped().map_or(Ok(()), Mapped::check).map_err(packrace_store::Error::from)?;
        drop(self.data);
        Ok(sealed.publish(&self.entries, options)?)
    }

    /// Compares objects with existing ones that have the same id.
    fn compare(&mut self, existing: &Arc<Snapshot>, options: &IngestOptions) -> Result<(), IngestError> {
        let mut known = Vec::new();
        for entry in &self.entries {
            if existing.contains(&entry.id)? {
                known.push(entry.id);
            }
        }
        if known.is_empty() {
            return Ok(());
        }
        let own = self.snapshot()?;
        let (mut ours, mut theirs) = (own.reader(options.cache_bytes), existing.reader(options.cache_bytes));
        for id in known {
            match is_same(&id, (&own, &mut ours), (existing, &mut theirs)) {
                Ok(true) => {}
                Ok(false) => return Err(IngestReason::Collision(id).into()),
                Err(IngestReason::Existing(_)) if options.skip_unreadable => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Whether an object of the pack is what the repository has under this name.
fn is_same(
    id: &ObjectId,
    (own, ours): (&Arc<Snapshot>, &mut ObjectReader),
    (existing, theirs): (&Arc<Snapshot>, &mut ObjectReader),
) -> Result<bool, IngestReason> {
    let unreadable = |_| IngestReason::Existing(*id);
    match (own.stream(id)?, existing.stream(id).map_err(unreadable)?) {
        (Some(one), Some(other)) if one.size > IN_PIECES_BYTES => are_same(one, other),
        _ => {
            let received = ours.read(id)?;
            Ok(received == theirs.read(id).map_err(unreadable)?
                // One of them is damaged, or it is an attack.
                || ExistingReader::new(existing, 0).read(id).is_ok_and(|object| object == received))
        }
    }
}

fn are_same(mut one: ObjectStream, mut other: ObjectStream) -> Result<bool, IngestReason> {
    if (one.kind, one.size) != (other.kind, other.size) {
        return Ok(false);
    }
    let (mut own, mut theirs) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let length = one.read(&mut own)?;
        if other.read(&mut theirs)? != length || own[..length] != theirs[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
    }
}
