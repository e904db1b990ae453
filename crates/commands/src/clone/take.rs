//! Receives the pack of a clone and stores it.

use std::sync::Arc;

use packrace_client::{Listener, Remote, ServerConnection};
use packrace_object::fsck::Severities;
use packrace_pack::ingest::{Checks, Ingest, IngestOptions};
use packrace_pack::{Phase, ProgressSink as _, Settings};
use packrace_protocol::message::fetch_request::FetchRequest;
use packrace_protocol::session::fetch_client::Error as Protocol;
use packrace_store::publish::{ObjectsStored, PackWriter, PublishOptions, WritePolicy};
use packrace_store::{FsckSettings, FsckUse, Repository};

use super::remote_text::RemoteText;
use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::printable::{harmless, harmless_bytes};
use crate::call::streams::ErrorOutput;
use crate::progress::Progress;
use crate::trace2::classic::ClassicLog;

/// Receives a pack that must contain all wants and everything that they reach.
pub fn receive<E: ServerConnection>(
    remote: &mut Remote<E>,
    request: &FetchRequest,
    repository: &Repository,
    shows_progress: bool,
    call: &Call,
) -> Result<ObjectsStored, Fatal> {
    let config = repository.config();
    let pack_dir = repository.object_dir().join("pack");
    let policy = WritePolicy::of(config)?;
    let options = options(repository)?;
    let writer = PackWriter::receive(&pack_dir, repository.hash_kind(), policy)?;
    let mut ingest = Ingest::new(writer, options);
    let progress = Progress::new(shows_progress, call)?.with_bytes();
    let text = RemoteText::to_errors(call.streams.errors.clone());
    let trace = ClassicLog::open(call, "GIT_TRACE_PACKFILE", &call.environment.classic_traces.packfile);
    let mut audience = Audience { text, progress: &progress, trace };
    let fetched = remote.fetch(request, &mut ingest, &mut audience);
    audience.text.finish();
    fetched.map_err(|error| broken_off(call, error, ingest.is_complete(), &mut audience.text))?;
    let indexed = ingest.resolve(None, &progress).map_err(|error| not_accepted(call, error))?;
    progress.finish();
    let found = indexed.found();
    let _ = call.streams.errors.say(&harmless_bytes(&found.warnings));
    if let Some(id) = found.missing_modules.first() {
        // A new repository has no other objects.
        error_line!(call, "fatal: did not receive expected object {id}");
        return Err(Fatal::new("fsck failed"));
    }
    let entries = indexed.entries();
    let is_missing = |id| entries.binary_search_by(|entry| entry.id.cmp(id)).is_err();
    if let Some(id) = request.wants.iter().find(|id| is_missing(id)) {
        error_line!(call, "fatal: bad object {id}");
        return Err(Fatal::new("remote did not send all necessary objects"));
    }
    Ok(indexed.publish(&PublishOptions::of(config)?)?.stored())
}

/// Ingest options: links are always checked, since there are no other objects; contents only if configured.
fn options(repository: &Repository) -> Result<IngestOptions, Fatal> {
    let (config, hash) = (repository.config(), repository.hash_kind());
    let fsck = FsckSettings::of(config, FsckUse::Fetch)?;
    let rules = match fsck.checks_objects {
        true => Some(Arc::new(fsck.rules(Severities::strict(), hash)?)),
        false => None,
    };
    Ok(IngestOptions {
        threads: Settings::threads(config, packrace_os::process::available_threads())?,
        checks: Some(Checks { rules, links: true, ..Checks::default() }),
        ..IngestOptions::of(config, hash)?
    })
}

/// Receives the server's messages and the progress.
struct Audience<'a> {
    text: RemoteText<ErrorOutput>,
    progress: &'a Progress,
    /// `GIT_TRACE_PACKFILE`.
    trace: Option<ClassicLog>,
}

impl Listener for Audience<'_> {
    fn text(&mut self, text: &[u8]) {
        self.text.say(text);
    }

    fn received(&mut self, bytes: &[u8], ingest: &Ingest) {
        let (done, total) = ingest.received();
        self.trace.iter_mut().for_each(|trace| trace.bytes(bytes));
        self.progress.sent(bytes.len() as u64);
        self.progress.report(Phase::Receiving, done.into(), total.into());
    }
}

/// Reports a connection that failed inside a pack as git's programs do, where one reads and another indexes.
fn broken_off(
    call: &Call,
    error: packrace_client::Error,
    is_complete: bool,
    text: &mut RemoteText<ErrorOutput>,
) -> Fatal {
    match error {
        packrace_client::Error::Protocol(Protocol::LastWords(words)) => text.last_words(&words),
        packrace_client::Error::Protocol(error @ (Protocol::Band(_) | Protocol::CutOff)) => {
            error_line!(call, "fetch-pack: {}", harmless(&error.to_string()));
        }
        packrace_client::Error::Pack(error) => return not_accepted(call, error),
        other => return other.into(),
    }
    if is_complete {
        return Fatal::new("error in sideband demultiplexer");
    }
    error_line!(call, "fatal: early EOF");
    Fatal::new("fetch-pack: invalid index-pack output")
}

fn not_accepted(call: &Call, error: packrace_pack::ingest::IngestError) -> Fatal {
    let _ = call.streams.errors.say(&harmless_bytes(error.lines()));
    error_line!(call, "fatal: {}", harmless(&error.to_string()));
    Fatal::new("fetch-pack: invalid index-pack output")
}
