use std::io::{self, ErrorKind};

use packrace_pack::ingest::Ingest;
use packrace_protocol::message::fetch_request::FetchRequest;
use packrace_protocol::session::RefsRequest;
use packrace_protocol::session::fetch_client::{
    self, Event, FetchClient, FetchLimits, ListedRefs, ServerCapabilities,
};
use packrace_protocol::wire::pkt_line::FLUSH;

use super::{Error, ServerConnection, Timeouts};

/// Observes a pack while it is received.
pub trait Listener {
    /// Text of the server for the user; a line may continue in the next piece.
    fn text(&mut self, text: &[u8]);

    /// More of the pack was received.
    fn received(&mut self, bytes: &[u8], ingest: &Ingest);
}

/// A server whose capabilities are known.
pub struct Remote<E> {
    connection: E,
    session: FetchClient,
    timeouts: Timeouts,
}

impl<E: ServerConnection> Remote<E> {
    /// Reads the server's first message. `timeouts` are those of the connection, and are only used in errors.
    pub fn open(connection: E, agent: &str, limits: FetchLimits, timeouts: Timeouts) -> Result<Self, Error> {
        let mut remote = Remote { connection, session: FetchClient::new(agent, limits), timeouts };
        remote.hear(|event, _| Ok(event == Event::Advertised))?;
        Ok(remote)
    }

    /// The server's capabilities.
    pub fn server(&self) -> &ServerCapabilities {
        self.session.server()
    }

    /// Lists the server's refs.
    pub fn list_refs(&mut self, request: &RefsRequest) -> Result<ListedRefs, Error> {
        let request = self.session.ls_refs(request);
        self.send(&request)?;
        self.hear(|event, _| Ok(event == Event::RefsListed))?;
        Ok(self.session.take_refs())
    }

    /// Receives a whole pack into `ingest`; missing objects are reported when it is resolved.
    pub fn fetch(
        &mut self,
        request: &FetchRequest,
        ingest: &mut Ingest,
        listener: &mut dyn Listener,
    ) -> Result<(), Error> {
        let request = self.session.fetch(request);
        self.send(&request)?;
        self.hear(|event, bytes| {
            match event {
                Event::Data(range) => {
                    let taken = ingest.push(&bytes[range.clone()])?;
                    if taken < range.len() {
                        return Err(Error::Junk);
                    }
                    listener.received(&bytes[range], ingest);
                }
                Event::Progress(range) => listener.text(&bytes[range]),
                Event::PackEnded => return Ok(true),
                Event::Advertised | Event::RefsListed => {}
            }
            Ok(false)
        })
    }

    /// Ends the conversation. Errors are ignored: the server may be gone.
    pub fn end_stateful(mut self) {
        let _ = self.connection.send(FLUSH);
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        let silence = self.timeouts.silence;
        self.connection.send(request).map_err(|error| match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => failed(error, silence),
        })
    }

    /// Passes every event and its bytes to `each`, until that returns true.
    fn hear(&mut self, mut each: impl FnMut(Event, &[u8]) -> Result<bool, Error>) -> Result<(), Error> {
        loop {
            let bytes = match self.connection.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A body shorter than announced, or a connection reset.
                Err(error)
                    if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) =>
                {
                    return Err(self.session.ended().into());
                }
                Err(error) => return Err(failed(error, self.timeouts.silence)),
            };
            if bytes.is_empty() {
                return Err(self.session.ended().into());
            }
            let mut at = 0;
            let result = loop {
                match self.session.next(bytes, &mut at) {
                    Ok(None) => break Ok(false),
                    Err(error) => break Err(error.into()),
                    Ok(Some(event)) => match each(event, bytes) {
                        Ok(false) => {}
                        ended => break ended,
                    },
                }
            };
            self.connection.consume(at);
            if result? {
                return Ok(());
            }
        }
    }
}

fn failed(error: io::Error, silence: std::time::Duration) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Silent(silence),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => fetch_client::Error::HungUp.into(),
        _ => Error::Connection(error),
    }
}
