//! HTTP requests of the embedding program, as a tower service.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};

use super::{Git, Running};
use crate::http::body::AnswerBody;
use crate::http::pages::Peer;
use crate::http::watch::ConnectionWatch;
use crate::http::{Addresses, answer};
use crate::send::outbox::owned_pieces;

/// Answers requests for the repositories of a [`Git`]: `/NAME/info/refs`, `/NAME/git-upload-pack` and `/NAME/git-receive-pack`;
/// everything else is refused.
///
/// It needs a tokio runtime with time: lookups run on its blocking threads, all other work on threads of this crate. The surrounding server must close
/// connections whose clients do not read; a clone that cannot send ends after [`crate::limits::Limits::stall_time`].
#[derive(Debug, Clone)]
pub struct GitHttp {
    running: Arc<Running>,
}

impl Git {
    /// The service for HTTP.
    pub fn http(&self) -> GitHttp {
        GitHttp { running: self.running.clone() }
    }
}

impl<B> tower_service::Service<Request<B>> for GitHttp
where
    B: Body<Data = Bytes, Error: Send> + Send + 'static,
{
    type Response = Response<GitBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<GitBody>, Infallible>> + Send>>;

    /// Always ready: limits are answered with HTTP 429 and 503.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let running = self.running.clone();
        let unknown = Peer(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let Peer(peer) = request.extensions().get().copied().unwrap_or(unknown);
        Box::pin(async move {
            let shared = running.shared.clone();
            let watch = {
                let settings = shared.settings();
                ConnectionWatch::new(settings.limits.request_time, settings.limits.stall_throughput(), None)
            };
            let addresses = Addresses { peer, local: None, certificate: None };
            let answer = answer(request.map(Box::pin), watch.begin_request(), shared, addresses).await;
            Ok(answer.map(|body| GitBody { body, pieces: VecDeque::new(), _running: running }))
        })
    }
}

/// The body of an answer. Its pieces are ranges of mapped packs: nothing is copied.
pub struct GitBody {
    body: AnswerBody,
    /// Pieces of the last batch.
    pieces: VecDeque<Bytes>,
    /// A request ends before the server that it belongs to.
    _running: Arc<Running>,
}

impl std::fmt::Debug for GitBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitBody").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

impl Body for GitBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    // It has data only.
                    self.pieces.extend(frame.into_data().into_iter().flat_map(owned_pieces));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self.pieces.is_empty() {
            true => self.body.size_hint(),
            false => http_body::SizeHint::default(),
        }
    }
}
