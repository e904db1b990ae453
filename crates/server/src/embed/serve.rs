//! A listener of the embedding program.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::TcpListener;

use super::Git;
use crate::http::connection::connection_with;
use crate::http::limit_reached;
use crate::http::pages::ServicePages;
use crate::service::accept::accept;

impl Git {
    /// Serves the connections of a listener as `packrace serve` does: with its limits and its large gathered writes. Git's
    /// requests (`…/info/refs`, `…/git-upload-pack` and the like) are answered here, all others by `pages`, which finds the client's
    /// address in the extension [`Peer`](super::Peer). An axum router is such a service.
    ///
    /// The future never ends; once it is dropped, no more connections are accepted. Those that are open end with the last clone of
    /// [`Git`], when their requests are done.
    pub async fn serve<S, B>(&self, listener: TcpListener, pages: S)
    where
        S: tower_service::Service<
                Request<Incoming>,
                Response = Response<B>,
                Error = Infallible,
                Future: Send,
            > + Clone
            + Send
            + 'static,
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
    {
        let shared = self.running.shared.clone();
        let pages = ServicePages(pages);
        let of_connection = shared.clone();
        let connection = move |stream, peer: SocketAddr, permit| {
            connection_with(stream, peer, permit, of_connection.clone(), pages.clone())
        };
        accept(listener, shared, connection, limit_reached::response).await;
    }
}
