//! A ref in a listing.

use packrace_object::ObjectId;
use packrace_store::refs::Peeled;

/// A listed ref.
#[derive(Debug, Clone, Copy)]
pub struct RefItem<'a> {
    pub name: &'a [u8],
    /// The object that it resolves to.
    pub id: ObjectId,
    /// What the store knows about the peeled object.
    pub peeled: Peeled,
    /// The target of a symbolic ref.
    pub symref: Option<&'a [u8]>,
    /// Its index, for values computed for all refs at once.
    pub number: usize,
}
