/// Says that the objects which refs are about to name survive a crash: refs move after objects, never before.
///
/// Only `publish` and `quarantine` make one: for objects that they have made durable, or that were in the repository before, for which
/// their writer was in charge.
#[derive(Debug)]
pub struct DurableObjects(());

impl DurableObjects {
    /// For refs to objects that somebody else has stored.
    pub fn stored_before() -> Self {
        DurableObjects(())
    }

    pub(crate) fn just_published() -> Self {
        DurableObjects(())
    }
}
