//! Answers `bundle-uri`: with what the configuration names, or with the bundles that the server keeps.

use packrace_protocol::message::bundle_uri::Bundles;

use super::features::configured_bundles;
use super::serve::Upload;
use crate::bundles::{OfferedBundles, uri_list};
use crate::error::Error;

impl Upload<'_> {
    /// The list of bundles for this client; empty if there are none.
    pub(super) fn find_bundles(&self) -> Result<Bundles, Error> {
        let subject = &self.call.subject;
        let kept = self.call.bundles.as_ref();
        let offered = kept.map(|kept| OfferedBundles::of(&subject.repository, &subject.host, &kept.rules));
        match (offered.transpose(), kept) {
            (Ok(Some(Some(offered))), Some(kept)) => Ok(uri_list(&offered.files.current, &kept.uri_prefix)),
            // Clients can do without.
            (Err(why), _) => {
                tracing::warn!("no bundles offered: {why}");
                Ok(Bundles::new())
            }
            _ => configured_bundles(subject.repository.config()),
        }
    }
}
