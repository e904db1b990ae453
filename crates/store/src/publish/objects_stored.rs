/// Proof that the objects that refs or an index are about to name are stored: refs move after objects,
/// never before.
///
/// Stored means complete, under their final names, and synced as far as the writer's [`super::WritePolicy`]
/// says: by default they survive a power loss; if `core.fsync` omits their component, only a crash of the
/// process. `publish` and `quarantine` return it for objects they have stored. For all others the caller
/// vouches: [`ObjectsStored::earlier`].
#[derive(Debug)]
pub struct ObjectsStored(());

impl ObjectsStored {
    /// For objects that this process did not store: they were in the repository before, or there are none.
    /// Not a proof but the caller's assertion; their writer was responsible for syncing them.
    pub fn earlier() -> Self {
        ObjectsStored(())
    }

    pub(crate) fn published() -> Self {
        ObjectsStored(())
    }
}
