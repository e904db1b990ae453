//! The HTTP client for `object_store`, with the TLS of the rest of this program.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as Connector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use super::PART_BYTES;

/// Time limit for connecting.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long idle connections are kept.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Idle connections kept per host.
const MAX_IDLE: usize = 64;

/// Longest body of a response: a part, or a page of a list.
const MAX_BODY_BYTES: usize = PART_BYTES as usize + (1 << 20);

/// The client.
#[derive(Debug, Clone)]
pub(super) struct StoreClient {
    client: Client<HttpsConnector<HttpConnector>, HttpRequestBody>,
}

impl StoreClient {
    /// A client that trusts the authorities in this PEM file, or else those of the system.
    pub(super) fn new(authorities: Option<&Path>) -> Result<Self, String> {
        let loaded = match authorities {
            None => rustls_native_certs::load_native_certs(),
            Some(file) => rustls_native_certs::load_certs_from_paths(Some(file), None),
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(loaded.certs);
        if let Some(file) = authorities.filter(|_| added == 0) {
            return Err(format!("AWS_CA_BUNDLE: {}: contains no certificate", file.display()));
        }
        let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIME));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(MAX_IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(StoreClient { client })
    }
}

impl Connector for StoreClient {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait::async_trait]
impl HttpService for StoreClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.client.request(request).await.map_err(|error| {
            let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Unknown };
            // The error's own text lacks the cause.
            let words = error.source().map_or_else(|| error.to_string(), |why| format!("{error}: {why}"));
            HttpError::new_boxed(kind, words.into())
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES);
        let body = body.map_err(|error| HttpError::new_boxed(HttpErrorKind::Interrupted, error));
        Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
    }
}
