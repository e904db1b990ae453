//! A call over a connection that lasts from the advertisement to the end: git://, SSH.

use std::io::{self, Read};
use std::sync::Arc;

use packrace_store::MessageSink;

use super::call::{Call, Client, Service};
use super::counting::CountingReader;
use super::shared::{Beginning, Opened, ServedRepository, Shared};
use crate::bundles::KeptBundles;
use crate::path_names::PathNames;
use crate::send::outbox::ClientSink;
use crate::settings::Settings;
use crate::subject::{CallMode, ProtocolVersion};
use crate::transfers::Transfer;

/// A client's request for a service.
pub(crate) struct StatefulCall<'a> {
    pub(crate) service: Service,
    /// The client's name for the repository.
    pub(crate) path: &'a [u8],
    pub(crate) version: ProtocolVersion,
    pub(crate) client: Client,
    /// Where messages of a push go that are not for the client.
    pub(crate) messages: MessageSink,
    pub(crate) transfer: &'a Arc<Transfer>,
}

impl StatefulCall<'_> {
    /// Serves the call; a push creates a repository that does not exist. The error says why the call failed.
    pub(crate) fn serve(
        self,
        opened: Opened,
        source: &mut (dyn Read + Send),
        client: &mut dyn ClientSink,
        shared: &Shared,
        settings: &Settings,
    ) -> Result<(), String> {
        let mut input = CountingReader { input: source, transfer: self.transfer };
        let mut head = &[][..];
        let begun;
        let Opened { repository, access } = opened;
        let (repository, mode) = match repository {
            ServedRepository::Existing(repository) => (repository, CallMode::Stateful),
            ServedRepository::New(new) => {
                let told = new.advertise(settings, self.version, self.transfer, client);
                told.map_err(|error| error.to_string())?;
                let beginning = Beginning::of(&mut input).map_err(|error| error.to_string())?;
                let Beginning::Commands(first) = beginning else { return Ok(()) };
                begun = first;
                head = &begun;
                // The advertisement was already sent.
                let made = shared.make(&new, self.transfer).map_err(|not_served| not_served.to_string())?;
                (made, CallMode::StatelessRpc)
            }
        };
        let call = Call {
            service: self.service,
            paths: PathNames::of(&repository, self.path),
            repository,
            version: self.version,
            mode,
            client: self.client,
            transfer: self.transfer.clone(),
            host: shared.host.clone(),
            messages: self.messages,
            access: Some(access),
            bundles: KeptBundles::of(&settings.bundles, self.path, false),
        };
        call.serve(settings, &mut io::Read::chain(head, input), client, &shared.clock)
            .map_err(|error| error.to_string())
    }
}
