//! `git show-ref`: lists refs and their objects.

use std::io::{BufRead as _, BufReader};
use std::ops::ControlFlow;
use std::sync::Arc;

use packrace_object::{ObjectId, StoredId, oid};
use packrace_store::refs::{NameRange, Peeled, StoredObjects, Target, is_good_name, is_safe_name};
use packrace_store::{Repository, SkippedRefs, Snapshot};

use crate::call::Call;
use crate::call::discovery::{repository, with_refs};
use crate::call::fatal::Fatal;
use crate::options::ShowRefOptions;

/// Output is written in pieces of at least this size.
const PIECE_BYTES: usize = 256 << 10;

/// Exit code if a ref does not exist.
const NO_SUCH_REF: u8 = 2;

/// Implements `git show-ref`.
pub fn run(call: &Call, args: &ShowRefOptions) -> Result<(), Fatal> {
    let excludes = args.exclude_existing.is_some();
    for (is_asked, names) in [
        (excludes && args.verify && args.exists, "'--exclude-existing', '--verify', and '--exists'"),
        (excludes && args.verify, "'--exclude-existing' and '--verify'"),
        (excludes && args.exists, "'--exclude-existing' and '--exists'"),
        (args.verify && args.exists, "'--verify' and '--exists'"),
    ] {
        if is_asked {
            return Err(Fatal::new(format!("options {names} cannot be used together")));
        }
    }
    let repository = with_refs(repository(call)?)?;
    let patterns: Vec<&[u8]> = args.patterns.iter().map(|pattern| pattern.as_encoded_bytes()).collect();
    if let Some(prefix) = &args.exclude_existing {
        return exclude_existing(call, &repository, prefix.as_encoded_bytes());
    }
    if args.exists {
        return exists(call, &repository, &patterns);
    }
    let mut listing = ShowRefListing::new(call, &repository, args)?;
    if args.verify {
        return listing.verify(&patterns);
    }
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
    listing.list(&patterns)
}

fn exists(call: &Call, repository: &Repository, names: &[&[u8]]) -> Result<(), Fatal> {
    let [name] = names else {
        let how_many = if names.is_empty() { "a" } else { "exactly one" };
        return Err(Fatal::new(format!("--exists requires {how_many} reference")));
    };
    check_existence(call, repository, name)
}

/// Fails if there is no ref of this name.
pub fn check_existence(call: &Call, repository: &Repository, name: &[u8]) -> Result<(), Fatal> {
    let found = repository.refs().exists(name);
    match found.map_err(|error| if error.ends_all() { Fatal::new(error) } else { Fatal::error(error) })? {
        true => Ok(()),
        false => {
            error_line!(call, "error: reference does not exist");
            Err(Fatal::silent(NO_SUCH_REF))
        }
    }
}

/// Repeats lines of standard input whose last word is a ref that does not exist.
fn exclude_existing(call: &Call, repository: &Repository, prefix: &[u8]) -> Result<(), Fatal> {
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
    let refs = repository.refs().snapshot(&[]).map_err(Fatal::new)?;
    let mut output = OutputLines::new(call);
    for line in BufReader::new(call.streams.input()).split(b'\n') {
        let line = line.map_err(Fatal::new)?;
        let line = line.strip_suffix(b"^{}").unwrap_or(&line);
        let start = line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let name = &line[start..];
        if !name.starts_with(prefix) {
            continue;
        }
        if !is_good_name(name) || !name.contains(&b'/') {
            error_line!(call, "warning: ref '{}' ignored", String::from_utf8_lossy(name));
            continue;
        }
        let is_there = name.starts_with(b"refs/") && refs.resolve(name).map_err(Fatal::new)?.is_some();
        if !is_there {
            output.line(&[line])?;
        }
    }
    output.flush()
}

struct ShowRefListing<'a> {
    args: &'a ShowRefOptions,
    repository: &'a Repository,
    snapshot: Arc<Snapshot>,
    objects: StoredObjects,
    /// Minimum number of digits; `None` for full names.
    digits: Option<usize>,
    output: OutputLines<'a>,
}

impl<'a> ShowRefListing<'a> {
    fn new(call: &'a Call, repository: &'a Repository, args: &'a ShowRefOptions) -> Result<Self, Fatal> {
        let snapshot = repository.snapshot()?;
        let digits = match args.abbrev.or(args.hash) {
            None => None,
            Some(i64::MIN) => Some(snapshot.usual_digits(repository.config())?),
            // As in git, it is a number of 32 bits, and a negative one counts as a small one.
            Some(digits) => match digits as i32 {
                0 => None,
                digits => Some(usize::try_from(digits).unwrap_or(0).max(MIN_DIGITS)),
            },
        };
        let objects = StoredObjects::new(&snapshot);
        Ok(ShowRefListing { args, repository, snapshot, objects, digits, output: OutputLines::new(call) })
    }

    fn verify(&mut self, names: &[&[u8]]) -> Result<(), Fatal> {
        if names.is_empty() {
            return Err(Fatal::new("--verify requires a reference"));
        }
        for name in names {
            let found = match is_safe_name(name) {
                true => self.repository.refs().resolve(name).map_err(Fatal::new)?,
                false => None,
            };
            match found {
                Some(found) => self.show(name, &found.id, Peeled::Unknown)?,
                None if self.args.quiet => return Err(Fatal::silent(1)),
                None => {
                    self.output.flush()?;
                    let name = String::from_utf8_lossy(name);
                    return Err(Fatal::new(format!("'{name}' - not a valid ref")));
                }
            }
        }
        self.output.flush()
    }

    fn list(&mut self, patterns: &[&[u8]]) -> Result<(), Fatal> {
        let mut has_found = false;
        let refs = self.repository.refs().snapshot(&[]).map_err(Fatal::new)?;
        let mut skipped = SkippedRefs::of(self.repository)?;
        if self.args.head
            && let Some(head) = refs.resolve(b"HEAD").map_err(Fatal::new)?
        {
            self.show(b"HEAD", &head.id, Peeled::Unknown)?;
            has_found = true;
        }
        let all: &[&[u8]] = match (self.args.branches, self.args.tags) {
            (false, false) => &[b"refs/"],
            (true, false) => &[b"refs/heads/"],
            (false, true) => &[b"refs/tags/"],
            (true, true) => &[b"refs/heads/", b"refs/tags/"],
        };
        let null = ObjectId::null(self.repository.hash_kind());
        let skips_broken = self.repository.skips_broken_refs();
        let is_packed = |name: &[u8]| is_good_name(name) && refs.is_packed(name);
        for prefix in all {
            let mut result = Ok(());
            let range = NameRange::of_prefix(prefix);
            let visited = refs.visit_with_broken(&range, StoredId::from(&null), |record| {
                if !patterns.is_empty() && !patterns.iter().any(|pattern| matches(pattern, record.name)) {
                    return ControlFlow::Continue(());
                }
                let found = match record.target {
                    // Git does not tell of those that it refuses if they are to be left out.
                    Target::Direct { id, .. } if id.is_null() && skips_broken && !is_packed(record.name) => {
                        Ok(None)
                    }
                    Target::Direct { id, peeled } => Ok(Some((id.to_id(), peeled.to_id()))),
                    Target::Symbolic(_) => {
                        let found = refs.resolve(record.name);
                        found.map(|found| found.map(|found| (found.id, Peeled::Unknown)))
                    }
                };
                result = match found {
                    Ok(None) => Ok(()),
                    Ok(Some((id, peeled))) => match skipped.has(record.name, &id) {
                        Ok(true) => Ok(()),
                        Ok(false) => {
                            has_found = true;
                            self.show(record.name, &id, peeled)
                        }
                        Err(error) => Err(error.into()),
                    },
                    Err(error) => Err(Fatal::new(error)),
                };
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            // As in git, those before what cannot be read are shown.
            if visited.is_err() || result.is_err() {
                self.output.flush()?;
            }
            visited.map_err(Fatal::new)?;
            result?;
        }
        self.output.flush()?;
        if has_found { Ok(()) } else { Err(Fatal::silent(1)) }
    }

    fn show(&mut self, name: &[u8], id: &oid, peeled: Peeled) -> Result<(), Fatal> {
        if !self.snapshot.contains(id)? {
            self.output.flush()?;
            let name = String::from_utf8_lossy(name);
            return Err(Fatal::new(format!("git show-ref: bad ref {name} ({id})")));
        }
        if self.args.quiet {
            return Ok(());
        }
        let hex = self.digits(id)?;
        match self.args.hash {
            Some(_) => self.output.line(&[&hex])?,
            None => self.output.line(&[&hex, b" ", name])?,
        }
        if !self.args.dereference {
            return Ok(());
        }
        let peeled = match peeled {
            Peeled::NotATag => None,
            Peeled::To(id) => Some(id),
            Peeled::Unknown => match self.objects.end_of(id) {
                Ok(end) => {
                    end.report();
                    end.shown()
                }
                Err(error) => {
                    // As in git, a damaged object is told of, and not peeled.
                    let Some((lines, _)) = error.in_git_words() else { return Err(error.into()) };
                    lines.lines().for_each(|line| tracing::error!("{}", line.trim_start_matches("error: ")));
                    None
                }
            },
        };
        if let Some(peeled) = peeled {
            let hex = self.digits(&peeled)?;
            self.output.line(&[&hex, b" ", name, b"^{}"])?;
        }
        Ok(())
    }

    fn digits(&self, id: &oid) -> Result<Vec<u8>, Fatal> {
        let mut hex = id.to_hex().to_string().into_bytes();
        if let Some(digits) = self.digits {
            hex.truncate(self.snapshot.unique_digits(id, digits)?);
        }
        Ok(hex)
    }
}

/// Minimum of abbreviated digits.
const MIN_DIGITS: usize = 4;

/// Whether `name` ends with `pattern`, at a component boundary.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match name.strip_suffix(pattern) {
        Some(before) => before.is_empty() || before.ends_with(b"/"),
        None => false,
    }
}

/// Buffers lines for standard output, written in large pieces.
struct OutputLines<'a> {
    call: &'a Call,
    bytes: Vec<u8>,
}

impl<'a> OutputLines<'a> {
    fn new(call: &'a Call) -> Self {
        OutputLines { call, bytes: Vec::new() }
    }

    fn line(&mut self, parts: &[&[u8]]) -> Result<(), Fatal> {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(b'\n');
        if self.bytes.len() < PIECE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Fatal> {
        let result = self.call.write(&self.bytes);
        self.bytes.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_ends_of_whole_words() {
        let check = |pattern: &str, name: &str, expect| {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expect, "{pattern} {name}");
        };
        check("main", "refs/heads/main", true);
        check("heads/main", "refs/heads/main", true);
        check("refs/heads/main", "refs/heads/main", true);
        check("ain", "refs/heads/main", false);
        check("", "refs/heads/main", false);
        check("main", "main/x", false);
    }
}
