//! Answers `object-info`: sizes of objects, read from their headers.

use packrace_protocol::message::object_info;
use packrace_protocol::session::ObjectInfoRequest;
use packrace_store::cache_bytes;

use super::serve::Upload;
use crate::error::Error;
use crate::refs::lines::Lines;

impl Upload<'_> {
    /// Sends a line for each object. As in git, unreadable objects are answered like missing ones.
    pub(super) fn send_object_info(&mut self, request: &ObjectInfoRequest) -> Result<(), Error> {
        let askable = self.askable()?;
        let mut reader = self.request_objects.snapshot().reader(cache_bytes::FEW_OBJECTS);
        let mut sender = Lines::new(&mut self.out, self.client, self.settings.batch_bytes);
        object_info::write_attributes(sender.out, request);
        for id in &request.ids {
            let is_told = match &askable {
                Some(askable) => request.size && askable.contains(id)?,
                None => request.size,
            };
            let size = is_told.then(|| reader.kind_and_size(id).ok().flatten());
            let size = size.flatten().map(|(_, size)| size);
            object_info::write_object(sender.out, id, request, size);
            sender.send_if_full()?;
        }
        Ok(())
    }
}
