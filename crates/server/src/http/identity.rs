//! The principal and the address of a client of HTTP.

use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use super::api_path;
use super::limit_reached::status_of;
use super::refusal::HttpRefusal;
use crate::access::{Ask, Decision, NotIdentified, Offer, Principal};
use crate::admin::{AdminAccess, MAX_SHOWN, UserView};
use crate::metrics::{Metrics, Reason};
use crate::service::access_log::quoted;
use crate::service::call::Service;
use crate::service::readable::ReadableRepositories;
use crate::service::shared::{Shared, named};
use crate::settings::{Admin, Settings};
use crate::tls::ClientCertificate;

/// A client's evidence of its identity.
#[derive(Debug, Clone)]
pub(super) struct ClientOffer {
    /// The other end of the connection.
    pub(super) via: IpAddr,
    pub(super) headers: Arc<HeaderMap>,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// The settings at the start of the request.
    pub(super) settings: Arc<Settings>,
}

impl ClientOffer {
    pub(super) fn new(
        peer: SocketAddr,
        headers: &HeaderMap,
        certificate: Option<Arc<ClientCertificate>>,
        shared: &Shared,
    ) -> Self {
        let headers = Arc::new(headers.clone());
        ClientOffer { via: peer.ip(), headers, certificate, settings: shared.settings() }
    }

    fn shown<'a>(&'a self, metrics: &'a Metrics) -> Offer<'a> {
        let certificate =
            self.certificate.as_ref().and_then(|certificate| certificate.common_name.as_deref());
        Offer { peer: self.via, headers: Some(&self.headers), certificate, metrics }
    }

    /// The address of the client, possibly behind a trusted proxy. Its port there is unknown.
    pub(super) fn client_address(&self, peer: SocketAddr) -> SocketAddr {
        match self.settings.proxies.client_address(self.via, &self.headers) {
            address if address == peer.ip() => peer,
            address => SocketAddr::new(address, 0),
        }
    }
}

/// Identifies the principal of a request. May take as long as the verification of a password.
pub(super) fn identify(offer: &ClientOffer, shared: &Shared) -> Result<Principal, StatusCode> {
    let ClientOffer { via, settings, .. } = offer;
    let metrics = &shared.host.metrics;
    settings.access.identify(&offer.shown(metrics)).map_err(|why| match why {
        NotIdentified::Refused(_) => {
            tracing::info!("http {via}: {why}");
            StatusCode::UNAUTHORIZED
        }
        NotIdentified::TooManyFailures => {
            tracing::info!("http {via}: {why}");
            metrics.refused(Reason::PerAddress);
            StatusCode::TOO_MANY_REQUESTS
        }
        NotIdentified::Unavailable(_) => {
            tracing::warn!("http {via}: {why}");
            StatusCode::SERVICE_UNAVAILABLE
        }
    })
}

/// Whether a request for a repository must be repeated with credentials: git sends none unasked. Needs no
/// thread and no permit.
pub(super) fn is_challenged(service: Service, path: &[u8], offer: &ClientOffer, shared: &Shared) -> bool {
    let ask = if service == Service::ReceivePack { Ask::Push } else { Ask::Read };
    let Ok(path) = named(path) else { return false };
    let metrics = &shared.host.metrics;
    let asked = || offer.settings.access.is_challenged(&offer.shown(metrics), &path, ask);
    // This is not a thread of the request: a panic of the policy must not end the connection's task.
    catch_unwind(AssertUnwindSafe(asked)).unwrap_or_else(|_| {
        metrics.panics.inc();
        tracing::error!("access policy panicked");
        false
    })
}

/// How much of the routes below `/-/` a request may see, if access rules decide that.
pub(super) async fn admin_access(
    path: &str,
    offer: &ClientOffer,
    shared: &Arc<Shared>,
) -> Result<AdminAccess, HttpRefusal> {
    let settings = &offer.settings;
    // The API checks access itself.
    let is_open = !path.starts_with("/-/")
        || matches!(path, "/-/healthz" | "/-/readyz")
        || api_path::target(path, settings).is_some();
    if is_open || settings.admin != Admin::OnHttp || !settings.access.has_rules() {
        return Ok(AdminAccess::Public);
    }
    let _permit = shared.limits.request(offer.via).await.map_err(status_of)?;
    let (offer, shared, is_page) = (offer.clone(), shared.clone(), path == "/-/");
    let looking = tokio::task::spawn_blocking(move || {
        let principal = identify(&offer, &shared)?;
        match offer.settings.access.decide(&principal, b"", Ask::Look) {
            Decision::Allow => Ok(AdminAccess::Admin),
            Decision::Hide | Decision::Forbid(_) if is_page && principal.name().is_some() => {
                user_view(&principal, &offer.settings, &shared)
            }
            Decision::Authenticate => Err(StatusCode::UNAUTHORIZED.into()),
            Decision::Hide => Err(StatusCode::NOT_FOUND.into()),
            Decision::Forbid(why) => Err(HttpRefusal::forbidden(&why)),
        }
    });
    looking.await.unwrap_or_else(|_| Err(StatusCode::INTERNAL_SERVER_ERROR.into()))
}

/// The page for an authenticated user who is not an administrator. Walks through the served folder.
fn user_view(
    principal: &Principal,
    settings: &Settings,
    shared: &Shared,
) -> Result<AdminAccess, HttpRefusal> {
    // In a bucket no repositories are created from here, and its cache does not know all of them.
    let is_listed = settings.repository_prototype.is_some();
    let list = || ReadableRepositories::of(principal, None, MAX_SHOWN, settings, shared);
    let readable = is_listed.then(list).transpose().map_err(|error| {
        tracing::error!("cannot list repositories: {}", quoted(error.to_string().as_bytes()));
        StatusCode::INTERNAL_SERVER_ERROR
    })?;
    let user = principal.name().unwrap_or_default().to_owned();
    Ok(AdminAccess::User(UserView { user, readable }))
}
