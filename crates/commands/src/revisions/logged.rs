//! Names of entries of reflogs (gitrevisions, `<refname>@{<date>}`, `<refname>@{<n>}`).

use packrace_store::Repository;
use packrace_store::expiry::expiry;
use packrace_store::refs::{LoggedChange, SHORT_NAME_RULES, Value, is_good_name};

use crate::call::fatal::Fatal;

/// Most digits of the number of an entry; more are seconds since 1970 (watched).
const MAX_DIGITS: usize = 8;

/// An entry of a reflog.
pub(crate) enum FirstEntry {
    /// By number, from the newest.
    Number(usize),
    /// The last one at this time, in seconds since 1970.
    At(u64),
}

/// Splits `name@{N}`.
pub(crate) fn entry(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.windows(2).position(|pair| pair == b"@{")?;
    let spec = &text[at + 2..];
    Some((&text[..at], spec.strip_suffix(b"}").unwrap_or(spec)))
}

/// What is between the braces, if it is a number or a date.
pub(crate) fn first_entry(spec: &[u8]) -> Option<FirstEntry> {
    let is_long = spec.len() > MAX_DIGITS;
    // What begins so is about checkouts, or nothing.
    let at = || moment(spec).filter(|_| !spec.starts_with(b"-")).map(FirstEntry::At);
    number(spec).filter(|_| !is_long).map(FirstEntry::Number).or_else(at)
}

/// The same for a name that selects a single object: a moment that expiry has beside dates is none.
pub(super) fn one_entry(spec: &[u8]) -> Option<FirstEntry> {
    match spec {
        b"" | b"all" | b"never" | b"false" => None,
        _ => first_entry(spec),
    }
}

/// A number of an entry: only digits, so ` 0` and `+0` are dates.
pub(crate) fn number(spec: &[u8]) -> Option<usize> {
    if !spec.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(spec).ok()?.parse().ok()
}

/// Seconds since 1970.
pub(crate) fn moment(spec: &[u8]) -> Option<u64> {
    u64::try_from(expiry(std::str::from_utf8(spec).ok()?)?).ok()
}

/// How many entries of a log, from its oldest, are the first to show and those before it, and what is said of a log that begins
/// later. It is that of the ref `full`.
pub(crate) fn shown_count(
    full: &[u8],
    typed: &[u8],
    log: &[LoggedChange],
    first: Option<FirstEntry>,
) -> Result<(usize, Option<String>), Fatal> {
    let shown = || String::from_utf8_lossy(typed).into_owned();
    match first {
        None => Ok((log.len(), None)),
        // The newest of none is the ref itself.
        Some(FirstEntry::Number(0)) if log.is_empty() => Ok((0, None)),
        Some(FirstEntry::Number(_)) if log.is_empty() => {
            Err(Fatal::new(format!("log for {} is empty", String::from_utf8_lossy(full))))
        }
        Some(FirstEntry::Number(number)) => log
            .len()
            .checked_sub(number)
            // What the oldest entry has changed is an entry too, of which there is nothing to show.
            .filter(|left| *left > 0 || log.first().is_some_and(|oldest| !oldest.old.is_null()))
            .map(|left| (left, None))
            .ok_or_else(|| Fatal::new(format!("log for '{}' only has {} entries", shown(), log.len()))),
        Some(FirstEntry::At(moment)) => {
            let last = log.iter().rposition(|change| change.seconds() <= moment);
            let Some(oldest) = log.first().filter(|_| last.is_none()) else {
                return Ok((last.map_or(0, |last| last + 1), None));
            };
            let since = date(&oldest.who).unwrap_or_default();
            Ok((0, Some(format!("warning: log for '{}' only goes back to {since}", shown()))))
        }
    }
}

/// The date of a person line, as in a mail.
fn date(who: &[u8]) -> Option<String> {
    let at = who.windows(2).position(|pair| pair == b"> ")?;
    let time = gix_date::parse_header(std::str::from_utf8(&who[at + 2..]).ok()?)?;
    time.format(gix_date::time::format::GIT_RFC2822).ok()
}

/// The ref whose reflog a short name selects.
pub(crate) fn logged_name(repository: &Repository, name: &[u8]) -> Result<Option<Vec<u8>>, Fatal> {
    full_name(name, &|full| Ok(repository.refs().log(full).map_err(Fatal::new)?.is_some()))
}

/// The ref that a short name selects.
pub(crate) fn ref_name(repository: &Repository, name: &[u8]) -> Result<Option<Vec<u8>>, Fatal> {
    full_name(name, &|full| Ok(repository.refs().resolve(full).map_err(Fatal::new)?.is_some()))
}

fn full_name(name: &[u8], is_there: &dyn Fn(&[u8]) -> Result<bool, Fatal>) -> Result<Option<Vec<u8>>, Fatal> {
    let name = if name == b"@" { b"HEAD" } else { name };
    for (before, after) in SHORT_NAME_RULES {
        let full = [before, name, after].concat();
        if is_good_name(&full) && is_there(&full)? {
            return Ok(Some(full));
        }
    }
    Ok(None)
}

/// The branch that `@{…}` is about, or `HEAD` itself.
pub(crate) fn current_branch(repository: &Repository) -> Result<Vec<u8>, Fatal> {
    Ok(match repository.refs().read(b"HEAD").map_err(Fatal::new)? {
        Some(Value::Symbolic(target)) => target.to_vec(),
        _ => b"HEAD".to_vec(),
    })
}
