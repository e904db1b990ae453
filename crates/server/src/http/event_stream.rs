//! `/-/events`: the journal as server-sent events (WHATWG HTML, "Server-sent events").
//!
//! | request | answer |
//! |---|---|
//! | `GET /-/events` | 200: future events, for as long as the client stays |
//! | `?from=SEQ`, or `Last-Event-ID: SEQ` | from this line on, or from the one after it |
//! | `?repository=GLOB`, also several times | events of these repositories only |
//!
//! Each event is a line of the journal, with its number as `id`, without `peer`, `door` and `session`, which
//! only the administrator may see. Only events of repositories that the principal may read are sent, by the
//! access rules at that time. `event: gone` reports lines that are no longer kept. The route exists if a
//! journal and access rules are configured and `listen.admin` is not `none`.
//!
//! A follower has one connection and no thread. A follower that does not read is disconnected; no push waits
//! for it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use packrace_journal::{JournalReader, Line};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::body::{AnswerBody, BodyMessage};
use super::identity::identify;
use super::refusal::{HttpRefusal, no_cache};
use super::routes::percent_decode;
use super::watch::InFlight;
use super::{ClientBody, HttpAnswer, RequestContext, take_permit};
use crate::access::{Ask, Decision, Principal};
use crate::events::{RepositoryFilter, hide_from_readers};
use crate::send::outbox::GatherBatch;
use crate::service::access_log::Access;
use crate::service::shared::Shared;
use crate::settings::Settings;

/// Keepalive interval: proxies keep the connection, and disconnected clients are noticed.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Bytes of events sent at once.
const BATCH_BYTES: usize = 64 << 10;

/// Lines scanned at once.
const BATCH_LINES: usize = 1000;

/// Batches queued for the client.
const WAITING_BATCHES: usize = 2;

/// The query of a follower.
struct EventQuery {
    /// `None` for future events.
    from: Option<u64>,
    filter: RepositoryFilter,
}

impl EventQuery {
    fn of(query: &str, headers: &HeaderMap) -> Option<Self> {
        let of_key = |key: &'static str| {
            query
                .split('&')
                .filter_map(move |pair| pair.strip_prefix(key)?.strip_prefix('='))
                .map(percent_decode)
        };
        let patterns = of_key("repository")
            .map(|pattern| String::from_utf8(pattern?).ok())
            .collect::<Option<Vec<_>>>()?;
        let from = match of_key("from").next() {
            Some(from) => Some(std::str::from_utf8(&from?).ok()?.parse().ok()?),
            None => None,
        };
        // A browser that reconnects sends its position.
        let last: Option<u64> =
            headers.get("last-event-id").and_then(|last| last.to_str().ok()?.trim().parse().ok());
        let from = last.map(|last| last.saturating_add(1)).or(from);
        Some(EventQuery { from, filter: RepositoryFilter::new(&patterns).ok()? })
    }
}

/// Responds to a request.
pub(super) async fn answer(
    request: Request<impl ClientBody>,
    context: RequestContext,
    access: Access,
    in_flight: Arc<InFlight>,
    shared: Arc<Shared>,
) -> HttpAnswer {
    if request.method() != Method::GET {
        let mut answer = HttpRefusal::from(StatusCode::METHOD_NOT_ALLOWED).answer(access, in_flight);
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        return answer;
    }
    let wanted = EventQuery::of(request.uri().query().unwrap_or(""), request.headers());
    match begin(wanted, &context, &shared).await {
        Ok(follower) => {
            let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
            let first = GatherBatch::of(b": events\n\n".to_vec());
            tokio::spawn(follower.run(sender, shared));
            let body =
                AnswerBody::new(first, Some(receiver), StatusCode::OK.as_u16(), Some(access), in_flight);
            let mut answer = Response::new(body);
            let content_type = HeaderValue::from_static("text/event-stream");
            answer.headers_mut().insert(header::CONTENT_TYPE, content_type);
            // Without it, nginx buffers responses.
            answer.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            no_cache(answer.headers_mut());
            answer
        }
        Err(refusal) => refusal.answer(access, in_flight),
    }
}

async fn begin(
    wanted: Option<EventQuery>,
    context: &RequestContext,
    shared: &Arc<Shared>,
) -> Result<Follower, HttpRefusal> {
    let wanted = wanted.ok_or(StatusCode::BAD_REQUEST)?;
    let permit = take_permit(context, shared).await?;
    let (offer, transfer, all) = (context.offer.clone(), context.transfer.clone(), shared.clone());
    let identifying = tokio::task::spawn_blocking(move || {
        let _held = permit;
        let principal = identify(&offer, &all)?;
        principal.name().iter().for_each(|name| transfer.is_by(name));
        Ok::<_, StatusCode>(principal)
    });
    let principal = identifying.await.unwrap_or(Err(StatusCode::INTERNAL_SERVER_ERROR))?;
    let host = &shared.host;
    let events = host.events.get().ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let place = events.followers.clone().try_acquire_owned().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let durable = events.durable();
    let from = wanted.from.unwrap_or_else(|| durable.borrow().saturating_add(1));
    host.metrics.event_followers.inc();
    Ok(Follower {
        reader: JournalReader::new(events.journal.dir(), from),
        durable,
        filter: wanted.filter,
        principal,
        shared: shared.clone(),
        _place: place,
    })
}

/// A client that follows events.
struct Follower {
    reader: JournalReader,
    durable: watch::Receiver<u64>,
    filter: RepositoryFilter,
    principal: Principal,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.host.metrics.event_followers.dec();
    }
}

impl Follower {
    /// Sends past and then new events, until the client disconnects or the server stops.
    async fn run(mut self, sender: mpsc::Sender<BodyMessage>, shared: Arc<Shared>) {
        let mut stopping = shared.stopping.subscribe();
        let stall_time = shared.settings().limits.stall_time;
        loop {
            let last = *self.durable.borrow_and_update();
            // Reading files blocks.
            let read = tokio::task::spawn_blocking(move || {
                let text = self.next_text(last);
                (self, text)
            });
            let Ok((follower, text)) = read.await else { return };
            self = follower;
            let (text, has_more) = match text {
                Ok(text) => text,
                Err(error) => {
                    tracing::error!("event stream cut off: cannot read the journal: {error}");
                    return;
                }
            };
            if !text.is_empty() {
                let batch = BodyMessage::Batch(GatherBatch::of(text.into_bytes()));
                if sender.send_timeout(batch, stall_time).await.is_err() {
                    return;
                }
            }
            if has_more {
                continue;
            }
            let quiet = tokio::select! {
                changed = self.durable.changed() => changed.is_err(),
                () = sender.closed() => return,
                () = async { drop(stopping.wait_for(|is_stopping| *is_stopping).await) } => {
                    // The client reconnects and sends its position.
                    let _ = sender.send_timeout(BodyMessage::End, stall_time).await;
                    return;
                }
                () = tokio::time::sleep(KEEPALIVE) => true,
            };
            let alive = || BodyMessage::Batch(GatherBatch::of(b": \n\n".to_vec()));
            if quiet && sender.send_timeout(alive(), stall_time).await.is_err() {
                return;
            }
        }
    }

    /// Events up to a number, within the limits of a batch, and whether there may be more.
    fn next_text(&mut self, last: u64) -> std::io::Result<(String, bool)> {
        let settings = self.shared.settings();
        let mut text = String::new();
        for _ in 0..BATCH_LINES {
            let Some(line) = self.reader.next_up_to(last)? else { return Ok((text, false)) };
            self.write(&line, &settings, &mut text);
            if text.len() >= BATCH_BYTES {
                break;
            }
        }
        Ok((text, true))
    }

    fn write(&self, line: &Line, settings: &Settings, text: &mut String) {
        if line.missed > 0 {
            let gone = json!({ "first": line.seq - line.missed, "last": line.seq - 1 });
            *text += &format!("event: gone\ndata: {gone}\n\n");
        }
        let Ok(mut event) = serde_json::from_slice::<Map<String, Value>>(&line.bytes) else { return };
        let may_read = |name: &str| {
            let name = event.get(name).and_then(Value::as_str);
            let decide = |path: &str| settings.access.decide(&self.principal, path.as_bytes(), Ask::Read);
            name.is_none_or(|path| decide(path) == Decision::Allow)
        };
        if may_read("repository") && may_read("to") && self.filter.matches_line(&line.bytes) {
            hide_from_readers(&mut event);
            let event = Value::Object(event);
            *text += &format!("id: {}\ndata: {event}\n\n", line.seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        let check = |query: &str, last: Option<&str>, expect: Option<Option<u64>>| {
            let mut headers = HeaderMap::new();
            last.map(|last| headers.insert("last-event-id", last.parse().unwrap()));
            let wanted = EventQuery::of(query, &headers);
            assert_eq!(wanted.map(|wanted| wanted.from), expect, "{query} {last:?}");
        };
        check("", None, Some(None));
        check("from=7", None, Some(Some(7)));
        check("repository=team%2F**&repository=a&from=7", Some("9"), Some(Some(10)));
        check("from=x", None, None);
        check("from=-1", None, None);
        check("", Some("x"), Some(None));
        check("", Some("18446744073709551615"), Some(Some(u64::MAX)));
        check("repository=%", None, None);
        check("repository=/a", None, None);
    }
}
