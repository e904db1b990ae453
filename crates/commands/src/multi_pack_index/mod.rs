//! `git multi-pack-index`: one index for many packs.

mod damage;
mod verify;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_format::multi_pack_index::{MidxWriteError, MultiPackIndex as Index, pack_stem};
use packrace_maintenance::chain::NewChain;
use packrace_object::{ObjectId, oid};
use packrace_os::count::Role;
use packrace_os::process::available_threads;
use packrace_os::{Mapped, trace};
use packrace_pack::maintain::pack_files::BitmapRequest;
use packrace_pack::maintain::repack::write_some;
use packrace_pack::{Phase, ProgressSink, RequestObjects};
use packrace_store::helper_fault::multi_pack_index as fault;
use packrace_store::publish::{MultiPackIndexFile, MultiPackIndexLock, PackRemoval, WritePolicy};
use packrace_store::{
    Config, OpenOptions, OwnMultiPackIndex, Pack, Repository, RootKinds, Snapshot, broken_ref_or_tag, roots,
};

use crate::call::Call;
use crate::call::discovery::{in_directory, repository_as_it_is, repository_with};
use crate::call::fatal::Fatal;
use crate::options::{
    MultiPackIndexAction, MultiPackIndexCompactOptions, MultiPackIndexLayerOptions, MultiPackIndexOptions,
    MultiPackIndexWriteOptions, RepackOptions,
};
use crate::packs::settings;
use crate::progress::{self, Progress};
use crate::trace2::mode_of_multi_pack_index;
use crate::work_tree::typed_object_dir;
use damage::Damage;

/// Longest refs snapshot that is read.
const MAX_REFS_SNAPSHOT_BYTES: u64 = 4 << 30;

/// Paths as git shows them: from a directory.
struct ShownPaths {
    dir: PathBuf,
    /// What precedes paths below it.
    before: &'static str,
}

/// Implements `git multi-pack-index`.
pub fn run(call: &Call, args: &MultiPackIndexOptions) -> Result<(), Fatal> {
    mode_of_multi_pack_index(args);
    let mut repository = repository_as_it_is(call)?;
    if let MultiPackIndexAction::Write(write) = &args.action {
        refuse_without_incremental(&write.layer)?;
        if write.layer.base.is_some() && !write.layer.no_write_chain_file {
            let refused = Fatal::refused("cannot use --base without --no-write-chain-file");
            return Err(refused.with_usage_of("multi-pack-index"));
        }
    }
    if let Some(path) = &args.object_dir {
        let path = std::path::absolute(typed_object_dir(&repository, call, path)?).map_err(Fatal::new)?;
        // As git does, and not as it documents: any directory.
        let directory = if path.is_dir() { path } else { repository.known_object_dir(&path)? };
        let options = OpenOptions { object_dir: Some(directory), ..call.open_options()? };
        repository = repository_with(call, options)?;
    }
    let progress = Progress::new(progress::is_wanted(call, args.progress), call)?;
    match &args.action {
        MultiPackIndexAction::Write(write) => self::write(call, &repository, write, &progress),
        MultiPackIndexAction::Compact(compact) => self::compact(call, &repository, compact, &progress),
        MultiPackIndexAction::Verify => verify::verify(call, &repository, &progress),
        MultiPackIndexAction::Expire => expire(call, &repository, &progress),
        MultiPackIndexAction::Repack { batch_size } => repack(call, &repository, *batch_size, progress),
    }
}

impl ShownPaths {
    /// The work tree, or the directory of a bare repository if that is the current one.
    fn of(call: &Call, repository: &Repository) -> Result<Self, Fatal> {
        if let Some(dir) = repository.work_tree()? {
            return Ok(ShownPaths { dir, before: "" });
        }
        let here = std::path::absolute(in_directory(call, Path::new("."))?).map_err(Fatal::new)?;
        let before = if here == repository.git_dir() { "." } else { "" };
        Ok(ShownPaths { dir: here, before })
    }

    fn show(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.dir);
        below.map_or_else(|_| path.to_owned(), |below| Path::new(self.before).join(below))
    }
}

fn write(
    call: &Call,
    repository: &Repository,
    args: &MultiPackIndexWriteOptions,
    progress: &Progress,
) -> Result<(), Fatal> {
    check_version(repository.config(), false)?;
    let named: Option<Vec<String>> =
        args.stdin_packs.then(|| call.streams.input_lines()).transpose().map_err(Fatal::new)?;
    let is_named = |stem: &str| {
        let is_among = |names: &Vec<String>| names.iter().any(|name| pack_stem(name) == stem);
        named.as_ref().is_none_or(is_among)
    };
    let is_wanted = |pack: &Pack| is_named(pack.name());
    let lock = lock(repository, args.layer.incremental)?;
    let _region = NewChain::traced();
    let snapshot = repository.snapshot()?;
    warn_of_lone_indexes(call, repository, &snapshot, is_named)?;
    // As in git, without packs nothing is said of refs.
    let has_packs = snapshot.packs().iter().any(|pack| pack.is_local() && is_wanted(pack));
    let bitmap = match args.bitmap && has_packs {
        true => Some(bitmap_request(call, repository, args.refs_snapshot.as_deref())?),
        false => None,
    };
    // A list of packs is to be followed, whatever the old file reads from.
    let previous = if args.stdin_packs { None } else { previous(call, &snapshot) };
    let preferred = args.preferred_pack.as_deref();
    // As in git, a chain grows without a word of it, and a file that covers all packs stays.
    let stays = || previous.is_some() && bitmap.is_none() && covers_all_packs(&snapshot);
    if let Some(name) = preferred.filter(|_| !args.layer.incremental && !stays()) {
        let mut own = snapshot.packs().iter().filter(|pack| pack.is_local() && is_wanted(pack));
        if !own.any(|pack| pack.name() == pack_stem(name)) {
            error_line!(call, "warning: unknown preferred pack: '{name}'");
        }
    }
    let mut chain = match args.layer.incremental {
        true => base(&snapshot, &args.layer, bitmap.is_some())?,
        false => NewChain::single(previous),
    };
    let added = chain.add_packs(&snapshot, is_wanted, preferred.map(pack_stem), bitmap.as_ref(), progress);
    let is_added = added.map_err(said_of_packs)?;
    progress.finish();
    if !is_added {
        return match args.layer.incremental {
            true => Ok(()),
            false => Err(Fatal::minus_one("no pack files to index.")),
        };
    }
    publish(call, lock, &args.layer, chain)
}

/// Names indexes of packs that are gone. Those of packs that the old file covers are not looked at.
fn warn_of_lone_indexes(
    call: &Call,
    repository: &Repository,
    snapshot: &Snapshot,
    is_named: impl Fn(&str) -> bool,
) -> Result<(), Fatal> {
    let dir = snapshot.own_pack_dir();
    let Ok(entries) = packrace_os::list_dir(&dir, Role::Pack) else { return Ok(()) };
    // They are sorted.
    let names: Vec<&str> = entries.iter().filter_map(|entry| entry.name.to_str()).collect();
    let is_lone = |stem: &&str| names.binary_search(&format!("{stem}.pack").as_str()).is_err();
    let mut lone = names.iter().filter_map(|name| name.strip_suffix(".idx")).filter(is_lone).peekable();
    if lone.peek().is_none() {
        return Ok(());
    }
    let known = snapshot.own_multi_pack_index_names().unwrap_or_default();
    let paths = ShownPaths::of(call, repository)?;
    for stem in lone {
        if !is_named(stem) || known.iter().any(|name| name == stem) {
            continue;
        }
        let path = dir.join(format!("{stem}.idx"));
        let shown = paths.show(&path);
        let shown = shown.display();
        error_line!(call, "warning: failed to add packfile '{shown}'");
    }
    Ok(())
}

/// Whether the file that there is covers the packs that there are, and no others.
fn covers_all_packs(snapshot: &Snapshot) -> bool {
    let known = snapshot.own_multi_pack_index_names().unwrap_or_default();
    let known: HashSet<&str> = known.iter().map(String::as_str).collect();
    let own = || snapshot.packs().iter().filter(|pack| pack.is_local());
    own().count() == known.len() && own().all(|pack| known.contains(pack.name()))
}

/// The single file that there is, unless it is damaged.
fn previous(call: &Call, snapshot: &Snapshot) -> Option<Index<Mapped>> {
    let own = snapshot.own_multi_pack_index().filter(|own| !own.is_chain)?;
    let file = own.chain.layers().first()?.clone();
    if file.verify_checksum().is_err() {
        error_line!(call, "warning: ignoring existing multi-pack-index; checksum mismatch");
        return None;
    }
    Some(file)
}

/// The chain below a new file.
fn base(snapshot: &Snapshot, args: &MultiPackIndexLayerOptions, has_bitmap: bool) -> Result<NewChain, Fatal> {
    let own = snapshot.own_multi_pack_index();
    let count = match (&args.base, &own) {
        (None, own) => own.as_ref().map_or(0, |own| own.chain.layers().len()),
        (Some(base), _) if base == "none" => 0,
        (Some(base), Some(own)) => layer_of(own, base)? + 1,
        (Some(base), None) => return Err(no_layer(base)),
    };
    let chain = NewChain::of(own.as_ref(), count);
    let without_order = chain.chain().layers().iter().rev().find(|layer| !layer.has_bit_order());
    match without_order.filter(|_| has_bitmap) {
        Some(layer) => {
            Err(Fatal::minus_one(format!("could not load reverse index for MIDX {}", layer.checksum())))
        }
        None => Ok(chain),
    }
}

/// Publishes a chain, only its top file, or this as the single file.
fn publish(
    call: &Call,
    lock: MultiPackIndexLock,
    args: &MultiPackIndexLayerOptions,
    chain: NewChain,
) -> Result<(), Fatal> {
    if args.incremental && !args.no_write_chain_file {
        return Ok(lock.publish_chain(&chain.into_layers().unwrap_or_default())?);
    }
    let Some(file) = chain.into_new_file() else { return Ok(()) };
    if !args.incremental {
        return Ok(lock.publish(&file)?);
    }
    let checksum = lock.write_layer(&file)?;
    call.write_line(checksum.to_string())
}

fn refuse_without_incremental(args: &MultiPackIndexLayerOptions) -> Result<(), Fatal> {
    if args.no_write_chain_file && !args.incremental {
        let refused = Fatal::refused("cannot use --no-write-chain-file without --incremental");
        return Err(refused.with_usage_of("multi-pack-index"));
    }
    Ok(())
}

fn said_of_packs(error: packrace_maintenance::Error) -> Fatal {
    match error {
        packrace_maintenance::Error::MultiPackIndex(error @ MidxWriteError::EmptyPreferredPack(_)) => {
            Fatal::error(error)
        }
        error => error.into(),
    }
}

fn no_layer(name: &str) -> Fatal {
    Fatal::new(format!("could not find MIDX: {name}"))
}

/// The number of the file of this checksum.
fn layer_of(own: &OwnMultiPackIndex, name: &str) -> Result<usize, Fatal> {
    let wanted = ObjectId::from_hex(name.as_bytes()).ok();
    let mut layers = own.chain.layers().iter();
    layers.position(|layer| Some(layer.checksum()) == wanted).ok_or_else(|| no_layer(name))
}

/// Which version of files git is to write; here it does not matter, because files are of the lowest that can be.
fn check_version(config: &Config, compacts: bool) -> Result<(), Fatal> {
    match config.integer("midx.version")? {
        Some(1) if compacts => Err(Fatal::new("cannot perform MIDX compaction with v1 format")),
        None | Some(1 | 2) => Ok(()),
        Some(other) => Err(Fatal::new(format!("unknown MIDX version: {other}"))),
    }
}

/// Makes one file of those of a chain from one to another.
fn compact(
    call: &Call,
    repository: &Repository,
    args: &MultiPackIndexCompactOptions,
    progress: &Progress,
) -> Result<(), Fatal> {
    refuse_without_incremental(&args.layer)?;
    check_version(repository.config(), true)?;
    let lock = lock(repository, args.layer.incremental)?;
    let _region = NewChain::traced();
    let snapshot = repository.snapshot()?;
    let own = snapshot.own_multi_pack_index().ok_or_else(|| no_layer(&args.from))?;
    let [from, to] = [layer_of(&own, &args.from)?, layer_of(&own, &args.to)?];
    if from == to {
        return Err(Fatal::new("MIDX compaction endpoints must be unique"));
    }
    if from > to {
        return Err(Fatal::new(format!("MIDX {} must be an ancestor of {}", args.from, args.to)));
    }
    let bitmap = match args.bitmap {
        true => Some(bitmap_request(call, repository, None)?),
        false => None,
    };
    let below = match args.layer.base.as_deref() {
        _ if !args.layer.incremental => 0,
        Some("none") => 0,
        Some(base) => match layer_of(&own, base) {
            Ok(at) if at < from => at + 1,
            _ => return Err(Fatal::minus_one(format!("could not find base MIDX '{base}'"))),
        },
        None => from,
    };
    let replaces = args.layer.incremental && !args.layer.no_write_chain_file;
    // A single file has nothing above it.
    let above = if args.layer.incremental { to + 1..own.chain.layers().len() } else { 0..0 };
    let keeps_bits = own.chain.layers()[above.clone()].iter().any(Index::has_bit_order);
    if replaces && keeps_bits && below != from {
        // The layers above count bits from what is below them.
        return Err(Fatal::new("cannot use --base without --no-write-chain-file"));
    }
    let mut chain = NewChain::of(Some(&own), below);
    let layers = &own.chain.layers()[from..=to];
    chain.add_compacted(&snapshot, layers, keeps_bits, bitmap.as_ref(), progress).map_err(said_of_packs)?;
    progress.finish();
    if replaces {
        chain.keep(&own, above)?;
    }
    publish(call, lock, &args.layer, chain)
}

/// The commits that bitmaps start from: the refs, or a list of refs made earlier.
fn bitmap_request(
    call: &Call,
    repository: &Repository,
    refs_snapshot: Option<&Path>,
) -> Result<BitmapRequest, Fatal> {
    let Some(path) = refs_snapshot else {
        if let Some(name) = broken_ref_or_tag(repository)? {
            return Err(Fatal::new(format!("unable to parse object: {name}")));
        }
        return settings::bitmap_request(call, repository, &roots(repository, RootKinds::REFS)?.refs);
    };
    let mut request = settings::bitmap_request(call, repository, &[])?;
    let path = in_directory(call, path)?;
    let text = packrace_os::read_file(&path, Role::Refs, MAX_REFS_SNAPSHOT_BYTES);
    let unreadable = |error| {
        let why = packrace_os::reason(&error);
        Fatal::new(format!("could not open '{}' for reading: {why}", path.display()))
    };
    let text = text.map_err(unreadable)?;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let (hex, is_preferred) = match line.strip_prefix(b"+") {
            Some(hex) => (hex, true),
            None => (line, false),
        };
        let id = ObjectId::from_hex(hex).ok().filter(|id| id.kind() == repository.hash_kind());
        let id =
            id.ok_or_else(|| Fatal::new(format!("could not parse line: {}", String::from_utf8_lossy(line))))?;
        request.refs.push(id);
        request.preferred.extend(is_preferred.then_some(id));
    }
    Ok(request)
}

/// The lock of the single file, or of the chain.
fn lock(repository: &Repository, is_of_chain: bool) -> Result<MultiPackIndexLock, Fatal> {
    let pack_dir = repository.object_dir().join("pack");
    let policy = WritePolicy::of(repository.config())?;
    Ok(match is_of_chain {
        true => MultiPackIndexLock::take_chain(&pack_dir, repository.hash_kind(), policy)?,
        false => MultiPackIndexLock::take(&pack_dir, repository.hash_kind(), policy)?,
    })
}

/// The repository's own multi-pack-index, if it exists.
fn open(call: &Call, repository: &Repository) -> Result<Option<Index<Mapped>>, Damage> {
    let path = repository.object_dir().join("pack/multi-pack-index");
    let Some(bytes) = mapped(&path)? else { return Ok(None) };
    let hash = repository.hash_kind();
    fault::check(&bytes, &ShownPaths::of(call, repository)?.show(&path), hash)?;
    Index::open(bytes, hash).map(Some).map_err(|error| Fatal::new(error).into())
}

/// The bytes of a file, if it exists.
fn mapped(path: &Path) -> Result<Option<Mapped>, Fatal> {
    match Mapped::open(path, Role::Index) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if packrace_os::is_absent(&error) => Ok(None),
        Err(error) => Err(Fatal::new(format!("{}: {}", path.display(), packrace_os::reason(&error)))),
    }
}

/// The repository's own packs by name.
fn own_packs(snapshot: &Snapshot) -> HashMap<&str, &Pack> {
    snapshot.packs().iter().filter(|pack| pack.is_local()).map(|pack| (pack.name(), pack)).collect()
}

/// Whether there is no multi-pack-index, or one that, as in git, is only told to be damaged; an error if there is a chain, of
/// which git refuses to `verb` anything.
fn is_without_single(call: &Call, repository: &Repository, verb: &str) -> Result<bool, Fatal> {
    match open(call, repository) {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(false),
        Err(Damage::Unparsed(why)) => {
            error_line!(call, "error: {why}");
            return Ok(true);
        }
        Err(Damage::Ends(fatal)) => return Err(fatal),
    }
    match repository.snapshot()?.own_multi_pack_index() {
        Some(_) => Err(Fatal::new(format!("cannot {verb} an incremental multi-pack-index"))),
        None => Ok(true),
    }
}

/// A multi-pack-index without bitmaps that goes on from `previous`, if that is whole; `None` if there are no packs for it.
fn single(
    snapshot: &Arc<Snapshot>,
    previous: &Index<Mapped>,
    is_wanted: impl Fn(&Pack) -> bool,
    preferred: Option<&str>,
    progress: &Progress,
) -> Result<Option<MultiPackIndexFile>, Fatal> {
    let is_whole = previous.verify_checksum().is_ok();
    let mut made = NewChain::single(is_whole.then(|| previous.clone()));
    made.add_packs(snapshot, is_wanted, preferred, None, progress)?;
    Ok(made.into_new_file())
}

/// Deletes packs that no object is read from: first from the index, then from the disk.
fn expire(call: &Call, repository: &Repository, progress: &Progress) -> Result<(), Fatal> {
    if is_without_single(call, repository, "expire packs from")? {
        return Ok(());
    }
    let lock = lock(repository, false)?;
    let Some(index) = open(call, repository)? else { return Ok(()) };
    let snapshot = repository.snapshot()?;
    let mut used = vec![false; index.pack_count() as usize];
    progress.report(Phase::CountingReferenced, 0, u64::from(index.len()));
    for position in 0..index.len() {
        if let Some((pack, _)) = index.pack_and_offset_at(position) {
            used[pack as usize] = true;
        }
    }
    progress.report(Phase::CountingReferenced, u64::from(index.len()), u64::from(index.len()));
    let names: Vec<&str> = index.pack_stems().collect();
    progress.report(Phase::DeletingPacks, 0, names.len() as u64);
    let stays = |pack: &Pack| {
        let number = names.iter().position(|name| *name == pack.name());
        number.is_some_and(|number| used[number]) || pack.has_keep() || pack.is_cruft()
    };
    let own = snapshot.packs().iter().filter(|pack| pack.is_local() && names.contains(&pack.name()));
    let unused: Vec<&Pack> = own.filter(|pack| !stays(pack)).collect();
    progress.report(Phase::DeletingPacks, names.len() as u64, names.len() as u64);
    if unused.is_empty() {
        progress.finish();
        return Ok(());
    }
    // As in git, packs that are newer than the index get into it.
    let is_wanted = |pack: &Pack| !names.contains(&pack.name()) || stays(pack);
    let region = NewChain::traced();
    let file = single(&snapshot, &index, is_wanted, None, progress)?;
    check_replaced(&snapshot, &unused, file.as_ref())?;
    match file {
        Some(file) => lock.publish(&file)?,
        None => lock.remove()?,
    }
    drop(region);
    progress.finish();
    let pack_dir: &Path = &snapshot.own_pack_dir();
    let in_place = snapshot.packs().iter().filter(|pack| pack.is_local() && is_wanted(pack)).map(Pack::name);
    let Some(removal) = PackRemoval::begin(pack_dir, in_place)? else {
        return Err(Fatal::new("no pack was removed: another process removes packs here"));
    };
    for pack in unused {
        removal.remove(pack.name())?;
    }
    Ok(())
}

/// The word of a multi-pack-index is not enough to delete a pack: each of its objects must be where the new file says.
fn check_replaced(
    snapshot: &Snapshot,
    unused: &[&Pack],
    file: Option<&MultiPackIndexFile>,
) -> Result<(), Fatal> {
    let file = file.map(|file| Index::open(file.bytes.as_slice(), snapshot.hash_kind()));
    let file = file.transpose().map_err(Fatal::new)?;
    let own = own_packs(snapshot);
    let staying = file.as_ref().into_iter().flat_map(|file| file.pack_stems());
    let staying: Vec<Option<&Pack>> = staying.map(|name| own.get(name).copied()).collect();
    let is_elsewhere = |id: &oid| {
        let file = file.as_ref()?;
        let (pack, offset) = file.pack_and_offset_at(file.position_of(id)?)?;
        let index = staying[pack as usize]?.index();
        Some(index.offset_at(index.position_of(id)?) == offset)
    };
    for pack in unused {
        let mut ids = (0..pack.len()).map(|position| pack.index().id_at(position));
        if let Some(id) = ids.find(|id| is_elsewhere(id) != Some(true)) {
            let name = pack.name();
            return Err(Fatal::new(format!("multi-pack-index is damaged: object {id} is only in {name}")));
        }
    }
    Ok(())
}

/// Writes the indexed objects of the selected packs to a new pack, and an index that uses it.
fn repack(call: &Call, repository: &Repository, batch_bytes: u64, progress: Progress) -> Result<(), Fatal> {
    if is_without_single(call, repository, "repack")? {
        return Ok(());
    }
    let lock = lock(repository, false)?;
    let Some(index) = open(call, repository)? else { return Ok(()) };
    let request_objects = Arc::new(RequestObjects::new(repository.snapshot()?));
    let snapshot = request_objects.snapshot();
    let config = repository.config();
    let with_kept = config.boolean("repack.packKeptObjects")?.unwrap_or(false);
    let names: Vec<&str> = index.pack_stems().collect();
    let selected = select(&index, snapshot, &names, with_kept, batch_bytes);
    if selected.len() < 2 {
        return Ok(());
    }
    let threads = available_threads();
    let options = RepackOptions::default();
    let request = crate::repack::base_request(call, &options, &options.packing, config, threads)?;
    let progress = progress.with_threads(request.settings.threads);
    let child = match request.ofs_delta {
        true => trace::child_inside(&["git", "pack-objects", "--delta-base-offset"]),
        false => trace::child_inside(&["git", "pack-objects"]),
    };
    let written = || write_some(&request_objects, &request, &selected, &progress);
    let new = trace::during(child, written).map_err(Fatal::new)?;
    if new.is_empty() {
        return Ok(());
    }
    let new: Vec<&str> = new.iter().filter_map(|new| new.stem.file_name()?.to_str()).collect();
    let is_wanted = |pack: &Pack| new.contains(&pack.name()) || names.contains(&pack.name());
    let after = repository.snapshot()?;
    // So that `expire` finds nothing used in the packs that were combined.
    let preferred = new.first().copied();
    let _region = NewChain::traced();
    if let Some(file) = single(&after, &index, is_wanted, preferred, &progress)? {
        progress.finish();
        lock.publish(&file)?;
    }
    Ok(())
}

/// The packs to combine (git-multi-pack-index, "repack").
fn select(
    index: &Index<Mapped>,
    snapshot: &Snapshot,
    names: &[&str],
    with_kept: bool,
    batch_bytes: u64,
) -> Vec<String> {
    let mut used = vec![0u64; names.len()];
    for position in 0..index.len() {
        if let Some((pack, _)) = index.pack_and_offset_at(position) {
            used[pack as usize] += 1;
        }
    }
    let own = snapshot.packs().iter().filter(|pack| pack.is_local() && !pack.is_cruft());
    let mut packs: Vec<(&Pack, u64)> = own
        .filter(|pack| with_kept || !pack.has_keep())
        .filter_map(|pack| Some((pack, used[names.iter().position(|name| *name == pack.name())?])))
        .collect();
    packs.sort_by_key(|(pack, _)| pack.modified());
    let mut total = 0u64;
    let mut selected = Vec::new();
    for (pack, used) in packs {
        let bytes = pack.bytes().len() as u128 * u128::from(used) / u128::from(pack.len().max(1));
        let expected = u64::try_from(bytes).unwrap_or(u64::MAX);
        if batch_bytes > 0 && total >= batch_bytes {
            break;
        }
        if batch_bytes == 0 || expected < batch_bytes {
            total = total.saturating_add(expected);
            selected.push(pack.name().to_owned());
        }
    }
    selected
}
