//! The input lists of `pack-objects`: objects with their paths, or packs (git-pack-objects, "DESCRIPTION" and
//! "--stdin-packs").

use std::collections::HashSet;

use packrace_object::ObjectId;
use packrace_pack::plan::reached_from;
use packrace_pack::{NameHash, RequestObjects, Settings};
use packrace_store::Pack;

use super::edges::Edges;
use crate::call::fatal::Fatal;

/// The objects to pack, each with the hash of its path.
pub type ObjectsToPack = Vec<(ObjectId, NameHash)>;

/// Reads `<id>[ <path>]` lines; as in git, any byte may separate the path. `-<id>` lines name commits of the
/// receiver: what they have at the paths of listed objects is left out. Returns that, too: it may be delta bases.
pub fn objects(
    request_objects: &RequestObjects,
    input: &[u8],
    settings: &Settings,
    may_lack: bool,
) -> Result<(ObjectsToPack, ObjectsToPack), Fatal> {
    let kind = request_objects.snapshot().hash_kind();
    let hex = kind.len_in_hex();
    let id = |text: &[u8]| ObjectId::from_hex(text).ok().filter(|id| id.kind() == kind);
    let mut objects = ObjectsToPack::new();
    let mut edges = Edges::new(request_objects, settings.window);
    for line in lines(input) {
        if let Some(edge) = line.strip_prefix(b"-") {
            let edge = edge.get(..hex).and_then(id).ok_or_else(|| garbage("edge object ID", line))?;
            edges.add(edge)?;
            continue;
        }
        let found = line.get(..hex).and_then(id).ok_or_else(|| garbage("object ID", line))?;
        let path = line.get(hex + 1..).unwrap_or_default();
        edges.look_at(path);
        if !request_objects.contains(&found)? {
            if may_lack {
                request_objects.list_missing(&found);
                continue;
            }
            return Err(Fatal::new(format!("unable to read {found}")));
        }
        objects.push((found, NameHash::of_by(settings.name_hash, path)));
    }
    objects.retain(|(id, _)| !edges.have(id));
    let had = edges.into_had().map(|(id, path)| (id, NameHash::of_by(settings.name_hash, path)));
    Ok((objects, had.collect()))
}

/// The input as git's strings have it: a NUL ends its line.
pub fn cut_at_nuls(input: Vec<u8>) -> Vec<u8> {
    if !input.contains(&0) {
        return input;
    }
    let lines = input.split(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.map(|line| line.split(|byte| *byte == 0).next().unwrap_or(line)).collect();
    lines.join(&b'\n')
}

/// Lines of pack names, which may end with a carriage return.
fn names(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(input).map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|name| !name.is_empty())
}

/// Reads pack names: packs that stay, and with a leading `-`, packs that will be deleted, which are returned.
/// Packs that are not named were added meanwhile, and stay. As in git, no pack is found twice.
pub fn packs_to_delete(request_objects: &RequestObjects, input: &[u8]) -> Result<HashSet<String>, Fatal> {
    let (mut staying, mut deleted) = (Vec::new(), Vec::new());
    for line in names(input) {
        match line.strip_prefix(b"-") {
            Some(name) => deleted.push(name),
            None => staying.push(line),
        }
    }
    let mut seen = HashSet::new();
    let mut found = |mut names: Vec<&[u8]>| -> Result<HashSet<String>, Fatal> {
        names.sort_unstable();
        let stems = names.into_iter().map(|name| {
            let stem = find_pack(request_objects, name)?.name().to_owned();
            if seen.insert(stem.clone()) { Ok(stem) } else { Err(not_found(name)) }
        });
        stems.collect()
    };
    found(staying)?;
    found(deleted)
}

fn find_pack<'a>(request_objects: &'a RequestObjects, name: &[u8]) -> Result<&'a Pack, Fatal> {
    let stem = name.strip_suffix(b".pack");
    let found = request_objects.snapshot().packs().iter().find(|pack| stem == Some(pack.name().as_bytes()));
    found.ok_or_else(|| not_found(name))
}

fn not_found(name: &[u8]) -> Fatal {
    Fatal::new(format!("could not find pack '{}'", String::from_utf8_lossy(name)))
}

/// What to pack of packs.
pub struct OfPacks {
    /// Whether to add loose objects.
    pub unpacked: bool,
    /// Whether to refuse packs of promised objects.
    pub without_promised: bool,
    /// Whether to add what all these reach.
    pub follow: bool,
}

/// Reads pack names; objects of packs with a leading `^` are left out. If objects are followed, those of packs with
/// a leading `!` are left out, but not what they reach.
pub fn of_packs(
    request_objects: &RequestObjects,
    input: &[u8],
    args: &OfPacks,
) -> Result<ObjectsToPack, Fatal> {
    let find = |name: &[u8]| find_pack(request_objects, name);
    let (mut included, mut excluded, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for line in names(input) {
        match line.split_first() {
            Some((b'^', name)) => excluded.push(find(name)?),
            Some((b'!', name)) if args.follow => open.push(find(name)?),
            _ => included.push(find(line)?),
        }
    }
    if let Some(pack) = included.iter().find(|pack| args.without_promised && pack.is_promisor()) {
        let text = "is a promisor but --exclude-promisor-objects was given";
        return Err(Fatal::new(format!("packfile {}.pack {text}", pack.name())));
    }
    let mut found = ids_of(&included);
    if args.unpacked {
        found.extend(request_objects.snapshot().own_loose()?);
    }
    let mut objects: ObjectsToPack = found.iter().map(|id| (*id, NameHash::default())).collect();
    if args.follow {
        found.extend(ids_of(&open));
        let packs = request_objects.snapshot().packs().iter();
        let promised: Vec<&Pack> = packs.filter(|pack| args.without_promised && pack.is_promisor()).collect();
        // Without open packs, packs that are left out may have gaps.
        let mut stop = if open.is_empty() { Vec::new() } else { ids_of(&excluded) };
        stop.extend(ids_of(&promised));
        excluded.extend(promised);
        let mut reached = reached_from(request_objects, &found, &stop)?;
        reached.retain(|(id, _)| args.unpacked || request_objects.snapshot().lookup(id).is_some());
        // The first mention counts, and these know their paths.
        reached.append(&mut objects);
        objects = reached;
    }
    excluded.append(&mut open);
    let mut seen = HashSet::new();
    objects.retain(|(id, _)| {
        let is_left_out = excluded.iter().any(|pack| pack.index().position_of(id).is_some());
        !is_left_out && seen.insert(*id)
    });
    Ok(objects)
}

fn ids_of(packs: &[&Pack]) -> Vec<ObjectId> {
    let of_pack = |pack: &&Pack| {
        let ids = (0..pack.len()).map(|position| pack.index().id_at(position).to_owned());
        ids.collect::<Vec<_>>()
    };
    packs.iter().flat_map(of_pack).collect()
}

fn lines(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_empty = input.is_empty();
    let input = input.strip_suffix(b"\n").unwrap_or(input);
    input.split(|byte| *byte == b'\n').filter(move |_| !is_empty)
}

fn garbage(what: &str, line: &[u8]) -> Fatal {
    Fatal::new(format!("expected {what}, got garbage:\n {}\n", String::from_utf8_lossy(line)))
}
