//! `git unpack-objects`: stores the objects of the pack on standard input: a few objects loose, more as the
//! pack.

use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_pack::ingest::{self, Checks, Ingest, IngestErrorKind, IngestOptions, Unpacking};
use packrace_pack::unpack::{Salvaged, form_of, salvage, unpack};
use packrace_pack::{Phase, ProgressSink as _};
use packrace_store::publish::{BatchOptions, Form, LooseBatch, PackWriter, PublishOptions, WrittenPack};
use packrace_store::{Repository, strict_fsck_rules};

use crate::call::Call;
use crate::call::discovery::repository;
use crate::call::fatal::Fatal;
use crate::lazy_fetch::prefetch_bases;
use crate::options::UnpackObjectsOptions;
use crate::packs::input::{PackInput, READ_BYTES, parse_pack_header};
use crate::progress::{Progress, is_wanted};

/// Implements `git unpack-objects`.
pub fn run(call: &Call, args: &UnpackObjectsOptions) -> Result<(), Fatal> {
    let repository = repository(call)?;
    let header = args.pack_header.as_deref().map(parse_pack_header).transpose()?.unwrap_or_default();
    let mut input = PackInput::new(call, header)?;
    let checks = match args.strict.is_empty() {
        true => None,
        false => {
            let rules = strict_fsck_rules(args.strict.join(",").as_bytes(), repository.hash_kind())?;
            let shallow = repository.unlisted_snapshot()?.shallow()?.to_vec();
            Some(Checks { rules: Some(Arc::new(rules)), links: true, shallow, ..Checks::default() })
        }
    };
    let job = UnpackObjectsJob {
        call,
        args,
        progress: Progress::new(is_wanted(call, args.quiet.then_some(false)), call)?,
        storing: BatchOptions::of(repository.config())?,
        options: IngestOptions {
            max_bytes: args.max_input_size.filter(|bytes| *bytes > 0),
            fix_thin: true,
            skip_unreadable: true,
            checks,
            ..IngestOptions::of(repository.config(), repository.hash_kind())?
        },
        repository,
    };
    // What is left of a damaged pack does not pass checks.
    let rest = if args.recover && args.strict.is_empty() {
        job.recover(&mut input)?
    } else {
        job.unpack(&mut input)?
    };
    input.pass_on(&rest, &mut **call.streams.output())
}

struct UnpackObjectsJob<'a> {
    call: &'a Call,
    args: &'a UnpackObjectsOptions,
    repository: Repository,
    progress: Progress,
    storing: BatchOptions,
    options: IngestOptions,
}

impl UnpackObjectsJob<'_> {
    /// Receives the whole pack before any object is stored. Returns the bytes after the pack.
    fn unpack(&self, input: &mut PackInput<'_>) -> Result<Vec<u8>, Fatal> {
        let mut ingest = self.ingest()?;
        let rest = input.feed(&mut ingest, |_, _| {}, |error| refuse(self.call, error))?;
        let rest = rest.ok_or_else(|| Fatal::new("early EOF"))?;
        self.store(ingest)?.map_err(|error| refuse(self.call, error))?;
        Ok(rest)
    }

    /// Stores the objects of a pack that has been received; the inner error is that it lacks bases, or has objects that do not
    /// pass checks.
    fn store(&self, ingest: Ingest) -> Result<Result<(), ingest::IngestError>, Fatal> {
        if self.args.dry_run {
            return Ok(Ok(()));
        }
        let snapshot = self.repository.snapshot()?;
        let fetch = |bases: &[ObjectId]| prefetch_bases(self.call, &self.repository, bases);
        let indexed = match ingest.resolve_fetching(Some(&snapshot), &fetch, &self.progress) {
            Ok(indexed) => indexed,
            Err(error) => return Ok(Err(error)),
        };
        self.progress.finish();
        self.call.streams.errors.say(&indexed.found().warnings).map_err(Fatal::new)?;
        let BatchOptions { policy, loose_limit, loose_compression, .. } = self.storing;
        let form = form_of(&indexed, &snapshot, loose_limit)?;
        let mut batch = LooseBatch::new(self.repository.object_dir(), snapshot, loose_compression, policy);
        if form == Form::Loose && unpack(&indexed, &mut batch, &self.progress)? {
            batch.publish()?;
        } else {
            let objects = u64::from(indexed.entries().len() as u32 - indexed.completed());
            // Git reads no setting of an index here.
            let beside = PublishOptions::of(self.repository.config()).unwrap_or(self.storing.beside);
            indexed.publish(&beside)?;
            self.progress.report(Phase::Unpacking, objects, objects);
        }
        self.progress.finish();
        Ok(Ok(()))
    }

    /// Stores all readable objects of a damaged pack, and an intact one as without `-r`: its objects may have any size.
    fn recover(&self, input: &mut PackInput<'_>) -> Result<Vec<u8>, Fatal> {
        let mut file = self.writer()?;
        let mut buffer = vec![0; READ_BYTES];
        let mut max_bytes = self.options.max_bytes.unwrap_or(u64::MAX);
        loop {
            let length = input.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            max_bytes = max_bytes
                .checked_sub(length as u64)
                .ok_or_else(|| Fatal::new("pack exceeds maximum allowed size"))?;
            file.write(&buffer[..length])?;
        }
        let (length, written) = (file.position(), file.written()?);
        if let Some(end) = self.store_intact(&written, length)? {
            return Ok(written.range(end..length, &mut buffer)?.to_vec());
        }
        let data = written.map()?;
        let Salvaged { errors, fatal, end } = salvage(data, &self.repository, self.args.dry_run)?;
        for error in &errors {
            error_line!(self.call, "error: {error}");
        }
        match fatal {
            Some(fatal) => Err(Fatal::new(fatal)),
            None if !errors.is_empty() => Err(Fatal::silent(1)),
            None => Ok(data[end..].to_vec()),
        }
    }

    /// Stores a pack that is not damaged, and tells where it ends.
    fn store_intact(&self, written: &WrittenPack, length: u64) -> Result<Option<u64>, Fatal> {
        let is_bad = |error: &ingest::IngestError| error.kind() == IngestErrorKind::BadPack;
        let mut ingest = self.ingest()?;
        let (mut at, mut buffer) = (0, Vec::new());
        while at < length && !ingest.is_complete() {
            let end = length.min(at + READ_BYTES as u64);
            match ingest.push(written.range(at..end, &mut buffer)?) {
                Ok(taken) => at += taken as u64,
                Err(error) if is_bad(&error) => return Ok(None),
                Err(error) => return Err(refuse(self.call, error)),
            }
        }
        if !ingest.is_complete() {
            return Ok(None);
        }
        match self.store(ingest)? {
            Ok(()) => Ok(Some(at)),
            Err(error) if is_bad(&error) => Ok(None),
            Err(error) => Err(refuse(self.call, error)),
        }
    }

    fn ingest(&self) -> Result<Ingest, Fatal> {
        Ok(match self.args.dry_run {
            true => Ingest::check_only(self.options.clone()),
            false => Ingest::new(self.writer()?, self.options.clone()),
        })
    }

    /// A temporary file for the pack.
    fn writer(&self) -> Result<PackWriter, Fatal> {
        let dir = self.repository.object_dir().join("pack");
        Ok(PackWriter::receive(&dir, self.options.hash, self.storing.policy)?)
    }
}

fn refuse(call: &Call, error: ingest::IngestError) -> Fatal {
    // If standard error is closed, the message is lost.
    let _ = call.streams.errors.say(error.lines_of_unpacking());
    match error.of_unpacking() {
        Unpacking::BadObject(words) => Fatal::error(words),
        Unpacking::Fatal(words) => Fatal::new(words),
    }
}
