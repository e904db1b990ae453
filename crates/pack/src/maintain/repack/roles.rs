//! The role of each pack in a repack.

use packrace_store::{Pack, PackIx, Snapshot};

use super::super::geometry::packs_to_roll_up;

/// What a repack does with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackRole {
    /// In an alternate, or damaged: it stays, even if its objects have copies elsewhere.
    Foreign,
    /// Stays as it is.
    Kept,
    /// The same, and its objects are never repacked, even if those of kept packs are.
    Named,
    /// From a promisor remote: objects that its objects refer to may be missing.
    Promisor,
    /// Holds unreachable objects.
    Cruft,
    /// The same, and stays as it is.
    LongCruft,
    /// Any other pack.
    Ordinary,
}

/// The roles of all packs of a snapshot.
pub(super) struct Roles {
    roles: Vec<PackRole>,
}

impl Roles {
    /// `keep_packs` are names, with or without `.pack`, of packs that stay; from `long_cruft_bytes` on, cruft packs do.
    pub(super) fn of(snapshot: &Snapshot, keep_packs: &[String], long_cruft_bytes: Option<u64>) -> Self {
        let is_named = |pack: &Pack| {
            keep_packs.iter().any(|name| name.strip_suffix(".pack").unwrap_or(name) == pack.name())
        };
        let role = |pack: &Pack| match pack {
            pack if !pack.is_local() || !pack.is_usable() => PackRole::Foreign,
            pack if is_named(pack) => PackRole::Named,
            pack if pack.has_keep() => PackRole::Kept,
            pack if pack.is_promisor() => PackRole::Promisor,
            pack if pack.is_cruft() => {
                match long_cruft_bytes.is_some_and(|bytes| pack.bytes().len() as u64 >= bytes) {
                    true => PackRole::LongCruft,
                    false => PackRole::Cruft,
                }
            }
            _ => PackRole::Ordinary,
        };
        Roles { roles: snapshot.packs().iter().map(role).collect() }
    }

    /// The repository's own packs, without damaged ones.
    pub(super) fn own(&self) -> Vec<PackIx> {
        let numbered = (0u32..).map(PackIx).zip(&self.roles);
        numbered.filter(|(_, role)| **role != PackRole::Foreign).map(|(pack, _)| pack).collect()
    }

    /// The packs with one of these roles.
    pub(super) fn with(&self, roles: &[PackRole]) -> Vec<PackIx> {
        let numbered = (0u32..).map(PackIx).zip(&self.roles);
        numbered.filter(|(_, role)| roles.contains(role)).map(|(pack, _)| pack).collect()
    }

    /// The ordinary packs that a geometric repack rolls up, and those that it leaves, largest last.
    /// `with_kept` counts kept packs, too, and `with_foreign` those of alternates; both stay in any case.
    pub(super) fn roll_up(
        &self,
        snapshot: &Snapshot,
        factor: u32,
        with_kept: bool,
        with_foreign: bool,
    ) -> (Vec<PackIx>, Vec<PackIx>) {
        let takes_part = |number: &PackIx| {
            let pack = &snapshot.packs()[number.0 as usize];
            match self.of_pack(*number) {
                _ if !pack.is_usable() => false,
                PackRole::Ordinary => true,
                PackRole::Kept | PackRole::Named => with_kept && !pack.is_promisor() && !pack.is_cruft(),
                PackRole::Foreign => {
                    with_foreign && !pack.is_promisor() && !pack.is_cruft() && (with_kept || !pack.has_keep())
                }
                PackRole::Promisor | PackRole::Cruft | PackRole::LongCruft => false,
            }
        };
        let all = [PackRole::Ordinary, PackRole::Kept, PackRole::Named, PackRole::Foreign];
        split(snapshot, self.with(&all).into_iter().filter(takes_part).collect(), factor)
    }

    /// The same for packs from promisor remotes.
    pub(super) fn roll_up_promised(&self, snapshot: &Snapshot, factor: u32) -> (Vec<PackIx>, Vec<PackIx>) {
        split(snapshot, self.with(&[PackRole::Promisor]), factor)
    }

    pub(super) fn of_pack(&self, pack: PackIx) -> PackRole {
        self.roles[pack.0 as usize]
    }
}

/// A pack that a geometric repack must compare with others, but whose index is damaged: nobody knows how large it is.
pub(super) fn damaged_index(snapshot: &Snapshot, with_kept: bool, with_foreign: bool) -> Option<&Pack> {
    let takes_part = |pack: &&Pack| {
        (with_foreign || pack.is_local()) && (with_kept || !pack.has_keep()) && !pack.is_cruft()
    };
    snapshot.packs().iter().filter(takes_part).find(|pack| pack.has_damaged_index())
}

/// The packs that a geometric repack rolls up, and those that it leaves, largest last.
fn split(snapshot: &Snapshot, mut packs: Vec<PackIx>, factor: u32) -> (Vec<PackIx>, Vec<PackIx>) {
    let objects = |pack: &PackIx| snapshot.packs()[pack.0 as usize].len();
    packs.sort_by_key(objects);
    let left = packs.split_off(packs_to_roll_up(&packs.iter().map(objects).collect::<Vec<_>>(), factor));
    (packs, left)
}
