//! Forward authentication: another server verifies the credentials.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, HOST};
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::credentials::VerifiedSecrets;
use super::proxies::{self, HeaderUser};
use super::throttle::VerifyLimit;
use super::{NotIdentified, Principal};

/// How long the other server may take for an answer, connection included.
const MAX_TIME: Duration = Duration::from_secs(5);

/// How long its answer is remembered: git makes several requests in a row.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// The most simultaneous requests to it. Others wait for their turn.
const MAX_AT_ONCE: usize = 32;

/// The longest head of its answer.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// The header with the address of the client.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The URL of the other server: `http://`, and no user in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuthUrl {
    url: Uri,
    authority: String,
}

impl FromStr for ForwardAuthUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let url: Uri = text.parse().map_err(drop)?;
        match (url.scheme_str(), url.host(), url.authority()) {
            (Some("http"), Some(host), Some(authority)) if !authority.as_str().contains('@') => {
                let authority = format!("{host}:{}", url.port_u16().unwrap_or(80));
                Ok(ForwardAuthUrl { authority, url })
            }
            _ => Err(()),
        }
    }
}

impl fmt::Display for ForwardAuthUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// A server that knows users: it gets a `GET` with the client's `Authorization` and `Cookie`.
#[derive(Debug)]
pub(super) struct ForwardAuth {
    url: ForwardAuthUrl,
    user_header: HeaderName,
    groups_header: HeaderName,
    max_time: Duration,
    answers: VerifiedSecrets<Principal>,
    asking: VerifyLimit,
}

impl ForwardAuth {
    /// The server at this URL. One header of its answer has the name of the user, another one the groups.
    pub(super) fn new(url: &ForwardAuthUrl, user_header: &str, groups_header: &str) -> Result<Self, String> {
        let name = |text: &str, default: &'static str| match text {
            "" => Ok(HeaderName::from_static(default)),
            text => text.parse().map_err(|_| format!("{text:?} is not a valid header name")),
        };
        Ok(ForwardAuth {
            user_header: name(user_header, "remote-user")?,
            groups_header: name(groups_header, "remote-groups")?,
            max_time: MAX_TIME,
            answers: VerifiedSecrets::new(REMEMBERED_FOR).map_err(|error| error.to_string())?,
            asking: VerifyLimit::new(MAX_AT_ONCE),
            url: url.clone(),
        })
    }

    /// Whether a request has credentials to ask about.
    pub(super) fn is_shown(headers: &HeaderMap) -> bool {
        headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE)
    }

    /// The principal of a request from this address, if it was asked about recently.
    pub(super) fn remembered(&self, headers: &HeaderMap, address: IpAddr) -> Option<Principal> {
        self.answers.find(&address.to_string(), &shown(headers), Instant::now())
    }

    /// Asks for the principal of a request from this address. Called from a thread of the runtime that may
    /// block.
    pub(super) fn ask(&self, headers: &HeaderMap, address: IpAddr) -> Result<Principal, NotIdentified> {
        let unavailable = |why: &str| NotIdentified::Unavailable(format!("access.forward-auth: {why}"));
        let asked = self.asking.run(|| {
            let work = tokio::time::timeout(self.max_time, self.exchange(headers, address));
            Handle::current().block_on(work)
        });
        let answer = match asked {
            None => return Err(unavailable("too many requests are waiting for it")),
            Some(Err(_)) => return Err(unavailable("no answer in time")),
            Some(Ok(Err(error))) => return Err(unavailable(&error.to_string())),
            Some(Ok(Ok(answer))) => answer,
        };
        match answer.status() {
            status if status.is_success() => {
                let principal = self.principal(answer.headers())?;
                let now = Instant::now();
                self.answers.remember(&address.to_string(), &shown(headers), principal.clone(), now);
                Ok(principal)
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let status = answer.status().as_u16();
                Err(NotIdentified::Refused(format!("access.forward-auth answered {status}")))
            }
            StatusCode::TOO_MANY_REQUESTS => Err(NotIdentified::TooManyFailures),
            status => Err(unavailable(&format!("answered {}", status.as_u16()))),
        }
    }

    fn principal(&self, headers: &HeaderMap) -> Result<Principal, NotIdentified> {
        match proxies::user(headers, &self.user_header, Some(&self.groups_header)) {
            HeaderUser::Known(principal) => Ok(principal),
            // Rules cannot name such a user.
            _ => {
                let header = self.user_header.as_str();
                Err(NotIdentified::Unavailable(format!(
                    "access.forward-auth: answer lacks the header {header}"
                )))
            }
        }
    }

    async fn exchange(&self, headers: &HeaderMap, address: IpAddr) -> io::Result<Response<Incoming>> {
        let ForwardAuthUrl { url, authority } = &self.url;
        let mut request = Request::get(url.path_and_query().map_or("/", |target| target.as_str()))
            .header(HOST, authority)
            .header(CONNECTION, "close")
            .header(FORWARDED_FOR, address.to_string());
        for name in [AUTHORIZATION, COOKIE] {
            for value in headers.get_all(&name) {
                request = request.header(&name, value);
            }
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let stream = TcpStream::connect(authority).await?;
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let answer = sender.send_request(request);
        tokio::pin!(answer, connection);
        tokio::select! {
            biased;
            answer = &mut answer => answer.map_err(io::Error::other),
            ended = &mut connection => {
                ended.map_err(io::Error::other)?;
                answer.await.map_err(io::Error::other)
            }
        }
    }
}

/// The credentials of a client, as one text.
fn shown(headers: &HeaderMap) -> String {
    let values = [AUTHORIZATION, COOKIE].into_iter().flat_map(|name| {
        let values = headers.get_all(&name).iter().map(|value| value.as_bytes().escape_ascii().to_string());
        std::iter::once(name.to_string()).chain(values).collect::<Vec<_>>()
    });
    values.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    /// The outcome of an answer to one request; without an answer the connection closes after the request,
    /// and after an empty one it stays silent for as long as the client waits.
    fn asked(answer: Option<&str>) -> (Result<Principal, NotIdentified>, String, ForwardAuth) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/who?all", listener.local_addr().unwrap());
        let is_silent = answer == Some("");
        let answer = answer.map(str::to_owned);
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend_from_slice(&byte);
            }
            match answer.as_deref() {
                None => {}
                Some("") => drop(stream.read(&mut [0])),
                // The client may have disconnected early.
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
            }
            String::from_utf8(head).unwrap()
        });
        let mut auth = ForwardAuth::new(&url.parse().unwrap(), "", "").unwrap();
        if is_silent {
            auth.max_time = Duration::from_millis(50);
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _entered = runtime.enter();
        let principal = auth.ask(&headers(), ADDRESS);
        (principal, server.join().unwrap(), auth)
    }

    fn headers() -> HeaderMap {
        let pairs =
            [("authorization", "Basic abc"), ("cookie", "a=b"), ("remote-user", "root"), ("x-other", "1")];
        pairs
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .into_iter()
            .collect()
    }

    #[test]
    fn answers() {
        let (principal, request, auth) =
            asked(Some("HTTP/1.1 204 OK\r\nRemote-User: alice\r\nRemote-Groups: a, b\r\n\r\n"));
        let alice = Principal::named("alice").in_groups(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(principal, Ok(alice.clone()));
        let request = request.to_ascii_lowercase();
        assert!(request.starts_with("get /who?all http/1.1\r\n"), "{request}");
        for line in ["authorization: basic abc", "cookie: a=b", "x-forwarded-for: 192.0.2.7"] {
            assert!(request.contains(&format!("\r\n{line}\r\n")), "{request}");
        }
        assert!(!request.contains("remote-user") && !request.contains("x-other"), "{request}");
        assert_eq!(auth.remembered(&headers(), ADDRESS), Some(alice));
        assert_eq!(auth.remembered(&headers(), IpAddr::V4(Ipv4Addr::LOCALHOST)), None);
        let mut other = headers();
        other.append(COOKIE, "c=d".parse().unwrap());
        assert_eq!(auth.remembered(&other, ADDRESS), None);
    }

    #[test]
    fn nobody_gets_in_for_an_answer_that_says_something_else() {
        let check = |answer: Option<&str>, expect: &str| {
            let (principal, _, auth) = asked(answer);
            let said = match principal.unwrap_err() {
                NotIdentified::Refused(why) => format!("refused: {why}"),
                NotIdentified::TooManyFailures => "too many".to_owned(),
                NotIdentified::Unavailable(why) => format!("unavailable: {why}"),
            };
            assert!(said.starts_with(expect), "{answer:?}: {said}");
            assert_eq!(auth.remembered(&headers(), ADDRESS), None);
        };
        check(
            Some("HTTP/1.1 401 No\r\nRemote-User: alice\r\n\r\n"),
            "refused: access.forward-auth answered 401",
        );
        check(Some("HTTP/1.1 403 No\r\n\r\n"), "refused: access.forward-auth answered 403");
        check(Some("HTTP/1.1 429 No\r\n\r\n"), "too many");
        check(
            Some("HTTP/1.1 500 No\r\nRemote-User: alice\r\n\r\n"),
            "unavailable: access.forward-auth: answered 500",
        );
        check(
            Some("HTTP/1.1 302 No\r\nRemote-User: alice\r\n\r\n"),
            "unavailable: access.forward-auth: answered 302",
        );
        let nobody = "unavailable: access.forward-auth: answer lacks the header remote-user";
        for headers in
            ["", "Remote-User:\r\n", "Remote-User: a\tb\r\n", "Remote-User: a\r\nRemote-User: b\r\n"]
        {
            check(Some(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")), nobody);
        }
        check(Some("SSH-2.0-x\r\n"), "unavailable: ");
        check(Some(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(2 * MAX_HEAD_BYTES))), "unavailable: ");
        check(Some(""), "unavailable: access.forward-auth: no answer in time");
        check(None, "unavailable: ");
    }

    #[test]
    fn urls() {
        for url in ["", "https://a/b", "a/b", "http://", "http://u:p@a/b", "http://a b"] {
            assert!(url.parse::<ForwardAuthUrl>().is_err(), "{url}");
        }
        let url = |text: &str| text.parse::<ForwardAuthUrl>().unwrap();
        assert!(ForwardAuth::new(&url("http://a/b"), "Remote User", "").is_err());
        assert_eq!(
            (url("http://a/b").authority.as_str(), url("http://a/b").to_string().as_str()),
            ("a:80", "http://a/b")
        );
        assert_eq!(url("http://[::1]:8080").authority, "[::1]:8080");
    }
}
