//! The routes below `/-/`, which show the state of a running server.
//!
//! | route | answer |
//! |---|---|
//! | `/-/` | a page for people: running transfers, throughput, queue, totals; with access rules for admins, and for other users what they may read |
//! | `/-/metrics` | numbers for Prometheus (OpenMetrics 1.0) |
//! | `/-/healthz` | 200 while the process answers |
//! | `/-/readyz` | 200, and 503 once the process was told to stop |
//!
//! Only these four paths are handled, and with access rules those of `http::api`: repositories below a folder
//! `-` stay reachable, because all requests to them have longer paths. [`Admin`] says where the routes are
//! served, and what they show there.

mod html;
mod maintenance;
mod page;
mod plot;
mod units;
mod user_page;

use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use packrace_object::{HashKind, TrailerHasher};
use tokio::net::{TcpListener, TcpStream};

use crate::history::{self, Reading};
use crate::origin;
use crate::service::shared::Shared;
use crate::settings::Admin;
use maintenance::MaintenanceView;
use page::View;
pub(crate) use user_page::{MAX_SHOWN, UserView};

/// How long a connection to the admin address may take for its one request.
const ADMIN_TIME: Duration = Duration::from_secs(10);

/// How long to wait when there is no descriptor for a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The content type of the pages.
const HTML_TYPE: &str = "text/html; charset=utf-8";

/// The content type of the metrics, in the text format of `prometheus-client`.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How much of these routes a client may see.
#[derive(Debug)]
pub(crate) enum AdminAccess {
    /// As much as every client that reaches the address where repositories are served.
    Public,
    /// Everything: it is an admin, or uses the separate address of `listen.admin`.
    Admin,
    /// The page for this user, and no metrics.
    User(UserView),
}

/// Takes a sample of the counters once a second, while it is polled.
pub(crate) async fn remember(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(history::INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let metrics = &shared.host.metrics;
        let reading = Reading {
            at: shared.began.elapsed(),
            sent_bytes: metrics.bytes_sent.get(),
            received_bytes: metrics.bytes_received.get(),
            live: shared.host.transfers.list().len() as u64,
            queued: u64::try_from(metrics.queue_length.get()).unwrap_or(0),
        };
        shared.history.lock().unwrap_or_else(PoisonError::into_inner).take(reading);
    }
}

/// The answer to a request for one of these routes; `None` for everything else.
pub(crate) fn answer<B>(
    request: &Request<B>,
    shared: &Shared,
    access: AdminAccess,
) -> Option<Response<String>> {
    let admin = shared.settings().admin;
    let (is_told, shows_names) = match access {
        AdminAccess::Admin => (true, true),
        AdminAccess::Public if admin == Admin::Nowhere => return None,
        AdminAccess::Public => (admin == Admin::OnHttp, false),
        AdminAccess::User(_) => (false, false),
    };
    let (status, content_type, text) = match (request.uri().path(), &access) {
        ("/-/healthz", _) => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        ("/-/readyz", _) if shared.host.transfers.is_stopping() => {
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "stopping\n".to_owned())
        }
        ("/-/readyz", _) => (StatusCode::OK, "text/plain", "ready\n".to_owned()),
        ("/-/metrics", _) if is_told => {
            let usage = packrace_os::process::usage().ok();
            (StatusCode::OK, METRICS_TYPE, shared.metrics_now().text_with(usage.as_ref()))
        }
        ("/-/", AdminAccess::User(view)) => {
            (StatusCode::OK, HTML_TYPE, view.render(&shared.settings().agent))
        }
        ("/-/", _) if is_told => {
            (StatusCode::OK, HTML_TYPE, page(shared, shows_names, request.uri().query()))
        }
        _ => return None,
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused =
            plain(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET and HEAD are allowed\n".into());
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(refused);
    }
    let mut answer = plain(status, content_type, text);
    if content_type == HTML_TYPE {
        let policy = content_security_policy();
        // It has no character that is invalid in a header.
        let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Some(answer)
}

fn page(shared: &Shared, shows_names: bool, query: Option<&str>) -> String {
    View {
        agent: &shared.settings().agent,
        uptime: shared.began.elapsed(),
        is_stopping: shared.host.transfers.is_stopping(),
        refreshes: query != Some("refresh=off"),
        shows_names,
        live: shared.host.transfers.list(),
        samples: shared.history.lock().unwrap_or_else(PoisonError::into_inner).samples(),
        metrics: shared.metrics_now(),
        maintenance: MaintenanceView {
            health: shared.host.maintenance.rows(),
            now: shared.host.maintenance.now(),
            root: Some(shared.root.path()),
        },
    }
    .render()
}

fn plain(status: StatusCode, content_type: &'static str, text: String) -> Response<String> {
    let mut answer = Response::new(text);
    *answer.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Nothing may be loaded, run, sent or framed; only the page's own style applies.
fn content_security_policy() -> String {
    let mut hasher = TrailerHasher::new(HashKind::Sha256);
    hasher.update(page::STYLE.as_bytes());
    format!(
        "default-src 'none'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        STANDARD.encode(hasher.finish().as_slice())
    )
}

/// Serves the separate address of these routes, until it is dropped.
pub(crate) async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // Clients beyond the limit wait.
        let permit = shared.admin_permits.clone().acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = shared.clone();
                tokio::spawn(async move {
                    connection(stream, shared).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::error!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let local = stream.local_addr().ok();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let answer = match origin::check(&request, &shared.settings().hosts, local) {
            Ok(()) => answer(&request, &shared, AdminAccess::Admin)
                .unwrap_or_else(|| plain(StatusCode::NOT_FOUND, "text/plain", "look at /-/\n".to_owned())),
            Err((status, why)) => {
                tracing::warn!("admin: refused: {why}");
                plain(status, "text/plain", "refused\n".to_owned())
            }
        };
        async move { Ok::<_, Infallible>(answer.map(|text| Full::new(Bytes::from(text)))) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(ADMIN_TIME).keep_alive(false);
    // A client may disconnect at any time; one that does not read its answer is cut.
    let _ = tokio::time::timeout(ADMIN_TIME, builder.serve_connection(TokioIo::new(stream), service)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_the_style() {
        let policy = content_security_policy();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-") && policy.is_ascii(),
            "{policy}"
        );
    }
}
