//! `git for-each-ref`: lists refs in a given format.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;

use crate::call::Call;
use crate::call::discovery::{repository_with_replacements, with_refs};
use crate::call::fatal::Fatal;
use crate::options::ForEachRefOptions;
use crate::ref_filter::{self, CommitFilter, CommitFilterOptions, ListedObjects, ListingRequest, Quoting};

/// Longest list of patterns on standard input.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Implements `git for-each-ref`.
pub fn run(call: &Call, args: &ForEachRefOptions) -> Result<(), Fatal> {
    let repository = with_refs(repository_with_replacements(call)?)?;
    let objects = ListedObjects::new(call, &repository);
    // As in git, where these are read, and colours, before what other options say is looked at.
    let commits = CommitFilter::parse(&objects, &named(args))?;
    let has_color = has_color(call, args)?;
    let request = request(call, args, has_color)?;
    call.environment.booleans.check(&["GIT_REF_PARANOIA"])?;
    ref_filter::list(&objects, &commits, &request)
}

/// Only looks up the objects that options name.
pub fn check(call: &Call, args: &ForEachRefOptions) -> Result<(), Fatal> {
    let repository = with_refs(repository_with_replacements(call)?)?;
    CommitFilter::parse(&ListedObjects::new(call, &repository), &named(args)).map(drop)
}

fn named(args: &ForEachRefOptions) -> CommitFilterOptions {
    CommitFilterOptions {
        points_at: bytes(&args.points_at),
        merged: bytes(&args.merged),
        not_merged: bytes(&args.no_merged),
        contains: bytes(&args.contains),
        not_contains: bytes(&args.no_contains),
    }
}

fn request(call: &Call, args: &ForEachRefOptions, has_color: bool) -> Result<ListingRequest, Fatal> {
    let count = match args.count {
        Some(count) if count < 0 => {
            let refused = Fatal::refused(format!("invalid --count argument: `{count}'"));
            return Err(refused.with_usage_of("for-each-ref"));
        }
        Some(0) | None => None,
        Some(count) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
    };
    let mut patterns = bytes(&args.pattern);
    if args.stdin {
        if !patterns.is_empty() {
            return Err(Fatal::new("unknown arguments supplied with --stdin"));
        }
        patterns = lines_of_stdin(call)?;
    }
    if args.start_after.is_some() {
        if !args.sort.is_empty() {
            return Err(Fatal::new("cannot use --start-after with custom sort options"));
        }
        if !patterns.is_empty() {
            return Err(Fatal::new("cannot use --start-after with patterns"));
        }
    }
    Ok(ListingRequest {
        patterns,
        after: args.start_after.clone().map(OsString::into_vec),
        excluded: bytes(&args.exclude),
        folds_case: args.ignore_case,
        has_root_refs: args.include_root_refs,
        sort: bytes(&args.sort),
        format: args.format.clone().map(OsString::into_vec),
        quoting: quoting(args)?,
        has_color,
        omits_empty: args.omit_empty,
        count,
    })
}

fn bytes(texts: &[OsString]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.clone().into_vec()).collect()
}

fn lines_of_stdin(call: &Call) -> Result<Vec<Vec<u8>>, Fatal> {
    let mut text = Vec::new();
    call.streams.input().take(MAX_INPUT_BYTES).read_to_end(&mut text).map_err(Fatal::new)?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).collect())
}

fn quoting(args: &ForEachRefOptions) -> Result<Quoting, Fatal> {
    let asked = [
        (args.shell, Quoting::Shell),
        (args.perl, Quoting::Perl),
        (args.python, Quoting::Python),
        (args.tcl, Quoting::Tcl),
    ];
    let mut asked = asked.into_iter().filter_map(|(is_asked, quoting)| is_asked.then_some(quoting));
    let first = asked.next().unwrap_or_default();
    match asked.next() {
        None => Ok(first),
        Some(_) => Err(Fatal::refused("more than one quoting style?").with_usage_of("for-each-ref")),
    }
}

/// Whether to write colours.
fn has_color(call: &Call, args: &ForEachRefOptions) -> Result<bool, Fatal> {
    let is_terminal = || call.streams.output().is_terminal();
    args.color.as_ref().map_or(Ok(false), |when| is_colored(&when.to_string_lossy(), &is_terminal))
}

/// What `--color` says: `auto` means only to a terminal.
pub(crate) fn is_colored(when: &str, is_terminal: &dyn Fn() -> bool) -> Result<bool, Fatal> {
    match when {
        "always" => Ok(true),
        "never" => Ok(false),
        "auto" => Ok(is_terminal()),
        _ => Err(Fatal::refused("option `color' expects \"always\", \"auto\", or \"never\"")),
    }
}
