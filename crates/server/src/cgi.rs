//! One HTTP request that a web server passes to a CGI program (RFC 3875), as git-http-backend takes it.
//!
//! | request | answer |
//! |---|---|
//! | a service | as over HTTP |
//! | a file of the dumb protocol | the file; it may be cached for a year if it never changes |
//! | a path unknown to git, no repository, one that is not exported | 404 |
//! | a service that is disabled | 403 |
//! | another method | 405 with `Allow`, 400 before HTTP/1.1 |
//! | another content type | 415 |
//! | a request that is too large, breaks off, or is no gzip | 413, 400 |
//! | a variable that a web server must set is missing, or a repository cannot be read | 500 |

use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use http::StatusCode;
use packrace_os::clock::RealClock;
use packrace_os::sink::Sink;
use packrace_os::source::FdSource;
use packrace_store::{ErrorKind as StoreErrorKind, MessageSink, Repository};

use crate::http::dumb::{self, Caching};
use crate::http::routes::{Route, route, status_of};
use crate::path_names::PathNames;
use crate::send::outbox::{ClientSink, GatherBatch};
use crate::service::call::{Call, Service};
use crate::service::pusher::pusher;
use crate::service::root::{RESERVED_PATH, check_path};
use crate::settings::Settings;
use crate::stdio::StreamSink;
use crate::subject::{CallMode, ProtocolVersion};
use crate::transfers::Transfer;

/// Size of the buffer for compressed bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A web server's variables about a request, each by its name. Plain data.
#[derive(Debug, Clone, Default)]
pub struct CgiRequest {
    /// `REQUEST_METHOD`.
    pub method: Option<String>,
    /// `GIT_PROJECT_ROOT`: `path_info` is below.
    pub project_root: Option<PathBuf>,
    /// `PATH_INFO`.
    pub path_info: Option<OsString>,
    /// `PATH_TRANSLATED`: used without a `project_root`.
    pub path_translated: Option<OsString>,
    /// `QUERY_STRING`.
    pub query: String,
    /// `CONTENT_TYPE`.
    pub content_type: String,
    /// `CONTENT_LENGTH`; without it, a body goes to the end of the input.
    pub content_length: Option<String>,
    /// `HTTP_CONTENT_ENCODING`.
    pub content_encoding: String,
    /// `SERVER_PROTOCOL`.
    pub server_protocol: String,
    /// `GIT_HTTP_MAX_REQUEST_BUFFER`: the longest request except a push; takes precedence over
    /// `http.maxRequestBuffer`.
    pub max_request_bytes: Option<usize>,
    /// `REMOTE_USER`: a user who may push unless `http.receivepack` is false.
    pub remote_user: Option<String>,
    /// `REMOTE_ADDR`.
    pub remote_address: Option<String>,
    /// `GIT_HTTP_EXPORT_ALL`: repositories need not be marked for export.
    pub exports_all: bool,
    /// `GIT_PROTOCOL`, or else `HTTP_GIT_PROTOCOL`.
    pub version: ProtocolVersion,
}

/// Takes the name of a service, what a response says before the session, and the input and output of the
/// session; returns the input and output to use instead.
pub type WrapSession<'w> = dyn for<'s> Fn(
        &'static str,
        &[u8],
        &'s mut (dyn Read + Send),
        &'s mut dyn ClientSink,
    ) -> (Box<dyn Read + Send + 's>, Box<dyn ClientSink + 's>)
    + 'w;

/// A request that is refused.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    /// A header that the status requires.
    header: Option<(&'static str, &'static str)>,
    /// For the log of the web server.
    why: String,
    /// Whether the client gets the reason too.
    is_told: bool,
}

impl Refused {
    fn new(status: StatusCode, why: impl ToString) -> Self {
        Refused { status, header: None, why: why.to_string(), is_told: false }
    }

    fn broken(why: impl ToString) -> Self {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    }
}

/// Answers one request. Of `settings` only those about repositories and calls apply. `wrap` may observe the
/// session. Errors are for the log of the web server: the client has its answer by then.
pub fn http_backend<S: Sink>(
    request: &CgiRequest,
    settings: &Settings,
    input: FdSource,
    output: S,
    wrap: &WrapSession<'_>,
) -> Result<(), String> {
    let mut backend =
        Backend { request, settings, wrap, client: CgiSink { client: StreamSink::new(output), head: None } };
    let Err(refused) = backend.answer(input) else { return Ok(()) };
    if !backend.client.has_sent() {
        let Refused { status, header, .. } = &refused;
        let mut head = CgiHead::new(Caching::Never);
        head.line("Status", format_args!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or("")));
        if let Some((name, value)) = header {
            head.line(name, value);
        }
        backend.client.head = Some(head.finish());
        let body = if refused.is_told { format!("{}\n", refused.why) } else { String::new() };
        // If this fails, the client cannot be informed.
        let _ = backend.client.send(GatherBatch::of(body.into_bytes()));
    }
    Err(refused.why)
}

struct Backend<'a, S> {
    request: &'a CgiRequest,
    settings: &'a Settings,
    wrap: &'a WrapSession<'a>,
    client: CgiSink<S>,
}

impl<S: Sink> Backend<'_, S> {
    fn answer(&mut self, input: FdSource) -> Result<(), Refused> {
        let request = self.request;
        let method = request.method.as_deref();
        let method = method.ok_or_else(|| Refused::broken("No REQUEST_METHOD from server"))?;
        let path = self.path()?;
        match route(method, path.as_bytes(), &request.query) {
            Route::Bundle(..) | Route::Unknown => Err(Refused::new(
                StatusCode::NOT_FOUND,
                format!("Request not supported: '{}'", path.display()),
            )),
            Route::NotAllowed(methods) if request.server_protocol == "HTTP/1.1" => Err(Refused {
                header: Some(("Allow", methods)),
                ..Refused::new(StatusCode::METHOD_NOT_ALLOWED, "")
            }),
            Route::NotAllowed(_) => Err(Refused::new(StatusCode::BAD_REQUEST, "")),
            Route::NotOffered(path) => {
                self.open(&path)?;
                Err(Refused::new(StatusCode::FORBIDDEN, "Service not enabled"))
            }
            Route::Advertise(service, path) => {
                let repository = self.open(&path)?;
                self.check_enabled(service, &repository)?;
                let prefix = match request.version {
                    ProtocolVersion::V2 => &b""[..],
                    _ => service.announcement(),
                };
                self.client.head = Some([&CgiHead::of_service(service.advertisement()), prefix].concat());
                self.call(service, repository, CallMode::Advertise, prefix, &mut io::empty())
            }
            Route::Call(service, path) => {
                let repository = self.open(&path)?;
                self.check_enabled(service, &repository)?;
                if request.content_type != service.request() {
                    let (expected, got) = (service.request(), &request.content_type);
                    let why = format!(
                        "Expected POST with Content-Type '{expected}', but received '{got}' instead."
                    );
                    let refused = Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
                    return Err(Refused { is_told: true, ..refused });
                }
                let mut body = self.body(service, &repository, input)?;
                self.client.head = Some(CgiHead::of_service(service.result()));
                self.call(service, repository, CallMode::StatelessRpc, &[], &mut *body)
            }
            Route::File(file, path) => {
                let repository = self.open(&path)?;
                if !self.boolean(&repository, "http.getanyfile")?.unwrap_or(true) {
                    return Err(Refused::new(StatusCode::FORBIDDEN, "Unsupported service: getanyfile"));
                }
                let found = dumb::find(&file, &repository, &self.settings.namespace);
                let found = found.map_err(|error| match error {
                    dumb::DumbError::NotThere(why) => Refused::new(StatusCode::NOT_FOUND, why),
                    dumb::DumbError::Broken(why) => Refused::broken(why),
                })?;
                let mut head = CgiHead::new(found.caching);
                head.line("Content-Length", found.batch.len());
                head.line("Content-Type", file.content_type());
                if let Some(modified) = found.modified {
                    head.line("Last-Modified", dumb::date(modified));
                }
                self.client.head = Some(head.finish());
                let sent = self.client.finish().and_then(|()| self.client.send(found.batch));
                sent.map_err(|error| Refused::broken(error.to_string()))
            }
        }
    }

    /// The path of the repository, and of the request below it.
    fn path(&self) -> Result<OsString, Refused> {
        let named = |path: &Option<OsString>| path.clone().filter(|path| !path.is_empty());
        let root = self.request.project_root.as_ref().filter(|root| !root.as_os_str().is_empty());
        let Some(root) = root else {
            let path = named(&self.request.path_translated);
            return path.ok_or_else(|| Refused::broken("No GIT_PROJECT_ROOT or PATH_TRANSLATED from server"));
        };
        let path = named(&self.request.path_info);
        let path = path.ok_or_else(|| Refused::broken("GIT_PROJECT_ROOT is set but PATH_INFO is not"))?;
        check_path(path.as_bytes()).map_err(|why| match why {
            RESERVED_PATH => {
                Refused::new(StatusCode::NOT_FOUND, format!("Not a git repository: '{}'", path.display()))
            }
            _ => Refused::broken(format!("'{}': aliased", path.display())),
        })?;
        let mut whole = root.clone().into_os_string();
        whole.push(path);
        Ok(whole)
    }

    fn open(&self, path: &[u8]) -> Result<Repository, Refused> {
        let path = OsStr::from_bytes(path);
        let opened = Repository::open(path.as_ref(), &self.settings.open);
        let repository = opened.map_err(|error| match error.kind() {
            // The operator learns whose it is, and what can be done.
            _ if error.is_of_other_owner() => Refused::broken(format!("fatal: {error}")),
            StoreErrorKind::Refused => {
                Refused::new(StatusCode::NOT_FOUND, format!("Not a git repository: '{}'", path.display()))
            }
            _ => Refused::broken(error),
        })?;
        if !self.request.exports_all && !repository.is_export_ok() {
            let why = format!("Repository not exported: '{}'", path.display());
            return Err(Refused::new(StatusCode::NOT_FOUND, why));
        }
        // Like git, which answers nothing if one of these is invalid.
        for name in ["http.getanyfile", "http.uploadpack", "http.receivepack"] {
            self.boolean(&repository, name)?;
        }
        Ok(repository)
    }

    fn boolean(&self, repository: &Repository, name: &str) -> Result<Option<bool>, Refused> {
        repository.config().boolean(name).map_err(Refused::broken)
    }

    fn check_enabled(&self, service: Service, repository: &Repository) -> Result<(), Refused> {
        let by_default = service == Service::UploadPack || self.user().is_some();
        match service.is_enabled(repository, "http", by_default).map_err(Refused::broken)? {
            true => Ok(()),
            false => {
                let why = format!("Service not enabled: '{}'", service.name());
                Err(Refused::new(StatusCode::FORBIDDEN, why))
            }
        }
    }

    /// The user, according to the web server.
    fn user(&self) -> Option<&str> {
        self.request.remote_user.as_deref().filter(|user| !user.is_empty())
    }

    /// The body of a request, inflated: that of a push is streamed, others are read whole within the limit.
    fn body(
        &self,
        service: Service,
        repository: &Repository,
        input: FdSource,
    ) -> Result<Box<dyn Read + Send>, Refused> {
        let length = match self.request.content_length.as_deref() {
            None | Some("") => u64::MAX,
            Some(text) => text
                .parse()
                .map_err(|_| Refused::broken(format!("failed to parse CONTENT_LENGTH: {text}")))?,
        };
        let plain = input.take(length);
        // Their names have no case (RFC 9110, section 8.4.1).
        let coding = self.request.content_encoding.to_ascii_lowercase();
        let mut body: Box<dyn Read + Send> = match coding.as_str() {
            "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, plain))),
            _ => Box::new(plain),
        };
        if service == Service::ReceivePack {
            return Ok(body);
        }
        let configured = repository.config().integer("http.maxRequestBuffer").map_err(Refused::broken)?;
        let configured = configured.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
        let max_bytes = self.request.max_request_bytes.or(configured);
        let max_bytes = max_bytes.unwrap_or(self.settings.limits.max_request_bytes) as u64;
        let mut whole = Vec::new();
        let read = body.by_ref().take(max_bytes.saturating_add(1)).read_to_end(&mut whole);
        read.map_err(|error| Refused::new(StatusCode::BAD_REQUEST, error))?;
        if whole.len() as u64 > max_bytes {
            let why = format!(
                "request was larger than our maximum size ({max_bytes}); try setting GIT_HTTP_MAX_REQUEST_BUFFER"
            );
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        Ok(Box::new(io::Cursor::new(whole)))
    }

    fn call(
        &mut self,
        service: Service,
        repository: Repository,
        mode: CallMode,
        announcement: &[u8],
        input: &mut (dyn Read + Send),
    ) -> Result<(), Refused> {
        let address = self.request.remote_address.as_deref().filter(|address| !address.is_empty());
        let call = Call {
            service,
            repository: Arc::new(repository),
            version: self.request.version,
            mode,
            client: pusher("http", self.user(), address),
            access: None,
            bundles: None,
            transfer: Transfer::unlisted(self.settings.session_id.clone()),
            host: Arc::default(),
            // If standard error is closed, messages are lost.
            messages: MessageSink::new(|text| drop(io::stderr().write_all(text))),
            // Git's program shows them.
            paths: PathNames::default(),
        };
        let (mut input, mut client) = (self.wrap)(service.name(), announcement, input, &mut self.client);
        let ended = call.serve(self.settings, &mut *input, &mut *client, &RealClock::default());
        drop((input, client));
        ended.map_err(|error| Refused::new(status_of(error.kind()), error))?;
        // An empty request gets an empty answer.
        self.client.finish().map_err(Refused::broken)
    }
}

/// Sends the head of an answer before its first bytes.
struct CgiSink<S> {
    client: StreamSink<S>,
    /// Sent before the first batch.
    head: Option<Vec<u8>>,
}

impl<S: Sink> CgiSink<S> {
    fn has_sent(&self) -> bool {
        self.client.sent_bytes() > 0
    }

    /// Sends the head, unless it was already sent.
    fn finish(&mut self) -> io::Result<()> {
        self.head.take().map_or(Ok(()), |head| self.client.send(GatherBatch::of(head)))
    }
}

impl<S: Sink> ClientSink for CgiSink<S> {
    fn send(&mut self, batch: GatherBatch) -> io::Result<()> {
        self.finish()?;
        self.client.send(batch)
    }

    fn peer_gone(&mut self) -> bool {
        self.client.peer_gone()
    }

    fn demote_to_background(&mut self) {
        self.client.demote_to_background();
    }
}

/// Header lines of an answer.
struct CgiHead(Vec<u8>);

impl CgiHead {
    fn new(caching: Caching) -> Self {
        let mut head = CgiHead(Vec::new());
        for (name, value) in caching.headers() {
            head.line(name, value);
        }
        head
    }

    fn of_service(content_type: &str) -> Vec<u8> {
        let mut head = CgiHead::new(Caching::Never);
        head.line("Content-Type", content_type);
        head.finish()
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        // Names are case-insensitive; git writes them in this form.
        let mut is_first = true;
        let name: String = name
            .chars()
            .map(|letter| {
                let shown = if is_first { letter.to_ascii_uppercase() } else { letter };
                is_first = letter == '-';
                shown
            })
            .collect();
        // Writing into memory cannot fail.
        let _ = write!(self.0, "{name}: {value}\r\n");
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}
