/// Says that the objects which refs are about to name survive a crash: refs move after objects, never before.
///
/// Only this module makes one: for objects that it has made durable, or that were in the repository before, for which
/// their writer was in charge.
#[derive(Debug)]
pub struct DurableObjects(());

impl DurableObjects {
    /// For refs to objects that somebody else has stored.
    pub fn stored_before() -> Self {
        DurableObjects(())
    }

    pub(super) fn just_published() -> Self {
        DurableObjects(())
    }
}
