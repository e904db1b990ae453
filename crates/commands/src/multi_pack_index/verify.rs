//! `git multi-pack-index verify`: compares multi-pack-indexes with the packs that they name.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use packrace_format::multi_pack_index::MultiPackIndex as Index;
use packrace_format::pack::HEADER_BYTES;
use packrace_format::pack_index::PackIndex;
use packrace_object::{HashKind, ObjectId, oid};
use packrace_os::Mapped;
use packrace_os::count::Role;
use packrace_pack::{Phase, ProgressSink};
use packrace_store::helper_fault::multi_pack_index::{self as fault, MultiPackIndexFault};
use packrace_store::publish::with_extension;
use packrace_store::{Repository, fault_of_index, header_of_pack};

use super::damage::Damage;
use super::{ShownPaths, mapped};
use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::progress::Progress;

/// A multi-pack-index, which may be one of a chain.
struct Layer {
    index: Index<Mapped>,
    /// Whether its checksum is right.
    is_whole: bool,
    /// How many objects the files below it have.
    objects_below: u64,
    /// How many packs they have.
    packs_below: u64,
}

/// A pack that a multi-pack-index names.
struct NamedPack {
    stem: PathBuf,
    /// The same as git prints it.
    shown: PathBuf,
}

/// Tells every fault.
struct Faults<'a> {
    call: &'a Call,
    progress: &'a Progress,
    are_met: bool,
}

/// Compares the single file, or else the chain, with the packs beside it.
pub(super) fn verify(call: &Call, repository: &Repository, progress: &Progress) -> Result<(), Fatal> {
    let pack_dir = repository.object_dir().join("pack");
    let paths = ShownPaths::of(call, repository)?;
    let hash = repository.hash_kind();
    let layers = layers(call, &pack_dir, &paths, hash)?;
    if layers.is_empty() {
        return Ok(());
    }
    let mut faults = Faults { call, progress, are_met: false };
    for _ in layers.iter().filter(|layer| !layer.is_whole) {
        faults.tell("incorrect checksum");
    }
    let packs = find_packs(&layers, &pack_dir, &paths, &mut faults);
    if layers.iter().all(|layer| layer.index.is_empty()) {
        faults.tell("the midx contains no oid");
    }
    check_order(&layers, &mut faults);
    check_places(&layers, &packs, hash, &mut faults)?;
    progress.finish();
    match faults.are_met {
        true => Err(Fatal::silent(1)),
        false => Ok(()),
    }
}

/// The files that git reads, the lowest first; none if there is no multi-pack-index.
fn layers(call: &Call, pack_dir: &Path, paths: &ShownPaths, hash: HashKind) -> Result<Vec<Layer>, Fatal> {
    let path = pack_dir.join("multi-pack-index");
    match mapped(&path)? {
        None => chain(call, pack_dir, paths, hash),
        Some(bytes) => {
            fault::check(&bytes, &paths.show(&path), hash).map_err(Damage::from)?;
            Ok(vec![Layer::open(bytes, hash, None, None)?])
        }
    }
}

/// The files of a chain below the first that cannot be read.
fn chain(call: &Call, pack_dir: &Path, paths: &ShownPaths, hash: HashKind) -> Result<Vec<Layer>, Fatal> {
    let dir = pack_dir.join("multi-pack-index.d");
    let hex_bytes = 2 * hash.len_in_bytes();
    let list = mapped(&dir.join("multi-pack-index-chain"))?.filter(|list| !list.is_empty());
    let Some(list) = list else { return Ok(Vec::new()) };
    if list.len() < hex_bytes {
        error_line!(call, "warning: multi-pack-index chain file too small");
    }
    let mut layers: Vec<Layer> = Vec::new();
    // As in git, a last line that does not end does not count.
    for line in list.split(|byte| *byte == b'\n').take(list.len() / (hex_bytes + 1)) {
        let Some(name) = ObjectId::from_hex(line).ok().filter(|name| name.kind() == hash) else {
            let line = String::from_utf8_lossy(line);
            let line = harmless(&line);
            error_line!(call, "warning: invalid multi-pack-index chain: line '{line}' not a hash");
            break;
        };
        let path = dir.join(format!("multi-pack-index-{name}.midx"));
        let bytes = match mapped(&path)? {
            None => None,
            Some(bytes) => match fault::check(&bytes, &paths.show(&path), hash) {
                Ok(()) => Some(bytes),
                Err(MultiPackIndexFault::Unparsed(why)) => {
                    call.report_error(&why);
                    None
                }
                Err(fault) => return Err(Damage::from(fault).into()),
            },
        };
        let Some(bytes) = bytes else {
            error_line!(call, "warning: unable to find all multi-pack index files");
            break;
        };
        layers.push(Layer::open(bytes, hash, layers.last(), Some(name))?);
    }
    Ok(layers)
}

impl Layer {
    /// `name` is the checksum that a chain has for the file.
    fn open(
        bytes: Mapped,
        hash: HashKind,
        below: Option<&Layer>,
        name: Option<ObjectId>,
    ) -> Result<Self, Fatal> {
        let index = Index::open_to_compare(bytes, hash).map_err(Fatal::new)?;
        let is_named = name.is_none_or(|name| index.checksum() == name);
        Ok(Layer {
            is_whole: is_named && index.verify_checksum().is_ok(),
            objects_below: below.map_or(0, Layer::objects),
            packs_below: below.map_or(0, Layer::packs),
            index,
        })
    }

    /// How many objects it has, with those of the files below it.
    fn objects(&self) -> u64 {
        self.objects_below + u64::from(self.index.len())
    }

    /// How many packs it has, with those of the files below it.
    fn packs(&self) -> u64 {
        self.packs_below + u64::from(self.index.pack_count())
    }

    /// The place that the file gives an object: the number of the pack in the chain, and the offset.
    fn place_at(&self, position: u32) -> Result<(u64, u64), Fatal> {
        let pack = self.packs_below + u64::from(self.index.pack_at(position));
        if pack >= self.packs() {
            return Err(Fatal::new(format!("bad pack-int-id: {pack} ({} total packs)", self.packs())));
        }
        match self.index.pack_and_offset_at(position) {
            Some((_, offset)) => Ok((pack, offset)),
            None => Err(Fatal::new("multi-pack-index large offset out of bounds")),
        }
    }
}

impl NamedPack {
    /// Finds the pack by the name of its index.
    fn find(pack_dir: &Path, paths: &ShownPaths, name: &str) -> Option<Self> {
        let stem = pack_dir.join(name.strip_suffix(".idx")?);
        let is_there = packrace_os::identity(&with_extension(&stem, "pack"), Role::Pack);
        is_there.ok().flatten()?;
        let shown = paths.show(&stem);
        Some(NamedPack { stem, shown })
    }

    /// Its index, if the pack is the one that it belongs to; the error is what git prints before it names an object.
    fn open(&self, hash: HashKind) -> Result<PackIndex<Mapped>, String> {
        let [index_shown, pack_shown] = ["idx", "pack"].map(|ending| with_extension(&self.shown, ending));
        let unavailable =
            |why: &str| format!("{why}error: packfile {} index unavailable", pack_shown.display());
        let bytes = Mapped::open(&with_extension(&self.stem, "idx"), Role::Index);
        let bytes = bytes.map_err(|_| unavailable(""))?;
        let index = PackIndex::open(bytes.clone(), hash);
        let why = || format!("error: {}\n", fault_of_index(&index_shown, &bytes, hash));
        let index = index.map_err(|_| unavailable(&why()))?;
        let pack = Mapped::open(&with_extension(&self.stem, "pack"), Role::Pack);
        let why = |error| format!("error: {}: {}", pack_shown.display(), packrace_os::reason(&error));
        check_pack(&pack_shown, &pack.map_err(why)?, &index).map_err(|fault| format!("error: {fault}"))?;
        Ok(index)
    }
}

/// Fails, in git's words, if a pack is not the one that the index belongs to.
fn check_pack(shown: &Path, pack: &[u8], index: &PackIndex<Mapped>) -> Result<(), String> {
    let (found, expected) = (header_of_pack(shown, pack)?.objects, index.len());
    let shown = shown.display();
    if found != expected {
        return Err(format!(
            "packfile {shown} claims to have {found} objects while index indicates {expected} objects"
        ));
    }
    match pack[HEADER_BYTES..].ends_with(index.pack_checksum().as_bytes()) {
        true => Ok(()),
        false => Err(format!("packfile {shown} does not match index")),
    }
}

impl Faults<'_> {
    fn tell(&mut self, text: &str) {
        self.are_met = true;
        self.progress.stop();
        error_line!(self.call, "{text}");
    }
}

fn find_packs(
    layers: &[Layer],
    pack_dir: &Path,
    paths: &ShownPaths,
    faults: &mut Faults,
) -> Vec<Option<NamedPack>> {
    let names = layers.iter().flat_map(|layer| layer.index.pack_names());
    let packs: Vec<_> = names.map(|name| NamedPack::find(pack_dir, paths, name)).collect();
    faults.progress.report(Phase::LookingForPacks, 0, packs.len() as u64);
    for (number, _) in packs.iter().enumerate().filter(|(_, pack)| pack.is_none()) {
        faults.tell(&format!("failed to load pack in position {number}"));
    }
    faults.progress.report(Phase::LookingForPacks, packs.len() as u64, packs.len() as u64);
    packs
}

/// Ids are sorted within each file.
fn check_order(layers: &[Layer], faults: &mut Faults) {
    let total = layers.last().map_or(0, Layer::objects);
    for Layer { index, objects_below, .. } in layers {
        for position in 1..index.len() {
            let [before, id] = [index.id_at(position - 1), index.id_at(position)];
            let at = objects_below + u64::from(position);
            if before >= id {
                let above = format!("oid[{}] = {before}", at - 1);
                faults.tell(&format!("oid lookup out of order: {above} >= {id} = oid[{at}]"));
            }
            faults.progress.report(Phase::VerifyingOrder, at, total.saturating_sub(1));
        }
    }
}

/// Compares the places of objects with the indexes of their packs. As in git, objects of the last pack come first, and
/// the place of an object is the one that readers find by its name.
fn check_places(
    layers: &[Layer],
    packs: &[Option<NamedPack>],
    hash: HashKind,
    faults: &mut Faults,
) -> Result<(), Fatal> {
    let mut objects: Vec<(u64, &Layer, u32)> = Vec::new();
    for layer in layers {
        let pack = |position| layer.packs_below + u64::from(layer.index.pack_at(position));
        objects.extend((0..layer.index.len()).map(|position| (pack(position), layer, position)));
    }
    objects.sort_by_key(|(pack, ..)| Reverse(*pack));
    let find = |id: &oid| {
        let found = layers.iter().rev().find_map(|layer| Some((layer, layer.index.position_of(id)?)));
        found.map(|(layer, position)| layer.place_at(position)).transpose()
    };
    // Only one pack is open at a time.
    let mut open: Option<(u64, Result<PackIndex<Mapped>, String>)> = None;
    let total = objects.len() as u64;
    for (done, (_, layer, position)) in (1..).zip(&objects) {
        let id = layer.index.id_at(*position);
        let named = format!("oid[{}] = {id}", layer.objects_below + u64::from(*position));
        faults.progress.report(Phase::VerifyingOffsets, done, total);
        let place = find(id).inspect_err(|_| faults.progress.stop())?;
        let place =
            place.and_then(|(number, offset)| Some((number, packs[number as usize].as_ref()?, offset)));
        let Some((number, pack, offset)) = place else {
            faults.tell(&format!("failed to load pack entry for {named}"));
            continue;
        };
        if open.as_ref().is_none_or(|(opened, _)| *opened != number) {
            open = Some((number, pack.open(hash)));
        }
        match open.as_ref().map(|(_, opened)| opened) {
            Some(Ok(index)) => {
                // As in git, an object that the pack lacks is at 0.
                let stored = index.position_of(id).map_or(0, |at| index.offset_at(at));
                if stored != offset {
                    faults.tell(&format!("incorrect object offset for {named}: {offset:x} != {stored:x}"));
                }
            }
            Some(Err(why)) => faults.tell(&format!("{why}\nfailed to load pack entry for {named}")),
            None => {}
        }
    }
    Ok(())
}
