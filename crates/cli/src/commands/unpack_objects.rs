//! `packrace unpack-objects`: makes loose objects of the pack on standard input.

use std::io::Write as _;
use std::sync::Arc;

use packrace_pack::ingest::{self, Checks, Ingest, Options, Unpacking};
use packrace_pack::unpack::{Salvaged, salvage, unpack};
use packrace_store::publish::{LooseBatch, PackWriter, PublishOptions, WritePolicy, loose_compression};
use packrace_store::{Repository, strict_fsck_rules};

use super::index_pack::{Input, READ_BYTES};
use super::{Fatal, repository};
use crate::args::{Globals, UnpackObjects};
use crate::environment::Environment;
use crate::progress::{Progress, is_wanted};

pub fn run(globals: &Globals, args: &UnpackObjects, environment: &Environment) -> Result<(), Fatal> {
    let repository = repository(globals, environment)?;
    let header = args.pack_header.as_deref().map(parse_pack_header).transpose()?.unwrap_or_default();
    if args.recover && args.strict.is_some() {
        // What is recovered may be broken.
        return Err(Fatal::usage("options '-r' and '--strict' cannot be used together"));
    }
    let mut input = Input::new(header)?;
    let checks = match &args.strict {
        Some(settings) => {
            let rules = strict_fsck_rules(settings.as_bytes(), repository.hash_kind())?;
            Some(Checks { rules: Some(Arc::new(rules)), links: true })
        }
        None => None,
    };
    let job = Job {
        args,
        progress: Progress::new(is_wanted(false, args.quiet), environment)?,
        policy: WritePolicy::of(repository.config())?,
        options: Options {
            max_bytes: args.max_input_size.filter(|bytes| *bytes > 0),
            fix_thin: true,
            checks,
            ..Options::of(repository.config(), repository.hash_kind())?
        },
        repository,
    };
    let rest = if args.recover { job.recover(&mut input)? } else { job.unpack(&mut input)? };
    // What does not belong to the pack is for whoever reads on.
    let mut out = std::io::stdout().lock();
    let said = out.write_all(&rest);
    said.and_then(|()| std::io::copy(&mut input.source, &mut out).map(drop)).map_err(Fatal::new)
}

struct Job<'a> {
    args: &'a UnpackObjects,
    repository: Repository,
    progress: Progress,
    policy: WritePolicy,
    options: Options,
}

impl Job<'_> {
    /// Takes all of the pack before anything of it is stored. Gives back what was read behind it.
    fn unpack(&self, input: &mut Input) -> Result<Vec<u8>, Fatal> {
        let mut ingest = match self.args.dry_run {
            true => Ingest::check_only(self.options.clone()),
            false => Ingest::new(self.writer()?, self.options.clone()),
        };
        let rest = feed(&mut ingest, input)?;
        if self.args.dry_run {
            return Ok(rest);
        }
        let snapshot = self.repository.snapshot()?;
        let indexed = ingest.resolve(Some(&snapshot), &self.progress).map_err(|error| refuse(&error))?;
        self.progress.finish();
        std::io::stderr().write_all(&indexed.found().warnings).map_err(Fatal::new)?;
        let level = loose_compression(self.repository.config())?;
        let mut batch = LooseBatch::new(self.repository.object_dir(), snapshot, level, self.policy);
        if unpack(&indexed, &mut batch, &self.progress)? {
            batch.publish()?;
        } else {
            indexed.publish(&PublishOptions::of(self.repository.config())?)?;
        }
        self.progress.finish();
        Ok(rest)
    }

    /// Stores what can be read.
    fn recover(&self, input: &mut Input) -> Result<Vec<u8>, Fatal> {
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
        let data = file.map()?;
        let Salvaged { errors, fatal, end } = salvage(&data, &self.repository, self.args.dry_run)?;
        for error in &errors {
            eprintln!("error: {error}");
        }
        match fatal {
            Some(fatal) => Err(Fatal::new(fatal)),
            None if !errors.is_empty() => Err(Fatal::silent(1)),
            None => Ok(data[end..].to_vec()),
        }
    }

    /// A temporary that the pack waits in.
    fn writer(&self) -> Result<PackWriter, Fatal> {
        let dir = self.repository.object_dir().join("pack");
        Ok(PackWriter::receive(&dir, self.options.hash, self.policy)?)
    }
}

/// Takes bytes until the pack is over. Gives back what came with the last of them and does not belong to it.
fn feed(ingest: &mut Ingest, input: &mut Input) -> Result<Vec<u8>, Fatal> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let length = input.read(&mut buffer)?;
        if length == 0 {
            return Err(Fatal::new("early EOF"));
        }
        let taken = ingest.push(&buffer[..length]).map_err(|error| refuse(&error))?;
        if ingest.is_complete() {
            return Ok(buffer[taken..length].to_vec());
        }
    }
}

fn refuse(error: &ingest::Error) -> Fatal {
    // Nobody is left to be told if this fails.
    let _ = std::io::stderr().write_all(error.lines());
    match error.of_unpacking() {
        Unpacking::BadObject(words) => Fatal::error(words),
        Unpacking::Fatal(words) => Fatal::new(words),
    }
}

/// `--pack_header=VERSION,OBJECTS`, as `strtoul` reads numbers.
fn parse_pack_header(text: &str) -> Result<Vec<u8>, Fatal> {
    let number = |digits: &str| digits.parse::<u32>().ok();
    let numbers =
        text.split_once(',').and_then(|(version, objects)| Some((number(version)?, number(objects)?)));
    let (version, objects) = numbers.ok_or_else(|| Fatal::new(format!("bad --pack_header={text}")))?;
    Ok([&b"PACK"[..], &version.to_be_bytes(), &objects.to_be_bytes()].concat())
}
