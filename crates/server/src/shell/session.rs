//! One session: a user, a command, and descriptors to serve it on.

use std::io::{self, Read, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::Path;

use packrace_os::sink::FdSink;
use packrace_os::source::FdSource;
use packrace_store::MessageSink;

use super::command::ShellCommand;
use crate::access::Principal;
use crate::caretaker;
use crate::limits::budget::CUT;
use crate::limits::connections::{Permit, PermitReader};
use crate::maintenance::maintained_path;
use crate::metrics::{DoorName, Reason};
use crate::send::outbox::ClientSink;
use crate::service::access_log::Access;
use crate::service::counting::CountingSink;
use crate::service::pusher::pusher;
use crate::service::root::NotServed;
use crate::service::shared::Shared;
use crate::service::stateful::StatefulCall;
use crate::settings::Settings;
use crate::stdio::{PIPE_BYTES, StreamSink};
use crate::subject::ProtocolVersion;
use crate::transfers::kept;

/// A request over SSH by a user whom sshd has authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRequest {
    /// The command.
    pub command: ShellCommand,
    /// The name of the user.
    pub user: String,
    /// The protocol version that the client requests.
    pub version: ProtocolVersion,
    /// The client's end of the SSH connection; `None` if sshd does not say.
    pub client: Option<SocketAddr>,
}

impl ShellRequest {
    /// The message for a user who wants a shell.
    pub fn greeting(user: &str) -> String {
        format!("packrace: you are {user}. No shell access; git clone, fetch and push work.\n")
    }

    /// The client in the log.
    pub(super) fn peer(&self) -> String {
        self.client.map_or_else(|| "ssh".to_owned(), |client| client.to_string())
    }
}

/// The streams of a session.
pub(crate) struct SessionStreams {
    pub(crate) input: Box<dyn Read + Send>,
    pub(crate) output: Box<dyn ClientSink>,
    /// Text for standard error.
    pub(crate) messages: MessageSink,
}

/// Why a session failed.
struct Ended {
    /// The message for the client.
    told: String,
    /// The text for the log.
    why: String,
}

/// Serves one session on the standard streams of this process. The error is the text for standard error.
pub fn serve_alone(root: &Path, settings: Settings, request: &ShellRequest) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let shared = alone(root, settings)?;
    let limits = &shared.settings().limits;
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    let input = FdSource::stdin(None).map_err(failed)?.with_min_throughput(limits.idle_throughput());
    let output = FdSink::socket(output, limits.stall_throughput()).or_else(|_| FdSink::stdout());
    let streams = SessionStreams {
        input: Box::new(input),
        output: output_of(output.map_err(failed)?),
        // If standard error is closed, messages are lost.
        messages: MessageSink::new(|text| drop(io::stderr().write_all(text))),
    };
    serve(request, streams, None, &shared)
}

/// Does what a repository below `root` needs after a push. What went wrong is in the log.
pub fn maintain_alone(root: &Path, settings: Settings, git_dir: &Path) -> Result<(), String> {
    caretaker::run_after_push(&alone(root, settings)?, maintained_path(git_dir));
    Ok(())
}

/// What one session needs: no other shares with it, and there is no second call.
fn alone(root: &Path, mut settings: Settings) -> Result<Shared, String> {
    settings.cache.enabled = false;
    settings.repository_cache.enabled = false;
    Shared::new(root, settings).map_err(|error| format!("{}: {error}", root.display()))
}

/// A descriptor as the sink for a client.
pub(super) fn output_of(output: FdSink) -> Box<dyn ClientSink> {
    output.enlarge_pipe(PIPE_BYTES);
    Box::new(StreamSink::new(output))
}

/// Serves one session. Outside of a server there is no permit. The error is the message for the client.
pub(crate) fn serve(
    request: &ShellRequest,
    streams: SessionStreams,
    permit: Option<&Permit>,
    shared: &Shared,
) -> Result<(), String> {
    let settings = shared.settings();
    let SessionStreams { mut input, output, messages } = streams;
    let path = request.command.request_path();
    let line = [b"git-", request.command.service.name().as_bytes(), b" ", &path].concat();
    let mut access = Access::new(&shared.host, DoorName::Ssh, &request.peer(), &line);
    let transfer = access.transfer().clone();
    transfer.is_about(&path);
    transfer.is_by(&request.user);
    let span = transfer.enter_span();
    let mut client = CountingSink { client: output, transfer: &transfer };
    let mut awaited;
    let input: &mut (dyn Read + Send) = match permit {
        Some(permit) => {
            awaited = PermitReader { input: &mut input, permit };
            &mut awaited
        }
        None => &mut input,
    };
    let call = StatefulCall {
        service: request.command.service,
        path: &path,
        version: request.version,
        client: pusher(
            "ssh",
            Some(&request.user),
            request.client.map(|client| client.ip().to_string()).as_deref(),
        ),
        messages,
        transfer: &transfer,
    };
    let outcome = run(request, call, input, &mut client, shared, &settings);
    drop(span);
    match outcome {
        Ok(()) => {
            access.end("ok", true, None);
            Ok(())
        }
        Err(_) if permit.is_some_and(Permit::is_cut) => {
            shared.host.metrics.refused(Reason::Idle);
            access.end("failed", false, Some(CUT));
            Err(CUT.to_owned())
        }
        Err(Ended { told, why }) => {
            access.end("failed", false, Some(&kept(why.as_bytes())));
            Err(told)
        }
    }
}

fn run(
    request: &ShellRequest,
    call: StatefulCall<'_>,
    input: &mut (dyn Read + Send),
    client: &mut dyn ClientSink,
    shared: &Shared,
    settings: &Settings,
) -> Result<(), Ended> {
    let principal = Principal::named(&request.user);
    // Git has no setting for services over SSH.
    let opened = shared.open(call.service, None, call.path, &principal).map_err(|not_served| {
        not_served.reason().into_iter().for_each(|reason| shared.host.metrics.refused(reason));
        let why = not_served.to_string();
        let told = match not_served {
            NotServed::Forbidden(_) | NotServed::Disabled(_) => why.clone(),
            // Clients do not learn which.
            NotServed::NotFound(_)
            | NotServed::Unauthenticated
            | NotServed::Broken(_)
            | NotServed::BrokenInBucket(_)
            | NotServed::Unavailable(_) => request.command.no_repository(),
        };
        Ended { told, why }
    })?;
    call.serve(opened, input, client, shared, settings).map_err(|why| Ended { told: why.clone(), why })
}
