//! A ref on its way through a listing.

use packrace_object::ObjectId;
use packrace_store::refs::Peeled;

/// A ref that is listed.
#[derive(Debug, Clone, Copy)]
pub struct RefItem<'a> {
    pub name: &'a [u8],
    /// What it leads to.
    pub id: ObjectId,
    /// What the store knows of what that tags.
    pub peeled: Peeled,
    /// The ref that it stands for, if it is symbolic.
    pub symref: Option<&'a [u8]>,
    /// Its number, for values that were found for all refs at once.
    pub number: usize,
}
