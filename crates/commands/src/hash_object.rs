//! `git hash-object`: computes object names of files, and stores the objects.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_object::fsck::{Checker, Rules, Severities, SkipList};
use packrace_object::{HashKind, Kind, ObjectId, object_id};
use packrace_store::publish::{BatchOptions, ObjectBatch, StreamError, name_blob_stream};
use packrace_store::{BIG_FILE_BYTES, Repository, Snapshot, unquote_line};
use packrace_worktree::filter::{Direction, Filters, Purpose};

use crate::call::Call;
use crate::call::discovery::{in_directory, none_found, repository, repository_if_known};
use crate::call::fatal::Fatal;
use crate::hooks::variables_of_filters;
use crate::options::HashObjectOptions;
use crate::revisions::with_attribute_tree;
use crate::work_tree::{WorkTree, path_from_top_of};

/// Read size for standard input and large files.
const READ_BYTES: usize = 1 << 16;

/// Implements `git hash-object`.
pub fn run(call: &Call, args: &HashObjectOptions) -> Result<(), Fatal> {
    let stdin = args.stdin;
    let refusal = match args.stdin_paths {
        true if stdin > 0 => Some("Can't use --stdin-paths with --stdin"),
        true if !args.files.is_empty() => Some("Can't specify files with --stdin-paths"),
        true if args.path.is_some() => Some("Can't use --stdin-paths with --path"),
        false if stdin > 1 => Some("Multiple --stdin arguments are not supported"),
        false if args.path.is_some() && args.no_filters => Some("Can't use --path with --no-filters"),
        _ => None,
    };
    if let Some(refusal) = refusal {
        return Err(Fatal::refused(refusal).with_usage_of("hash-object"));
    }
    let found = match args.write {
        true => Some(repository(call)?),
        false => repository_if_known(call)?,
    };
    let found = found.map(|found| with_attribute_tree(call, found)).transpose()?;
    let mut hashing = Hashing::new(call, args, found.as_ref())?;
    let done = hashing.everything(stdin > 0);
    // Objects that were named before an error are stored.
    hashing.publish()?;
    done
}

struct Hashing<'a> {
    call: &'a Call,
    args: &'a HashObjectOptions,
    repository: Option<&'a Repository>,
    /// As if the current directory were its top.
    work_tree: Option<WorkTree>,
    /// The current directory in it.
    prefix: Vec<u8>,
    hash: HashKind,
    snapshot: Option<Arc<Snapshot>>,
    filters: Option<Filters>,
    big_file_bytes: u64,
    batch: Option<ObjectBatch>,
    /// Object names to print after the objects are stored.
    waiting: Vec<u8>,
}

impl<'a> Hashing<'a> {
    fn new(
        call: &'a Call,
        args: &'a HashObjectOptions,
        repository: Option<&'a Repository>,
    ) -> Result<Self, Fatal> {
        let mut work_tree = match repository {
            Some(repository) => WorkTree::find(repository, call)?,
            None => None,
        };
        let prefix = work_tree.as_mut().map(|tree| std::mem::take(&mut tree.prefix)).unwrap_or_default();
        let big_file_bytes = match repository {
            Some(repository) => repository.config().big_file_bytes()?,
            None => BIG_FILE_BYTES,
        };
        let snapshot = repository.map(Repository::snapshot).transpose()?;
        Ok(Hashing {
            call,
            args,
            repository,
            work_tree,
            prefix,
            hash: repository.map_or(HashKind::Sha1, Repository::hash_kind),
            snapshot,
            filters: None,
            big_file_bytes,
            batch: None,
            waiting: Vec::new(),
        })
    }

    /// The kind of all objects. As in git, a wrong one is an error only if there is something to hash.
    fn kind(&self) -> Result<Kind, Fatal> {
        let kind = Kind::from_name(self.args.kind.as_bytes());
        kind.ok_or_else(|| Fatal::new(format!("invalid object type \"{}\"", self.args.kind)))
    }

    fn everything(&mut self, reads_stdin: bool) -> Result<(), Fatal> {
        if self.args.stdin_paths {
            return self.paths_of_stdin();
        }
        if reads_stdin {
            let mut content = Vec::new();
            self.call.streams.input().read_to_end(&mut content).map_err(Fatal::new)?;
            let content = self.converted(self.typed_path().as_deref(), content)?;
            self.content(&content, None)?;
        }
        for file in &self.args.files {
            self.file(&self.prefixed(file.as_encoded_bytes()))?;
        }
        Ok(())
    }

    /// A path of the command line, named from where git goes.
    fn prefixed(&self, typed: &[u8]) -> Vec<u8> {
        match typed.first() {
            None | Some(b'/') => typed.to_vec(),
            Some(_) => [&self.prefix, typed].concat(),
        }
    }

    /// `--path`.
    fn typed_path(&self) -> Option<Vec<u8>> {
        self.args.path.as_ref().map(|path| self.prefixed(path.as_encoded_bytes()))
    }

    /// Publishes before it blocks: the caller may wait for one name before it sends the next path.
    fn paths_of_stdin(&mut self) -> Result<(), Fatal> {
        let mut stdin = BufReader::with_capacity(READ_BYTES, self.call.streams.input());
        let mut line = Vec::new();
        loop {
            if !stdin.buffer().contains(&b'\n') {
                self.publish()?;
            }
            line.clear();
            if stdin.read_until(b'\n', &mut line).map_err(Fatal::new)? == 0 {
                return Ok(());
            }
            let text = line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(&line);
            let path = unquote_line(text).ok_or_else(|| Fatal::new("line is badly quoted"))?;
            self.file(&path)?;
        }
    }

    /// A file that is named from where git goes.
    fn file(&mut self, name: &[u8]) -> Result<(), Fatal> {
        use std::os::unix::ffi::OsStrExt as _;
        let shown = String::from_utf8_lossy(name).into_owned();
        let cannot_open = |error: std::io::Error| {
            Fatal::new(format!("could not open '{shown}' for reading: {}", packrace_os::reason(&error)))
        };
        let path = Path::new(std::ffi::OsStr::from_bytes(name));
        let path = match name.is_empty() {
            true => PathBuf::new(),
            false => path_from_top_of(self.work_tree.as_ref(), self.call, path)?,
        };
        let mut file = File::open(&path).map_err(cannot_open)?;
        // Git knows the name only where filters need it.
        let shown = match self.typed_path() {
            _ if self.args.no_filters => "(null)".to_owned(),
            Some(typed) => String::from_utf8_lossy(&typed).into_owned(),
            None => shown,
        };
        let unable = |_: std::io::Error| unable(self.args.write, &shown);
        let size = file.metadata().map_err(unable)?;
        let name = (!self.args.no_filters).then(|| self.typed_path().unwrap_or_else(|| name.to_vec()));
        let is_big = size.is_file() && size.len() > self.big_file_bytes;
        if self.kind()? == Kind::Blob && is_big && self.is_plain(name.as_deref())? {
            return self.large(&mut file, size.len(), &shown);
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(unable)?;
        let content = self.converted(name.as_deref(), content)?;
        self.content(&content, Some(&shown))
    }

    /// Whether the file's content is stored without conversion.
    fn is_plain(&mut self, name: Option<&[u8]>) -> Result<bool, Fatal> {
        let Some(name) = name.filter(|_| self.repository.is_some()) else { return Ok(true) };
        let path = self.path_of(name);
        let mut messages = Vec::new();
        let needs_content = self.filters()?.needs_content(&path, &nothing_staged, &mut messages);
        Ok(!needs_content.map_err(Fatal::new)?)
    }

    /// The content as git stores it; unchanged if there is no name or the object is no blob.
    fn converted(&mut self, name: Option<&[u8]>, content: Vec<u8>) -> Result<Vec<u8>, Fatal> {
        let is_blob = self.kind()? == Kind::Blob;
        let Some(name) = name.filter(|_| is_blob && !self.args.no_filters && self.repository.is_some())
        else {
            return Ok(content);
        };
        let path = self.path_of(name);
        let purpose = if self.args.write { Purpose::Store } else { Purpose::Compare };
        let mut messages = Vec::new();
        let converted = self.filters()?.to_git(&path, &content, purpose, &nothing_staged, &mut messages);
        let converted = converted.map(|converted| match converted {
            Cow::Borrowed(_) => None,
            Cow::Owned(converted) => Some(converted),
        });
        messages.iter().for_each(|line| error_line!(self.call, "{line}"));
        Ok(converted.map_err(Fatal::new)?.unwrap_or(content))
    }

    /// A path relative to the top; a path outside the work tree as it was typed.
    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let inside = self.work_tree.as_ref().and_then(|work_tree| work_tree.path(name).ok());
        inside.unwrap_or_else(|| name.strip_prefix(b"/").unwrap_or(name).to_vec())
    }

    fn filters(&mut self) -> Result<&mut Filters, Fatal> {
        if self.filters.is_none() {
            let (Some(repository), Some(snapshot)) = (self.repository, &self.snapshot) else {
                return Err(none_found(self.call));
            };
            let top = match &self.work_tree {
                Some(work_tree) => work_tree.top.clone(),
                None => in_directory(self.call, Path::new("."))?,
            };
            repository.check_attributes()?;
            let mut messages = Vec::new();
            let filters = Filters::new(repository, snapshot, &top, Direction::CheckIn, &mut messages);
            messages.iter().for_each(|line| error_line!(self.call, "{line}"));
            let filters = filters.map_err(Fatal::new)?;
            let top = self.work_tree.as_ref().map(|work_tree| work_tree.top.as_path());
            filters.set_variables(&variables_of_filters(self.call, repository, top, &self.prefix));
            self.filters = Some(filters);
        }
        Ok(self.filters.as_mut().expect("just made"))
    }

    fn content(&mut self, content: &[u8], shown: Option<&str>) -> Result<(), Fatal> {
        let kind = self.kind()?;
        let id = object_id(self.hash, kind, content).map_err(Fatal::new)?;
        if !self.args.literally {
            self.check(kind, &id, content)?;
        }
        if self.args.write {
            let added = self.batch()?.add(&id, kind, content);
            added.map_err(|error| {
                error_line!(self.call, "error: {error}");
                unable(true, shown.unwrap_or("(null)"))
            })?;
        }
        self.name(&id)
    }

    /// Refuses content that is not valid for its kind.
    fn check(&self, kind: Kind, id: &ObjectId, content: &[u8]) -> Result<(), Fatal> {
        if kind == Kind::Blob {
            return Ok(());
        }
        let rules = Rules { severities: Severities::strict(), skip: SkipList::default() };
        let findings = Checker::new(Arc::new(rules), self.hash).check(kind, id, content);
        for finding in &findings {
            if let Some(before) = finding.before {
                error_line!(self.call, "error: {before}");
            }
            let text = String::from_utf8_lossy(&finding.text);
            error_line!(self.call, "error: object fails fsck: {}: {text}", finding.message.name());
        }
        match findings.is_empty() {
            true => Ok(()),
            false => Err(Fatal::new("refusing to create malformed object")),
        }
    }

    fn large(&mut self, file: &mut File, size: u64, shown: &str) -> Result<(), Fatal> {
        let writes = self.args.write;
        let unable = || unable(writes, shown);
        let id = if writes {
            self.batch()?.add_blob_stream(size, file).map_err(|error| {
                error_line!(self.call, "error: {error}");
                unable()
            })?
        } else {
            name_blob_stream(self.hash, size, file).map_err(|error| match error {
                StreamError::Attack(attack) => Fatal::new(attack),
                StreamError::Source(_) | StreamError::Store(_) => unable(),
            })?
        };
        self.name(&id)
    }

    fn batch(&mut self) -> Result<&ObjectBatch, Fatal> {
        if self.batch.is_none() {
            let repository = self.repository.expect("there is one where objects are stored");
            // The snapshot must contain what the last batch stored.
            let snapshot = repository.snapshot()?;
            let options = BatchOptions::of(repository.config())?;
            self.batch = Some(ObjectBatch::new(repository.object_dir(), snapshot, options));
        }
        Ok(self.batch.as_ref().expect("just made"))
    }

    /// Prints the name of an object, once the object is stored.
    fn name(&mut self, id: &ObjectId) -> Result<(), Fatal> {
        self.waiting.extend_from_slice(format!("{id}\n").as_bytes());
        if self.args.write { Ok(()) } else { self.publish() }
    }

    fn publish(&mut self) -> Result<(), Fatal> {
        if let Some(batch) = self.batch.take() {
            batch.publish()?;
        }
        let written = self.call.write(&self.waiting);
        self.waiting.clear();
        written
    }
}

/// The index, which git does not read here.
fn nothing_staged(_: &[u8]) -> Option<ObjectId> {
    None
}

fn unable(writes: bool, shown: &str) -> Fatal {
    match writes {
        true => Fatal::new(format!("Unable to add {shown} to database")),
        false => Fatal::new(format!("Unable to hash {shown}")),
    }
}
