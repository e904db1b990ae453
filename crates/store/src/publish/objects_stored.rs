/// Proof that the objects that refs or an index are about to name have been stored: refs move after objects, never before.
///
/// Stored means complete, under their final names, and synced as far as the [`super::WritePolicy`] of their writer says:
/// by default they survive a power loss; with a `core.fsync` that leaves their component out, only a crash of the process.
/// `publish` and `quarantine` return it for what they have stored. For anything else the caller vouches:
/// [`ObjectsStored::earlier`].
#[derive(Debug)]
pub struct ObjectsStored(());

impl ObjectsStored {
    /// For objects that this process did not store: they were in the repository earlier, or there are none. Not a proof
    /// but the caller's word; their writer was responsible for syncing them.
    pub fn earlier() -> Self {
        ObjectsStored(())
    }

    pub(crate) fn published() -> Self {
        ObjectsStored(())
    }
}
