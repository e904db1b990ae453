//! Bundles as plain files.
//!
//! | request | answer |
//! |---|---|
//! | `GET …/bundles/list` | 200: the list, in the form of git's configuration |
//! | `GET …/bundles/<token>-full.bundle` or `-increment.bundle` | 200: the bundle |
//! | the same with `Range: bytes=…`, one range | 206: this part; 416 if it begins behind the end |
//! | the same with `If-Range` and another entity tag | 200: the bundle |
//! | the same with `If-None-Match` and this entity tag | 304 |
//! | a bundle that is not offered now, or a repository without bundles | 404 |
//!
//! Several ranges in one request are answered with the whole file (RFC 9110, "Range"). Clients that may fetch from the
//! repository may have its bundles. Ranges of the mapped file are sent; no thread waits for the client.

use std::ops::Range;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use packrace_object::oid;
use packrace_os::Mapped;
use packrace_os::count::Role;

use super::body::AnswerBody;
use super::identity::is_challenged;
use super::refusal::{HttpRefusal, no_cache};
use super::watch::InFlight;
use super::{HttpAnswer, RequestContext, open, take_permit};
use crate::bundles::{BundleName, OfferedBundles, list_file};
use crate::error::Error;
use crate::metrics::Kind;
use crate::send::outbox::GatherBatch;
use crate::service::access_log::Access;
use crate::service::call::Service;
use crate::service::shared::{Opened, ServedRepository, Shared};

/// A piece of a file that is sent at once.
const PIECE_BYTES: usize = 1 << 20;

/// Longer answers are sent in the background.
const LONG_BYTES: usize = 1 << 20;

/// What was found for a request.
#[derive(Debug)]
pub(super) struct BundleAnswer {
    status: StatusCode,
    body: GatherBatch,
    headers: HeaderMap,
}

impl BundleAnswer {
    pub(super) fn answer(self, access: Access, in_flight: Arc<InFlight>) -> HttpAnswer {
        let body = AnswerBody::new(self.body, None, self.status.as_u16(), Some(access), in_flight);
        let mut answer = Response::new(body);
        *answer.status_mut() = self.status;
        *answer.headers_mut() = self.headers;
        answer
    }
}

/// Finds a bundle, or the list of them.
pub(super) async fn find(
    request: &Request<()>,
    wanted: Option<BundleName>,
    path: Vec<u8>,
    context: &RequestContext,
    shared: &Arc<Shared>,
) -> Result<BundleAnswer, HttpRefusal> {
    context.transfer.is_about(&path);
    if is_challenged(Service::UploadPack, &path, &context.offer, shared) {
        return Err(StatusCode::UNAUTHORIZED.into());
    }
    if context.transfer.is_late() {
        return Err(StatusCode::SERVICE_UNAVAILABLE.into());
    }
    let permit = take_permit(context, shared).await?;
    let (offer, transfer, shared) = (context.offer.clone(), context.transfer.clone(), shared.clone());
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let looking = tokio::task::spawn_blocking(move || {
        let _held = permit;
        let _span = transfer.enter_span();
        transfer.enter(Kind::Bundle);
        let opened = open(Service::UploadPack, &path, &offer, &transfer, &shared)?;
        let rules = &offer.settings.bundles;
        let offered = match &opened {
            Opened { repository: ServedRepository::Existing(repository), .. } => {
                OfferedBundles::of(repository, &shared.host, rules)
            }
            Opened { repository: ServedRepository::New(_), .. } => Ok(None),
        };
        let offered = offered.and_then(|offered| {
            let Some(offered) = offered else { return Ok(None) };
            let Some(name) = wanted else { return Ok(Some(list_of(&offered))) };
            if !offered.files.current.contains(&name) {
                return Ok(None);
            }
            file_of(&offered, name, &method, &headers).map(Some)
        });
        offered.map_err(|why| {
            transfer.fails(why.kind(), &why.to_string());
            HttpRefusal::from(StatusCode::INTERNAL_SERVER_ERROR)
        })
    });
    let found = looking.await.unwrap_or_else(|panic| {
        tracing::error!("request panicked: {panic}");
        Err(StatusCode::INTERNAL_SERVER_ERROR.into())
    })?;
    let found = found.ok_or(StatusCode::NOT_FOUND)?;
    if request.method() != Method::HEAD && found.body.len() > LONG_BYTES {
        context.background.notify_one();
    }
    Ok(found)
}

fn list_of(offered: &OfferedBundles) -> BundleAnswer {
    let text = list_file(&offered.files.current);
    let mut headers = HeaderMap::new();
    no_cache(&mut headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_LENGTH, text.len().into());
    BundleAnswer { status: StatusCode::OK, body: GatherBatch::of(text.into_bytes()), headers }
}

fn file_of(
    offered: &OfferedBundles,
    name: BundleName,
    method: &Method,
    headers: &HeaderMap,
) -> Result<BundleAnswer, Error> {
    let path = offered.files.path(name);
    let map = Mapped::open(&path, Role::Pack).map_err(|error| Error::caused(path.display(), error))?;
    // The checksum of the pack: no other file has this name, unless the repository was replaced.
    let checksum = &map[map.len().saturating_sub(offered.files.hash().len_in_bytes())..];
    let checksum = oid::try_from_bytes(checksum).map_err(|error| Error::caused(path.display(), error))?;
    map.check().map_err(packrace_store::Error::from)?;
    let tag = format!("\"{}-{checksum}\"", name.id());
    let part = if *method == Method::GET { FilePart::of(headers, &tag, map.len()) } else { FilePart::Whole };
    let (status, range) = match part {
        _ if has_tag(headers, &tag) => (StatusCode::NOT_MODIFIED, 0..0),
        FilePart::Whole => (StatusCode::OK, 0..map.len()),
        FilePart::Range(range) => (StatusCode::PARTIAL_CONTENT, range),
        FilePart::Behind => (StatusCode::RANGE_NOT_SATISFIABLE, 0..0),
    };
    let mut answer = HeaderMap::new();
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-git-bundle"));
    answer.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Who may have it can change, and whether it is offered.
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let mut insert = |name, value: String| {
        // Digits and letters are valid in a header.
        answer.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
    };
    insert(header::ETAG, tag);
    match status {
        StatusCode::PARTIAL_CONTENT => {
            let last = range.end.saturating_sub(1);
            insert(header::CONTENT_RANGE, format!("bytes {}-{last}/{}", range.start, map.len()));
        }
        StatusCode::RANGE_NOT_SATISFIABLE => insert(header::CONTENT_RANGE, format!("bytes */{}", map.len())),
        _ => {}
    }
    if status != StatusCode::NOT_MODIFIED {
        insert(header::CONTENT_LENGTH, range.len().to_string());
    }
    let mut body = GatherBatch::default();
    for start in range.clone().step_by(PIECE_BYTES) {
        body.push_mapped(&map, start..range.end.min(start + PIECE_BYTES));
    }
    Ok(BundleAnswer { status, body, headers: answer })
}

/// Whether the client has the file with this tag already (RFC 9110, "If-None-Match").
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// The part of a file that a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum FilePart {
    Whole,
    /// Not empty.
    Range(Range<usize>),
    /// Nothing of it: the range begins behind the end.
    Behind,
}

impl FilePart {
    /// For a file with this tag and length.
    fn of(headers: &HeaderMap, tag: &str, length: usize) -> Self {
        let is_current = headers.get(header::IF_RANGE).is_none_or(|value| value == tag);
        let asked = headers.get(header::RANGE).filter(|_| is_current).and_then(|value| value.to_str().ok());
        asked.and_then(|asked| FilePart::parse(asked, length)).unwrap_or(FilePart::Whole)
    }

    /// `bytes=<first>-<last>`, `bytes=<first>-` or `bytes=-<count>`; `None` for anything else.
    fn parse(asked: &str, length: usize) -> Option<Self> {
        let (first, last) = asked.strip_prefix("bytes=")?.trim().split_once('-')?;
        // Digits only: a number may have a sign. One that is too large is behind the end.
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().unwrap_or(usize::MAX))
        };
        let range = match (first, last) {
            ("", last) => length.saturating_sub(number(last)?)..length,
            (first, "") => number(first)?..length,
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(length)
            }
        };
        Some(if range.is_empty() { FilePart::Behind } else { FilePart::Range(range) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let check = |asked, expect| assert_eq!(FilePart::parse(asked, 100), expect, "{asked}");
        check("bytes=0-", Some(FilePart::Range(0..100)));
        check("bytes=99-", Some(FilePart::Range(99..100)));
        check("bytes=0-0", Some(FilePart::Range(0..1)));
        check("bytes=10-19", Some(FilePart::Range(10..20)));
        check("bytes=10-500", Some(FilePart::Range(10..100)));
        check("bytes=-7", Some(FilePart::Range(93..100)));
        check("bytes=-700", Some(FilePart::Range(0..100)));
        check("bytes=-0", Some(FilePart::Behind));
        check("bytes=100-", Some(FilePart::Behind));
        check("bytes=99999999999999999999-", Some(FilePart::Behind));
        check("bytes=0-99999999999999999999", Some(FilePart::Range(0..100)));
        for other in
            ["", "bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,3-4", "bytes=+1-2", "bytes=a-", "lines=0-1"]
        {
            check(other, None);
        }
        assert_eq!(FilePart::parse("bytes=0-", 0), Some(FilePart::Behind));
    }

    #[test]
    fn conditions() {
        let headers = |pairs: &[(header::HeaderName, &str)]| {
            pairs
                .iter()
                .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
                .collect::<HeaderMap>()
        };
        let part = |pairs: &[_]| FilePart::of(&headers(pairs), "\"a\"", 10);
        let range = (header::RANGE, "bytes=4-");
        assert_eq!(part(&[]), FilePart::Whole);
        assert_eq!(part(std::slice::from_ref(&range)), FilePart::Range(4..10));
        assert_eq!(part(&[range.clone(), (header::IF_RANGE, "\"a\"")]), FilePart::Range(4..10));
        for other in ["\"b\"", "W/\"a\"", "Sat, 21 Nov 2026 18:11:23 GMT"] {
            assert_eq!(part(&[range.clone(), (header::IF_RANGE, other)]), FilePart::Whole);
        }
        let check =
            |value, expect| assert_eq!(has_tag(&headers(&[(header::IF_NONE_MATCH, value)]), "\"a\""), expect);
        check("\"a\"", true);
        check("\"b\", W/\"a\"", true);
        check("*", true);
        check("\"b\"", false);
    }
}
