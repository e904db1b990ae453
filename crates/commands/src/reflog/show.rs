//! `git reflog show` and `git stash list`: entries of reflogs, with options of `git log`.

use std::ffi::OsString;

use packrace_object::Kind;
use packrace_store::expiry::expiry;
use packrace_store::refs::LoggedChange;
use packrace_store::{Config, ObjectReader, Repository, cache_bytes};
use packrace_worktree::filter::reencoded;

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::left_to_git::leave_log;
use crate::options::{LogOptions, ReflogShowOptions};
use crate::ref_filter::{self, DateFormat, ListedObjects, LogFormat, LogStyle, ShownEntry, Values, shorten};
use crate::revisions::{FirstEntry, current_branch, entry, first_entry, logged_name, ref_name, shown_count};

/// Output is written in pieces of at least this size.
const WRITE_BYTES: usize = 64 << 10;

/// A reflog, from its first entry to show on.
struct ShownLog {
    /// As typed, without an entry.
    name: Vec<u8>,
    /// Whether the first entry was named by date, and with it all are; if it was not named, `--date` decides.
    is_dated: Option<bool>,
    /// Numbers and changes, oldest first.
    entries: Vec<(usize, LoggedChange)>,
    /// What is said of a log that begins later than its first entry to show.
    since: Option<String>,
}

/// Implements `git reflog show`.
pub fn run(call: &Call, repository: &Repository, args: &ReflogShowOptions) -> Result<(), Fatal> {
    leave_log(call, repository.config())?;
    let head = [OsString::from("HEAD")];
    let names = if args.names.is_empty() { &head[..] } else { &args.names };
    let style = style(call, repository, &args.log)?;
    let format = format(repository, &args.log, &style, LogFormat::one_line, true)?;
    let mut reader = repository.snapshot()?.reader(cache_bytes::MANY_OBJECTS);
    let mut logs = Vec::new();
    for name in names {
        logs.push(shown_log(repository, &mut reader, name.as_encoded_bytes())?);
    }
    print(call, repository, logs, &args.log, &format)
}

/// Implements `git stash list` for the reflog of the stash.
pub fn of_stash(
    call: &Call,
    repository: &Repository,
    name: &[u8],
    options: &LogOptions,
) -> Result<(), Fatal> {
    leave_log(call, repository.config())?;
    let mut reader = repository.snapshot()?.reader(cache_bytes::MANY_OBJECTS);
    let logs = vec![shown_log(repository, &mut reader, name)?];
    let style = style(call, repository, options)?;
    let usual = |style: &LogStyle| LogFormat::parse(b"%gd: %gs", style);
    let format = format(repository, options, &style, usual, false)?;
    print(call, repository, logs, options, &format)
}

/// The entries of a reflog that point to commits, from the one that is typed on.
fn shown_log(repository: &Repository, reader: &mut ObjectReader, typed: &[u8]) -> Result<ShownLog, Fatal> {
    let unknown = || {
        let shown = String::from_utf8_lossy(typed);
        Fatal::new(format!(
            "ambiguous argument '{shown}': unknown revision or path not in the working tree.\n\
             Use '--' to separate paths from revisions, like this:\n\
             'git <command> [<revision>...] -- [<file>...]'"
        ))
        // Git knows more names, and paths.
        .unless_git()
    };
    let (name, first) = match entry(typed).filter(|_| typed.ends_with(b"}")) {
        Some((name, spec)) => (name, Some(first_entry(spec).ok_or_else(unknown)?)),
        None => (typed, None),
    };
    let name = match name {
        b"" => current_branch(repository)?,
        b"@" => b"HEAD".to_vec(),
        name => name.to_vec(),
    };
    let is_dated = first.as_ref().map(|first| matches!(first, FirstEntry::At(_)));
    let refs = repository.refs();
    let log_of = |name: &[u8]| refs.log(name).map_err(Fatal::new);
    let resolved = |name: &[u8]| refs.resolve(name).map_err(Fatal::new);
    let full = match logged_name(repository, &name)? {
        Some(full) => full,
        None => {
            let last = resolved(&ref_name(repository, &name)?.ok_or_else(unknown)?)?;
            let Some(last) = last.filter(|last| log_of(&last.name).is_ok_and(|log| log.is_some())) else {
                if first.is_some() {
                    return Err(unknown());
                }
                return Ok(ShownLog { name, is_dated, entries: Vec::new(), since: None });
            };
            last.name
        }
    };
    // Git tells other names in full.
    let is_told = name == b"HEAD"
        || [&b""[..], b"refs/", b"refs/heads/"].iter().any(|dir| full == [dir, &name[..]].concat());
    let name = if is_told { name } else { full.clone() };
    let mut log = log_of(&full)?.unwrap_or_default();
    if log.is_empty()
        && let Some(last) = resolved(&full)?
    {
        // That of a symbolic ref is continued by the one of its target.
        log = log_of(&last.name)?.unwrap_or_default();
    }
    let count = log.len();
    // Git tells the name that was typed, and for none that of the branch.
    let told =
        if typed.starts_with(b"@{") { name.strip_prefix(b"refs/heads/").unwrap_or(&name) } else { &name };
    let (shown, since) = shown_count(&full, told, &log, first)?;
    // As in git, such a number is a time for whoever looks for one entry, and the number of none for a list.
    let is_number = |(_, spec): (&[u8], &[u8])| spec.iter().all(u8::is_ascii_digit);
    let is_beyond = is_dated == Some(true) && entry(typed).is_some_and(is_number);
    let start = match is_dated {
        None => resolved(&full)?.map(|last| last.id),
        Some(_) => shown.checked_sub(1).map(|last| log[last].new),
    };
    if let Some(start) = start
        && !start.is_null()
        && reader.kind_and_size(&start)?.is_none()
    {
        return Err(Fatal::new(format!("bad object {}", String::from_utf8_lossy(typed))));
    }
    log.truncate(if is_beyond { 0 } else { shown });
    let entries = of_commits(reader, count, log)?;
    Ok(ShownLog { name, is_dated, entries, since })
}

/// The entries that point to commits, with the number of each in a log of `count` entries.
fn of_commits(
    reader: &mut ObjectReader,
    count: usize,
    log: Vec<LoggedChange>,
) -> Result<Vec<(usize, LoggedChange)>, Fatal> {
    let mut entries = Vec::new();
    for (position, change) in log.into_iter().enumerate() {
        let is_commit = !change.new.is_null()
            && reader.kind_and_size(&change.new)?.is_some_and(|(kind, _)| kind == Kind::Commit);
        if is_commit {
            entries.push((count - 1 - position, change));
        }
    }
    Ok(entries)
}

/// What placeholders take from options and configuration.
fn style(call: &Call, repository: &Repository, options: &LogOptions) -> Result<LogStyle, Fatal> {
    call.environment.booleans.check(&["GIT_PAGER_IN_USE"])?;
    let config = repository.config();
    let is_terminal = call.streams.output().is_terminal();
    let date = match &options.date {
        Some(date) => date.clone().into_bytes(),
        None => config.string("log.date").unwrap_or_default(),
    };
    if options.date.as_deref() == Some("") {
        return Err(Fatal::new("unknown date format "));
    }
    DateFormat::parse(&date, is_terminal)?;
    let has_color = match config.string("color.ui").as_deref() {
        Some(b"always") => true,
        Some(b"never" | b"false") => false,
        _ => is_terminal,
    };
    let digits = options.abbrev.map(|digits| digits.max(4));
    let short = if options.no_abbrev { "" } else { "short" };
    Ok(LogStyle { date, short, digits, has_color, is_terminal })
}

/// The format that the options choose, or `usual`.
fn format(
    repository: &Repository,
    options: &LogOptions,
    style: &LogStyle,
    usual: impl Fn(&LogStyle) -> Result<LogFormat, Fatal>,
    abbreviates: bool,
) -> Result<LogFormat, Fatal> {
    let short = if options.abbrev_commit.unwrap_or(abbreviates) { style.short } else { "" };
    let of_lines = LogStyle { date: style.date.clone(), short, ..*style };
    match &options.format {
        None => usual(&of_lines),
        Some(text) => match LogFormat::named(text.as_encoded_bytes(), repository.config(), style)? {
            Some(format) => Ok(format),
            None => LogFormat::one_line(&of_lines),
        },
    }
}

/// Writes the entries, newest first.
fn print(
    call: &Call,
    repository: &Repository,
    mut logs: Vec<ShownLog>,
    options: &LogOptions,
    format: &LogFormat,
) -> Result<(), Fatal> {
    let since = options.since.as_deref().map(time).transpose()?.unwrap_or(0);
    let until = options.until.as_deref().map(time).transpose()?.unwrap_or(u64::MAX);
    for log in &mut logs {
        if let Some(since) = &log.since {
            error_line!(call, "{since}");
        }
        log.entries.retain(|(_, change)| (since..=until).contains(&change.seconds()));
    }
    let is_terminal = call.streams.output().is_terminal();
    let date = DateFormat::parse(options.date.as_deref().unwrap_or_default().as_bytes(), is_terminal)?;
    let names = EntryNames::of(repository, &logs, options.date.is_some(), date, format)?;
    let objects = ListedObjects::new(call, repository);
    // No placeholder asks for refs.
    let refs = repository.refs().snapshot(&[b"HEAD"]).map_err(Fatal::new)?;
    let mut values = Values::new(call, &objects, &refs);
    values.is_utf8 = true;
    let encoding = output_encoding(repository.config()).filter(|_| format.is_reencoded);
    let mut text = Vec::new();
    let last = options.max_count.unwrap_or(usize::MAX).saturating_add(options.skip);
    let mut count = 0;
    while count < last
        && let Some((log, number, change)) = newest(&mut logs)
    {
        count += 1;
        if count <= options.skip {
            continue;
        }
        let [selector, short_selector] = names.selectors(log, number, &change)?;
        if count > options.skip + 1 && !format.is_terminated {
            text.push(b'\n');
        }
        let (id, who, message) = (change.new, &change.who, &change.message);
        let entry = ShownEntry { id, selector: &selector, short_selector: &short_selector, who, message };
        let begin = text.len();
        format.write(&mut values, &entry, &mut text)?;
        if let Some(encoding) = &encoding {
            let line = text.split_off(begin);
            text.extend(reencoded(&line, None, Some(encoding)));
        }
        if format.is_terminated && !format.is_empty {
            text.push(b'\n');
        }
        if text.len() >= WRITE_BYTES {
            call.write(&text)?;
            text.clear();
        }
    }
    call.write(&text)
}

/// The encoding of the output, if it is set.
fn output_encoding(config: &Config) -> Option<Vec<u8>> {
    config.string("i18n.logOutputEncoding").or_else(|| config.string("i18n.commitEncoding"))
}

/// Takes the newest entry; with several reflogs, the newest of all.
fn newest(logs: &mut [ShownLog]) -> Option<(usize, usize, LoggedChange)> {
    let seconds = |log: &ShownLog| log.entries.last().map(|(_, change)| change.seconds());
    let with_entries = (0..logs.len()).filter(|at| !logs[*at].entries.is_empty());
    let at = with_entries.reduce(|a, b| if seconds(&logs[b]) > seconds(&logs[a]) { b } else { a })?;
    let (number, change) = logs[at].entries.pop()?;
    Some((at, number, change))
}

/// Names entries.
struct EntryNames {
    /// For each reflog, its name, its short name, and whether entries are named by date.
    logs: Vec<([Vec<u8>; 2], bool)>,
    date: DateFormat,
    now: i64,
}

impl EntryNames {
    fn of(
        repository: &Repository,
        logs: &[ShownLog],
        has_date: bool,
        date: DateFormat,
        format: &LogFormat,
    ) -> Result<Self, Fatal> {
        let is_strict = repository.config().boolean("core.warnAmbiguousRefs")?.unwrap_or(true);
        let mut exists = |name: &[u8]| Ok(repository.refs().read(name).map_err(Fatal::new)?.is_some());
        let mut named = Vec::new();
        for log in logs {
            let short = match format.has_short_selector() {
                true => shorten(&log.name, is_strict, &mut exists)?,
                false => &log.name,
            };
            named.push(([log.name.clone(), short.to_vec()], log.is_dated.unwrap_or(has_date)));
        }
        Ok(EntryNames { logs: named, date, now: ref_filter::now() })
    }

    /// The names of an entry by the name of its ref, and by the short one.
    fn selectors(&self, log: usize, number: usize, change: &LoggedChange) -> Result<[Vec<u8>; 2], Fatal> {
        let (names, is_dated) = &self.logs[log];
        let mut inner = Vec::new();
        match ref_filter::moment(&change.who).filter(|_| *is_dated) {
            Some(moment) => self.date.write(moment, self.now, &mut inner)?,
            None => inner = number.to_string().into_bytes(),
        }
        Ok([0, 1].map(|at| [&names[at], &b"@{"[..], &inner, b"}"].concat()))
    }
}

/// The time that `--since` and `--until` give, in seconds since 1970.
fn time(text: &str) -> Result<u64, Fatal> {
    let seconds = expiry(text).ok_or_else(|| Fatal::new(format!("not a date: '{text}'")))?;
    Ok(u64::try_from(seconds).unwrap_or(0))
}
