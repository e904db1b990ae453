//! `git commit-tree`: makes a commit from a tree.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use packrace_object::{Kind, NewCommit, ObjectId, object_id};
use packrace_store::publish::{BatchOptions, ObjectBatch};
use packrace_store::{Config, ObjectReader, Repository, cache_bytes};

use crate::call::Call;
use crate::call::discovery::{repository_with_replacements, with_refs};
use crate::call::fatal::Fatal;
use crate::call::identity::Role;
use crate::options::{CommitPart, CommitTreeOptions};
use crate::revisions::{Expected, Revisions};
use crate::text::utf8;
use crate::work_tree::path_from_top;

/// Warning about a message that should be UTF-8 and is not.
const NOT_UTF8: &str = "Warning: commit message did not conform to UTF-8.\n\
    You may want to amend it after fixing the message, or set the config\n\
    variable i18n.commitEncoding to the encoding your project uses.";

/// Implements `git commit-tree`.
pub fn run(call: &Call, args: &CommitTreeOptions) -> Result<(), Fatal> {
    let repository = with_refs(repository_with_replacements(call)?)?;
    let config = repository.config();
    let snapshot = repository.snapshot()?;
    let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
    let mut revisions = Revisions::new(call, &repository, &snapshot);
    let Parts { parents, mut message } = parts(call, &repository, (&mut revisions, &mut reader), args)?;
    let [tree] = args.trees.as_slice() else { return Err(Fatal::new("must give exactly one tree")) };
    let tree = named(&mut revisions, tree, Expected::Tree)?;
    if message.is_empty() {
        call.streams.input().read_to_end(&mut message).map_err(Fatal::new)?;
    }
    if message.contains(&0) {
        return Err(Fatal::error("a NUL byte in commit log message not allowed."));
    }
    expect(&mut reader, &tree, Kind::Tree)?;
    let person = |role| call.environment.person(role).known(role, config);
    let (author, committer, encoding) = (person(Role::Author)?, person(Role::Committer)?, encoding(config));
    let commit = NewCommit {
        tree: &tree,
        parents: &parents,
        author: &author,
        committer: &committer,
        encoding: encoding.as_deref(),
        message: &message,
    };
    let mut content = commit.encode();
    if encoding.is_none()
        && let Some(mended) = utf8::mended(&content)
    {
        error_line!(call, "{NOT_UTF8}");
        content = mended;
    }
    let id = object_id(repository.hash_kind(), Kind::Commit, &content).map_err(Fatal::new)?;
    let batch = ObjectBatch::new(repository.object_dir(), snapshot, BatchOptions::of(config)?);
    batch.add(&id, Kind::Commit, &content)?;
    batch.publish()?;
    call.write_line(id.to_string())
}

/// Only reads what `-p`, `-m` and `-F` name.
pub fn check(call: &Call, args: &CommitTreeOptions) -> Result<(), Fatal> {
    let repository = with_refs(repository_with_replacements(call)?)?;
    let snapshot = repository.snapshot()?;
    let mut reader = snapshot.reader(cache_bytes::FEW_OBJECTS);
    let mut revisions = Revisions::new(call, &repository, &snapshot);
    parts(call, &repository, (&mut revisions, &mut reader), args).map(drop)
}

struct Parts {
    parents: Vec<ObjectId>,
    message: Vec<u8>,
}

/// What `-p`, `-m` and `-F` name, in the order in which they were typed.
fn parts(
    call: &Call,
    repository: &Repository,
    (revisions, reader): (&mut Revisions<'_>, &mut ObjectReader),
    args: &CommitTreeOptions,
) -> Result<Parts, Fatal> {
    let (mut parents, mut message) = (Vec::new(), Vec::new());
    for part in &args.parts {
        match part {
            CommitPart::Parent(name) => {
                let id = named(revisions, name, Expected::Commit)?;
                expect(reader, &id, Kind::Commit)?;
                match parents.contains(&id) {
                    true => error_line!(call, "error: duplicate parent {id} ignored"),
                    false => parents.push(id),
                }
            }
            CommitPart::Text(text) => add_text(&mut message, text),
            CommitPart::File(path) => add_file(&mut message, call, repository, path)?,
        }
    }
    Ok(Parts { parents, message })
}

fn named(revisions: &mut Revisions<'_>, name: &OsStr, expected: Expected) -> Result<ObjectId, Fatal> {
    let found = revisions.resolve_as(name.as_encoded_bytes(), expected)?;
    found.ok_or_else(|| Fatal::new(format!("not a valid object name {}", name.to_string_lossy())))
}

fn expect(reader: &mut ObjectReader, id: &ObjectId, kind: Kind) -> Result<(), Fatal> {
    match reader.kind(id)? {
        None => Err(Fatal::new(format!("{id} is not a valid object"))),
        Some(found) if found != kind => Err(Fatal::new(format!("{id} is not a valid '{kind}' object"))),
        Some(_) => Ok(()),
    }
}

/// Adds a paragraph, which gets a final newline; an empty line separates it from what is there.
fn add_text(message: &mut Vec<u8>, text: &OsStr) {
    separate(message);
    message.extend_from_slice(text.as_encoded_bytes());
    if !message.is_empty() && !message.ends_with(b"\n") {
        message.push(b'\n');
    }
}

/// Adds a file as it is. As in git, files are named from the top of the work tree.
fn add_file(message: &mut Vec<u8>, call: &Call, repository: &Repository, path: &Path) -> Result<(), Fatal> {
    separate(message);
    if path == Path::new("-") {
        call.streams.input().read_to_end(message).map_err(Fatal::new)?;
        return Ok(());
    }
    let (shown, reason) = (path.display(), packrace_os::reason);
    let mut file = std::fs::File::open(path_from_top(repository, call, path)?)
        .map_err(|error| Fatal::new(format!("could not open '{shown}' for reading: {}", reason(&error))))?;
    file.read_to_end(message).map_err(|error| {
        Fatal::new(format!("git commit-tree: failed to read '{shown}': {}", reason(&error)))
    })?;
    Ok(())
}

fn separate(message: &mut Vec<u8>) {
    if !message.is_empty() {
        message.push(b'\n');
    }
}

/// The encoding of messages, unless it is UTF-8.
pub(crate) fn encoding(config: &Config) -> Option<Vec<u8>> {
    let configured = config.string("i18n.commitEncoding")?;
    let is_utf8 = configured.eq_ignore_ascii_case(b"UTF-8") || configured.eq_ignore_ascii_case(b"UTF8");
    (!is_utf8).then_some(configured)
}
