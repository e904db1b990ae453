//! Stores the objects of a push in its quarantine.

use std::io::{self, BufRead};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packrace_format::pack::{BadHeader, HEADER_BYTES, Header};
use packrace_object::fsck::{Rules, Severities};
use packrace_os::clock::Clock;
use packrace_os::trace::{self, TracedChild};
use packrace_pack::ingest::{Checks, IndexedPack, Ingest, IngestErrorKind, IngestOptions, Unpacking};
use packrace_pack::meter::{Meter, ProgressInterval};
use packrace_pack::{Phase, ProgressSink};
use packrace_store::publish::{Form, LooseBatch, PackWriter, PublishOptions, loose_compression};
use packrace_store::{Quarantine, Snapshot};

use super::client_messages::ClientMessages;
use super::settings::UnpackSettings;
use super::spent::PushBudget;
use crate::error::Error;

/// At most one line of progress a second.
const PACE: ProgressInterval = ProgressInterval { interval: Duration::from_secs(1), delay: Duration::ZERO };

/// Reports progress in band 2.
pub(super) struct Progress<'a> {
    pub(super) client: &'a ClientMessages,
    pub(super) clock: &'a dyn Clock,
    meter: Option<Mutex<Meter>>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(client: &'a ClientMessages, clock: &'a dyn Clock, is_quiet: bool) -> Self {
        Progress { client, clock, meter: (!is_quiet).then(|| Mutex::new(Meter::new(PACE))) }
    }

    /// Ends the open progress line.
    fn finish(&self) {
        if let Some(meter) = &self.meter {
            let text = meter.lock().expect("no panic while held").finish(self.clock.now());
            self.client.say(text.as_bytes());
        }
    }
}

impl ProgressSink for Progress<'_> {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        // The client itself shows how many bytes it sent.
        let Some(meter) = self.meter.as_ref().filter(|_| total > 0) else { return };
        let text = meter.lock().expect("no panic while held").update(phase, done, total, self.clock.now());
        text.iter().for_each(|text| self.client.say(text.as_bytes()));
    }

    fn cancelled(&self) -> bool {
        self.client.is_cancelled()
    }
}

/// Why objects were not stored.
pub(super) struct NotUnpacked {
    /// The text behind `unpack` in the report.
    pub(super) why: String,
    /// The limit that was exceeded, if any.
    pub(super) over_budget: Option<String>,
}

/// Reads a pack from `source`, and not a byte more, and leaves its objects in the quarantine. An inner error
/// is for the report behind `unpack`; its other messages were already sent. With `is_cut` the client's
/// history is cut: objects may link to missing ones.
pub(super) fn receive_pack_bytes(
    source: &mut dyn BufRead,
    quarantine: &mut Quarantine,
    settings: &UnpackSettings,
    budget: &PushBudget,
    is_cut: bool,
    progress: &Progress<'_>,
) -> Result<Result<(), NotUnpacked>, Error> {
    let (head, header) = match read_head(source) {
        Ok(read) => read,
        Err(why) => return Ok(Err(NotUnpacked { why, over_budget: None })),
    };
    let announced = header.objects;
    // Git's words are those of the program that it would have run.
    let program = match settings.git_unpack_limit.form_of(announced) {
        Form::Loose => "unpack-objects",
        Form::Pack => "index-pack",
    };
    let why = format!("{program} abnormal exit");
    let rules = match rules(quarantine, settings) {
        Ok(rules) => rules,
        Err(error) => {
            progress.client.report("fatal", &error.to_string());
            return Ok(Err(NotUnpacked { why, over_budget: None }));
        }
    };
    let fix_thin = program == "unpack-objects" || !settings.refuses_thin;
    let options = IngestOptions { fix_thin, ..options(quarantine, settings, budget, rules, is_cut)? };
    let hash = options.hash;
    let writer = PackWriter::receive(&quarantine.pack_dir(), hash, quarantine.policy())?;
    let mut ingest = Ingest::new(writer, options);
    let mut unread = None;
    let form = settings.unpack_limit.form_of(announced);
    let traced = traced_program(program, header, settings, progress.meter.is_none());
    let result = trace::during(traced, || {
        unread = feed(source, &head, &mut ingest, progress.client)?;
        progress.client.pack_read();
        let existing = quarantine.snapshot()?;
        let indexed = ingest.resolve(Some(&existing), progress)?;
        progress.finish();
        progress.client.say(&indexed.found().warnings);
        store(indexed, form, quarantine, &existing)
    });
    if let Err(error) = result {
        let is_unpacking = program == "unpack-objects";
        progress.client.say(if is_unpacking { error.lines_of_unpacking() } else { error.lines() });
        // The limit may have ended the read, so that the pack looks cut off.
        let too_long = progress.client.too_long();
        let unread = || unread.map(|error| format!("cannot read the pack: {}", packrace_os::reason(&error)));
        let found = || match error.of_unpacking() {
            Unpacking::Fatal(words) if is_unpacking && error.is_of_fsck() => words,
            _ => error.to_string(),
        };
        let words = too_long.clone().or_else(unread).unwrap_or_else(found);
        progress.client.report("fatal", &words);
        let is_over = too_long.is_some() || error.kind() == IngestErrorKind::LimitExceeded;
        return Ok(Err(NotUnpacked { why, over_budget: is_over.then_some(words) }));
    }
    Ok(Ok(()))
}

/// In a trace, begins the work of the program that git starts for a pack.
fn traced_program(
    program: &str,
    header: Header,
    settings: &UnpackSettings,
    is_quiet: bool,
) -> Option<TracedChild> {
    if !trace::is_on() {
        return None;
    }
    let header = format!("--pack_header={},{}", header.version, header.objects);
    let limit = settings.max_bytes.filter(|bytes| *bytes > 0);
    let limit = limit.map(|bytes| format!("--max-input-size={bytes}"));
    let strict = settings.fsck.checks_objects.then_some("--strict");
    let mut argv = vec!["git", program];
    match program {
        "index-pack" => {
            let fix_thin = (!settings.refuses_thin).then_some("--fix-thin");
            argv.extend(["--stdin", &header].into_iter().chain(strict).chain(fix_thin));
        }
        _ => argv.extend([&*header].into_iter().chain(is_quiet.then_some("-q")).chain(strict)),
    }
    argv.extend(limit.as_deref());
    trace::child_inside(&argv)
}

/// What is checked of objects, if they are; a setting or a list that makes no sense is the fault of the repository.
fn rules(quarantine: &Quarantine, settings: &UnpackSettings) -> Result<Option<Rules>, packrace_store::Error> {
    if !settings.fsck.checks_objects {
        return Ok(None);
    }
    let view = quarantine.view();
    settings.fsck.rules_below(view.git_dir(), Severities::strict(), view.hash_kind()).map(Some)
}

fn options(
    quarantine: &Quarantine,
    settings: &UnpackSettings,
    budget: &PushBudget,
    rules: Option<Rules>,
    is_cut: bool,
) -> Result<IngestOptions, Error> {
    let view = quarantine.view();
    let checks = match rules {
        Some(rules) => Some(Checks {
            rules: Some(Arc::new(rules)),
            links: !is_cut,
            shallow: view.unlisted_snapshot()?.shallow()?.to_vec(),
            ..Checks::default()
        }),
        None => None,
    };
    let threads = packrace_os::process::available_threads();
    Ok(IngestOptions {
        threads: packrace_pack::Settings::threads(view.config(), threads)?,
        max_bytes: settings.max_bytes,
        max_objects: Some(budget.max_objects),
        max_unpacked: Some(budget.max_unpacked),
        checks,
        ..IngestOptions::of(view.config(), view.hash_kind())?
    })
}

/// Stores the objects in the quarantine, as loose objects or as the pack that they came in.
fn store(
    indexed: IndexedPack,
    form: Form,
    quarantine: &mut Quarantine,
    existing: &Arc<Snapshot>,
) -> Result<(), packrace_pack::ingest::IngestError> {
    if form == Form::Loose && store_loose(&indexed, quarantine, existing)? {
        return Ok(());
    }
    // A repack must not delete the pack before refs name its objects.
    let keep = format!("receive-pack {} on {}\n", std::process::id(), packrace_os::process::host_name());
    let configured = PublishOptions::of(quarantine.view().config())?;
    let options = PublishOptions { keep: Some(keep.as_bytes()), ..configured };
    let published = indexed.publish(&options)?;
    quarantine.note_pack(&published);
    Ok(())
}

/// Writes every object to its own file, if all are short.
fn store_loose(
    indexed: &IndexedPack,
    quarantine: &mut Quarantine,
    existing: &Arc<Snapshot>,
) -> Result<bool, packrace_pack::ingest::IngestError> {
    let level = loose_compression(quarantine.view().config())?;
    let mut batch = LooseBatch::new(quarantine.object_dir(), existing.clone(), level, quarantine.policy());
    if !packrace_pack::unpack::unpack(indexed, &mut batch, &packrace_pack::NoProgress)? {
        return Ok(false);
    }
    quarantine.note_loose(batch.publish()?);
    Ok(true)
}

/// Reads the pack to its end. A read error ends it early and is returned: resolving the pack then fails
/// because of it.
fn feed(
    source: &mut dyn BufRead,
    head: &[u8],
    ingest: &mut Ingest,
    client: &ClientMessages,
) -> Result<Option<io::Error>, packrace_pack::ingest::IngestError> {
    ingest.push(head)?;
    while !ingest.is_complete() && !client.is_cancelled() {
        let bytes = match source.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Some(error)),
        };
        if bytes.is_empty() {
            break;
        }
        let taken = ingest.push(bytes)?;
        client.has_come(taken);
        source.consume(taken);
    }
    Ok(None)
}

/// The header, which git's receive-pack checks itself, with its own messages.
fn read_head(source: &mut dyn BufRead) -> Result<([u8; HEADER_BYTES], Header), String> {
    let mut head = [0; HEADER_BYTES];
    source.read_exact(&mut head).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "eof before pack header was fully read".to_owned(),
        _ => format!("cannot read the pack header: {}", packrace_os::reason(&error)),
    })?;
    let header = Header::read(&head).map_err(|bad| match bad {
        BadHeader::Signature => "protocol error (pack signature mismatch detected)",
        BadHeader::Version(_) => "protocol error (pack version unsupported)",
    })?;
    Ok((head, header))
}
