//! Requests that are not Git's: pages of a program that embeds the server.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;

use super::body::{AnswerBody, BatchBuf};
use super::routes::{Route, percent_decode, route};
use super::watch::InFlight;
use crate::send::outbox::GatherBatch;

/// The address of a client, as an extension of its request. Limits per address, hooks and logs use it; all requests without
/// one count as one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// What a connection sends: an answer of this server, or a page.
pub(super) type ConnectionBody<P> = Either<AnswerBody, PageBody<<P as Pages>::Body>>;

/// Answers requests that are not Git's.
pub(crate) trait Pages: Clone + Send + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static;

    /// Whether a request is for this, not for the server.
    fn have(&self, request: &Request<Incoming>) -> bool;

    fn answer(
        &mut self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + use<Self>;
}

/// No pages: the server answers all requests.
#[derive(Clone, Copy)]
pub(crate) struct NoPages;

impl Pages for NoPages {
    type Body = Empty<Bytes>;

    fn have(&self, _: &Request<Incoming>) -> bool {
        false
    }

    fn answer(&mut self, _: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send + use<> {
        std::future::ready(Response::new(Empty::new()))
    }
}

/// A tower service for everything that Git does not request.
#[derive(Clone)]
pub(crate) struct ServicePages<S>(pub(crate) S);

impl<S, B> Pages for ServicePages<S>
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    type Body = B;

    fn have(&self, request: &Request<Incoming>) -> bool {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or(""));
        let is_git =
            |path: Vec<u8>| !matches!(route(request.method().as_str(), &path, query), Route::Unknown);
        !percent_decode(path).is_some_and(is_git)
    }

    fn answer(
        &mut self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + use<S, B> {
        let mut service = self.0.clone();
        async move {
            let Ok(()) = std::future::poll_fn(|context| service.poll_ready(context)).await;
            let Ok(answer) = service.call(request).await;
            answer
        }
    }
}

/// The body of a page, in the form of answers. A combinator would lose its length.
pub(crate) struct PageBody<B> {
    pub(super) body: B,
    pub(super) in_flight: Arc<InFlight>,
}

impl<B> Body for PageBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = BatchBuf;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BatchBuf>, io::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let in_flight = &self.in_flight;
        let counted = |bytes: Bytes| BatchBuf::new(GatherBatch::of(bytes.into()), in_flight.clone());
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(counted)).map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
