//! Which stored objects `pack-objects` leaves out, and which it looks at beside its revisions.

use packrace_object::{ObjectId, oid};
use packrace_store::{Pack, Snapshot};

use crate::call::fatal::Fatal;
use crate::options::PackObjectsOptions;

/// Objects to omit, by where they are stored.
pub struct LeftOut<'a> {
    packed: bool,
    local: bool,
    kept: bool,
    keep_packs: &'a [String],
}

impl<'a> LeftOut<'a> {
    pub fn of(args: &'a PackObjectsOptions) -> Self {
        LeftOut {
            // What is added beside the revisions need not be unpacked.
            packed: args.incremental || args.unpacked && args.stdin_packs.is_none() && !args.keep_unreachable,
            local: args.local,
            kept: args.honor_pack_keep,
            keep_packs: &args.keep_pack,
        }
    }

    pub fn is_anything(&self) -> bool {
        self.packed || self.local || self.kept || !self.keep_packs.is_empty()
    }

    pub fn contains(&self, snapshot: &Snapshot, id: &oid) -> Result<bool, Fatal> {
        let is_packed = || self.packed && snapshot.lookup(id).is_some();
        let stays = || snapshot.is_in_pack(id, |pack| pack.is_local() && self.keeps(pack));
        Ok(is_packed() || stays() || self.local && snapshot.is_borrowed(id)?)
    }

    /// Whether the pack and its objects stay.
    pub fn keeps(&self, pack: &Pack) -> bool {
        let is_named = |keep: &String| keep.strip_suffix(".pack").is_some_and(|keep| keep == pack.name());
        self.kept && pack.has_keep() || self.keep_packs.iter().any(is_named)
    }
}

/// Possibly unreachable objects in the repository's own packs.
pub struct Unreachable<'a> {
    snapshot: &'a Snapshot,
    left_out: &'a LeftOut<'a>,
}

impl<'a> Unreachable<'a> {
    pub fn of(snapshot: &'a Snapshot, left_out: &'a LeftOut<'a>) -> Self {
        Unreachable { snapshot, left_out }
    }

    /// The objects of packs that do not stay.
    pub fn packed(&self) -> impl Iterator<Item = ObjectId> + '_ {
        let packs = self.snapshot.packs().iter();
        let packs = packs.filter(|pack| self.is_taken_apart(pack) && pack.is_usable());
        packs.flat_map(|pack| (0..pack.len()).map(|position| pack.index().id_at(position).to_owned()))
    }

    /// Whether the object is also in a pack that stays.
    pub fn is_safe(&self, id: &oid) -> Result<bool, Fatal> {
        Ok(self.snapshot.is_in_pack(id, |pack| !self.is_taken_apart(pack)))
    }

    fn is_taken_apart(&self, pack: &Pack) -> bool {
        pack.is_local() && !pack.has_keep() && !self.left_out.keeps(pack)
    }
}
