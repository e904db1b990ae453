//! Lists refs by patterns and properties, sorted and formatted, for `for-each-ref` and similar commands.
//!
//! [`list`] is the entry point. If refs are printed in stored order, each is written immediately; otherwise
//! they are collected first. What no field asks for is not read: a format of names opens no object.

mod argument;
mod atom;
mod calendar;
mod color;
mod commits;
mod context;
mod dates;
mod describe;
mod describe_form;
mod fields;
mod filter;
mod format;
mod history;
mod human;
mod is_base;
mod item;
mod local_time;
mod log_format;
mod mailmap;
mod message;
mod names;
mod objects;
mod quote;
mod signatures;
mod sort;
mod strftime;
mod trailer_rules;
mod trailers;
mod version;
mod worktrees;

use std::io::Write;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

use packrace_object::ObjectId;
use packrace_store::refs::{Peeled, RefRecord, RefSnapshot, Target, Value};
use packrace_store::{Repository, SkippedRefs};

use self::atom::{Atom, Field, NameForm};
pub use self::commits::{CommitFilter, CommitFilterOptions};
use self::context::ParseContext;
pub use self::dates::DateFormat;
pub use self::fields::Values;
use self::filter::Patterns;
use self::format::{Format, FormatError};
use self::item::RefItem;
pub use self::log_format::{LogFormat, LogStyle, ShownEntry};
use self::mailmap::MappedCreators;
pub use self::message::moment;
pub use self::names::shorten;
pub use self::objects::ListedObjects;
pub use self::quote::Quoting;
use self::sort::{KeyValue, SortKey, Sorting};
use crate::call::fatal::Fatal;
use crate::call::streams::not_written;

/// The default format.
pub const DEFAULT_FORMAT: &[u8] = b"%(objectname) %(objecttype)\t%(refname)";

/// Output is written in pieces of at least this size.
const WRITE_BYTES: usize = 256 << 10;

/// The refs to list, and how.
#[derive(Debug, Default)]
pub struct ListingRequest {
    /// If not empty, refs must match one of these.
    pub patterns: Vec<Vec<u8>>,
    /// Their names must come after this.
    pub after: Option<Vec<u8>>,
    /// Refs must match none of these.
    pub excluded: Vec<Vec<u8>>,
    pub folds_case: bool,
    /// Whether to list `HEAD` and other refs outside `refs/` too.
    pub has_root_refs: bool,
    pub sort: Vec<Vec<u8>>,
    pub format: Option<Vec<u8>>,
    pub quoting: Quoting,
    pub has_color: bool,
    /// Whether to omit lines whose formatted text is empty.
    pub omits_empty: bool,
    /// Maximum number of refs.
    pub count: Option<usize>,
}

/// Writes the listing to standard output, and warnings to standard error. The exit code of an error is git's.
pub fn list(
    objects: &ListedObjects<'_>,
    commits: &CommitFilter,
    request: &ListingRequest,
) -> Result<(), Fatal> {
    let (call, repository) = (objects.call, objects.repository);
    let mut context =
        ParseContext { is_terminal: call.streams.output().is_terminal(), ..ParseContext::default() };
    let format = parse_format(request, &mut context)?;
    let keys = request.sort.iter().map(|key| SortKey::parse(key, &mut context));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    let sorting = Sorting::new(keys, request.folds_case, repository.config());
    let patterns = Patterns::new(&request.patterns, request.folds_case);
    let needs_all = !commits.is_empty() || needs_other_refs(&format, &sorting);
    let prefixes = patterns.prefixes();
    let borrowed: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
    let prefixes_read: &[&[u8]] = if needs_all { &[] } else { &borrowed };
    let refs = repository.refs().snapshot(prefixes_read).map_err(Fatal::new)?;
    let refs = if repository.skips_broken_refs() { refs } else { refs.reporting(&borrowed) };
    let listing = RefListing {
        repository,
        request,
        refs: &refs,
        prefixes: &prefixes,
        excluded: Patterns::new(&request.excluded, request.folds_case),
        patterns,
        format: &format,
        limit: request.count.unwrap_or(usize::MAX),
    };
    let mut values = Values::new(call, objects, &refs);
    values.mapped_creators = MappedCreators::of(atoms(&format, &sorting));
    let mut out = call.streams.output();
    let mut output = ListingOutput { bytes: Vec::with_capacity(WRITE_BYTES), to: &mut **out };
    let listed =
        if sorting.is_stored_order() && commits.is_empty() && context.is_empty() && !request.has_root_refs {
            listing.write_as_stored(&mut values, &mut output)
        } else {
            listing.write_sorted((commits, &sorting), context, &mut values, &mut output)
        };
    // As in git, where nothing is held back unless there is something to sort by.
    if listed.is_err() && request.sort.is_empty() {
        output.flush()?;
    }
    listed.and_then(|()| output.flush())
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

fn parse_format(request: &ListingRequest, context: &mut ParseContext) -> Result<Format, Fatal> {
    let text = request.format.as_deref().unwrap_or(DEFAULT_FORMAT);
    let format = Format::parse(text, request.has_color, context).map_err(|error| match error {
        FormatError::Malformed(rest) => {
            Fatal::refused(format!("malformed format string {}", String::from_utf8_lossy(&rest)))
                .with_usage_of("for-each-ref")
        }
        FormatError::Fatal(fatal) => fatal,
    })?;
    let has_raw = format.atoms().any(|atom| atom.field == Field::Raw);
    let is_text_only = matches!(request.quoting, Quoting::Shell | Quoting::Python | Quoting::Tcl);
    if has_raw && is_text_only {
        return Err(Fatal::new("--format=raw cannot be used with --python, --shell, --tcl"));
    }
    Ok(format)
}

/// The atoms of a listing.
fn atoms<'a>(format: &'a Format, sorting: &'a Sorting) -> impl Iterator<Item = &'a Atom> {
    format.atoms().chain(sorting.keys.iter().map(|key| &key.atom))
}

/// Whether values depend on refs that are not listed.
fn needs_other_refs(format: &Format, sorting: &Sorting) -> bool {
    let is_short = |atom: &Atom| {
        matches!(
            atom.field,
            Field::RefName(NameForm::Short)
                | Field::Symref(NameForm::Short)
                | Field::Tracking { .. }
                | Field::Describe(_)
        )
    };
    atoms(format, sorting).any(is_short)
}

/// Buffered output.
struct ListingOutput<'a> {
    bytes: Vec<u8>,
    to: &'a mut dyn Write,
}

impl ListingOutput<'_> {
    fn flush(&mut self) -> Result<(), Fatal> {
        let written = self.to.write_all(&self.bytes).and_then(|()| self.to.flush());
        self.bytes.clear();
        written.map_err(not_written)
    }
}

/// The collected refs, with their names in one buffer.
#[derive(Debug, Default)]
pub struct Collected {
    names: Vec<u8>,
    refs: Vec<CollectedRef>,
}

#[derive(Debug, Clone)]
struct CollectedRef {
    name_at: usize,
    name_len: usize,
    id: ObjectId,
    peeled: Peeled,
    symref: Option<Box<[u8]>>,
}

impl Collected {
    fn push(&mut self, item: &RefItem<'_>) {
        let name_at = self.names.len();
        self.names.extend_from_slice(item.name);
        let symref = item.symref.map(Box::from);
        let (name_len, id, peeled) = (item.name.len(), item.id, item.peeled);
        self.refs.push(CollectedRef { name_at, name_len, id, peeled, symref });
    }

    fn items(&self) -> impl Iterator<Item = RefItem<'_>> {
        self.refs.iter().enumerate().map(|(number, found)| RefItem {
            name: &self.names[found.name_at..found.name_at + found.name_len],
            id: found.id,
            peeled: found.peeled,
            symref: found.symref.as_deref(),
            number,
        })
    }

    /// Keeps the refs whose flag in `is_kept` is set.
    fn retain(&mut self, is_kept: &[bool]) {
        let mut kept = is_kept.iter();
        self.refs.retain(|_| *kept.next().unwrap_or(&false));
    }
}

fn sort_collected(found: &mut Collected, sorting: &Sorting, values: &mut Values<'_>) -> Result<(), Fatal> {
    let mut keys: Vec<Vec<KeyValue>> = Vec::with_capacity(found.refs.len());
    for item in found.items() {
        let of_item = sorting.keys.iter().map(|key| values.key(&item, &key.atom));
        keys.push(of_item.collect::<Result<_, _>>()?);
    }
    let names: Vec<&[u8]> = found.items().map(|item| item.name).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    sort::sort(&mut order, &mut |a, b| sorting.compare((&keys[*a], names[*a]), (&keys[*b], names[*b])));
    values.reorder(&order);
    found.refs = order.into_iter().map(|number| found.refs[number].clone()).collect();
    Ok(())
}

/// One listing of refs.
struct RefListing<'a> {
    repository: &'a Repository,
    request: &'a ListingRequest,
    refs: &'a RefSnapshot,
    prefixes: &'a [Vec<u8>],
    patterns: Patterns,
    excluded: Patterns,
    format: &'a Format,
    limit: usize,
}

impl RefListing<'_> {
    fn write_as_stored(&self, values: &mut Values<'_>, output: &mut ListingOutput<'_>) -> Result<(), Fatal> {
        let mut left = self.limit;
        self.visit(&mut |item| {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            self.write(values, item, output)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    fn write_sorted(
        &self,
        (commits, sorting): (&CommitFilter, &Sorting),
        context: ParseContext,
        values: &mut Values<'_>,
        output: &mut ListingOutput<'_>,
    ) -> Result<(), Fatal> {
        let objects = values.objects;
        let mut found = self.collect()?;
        commits.apply(objects, &mut found)?;
        values.counts = history::count_all(objects, &found, &context.counted)?;
        values.bases = is_base::find_all(objects, &found, &context.derived)?;
        values.derived = context.derived;
        sort_collected(&mut found, sorting, values)?;
        found.items().take(self.limit).try_for_each(|item| self.write(values, &item, output))
    }

    fn collect(&self) -> Result<Collected, Fatal> {
        let mut found = Collected::default();
        if self.request.has_root_refs {
            for name in self.repository.refs().root_refs().map_err(Fatal::new)? {
                self.add_root(&name, &mut found)?;
            }
        }
        self.visit(&mut |item| {
            found.push(item);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    fn add_root(&self, name: &[u8], found: &mut Collected) -> Result<(), Fatal> {
        let Some(value) = self.repository.refs().read(name).map_err(Fatal::new)? else { return Ok(()) };
        let (id, symref) = match value {
            Value::Id(id) => (Some(id), None),
            Value::Symbolic(target) => {
                let end = self.refs.resolve(&target).map_err(Fatal::new)?;
                let target = names::symbolic_end(self.refs, &target)?.unwrap_or(target);
                (end.map(|end| end.id), Some(target))
            }
        };
        if let Some(id) = id.filter(|_| self.is_listed(name)) {
            found.push(&RefItem { name, id, peeled: Peeled::Unknown, symref: symref.as_deref(), number: 0 });
        }
        Ok(())
    }

    fn is_listed(&self, name: &[u8]) -> bool {
        let is_after = self.request.after.as_ref().is_none_or(|after| name > after.as_slice());
        is_after
            && (self.patterns.is_empty() || self.patterns.match_name(name))
            && !self.excluded.match_name(name)
    }

    /// Calls `each` for every matching ref below `refs/` that resolves to an object.
    fn visit(
        &self,
        each: &mut dyn FnMut(&RefItem<'_>) -> Result<ControlFlow<()>, Fatal>,
    ) -> Result<(), Fatal> {
        let mut result = Ok(ControlFlow::Continue(()));
        let mut skipped = SkippedRefs::of(self.repository)?;
        let mut each = |item: &RefItem<'_>| match skipped.has(item.name, &item.id)? {
            true => Ok(ControlFlow::Continue(())),
            false => each(item),
        };
        for prefix in self.prefixes {
            let mut each_record = |record: RefRecord<'_>| {
                if !self.is_listed(record.name) {
                    return ControlFlow::Continue(());
                }
                result = self.visit_one(&record, &mut each);
                match result {
                    Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            };
            self.refs.visit_with_null(prefix, &mut each_record).map_err(Fatal::new)?;
            if !matches!(result, Ok(ControlFlow::Continue(()))) {
                break;
            }
        }
        result.map(drop)
    }

    fn visit_one(
        &self,
        record: &RefRecord<'_>,
        each: &mut dyn FnMut(&RefItem<'_>) -> Result<ControlFlow<()>, Fatal>,
    ) -> Result<ControlFlow<()>, Fatal> {
        let name = record.name;
        match record.target {
            Target::Direct { id, peeled } => each(&RefItem { name, id, peeled, symref: None, number: 0 }),
            Target::Symbolic(_) => {
                // A dangling symbolic ref is left out, as in git.
                let Some(end) = self.refs.resolve(name).map_err(Fatal::new)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                let item =
                    RefItem { name, id: end.id, peeled: Peeled::Unknown, symref: Some(&end.name), number: 0 };
                each(&item)
            }
        }
    }

    fn write(
        &self,
        values: &mut Values<'_>,
        item: &RefItem<'_>,
        output: &mut ListingOutput<'_>,
    ) -> Result<(), Fatal> {
        let start = output.bytes.len();
        let mut value = |atom: &Atom, out: &mut Vec<u8>| values.write(item, atom, out);
        let written = self.format.write(self.request.quoting, &mut output.bytes, &mut value);
        if let Err(fatal) = written {
            // The part of a line is nobody's.
            output.bytes.truncate(start);
            return Err(fatal);
        }
        if output.bytes.len() > start || !self.request.omits_empty {
            output.bytes.push(b'\n');
        }
        if output.bytes.len() >= WRITE_BYTES {
            output.flush()?;
        }
        Ok(())
    }
}
